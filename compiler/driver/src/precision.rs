//! `--precision`: measures a model's activations, rewrites its graph in fewer bits, and measures what that did.
//!
//! Promises: ranges and references come from `cpu:strict` on the same inputs; the narrowed graph runs on this machine's
//! own processor; errors are relative to the largest magnitude of the reference; a build over its tolerance fails with
//! the worst tensors named. What cannot be measured is said to be so, and then nothing rests on it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use oaaxc_base::{Code, Diagnostic, Diagnostics};
use oaaxc_ir::{DType, Def, Graph, NodeId, Tensor, Type, ValueId};
use oaaxc_passes::graph::dead::dead;
use oaaxc_passes::kernel::encode::Weights;
use oaaxc_passes::precision::observe::{Observer, Seen};
use oaaxc_passes::precision::quantise::{Request, quantise};
use oaaxc_passes::precision::{Ranges, Row, narrow::narrow};
use serde_json::json;

use crate::pipeline::{Clock, Options, Progress, Silent, finish, lower_for};
use crate::session::Opened;
use crate::{artefact, calibration, data, execute, targets};

/// In how many bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Precision {
    /// As the model is.
    #[default]
    Fp32,
    /// Contractions and what lies between them in float16.
    Fp16,
    /// The same in bfloat16.
    Bf16,
    /// Contractions by constants in 8-bit integers; the weights of the others in float16.
    Int8,
    /// 8-bit integers where a contraction's own error is small, else float16.
    Mixed,
}

impl Precision {
    /// By the name that the command line uses.
    pub fn from_name(name: &str) -> Option<Precision> {
        Some(match name {
            "fp32" => Precision::Fp32,
            "fp16" => Precision::Fp16,
            "bf16" => Precision::Bf16,
            "int8" => Precision::Int8,
            "mixed" => Precision::Mixed,
            _ => return None,
        })
    }
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Precision::Fp32 => "fp32",
            Precision::Fp16 => "fp16",
            Precision::Bf16 => "bf16",
            Precision::Int8 => "int8",
            Precision::Mixed => "mixed",
        }
    }
    /// How far machines may differ on an artefact of this precision, relative to an output's scale.
    pub fn machine_tolerance(self) -> f64 {
        match self {
            Precision::Fp32 => data::TOLERANCE.relative,
            Precision::Fp16 => 1e-2,
            Precision::Bf16 => 5e-2,
            Precision::Int8 | Precision::Mixed => 1e-1,
        }
    }
}

/// What was asked for.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// In how many bits.
    pub precision: Precision,
    /// Where inputs lie.
    pub calibration: Option<PathBuf>,
    /// How ranges of activations are chosen.
    pub observer: Observer,
    /// Activations are quantised by each run's own range.
    pub dynamic: bool,
    /// Largest error of an output, relative to its scale.
    pub tolerance: Option<f64>,
    /// Sizes for seeded inputs.
    pub dims: BTreeMap<String, i64>,
}

/// Root mean square error, relative to that of the result, up to which `mixed` takes eight bits for a contraction.
const MIXED: f64 = 0.02;

/// A graph in fewer bits, and what became of its tensors.
#[derive(Clone, Debug)]
pub struct Rewritten {
    /// The graph.
    pub graph: Graph,
    /// The table.
    pub table: Table,
    /// What people should know.
    pub warnings: Vec<Diagnostic>,
}

/// What became of a model's tensors.
#[derive(Clone, Debug)]
pub struct Table {
    /// In how many bits.
    pub precision: Precision,
    /// One for each tensor that was narrowed, or kept for a reason.
    pub rows: Vec<Row>,
    /// The outputs with their errors, where measured.
    pub outputs: Vec<(String, Option<f64>)>,
    /// Runs that were measured.
    pub samples: usize,
    /// Whether the inputs were seeded for want of any.
    pub seeded: bool,
}

