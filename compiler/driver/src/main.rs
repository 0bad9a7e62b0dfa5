//! The program `oaaxc`: a worker of the code generators or of the conformance checks where its first
//! argument says so, the entry point of the OAAX toolchain image, else the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<std::ffi::OsString> = std::env::args_os().collect();
    if arguments.get(1).is_some_and(|first| first == oaaxc_llvm::WORKER_ARGUMENT) {
        return ExitCode::from(u8::try_from(oaaxc_llvm::worker_main()).unwrap_or(70));
    }
    if arguments.get(1).is_some_and(|first| first == oaax_probe::WORKER_ARGUMENT) {
        return ExitCode::from(oaax_probe::worker(arguments.into_iter().skip(2).collect()));
    }
    if arguments.get(1).is_some_and(|first| first == oaaxc::cli::toolchain::ARGUMENT) {
        return ExitCode::from(oaaxc::cli::toolchain::main(&arguments[2..]));
    }
    oaaxc::cli::main(arguments)
}
