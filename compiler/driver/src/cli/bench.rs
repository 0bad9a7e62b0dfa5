//! `oaaxc bench`: latency, after the numbers were found right.
//!
//! Promises: no speed is printed for wrong numbers; nothing is left out of the measured runs; a peer takes
//! turns with us, round by round, so that both meet the same mood of the machine.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use oaax_core::Output;
use oaaxc_base::{Code, Diagnostic, Diagnostics};
use oaaxc_ir::Tensor;
use serde_json::{Value, json};

use super::Outcome;
use super::arguments::{
    CompileArguments, DeviceArguments, InputArguments, ModelArguments, TargetArguments, is_model, one, usage,
};
use super::console::Console;
use super::peer::Peer;
use super::profile::{self, Profile};
use super::run::{Source, open};
use super::table::{Table, bytes, seconds};
use crate::execute::{self, Request, Wanted};
use crate::pipeline::Silent;
use crate::session::{self, Opened};
use crate::{canary, data};

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  oaaxc bench model.oaax --threads 1 --duration 10
  oaaxc bench model.oaax --profile
  oaaxc bench model.onnx --target cpu:x86-64-v3 --peer onnxruntime --dim batch=1")]
pub struct Arguments {
    /// An artefact or an ONNX model
    model: PathBuf,
    /// The model of the artefact, for the reference and the peer
    #[arg(long = "model", value_name = "MODEL.onnx")]
    reference: Option<PathBuf>,
    #[command(flatten)]
    targets: TargetArguments,
    #[command(flatten)]
    inputs: InputArguments,
    #[command(flatten)]
    reading: ModelArguments,
    #[command(flatten)]
    compiling: CompileArguments,
    #[command(flatten)]
    device: DeviceArguments,
    /// Threads
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Seconds of runs that are not counted
    #[arg(long, default_value_t = 0.2, value_name = "SECONDS")]
    warmup: f64,
    /// Seconds to measure
    #[arg(long, default_value_t = 3.0, value_name = "SECONDS", conflicts_with = "iterations")]
    duration: f64,
    /// Runs to measure, instead of a duration
    #[arg(long, value_name = "N")]
    iterations: Option<usize>,
    /// Take turns with this peer
    #[arg(long, value_parser = ["onnxruntime"])]
    peer: Option<String>,
    /// Show operations, bytes and time of every kernel, worst first
    #[arg(long)]
    profile: bool,
    /// Do not check the numbers first
    #[arg(long)]
    unchecked: bool,
}

/// Latencies of one side, in seconds.
struct Side {
    name: String,
    times: Vec<f64>,
    load: f64,
}

/// Measures.
pub fn main(arguments: &Arguments, console: &Console) -> Outcome {
    let model = arguments.reference.clone().or_else(|| is_model(&arguments.model).then(|| arguments.model.clone()));
    if arguments.peer.is_some() && model.is_none() {
        return Err(usage("--peer needs the model: --model MODEL.onnx"));
    }
    let source = Source {
        path: &arguments.model,
        targets: &arguments.targets,
        reading: &arguments.reading,
        compiling: &arguments.compiling,
        device: &arguments.device,
    };
    let built = open(&source, arguments.threads, None, console)?;
    // What the compiler needed is not what a run needs.
    reset_peak_memory();
    let start = Instant::now();
    let variant = Some(built.loaded.model.variant.clone());
    let wanted = Wanted { variant, ..arguments.device.wanted(arguments.threads) };
    let opened = Opened::file(&built.path, &wanted).map_err(one)?;
    let load = start.elapsed().as_secs_f64();
    let run = execute::run_seeded(&opened.loaded, &arguments.inputs.read()?, &arguments.reading.sizes()?, arguments.inputs.seed)
        .map_err(one)?;
    let names: Vec<String> = opened.loaded.inputs.iter().map(|port| port.name.clone()).collect();
    let mut ours = Side { name: "oaaxc".into(), times: Vec::new(), load };
    let request = Request::new(&run.inputs).map_err(one)?;
    // Before the peer and the oracle, which have memory of their own.
    once(&opened, &request)?;
    let peak = peak_memory();
    let mut peer = match (&arguments.peer, &model) {
        (Some(_), Some(model)) => Some(Peer::open(model, arguments.threads, &names, &run.inputs).map_err(one)?),
        _ => None,
    };
    if !arguments.unchecked {
        check(arguments, &opened, &run, model.as_deref(), peer.as_mut(), console)?;
    }
    let mut theirs = peer.as_ref().map(|peer| Side { name: "onnxruntime".into(), times: Vec::new(), load: peer.load_ms / 1e3 });
    measure(arguments, &opened, &request, &mut ours, peer.as_mut(), theirs.as_mut())?;
    let sides: Vec<&Side> = std::iter::once(&ours).chain(theirs.as_ref()).collect();
    let profile = profile::profile(&opened, &request, if arguments.profile { 1.0 } else { 0.0 })?;
    report(arguments, &opened, &run, &sides, peak, &profile, console);
    Ok(0)
}

