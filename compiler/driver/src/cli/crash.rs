//! What happens when oaaxc itself is wrong: a report in a file, one sentence, exit code 70.
//!
//! Promises: no backtrace on the screen; the report holds the message, the place and the command line,
//! nothing of the model.

use std::cell::RefCell;
use std::io::Write;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};

use oaaxc_base::{Code, Diagnostic};

use super::console::Console;

thread_local! {
    /// What the last panic of this thread said.
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Panics are recorded instead of printed.
pub fn install() {
    std::panic::set_hook(Box::new(|info| {
        let text = describe(info);
        LAST.with(|last| *last.borrow_mut() = Some(text));
    }));
}

fn describe(info: &PanicHookInfo) -> String {
    let payload = info.payload();
    let message = payload
        .downcast_ref::<&str>()
        .map(|s| (*s).to_string())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_string());
    let place = info.location().map_or_else(|| "an unknown place".to_string(), ToString::to_string);
    let backtrace = std::backtrace::Backtrace::force_capture();
    format!("{message}\nat {place}\n\n{backtrace}")
}

/// The first line of what the last panic of this thread said, and where.
pub fn last() -> String {
    let text = LAST.with(|last| last.borrow_mut().take()).unwrap_or_default();
    text.lines().take(2).collect::<Vec<_>>().join(" ")
}

/// Runs `f`; a panic becomes a diagnostic with the path of a report.
pub fn guard(console: &Console, f: impl FnOnce() -> u8) -> u8 {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(code) => code,
        Err(_) => {
            let text = LAST.with(|last| last.borrow_mut().take()).unwrap_or_default();
            console.diagnostics(&[diagnostic(&text)]);
            70
        }
    }
}

fn diagnostic(text: &str) -> Diagnostic {
    let first = text.lines().take(2).collect::<Vec<_>>().join(" ");
    let error = Diagnostic::error(Code::INTERNAL, format!("oaaxc broke one of its own rules: {first}"));
    let command: Vec<String> = std::env::args().collect();
    let report = format!("oaaxc {}\n{command:?}\n\n{text}\n", env!("CARGO_PKG_VERSION"));
    let path = std::env::temp_dir().join(format!("oaaxc-crash-{}.txt", std::process::id()));
    let written =
        std::fs::OpenOptions::new().write(true).create_new(true).open(&path).and_then(|mut f| f.write_all(report.as_bytes()));
    match written {
        Ok(()) => error
            .note(format!("a report is in {}", path.display()))
            .help("this is a bug: please send the report, and the model if you may"),
        Err(_) => error.help("this is a bug: please report it with the command line"),
    }
}
