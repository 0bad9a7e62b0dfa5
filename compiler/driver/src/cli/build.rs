//! `oaaxc build`: a model becomes an artefact.
//!
//! Promises: the artefact appears whole under its name or not at all; the same model and options give the
//! same bytes, whatever the folder, the number of jobs or the state of the cache.

use std::path::{Path, PathBuf};

use oaaxc_base::{Code, Diagnostic, Diagnostics};
use oaaxc_container::{Options as PackageOptions, Package, Written, write_archive, write_layout};
use serde_json::json;

use super::Outcome;
use super::arguments::{CompileArguments, ModelArguments, TargetArguments, io_error, one, usage};
use super::console::Console;
use super::precision::{self, PrecisionArguments};
use super::progress::Phases;
use super::signals;
use super::table::{Table, bytes, seconds};
use crate::pipeline::{Progress, Text};
use crate::placement::Placement;
use crate::session::{Built, build};
use crate::{canary, files, runtime};

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  oaaxc build model.onnx --target cpu -o model.oaax
  oaaxc build model.onnx --target cpu:x86-64-v3,cpu:x86-64-v4 -o layout/
  oaaxc build model.onnx --target rocm,cpu --fallback warn
  oaaxc build model.onnx --dim batch=1..32 --time-passes
  oaaxc build model.onnx --precision int8 --calibration pictures --tolerance 0.05
  oaaxc build model.onnx --emit kernel,mlir --emit-dir texts")]
pub struct Arguments {
    /// The ONNX model
    model: PathBuf,
    #[command(flatten)]
    targets: TargetArguments,
    /// Where the artefact goes: a file, or a folder (ending in /) for an OCI layout [default: MODEL.oaax]
    #[arg(short, long, value_name = "FILE|DIR/")]
    output: Option<PathBuf>,
    #[command(flatten)]
    reading: ModelArguments,
    #[command(flatten)]
    compiling: CompileArguments,
    #[command(flatten)]
    precision: PrecisionArguments,
    /// Show stages of the compiler; without -o no artefact is written
    #[arg(long, value_name = "STAGE", value_delimiter = ',',
          value_parser = ["graph", "typed", "kernel", "mlir", "llvm", "asm", "object"])]
    emit: Vec<String>,
    /// Write the stages to files in this folder instead of standard output
    #[arg(long, value_name = "DIR")]
    emit_dir: Option<PathBuf>,
    /// Show the time of every pass
    #[arg(long)]
    time_passes: bool,
    /// Run seeded inputs after each pass and name the pass that changed the numbers
    #[arg(long)]
    verify_passes: bool,
    /// Do not store a seeded input with its outputs, for `oaaxc verify`
    #[arg(long)]
    no_canary: bool,
    /// Take the stored outputs from `cpu:strict`, which costs a second compilation
    #[arg(long, conflicts_with = "no_canary")]
    strict_canary: bool,
}

/// Builds.
pub fn main(arguments: &Arguments, console: &Console) -> Outcome {
    if arguments.emit.iter().any(|stage| stage == "object") && arguments.emit_dir.is_none() {
        return Err(usage("--emit object needs --emit-dir: objects are not text"));
    }
    let output = output(arguments);
    if let Some(path) = &output {
        check_writable(path, &arguments.model)?;
    }
    let import_options = arguments.reading.options()?;
    let mut options = arguments.compiling.options();
    options.emit = arguments.emit.clone();
    options.verify_passes = arguments.verify_passes;
    options.precision = arguments.precision.settings(&import_options.dims)?;
    let mut phases = Phases::new(console, arguments.time_passes);
    let mut built = build(&arguments.model, &arguments.targets.names(), &import_options, &options, &mut phases)?;
    phases.finish();
    console.diagnostics(&built.warnings);
    emit(arguments, &built, console)?;
    let Some(path) = output else { return Ok(0) };
    if !arguments.no_canary {
        phases.phase("canary");
        if let Err(why) = canary::store(&mut built, &options, &import_options.dims, arguments.strict_canary) {
            console.note(&format!("no canary is stored: {why}"));
        }
    }
    runtime::add(&mut built.package)?;
    phases.phase("write");
    let written = write(&mut built.package, &path)?;
    phases.finish();
    report(&built, &path, &written, &phases, console)
}

/// Where the artefact goes, if anywhere.
fn output(arguments: &Arguments) -> Option<PathBuf> {
    let by_name = || PathBuf::from(arguments.model.file_stem().unwrap_or_default()).with_extension("oaax");
    match &arguments.output {
        Some(path) => Some(path.clone()),
        None if arguments.emit.is_empty() => Some(by_name()),
        None => None,
    }
}

/// A folder that is missing is said before minutes of work, not after; so is a place that holds no files, or the model.
fn check_writable(path: &Path, model: &Path) -> Result<(), Diagnostics> {
    if std::fs::canonicalize(path).is_ok_and(|path| std::fs::canonicalize(model).is_ok_and(|model| path == model)) {
        let error = usage(format!("{} is the model itself; the artefact would take its place", path.display()));
        return Err(error);
    }
    if std::fs::metadata(path).is_ok_and(|data| !data.is_file() && !data.is_dir()) {
        let error =
            Diagnostic::error(Code::IO, format!("{} is a device or a pipe; the artefact would take its place", path.display()));
        return Err(one(error.help("give -o the name of a file; to compile without an artefact, see `--emit`")));
    }
    // A link means what it points to.
    let path = &std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    signals::works_in(parent);
    files::temporary(parent).map(drop).map_err(|e| io_error("write to", parent, &e))
}

/// A name that ends in a slash, or a folder that is there, means a layout.
fn is_layout(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(b"/") || path.is_dir()
}

