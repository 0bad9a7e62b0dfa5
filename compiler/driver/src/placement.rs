//! What runs where: the placement of a program for a device, its proof, and the report of it.
//!
//! Promises: a kernel goes to the host only for a reason that is told; a placement that its checker cannot
//! prove is a bug and ends the build; numbers that depend on symbolic sizes say which sizes they are for.

use std::collections::{BTreeMap, BTreeSet};

use oaaxc_base::{Code, Diagnostic, Diagnostics, Origin};
use oaaxc_ir::kernel::cost;
use oaaxc_ir::program::{Program, SlotId, Space};
use oaaxc_ir::{Expr, SymId};
use oaaxc_passes::kernel::place::{self, OnHost};
use oaaxc_passes::kernel::place_check;
use oaaxc_target_api::Target;
use serde_json::{Value, json};

/// What to do where a device cannot run a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fallback {
    /// The build fails.
    #[default]
    Error,
    /// The host runs it, and the build says so.
    Warn,
    /// The host runs it.
    Allow,
}

impl Fallback {
    /// The word on the command line and in the manifest.
    pub fn name(self) -> &'static str {
        match self {
            Fallback::Error => "error",
            Fallback::Warn => "warn",
            Fallback::Allow => "allow",
        }
    }
    /// The policy with this name.
    pub fn named(name: &str) -> Option<Fallback> {
        [Fallback::Error, Fallback::Warn, Fallback::Allow].into_iter().find(|policy| policy.name() == name)
    }
}

/// What one space does in a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Share {
    /// Nodes of the model.
    pub nodes: usize,
    /// Launches in the host program.
    pub launches: usize,
    /// Scalar operations.
    pub operations: f64,
    /// Bytes that kernels read and write.
    pub bytes: f64,
}

/// Copies of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Copies {
    /// How many, an iteration of a loop once.
    pub count: usize,
    /// Their bytes.
    pub bytes: f64,
}

/// The report of one target.
#[derive(Clone, Debug)]
pub struct Placement {
    /// The device's share and the host's.
    pub device: Share,
    /// What the device cannot run.
    pub host: Share,
    /// Inputs, and what the host computed.
    pub to_device: Copies,
    /// Outputs, and what the host needs.
    pub to_host: Copies,
    /// Launches on the host, with reasons.
    pub on_host: Vec<OnHost>,
    /// The sizes that numbers are for, where sizes are symbolic.
    pub sizes: BTreeMap<String, i64>,
    /// What the build should say.
    pub warnings: Vec<Diagnostic>,
}

/// Places a program for a device, proves the placement and reports it.
pub fn place(program: &mut Program, target: &dyn Target, fallback: Fallback) -> Result<Placement, Diagnostics> {
    let before = program.clone();
    let placed = place::place(program, &|kernel| target.claims(kernel));
    place_check::check(&before, program).map_err(|why| {
        one(Diagnostic::error(Code::INTERNAL, format!("the placement for {} is not proved: {why}", target.name())))
    })?;
    let mut warnings = Vec::new();
    if !placed.on_host.is_empty() {
        let told = told(&placed.on_host, target.name());
        match fallback {
            Fallback::Error => return Err(one(told)),
            Fallback::Warn => warnings.push(Diagnostic { severity: oaaxc_base::Severity::Warning, ..told }),
            Fallback::Allow => {}
        }
    }
    let sizes = sizes(program);
    let copies = |slots: &[SlotId]| {
        let bytes = slots.iter().map(|slot| {
            let (dtype, dims) = program.tensor(*slot);
            value(&Expr::product(dims), &sizes) * dtype.size() as f64
        });
        Copies { count: slots.len(), bytes: bytes.sum() }
    };
    let (to_device, to_host) = (copies(&placed.to_device), copies(&placed.to_host));
    let share = |space| share(program, space, &sizes);
    let (device, host) = (share(Space::Device), share(Space::Host));
    let named = sizes.iter().filter(|(s, _)| program.symbols.table[**s].input);
    let sizes = named.map(|(s, size)| (program.symbols.table[*s].name.clone(), *size)).collect();
    Ok(Placement { device, host, to_device, to_host, on_host: placed.on_host, sizes, warnings })
}

