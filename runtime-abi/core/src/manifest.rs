//! What the runtime needs of `oaax.json`: versions, variants, files with their hash trees.
//! Unknown fields are ignored; unknown names in `critical` and a later `min_reader` are refused.

use crate::{
    digest::{Digest, LEAF, digest, digest_from_hex, from_hex},
    error::{Result, fail},
    json::Json,
};
use std::collections::BTreeMap;

/// The newest manifest that this runtime understands.
const READER: u64 = 1;
/// Names that may stand in `critical`.
const KNOWN_CRITICAL: &[&str] = &["hash_tree"];
/// Largest manifest in bytes.
pub const MAX_SIZE: usize = 256 << 20;

/// The manifest.
#[derive(Clone, Debug, Default)]
pub struct Manifest {
    /// In the order of preference.
    pub variants: Vec<Variant>,
    /// By path.
    pub files: BTreeMap<String, FileEntry>,
    /// Whether a variant for a device may run kernels on the host.
    pub fallback: Fallback,
    /// Code may be loaded only after a signature was checked. Who checked one gives the digest of `oaax.json`.
    pub signature_required: bool,
}

/// What the artefact says of kernels that a device cannot run and that were placed on the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fallback {
    /// Such a variant is refused.
    #[default]
    Error,
    /// It runs, and the model's messages say so.
    Warn,
    /// It runs.
    Allow,
}

/// An accelerator that a variant needs.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeviceNeed {
    /// `hip`, `cuda`, `opencl`.
    pub kind: String,
    /// Architectures or names, one of them; empty: any.
    pub names: Vec<String>,
    /// Least memory in bytes.
    pub memory: Option<u64>,
}

/// One way to run the model.
#[derive(Clone, Debug, Default)]
pub struct Variant {
    /// Unique name.
    pub id: String,
    /// CPU architectures that its host program and objects are for; empty: any.
    pub arch: Vec<String>,
    /// What was asked for when it was built.
    pub target: String,
    /// CPU levels of its host kernels, lowest first.
    pub cpu_levels: Vec<String>,
    /// The accelerator that it needs, if it needs one.
    pub device: Option<DeviceNeed>,
    /// Path of the host program.
    pub program: String,
    /// Paths of the kernel objects, in the program's order.
    pub objects: Vec<String>,
    /// Paths of the weight files, in the program's order.
    pub weights: Vec<String>,
}

/// One file.
#[derive(Clone, Debug)]
pub struct FileEntry {
    /// Bytes.
    pub size: u64,
    /// Digests of its leaves.
    pub leaves: Vec<Digest>,
}

fn text(json: &Json, key: &str) -> String {
    json.get(key).and_then(Json::text).unwrap_or_default().to_owned()
}

fn texts(json: &Json, key: &str) -> Vec<String> {
    json.get(key).map_or(&[][..], Json::list).iter().filter_map(Json::text).map(str::to_owned).collect()
}

impl Manifest {
    /// Reads and checks the bytes of `oaax.json`.
    pub fn parse(bytes: &[u8]) -> Result<Manifest> {
        let json = match Json::parse(bytes) {
            Ok(json @ Json::Object(_)) => json,
            Ok(_) => fail!(InvalidModel, "oaax.json: is not an object"),
            Err(reason) => fail!(InvalidModel, "oaax.json: {reason}"),
        };
        match json.get("min_reader").and_then(Json::u64) {
            Some(1..=READER) => {}
            Some(version) => {
                fail!(InvalidModel, "oaax.json: needs a reader of version {version}, this runtime has {READER}")
            }
            None => fail!(InvalidModel, "oaax.json: has no min_reader"),
        }
        for name in texts(&json, "critical") {
            if !KNOWN_CRITICAL.contains(&name.as_str()) {
                fail!(InvalidModel, "oaax.json: marks {name:?} as critical, which this runtime does not know");
            }
        }
        if let Some(tree) = json.get("hash_tree") {
            let leaf = tree.get("leaf_size").and_then(Json::u64);
            if text(tree, "algorithm") != "sha256" || leaf != Some(LEAF as u64) {
                fail!(InvalidModel, "oaax.json: has a hash tree of unknown form");
            }
        }
        let mut files = BTreeMap::new();
        for file in json.get("files").map_or(&[][..], Json::list) {
            let path = text(file, "path");
            check_path(&path)?;
            files.insert(path.clone(), read_file(&path, file)?);
        }
        let variants: Vec<Variant> = json.get("variants").map_or(&[][..], Json::list).iter().map(read_variant).collect();
        for variant in &variants {
            let paths = [&variant.program].into_iter().chain(&variant.objects).chain(&variant.weights);
            if let Some(path) = paths.into_iter().find(|path| !files.contains_key(*path)) {
                fail!(InvalidModel, "oaax.json: variant {} names {path:?}, which is not among its files", variant.id);
            }
        }
        // "any word that the reader does not know: code is loaded only after a valid signature" (docs/artefact.md).
        let signature_required = json.get("signature_policy").is_some_and(|policy| policy.text() != Some("none"));
        Ok(Manifest { variants, files, fallback: read_fallback(json.get("fallback"))?, signature_required })
    }
}

/// A word, or an object with the word as its `policy` and whatever else people may read.
fn read_fallback(json: Option<&Json>) -> Result<Fallback> {
    let word = json.and_then(|json| json.get("policy").or(Some(json))).and_then(Json::text);
    Ok(match word {
        None | Some("error") => Fallback::Error,
        Some("warn") => Fallback::Warn,
        Some("allow") => Fallback::Allow,
        Some(word) => fail!(InvalidModel, "oaax.json: fallback is {word:?}, not error, warn or allow"),
    })
}

fn read_device(json: &Json) -> DeviceNeed {
    DeviceNeed { kind: text(json, "kind"), names: texts(json, "names"), memory: json.get("memory").and_then(Json::u64) }
}

fn read_variant(json: &Json) -> Variant {
    let needs = json.get("needs").unwrap_or(&Json::Null);
    Variant {
        id: text(json, "id"),
        arch: texts(needs, "arch"),
        target: text(json, "target"),
        cpu_levels: texts(needs, "cpu_levels"),
        device: needs.get("device").filter(|device| **device != Json::Null).map(read_device),
        program: text(json, "program"),
        objects: texts(json, "objects"),
        weights: texts(json, "weights"),
    }
}

fn read_file(path: &str, json: &Json) -> Result<FileEntry> {
    let size = json.get("size").and_then(Json::u64);
    let (root, leaves) = (digest_from_hex(&text(json, "root")), from_hex(&text(json, "leaves")));
    let (Some(size), Some(root), Some(leaves)) = (size, root, leaves) else {
        fail!(InvalidModel, "oaax.json: file {path:?} lacks its size, root or leaves");
    };
    if leaves.len() as u64 != size.div_ceil(LEAF as u64).saturating_mul(32) {
        fail!(InvalidModel, "oaax.json: file {path:?} of {size} bytes has {} leaves", leaves.len() / 32);
    }
    if digest(&leaves) != root {
        fail!(Tampered, "oaax.json: the root of file {path:?} does not fit its leaves");
    }
    Ok(FileEntry { size, leaves: leaves.chunks_exact(32).map(|leaf| leaf.try_into().expect("32 bytes")).collect() })
}

/// A path that stays inside the artefact.
fn check_path(path: &str) -> Result<()> {
    let good = |part: &str| !part.is_empty() && part != "." && part != "..";
    match path.split('/').all(good) && !path.contains(['\\', '\0']) {
        true => Ok(()),
        false => fail!(InvalidModel, "oaax.json: path {path:?} leaves the artefact"),
    }
}
