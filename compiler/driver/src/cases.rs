//! Runs folders in ONNX's backend-test form on a target: what `oaaxc test` does with one of them.
//!
//! Promises: nothing is folded, so that every tensor element is computed by the code under test; what stops
//! a case is told in its answer, a panic included.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Instant;

use oaaxc_base::{Code, Diagnostic};
use oaaxc_conformance::{Outcome, Run, Status, from_diagnostic, from_diagnostics, runner, try_folder};
use oaaxc_container::Package;
use oaaxc_ir::{Datum, Graph, eval, interpret, lower};
use oaaxc_passes::graph::dead;
use oaaxc_passes::kernel::encode::Weights;
use oaaxc_target_api::Target;
use serde_json::{Value, json};

use crate::foreign::Runner;
use crate::pipeline::{Options, Silent, compile};
use crate::session::Opened;
use crate::{artefact, execute, targets};

/// What runs the cases.
pub enum Way {
    /// The operators' own evaluation.
    Eval,
    /// The interpreter on the kernels, before any pass.
    Interpreter,
    /// The code of a target.
    Target(Box<dyn Target>),
    /// The code of a target for another machine, run by a command.
    Foreign(Box<dyn Target>, Runner),
}

impl Way {
    /// `eval`, `interpreter`, or a target's name.
    pub fn find(name: &str) -> Result<Way, Diagnostic> {
        match name {
            "eval" => Ok(Way::Eval),
            "interpreter" => Ok(Way::Interpreter),
            target => targets::find(target).map(Way::Target),
        }
    }
    /// The same, run by a command where one is given.
    pub fn find_with(name: &str, runner: Option<&str>) -> Result<Way, Diagnostic> {
        match (Way::find(name)?, runner) {
            (way, None) => Ok(way),
            (Way::Target(target), Some(command)) => Ok(Way::Foreign(target, Runner::new(command)?)),
            (_, Some(_)) => Err(Diagnostic::error(Code::USAGE, format!("{name} makes no artefact that a runner could run"))),
        }
    }
}

/// How a case ended.
pub struct Answer {
    /// The folder's name.
    pub name: String,
    /// `pass`, `wrong`, `refused` or `error`.
    pub status: &'static str,
    /// Largest absolute difference of floats.
    pub max_error: f64,
    /// Why it did not pass.
    pub cause: String,
    /// Kernels that the target emitted.
    pub kernels: usize,
    /// Calls of host routines that touch tensor elements.
    pub host_calls: usize,
    /// Wall time.
    pub seconds: f64,
}

impl Answer {
    /// A case that gave no answer of its own.
    pub fn error(name: String, cause: String, seconds: f64) -> Answer {
        Answer { name, status: "error", max_error: 0.0, cause, kernels: 0, host_calls: 0, seconds }
    }
    /// The line of `--json`.
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.name, "status": self.status, "max_error": self.max_error, "cause": self.cause,
            "kernels": self.kernels, "host_calls": self.host_calls, "seconds": self.seconds,
        })
    }
    /// What a worker wrote.
    pub fn from_json(value: &Value) -> Option<Answer> {
        let words = ["pass", "wrong", "refused", "error"];
        let number = |name: &str| value[name].as_u64().map(|n| n as usize);
        Some(Answer {
            name: value["name"].as_str()?.to_string(),
            status: words.into_iter().find(|word| value["status"] == *word)?,
            max_error: value["max_error"].as_f64().unwrap_or(0.0),
            cause: value["cause"].as_str()?.to_string(),
            kernels: number("kernels")?,
            host_calls: number("host_calls")?,
            seconds: value["seconds"].as_f64()?,
        })
    }
}

