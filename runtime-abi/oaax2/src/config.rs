//! `Config` as settings: what the header's arrays say. Entries without a key or a value are skipped.

use crate::types::{Config, ModelConfig};
use oaax_service::{Failure, Outcome, Settings, Source, Status, is_known};
use std::ffi::{CStr, c_char};

/// # Safety
/// `text` is null or NUL-terminated.
pub unsafe fn text(text: *const c_char) -> Option<String> {
    // SAFETY: by this function's contract.
    (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// `settings` with what `config` says.
///
/// # Safety
/// `config` as the header says; arrays and entries may be null.
pub unsafe fn with(mut settings: Settings, config: &Config) -> Outcome<Settings> {
    let wrong = |message: &str| Failure::new(Status::InvalidArgument, message);
    let count = usize::try_from(config.length).map_err(|_| wrong("a Config has a negative length"))?;
    if count > 0 && (config.keys.is_null() || config.values.is_null()) {
        return Err(wrong("a Config with entries has no arrays"));
    }
    for index in 0..count {
        // SAFETY: by this function's contract both arrays have `length` entries.
        let (key, value) = unsafe { (*config.keys.add(index), *config.values.add(index)) };
        // SAFETY: keys are strings or null.
        let Some(key) = (unsafe { text(key) }).filter(|key| is_known(key)) else { continue };
        // SAFETY: values of known keys are strings or null.
        let Some(value) = (unsafe { text(value) }) else { continue };
        settings.set(&key, &value)?;
    }
    Ok(settings)
}

/// Where a model lies; bytes go before a path where both are given.
///
/// # Safety
/// `config` as the header says; the source must be used while it stands.
pub unsafe fn source(config: &ModelConfig) -> Outcome<Source<'_>> {
    // SAFETY: a string or null.
    let path = unsafe { text(config.file_path) };
    match (config.model_data.is_null(), path) {
        (false, _) if config.model_size > isize::MAX as usize => {
            Err(Failure::new(Status::InvalidArgument, "model_size is impossible"))
        }
        // SAFETY: the caller gives as many bytes.
        (false, _) => Ok(Source::Memory(unsafe { std::slice::from_raw_parts(config.model_data, config.model_size) })),
        (true, Some(path)) => Ok(Source::File(path)),
        (true, None) => Err(Failure::new(Status::InvalidArgument, "a ModelConfig has neither file_path nor model_data")),
    }
}
