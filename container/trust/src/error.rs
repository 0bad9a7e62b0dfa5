//! The one error of this crate.
//!
//! Promises: a refusal says which rule refused; no message holds key material.

use std::fmt;

/// Result of everything in this crate.
pub type Result<T> = std::result::Result<T, TrustError>;

/// Why something is not trusted, or could not be signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustError(pub String);

impl fmt::Display for TrustError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TrustError {}

pub(crate) fn refuse<T>(reason: impl Into<String>) -> Result<T> {
    Err(TrustError(reason.into()))
}
