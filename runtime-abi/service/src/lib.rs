//! What the two OAAX libraries share: models with their queues and workers, the keys of a
//! configuration, and the texts that a host may read after a call.
//!
//! Promises: nothing here knows the layout of a C struct; a request is taken over whole or given back;
//! every accepted request gives one answer, be it a failure; waiting threads are woken, nothing polls.
//! Never: writes anywhere but to the log file that the host names.

mod engine;
mod memory;
mod settings;
mod status;
mod texts;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use engine::{Done, Engine, Loaded, Request, Source};
pub use memory::block;
pub use settings::{Settings, is_known};
pub use status::{Failure, Outcome, Status};
pub use texts::{Log, Texts};

/// Calls `body`; keeps the sentence of a failure and logs it; a panic stops here and is a failure too.
pub fn guard(errors: &Texts, log: &Log, body: impl FnOnce() -> Outcome<()>) -> Status {
    let bug = || Err(Failure::new(Status::UnknownError, "the runtime met a bug of its own"));
    match catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| bug()) {
        Ok(()) => Status::Success,
        Err(failure) => {
            errors.set(&failure.message);
            log.write(&failure.message);
            failure.status
        }
    }
}
