//! A worker of the conformance checks, as `oaaxc conformance` starts itself: one rule, then the end.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(oaax_probe::worker(std::env::args_os().skip(1).collect()))
}