impl Table {
    /// The table as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        let row = |r: &Row| {
            json!({
                "tensor": r.tensor, "node": r.node, "role": r.role.name(), "from": r.from.name(), "to": r.to.name(),
                "reason": r.reason, "error": r.error,
            })
        };
        let outputs: Vec<_> = self.outputs.iter().map(|(name, error)| json!({ "name": name, "error": error })).collect();
        json!({
            "precision": self.precision.name(), "inputs": if self.seeded { "seeded" } else { "calibration" },
            "samples": self.samples, "outputs": outputs, "tensors": self.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }
    /// How many tensors took each type, and how many were kept.
    pub fn counts(&self) -> (BTreeMap<&'static str, usize>, usize) {
        let mut narrowed = BTreeMap::new();
        let changed = self.rows.iter().filter(|r| r.from != r.to);
        changed.for_each(|r| *narrowed.entry(r.to.name()).or_default() += 1);
        (narrowed, self.rows.iter().filter(|r| r.from == r.to && r.values.is_none()).count())
    }
    /// The worst tensors first.
    pub fn worst(&self) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().filter(|r| r.error.is_some()).collect();
        rows.sort_by(|a, b| b.error.unwrap_or(0.0).total_cmp(&a.error.unwrap_or(0.0)));
        rows
    }
}

/// Rewrites a simplified graph as the options say.
pub fn apply(graph: &Graph, options: &Options, progress: &mut dyn Progress) -> Result<Rewritten, Diagnostics> {
    let settings = &options.precision;
    let plain = Options { precision: Settings::default(), emit: Vec::new(), verify_passes: false, ..options.clone() };
    let mut warnings = Vec::new();
    progress.phase("calibrate");
    let (samples, seeded) = match &settings.calibration {
        Some(folder) => (calibration::read(folder, &input_names(graph)).map_err(one)?, false),
        None => (vec![BTreeMap::new()], true),
    };
    if seeded && settings.precision != Precision::Bf16 {
        let message =
            "no --calibration is given: ranges and errors are measured on seeded numbers, which may not be like real ones";
        warnings.push(Diagnostic::warning(Code::NUMERICS, message).help("give a folder of real inputs with --calibration"));
    }
    let watched = watched(graph);
    let mut seen: BTreeMap<ValueId, Seen> = BTreeMap::new();
    let mut first: BTreeMap<ValueId, Tensor> = BTreeMap::new();
    let mut references: Vec<(Vec<Tensor>, Vec<Tensor>)> = Vec::new();
    let measured = observe(graph, &watched, "cpu:strict", &plain, &samples, &settings.dims, &mut |inputs, outputs, kept| {
        for (input, tensor) in graph.root().inputs.iter().zip(inputs) {
            if tensor.dtype == DType::F32 {
                seen.entry(*input).or_default().see(tensor);
            }
        }
        kept.iter().for_each(|(value, tensor)| seen.entry(*value).or_default().see(tensor));
        if references.is_empty() {
            first = kept.iter().cloned().collect();
        }
        references.push((inputs.to_vec(), outputs.to_vec()));
    });
    if let Err(why) = measured {
        let message = format!("the model cannot be measured: {}", first_message(&why));
        if !seeded || settings.precision == Precision::Int8 && !settings.dynamic {
            return Err(one(Diagnostic::error(Code::REQUEST, message)
                .help("give inputs that the model takes with --calibration, or sizes with --dim")));
        }
        warnings.push(Diagnostic::warning(Code::NUMERICS, message));
    }
    progress.phase("precision");
    let (mut graph_after, mut rows) = rewrite(graph, settings, &plain, &seen, &first, &references)?;
    dead(&mut graph_after);
    progress.phase("measure");
    let mut outputs: Vec<(String, Option<f64>)> =
        graph.root().outputs.iter().map(|v| (graph.values[*v].name.clone(), None)).collect();
    if !references.is_empty() {
        let result = compare(&graph_after, &plain, &references, &first, &mut rows, &mut outputs);
        if let Err(why) = result {
            let message = format!("the narrowed model cannot be measured: {}", first_message(&why));
            warnings.push(Diagnostic::warning(Code::NUMERICS, message));
        }
    }
    let table = Table { precision: settings.precision, rows, outputs, samples: references.len(), seeded };
    check(&table, settings)?;
    Ok(Rewritten { graph: graph_after, table, warnings })
}

