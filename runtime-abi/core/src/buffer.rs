//! Memory from the C heap, 64-byte aligned, so that a host in C may free what it is given.

use crate::error::{Error, Result, Status};
use oaax_abi::ALIGN;
use std::ptr::{NonNull, null_mut};

/// An owned block; contents undefined until written. `free` of libc releases what `into_raw` gives.
#[derive(Debug)]
pub struct Buffer {
    start: NonNull<u8>,
    capacity: usize,
}

// SAFETY: a buffer is plain memory with one owner.
unsafe impl Send for Buffer {}
// SAFETY: shared access only reads the address; whoever writes through it answers for that.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// A block of at least `size` bytes (never of none, so that the address is always good).
    pub fn new(size: u64) -> Result<Buffer> {
        let capacity = usize::try_from(size.max(1)).ok().and_then(|size| size.checked_next_multiple_of(ALIGN as usize));
        let mut start = null_mut();
        let code = match capacity {
            // SAFETY: `start` is a place for a pointer; the alignment is a power of two and a multiple of a pointer.
            Some(capacity) => unsafe { libc::posix_memalign(&mut start, ALIGN as usize, capacity) },
            None => libc::ENOMEM,
        };
        match (code, NonNull::new(start.cast()), capacity) {
            (0, Some(start), Some(capacity)) => Ok(Buffer { start, capacity }),
            _ => Err(Error::new(Status::OutOfMemory, format!("{size} bytes cannot be allocated"))),
        }
    }

    /// A block that holds a copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Result<Buffer> {
        let buffer = Buffer::new(bytes.len() as u64)?;
        // SAFETY: the block has at least as many bytes and is new, so they cannot overlap.
        unsafe { bytes.as_ptr().copy_to_nonoverlapping(buffer.as_ptr(), bytes.len()) };
        Ok(buffer)
    }

    /// First byte.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Bytes that may be used.
    pub fn capacity(&self) -> u64 {
        self.capacity as u64
    }

    /// Gives the block away; the receiver frees it with libc's `free`.
    pub fn into_raw(self) -> *mut u8 {
        let start = self.start.as_ptr();
        std::mem::forget(self);
        start
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: the block came from posix_memalign and is released once.
        unsafe { libc::free(self.start.as_ptr().cast()) };
    }
}

/// The address of a tensor without bytes: never read, aligned like all others.
pub fn empty_address() -> *mut u8 {
    std::ptr::without_provenance_mut(ALIGN as usize)
}
