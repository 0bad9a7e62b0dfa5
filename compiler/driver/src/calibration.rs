//! `--calibration DIR`: the inputs by which a model is measured.
//!
//! Each folder in DIR is one request, with a file for each input: `NAME.npy`, `NAME.pb`, or `input_N.pb` as in ONNX's
//! test data. Files in DIR itself are one request if they are so named; else, for a model with one input, each is one.
//! Everything is read in the order of names, so that equal folders give equal builds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::Tensor;

use crate::data;

/// One request: tensors by the names of inputs; inputs that are missing are seeded.
pub type Request = BTreeMap<String, Tensor>;

/// Reads a folder for a model with these inputs.
pub fn read(folder: &Path, inputs: &[String]) -> Result<Vec<Request>, Diagnostic> {
    let (folders, files) = entries(folder)?;
    let mut all = Vec::new();
    for folder in folders {
        let (_, files) = entries(&folder)?;
        let request = named(&files, inputs)?;
        if !request.is_empty() {
            all.push(request);
        }
    }
    let own = named(&files, inputs)?;
    match (own.is_empty(), inputs) {
        (false, _) => all.push(own),
        (true, [input]) => {
            for file in &files {
                all.push(Request::from([(input.clone(), data::read(file)?)]));
            }
        }
        _ => {}
    }
    if all.is_empty() {
        let message =
            format!("{} holds no inputs: neither NAME.npy, NAME.pb nor input_N.pb, nor folders with them", folder.display());
        return Err(Diagnostic::error(Code::REQUEST, message).help(format!("the model's inputs are {}", inputs.join(", "))));
    }
    Ok(all)
}

/// Folders and files of tensors in a folder, by name.
fn entries(folder: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>), Diagnostic> {
    let failed = |e: std::io::Error| Diagnostic::error(Code::IO, format!("cannot read {}: {e}", folder.display()));
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        paths.push(entry.map_err(failed)?.path());
    }
    paths.sort();
    let is_tensor = |path: &PathBuf| path.extension().is_some_and(|e| e == "npy" || e == "pb");
    let (folders, files): (Vec<PathBuf>, Vec<PathBuf>) = paths.into_iter().partition(|path| path.is_dir());
    Ok((folders, files.into_iter().filter(is_tensor).collect()))
}

/// The files that are named after inputs, or after their positions.
fn named(files: &[PathBuf], inputs: &[String]) -> Result<Request, Diagnostic> {
    let mut request = Request::new();
    for file in files {
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        let by_name = inputs.iter().find(|input| data::file_name(input) == stem);
        let by_place = || inputs.get(stem.strip_prefix("input_")?.parse::<usize>().ok()?);
        if let Some(input) = by_name.or_else(by_place) {
            request.insert(input.clone(), data::read(file)?);
        }
    }
    Ok(request)
}
