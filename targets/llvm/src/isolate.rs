//! Work in a child of this process, whose memory is thrown away afterwards.
//!
//! For code generators that remember earlier modules. The caller must be the only thread that uses LLVM: a
//! child has no other thread that could give a lock back.

use std::{
    fs::File,
    io::{Read, Write},
    os::fd::FromRawFd,
};

use crate::{
    error::{BackendError, Stage},
    wire::{Answer, decode_answer, encode_answer},
};

/// The answer of `work`, computed in a forked child; an error where the child dies.
pub(crate) fn isolated(work: impl FnOnce() -> Answer) -> Answer {
    let failed = |what: &str| Err(BackendError::new(Stage::Worker, format!("{what}: {}", std::io::Error::last_os_error())));
    let mut ends = [0; 2];
    // SAFETY: writes two descriptors, which are owned below.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return failed("pipe");
    }
    // SAFETY: fresh descriptors of this process, each owned once.
    let (mut from, mut to) = unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) };
    // SAFETY: the child only computes, writes to its pipe and ends.
    let child = unsafe { libc::fork() };
    match child {
        -1 => failed("fork"),
        0 => {
            // SAFETY: plain system calls; the child dies with its parent and never returns into its frames.
            unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                let answer = work();
                let written = to.write_all(&encode_answer(&answer)).is_ok();
                libc::_exit(i32::from(!written));
            }
        }
        _ => {
            drop(to);
            let mut answer = Vec::new();
            let read = from.read_to_end(&mut answer);
            let mut status = 0;
            // SAFETY: waits for our own child.
            unsafe { libc::waitpid(child, &mut status, 0) };
            if read.is_err() || status != 0 {
                return Err(BackendError::new(Stage::Worker, format!("LLVM ended its process with status {status:#x}")));
            }
            decode_answer(&answer).unwrap_or_else(|| Err(BackendError::new(Stage::Worker, "the child answered garbage")))
        }
    }
}