fn write(package: &mut Package, path: &Path) -> Result<Written, Diagnostics> {
    let failed = |e: &dyn std::fmt::Display| one(Diagnostic::error(Code::IO, format!("{}: {e}", path.display())));
    package.options = PackageOptions::from_environment().map_err(|e| failed(&e))?;
    if is_layout(path) { write_layout(package, path) } else { write_archive(package, path) }.map_err(|e| failed(&e))
}

/// Prints or writes the stages that were asked for.
fn emit(arguments: &Arguments, built: &Built, console: &Console) -> Result<(), Diagnostics> {
    let Some(folder) = &arguments.emit_dir else {
        for text in &built.texts {
            if console.json {
                console.object(&json!({ "target": text.target, "stage": text.stage, "name": text.name, "text": text.text }));
            } else {
                console.line(text.text.trim_end());
            }
        }
        return Ok(());
    };
    std::fs::create_dir_all(folder).map_err(|e| io_error("create", folder, &e))?;
    signals::works_in(folder);
    let write = |name: String, content: &[u8]| {
        let path = folder.join(name);
        files::write_whole(&path, content).map_err(|e| io_error("write", &path, &e))
    };
    for text in &built.texts {
        write(file_name(text), text.text.as_bytes())?;
    }
    if arguments.emit.iter().any(|stage| stage == "object") {
        let objects = built.package.manifest.variants.iter().flat_map(|variant| &variant.objects);
        let objects: std::collections::BTreeSet<&String> = objects.collect();
        for file in built.package.files.iter().filter(|file| objects.contains(&file.path)) {
            let oaaxc_container::Data::Bytes(bytes) = &file.data else { continue };
            write(file.path.trim_start_matches("targets/").replace('/', "."), bytes)?;
        }
    }
    console.note(&format!("{} texts are in {}", built.texts.len(), folder.display()));
    Ok(())
}

fn file_name(text: &Text) -> String {
    let extension = match text.stage.as_str() {
        "graph" | "typed" => "onnxtxt",
        "llvm" => "ll",
        "asm" => "s",
        other => other,
    };
    let clean =
        |name: &str| -> String { name.chars().map(|c| if c.is_alphanumeric() || "._-".contains(c) { c } else { '-' }).collect() };
    let parts = [clean(&text.target), clean(&text.name), extension.to_string()];
    parts.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(".")
}

/// The table at the end, and the command to try next.
fn report(built: &Built, path: &Path, written: &Written, phases: &Phases, console: &Console) -> Outcome {
    let weights = weight_bytes(&built.package);
    let total = phases.times.iter().map(|(_, took)| took.as_secs_f64()).sum::<f64>();
    if console.json {
        let targets: Vec<_> = built.reports.iter().map(|r| {
            json!({
                "target": r.target, "launches": r.launches, "kernels": r.kernels, "cached": r.cached, "fused": r.fused,
                "generic": r.generic, "placement": r.placement.as_ref().map(Placement::to_json), "code_bytes": r.code_bytes.iter().map(|(l, n)| (l.clone(), *n)).collect::<std::collections::BTreeMap<_, _>>(),
            })
        }).collect();
        let times: Vec<_> =
            phases.times.iter().map(|(name, took)| json!({ "phase": name, "seconds": took.as_secs_f64() })).collect();
        console.object(&json!({
            "artefact": path.display().to_string(), "bytes": written.bytes, "weight_bytes": weights,
            "index": format!("sha256:{}", written.index.hex()), "manifest": format!("sha256:{}", written.manifest.hex()),
            "targets": targets, "phases": times, "seconds": total,
            "precision": built.precision.as_ref().map(crate::precision::Table::to_json),
        }));
        return Ok(0);
    }
    if console.quiet {
        return Ok(0);
    }
    let mut table = Table::new(&["target", "launches", "kernels", "cached", "fused", "generic", "code"]);
    for r in &built.reports {
        let code = r.code_bytes.iter().map(|(_, n)| *n as u64).sum();
        let number = |n: usize| n.to_string();
        table.row(vec![
            r.target.clone(),
            number(r.launches),
            number(r.kernels),
            number(r.cached),
            number(r.fused),
            number(r.generic.len()),
            bytes(code),
        ]);
    }
    table.lines().iter().for_each(|line| console.note(line));
    built.reports.iter().filter_map(|r| r.placement.as_ref().map(|p| (r, p))).for_each(|(r, placement)| {
        console.note(&format!("{}: {}", r.target, placement.in_short()));
    });
    if let Some(table) = &built.precision {
        precision::report(table, console);
    }
    console.note(&format!(
        "{}: {} ({} of weights) in {}, sha256:{}",
        path.display(),
        bytes(written.bytes),
        bytes(weights),
        seconds(total),
        written.index.hex()
    ));
    console.note(&format!("next: oaaxc run {} --output results", path.display()));
    Ok(0)
}

fn weight_bytes(package: &Package) -> u64 {
    use oaaxc_container::{Data, Part, Role};
    let parts = package.files.iter().filter(|file| file.role == Role::Weights).flat_map(|file| match &file.data {
        Data::Parts(parts) => parts.as_slice(),
        _ => &[],
    });
    parts
        .map(|part| match part {
            Part::Bytes(bytes) => bytes.len() as u64,
            Part::Zeros(n) => *n,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_lies_in_a_file_of_its_stage() {
        let text = Text { target: "cpu:x86-64-v3".into(), stage: "llvm".into(), name: "k0".into(), text: String::new() };
        assert_eq!(file_name(&text), "cpu-x86-64-v3.k0.ll");
    }
}
