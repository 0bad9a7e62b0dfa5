//! Where the work of a run lies: operations, bytes and time by kernel, as `oaaxc bench` shows them.
//!
//! Promises: operations and bytes are those that the artefact records for its kernels, with the sizes of this
//! very run; times are means over whole runs, launch by launch.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use oaax_core::Output;
use oaaxc_base::Diagnostics;
use serde_json::{Value, json};

use super::arguments::one;
use super::console::Console;
use super::table::{Table, bytes, seconds};
use crate::execute::{self, Request};
use crate::session::Opened;

/// What the launches of one run did.
#[derive(Default)]
pub struct Profile {
    /// By the kernels' names (operators, joined where fused) and whether they are on the generic path.
    families: BTreeMap<(String, bool), Family>,
    /// Distinct kernels: on the generic path, and all.
    kernels: (usize, usize),
}

#[derive(Clone, Copy, Default)]
struct Family {
    launches: f64,
    operations: f64,
    bytes: f64,
    seconds: f64,
}

/// Profiles whole runs, at least one, until `duration` is over.
pub fn profile(opened: &Opened, request: &Request, duration: f64) -> Result<Profile, Diagnostics> {
    let program = opened.loaded.model.program();
    let generic = program.kernels.iter().filter(|kernel| kernel.generic).count();
    let mut profile = Profile { kernels: (generic, program.kernels.len()), ..Profile::default() };
    let values = request.values();
    let end = Instant::now() + Duration::from_secs_f64(duration.clamp(0.0, 3600.0));
    let mut runs = 0u32;
    while runs == 0 || Instant::now() < end {
        let mut outputs: Vec<Output> = opened.loaded.outputs.iter().map(|_| Output::default()).collect();
        let samples = opened.loaded.session.profile(&values, &mut outputs).map_err(|e| one(execute::run_error(&e)))?;
        runs += 1;
        for sample in samples {
            let Some(kernel) = program.kernels.get(sample.kernel as usize) else { continue };
            let family = profile.families.entry((program.text(kernel.name).to_string(), kernel.generic)).or_default();
            let count = |e| program.eval(e, &sample.dims).map_or(0.0, |n| n.max(0) as f64);
            family.launches += 1.0;
            family.operations += count(kernel.operations);
            family.bytes += count(kernel.bytes);
            family.seconds += sample.nanoseconds as f64 / 1e9;
        }
    }
    for family in profile.families.values_mut() {
        let n = f64::from(runs);
        family.launches /= n;
        family.operations /= n;
        family.bytes /= n;
        family.seconds /= n;
    }
    Ok(profile)
}

impl Profile {
    /// The sum of one quantity over all kernels, or those on the generic path alone.
    fn sum(&self, quantity: impl Fn(&Family) -> f64, generic_only: bool) -> f64 {
        self.families.iter().filter(|((_, generic), _)| *generic || !generic_only).map(|(_, family)| quantity(family)).sum()
    }
    /// Families, those that took longest first.
    fn worst_first(&self) -> Vec<(&str, bool, &Family)> {
        let mut all: Vec<_> = self.families.iter().map(|((name, generic), family)| (name.as_str(), *generic, family)).collect();
        all.sort_by(|a, b| b.2.seconds.total_cmp(&a.2.seconds));
        all
    }
    /// Members for `oaaxc bench --json`; kernels one by one where asked for.
    pub fn to_json(&self, kernels: bool) -> Value {
        let family = |(name, generic, f): (&str, bool, &Family)| {
            json!({ "kernel": name, "generic": generic, "launches": f.launches, "operations": f.operations, "bytes": f.bytes,
                "seconds": f.seconds })
        };
        let mut value = json!({
            "kernels": self.kernels.1, "generic_kernels": self.kernels.0,
            "operations": self.sum(|f| f.operations, false), "generic_operations": self.sum(|f| f.operations, true),
            "bytes": self.sum(|f| f.bytes, false), "generic_bytes": self.sum(|f| f.bytes, true),
        });
        if kernels {
            value["profile"] = self.worst_first().into_iter().map(family).collect();
        }
        value
    }
    /// One line: how much is on the generic path.
    pub fn generic_line(&self) -> String {
        let share = |quantity: fn(&Family) -> f64| {
            let all = self.sum(quantity, false);
            if all > 0.0 { 100.0 * self.sum(quantity, true) / all } else { 0.0 }
        };
        format!(
            "generic path: {} of {} kernels, {:.2} % of {} operations, {:.2} % of {} moved",
            self.kernels.0,
            self.kernels.1,
            share(|f| f.operations),
            count(self.sum(|f| f.operations, false)),
            share(|f| f.bytes),
            bytes(self.sum(|f| f.bytes, false) as u64),
        )
    }
    /// The table of kernels.
    pub fn show(&self, console: &Console) {
        let all = self.sum(|f| f.seconds, false);
        let mut table = Table::new(&["kernel", "launches", "time", "share", "GOP/s", "GB/s", "path"]);
        for (name, generic, f) in self.worst_first() {
            let rate = |quantity: f64| if f.seconds > 0.0 { format!("{:.2}", quantity / f.seconds / 1e9) } else { "-".into() };
            table.row(vec![
                name.to_string(),
                format!("{}", f.launches),
                seconds(f.seconds),
                format!("{:.1} %", 100.0 * f.seconds / all.max(f64::MIN_POSITIVE)),
                rate(f.operations),
                rate(f.bytes),
                if generic { "generic" } else { "own" }.to_string(),
            ]);
        }
        table.lines().iter().for_each(|line| console.line(line));
    }
}

/// `7.7 G`.
fn count(n: f64) -> String {
    match n {
        n if n < 1e3 => format!("{n}"),
        n if n < 1e6 => format!("{:.1} k", n / 1e3),
        n if n < 1e9 => format!("{:.1} M", n / 1e6),
        n => format!("{:.2} G", n / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_operations_and_bytes_not_of_kernels() {
        let mut profile = Profile { kernels: (1, 2), ..Profile::default() };
        let family = |operations, bytes| Family { launches: 1.0, operations, bytes, seconds: 0.001 };
        profile.families.insert(("MatMul".into(), false), family(9.9e9, 3e6));
        profile.families.insert(("Cast".into(), true), family(0.1e9, 1e6));
        assert_eq!(profile.generic_line(), "generic path: 1 of 2 kernels, 1.00 % of 10.00 G operations, 25.00 % of 4.0 MB moved");
        assert_eq!(profile.to_json(false)["generic_bytes"], 1e6);
        assert!(profile.to_json(true)["profile"].is_array());
    }
}