/// Runs one folder. `panicked` tells what a panic said.
pub fn run(folder: &Path, way: &Way, options: &Options, panicked: &dyn Fn() -> String) -> Answer {
    let name = runner::name(folder);
    let start = Instant::now();
    let mut kernels = 0;
    let outcome = catch_unwind(AssertUnwindSafe(|| outcome(folder, way, options, &mut kernels)));
    let seconds = start.elapsed().as_secs_f64();
    let Ok(outcome) = outcome else { return Answer::error(name, panicked(), seconds) };
    let status = match outcome.status {
        Status::Pass => "pass",
        Status::Wrong => "wrong",
        Status::Refused => "refused",
        Status::Error | Status::Crash => "error",
    };
    Answer { name, status, max_error: outcome.max_error, cause: outcome.cause, kernels, host_calls: 0, seconds }
}

fn outcome(folder: &Path, way: &Way, options: &Options, kernels: &mut usize) -> Outcome {
    let done = try_folder(folder, |graph| match way {
        Way::Eval => Ok(by_eval(graph)),
        Way::Interpreter => by_interpreter(&graph),
        Way::Target(target) => by_target(graph, target.as_ref(), options, kernels),
        Way::Foreign(target, runner) => by_runner(graph, target.as_ref(), runner, options, kernels),
    });
    match done {
        Ok(max_error) => Outcome { status: Status::Pass, cause: String::new(), max_error },
        Err(outcome) => outcome,
    }
}

fn by_eval(graph: Graph) -> Run {
    Box::new(move |inputs| eval::evaluate(&graph, inputs).map_err(|d| from_diagnostic(&d)))
}

fn by_interpreter(graph: &Graph) -> Result<Run, Outcome> {
    let program = lower::lower(graph).map_err(|d| from_diagnostics(&d))?;
    Ok(Box::new(move |inputs| {
        let tensor = |datum| match datum {
            Datum::Tensor(tensor) => Ok(tensor),
            _ => Err(Outcome::failed(Status::Refused, "the interpreter holds tensors only")),
        };
        let tensors = inputs.into_iter().map(tensor).collect::<Result<Vec<_>, _>>()?;
        let outputs = interpret::run(&program, &tensors).map_err(|fault| Outcome::failed(Status::Wrong, fault.message))?;
        Ok(outputs.into_iter().map(Datum::from).collect())
    }))
}

/// The artefact of a case.
fn build(mut graph: Graph, target: &dyn Target, options: &Options, kernels: &mut usize) -> Result<Package, Outcome> {
    dead::dead(&mut graph);
    let mut weights = Weights::default();
    let share = compile(&graph, target, options, &mut weights, &mut Silent).map_err(|d| from_diagnostics(&d))?;
    *kernels = share.kernels;
    Ok(artefact::package(vec![share], weights, options.fallback))
}

/// An answer was owed: a run that stops is a wrong one.
fn owed(diagnostic: &Diagnostic) -> Outcome {
    match from_diagnostic(diagnostic) {
        outcome if outcome.status == Status::Error => Outcome { status: Status::Wrong, ..outcome },
        outcome => outcome,
    }
}

fn by_runner(graph: Graph, target: &dyn Target, runner: &Runner, options: &Options, kernels: &mut usize) -> Result<Run, Outcome> {
    let package = build(graph, target, options, kernels)?;
    let runner = runner.clone();
    let names = |list: &[oaaxc_container::ValueInfo]| list.iter().map(|value| value.name.clone()).collect::<Vec<_>>();
    let (inputs, outputs) = (names(&package.manifest.inputs), names(&package.manifest.outputs));
    Ok(Box::new(move |data| {
        let named: Vec<_> = inputs.iter().cloned().zip(data).collect();
        runner.run(&package, &named, &outputs).map_err(|d| owed(&d))
    }))
}

fn by_target(graph: Graph, target: &dyn Target, options: &Options, kernels: &mut usize) -> Result<Run, Outcome> {
    let package = build(graph, target, options, kernels)?;
    let opened = Opened::package(&package, 1).map_err(|d| from_diagnostic(&d))?;
    Ok(Box::new(move |inputs| execute::run_data(&opened.loaded, &inputs).map_err(|d| owed(&d))))
}
