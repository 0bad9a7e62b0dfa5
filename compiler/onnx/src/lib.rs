//! ONNX bytes → Graph: messages, limits, external data, old opsets, functions, nested graphs.
//!
//! Promises: one walk in topological order; every unsupported or wrong node in one report; weights
//! stay in the mapped file; no bytes make it panic or allocate far beyond what they hold.
//! Nothing of ONNX's messages leaves this crate except as test data (`data`).

mod attribute;
mod body;
pub mod data;
mod external;
mod function;
mod import;
pub mod limits;
mod mapped;
pub mod messages;
mod node;
mod scan;
mod scope;
mod suggest;
mod tensor;
pub mod text;
mod types;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use oaaxc_base::{Code, Diagnostic, Diagnostics};
use oaaxc_ir::{Graph, Tensor, ValueId};

/// The oldest and the newest IR version that is read.
pub const IR_VERSIONS: std::ops::RangeInclusive<i64> = 3..=14;

/// What the caller says about a model.
#[derive(Clone, Debug, Default)]
pub struct ImportOptions {
    /// Numbers for symbolic dims: `N` by its name, an unnamed dim as `INPUT_dAXIS`.
    pub dims: BTreeMap<String, i64>,
    /// Smallest and largest size of symbolic dims.
    pub ranges: BTreeMap<String, (i64, i64)>,
    /// Ranks of inputs that the model leaves open.
    pub ranks: BTreeMap<String, usize>,
    /// Initialisers that are also inputs (IR version 4 and newer) are inputs with a default, not constants.
    pub overridable: bool,
    /// Where external data lies, if not beside the model.
    pub external_folder: Option<PathBuf>,
}

/// An imported model.
#[derive(Debug)]
pub struct Imported {
    /// The graph: every node inferred, in its internal form.
    pub graph: Graph,
    /// The file's IR version.
    pub ir_version: i64,
    /// Operator sets with their versions, by domain; `""` is ai.onnx.
    pub opsets: BTreeMap<String, i64>,
    /// Which program wrote the file, with its version.
    pub producer: String,
    /// Inputs that have a default value (`ImportOptions::overridable`).
    pub defaults: Vec<(ValueId, Tensor)>,
    /// Declared element types of the outputs and what else did not stop the import.
    pub warnings: Vec<Diagnostic>,
}

/// Reads a model file; its external data lies beside it.
pub fn import(path: &Path, options: &ImportOptions) -> Result<Imported, Diagnostics> {
    let failed = |message: String| Diagnostics { items: vec![Diagnostic::error(Code::IO, message)] };
    let file = File::open(path).map_err(|e| failed(format!("cannot open {}: {e}", path.display())))?;
    if !file.metadata().is_ok_and(|m| m.is_file()) {
        return Err(failed(format!("{} is not a regular file", path.display())));
    }
    let bytes = mapped::map(&file).map_err(|e| failed(format!("cannot map {}: {e}", path.display())))?;
    let folder = options.external_folder.clone().or_else(|| path.parent().map(Path::to_path_buf));
    import_named(bytes, &path.display().to_string(), folder.as_deref(), options)
}

/// Reads a model from memory. `name` stands in messages; external data lies in `folder`, if anywhere.
pub fn import_bytes(bytes: Bytes, name: &str, folder: Option<&Path>, options: &ImportOptions) -> Result<Imported, Diagnostics> {
    import_named(bytes, name, options.external_folder.as_deref().or(folder), options)
}

/// Reads a model in ONNX text, as `text::print` writes it or as people do.
pub fn import_text(text: &str, name: &str, options: &ImportOptions) -> Result<Imported, Diagnostics> {
    let external = external::ExternalData::none();
    let model = text::model(text).map_err(|d| Diagnostics { items: vec![d.note(format!("in {name}"))] })?;
    import::model(&model, name, &external, options)
}

fn import_named(bytes: Bytes, name: &str, folder: Option<&Path>, options: &ImportOptions) -> Result<Imported, Diagnostics> {
    let external = folder.map_or_else(external::ExternalData::none, external::ExternalData::in_folder);
    let alone = |d: Diagnostic| Diagnostics { items: vec![d.note(format!("in {name}"))] };
    scan::check(&bytes, scan::Kind::Model).map_err(alone)?;
    let model = <messages::ModelProto as prost::Message>::decode(bytes).map_err(|e| {
        alone(
            Diagnostic::error(Code::NOT_ONNX, format!("the file is not an ONNX model: {e}"))
                .help("the file may be truncated, or only a pointer to the model (Git LFS)"),
        )
    })?;
    import::model(&model, name, &external, options)
}
