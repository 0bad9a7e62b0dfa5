//! The worker process: reads requests from its input until that ends, answers each on its output.
//!
//! LLVM may end this process at any time; the pool treats that as the answer of the request at hand.

use std::{
    fs::File,
    io::{self, Write},
    os::fd::FromRawFd,
};

use crate::{
    compile::compile_form,
    link::link,
    wire::{GREETING, Request, encode_answer, receive, send},
};

/// The first argument by which the driver's program knows that it is a worker.
pub const WORKER_ARGUMENT: &str = "__worker";

/// Serves requests until the input ends; answers the process's exit code.
///
/// To be called first in `main`, when `argv[1]` is [`WORKER_ARGUMENT`]. Takes over standard output: what
/// libraries print goes to standard error.
pub fn worker_main() -> i32 {
    match serve() {
        Ok(()) => 0,
        Err(e) => {
            eprintln!("worker: {e}");
            1
        }
    }
}

fn serve() -> io::Result<()> {
    // SAFETY: plain system calls on descriptors of this process; the duplicate is owned by `answers`.
    let mut answers = unsafe {
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &none);
        let copy = libc::dup(1);
        if copy < 0 || libc::dup2(2, 1) < 0 {
            return Err(io::Error::last_os_error());
        }
        File::from_raw_fd(copy)
    };
    answers.write_all(GREETING)?;
    let mut requests = io::stdin().lock();
    while let Some(message) = receive(&mut requests)? {
        let request = Request::decode(&message).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not a request"))?;
        let answer = match request {
            Request::Compile { mlir, level, form } => compile_form(&mlir, &level, form),
            Request::Link { objects, level } => link(&objects, &level),
        };
        send(&mut answers, &encode_answer(&answer))?;
    }
    Ok(())
}
