//! Threads started by plain `pthread_create`.
//!
//! Why not `std::thread`: spawning leaves a thread-local with a destructor on the caller's thread,
//! which keeps a `dlopen`ed library mapped after `dlclose`. Promises: a thread is joined when its
//! handle is dropped; a panic in it ends the thread, never the process.

use crate::error::{Error, Result, Status};
use std::{ffi::c_void, panic::AssertUnwindSafe, ptr::null};

/// A running thread.
#[derive(Debug)]
pub struct Thread {
    id: libc::pthread_t,
}

type Body = Box<dyn FnOnce() + Send>;

extern "C" fn start(body: *mut c_void) -> *mut c_void {
    // SAFETY: `spawn` gives a leaked `Box<Body>`, and only to this call.
    let body = unsafe { Box::from_raw(body.cast::<Body>()) };
    let _ = std::panic::catch_unwind(AssertUnwindSafe(body));
    std::ptr::null_mut()
}

impl Thread {
    /// Starts `body` on a new thread.
    pub fn spawn(body: impl FnOnce() + Send + 'static) -> Result<Thread> {
        let body: *mut Body = Box::into_raw(Box::new(Box::new(body)));
        let mut id = 0;
        // SAFETY: `id` is a place for the id, null attributes are the default, `start` takes what `body` is.
        let code = unsafe { libc::pthread_create(&mut id, null(), start, body.cast()) };
        if code != 0 {
            // SAFETY: no thread was started, so the box is still ours.
            drop(unsafe { Box::from_raw(body) });
            return Err(Error::new(Status::OutOfMemory, format!("a thread cannot be started (code {code})")));
        }
        Ok(Thread { id })
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        // SAFETY: the thread was started and is joined once.
        unsafe { libc::pthread_join(self.id, std::ptr::null_mut()) };
    }
}
