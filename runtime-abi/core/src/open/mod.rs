//! Opens an artefact in any of its forms and gives the bytes of its files.
//!
//! Forms: `model.oaax` (an OCI archive whose files are mapped in place), an unpacked `/models`
//! folder, an OCI layout folder (layers stored in gzip are copied once), and an archive in memory.
//! Promises: nothing in the artefact is trusted before its digest is checked; `copied` says which
//! files had to be copied and why.

mod gzip;
mod oci;
mod tar;

use crate::{
    buffer::Buffer,
    error::{Error, Result, Status, fail},
    manifest,
};
use memmap2::Mmap;
use oaax_abi::ALIGN;
use std::{collections::BTreeMap, fs::File, ops::Deref, path::Path, sync::Arc};

/// Bytes that stay where they are as long as someone holds them.
#[derive(Clone)]
pub struct Bytes {
    owner: Arc<Backing>,
    start: usize,
    length: usize,
}

enum Backing {
    Map(Mmap),
    Memory(Buffer, usize),
}

impl Deref for Backing {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Backing::Map(map) => map,
            // SAFETY: the buffer was filled with as many bytes and is never written again.
            Backing::Memory(buffer, length) => unsafe { std::slice::from_raw_parts(buffer.as_ptr(), *length) },
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.owner[self.start..self.start + self.length]
    }
}

impl Bytes {
    /// A 64-byte aligned copy.
    pub fn copy_of(bytes: &[u8]) -> Result<Bytes> {
        let owner = Arc::new(Backing::Memory(Buffer::copy_of(bytes)?, bytes.len()));
        Ok(Bytes { owner, start: 0, length: bytes.len() })
    }

    /// Maps a file.
    pub fn map(path: &Path) -> Result<Bytes> {
        let failed = |error| Error::new(Status::NotFound, format!("{}: {error}", path.display()));
        let file = File::open(path).map_err(failed)?;
        let length = file.metadata().map_err(failed)?.len() as usize;
        if length == 0 {
            return Bytes::copy_of(&[]);
        }
        // SAFETY: the map is read only. A file that is cut or changed while it is in use breaks this
        // (as it does for every mapped library); the documentation of `Model::open` forbids it.
        let map = unsafe { Mmap::map(&file) }.map_err(failed)?;
        Ok(Bytes { length: map.len(), owner: Arc::new(Backing::Map(map)), start: 0 })
    }

    /// A part of these bytes.
    pub fn part(&self, start: usize, length: usize) -> Option<Bytes> {
        start.checked_add(length).filter(|end| *end <= self.length)?;
        Some(Bytes { owner: self.owner.clone(), start: self.start + start, length })
    }
}

/// The files of an artefact, not yet verified.
pub struct Files {
    /// Which form it was, for messages: `archive`, `folder`, `layout`, `memory`.
    pub form: &'static str,
    /// Bytes of `oaax.json`.
    pub manifest: Bytes,
    /// Whether the container's digests bind `oaax.json`.
    pub bound: bool,
    source: Source,
    /// Files that could not be mapped in place, with the reason.
    pub copied: Vec<String>,
}

enum Source {
    Folder(std::path::PathBuf),
    Entries(BTreeMap<String, Bytes>),
}

impl Files {
    /// Opens a file or folder.
    pub fn open(path: &Path) -> Result<Files> {
        if path.join("oaax.json").is_file() {
            let manifest = read_manifest(Bytes::map(&path.join("oaax.json"))?)?;
            let source = Source::Folder(path.to_owned());
            return Ok(Files { form: "folder", manifest, bound: false, source, copied: Vec::new() });
        }
        if path.join("index.json").is_file() {
            return Files::entries("layout", &oci::Layout::Folder(path.to_owned()));
        }
        match path.is_dir() {
            true => fail!(InvalidModel, "{}: holds neither oaax.json nor index.json", path.display()),
            false => Files::archive("archive", Bytes::map(path)?),
        }
    }

    /// Opens an archive in memory; the bytes are copied once.
    pub fn open_memory(bytes: &[u8]) -> Result<Files> {
        let mut files = Files::archive("memory", Bytes::copy_of(bytes)?)?;
        files.copied.push("the archive, as it was given in memory".to_owned());
        Ok(files)
    }

    fn archive(form: &'static str, bytes: Bytes) -> Result<Files> {
        Files::entries(form, &oci::Layout::Archive(tar::read(&bytes)?))
    }

    fn entries(form: &'static str, layout: &oci::Layout) -> Result<Files> {
        let mut copied = Vec::new();
        let mut entries = oci::model_files(layout, &mut copied)?;
        let Some(manifest) = entries.remove("oaax.json") else {
            fail!(InvalidModel, "the image holds no /models/oaax.json");
        };
        let manifest = read_manifest(manifest)?;
        Ok(Files { form, manifest, bound: true, source: Source::Entries(entries), copied })
    }

    /// Whether a file is there; an image of one target lacks those of the others.
    pub fn has(&self, path: &str) -> bool {
        match &self.source {
            Source::Folder(folder) => folder.join(path).is_file(),
            Source::Entries(entries) => entries.contains_key(path),
        }
    }

    /// The bytes of a file, at an address that is a multiple of 64.
    pub fn get(&mut self, path: &str) -> Result<Bytes> {
        let bytes = match &self.source {
            Source::Folder(folder) => Bytes::map(&folder.join(path))?,
            Source::Entries(entries) => match entries.get(path) {
                Some(bytes) => bytes.clone(),
                None => fail!(InvalidModel, "{path}: is missing in the artefact"),
            },
        };
        if (bytes.as_ptr() as u64).is_multiple_of(ALIGN) {
            return Ok(bytes);
        }
        self.copied.push(format!("{path}, as its bytes are not aligned to {ALIGN}"));
        Bytes::copy_of(&bytes)
    }
}

fn read_manifest(bytes: Bytes) -> Result<Bytes> {
    match bytes.len() <= manifest::MAX_SIZE {
        true => Ok(bytes),
        false => fail!(InvalidModel, "oaax.json: {} bytes are too many", bytes.len()),
    }
}
