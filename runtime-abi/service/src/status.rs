//! What a call gives: the numbers of OAAX 2.0, and a sentence for every failure.

/// `RuntimeStatus` of OAAX 2.0; to an OAAX 1.x host all but 0 mean the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
#[allow(missing_docs)] // The names are those of the header, which says what they mean.
pub enum Status {
    Success = 0,
    Error = 1,
    NotInitialized = 2,
    AlreadyInitialized = 3,
    ModelNotLoaded = 4,
    InvalidArgument = 5,
    InvalidModel = 6,
    FileNotFound = 7,
    OutOfMemory = 8,
    InvalidTensor = 9,
    ShapeMismatch = 10,
    TypeMismatch = 11,
    NoOutputAvailable = 12,
    InferenceError = 13,
    NotImplemented = 14,
    Timeout = 15,
    DeviceError = 16,
    UnknownError = 17,
    InvalidModelId = 18,
}

/// A failure of a call: status and sentence.
#[derive(Clone, Debug)]
pub struct Failure {
    /// For programs.
    pub status: Status,
    /// For people.
    pub message: String,
}

impl Failure {
    /// A failure with its sentence.
    pub fn new(status: Status, message: impl Into<String>) -> Failure {
        Failure { status, message: message.into() }
    }
}

impl From<oaax_core::Error> for Failure {
    fn from(error: oaax_core::Error) -> Failure {
        use oaax_core::Status as Core;
        let status = match error.status {
            Core::InvalidArgument | Core::OutputTooSmall => Status::InvalidArgument,
            Core::NotFound => Status::FileNotFound,
            Core::InvalidModel | Core::Tampered => Status::InvalidModel,
            Core::Unsupported | Core::DeviceError => Status::DeviceError,
            Core::ShapeMismatch => Status::ShapeMismatch,
            Core::TypeMismatch => Status::TypeMismatch,
            Core::OutOfMemory => Status::OutOfMemory,
            Core::RunFailed => Status::InferenceError,
            Core::Internal => Status::UnknownError,
            Core::NotImplemented => Status::NotImplemented,
        };
        Failure::new(status, error.to_string())
    }
}

/// Result of this crate.
pub type Outcome<T> = Result<T, Failure>;
