//! The one error of this crate.
//!
//! Promises: says which of three parties is at fault: the machine (`Io`), the package that a caller asked to
//! write (`Package`), or the bytes that were read (`Invalid`), and names the place.

use std::{fmt, io, path::PathBuf};

/// Result of everything in this crate.
pub type Result<T> = std::result::Result<T, ContainerError>;

/// Why a container could not be written or read.
#[derive(Debug)]
pub enum ContainerError {
    /// The operating system refused.
    Io {
        /// What was being done, as a verb phrase: "write", "create".
        doing: &'static str,
        /// The file concerned.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The caller's package cannot be written as it is.
    Package {
        /// A full sentence without its dot.
        reason: String,
    },
    /// What was read is not a package that this reader accepts.
    Invalid {
        /// Where: a file, blob, layer entry or field.
        place: String,
        /// What is wrong there.
        reason: String,
    },
}

impl ContainerError {
    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        ContainerError::Io { doing, path: path.into(), source }
    }

    pub(crate) fn package(reason: impl Into<String>) -> Self {
        ContainerError::Package { reason: reason.into() }
    }

    pub(crate) fn invalid(place: impl Into<String>, reason: impl Into<String>) -> Self {
        ContainerError::Invalid { place: place.into(), reason: reason.into() }
    }
}

impl fmt::Display for ContainerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ContainerError::Io { doing, path, source } => write!(f, "cannot {doing} {}: {source}", path.display()),
            ContainerError::Package { reason } => {
                write!(f, "the package cannot be written: {reason}")
            }
            ContainerError::Invalid { place, reason } => write!(f, "{place}: {reason}"),
        }
    }
}

impl std::error::Error for ContainerError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ContainerError::Io { source, .. } => Some(source),
            ContainerError::Package { .. } | ContainerError::Invalid { .. } => None,
        }
    }
}
