//! `/models/oaax.json`, schema 1: what a package computes, what it needs and which files it has.
//!
//! Promises: canonical compact JSON; a reader ignores fields that it does not know and keeps them in `extra`;
//! it refuses a package whose `min_reader` is above its own version or whose `critical` names a thing that
//! it does not know. Field by field description: `docs/artefact.md`.

mod report;
mod signature;
mod variant;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    digest::{Digest, LEAF_SIZE, from_hex},
    error::{ContainerError, Result},
    json, paths,
};

pub use report::{Canary, Fallback, HostNode, Placement, PlacementEntry, PrecisionEntry, Tolerance};
pub use signature::{Dim, SymbolRange, ValueInfo, ValueType};
pub use variant::{DeviceNeed, Needs, Variant};

/// Version of the manifest that this crate writes, and the newest `min_reader` that it accepts.
pub const SCHEMA: u32 = 1;

/// Names that may stand in `critical`: this reader knows what each asks of it.
pub const KNOWN_CRITICAL: &[&str] = &["hash_tree"];

/// Fields of other writers, kept as they came.
pub type Extra = BTreeMap<String, serde_json::Value>;

/// The whole document. `files` and `hash_tree` are filled in by the writer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Manifest {
    /// Version of this document; 1.
    pub schema: u32,
    /// The least reader version that understands it; 1.
    pub min_reader: u32,
    /// Name of the model, for people.
    pub name: String,
    /// Who wrote it.
    pub producer: Producer,
    /// Ranges of the named dims that `inputs` and `outputs` use.
    pub symbols: BTreeMap<String, SymbolRange>,
    /// In the order of the model.
    pub inputs: Vec<ValueInfo>,
    /// In the order of the model.
    pub outputs: Vec<ValueInfo>,
    /// Ways to run it; the runtime picks one for the devices present, earlier ones first when equal.
    pub variants: Vec<Variant>,
    /// Every file under `/models` but this one, sorted by path.
    pub files: Vec<FileEntry>,
    /// Form of the trees in `files`.
    pub hash_tree: HashTreeForm,
    /// Inputs with known outputs, to be run after loading or by `oaaxc verify`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub canaries: Vec<Canary>,
    /// How far a canary's output may be from the recorded one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<Tolerance>,
    /// What runs on the host although another target was asked for.
    pub fallback: Fallback,
    /// Whether a signature is required before code is loaded.
    pub signature_policy: SignaturePolicy,
    /// Names that a reader must know to read this package at all.
    pub critical: Vec<String>,
    /// Which target computes which node, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// Tensors that were narrowed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub precision: Vec<PrecisionEntry>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// The program that wrote the package.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Producer {
    /// "oaaxc".
    pub name: String,
    /// Its version.
    pub version: String,
}

/// One file of the package.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileEntry {
    /// Relative to `/models`.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// `weights`, `target` or `other`.
    pub role: String,
    /// Id of the variant that it belongs to, for role `target`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Alignment of its first byte in layer and archive.
    pub align: u64,
    /// SHA-256 of the file, 64 hexadecimal digits.
    pub sha256: String,
    /// Root of its hash tree, 64 hexadecimal digits.
    pub root: String,
    /// The digests of its leaves, 64 hexadecimal digits each, one after the other.
    pub leaves: String,
}

/// How the trees of `files` are built.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HashTreeForm {
    /// `sha256`.
    pub algorithm: String,
    /// Bytes of a leaf, 2 MiB.
    pub leaf_size: u64,
}

impl Default for HashTreeForm {
    fn default() -> Self {
        HashTreeForm { algorithm: "sha256".to_owned(), leaf_size: LEAF_SIZE }
    }
}

/// What a reader demands of signatures before it loads code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SignaturePolicy {
    /// The reader's own policy alone decides.
    #[default]
    None,
    /// A valid signature is required.
    Required,
    /// A policy of a later version; treated as `Required`.
    #[serde(other)]
    Unknown,
}

impl Manifest {
    /// A manifest of this crate's schema with nothing in it.
    pub fn new(name: impl Into<String>, producer_version: impl Into<String>) -> Manifest {
        Manifest {
            schema: SCHEMA,
            min_reader: SCHEMA,
            name: name.into(),
            producer: Producer { name: "oaaxc".to_owned(), version: producer_version.into() },
            critical: vec!["hash_tree".to_owned()],
            ..Manifest::default()
        }
    }

    /// The bytes of `/models/oaax.json`.
    pub fn to_json(&self) -> Vec<u8> {
        json::canonical(self)
    }

    /// Reads and checks a stranger's `oaax.json`.
    pub fn from_json(bytes: &[u8]) -> Result<Manifest> {
        let manifest: Manifest = json::read(bytes, json::MAX_MANIFEST, "oaax.json")?;
        manifest.check()?;
        Ok(manifest)
    }

