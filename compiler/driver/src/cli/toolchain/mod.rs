//! `oaaxc oaax-entry INPUT FOLDER`: the entry point of the OAAX toolchain image.
//!
//! Promises: exactly two arguments; nothing is written outside the output folder and the temporary one;
//! the folder holds the model and two equal logs after a success, and the logs alone after a failure, each
//! complete or absent; the exit code is one of those below, of this entry point alone. Never: asks,
//! opens a network connection, changes a name, shape or type of the model's inputs and outputs.

mod archive;
mod log;
mod md5;
mod wishes;
mod zip;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Instant;

use oaaxc_base::{Code, Diagnostic, Diagnostics, Severity};
use oaaxc_container::{Options as PackageOptions, write_archive};
use serde_json::{Value, json};

use super::arguments::{CompileArguments, one};
use super::{console, crash};
use crate::canary;
use crate::pipeline::Progress;
use crate::session::{self, Built};
use log::Log;
use wishes::Wishes;

/// The first argument of the program that asks for this entry point.
pub const ARGUMENT: &str = "oaax-entry";

/// The model's name in the output folder.
const MODEL: &str = "model.oaax";

const DONE: u8 = 0;
const NOT_FOUND: u8 = 1;
const INVALID: u8 = 2;
const FAILED: u8 = 3;
const UNWRITABLE: u8 = 4;
const UNEXPECTED: u8 = 255;

const USAGE: &str = "usage: oaaxc oaax-entry INPUT OUTPUT-FOLDER
INPUT is an ONNX model, or a .zip or .tar.gz that holds one and perhaps config.json
exit codes: 0 converted, 1 the input is not there, 2 it is invalid, 3 it cannot be converted, 4 the
output cannot be written, 255 a bug";

/// A failure and its exit code.
struct Failure {
    exit: u8,
    diagnostics: Diagnostics,
}

impl Failure {
    fn new(exit: u8, code: Code, message: impl Into<String>) -> Failure {
        Failure { exit, diagnostics: one(Diagnostic::error(code, message)) }
    }
}

impl From<Diagnostics> for Failure {
    fn from(diagnostics: Diagnostics) -> Failure {
        let exits = diagnostics.items.iter().filter(|d| d.severity == Severity::Error).map(|d| exit_of(d.code));
        // A bug outweighs all else, then the first error decides.
        let exits: Vec<u8> = exits.collect();
        let exit = if exits.contains(&UNEXPECTED) { UNEXPECTED } else { exits.first().copied().unwrap_or(FAILED) };
        Failure { exit, diagnostics }
    }
}

/// What a code means to this entry point's callers.
fn exit_of(code: Code) -> u8 {
    match code {
        Code::INTERNAL => UNEXPECTED,
        Code::IO => NOT_FOUND,
        Code::USAGE | Code::NOT_ONNX | Code::LIMIT | Code::EXTERNAL_DATA | Code::STRUCTURE | Code::TENSOR => INVALID,
        Code::ARCHIVE | Code::CONFIG | Code::UNKNOWN_TARGET => INVALID,
        _ => FAILED,
    }
}

/// Runs the entry point with what follows its name; gives the exit code.
pub fn main(arguments: &[OsString]) -> u8 {
    crash::install();
    let [input, folder] = arguments else {
        eprintln!("{USAGE}");
        return INVALID;
    };
    let (input, folder) = (Path::new(input), Path::new(folder));
    let mut log = Log::new();
    if let Err(error) = prepare(folder) {
        eprintln!("error: the output folder {} cannot be written: {error}", folder.display());
        return UNWRITABLE;
    }
    let steps = AssertUnwindSafe(|| convert(input, folder, &mut log));
    let outcome = catch_unwind(steps).unwrap_or_else(|_| {
        Err(Failure::new(UNEXPECTED, Code::INTERNAL, format!("oaaxc broke one of its own rules: {}", crash::last())))
    });
    let exit = match outcome {
        Ok(()) => DONE,
        Err(failure) => report(&failure, &mut log),
    };
    if exit != DONE {
        let _ = std::fs::remove_file(folder.join(MODEL));
    }
    if let Err(error) = log.write(folder) {
        eprintln!("error: the log cannot be written to {}: {error}", folder.display());
        let _ = std::fs::remove_file(folder.join(MODEL));
        return if exit == DONE { UNWRITABLE } else { exit };
    }
    exit
}