/// The numbers are right, or the benchmark ends here.
fn check(
    arguments: &Arguments,
    opened: &Opened,
    run: &execute::Run,
    model: Option<&Path>,
    peer: Option<&mut Peer>,
    console: &Console,
) -> Result<(), Diagnostics> {
    let names: Vec<String> = opened.loaded.outputs.iter().map(|port| port.name.clone()).collect();
    let (against, comparisons) = match (peer, model) {
        (Some(peer), _) => {
            peer.run(1).map_err(one)?;
            let theirs = peer.outputs(&names).map_err(one)?;
            let ours = |name: &str| names.iter().position(|n| n == name).map(|i| &run.outputs[i]);
            let pairs = theirs.iter().filter_map(|(name, reference)| Some((name, reference, ours(name)?)));
            (
                "onnxruntime",
                pairs.map(|(name, reference, found)| data::compare(name, reference, found, data::TOLERANCE)).collect(),
            )
        }
        (None, Some(model)) => {
            let options = arguments.compiling.options();
            let strict = session::build(model, &["cpu:strict".into()], &arguments.reading.options()?, &options, &mut Silent)?;
            let oracle = Opened::package(&strict.package, options.jobs).map_err(one)?;
            let outputs = execute::run(&oracle.loaded, &run.inputs).map_err(one)?;
            let pairs = names.iter().zip(outputs.iter().zip(&run.outputs));
            (
                "cpu:strict",
                pairs
                    .map(|(name, (reference, found))| data::compare(name, reference, found, data::TOLERANCE))
                    .collect::<Vec<_>>(),
            )
        }
        (None, None) => ("its canary", canary::check(&opened.path, &opened.loaded).map_err(one)?),
    };
    if comparisons.is_empty() {
        console.hint("the numbers were not checked: the artefact has no canary; give --model MODEL.onnx");
        return Ok(());
    }
    let mut errors = Diagnostics::new();
    for c in comparisons.iter().filter(|c| !c.within) {
        errors.push(
            Diagnostic::error(Code::NUMERICS, format!("output \"{}\" {}", c.name, c.why))
                .note(format!("compared with {against}; no speed is measured for wrong numbers"))
                .help("`oaaxc verify --bisect` names the node; --unchecked measures nevertheless"),
        );
    }
    if errors.has_errors() {
        return Err(errors);
    }
    let worst = comparisons.iter().filter_map(|c| c.difference).map(|d| d.max_rel).fold(0.0, f64::max);
    console.note(&format!("numbers: within {worst:.1e} of the scale of {against}"));
    Ok(())
}

fn once(opened: &Opened, request: &Request) -> Result<f64, Diagnostics> {
    let mut outputs: Vec<Output> = opened.loaded.outputs.iter().map(|_| Output::default()).collect();
    let values = request.values();
    let start = Instant::now();
    opened.loaded.session.run(&values, &mut outputs).map_err(|e| one(execute::run_error(&e)))?;
    Ok(start.elapsed().as_secs_f64())
}

/// Rounds of both sides in turn. A round is as many runs as fit in about a tenth of a second.
fn measure(
    arguments: &Arguments,
    opened: &Opened,
    request: &Request,
    ours: &mut Side,
    mut peer: Option<&mut Peer>,
    mut theirs: Option<&mut Side>,
) -> Result<(), Diagnostics> {
    let mut outputs: Vec<Output> = opened.loaded.outputs.iter().map(|_| Output::default()).collect();
    let values = request.values();
    let mut run = || -> Result<f64, Diagnostics> {
        let start = Instant::now();
        opened.loaded.session.run(&values, &mut outputs).map_err(|e| one(execute::run_error(&e)))?;
        Ok(start.elapsed().as_secs_f64())
    };
    let mut one_run = run()?;
    let end = Instant::now() + Duration::from_secs_f64(arguments.warmup.clamp(0.0, 3600.0));
    while Instant::now() < end {
        one_run = run()?;
    }
    let round = ((0.1 / one_run.max(1e-7)) as usize).clamp(1, 10_000);
    if let Some(peer) = peer.as_deref_mut() {
        peer.run(round).map_err(one)?;
    }
    let wanted = arguments.iterations.unwrap_or(usize::MAX);
    let end = Instant::now() + Duration::from_secs_f64(arguments.duration.clamp(0.0, 3600.0));
    while ours.times.len() < wanted && (arguments.iterations.is_some() || Instant::now() < end || ours.times.is_empty()) {
        let n = round.min(wanted - ours.times.len());
        for _ in 0..n {
            ours.times.push(run()?);
        }
        if let (Some(peer), Some(theirs)) = (peer.as_deref_mut(), theirs.as_deref_mut()) {
            theirs.times.extend(peer.run(n).map_err(one)?.iter().map(|ns| ns / 1e9));
        }
    }
    Ok(())
}

