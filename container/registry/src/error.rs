//! The one error of this crate.
//!
//! Promises: says who is at fault: the caller's words (`Request`), the network or the machine (`Transport`), the
//! server by its status (`Status`), or what came back (`Invalid`).

use std::fmt;

use oaaxc_container::ContainerError;

/// Result of everything in this crate.
pub type Result<T> = std::result::Result<T, RegistryError>;

/// Why something did not travel.
#[derive(Debug)]
pub enum RegistryError {
    /// What the caller asked for makes no sense.
    Request(String),
    /// The connection, or a file of this machine, failed; trying again may help.
    Transport(String),
    /// The server refused.
    Status {
        /// Its HTTP status.
        status: u16,
        /// What was asked, and the server's words.
        message: String,
    },
    /// What was received is not what its digest or descriptor says, or is beyond a limit.
    Invalid(String),
}

impl RegistryError {
    /// Whether the server said that there is no such thing.
    pub fn is_missing(&self) -> bool {
        matches!(self, RegistryError::Status { status: 404, .. })
    }

    pub(crate) fn is_passing(&self) -> bool {
        match self {
            RegistryError::Transport(_) => true,
            RegistryError::Status { status, .. } => matches!(status, 429 | 500 | 502 | 503 | 504),
            RegistryError::Request(_) | RegistryError::Invalid(_) => false,
        }
    }

    pub(crate) fn file(doing: &str, path: &std::path::Path, error: &std::io::Error) -> RegistryError {
        RegistryError::Transport(format!("cannot {doing} {}: {error}", path.display()))
    }
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegistryError::Request(text) | RegistryError::Transport(text) | RegistryError::Invalid(text) => f.write_str(text),
            RegistryError::Status { status, message } => write!(f, "the registry answers {status}: {message}"),
        }
    }
}

impl std::error::Error for RegistryError {}

impl From<ContainerError> for RegistryError {
    fn from(error: ContainerError) -> RegistryError {
        RegistryError::Invalid(error.to_string())
    }
}