    fn check(&self) -> Result<()> {
        let wrong = |reason: String| Err(ContainerError::invalid("oaax.json", reason));
        if self.schema == 0 || self.min_reader == 0 {
            return wrong("schema and min_reader must be at least 1".to_owned());
        }
        if self.min_reader > SCHEMA {
            return wrong(format!("needs a reader of version {}, this one is {SCHEMA}; use a newer oaaxc", self.min_reader));
        }
        if let Some(name) = self.critical.iter().find(|name| !KNOWN_CRITICAL.contains(&name.as_str())) {
            return wrong(format!("marks {name:?} as critical, which this reader does not know; use a newer oaaxc"));
        }
        if self.hash_tree != HashTreeForm::default() {
            return wrong(format!("has hash trees of form {:?}, this reader knows sha256 with 2 MiB leaves", self.hash_tree));
        }
        for file in &self.files {
            file.check().map_err(|reason| ContainerError::invalid(format!("oaax.json, file {:?}", file.path), reason))?;
        }
        match self.files.windows(2).find(|pair| pair[0].path >= pair[1].path) {
            Some(pair) => wrong(format!("files are not sorted or not unique at {:?}", pair[1].path)),
            None => Ok(()),
        }
    }
}

impl FileEntry {
    fn check(&self) -> std::result::Result<(), String> {
        paths::check(&self.path).map_err(|reason| format!("the path {reason}"))?;
        if self.path == "oaax.json" {
            return Err("the manifest cannot list itself".to_owned());
        }
        if Digest::from_hex(&self.sha256).is_none() {
            return Err("sha256 is not 64 lower-case hexadecimal digits".to_owned());
        }
        let root = Digest::from_hex(&self.root).ok_or("root is not 64 lower-case hexadecimal digits")?;
        let leaves = from_hex(&self.leaves).ok_or("leaves are not lower-case hexadecimal digits")?;
        if leaves.len() as u64 != self.size.div_ceil(LEAF_SIZE) * 32 {
            return Err("the number of leaves does not fit the size".to_owned());
        }
        if Digest::of(&leaves) != root {
            return Err("the root does not fit the leaves".to_owned());
        }
        match (self.role.as_str(), &self.target) {
            ("target", None) => Err("a file of role target must name its target".to_owned()),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Manifest::from_json(text.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn a_manifest_survives_writing_and_reading() {
        let mut manifest = Manifest::new("m", "0.1.0");
        manifest.symbols.insert("N".to_owned(), SymbolRange { min: 1, max: Some(8) });
        let dims = Some(vec![Dim::Named("N".to_owned()), Dim::Size(3), Dim::Named("2*N + 1".to_owned())]);
        manifest.inputs.push(ValueInfo {
            name: "x".to_owned(),
            ty: ValueType::Tensor { dtype: "float".to_owned(), dims },
            overridable: false,
        });
        let element = Box::new(ValueType::Map {
            key: "int64".to_owned(),
            value: Box::new(ValueType::Tensor { dtype: "string".to_owned(), dims: None }),
        });
        manifest.outputs.push(ValueInfo { name: "y".to_owned(), ty: ValueType::Sequence { element }, overridable: true });
        manifest.variants.push(Variant { id: "cpu".to_owned(), ..Variant::default() });
        let bytes = manifest.to_json();
        assert_eq!(Manifest::from_json(&bytes).unwrap(), manifest);
        assert_eq!(Manifest::from_json(&bytes).unwrap().to_json(), bytes);
    }

    #[test]
    fn unknown_fields_are_kept_and_unknown_critical_names_refused() {
        let manifest = Manifest::from_json(br#"{"schema":7,"min_reader":1,"later":{"x":1},"signature_policy":"moon"}"#).unwrap();
        assert_eq!(manifest.extra["later"]["x"], 1);
        assert_eq!(manifest.signature_policy, SignaturePolicy::Unknown);
        assert!(refused(r#"{"schema":1,"min_reader":1,"critical":["hash_tree","moon"]}"#).contains("moon"));
        assert!(refused(r#"{"schema":2,"min_reader":2}"#).contains("newer"));
        assert!(refused(r#"{}"#).contains("at least 1"));
        assert!(refused(r#"{"schema":1,"min_reader":1,"hash_tree":{"algorithm":"md5","leaf_size":1}}"#).contains("md5"));
    }

    #[test]
    fn a_file_entry_must_agree_with_itself() {
        let entry = |change: fn(&mut FileEntry)| {
            let leaf = Digest::of(b"abc");
            let mut entry = FileEntry {
                path: "weights/0.bin".to_owned(),
                size: 3,
                role: "weights".to_owned(),
                align: 65536,
                sha256: leaf.hex(),
                root: Digest::of(leaf.as_bytes()).hex(),
                leaves: leaf.hex(),
                target: None,
            };
            change(&mut entry);
            let mut manifest = Manifest::new("m", "0");
            manifest.files.push(entry);
            Manifest::from_json(&manifest.to_json()).map(|_| ()).map_err(|error| error.to_string())
        };
        assert!(entry(|_| ()).is_ok());
        assert!(entry(|e| e.path = "../x".to_owned()).is_err());
        assert!(entry(|e| e.path = "oaax.json".to_owned()).is_err());
        assert!(entry(|e| e.size = 0).is_err());
        assert!(entry(|e| e.size = u64::MAX).is_err());
        assert!(entry(|e| e.root = e.sha256.clone()).is_err());
        assert!(entry(|e| e.sha256.make_ascii_uppercase()).is_err());
        assert!(entry(|e| e.role = "target".to_owned()).is_err());
    }
}