/// min, mean, p50, p90, p99 of sorted seconds.
fn statistics(times: &[f64]) -> [f64; 5] {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| {
        sorted.get(((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or(0.0)
    };
    let mean = if sorted.is_empty() { 0.0 } else { sorted.iter().sum::<f64>() / sorted.len() as f64 };
    [at(0.0), mean, at(0.5), at(0.9), at(0.99)]
}

#[allow(clippy::too_many_arguments, reason = "each is a line of the report")]
fn report(
    arguments: &Arguments,
    opened: &Opened,
    run: &execute::Run,
    sides: &[&Side],
    peak: Option<u64>,
    profile: &Profile,
    console: &Console,
) {
    let shape = |t: &Tensor| format!("{}{:?}", t.dtype, t.dims);
    let inputs: Vec<String> =
        opened.loaded.inputs.iter().zip(&run.inputs).map(|(p, t)| format!("{} {}", p.name, shape(t))).collect();
    let medians: Vec<f64> = sides.iter().map(|side| statistics(&side.times)[2]).collect();
    let ratio = medians.get(1).map(|peer| medians[0] / peer);
    if console.json {
        let side = |s: &&Side| -> Value {
            let [min, mean, p50, p90, p99] = statistics(&s.times);
            json!({ "name": s.name, "runs": s.times.len(), "load": s.load, "min": min, "mean": mean, "p50": p50, "p90": p90,
                "p99": p99, "throughput": 1.0 / mean })
        };
        let mut object = json!({
            "inputs": inputs, "threads": arguments.threads, "sides": sides.iter().map(side).collect::<Vec<_>>(), "ratio": ratio,
            "peak_memory": peak, "weight_bytes": opened.loaded.model.weight_bytes(),
            "level": opened.loaded.model.choice,
        });
        if let (Value::Object(members), Value::Object(more)) = (&mut object, profile.to_json(arguments.profile)) {
            members.extend(more);
        }
        console.object(&object);
        return;
    }
    let mut table = Table::new(&["", "runs", "load", "min", "mean", "p50", "p90", "p99", "per second"]);
    for side in sides {
        let [min, mean, p50, p90, p99] = statistics(&side.times);
        let mut row = vec![side.name.clone(), side.times.len().to_string(), seconds(side.load)];
        row.extend([min, mean, p50, p90, p99].map(seconds));
        row.push(format!("{:.1}", 1.0 / mean));
        table.row(row);
    }
    console.line(&format!("{}, {} threads, {}", inputs.join(", "), arguments.threads, opened.loaded.model.choice));
    table.lines().iter().for_each(|line| console.line(line));
    if let Some(ratio) = ratio {
        let word = if ratio <= 1.0 { "faster" } else { "slower" };
        console.line(&format!("p50 is {:.2} of the peer's: {word}", ratio));
    }
    if let Some(peak) = peak {
        let (weights, arena) = (opened.loaded.model.weight_bytes(), opened.loaded.session.arena_bytes());
        console.line(&format!("peak memory {} (weights {}, arena {})", bytes(peak), bytes(weights), bytes(arena)));
    }
    console.line(&profile.generic_line());
    if arguments.profile {
        profile.show(console);
    }
}

/// Linux forgets the greatest size that this process had so far.
fn reset_peak_memory() {
    // Without the right to, the peak is that of the whole process.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// The greatest resident size since the last reset.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().ok().map(|kb| kb * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measured_runs() {
        let times: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(statistics(&times), [1.0, 50.5, 50.0, 90.0, 99.0]);
        assert_eq!(statistics(&[2.0]), [2.0; 5]);
    }
}
