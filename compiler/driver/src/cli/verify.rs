//! `oaaxc verify`: an artefact's numbers beside the oracle's.
//!
//! Promises: the reference is `cpu:strict` on the same inputs, or without a model the canaries that the
//! build stored; the exit code is 4 where an output lies outside the tolerance. With `--policy` nothing is
//! run: signatures are asked for and every byte is hashed.

use std::path::PathBuf;

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::{Def, Graph, ValueId};
use serde_json::json;

use super::Outcome;
use super::arguments::{CompileArguments, DeviceArguments, InputArguments, ModelArguments, one, usage};
use super::console::Console;
use super::nodes;
use super::progress::Phases;
use super::registry::RegistryArguments;
use super::table::Table;
use super::trust;
use crate::canary;
use crate::data::{self, Comparison, Tolerance};
use crate::execute::{self, Run, Wanted};
use crate::node_check::{self, Keep};
use crate::pipeline::{Options, Progress, Silent};
use crate::session::{self, Opened};

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  oaaxc verify model.oaax
  oaaxc verify registry.example.org/team/model:v1 --policy policy.json
  oaaxc verify model.oaax --model model.onnx
  oaaxc verify model.oaax --model model.onnx --bisect
  oaaxc verify model.oaax --model model.onnx --per-node
  oaaxc verify model.oaax --model model.onnx --per-node stored")]
pub struct Arguments {
    /// The artefact
    artefact: PathBuf,
    /// Ask this trust policy, and hash every byte; no code is loaded
    #[arg(long, value_name = "FILE", conflicts_with = "model")]
    policy: Option<PathBuf>,
    #[command(flatten)]
    registry: RegistryArguments,
    /// Its model: the reference is `cpu:strict`; without it the stored canaries run
    #[arg(long, value_name = "MODEL.onnx")]
    model: Option<PathBuf>,
    /// Name the first node whose numbers differ
    #[arg(long, requires = "model")]
    bisect: bool,
    /// Compare every node with its own evaluation on the operands of the same run: with `every` result kept
    /// (the default), or with those that the artefact's own, fused kernels have `stored`
    #[arg(long, value_name = "KEPT", requires = "model", conflicts_with = "bisect", num_args = 0..=1,
          default_missing_value = "every", value_parser = ["every", "stored"])]
    per_node: Option<String>,
    /// Verify this variant, where the artefact has several [default: the first that runs here]
    #[arg(short, long, value_name = "TARGET")]
    target: Option<String>,
    /// Allowed difference relative to an output's greatest magnitude
    #[arg(long, default_value_t = data::TOLERANCE.relative)]
    rtol: f64,
    /// Allowed difference whatever the magnitude
    #[arg(long, default_value_t = data::TOLERANCE.absolute)]
    atol: f64,
    #[command(flatten)]
    inputs: InputArguments,
    #[command(flatten)]
    reading: ModelArguments,
    #[command(flatten)]
    compiling: CompileArguments,
    #[command(flatten)]
    device: DeviceArguments,
    /// Threads [default: one for each processor]
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    threads: usize,
}

/// Verifies.
pub fn main(arguments: &Arguments, console: &Console) -> Outcome {
    if let Some(policy) = &arguments.policy {
        return trusted(arguments, policy, console);
    }
    let variant = arguments.target.clone();
    let wanted = Wanted { variant, ..arguments.device.wanted(arguments.threads) };
    let opened = Opened::file(&arguments.artefact, &wanted).map_err(one)?;
    let Some(model) = &arguments.model else {
        let comparisons = canary::check(&opened.path, &opened.loaded).map_err(one)?;
        if comparisons.is_empty() {
            return Err(usage("the artefact has no canary; give its model: --model MODEL.onnx"));
        }
        return report(&comparisons, "its canary", console);
    };
    let mut phases = Phases::new(console, false);
    let options = arguments.compiling.options();
    let (graph, _) = session::load(model, &arguments.reading.options()?, &mut phases)?;
    if let Some(kept) = &arguments.per_node {
        return per_node(arguments, &opened, &graph, &options, kept, &mut phases, console);
    }
    let strict = session::build_graph(graph.clone(), &["cpu:strict".into()], &options, &mut phases)?;
    phases.finish();
    let oracle = Opened::package(&strict.package, arguments.threads).map_err(one)?;
    let run = execute::run_seeded(&oracle.loaded, &arguments.inputs.read()?, &arguments.reading.sizes()?, arguments.inputs.seed)
        .map_err(one)?;
    let found = execute::run(&opened.loaded, &run.inputs).map_err(one)?;
    let tolerance = Tolerance { absolute: arguments.atol, relative: arguments.rtol };
    let pairs = opened.loaded.outputs.iter().zip(run.outputs.iter().zip(&found));
    let comparisons: Vec<Comparison> =
        pairs.map(|(port, (reference, found))| data::compare(&port.name, reference, found, tolerance)).collect();
    let code = report(&comparisons, "cpu:strict", console)?;
    if arguments.bisect && code != 0 {
        let target = target_of(&opened)?;
        bisect(&graph, &target, &options, &run, tolerance, console)?;
    }
    Ok(code)
}