/// The nodes that the host would run, and the way out.
fn told(on_host: &[OnHost], target: &str) -> Diagnostic {
    let message = match on_host.len() {
        1 => format!("a kernel of this model cannot run on {target} and would run on the host"),
        n => format!("{n} kernels of this model cannot run on {target} and would run on the host"),
    };
    let mut told = Diagnostic::error(Code::FALLBACK, message);
    for launch in on_host.iter().take(MOST_TOLD) {
        told = told.note(format!("{}: {}", nodes(launch), launch.reason));
    }
    if on_host.len() > MOST_TOLD {
        told = told.note(format!("and {} more", on_host.len() - MOST_TOLD));
    }
    told.help("--fallback warn or --fallback allow builds it, with the host's part for x86-64 and aarch64 in the artefact")
}

/// Most launches that a message names.
const MOST_TOLD: usize = 12;

/// The nodes of a launch, with their operators.
pub fn nodes(launch: &OnHost) -> String {
    let name = |origin: &Origin| match (origin.node.is_empty(), origin.operator.is_empty()) {
        (true, true) => "a copy to an output".to_string(),
        (true, false) => format!("node {} ({})", origin.index, origin.operator),
        (false, _) => format!("\"{}\" ({})", origin.node, origin.operator),
    };
    let mut names: Vec<String> = launch.origins.iter().take(3).map(name).collect();
    if launch.origins.len() > 3 {
        names.push(format!("{} more nodes", launch.origins.len() - 3));
    }
    if names.is_empty() { launch.kernel.clone() } else { names.join(", ") }
}

fn share(program: &Program, space: Space, sizes: &BTreeMap<SymId, i64>) -> Share {
    let mut share = Share::default();
    let mut nodes = BTreeSet::new();
    for launch in program.launches().into_iter().filter(|launch| launch.space == space) {
        let cost = cost(&launch.kernel);
        share.launches += 1;
        share.operations += value(&cost.operations, sizes);
        share.bytes += value(&cost.bytes, sizes);
        nodes.extend(launch.origins.iter().map(|origin| (origin.node.to_string(), origin.index)));
    }
    share.nodes = nodes.len();
    share
}

/// Sizes to count with: the first axis of an input is most often the batch, the others are lengths.
fn sizes(program: &Program) -> BTreeMap<SymId, i64> {
    let mut first = BTreeSet::new();
    for slot in &program.inputs {
        let Some(shape) = program.slots[*slot].ty.as_tensor().and_then(|t| t.shape.as_ref()) else { continue };
        first.extend(shape.first().and_then(Expr::as_sym));
    }
    let size = |(id, symbol): (SymId, &oaaxc_ir::types::Symbol)| {
        let wanted = if first.contains(&id) { 1 } else { 32 };
        (id, wanted.clamp(symbol.min.max(0), symbol.max.max(symbol.min.max(0))))
    };
    program.symbols.table.iter().map(size).collect()
}

fn value(e: &Expr, sizes: &BTreeMap<SymId, i64>) -> f64 {
    e.eval(&|s| sizes.get(&s).copied(), &|_| None).map_or(0.0, |n| n.max(0) as f64)
}

impl Placement {
    /// A line for the end of a build.
    pub fn in_short(&self) -> String {
        let host = match self.host.launches {
            0 => "nothing on the host".to_string(),
            n => format!("{n} on the host"),
        };
        format!(
            "{} launches on the device, {host}; {} tensors copied to the device, {} back",
            self.device.launches, self.to_device.count, self.to_host.count
        )
    }
    /// As the manifest and `--json` have it.
    pub fn to_json(&self) -> Value {
        let share = |share: &Share| {
            json!({
                "nodes": share.nodes, "launches": share.launches,
                "operations": share.operations, "bytes": share.bytes,
            })
        };
        let copies = |copies: &Copies| json!({ "count": copies.count, "bytes": copies.bytes });
        let on_host: Vec<Value> = self
            .on_host
            .iter()
            .map(|launch| {
                let nodes: Vec<String> = launch.origins.iter().map(|o| o.node.to_string()).collect();
                let operators: Vec<String> = launch.origins.iter().map(|o| o.operator.to_string()).collect();
                json!({ "kernel": launch.kernel, "nodes": nodes, "operators": operators, "reason": launch.reason })
            })
            .collect();
        json!({
            "device": share(&self.device), "host": share(&self.host), "sizes": self.sizes, "on_host": on_host,
            "copies": { "to_device": copies(&self.to_device), "to_host": copies(&self.to_host) },
        })
    }
}

fn one(diagnostic: Diagnostic) -> Diagnostics {
    Diagnostics { items: vec![diagnostic] }
}
