//! Whether a pass changed the numbers: seeded inputs run after each pass and are compared with the oracle.
//!
//! Promises: the reference comes from `cpu:strict`; small programs run in the interpreter, so that a fault
//! is the pass's own; large ones are emitted for their target.

use std::collections::BTreeMap;

use oaaxc_base::{Code, Diagnostic, Diagnostics};
use oaaxc_ir::program::{Program, SlotKind};
use oaaxc_ir::{Graph, Tensor, interpret};
use oaaxc_passes::kernel::encode::Weights;
use oaaxc_target_api::Target;

use crate::pipeline::{Clock, Options, Silent, finish};
use crate::session::{Opened, build_graph};
use crate::{artefact, data, execute};

/// Programs with more bytes of constants than this are emitted instead of interpreted.
const SMALL: usize = 256 << 10;

/// Programs with more launches than this, likewise.
const FEW: usize = 200;

/// Seeded inputs with the oracle's outputs.
pub struct PassCheck<'a> {
    target: &'a dyn Target,
    options: Options,
    run: execute::Run,
    names: Vec<String>,
    /// One line for each pass so far.
    pub told: Vec<String>,
}

/// Compares a graph before and after the passes over it, both run by `cpu:strict`; a line that tells how near they are.
pub fn graph_passes(before: &Graph, after: &Graph, options: &Options) -> Result<String, Diagnostics> {
    let options = Options { verify_passes: false, emit: Vec::new(), ..options.clone() };
    let strict = |graph: &Graph| build_graph(graph.clone(), &["cpu:strict".into()], &options, &mut Silent);
    // A size that only folding tells is more than a target takes: then there is nothing to compare with.
    let Ok(first) = strict(before) else {
        return Ok("simplify: not compared, the model cannot be compiled without it".into());
    };
    let opened = Opened::package(&first.package, options.jobs).map_err(one)?;
    let run = execute::run_seeded(&opened.loaded, &BTreeMap::new(), &BTreeMap::new(), 1).map_err(one)?;
    let second = Opened::package(&strict(after)?.package, options.jobs).map_err(one)?;
    let found = execute::run(&second.loaded, &run.inputs).map_err(one)?;
    let names: Vec<String> = opened.loaded.outputs.iter().map(|port| port.name.clone()).collect();
    let worst =
        compare("simplify", &names, &run.outputs, &found, "the rules that apply: `oaaxc opt --pass rules`", data::TOLERANCE)?;
    Ok(format!("simplify: the numbers hold, {worst:.1e} of their scale (cpu:strict)"))
}

/// The largest difference; an error that names the pass where an output differs.
fn compare(
    pass: &str,
    names: &[String],
    reference: &[Tensor],
    found: &[Tensor],
    note: &str,
    tolerance: data::Tolerance,
) -> Result<f64, Diagnostics> {
    let mut errors = Diagnostics::new();
    let mut worst = 0.0f64;
    for ((name, reference), found) in names.iter().zip(reference).zip(found) {
        let comparison = data::compare(name, reference, found, tolerance);
        worst = worst.max(comparison.difference.map_or(0.0, |d| d.max_rel));
        if !comparison.within {
            let message = format!("the pass {pass} changed the numbers: output \"{name}\" {}", comparison.why);
            errors.push(Diagnostic::error(Code::NUMERICS, message).note(note));
        }
    }
    if errors.has_errors() { Err(errors) } else { Ok(worst) }
}

impl<'a> PassCheck<'a> {
    /// Runs the oracle.
    pub fn new(graph: &Graph, target: &'a dyn Target, options: &Options) -> Result<PassCheck<'a>, Diagnostics> {
        let options = Options { verify_passes: false, emit: Vec::new(), precision: Default::default(), ..options.clone() };
        let strict = build_graph(graph.clone(), &["cpu:strict".into()], &options, &mut Silent)?;
        let opened = Opened::package(&strict.package, options.jobs).map_err(one)?;
        let run = execute::run_seeded(&opened.loaded, &BTreeMap::new(), &BTreeMap::new(), 1).map_err(one)?;
        let names = opened.loaded.outputs.iter().map(|port| port.name.clone()).collect();
        Ok(PassCheck { target, options, run, names, told: Vec::new() })
    }

    /// Runs the program as it is after a pass.
    pub fn after(&mut self, pass: &'static str, program: &Program) -> Result<(), Diagnostics> {
        let (how, outputs) = if is_small(program) {
            let found = interpret::run(program, &self.run.inputs).map_err(|fault| {
                one(Diagnostic::error(Code::NUMERICS, format!("after the pass {pass} the interpreter fails: {}", fault.message)))
            })?;
            ("interpreted", found)
        } else {
            ("emitted", self.emitted(program)?)
        };
        let note = format!("{how} for {}", self.target.name());
        // Fusion keeps digits that the oracle rounds away after each operation on halves.
        let relative = if self.options.halves { 0.05 } else { data::TOLERANCE.relative };
        let tolerance = data::Tolerance { relative, ..data::TOLERANCE };
        let worst = compare(pass, &self.names, &self.run.outputs, &outputs, &note, tolerance)?;
        self.told.push(format!("{pass}: the numbers hold, {worst:.1e} of their scale ({how})"));
        Ok(())
    }

    fn emitted(&self, program: &Program) -> Result<Vec<Tensor>, Diagnostics> {
        let mut weights = Weights::default();
        let clock = Clock { times: Vec::new(), progress: &mut Silent };
        let share = finish(program.clone(), 0, self.target, &self.options, &mut weights, clock)?;
        let opened =
            Opened::package(&artefact::package(vec![share], weights, self.options.fallback), self.options.jobs).map_err(one)?;
        execute::run(&opened.loaded, &self.run.inputs).map_err(one)
    }
}

fn is_small(program: &Program) -> bool {
    let constants = program.slots.iter().map(|(_, slot)| match &slot.kind {
        SlotKind::Constant(tensor) => tensor.byte_len(),
        _ => 0,
    });
    constants.sum::<usize>() <= SMALL && program.launches().len() <= FEW
}

fn one(diagnostic: Diagnostic) -> Diagnostics {
    Diagnostics { items: vec![diagnostic] }
}
