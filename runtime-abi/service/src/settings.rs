//! Keys of a configuration. Unknown keys are ignored without looking at their values, as OAAX demands; a bad
//! value of a known key is an error.
//!
//! Known: `num_threads`, `log_level` (0 to 6), `log_file`, `device_type` (CPU, GPU or AUTO), and our own
//! `oaaxc.queue_depth` (requests a model, default 1024), `oaaxc.queue_full` (`error`, `timeout`),
//! `oaaxc.cpu_level`, `oaaxc.variant`, `oaaxc.device`, `oaaxc.manifest_sha256`, `oaaxc.verify` (`open`, `run`).

use crate::status::{Failure, Outcome, Status};
use oaax_core::{Options, Verify, digest_from_hex};

/// What the keys say.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How models are opened.
    pub options: Options,
    /// Requests that may wait for one model.
    pub queue_depth: usize,
    /// What a full queue gives.
    pub queue_full: Status,
    /// 0 (everything) to 6 (nothing).
    pub log_level: u32,
    /// Where to log.
    pub log_file: Option<String>,
}

impl Default for Settings {
    fn default() -> Settings {
        let (options, queue_full) = (Options::default(), Status::Error);
        Settings { options, queue_depth: 1024, queue_full, log_level: 2, log_file: None }
    }
}

/// Whether a key means something here. The value of another key must not be looked at.
pub fn is_known(key: &str) -> bool {
    KNOWN.contains(&key)
}

impl Settings {
    /// Takes a known key's value in; others are ignored. Errors: the value is not one of the key's.
    pub fn set(&mut self, key: &str, value: &str) -> Outcome<()> {
        let value = value.trim();
        let number = |least: u32, most: u32| match value.parse::<u32>() {
            Ok(number) if (least..=most).contains(&number) => Ok(number),
            _ => Err(wrong(format!("{key} is {value:?}, not a number from {least} to {most}"))),
        };
        match key {
            "num_threads" => self.options.threads = number(0, 1024)? as usize,
            "log_level" => self.log_level = number(0, 6)?,
            "log_file" => self.log_file = Some(value.to_owned()).filter(|path| !path.is_empty()),
            "device_type" => match value.to_ascii_uppercase().as_str() {
                "AUTO" => {}
                "CPU" => self.options.device = Some("cpu".to_owned()),
                "GPU" => self.options.device = Some("gpu".to_owned()),
                _ => {
                    let message = format!("device_type {value:?} is not driven here, CPU and GPU are");
                    return Err(Failure::new(Status::DeviceError, message));
                }
            },
            "oaaxc.queue_depth" => self.queue_depth = number(1, 1 << 20)? as usize,
            "oaaxc.queue_full" => {
                self.queue_full = match value {
                    "error" => Status::Error,
                    "timeout" => Status::Timeout,
                    _ => return Err(wrong(format!("{key} is {value:?}, not error or timeout"))),
                }
            }
            "oaaxc.cpu_level" => self.options.cpu_level = Some(value.to_owned()),
            "oaaxc.device" => self.options.device = Some(value.to_owned()).filter(|device| !device.is_empty()),
            "oaaxc.variant" => self.options.variant = Some(value.to_owned()),
            "oaaxc.manifest_sha256" => match digest_from_hex(value) {
                Some(digest) => self.options.manifest_digest = Some(digest),
                None => return Err(wrong(format!("{key} is {value:?}, not 64 lower-case hexadecimal digits"))),
            },
            "oaaxc.verify" => {
                self.options.verify = match value {
                    "open" => Verify::AtOpen,
                    "run" => Verify::AtFirstRun,
                    _ => return Err(wrong(format!("{key} is {value:?}, not open or run"))),
                }
            }
            _ => {}
        }
        Ok(())
    }
}

const KNOWN: &[&str] = &[
    "num_threads",
    "log_level",
    "log_file",
    "device_type",
    "oaaxc.queue_depth",
    "oaaxc.queue_full",
    "oaaxc.cpu_level",
    "oaaxc.device",
    "oaaxc.variant",
    "oaaxc.manifest_sha256",
    "oaaxc.verify",
];

fn wrong(message: String) -> Failure {
    Failure::new(Status::InvalidArgument, message)
}
