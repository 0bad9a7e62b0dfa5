//! `oaaxc check`: everything in a model that is wrong or not supported, at once and without compiling.

use std::collections::BTreeMap;
use std::path::PathBuf;

use oaaxc_base::Diagnostics;
use oaaxc_ir::op::Lower;
use oaaxc_ir::program::Program;
use oaaxc_ir::{Graph, Type};
use serde_json::json;

use super::Outcome;
use super::arguments::{ModelArguments, TargetArguments};
use super::console::Console;
use super::progress::Phases;
use super::table::Table;
use crate::pipeline::{Clock, Options, Silent, lower_for};
use crate::{session, targets};

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  oaaxc check model.onnx
  oaaxc check model.onnx --target cpu:x86-64-v3 --json")]
pub struct Arguments {
    /// The ONNX model
    model: PathBuf,
    #[command(flatten)]
    targets: TargetArguments,
    #[command(flatten)]
    reading: ModelArguments,
}

/// Checks.
pub fn main(arguments: &Arguments, console: &Console) -> Outcome {
    let mut phases = Phases::new(console, false);
    let (graph, warnings) = session::load(&arguments.model, &arguments.reading.options()?, &mut phases)?;
    phases.finish();
    console.diagnostics(&warnings);
    let mut errors = Diagnostics::new();
    let mut programs = Vec::new();
    for name in arguments.targets.names() {
        let Some(target) = errors.collect(targets::find(&name)) else { continue };
        let mut clock = Clock { times: Vec::new(), progress: &mut Silent };
        match lower_for(&graph, target.device(), &Options::default(), &mut clock, &mut |_, _| Ok(())) {
            Ok((program, fused)) => programs.push((name, program, fused)),
            // Two targets say the same of a node most of the time.
            Err(found) => found.items.into_iter().for_each(|d| {
                if !errors.items.contains(&d) {
                    errors.push(d);
                }
            }),
        }
    }
    report(&graph, &programs, console);
    if errors.has_errors() { Err(errors) } else { Ok(0) }
}

/// Operators of the simplified graph with what becomes of them.
fn report(graph: &Graph, programs: &[(String, Program, usize)], console: &Console) {
    let mut rows: BTreeMap<(String, &str), usize> = BTreeMap::new();
    for id in graph.listed_nodes() {
        let op = graph.nodes[id].op;
        let how = match op.lower {
            Lower::Kernels(_) => "kernels",
            Lower::Host(_) => "host",
            Lower::Function => "function",
            Lower::Refused(_) => "refused",
        };
        *rows.entry((op.full_name(), how)).or_default() += 1;
    }
    if console.json {
        let operators: Vec<_> =
            rows.iter().map(|((name, how), n)| json!({ "operator": name, "support": how, "nodes": n })).collect();
        let targets: Vec<_> = programs
            .iter()
            .map(|(name, program, fused)| json!({ "target": name, "launches": program.launches().len(), "fused": fused }))
            .collect();
        console.object(&json!({ "model": graph.name, "operators": operators, "targets": targets }));
        return;
    }
    let mut table = Table::new(&["operator", "nodes", "support"]);
    for ((name, how), n) in &rows {
        table.row(vec![name.clone(), n.to_string(), (*how).to_string()]);
    }
    table.lines().iter().for_each(|line| console.line(line));
    for (title, values) in [("input", &graph.root().inputs), ("output", &graph.root().outputs)] {
        for &value in values {
            console.line(&format!("{title} {}: {}", graph.values[value].name, show_type(graph, &graph.values[value].fact.ty)));
        }
    }
    for (name, program, fused) in programs {
        console.line(&format!("{name}: {} launches after fusion, which saved {fused}", program.launches().len()));
    }
}

/// A type in ONNX's text form.
pub fn show_type(graph: &Graph, ty: &Type) -> String {
    graph.symbols.show_type(ty)
}
