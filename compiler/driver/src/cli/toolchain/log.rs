//! The log of a conversion in the form that OAAX's tools read: a JSON array of objects with `Message` and
//! `Data`, under both names that are in use.
//!
//! Promises: a log is complete or absent. Only the log holds times.

use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

/// The names of the two equal files: what toolchains write, and what the standard says.
pub const NAMES: [&str; 2] = ["logs.json", "conversion-log.json"];

/// What was said so far.
pub struct Log(Vec<Value>);

/// Seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs())
}

impl Log {
    /// Nothing said.
    pub fn new() -> Log {
        Log(Vec::new())
    }
    /// Adds an element.
    pub fn add(&mut self, message: &str, data: Value) {
        self.0.push(json!({ "Message": message, "Data": data }));
    }
    /// Writes both files, each at once.
    pub fn write(&self, folder: &Path) -> std::io::Result<()> {
        use std::os::unix::fs::PermissionsExt;
        let text = format!("{:#}\n", Value::from(self.0.clone()));
        for name in NAMES {
            // As any file that the user makes: what the umask leaves of this.
            let permissions = std::fs::Permissions::from_mode(0o666);
            let mut file = tempfile::Builder::new().prefix(".log-").permissions(permissions).tempfile_in(folder)?;
            file.write_all(text.as_bytes())?;
            file.persist(folder.join(name)).map_err(|error| error.error)?;
        }
        Ok(())
    }
}
