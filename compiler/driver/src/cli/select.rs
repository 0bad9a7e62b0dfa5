//! `oaaxc select`: which variant of an artefact runs on this machine, and why.
//!
//! Promises: the answer is the runtime's own; with `--explain` every variant is probed, also those after the
//! one that is taken.

use std::path::PathBuf;

use oaax_core::Model;
use oaaxc_base::{Code, Diagnostic};
use serde_json::json;

use super::Outcome;
use super::arguments::{DeviceArguments, one};
use super::console::Console;
use crate::execute::{Wanted, artefact_error};

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  oaaxc select model.oaax
  oaaxc select --explain model.oaax
  OAAX_TARGET=cpu oaaxc select --explain model.oaax --json")]
pub struct Arguments {
    /// The artefact
    artefact: PathBuf,
    /// Tell of every variant what it needs, what this machine answers, and what becomes of it
    #[arg(long)]
    explain: bool,
    /// The variant to run, by its id, its target or its target's family [default: OAAX_TARGET, else the first that runs]
    #[arg(short, long, value_name = "TARGET")]
    target: Option<String>,
    #[command(flatten)]
    device: DeviceArguments,
}

/// Selects.
pub fn main(arguments: &Arguments, console: &Console) -> Outcome {
    let wanted = Wanted { variant: arguments.target.clone(), ..arguments.device.wanted(1) };
    let reports =
        Model::explain(&arguments.artefact, &wanted.options()).map_err(|e| one(artefact_error(&arguments.artefact, &e)))?;
    for report in reports.iter().filter(|report| arguments.explain || report.chosen) {
        if console.json {
            console.object(&json!({
                "variant": report.id, "target": report.target, "needs": report.needs, "answer": report.answer,
                "runs": report.runs, "chosen": report.chosen, "reason": report.reason,
            }));
        } else if arguments.explain {
            let mark = if report.chosen { "*" } else { " " };
            console.line(&format!("{mark} {} ({})", report.id, report.target));
            let facts = [("needs", &report.needs), ("here", &report.answer), ("so", &report.reason)];
            facts.iter().for_each(|(name, text)| console.line(&format!("    {name:<6}{text}")));
        } else {
            console.line(&format!("{}: {}", report.id, report.reason));
        }
    }
    if reports.iter().any(|report| report.chosen) {
        return Ok(0);
    }
    let error = Diagnostic::error(Code::DEVICE, format!("no variant of {} runs here", arguments.artefact.display()));
    let told = reports.iter().map(|report| format!("{}: {}", report.id, report.reason));
    Err(one(told.fold(error, Diagnostic::note).help("build it with cpu among its targets: --target rocm,cpu")))
}