/// Makes the folder, sees that it can be written, and takes an earlier model of ours away.
fn prepare(folder: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    tempfile::tempfile_in(folder)?;
    match std::fs::remove_file(folder.join(MODEL)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The errors on standard error and in the log.
fn report(failure: &Failure, log: &mut Log) -> u8 {
    let errors: Vec<&Diagnostic> = failure.diagnostics.items.iter().filter(|d| d.severity == Severity::Error).collect();
    errors.iter().for_each(|error| eprintln!("{error}"));
    let first = errors.first().map_or_else(String::new, |error| error.message.clone());
    let list: Vec<Value> = errors.iter().map(|error| console::to_json(error, 0)).collect();
    let code = errors.first().map(|error| error.code.to_string());
    log.add("Conversion Failed", json!({ "Error": first, "Code": code, "Exit code": failure.exit, "errors": list }));
    failure.exit
}

fn convert(input: &Path, folder: &Path, log: &mut Log) -> Result<(), Failure> {
    let start = Instant::now();
    println!("oaaxc {}: converting {}", env!("CARGO_PKG_VERSION"), input.display());
    let digests = look_at(input)?;
    let name = input.file_name().unwrap_or_default().to_string_lossy().into_owned();
    log.add(
        "Conversion started",
        json!({ "oaaxc": env!("CARGO_PKG_VERSION"), "LLVM": "22", "Input file name": name, "Input bytes": digests.bytes,
                "Input file MD5": digests.md5, "Input file SHA-256": digests.sha256, "Unix time": log::now() }),
    );
    let unpacked = archive::unpack(input)?;
    let (model, config) = match &unpacked {
        Some(unpacked) => {
            log.add("Archive unpacked", json!({ "Members": unpacked.members }));
            (unpacked.model.as_path(), unpacked.config.as_deref())
        }
        None => (input, None),
    };
    let wishes = Wishes::read(config, model)?;
    for warning in &wishes.warnings {
        println!("warning: {warning}");
        log.add(&format!("Warning: {warning}"), json!({ "Code": Code::CONFIG.to_string() }));
    }
    let mut compiling = CompileArguments::default().options();
    compiling.cache = None;
    let mut built = session::build(model, &wishes.targets, &wishes.import, &compiling, &mut Loud)?;
    for warning in &built.warnings {
        println!("{warning}");
        log.add(&format!("Warning: {}", warning.message), console::to_json(warning, 0));
    }
    let manifest = &built.package.manifest;
    log.add(
        "Model read",
        json!({ "Inputs": json!(manifest.inputs), "Outputs": json!(manifest.outputs), "Operators": operators(&built) }),
    );
    for report in &built.reports {
        let times: BTreeMap<&str, f64> = report.times.iter().map(|(phase, took)| (*phase, took.as_secs_f64())).collect();
        let data = json!({ "Kernels": report.kernels, "Launches": report.launches, "Fused": report.fused, "Seconds": times });
        log.add(&format!("Compiled for {}", report.target), data);
    }
    Loud.phase("canary");
    if let Err(why) = canary::store(&mut built, &compiling, &wishes.import.dims, false) {
        log.add(&format!("Warning: no canary is stored: {why}"), json!({}));
    }
    Loud.phase("write");
    let path = folder.join(MODEL);
    let unwritable = |error: &dyn std::fmt::Display| {
        Failure::new(UNWRITABLE, Code::IO, format!("the model cannot be written to {}: {error}", path.display()))
    };
    built.package.options = PackageOptions::from_environment().map_err(|error| unwritable(&error))?;
    write_archive(&built.package, &path).map_err(|error| unwritable(&error))?;
    let written = look_at(&path)?;
    println!("oaaxc: wrote {} ({} bytes)", path.display(), written.bytes);
    log.add("The model was converted successfully", json!({ "Seconds": start.elapsed().as_secs_f64() }));
    log.add(
        "Successful Conversion",
        json!({
            "Output Directory": folder.display().to_string(), "Output file name": MODEL,
            "MIME type": format!("application/x-oaax; device={}", wishes.targets.join("+")),
            "Output file MD5": written.md5, "Output file SHA-256": written.sha256, "Logs file name": log::NAMES[0], "errors": [],
        }),
    );
    Ok(())
}

/// A file's size and digests.
struct Digests {
    bytes: usize,
    md5: String,
    sha256: String,
}

fn look_at(path: &Path) -> Result<Digests, Failure> {
    let missing =
        |error: std::io::Error| Failure::new(NOT_FOUND, Code::IO, format!("{} cannot be read: {error}", path.display()));
    if path.is_dir() {
        return Err(Failure::new(INVALID, Code::NOT_ONNX, format!("{} is a folder, not a model or an archive", path.display())));
    }
    let bytes = std::fs::read(path).map_err(missing)?;
    Ok(Digests { bytes: bytes.len(), md5: md5::hex(&bytes), sha256: oaax_core::hex(&oaax_core::digest(&bytes)) })
}

/// How many nodes of each operator the model's main graph has after simplification.
fn operators(built: &Built) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for node in &built.graph.root().nodes {
        *counts.entry(built.graph.nodes[*node].origin.operator.to_string()).or_insert(0) += 1;
    }
    counts
}

/// Phases on standard output.
struct Loud;

impl Progress for Loud {
    fn phase(&mut self, name: &'static str) {
        println!("oaaxc: {name}");
    }
    fn note(&mut self, text: &str) {
        println!("oaaxc: {text}");
    }
}

/// What an archive gave.
struct Unpacked {
    model: PathBuf,
    config: Option<PathBuf>,
    members: usize,
    /// Goes with its files when the conversion is done.
    _folder: tempfile::TempDir,
}
