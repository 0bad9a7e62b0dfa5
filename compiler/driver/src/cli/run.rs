//! `oaaxc run`: an artefact or a model runs once; each output becomes a file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use oaaxc_base::Diagnostics;
use oaaxc_ir::Tensor;
use serde_json::json;

use super::Outcome;
use super::arguments::{
    CompileArguments, DeviceArguments, InputArguments, ModelArguments, TargetArguments, io_error, is_model, one, usage,
};
use super::console::Console;
use super::progress::Phases;
use super::signals;
use super::table::{Table, seconds};
use super::trust;
use crate::execute::{self, Run};
use crate::session::{Opened, build};
use crate::{data, files, pipeline};

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  oaaxc run model.oaax --input x=picture.npy --output results
  oaaxc run model.onnx --dim batch=2 --seed 7 --output results --output-format pb")]
pub struct Arguments {
    /// An artefact (model.oaax, an unpacked folder, a layout), or an ONNX model
    model: PathBuf,
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
    /// Write one file per output, named after it
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Form of these files
    #[arg(long, value_name = "FORM", default_value = "npy", value_parser = ["npy", "pb"])]
    output_format: String,
    /// Threads [default: one for each processor]
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    threads: usize,
    /// Use this CPU level or a lower one
    #[arg(long, value_name = "LEVEL")]
    level: Option<String>,
    /// Load nothing that this policy does not trust
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
}

/// Runs once.
pub fn main(arguments: &Arguments, console: &Console) -> Outcome {
    let given = arguments.inputs.read()?;
    let dims = arguments.reading.sizes()?;
    let threads = arguments.threads;
    let source = Source {
        path: &arguments.model,
        targets: &arguments.targets,
        reading: &arguments.reading,
        compiling: &arguments.compiling,
        device: &arguments.device,
    };
    let level = arguments.level.as_deref();
    let opened = match &arguments.policy {
        Some(_) if is_model(source.path) => return Err(usage("--policy is for artefacts, and this is a model")),
        Some(policy) => {
            let (approved, manifest) = trust::approve_path(source.path, policy)?;
            console.note(&format!("trusted: {}", approved.words()));
            let mut wanted = arguments.device.wanted(threads);
            wanted.level = level.map(str::to_string);
            wanted.variant = arguments.targets.only()?;
            wanted.manifest = Some(*manifest.as_bytes());
            Opened::file(source.path, &wanted).map_err(one)?
        }
        None => open(&source, threads, level, console)?,
    };
    let start = Instant::now();
    let run = execute::run_seeded(&opened.loaded, &given, &dims, arguments.inputs.seed).map_err(one)?;
    let took = start.elapsed().as_secs_f64();
    let names: Vec<String> = opened.loaded.outputs.iter().map(|port| port.name.clone()).collect();
    let files = match &arguments.output {
        Some(folder) => write_all(folder, &names, &run.outputs, &arguments.output_format)?,
        None => Vec::new(),
    };
    report(&opened, &given, &run, &files, took, console);
    Ok(0)
}

/// What to run: an artefact, or a model and how to compile it.
pub struct Source<'a> {
    /// The artefact or model.
    pub path: &'a Path,
    /// For a model; of an artefact, the variant to run.
    pub targets: &'a TargetArguments,
    /// For a model.
    pub reading: &'a ModelArguments,
    /// For a model.
    pub compiling: &'a CompileArguments,
    /// Where it runs.
    pub device: &'a DeviceArguments,
}

/// Opens an artefact; a model is compiled into a temporary one first.
pub fn open(source: &Source, threads: usize, level: Option<&str>, console: &Console) -> Result<Opened, Diagnostics> {
    let mut wanted = source.device.wanted(threads);
    wanted.level = level.map(str::to_string);
    if !is_model(source.path) {
        wanted.variant = source.targets.only()?;
        let opened = Opened::file(source.path, &wanted).map_err(one)?;
        data::check_names(&opened.loaded.inputs, &source.reading.sizes()?).map_err(one)?;
        return Ok(opened);
    }
    let options: pipeline::Options = source.compiling.options();
    let names = match source.targets.targets.is_empty() {
        true => vec!["cpu:native".to_string()],
        false => source.targets.names(),
    };
    let mut phases = Phases::new(console, false);
    let built = build(source.path, &names, &source.reading.options()?, &options, &mut phases)?;
    phases.finish();
    console.diagnostics(&built.warnings);
    Opened::package_as(&built.package, &wanted).map_err(one)
}

fn write_all(folder: &Path, names: &[String], outputs: &[Tensor], form: &str) -> Result<Vec<PathBuf>, Diagnostics> {
    std::fs::create_dir_all(folder).map_err(|e| io_error("create", folder, &e))?;
    signals::works_in(folder);
    let mut files = Vec::new();
    for (name, tensor) in names.iter().zip(outputs) {
        let path = folder.join(format!("{}.{form}", data::file_name(name)));
        let bytes = data::encode(tensor, name, form).map_err(one)?;
        files::write_whole(&path, &bytes).map_err(|e| io_error("write", &path, &e))?;
        files.push(path);
    }
    Ok(files)
}

fn report(opened: &Opened, given: &BTreeMap<String, Tensor>, run: &Run, files: &[PathBuf], took: f64, console: &Console) {
    let shape = |t: &Tensor| format!("{}[{}]", t.dtype, t.dims.iter().map(ToString::to_string).collect::<Vec<_>>().join(","));
    let inputs = opened.loaded.inputs.iter().zip(&run.inputs);
    let outputs = opened.loaded.outputs.iter().zip(&run.outputs);
    if console.json {
        let model = &opened.loaded.model;
        let inputs: Vec<_> = inputs.map(|(port, t)| {
            json!({ "name": port.name, "type": t.dtype.name(), "dims": t.dims, "seeded": !given.contains_key(&port.name) })
        }).collect();
        let outputs: Vec<_> = outputs.enumerate().map(|(i, (port, t))| {
            json!({ "name": port.name, "type": t.dtype.name(), "dims": t.dims, "file": files.get(i).map(|f| f.display().to_string()) })
        }).collect();
        console.object(&json!({
            "variant": model.variant, "level": model.choice, "seconds": took, "inputs": inputs, "outputs": outputs,
        }));
        return;
    }
    let mut table = Table::new(&["output", "type", "range", "file"]);
    for (i, (port, tensor)) in outputs.enumerate() {
        let file = files.get(i).map(|f| f.display().to_string()).unwrap_or_default();
        table.row(vec![port.name.clone(), shape(tensor), range(tensor), file]);
    }
    if !console.quiet {
        table.lines().iter().for_each(|line| console.line(line));
    }
    let seeded: Vec<String> = inputs
        .filter(|(port, _)| !given.contains_key(&port.name))
        .map(|(port, t)| format!("{} {}", port.name, shape(t)))
        .collect();
    if !seeded.is_empty() {
        console.note(&format!("seeded inputs: {}", seeded.join(", ")));
    }
    console.note(&format!("ran {} ({}) in {}", opened.loaded.model.variant, opened.loaded.model.choice, seconds(took)));
}

/// Least and greatest element.
fn range(tensor: &Tensor) -> String {
    if tensor.dtype.is_complex() || tensor.is_empty() || !(tensor.dtype.is_float() || tensor.dtype.is_integer()) {
        return String::new();
    }
    let values = tensor.to_f64s();
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{least:.5} … {greatest:.5}")
}
