//! Memory that a host frees: blocks of the C heap.

use crate::status::{Failure, Outcome, Status};

/// A zeroed block for `count` values (at least one); `free` of libc gives it back.
pub fn block<T>(count: usize) -> Outcome<*mut T> {
    // SAFETY: plain allocation; calloc checks the product.
    let start = unsafe { libc::calloc(count.max(1), size_of::<T>()) };
    match start.is_null() {
        false => Ok(start.cast()),
        true => Err(Failure::new(Status::OutOfMemory, "no memory for an output")),
    }
}
