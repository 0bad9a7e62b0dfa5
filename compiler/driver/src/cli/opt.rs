//! `oaaxc opt`: passes over a graph, printed in the text form that is also an input.

use std::path::PathBuf;

use oaaxc_ir::Graph;

use super::Outcome;
use super::arguments::{ModelArguments, TargetArguments};
use super::console::Console;
use crate::pipeline::{self, Clock, Options, Silent, lower_for};
use crate::{session, targets};

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Passes over the graph: dead, fold, branch, rules, simplify (all of them until nothing changes).
Passes that lower it for a target: lower, resolve, precompute, fuse, pack; the kernels after that pass are printed.

Examples:
  oaaxc opt graph.onnxtxt --pass simplify
  oaaxc opt model.onnx --pass fuse --target cpu:x86-64-v3")]
pub struct Arguments {
    /// A graph in text form, or an ONNX model
    path: PathBuf,
    /// What to run, in order; without one the graph is printed as it is
    #[arg(short, long = "pass", value_name = "PASS", value_delimiter = ',',
          value_parser = ["dead", "fold", "branch", "rules", "simplify", "lower", "resolve", "precompute", "fuse", "pack"])]
    passes: Vec<String>,
    /// Constants with more elements than this are cut; the text is then no input
    #[arg(long, value_name = "N", default_value_t = session::TEXT_ELEMENTS)]
    elements: usize,
    #[command(flatten)]
    targets: TargetArguments,
    #[command(flatten)]
    reading: ModelArguments,
}

/// Runs passes and prints.
pub fn main(arguments: &Arguments, console: &Console) -> Outcome {
    let mut graph = session::read(&arguments.path, &arguments.reading.options()?)?.graph;
    for pass in &arguments.passes {
        match pass.as_str() {
            "dead" => drop(oaaxc_passes::graph::dead::dead(&mut graph)),
            "fold" => pipeline::fold(&mut graph),
            "branch" => drop(pipeline::branches(&mut graph)),
            "rules" => {
                let applied = pipeline::rewrite(&mut graph);
                applied.iter().for_each(|(rule, times)| console.note(&format!("{rule}: {times}")));
            }
            "simplify" => pipeline::simplify(&mut graph),
            lowering => return kernels(&graph, lowering, arguments, console),
        }
    }
    console.line(oaaxc_onnx::text::print(&graph, arguments.elements).trim_end());
    Ok(0)
}

/// Lowers for the first target and prints what stands after the pass.
fn kernels(graph: &Graph, until: &str, arguments: &Arguments, console: &Console) -> Outcome {
    let name = arguments.targets.names().remove(0);
    let target = targets::find(&name).map_err(super::arguments::one)?;
    let mut clock = Clock { times: Vec::new(), progress: &mut Silent };
    let mut shown = false;
    lower_for(graph, target.device(), &Options::default(), &mut clock, &mut |pass, program| {
        if pass == until {
            shown = true;
            for launch in program.launches() {
                let origins: Vec<String> = launch.origins.iter().map(ToString::to_string).collect();
                console.line(&format!("# {}", origins.join("; ")));
                console.line(launch.kernel.to_string().trim_end());
            }
        }
        Ok(())
    })?;
    if !shown {
        console.hint(&format!("{name} has no pass {until}: the oracle is neither fused nor packed"));
    }
    Ok(0)
}