/// The passes, by precision.
fn rewrite(
    graph: &Graph,
    settings: &Settings,
    options: &Options,
    seen: &BTreeMap<ValueId, Seen>,
    first: &BTreeMap<ValueId, Tensor>,
    references: &[(Vec<Tensor>, Vec<Tensor>)],
) -> Result<(Graph, Vec<Row>), Diagnostics> {
    let mut ranges: Ranges = seen.iter().map(|(value, seen)| (*value, seen.extremes())).collect();
    let mut after = graph.clone();
    let rows = match settings.precision {
        Precision::Fp32 => Vec::new(),
        Precision::Fp16 => narrow(&mut after, DType::F16, &ranges, false).map_err(one)?,
        Precision::Bf16 => narrow(&mut after, DType::BF16, &ranges, false).map_err(one)?,
        Precision::Int8 | Precision::Mixed => {
            let range = |value: ValueId| {
                let seen = seen.get(&value)?;
                let range = seen.range(settings.observer)?;
                Some((range, seen.error(range)))
            };
            let errors = match settings.precision {
                Precision::Mixed => local_errors(graph, settings, options, &range, first, references)?,
                _ => BTreeMap::new(),
            };
            let wanted = |id: NodeId| match errors.get(&id) {
                Some(error) if *error > MIXED => Err(format!("its own error in eight bits is {error:.3}, more than {MIXED}")),
                None if settings.precision == Precision::Mixed => Err("its error in eight bits was not measured".to_string()),
                _ => Ok(()),
            };
            let request = Request { range: &range, wanted: &wanted, dynamic: settings.dynamic, beside: false };
            let mut done = quantise(&mut after, &request).map_err(one)?;
            for (_, old, new) in &done.pairs {
                if let Some(range) = ranges.get(old).copied() {
                    ranges.insert(*new, range);
                }
            }
            dead(&mut after);
            let weights_alone = settings.precision == Precision::Int8;
            let halves = narrow(&mut after, DType::F16, &ranges, weights_alone).map_err(one)?;
            // What stays in floats for one reason and takes halves for it is one row.
            for half in halves {
                match done
                    .rows
                    .iter_mut()
                    .find(|r| r.tensor == half.tensor && r.role == half.role && r.from == r.to && r.values.is_none())
                {
                    Some(kept) => *kept = Row { reason: format!("{}; {}", kept.reason, half.reason), ..half },
                    None => done.rows.push(half),
                }
            }
            done.rows
        }
    };
    Ok((after, rows))
}

/// Each contraction's own error in eight bits: the quantised one stands beside it and reads the same floats.
fn local_errors(
    graph: &Graph,
    settings: &Settings,
    options: &Options,
    range: &dyn Fn(ValueId) -> Option<(oaaxc_passes::precision::Range, f64)>,
    first: &BTreeMap<ValueId, Tensor>,
    references: &[(Vec<Tensor>, Vec<Tensor>)],
) -> Result<BTreeMap<NodeId, f64>, Diagnostics> {
    let mut twin = graph.clone();
    let request = Request { range, wanted: &|_| Ok(()), dynamic: settings.dynamic, beside: true };
    let pairs = quantise(&mut twin, &request).map_err(one)?.pairs;
    let Some((inputs, _)) = references.first() else { return Ok(BTreeMap::new()) };
    let values: Vec<ValueId> = pairs.iter().map(|(_, _, new)| *new).collect();
    let kept = run_with(&twin, &values, host_target(), options, inputs)?;
    let mut errors = BTreeMap::new();
    for ((id, old, _), found) in pairs.iter().zip(&kept) {
        if let Some(reference) = first.get(old) {
            errors.insert(*id, mean_square(reference, found));
        }
    }
    Ok(errors)
}