/// Every node beside `eval`.
fn per_node(
    arguments: &Arguments,
    opened: &Opened,
    graph: &Graph,
    options: &Options,
    kept: &str,
    phases: &mut Phases,
    console: &Console,
) -> Outcome {
    let target = arguments.target.clone().map_or_else(|| target_of(opened), Ok)?;
    let run = execute::run_seeded(&opened.loaded, &arguments.inputs.read()?, &arguments.reading.sizes()?, arguments.inputs.seed)
        .map_err(one)?;
    phases.phase("nodes");
    let keep = if kept == "stored" { Keep::Stored } else { Keep::Every };
    let tolerance = Tolerance { absolute: arguments.atol, relative: arguments.rtol };
    let checked = node_check::check(graph, &target, options, &run.inputs, keep, tolerance)?;
    phases.finish();
    if keep == Keep::Stored && !holds_code(opened, &checked.objects)? {
        console.hint("the artefact holds other code than this model gives now: built with other options, or by another oaaxc");
    }
    Ok(if nodes::report(checked.rows, console) { 0 } else { 4 })
}

/// Whether all these objects stand in the artefact.
fn holds_code(opened: &Opened, objects: &[Vec<u8>]) -> Result<bool, oaaxc_base::Diagnostics> {
    let failed = |e: oaaxc_container::ContainerError| one(Diagnostic::error(Code::ARTEFACT, e.to_string()));
    let package = oaaxc_container::open(&opened.path).map_err(failed)?;
    let mut held = Vec::new();
    for path in package.manifest().variants.iter().flat_map(|v| &v.objects) {
        held.push(package.read(path, u64::MAX).map_err(failed)?);
    }
    Ok(objects.iter().all(|object| held.contains(object)))
}

/// Whether the policy trusts the package, and whether its bytes are those that were signed.
fn trusted(arguments: &Arguments, policy: &std::path::Path, console: &Console) -> Outcome {
    let text = arguments.artefact.display().to_string();
    let approved = match oaaxc_registry::Reference::is_meant(&text) {
        true => trust::approve_shelf(&arguments.registry.client_for(&text)?, policy)?,
        false => {
            let (approved, _) = trust::approve_path(&arguments.artefact, policy)?;
            let checked = oaaxc_container::open(&arguments.artefact).and_then(|package| package.verify());
            checked.map_err(|e| one(Diagnostic::error(Code::ARTEFACT, format!("{text}: {e}"))))?;
            approved
        }
    };
    match console.json {
        true => console.object(&json!({
            "trusted": approved.root.to_string(), "keys": approved.verdict.keys, "predicates": approved.verdict.predicates,
        })),
        false => console.line(&format!("{} is trusted: {}", approved.root, approved.words())),
    }
    Ok(0)
}

