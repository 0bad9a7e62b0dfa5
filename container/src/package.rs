//! What a caller hands over to be packed.
//!
//! Promises: plain data; large contents are borrowed from maps or files and read in pieces, never copied whole.

use std::{env, path::PathBuf};

use bytes::Bytes;

use crate::{
    error::{ContainerError, Result},
    manifest::Manifest,
};

/// A compiled model with all its files.
#[derive(Clone, Debug, Default)]
pub struct Package {
    /// Becomes `/models/oaax.json`; `files`, `hash_tree` and versions are filled in by the writer.
    pub manifest: Manifest,
    /// Everything under `/models` but the manifest, in any order.
    pub files: Vec<PackageFile>,
    /// One image is made for each (several with more than one target); at least one.
    pub platforms: Vec<Platform>,
    /// Names and choices.
    pub options: Options,
}

/// One file under `/models`.
#[derive(Clone, Debug)]
pub struct PackageFile {
    /// Relative to `/models`: `weights/0.bin`, `targets/cpu/program.bin`.
    pub path: String,
    /// Which layer it goes to.
    pub role: Role,
    /// Its contents.
    pub data: Data,
}

/// What a file is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Shared by all targets.
    Weights,
    /// Belongs to the variant of this id.
    Target(String),
    /// Neither: canaries, licences.
    Other,
}

/// Contents of a file.
#[derive(Clone, Debug)]
pub enum Data {
    /// Bytes in memory or in a map (`Bytes::from_owner`).
    Bytes(Bytes),
    /// Pieces one after the other, so that a store of many tensors need not be joined in memory.
    Parts(Vec<Part>),
    /// A file, read in pieces; it must not change while it is packed.
    File(PathBuf),
}

/// A piece of `Data::Parts`.
#[derive(Clone, Debug)]
pub enum Part {
    /// These bytes.
    Bytes(Bytes),
    /// So many zero bytes.
    Zeros(u64),
}

impl From<Vec<u8>> for Data {
    fn from(bytes: Vec<u8>) -> Data {
        Data::Bytes(Bytes::from(bytes))
    }
}

/// An operating system and CPU architecture, with the programs that run the model there.
#[derive(Clone, Debug)]
pub struct Platform {
    /// As OCI names it: `linux`.
    pub os: String,
    /// As OCI names it: `amd64`, `arm64`, `riscv64`.
    pub architecture: String,
    /// Files of the runtime layer; may be empty (then the image can be mounted but not run).
    pub runtime: Vec<RuntimeFile>,
    /// Ids of the variants in this platform's image; empty means all.
    pub targets: Vec<String>,
}

impl Platform {
    /// `linux` on `architecture`, all targets, without a runtime layer.
    pub fn linux(architecture: impl Into<String>) -> Platform {
        Platform { os: "linux".to_owned(), architecture: architecture.into(), runtime: Vec::new(), targets: Vec::new() }
    }
}

/// One file of a runtime layer.
#[derive(Clone, Debug)]
pub struct RuntimeFile {
    /// From the root, without a leading slash, under `usr/`: `usr/bin/oaax-run`.
    pub path: String,
    /// Its contents.
    pub data: Data,
    /// Mode 0555 rather than 0444.
    pub executable: bool,
}

/// Names and choices that do not come from the model.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of the reference, `v1`.
    pub tag: String,
    /// Seconds since 1970 of the `created` fields.
    pub created: u64,
    /// Also make an image for each single target of a platform that has several.
    pub slim: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { tag: "v1".to_owned(), created: 0, slim: true }
    }
}

impl Options {
    /// The defaults, with `created` from the variable SOURCE_DATE_EPOCH where it is set.
    pub fn from_environment() -> Result<Options> {
        let created = match env::var("SOURCE_DATE_EPOCH") {
            Ok(text) => text
                .parse()
                .map_err(|_| ContainerError::package(format!("SOURCE_DATE_EPOCH is {text:?}, not a number of seconds")))?,
            Err(_) => 0,
        };
        Ok(Options { created, ..Options::default() })
    }
}

/// The folder under `/models` for the files of a variant: `cpu:x86-64-v3` gives `targets/cpu-x86-64-v3`.
pub fn target_folder(id: &str) -> String {
    let name: String = id.chars().map(|c| if c.is_ascii_alphanumeric() || "._+-".contains(c) { c } else { '-' }).collect();
    format!("targets/{name}")
}