/// Fills in the errors of rows and outputs.
fn compare(
    graph: &Graph,
    options: &Options,
    references: &[(Vec<Tensor>, Vec<Tensor>)],
    first: &BTreeMap<ValueId, Tensor>,
    rows: &mut [Row],
    outputs: &mut [(String, Option<f64>)],
) -> Result<(), Diagnostics> {
    let listed: BTreeSet<ValueId> =
        graph.root().nodes.iter().flat_map(|n| graph.nodes[*n].outputs.iter().flatten().copied()).collect();
    let values: Vec<ValueId> = rows.iter().filter_map(|r| r.values).map(|(_, new)| new).filter(|v| listed.contains(v)).collect();
    let options = &Options { halves: true, ..options.clone() };
    let mut opened = instrumented(graph, &values, host_target(), options)?;
    let own = graph.root().outputs.len();
    for (number, (inputs, expected)) in references.iter().enumerate() {
        let found = execute::run(&opened.loaded, inputs).map_err(one)?;
        for ((_, error), (reference, found)) in outputs.iter_mut().zip(expected.iter().zip(&found)) {
            let now = relative(reference, found);
            *error = Some(error.map_or(now, |e| e.max(now)));
        }
        if number > 0 {
            continue;
        }
        let kept: BTreeMap<ValueId, &Tensor> = values.iter().copied().zip(&found[own..]).collect();
        for row in rows.iter_mut() {
            let Some((old, new)) = row.values else { continue };
            if let (Some(reference), Some(found)) = (first.get(&old), kept.get(&new)) {
                row.error = Some(relative(reference, found));
            }
        }
        if references.len() > 1 && !values.is_empty() {
            // The other runs are about the outputs alone.
            opened = instrumented(graph, &[], host_target(), options)?;
        }
    }
    Ok(())
}

/// An error where an output is over the tolerance.
fn check(table: &Table, settings: &Settings) -> Result<(), Diagnostics> {
    let Some(tolerance) = settings.tolerance else { return Ok(()) };
    let mut all = Diagnostics::new();
    for (name, error) in &table.outputs {
        let Some(error) = error else {
            all.push(Diagnostic::error(
                Code::NUMERICS,
                format!("output \"{name}\" could not be measured, so --tolerance cannot hold"),
            ));
            continue;
        };
        if *error <= tolerance {
            continue;
        }
        let message = format!(
            "output \"{name}\" differs by {error:.3e} of its scale at {}, more than {tolerance:e}",
            table.precision.name()
        );
        let mut diagnostic = Diagnostic::error(Code::NUMERICS, message);
        for row in table.worst().into_iter().take(5) {
            let error = row.error.unwrap_or(0.0);
            diagnostic = diagnostic.note(format!(
                "{} \"{}\" of {}: {error:.3e}, {} as {}",
                row.role.name(),
                row.tensor,
                row.node,
                row.from,
                row.to
            ));
        }
        all.push(diagnostic.help("give other inputs with --calibration, another --observer, or --precision mixed or fp16"));
    }
    if all.has_errors() { Err(all) } else { Ok(()) }
}

/// The results whose numbers matter: floats of known rank that nodes of the main graph give.
fn watched(graph: &Graph) -> Vec<ValueId> {
    let is_float =
        |v: &ValueId| matches!(&graph.values[*v].fact.ty, Type::Tensor(t) if t.dtype == DType::F32 && t.shape.is_some());
    crate::node_check::results(graph)
        .into_iter()
        .filter(is_float)
        .filter(|v| matches!(graph.values[*v].def, Def::Node(..)))
        .collect()
}

fn input_names(graph: &Graph) -> Vec<String> {
    graph.root().inputs.iter().map(|v| graph.values[*v].name.clone()).collect()
}

/// Hears inputs, outputs and kept values of each run.
type Heard<'a> = dyn FnMut(&[Tensor], &[Tensor], &[(ValueId, Tensor)]) + 'a;