/// One line an output; 4 where one is outside its tolerance.
fn report(comparisons: &[Comparison], against: &str, console: &Console) -> Outcome {
    let mut table = Table::new(&["output", "max abs", "max rel", "max ulp", "cosine", ""]);
    for c in comparisons {
        let d = c.difference.unwrap_or_default();
        if console.json {
            console.object(&json!({
                "output": c.name, "within": c.within, "max_abs": d.max_abs, "max_rel": d.max_rel, "max_ulp": d.max_ulp,
                "cosine": 1.0 - d.cosine_loss, "cause": c.why, "reference": against,
            }));
            continue;
        }
        let verdict = if c.within { "holds".to_string() } else { c.why.clone() };
        table.row(vec![
            c.name.clone(),
            format!("{:.3e}", d.max_abs),
            format!("{:.3e}", d.max_rel),
            d.max_ulp.to_string(),
            format!("{:.9}", 1.0 - d.cosine_loss),
            verdict,
        ]);
    }
    let failed = comparisons.iter().filter(|c| !c.within).count();
    if !console.json {
        table.lines().iter().for_each(|line| console.line(line));
        console.line(&format!("{} of {} outputs agree with {against}", comparisons.len() - failed, comparisons.len()));
    }
    Ok(if failed == 0 { 0 } else { 4 })
}

/// The target that the artefact's running variant was built for.
fn target_of(opened: &Opened) -> Result<String, oaaxc_base::Diagnostics> {
    let failed = |e: oaaxc_container::ContainerError| one(Diagnostic::error(Code::ARTEFACT, e.to_string()));
    let package = oaaxc_container::open(&opened.path).map_err(failed)?;
    let variants = &package.manifest().variants;
    Ok(variants.iter().find(|v| v.id == opened.loaded.model.variant).map_or_else(|| "cpu".into(), |v| v.target.clone()))
}

/// Names the first node whose result differs. Taps on every node show faults of single kernels; a fault
/// that only fused kernels have is found by a binary search with one tap at a time.
fn bisect(
    graph: &Graph,
    target: &str,
    options: &Options,
    run: &Run,
    tolerance: Tolerance,
    console: &Console,
) -> Result<(), oaaxc_base::Diagnostics> {
    let taps = node_check::results(graph);
    let strict = tapped(graph, &taps, "cpu:strict", options, run)?;
    let ours = tapped(graph, &taps, target, options, run)?;
    let differs = |i: usize, found: &oaaxc_ir::Tensor| !data::compare("", &strict[i], found, tolerance).within;
    if let Some(first) = (0..taps.len()).find(|&i| differs(i, &ours[i])) {
        tell(graph, taps[first], "by itself", console);
        return Ok(());
    }
    // Invariant: the tap at `low` is right, the one at `high` wrong.
    let (mut low, mut high) = (None, taps.len());
    while low.map_or(0, |l: usize| l + 1) < high {
        let middle = low.map_or(0, |l| l + 1).midpoint(high);
        let middle = middle.min(high - 1);
        let found = tapped(graph, &taps[middle..=middle], target, options, run)?;
        if found.first().is_some_and(|found| differs(middle, found)) {
            high = middle;
        } else {
            low = Some(middle);
        }
    }
    match taps.get(high) {
        Some(&value) => tell(graph, value, "when it is fused with its neighbours", console),
        None => console.note("no node differs when its result is an output: every tap is within the tolerance"),
    }
    Ok(())
}

fn tell(graph: &Graph, value: ValueId, how: &str, console: &Console) {
    let Def::Node(node, _) = graph.values[value].def else { return };
    let (node, name) = (&graph.nodes[node], &graph.values[value].name);
    if console.json {
        console.object(&json!({ "first_difference": { "node": node.origin.to_string(), "value": name, "how": how } }));
    } else {
        console.line(&format!("first difference: {} gives \"{name}\", which differs {how}", node.origin));
    }
}

/// Values of the taps, which become the model's only outputs.
fn tapped(
    graph: &Graph,
    taps: &[ValueId],
    target: &str,
    options: &Options,
    run: &Run,
) -> Result<Vec<oaaxc_ir::Tensor>, oaaxc_base::Diagnostics> {
    let mut graph = graph.clone();
    let root = graph.root;
    let mut outputs = graph.blocks[root].outputs.clone();
    outputs.retain(|v| !taps.contains(v));
    let n_others = outputs.len();
    outputs.extend(taps);
    graph.blocks[root].outputs = outputs;
    let built = session::build_graph(graph, &[target.to_string()], options, &mut Silent)?;
    let opened = Opened::package(&built.package, options.jobs).map_err(one)?;
    let all = execute::run(&opened.loaded, &run.inputs).map_err(one)?;
    Ok(all.into_iter().skip(n_others).collect())
}
