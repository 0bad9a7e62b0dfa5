//! The pipeline: graph in, code and host program out. One function that a visitor can read aloud.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use oaaxc_base::{Code, Diagnostic, Diagnostics};
use oaaxc_ir::graph::Node;
use oaaxc_ir::program::{Program, Space};
use oaaxc_ir::{Graph, lower};
use oaaxc_passes::graph::{branch, dead, fold, refine};
use oaaxc_passes::kernel::encode::{LevelEntry, LevelSpec, Weights, encode};
use oaaxc_passes::kernel::{fuse, intern, pack, precompute, resolve, widen};
use oaaxc_passes::rules::rules;
use oaaxc_target_api::{CodeObject, Device, EmitCx, Level, Target};

use crate::pass_check::PassCheck;
use crate::placement::{self, Fallback, Placement};
use crate::targets;

/// How to compile.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Parallel code-generation workers; 0 for the number of cores.
    pub jobs: usize,
    /// The executable that becomes a worker.
    pub worker: PathBuf,
    /// The kernel cache; `None` for none.
    pub cache: Option<PathBuf>,
    /// Stages whose text is kept: `graph typed kernel mlir llvm asm object`.
    pub emit: Vec<String>,
    /// Run seeded inputs after each pass and refuse a pass that changed the numbers.
    pub verify_passes: bool,
    /// Nothing runs at build time: every tensor element is computed by emitted code.
    pub unfolded: bool,
    /// What to do where a device cannot run a kernel.
    pub fallback: Fallback,
    /// Halves stand for floats that were narrowed: what a kernel keeps in registers is not rounded.
    pub halves: bool,
    /// In how many bits, and by what measure.
    pub precision: crate::precision::Settings,
}