/// Runs the graph on every sample with these values kept.
fn observe(
    graph: &Graph,
    values: &[ValueId],
    target: &str,
    options: &Options,
    samples: &[BTreeMap<String, Tensor>],
    dims: &BTreeMap<String, i64>,
    heard: &mut Heard,
) -> Result<(), Diagnostics> {
    let opened = instrumented(graph, values, target, options)?;
    let own = graph.root().outputs.len();
    for sample in samples {
        let mut run = execute::run_seeded(&opened.loaded, sample, dims, 1).map_err(one)?;
        let kept: Vec<(ValueId, Tensor)> = values.iter().copied().zip(run.outputs.split_off(own)).collect();
        heard(&run.inputs, &run.outputs, &kept);
    }
    Ok(())
}

/// These values of one run.
fn run_with(
    graph: &Graph,
    values: &[ValueId],
    target: &str,
    options: &Options,
    inputs: &[Tensor],
) -> Result<Vec<Tensor>, Diagnostics> {
    let opened = instrumented(graph, values, target, options)?;
    let mut outputs = execute::run(&opened.loaded, inputs).map_err(one)?;
    Ok(outputs.split_off(graph.root().outputs.len()))
}

/// An artefact that gives these values behind its outputs.
fn instrumented(graph: &Graph, values: &[ValueId], target: &str, options: &Options) -> Result<Opened, Diagnostics> {
    let target = targets::find(target).map_err(one)?;
    let mut graph = graph.clone();
    let root = graph.root;
    graph.blocks[root].outputs.extend(values.iter().copied());
    let mut clock = Clock { times: Vec::new(), progress: &mut Silent };
    let (program, fused) = lower_for(&graph, target.device(), options, &mut clock, &mut |_, _| Ok(()))?;
    let mut weights = Weights::default();
    let share = finish(program, fused, target.as_ref(), options, &mut weights, clock)?;
    Opened::package(&artefact::package(vec![share], weights, options.fallback), options.jobs).map_err(one)
}

/// The target that this machine runs best and that artefacts for it hold too.
fn host_target() -> &'static str {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vl") && is_x86_feature_detected!("avx512dq") {
            return "cpu:x86-64-v4";
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c") {
            return "cpu:x86-64-v3";
        }
        "cpu:x86-64-v2"
    }
    #[cfg(not(target_arch = "x86_64"))]
    "cpu"
}

/// Largest difference over the reference's largest magnitude.
fn relative(reference: &Tensor, found: &Tensor) -> f64 {
    let found = if found.dtype == reference.dtype {
        found.clone()
    } else {
        Tensor::from_scalars(reference.dtype, found.dims.clone(), found.scalars())
    };
    data::difference(reference, &found).map_or(f64::INFINITY, |d| d.max_rel)
}

/// Root mean square of the difference over that of the reference.
fn mean_square(reference: &Tensor, found: &Tensor) -> f64 {
    if reference.dims != found.dims {
        return f64::INFINITY;
    }
    let (mut gap, mut all) = (0f64, 0f64);
    for i in 0..reference.len() {
        let (a, b) = (reference.f64_at(i), found.f64_at(i));
        gap += (a - b).powi(2);
        all += a * a;
    }
    if gap == 0.0 { 0.0 } else { (gap / all).sqrt() }
}

fn first_message(all: &Diagnostics) -> String {
    all.items.first().map_or_else(String::new, |d| d.message.clone())
}

fn one(diagnostic: Diagnostic) -> Diagnostics {
    Diagnostics { items: vec![diagnostic] }
}

/// Whether a folder holds anything to calibrate with, before minutes of work.
pub fn check_folder(folder: &Path) -> Result<(), Diagnostic> {
    match std::fs::read_dir(folder) {
        Ok(_) => Ok(()),
        Err(e) => Err(Diagnostic::error(Code::IO, format!("cannot read {}: {e}", folder.display()))),
    }
}
