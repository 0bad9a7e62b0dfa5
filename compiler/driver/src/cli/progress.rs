//! Phase lines with times, on standard error.

use std::time::{Duration, Instant};

use super::console::Console;
use super::table::seconds;
use crate::pipeline::Progress;

/// Tells of phases as they end.
pub struct Phases<'a> {
    console: &'a Console,
    show: bool,
    current: Option<(&'static str, Instant)>,
    /// Finished phases.
    pub times: Vec<(&'static str, Duration)>,
}

/// Phases shorter than this are shown only with `--time-passes` or `-v`.
const WORTH_A_LINE: Duration = Duration::from_millis(50);

impl<'a> Phases<'a> {
    /// A teller; `show` asks for every phase.
    pub fn new(console: &'a Console, show: bool) -> Phases<'a> {
        Phases { console, show, current: None, times: Vec::new() }
    }
    /// The last phase ends.
    pub fn finish(&mut self) {
        let Some((name, start)) = self.current.take() else { return };
        let took = start.elapsed();
        self.times.push((name, took));
        if self.show || self.console.verbose || took >= WORTH_A_LINE {
            self.console.note(&format!(
                "{} {:>9}",
                self.console.paint("32;1", &format!("{name:>12}")),
                seconds(took.as_secs_f64())
            ));
        }
    }
}

impl Progress for Phases<'_> {
    fn phase(&mut self, name: &'static str) {
        self.finish();
        self.current = Some((name, Instant::now()));
    }
    fn note(&mut self, text: &str) {
        self.console.note(text);
    }
}