/// One target's share of a build.
pub struct Compiled {
    /// The target's name as asked for.
    pub target: String,
    /// The device's architecture.
    pub arch: &'static str,
    /// Code for every level: of the device first where there is one, then of the host.
    pub code: CodeObject,
    /// How many of the levels are the host's.
    pub host_levels: usize,
    /// What runs where; `None` where the target is the host itself.
    pub placement: Option<Placement>,
    /// The host program.
    pub host: oaax_abi::Program,
    /// The program before encoding: kernels, slots.
    pub program: Program,
    /// Distinct kernels.
    pub kernels: usize,
    /// Kernels saved by fusion.
    pub fused: usize,
    /// Texts of the stages asked for.
    pub texts: Vec<Text>,
    /// What each phase took.
    pub times: Vec<(&'static str, Duration)>,
}

/// What a stage looks like.
#[derive(Clone, Debug)]
pub struct Text {
    /// The target; empty for what all targets share.
    pub target: String,
    /// `graph`, `kernel`, `mlir`, `llvm`, `asm`.
    pub stage: String,
    /// The graph or kernel.
    pub name: String,
    /// The text.
    pub text: String,
}

/// Hears which phase begins.
pub trait Progress {
    /// A phase begins.
    fn phase(&mut self, name: &'static str);
    /// Something is worth a line.
    fn note(&mut self, text: &str);
}

/// Hears nothing.
pub struct Silent;

impl Progress for Silent {
    fn phase(&mut self, _: &'static str) {}
    fn note(&mut self, _: &str) {}
}

/// Graph passes that serve every target: fold what is constant, take the branches that are decided, rewrite by the
/// rules, drop what is unused.
pub fn simplify(graph: &mut Graph) {
    dead::dead(graph);
    // Each round knows more sizes than the one before; models need one or two.
    for _ in 0..8 {
        fold(graph);
        let changes = branches(graph) + rewrite(graph).values().sum::<usize>() + refine::refine(graph);
        if changes == 0 {
            break;
        }
    }
    dead::dead(graph);
}

/// Puts branches whose conditions are constants in the place of their nodes; how many.
pub fn branches(graph: &mut Graph) -> usize {
    branch::branch(graph, &oaaxc_ops::control::decided)
}

/// Applies the rewrite rules; how often each did.
pub fn rewrite(graph: &mut Graph) -> BTreeMap<String, usize> {
    rules(graph, &oaaxc_ops::find)
}

/// Evaluates nodes whose operands are constants.
pub fn fold(graph: &mut Graph) {
    fold::fold(graph, &is_random);
}

/// Whether ONNX draws the operator's result at random, so that it is no function of its operands.
pub fn is_random(node: &Node) -> bool {
    oaaxc_ops::schema_types::lookup(node.op.domain, node.op.name, node.opset).is_some_and(|schema| schema.random)
}

/// Hears of the program after each pass, and may refuse it.
pub type Observer<'a> = dyn FnMut(&'static str, &Program) -> Result<(), Diagnostics> + 'a;

/// Lowers a simplified graph for one device: the program just before emission, and how many kernels fusion saved.
pub fn lower_for(
    graph: &Graph,
    device: &Device,
    options: &Options,
    clock: &mut Clock,
    after: &mut Observer,
) -> Result<(Program, usize), Diagnostics> {
    let mut program = clock.time("lower", || lower::lower(graph))?;
    after("lower", &program)?;
    clock.time("resolve", || resolve::resolve(&mut program));
    after("resolve", &program)?;
    if device.strict {
        return Ok((program, 0));
    }
    if !options.unfolded {
        clock.time("precompute", || precompute::precompute(&mut program));
        after("precompute", &program)?;
    }
    let fused = clock.time("fuse", || fuse::fuse(&mut program));
    after("fuse", &program)?;
    if options.halves {
        clock.time("widen", || widen::widen(&mut program));
        after("widen", &program)?;
    }
    clock.time("pack", || pack::pack(&mut program, device.panel));
    after("pack", &program)?;
    Ok((program, fused))
}

/// Compiles a simplified graph for one target. Its constants join those of the package's other targets.
pub fn compile(
    graph: &Graph,
    target: &dyn Target,
    options: &Options,
    weights: &mut Weights,
    progress: &mut dyn Progress,
) -> Result<Compiled, Diagnostics> {
    let mut check = match options.verify_passes && !target.device().strict {
        true => Some(PassCheck::new(graph, target, options)?),
        false => None,
    };
    let mut clock = Clock { times: Vec::new(), progress };
    let (program, fused) = lower_for(graph, target.device(), options, &mut clock, &mut |pass, program| match &mut check {
        Some(check) => check.after(pass, program),
        None => Ok(()),
    })?;
    check.iter().flat_map(|check| &check.told).for_each(|line| clock.progress.note(line));
    finish(program, fused, target, options, weights, clock)
}

/// Places, emits and encodes a lowered program.
pub fn finish(
    mut program: Program,
    fused: usize,
    target: &dyn Target,
    options: &Options,
    weights: &mut Weights,
    mut clock: Clock,
) -> Result<Compiled, Diagnostics> {
    let placement = match target.device().kind {
        "gpu" => Some(clock.time("place", || placement::place(&mut program, target, options.fallback))?),
        _ => None,
    };
    let interned = clock.time("intern", || intern::intern(&program));
    let (mut code, host_levels) = clock.time("emit", || emit(&interned, target, options))?;
    let encoded = clock.time("encode", || encode(&program, &interned, &levels(&code, host_levels), producer(), weights));
    let host = encoded.map_err(|e| {
        let mut all = Diagnostics::new();
        all.push(Diagnostic::error(Code::UNSUPPORTED, e.0));
        all
    })?;
    let text = |(stage, name, text)| Text { target: target.name().to_string(), stage, name, text };
    let mut texts: Vec<Text> = std::mem::take(&mut code.texts).into_iter().map(text).collect();
    if options.emit.iter().any(|stage| stage == "kernel") {
        let kernels = interned.kernels.iter().enumerate();
        texts.extend(kernels.map(|(i, kernel)| text(("kernel".into(), format!("k{i}"), kernel.to_string()))));
    }
    let Clock { times, .. } = clock;
    let arch = target.device().arch;
    let (kernels, target) = (interned.kernels.len(), target.name().to_string());
    Ok(Compiled { target, arch, code, host_levels, placement, host, program, kernels, fused, texts, times })
}

/// Code for the kernels of each space, and how many levels are the host's.
fn emit(interned: &intern::Interned, target: &dyn Target, options: &Options) -> Result<(CodeObject, usize), Diagnostics> {
    let cx =
        EmitCx { jobs: options.jobs, worker: options.worker.clone(), cache: options.cache.clone(), keep: options.emit.clone() };
    if target.device().kind != "gpu" {
        let code = target.emit(&interned.kernels, &cx)?;
        let levels = code.levels.len();
        return Ok((code, levels));
    }
    let mut all = CodeObject::default();
    let on_device = interned.kernels_in(Space::Device);
    if !on_device.is_empty() {
        all = target.emit(&on_device, &cx)?;
    }
    let (device_levels, on_host) = (all.levels.len(), interned.kernels_in(Space::Host));
    for name in targets::HOSTS.iter().filter(|_| !on_host.is_empty()) {
        let host = targets::find(name).map_err(|e| Diagnostics { items: vec![e] })?.emit(&on_host, &cx)?;
        all.levels.extend(host.levels);
        all.texts.extend(host.texts);
        all.cached += host.cached;
    }
    let host_levels = all.levels.len() - device_levels;
    Ok((all, host_levels))
}

fn levels(code: &CodeObject, host_levels: usize) -> Vec<LevelSpec<'_>> {
    let first_host = code.levels.len() - host_levels;
    let entry = |k: &oaaxc_target_api::KernelEntry| LevelEntry {
        symbol: k.symbol.clone(),
        groups: k.groups.clone(),
        scratch: k.scratch.clone(),
        threads: k.threads,
        generic: k.generic,
    };
    let spaces = (0..code.levels.len()).map(|at| if at < first_host { Space::Device } else { Space::Host });
    let levels = code.levels.iter().zip(spaces);
    levels
        .map(|(level, space)| LevelSpec {
            name: &level.name,
            object: file_name(level),
            space,
            entries: level.kernels.iter().map(entry).collect(),
        })
        .collect()
}

/// What a level's file is called. A native level names every feature of its machine, which is more than a path may hold.
pub fn file_name(level: &Level) -> String {
    let name = if level.name.len() <= 32 { level.name.as_str() } else { "native" };
    format!("{name}.{}", level.extension)
}

/// The tool and its version, as artefacts record it.
pub fn producer() -> &'static str {
    concat!("oaaxc ", env!("CARGO_PKG_VERSION"))
}

/// Times phases and tells of them.
pub struct Clock<'a> {
    /// Finished phases.
    pub times: Vec<(&'static str, Duration)>,
    /// Who listens.
    pub progress: &'a mut dyn Progress,
}

impl Clock<'_> {
    /// Runs a phase.
    pub fn time<T>(&mut self, name: &'static str, f: impl FnOnce() -> T) -> T {
        self.progress.phase(name);
        let start = Instant::now();
        let result = f();
        self.times.push((name, start.elapsed()));
        result
    }
}
