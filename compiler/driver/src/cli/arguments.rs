//! Arguments that several subcommands share.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use oaaxc_base::{Code, Diagnostic, Diagnostics};
use oaaxc_ir::Tensor;
use oaaxc_onnx::ImportOptions;

use crate::execute::Wanted;
use crate::pipeline::Options;
use crate::placement::Fallback;
use crate::{data, session, targets};

/// How to read a model.
#[derive(clap::Args, Debug, Clone, Default)]
pub struct ModelArguments {
    /// Set a symbolic size, or its range; an unnamed one is called INPUT_dAXIS
    #[arg(long = "dim", value_name = "NAME=N|MIN..MAX")]
    pub dims: Vec<String>,
    /// Give the rank of an input that the model leaves open
    #[arg(long = "rank", value_name = "INPUT=RANK")]
    pub ranks: Vec<String>,
    /// Keep initialisers that are also inputs as inputs with a default (IR version 4 and newer)
    #[arg(long)]
    pub overridable: bool,
    /// Where external data lies, if not beside the model
    #[arg(long, value_name = "DIR")]
    pub external_data: Option<PathBuf>,
}

impl ModelArguments {
    /// As the importer wants them.
    pub fn options(&self) -> Result<ImportOptions, Diagnostics> {
        let mut options = ImportOptions {
            overridable: self.overridable,
            external_folder: self.external_data.clone(),
            ..ImportOptions::default()
        };
        for text in &self.dims {
            match parse_dim(text)? {
                (name, min, max) if min == max => drop(options.dims.insert(name, min)),
                (name, min, max) => drop(options.ranges.insert(name, (min, max))),
            }
        }
        for text in &self.ranks {
            let parsed = text.split_once('=').and_then(|(name, rank)| Some((name.to_string(), rank.parse().ok()?)));
            let Some((name, rank)) = parsed else { return Err(usage(format!("--rank {text}: this is not INPUT=RANK"))) };
            options.ranks.insert(name, rank);
        }
        Ok(options)
    }
    /// The sizes that are set to one number.
    pub fn sizes(&self) -> Result<BTreeMap<String, i64>, Diagnostics> {
        Ok(self.options()?.dims)
    }
}

/// `N=4` and `N=1..32`.
fn parse_dim(text: &str) -> Result<(String, i64, i64), Diagnostics> {
    let wrong = || usage(format!("--dim {text}: this is neither NAME=SIZE nor NAME=MIN..MAX"));
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    let number = |text: &str| text.trim().parse::<i64>().ok().filter(|n| *n >= 0).ok_or_else(wrong);
    let (min, max) = match value.split_once("..") {
        Some((min, max)) => (number(min)?, number(max.trim_start_matches('='))?),
        None => (number(value)?, number(value)?),
    };
    if name.is_empty() || max < min {
        return Err(wrong());
    }
    Ok((name.to_string(), min, max))
}

/// Inputs of a run.
#[derive(clap::Args, Debug, Clone, Default)]
pub struct InputArguments {
    /// Take an input from a file (.npy or .pb); inputs that are not given are seeded
    #[arg(short, long = "input", value_name = "NAME=FILE")]
    pub inputs: Vec<String>,
    /// Seed of the inputs that are not given
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
}

impl InputArguments {
    /// Reads the files.
    pub fn read(&self) -> Result<BTreeMap<String, Tensor>, Diagnostics> {
        let mut given = BTreeMap::new();
        let mut errors = Diagnostics::new();
        for text in &self.inputs {
            let Some((name, path)) = text.split_once('=') else {
                errors.push(Diagnostic::error(Code::USAGE, format!("--input {text}: this is not NAME=FILE")));
                continue;
            };
            let Some(tensor) = errors.collect(data::read(Path::new(path))) else { continue };
            if given.insert(name.to_string(), tensor).is_some() {
                errors.push(Diagnostic::error(Code::USAGE, format!("--input {name}=… is given twice")));
            }
        }
        if errors.has_errors() { Err(errors) } else { Ok(given) }
    }
}

/// Whether the path is an ONNX model, by its name; everything else is taken for an artefact.
pub fn is_model(path: &Path) -> bool {
    path.extension().is_some_and(|e| ["onnx", "onnxtxt", "pb", "pbtxt"].iter().any(|known| e.eq_ignore_ascii_case(known)))
}

/// Several targets: `--target a,b --target c`.
#[derive(clap::Args, Debug, Clone, Default)]
pub struct TargetArguments {
    /// What to compile for; `oaaxc targets` lists them
    #[arg(short, long = "target", value_name = "TARGET", value_delimiter = ',')]
    pub targets: Vec<String>,
}

impl TargetArguments {
    /// The variant of an artefact that is meant, if one is.
    pub fn only(&self) -> Result<Option<String>, Diagnostics> {
        match &self.targets[..] {
            [] => Ok(None),
            [one] => Ok(Some(one.clone())),
            _ => Err(usage("an artefact runs one of its variants: give one --target, or none")),
        }
    }
    /// The names, each once, in the user's order; a family stands for its members, `cpu` where none is given.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        for name in self.targets.iter().flat_map(|name| targets::members(name)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        if names.is_empty() {
            names.push("cpu".into());
        }
        names
    }
}

/// Where to run.
#[derive(clap::Args, Debug, Clone, Default)]
pub struct DeviceArguments {
    /// Run on this device: cpu, gpu, hip, cuda or opencl, with a number as in opencl:0 [default: what fits first]
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
}

impl DeviceArguments {
    /// As an artefact is opened with it.
    pub fn wanted(&self, threads: usize) -> Wanted {
        Wanted { threads, device: self.device.clone(), ..Wanted::default() }
    }
}

/// How to compile.
#[derive(clap::Args, Debug, Clone, Default)]
pub struct CompileArguments {
    /// Code generators that work at one time [default: one for each processor]
    #[arg(short, long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub jobs: usize,
    /// Compile every kernel anew
    #[arg(long)]
    pub no_cache: bool,
    /// Where a device cannot run a part of the model: fail, or let the host run it, with or without a word
    #[arg(long, value_name = "POLICY", default_value = "error", value_parser = ["error", "warn", "allow"])]
    pub fallback: String,
}

impl CompileArguments {
    /// As the pipeline wants them.
    pub fn options(&self) -> Options {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        Options {
            jobs: if self.jobs == 0 { processors() } else { self.jobs },
            worker: session::worker(),
            cache: if self.no_cache { None } else { oaaxc_llvm::Cache::user_folder() },
            fallback: Fallback::named(&self.fallback).unwrap_or_default(),
            ..Options::default()
        }
    }
}

/// A wrong command line.
pub fn usage(message: impl Into<String>) -> Diagnostics {
    Diagnostics { items: vec![Diagnostic::error(Code::USAGE, message)] }
}

/// One diagnostic as a failure.
pub fn one(diagnostic: Diagnostic) -> Diagnostics {
    Diagnostics { items: vec![diagnostic] }
}

/// A failed file operation.
pub fn io_error(doing: &str, path: &Path, error: &std::io::Error) -> Diagnostics {
    one(Diagnostic::error(Code::IO, format!("cannot {doing} {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dims_are_sizes_or_ranges() {
        assert_eq!(parse_dim("N=4").ok(), Some(("N".into(), 4, 4)));
        assert_eq!(parse_dim("N=1..32").ok(), Some(("N".into(), 1, 32)));
        for wrong in ["N", "=3", "N=x", "N=5..2", "N=-1"] {
            assert!(parse_dim(wrong).is_err(), "{wrong}");
        }
    }
}
