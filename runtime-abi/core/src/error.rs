//! Errors of the runtime: a status for programs, a sentence for people, and the node where there is one.

use std::fmt;

/// What went wrong, coarsely. The numbers are those of `oaaxc_rt.h`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Status {
    /// The caller broke the interface.
    InvalidArgument = 1,
    /// A file or entry does not exist or cannot be read.
    NotFound = 2,
    /// The artefact is damaged, of a later version, or not an artefact.
    InvalidModel = 3,
    /// A digest does not fit: the artefact was changed.
    Tampered = 4,
    /// Nothing in the artefact runs on this machine.
    Unsupported = 5,
    /// An input's rank or dims are not what the model takes.
    ShapeMismatch = 6,
    /// An input's element type is not what the model takes.
    TypeMismatch = 7,
    /// No memory.
    OutOfMemory = 8,
    /// The run met a fault: an index out of range, a failed check.
    RunFailed = 9,
    /// A caller's output buffer is too small.
    OutputTooSmall = 10,
    /// A bug of the runtime.
    Internal = 11,
    /// The model needs something that this runtime does not do yet.
    NotImplemented = 12,
    /// No device that the artefact needs, or a device's driver failed.
    DeviceError = 13,
}

/// An error with its sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// For programs.
    pub status: Status,
    /// For people: what was expected, what was found.
    pub message: String,
    /// The ONNX node, if one is to blame.
    pub node: Option<String>,
}

impl Error {
    /// An error without a node.
    pub fn new(status: Status, message: impl Into<String>) -> Error {
        Error { status, message: message.into(), node: None }
    }

    /// The same error, blamed on a node (unless one is blamed already).
    pub fn at(mut self, node: &str) -> Error {
        if self.node.is_none() && !node.is_empty() {
            self.node = Some(node.to_owned());
        }
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Some(node) => write!(f, "node {node:?}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Error {}

impl From<oaax_abi::ParseError> for Error {
    fn from(error: oaax_abi::ParseError) -> Error {
        Error::new(Status::InvalidModel, error.to_string())
    }
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Fails with a status and a formatted sentence.
macro_rules! fail {
    ($status:ident, $($part:tt)*) => {
        return Err($crate::error::Error::new($crate::error::Status::$status, format!($($part)*)))
    };
}
pub(crate) use fail;
