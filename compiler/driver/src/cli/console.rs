//! What the user sees: results, hints, diagnostics, as text or as JSON lines.
//!
//! Promises: colour only where asked for or on a terminal without `NO_COLOR`; many equal diagnostics are
//! shown once with their number; a closed pipe ends the program with code 0.

use std::io::{IsTerminal, Write};

use clap::ColorChoice;
use oaaxc_base::{Diagnostic, Diagnostics, Severity, codes};
use serde_json::{Value, json};

/// How to speak.
#[derive(Clone, Copy, Debug)]
pub struct Console {
    /// JSON lines on standard output.
    pub json: bool,
    /// Errors only.
    pub quiet: bool,
    /// More detail.
    pub verbose: bool,
    colour: bool,
}

/// Diagnostics of one code and operator beyond this number are counted, not shown.
const MOST_ALIKE: usize = 8;

impl Console {
    /// A console as the options say.
    pub fn new(json: bool, quiet: bool, verbose: bool, colour: ColorChoice) -> Console {
        let is_plain = || std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        let colour = match colour {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => std::io::stderr().is_terminal() && !is_plain(),
        };
        Console { json, quiet, verbose, colour }
    }
    /// A line of the result, on standard output.
    pub fn line(&self, text: &str) {
        write_out(&format!("{text}\n"));
    }
    /// An object of the result, on standard output.
    pub fn object(&self, value: &Value) {
        write_out(&format!("{value}\n"));
    }
    /// Something beside the result, on standard error.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            write_error(&format!("{text}\n"));
        }
    }
    /// A word of advice, on standard error.
    pub fn hint(&self, text: &str) {
        if !self.quiet {
            write_error(&format!("{} {text}\n", self.paint("36;1", "hint:")));
        }
    }
    /// Diagnostics: text on standard error, or objects on standard output.
    pub fn diagnostics(&self, all: &[Diagnostic]) {
        let shown = if self.verbose { all.iter().map(|d| (d, 0)).collect() } else { grouped(all) };
        for (diagnostic, more) in shown {
            if self.quiet && diagnostic.severity != Severity::Error {
                continue;
            }
            if self.json {
                self.object(&json!({ "diagnostic": to_json(diagnostic, more) }));
            } else {
                write_error(&format!("{}\n", self.render(diagnostic, more)));
            }
        }
        let errors: Vec<&Diagnostic> = all.iter().filter(|d| d.severity == Severity::Error).collect();
        if self.json || self.quiet || errors.is_empty() {
            return;
        }
        let code = errors[0].code;
        if errors.len() > 1 {
            write_error(&format!("{}\n", self.paint("1", &format!("{} errors", errors.len()))));
        }
        write_error(&format!("for more, run `oaaxc explain {code}`\n"));
    }
    /// One diagnostic, coloured like rustc's where colour is on.
    fn render(&self, diagnostic: &Diagnostic, more: usize) -> String {
        let text = diagnostic.to_string();
        let mut lines: Vec<String> = text.lines().map(|line| self.colour_line(line, diagnostic.severity)).collect();
        if more > 0 {
            lines.push(self.colour_line(&format!("   = note: {more} more like this; -v shows all"), diagnostic.severity));
        }
        lines.join("\n")
    }
    fn colour_line(&self, line: &str, severity: Severity) -> String {
        let head = match severity {
            Severity::Error => "31;1",
            Severity::Warning => "33;1",
            Severity::Note => "36;1",
        };
        for word in ["error[", "warning[", "note["] {
            if let Some(end) = line.find("]: ").filter(|_| line.starts_with(word)) {
                return format!("{}{}", self.paint(head, &line[..=end]), self.paint("1", &line[end + 1..]));
            }
        }
        for mark in ["  --> ", "   |  ", "   = note:", "   = help:"] {
            if let Some(rest) = line.strip_prefix(mark) {
                return format!("{}{rest}", self.paint("34;1", mark));
            }
        }
        line.to_string()
    }
    /// The text in this ANSI style, where colour is on.
    pub fn paint(&self, style: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{style}m{text}\x1b[0m") } else { text.to_string() }
    }
    /// Everything written so far leaves the process.
    pub fn flush(&self) {
        let _ = std::io::stdout().flush();
        let _ = std::io::stderr().flush();
    }
}

/// Those to show, each with the number of others that differ only in the node.
fn grouped(all: &[Diagnostic]) -> Vec<(&Diagnostic, usize)> {
    let mut shown: Vec<(&Diagnostic, usize)> = Vec::new();
    for diagnostic in all {
        let like = |d: &Diagnostic| {
            let operator = |d: &Diagnostic| d.origin.as_ref().map(|o| o.operator.clone());
            d.code == diagnostic.code && operator(d) == operator(diagnostic) && d.message == diagnostic.message
        };
        let mut alike = shown.iter_mut().filter(|(d, _)| like(d));
        match alike.nth(MOST_ALIKE - 1) {
            Some(last) => last.1 += 1,
            None => shown.push((diagnostic, 0)),
        }
    }
    shown
}

/// A diagnostic as JSON; the fields are those of `docs/cli.md`.
pub fn to_json(diagnostic: &Diagnostic, more: usize) -> Value {
    let severity = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    let origin = diagnostic
        .origin
        .as_ref()
        .map(|o| json!({ "file": &*o.file, "graph": &*o.graph, "index": o.index, "node": &*o.node, "operator": &*o.operator }));
    json!({
        "severity": severity,
        "code": diagnostic.code.to_string(),
        "message": diagnostic.message,
        "origin": origin,
        "operand": diagnostic.operand,
        "snippet": diagnostic.snippet,
        "notes": diagnostic.notes,
        "help": diagnostic.help,
        "more": more,
    })
}

/// The exit code of a failure: a bug outweighs all else, then the first error decides.
pub fn exit_code(diagnostics: &Diagnostics) -> u8 {
    let errors = diagnostics.items.iter().filter(|d| d.severity == Severity::Error);
    let codes: Vec<u8> = errors.filter_map(|d| codes::info(d.code)).map(|info| info.exit).collect();
    if codes.contains(&70) { 70 } else { codes.first().copied().unwrap_or(1) }
}

fn write_out(text: &str) {
    let mut out = std::io::stdout().lock();
    if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe) {
        // Whoever read has read enough.
        std::process::exit(0);
    }
}

fn write_error(text: &str) {
    // Nothing can be said about a closed standard error.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use oaaxc_base::Code;

    #[test]
    fn equal_diagnostics_are_counted() {
        let all: Vec<Diagnostic> = (0..20).map(|_| Diagnostic::error(Code::UNSUPPORTED, "same")).collect();
        let shown = grouped(&all);
        assert_eq!(shown.len(), MOST_ALIKE);
        assert_eq!(shown.iter().map(|(_, more)| more).sum::<usize>(), 12);
    }

    #[test]
    fn a_bug_outweighs_a_user_error() {
        let items = vec![Diagnostic::error(Code::SHAPE, "a"), Diagnostic::error(Code::INTERNAL, "b")];
        assert_eq!(exit_code(&Diagnostics { items }), 70);
    }

    #[test]
    fn colour_marks_the_headline_only_where_it_is_on() {
        let plain = Console::new(false, false, false, ColorChoice::Never);
        let bright = Console::new(false, false, false, ColorChoice::Always);
        let d = Diagnostic::error(Code::SHAPE, "x");
        assert_eq!(plain.render(&d, 0), "error[E0304]: x");
        assert!(bright.render(&d, 0).starts_with("\x1b[31;1merror[E0304]"));
    }
}
