//! Opens a package of any form and gives its files, trusting nothing but digests.
//!
//! Promises: `open` checks form, sizes, every document, `oaax.json` and its binding; `verify` hashes every byte.
//! A file handed out comes from the file handle that was checked.
//! Never: follows a link, writes outside the folder it is told to unpack into, or runs anything.

mod folder;
mod images;
mod layers;
mod source;
mod store;
mod unpack;

use std::{
    collections::BTreeMap,
    fs::File,
    io::{Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use serde::Serialize;

pub(crate) use images::{ImageFacts, LayerFacts, walk};
pub(crate) use layers::OpenedLayer;
pub use layers::manifest_in_layer;
pub(crate) use source::{LayerSource, Section};
pub(crate) use store::Store;

use crate::{
    digest::{Digest, TreeHasher},
    error::{ContainerError, Result},
    manifest::{FileEntry, Manifest},
    oci::Annotations,
    sink::{HashSink, Sink},
};

/// What a caller already knows about the package that it opens.
#[derive(Clone, Debug, Default)]
pub struct Expectation {
    /// SHA-256 of `oaax.json`; binds an unpacked folder, which has no digests around it.
    pub manifest: Option<Digest>,
    /// The reference to open in a layout that holds several packages.
    pub tag: Option<String>,
}

/// Which form was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// One file.
    Archive,
    /// An OCI layout directory.
    Layout,
    /// An unpacked or mounted `/models`.
    Folder,
}

/// A package whose form has been checked.
pub struct OpenedPackage {
    pub(crate) form: Form,
    pub(crate) bound: bool,
    pub(crate) manifest: Manifest,
    pub(crate) manifest_bytes: Vec<u8>,
    pub(crate) files: BTreeMap<String, OpenedFile>,
    pub(crate) layers: Vec<OpenedLayer>,
    pub(crate) images: Vec<ImageFacts>,
    pub(crate) annotations: Annotations,
}

/// A file of an opened package.
#[derive(Clone, Debug)]
pub struct OpenedFile {
    /// Its line in `oaax.json`.
    pub entry: FileEntry,
    place: Place,
}

#[derive(Clone, Debug)]
enum Place {
    /// As it is, in a file or in memory.
    Whole(Section),
    /// Somewhere in a compressed layer.
    InGzip { layer: usize },
}

/// Bytes of one file of the package inside a file of the system, to be mapped or read.
#[derive(Clone, Debug)]
pub struct FileRange {
    /// The handle that was checked; map this one.
    pub file: Arc<File>,
    /// Its name, for messages.
    pub path: PathBuf,
    /// First byte; a multiple of `ALIGNMENT` in archives that this crate wrote.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// What `verify` went through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Files of the package.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Layers whose digest was checked too.
    pub layers: usize,
}

/// Opens the archive file, layout folder or unpacked `/models` folder at `path`.
pub fn open(path: &Path) -> Result<OpenedPackage> {
    open_with(path, &Expectation::default())
}

/// As `open`, and checks what the caller expects.
pub fn open_with(path: &Path, expected: &Expectation) -> Result<OpenedPackage> {
    let facts = std::fs::metadata(path).map_err(|error| ContainerError::io("open", path, error))?;
    if !facts.is_dir() {
        let file = File::open(path).map_err(|error| ContainerError::io("open", path, error))?;
        return open_archive(&Section::of_file(file, path)?, expected);
    }
    if path.join("oci-layout").is_file() {
        return open_store(&Store::of_folder(path)?, Form::Layout, expected);
    }
    if path.join("oaax.json").is_file() {
        return folder::open(path, expected);
    }
    Err(ContainerError::invalid(
        path.display().to_string(),
        "has neither oci-layout (an OCI layout) nor oaax.json (an unpacked /models)",
    ))
}

/// Opens an archive in memory.
pub fn open_bytes(bytes: Bytes, expected: &Expectation) -> Result<OpenedPackage> {
    open_archive(&Section::of_memory(bytes), expected)
}

/// The blobs of an archive or a layout.
pub(crate) fn open_any(path: &Path) -> Result<Store> {
    if path.is_dir() {
        return Store::of_folder(path);
    }
    let file = File::open(path).map_err(|error| ContainerError::io("open", path, error))?;
    Store::of_archive(&Section::of_file(file, path)?)
}

fn open_archive(archive: &Section, expected: &Expectation) -> Result<OpenedPackage> {
    open_store(&Store::of_archive(archive)?, Form::Archive, expected)
}

fn open_store(store: &Store, form: Form, expected: &Expectation) -> Result<OpenedPackage> {
    let walk = images::walk(store, expected.tag.as_deref())?;
    let (manifest_bytes, manifest_layer) = layers::manifest(store, &walk.images)?;
    let manifest = read_manifest(&manifest_bytes, expected)?;
    let (layers, files) = layers::read(store, &walk.images, &manifest, &manifest_layer)?;
    check_complete(&manifest, &files)?;
    let (images, annotations) = (walk.images, walk.annotations);
    Ok(OpenedPackage { form, bound: true, manifest, manifest_bytes, files, layers, images, annotations })
}

fn read_manifest(bytes: &[u8], expected: &Expectation) -> Result<Manifest> {
    if let Some(digest) = expected.manifest
        && Digest::of(bytes) != digest
    {
        return Err(ContainerError::invalid("oaax.json", format!("does not have the expected digest {digest}")));
    }
    Manifest::from_json(bytes)
}

/// All shared files are there; each target is there with all its files or with none, and one at least is.
fn check_complete(manifest: &Manifest, files: &BTreeMap<String, OpenedFile>) -> Result<()> {
    let missing = |entry: &&FileEntry| !files.contains_key(&entry.path);
    let lacks = |path: &str| ContainerError::invalid("oaax.json", format!("lists {path:?}, which is missing"));
    if let Some(entry) = manifest.files.iter().filter(|entry| entry.target.is_none()).find(missing) {
        return Err(lacks(&entry.path));
    }
    let mut whole = 0;
    for variant in &manifest.variants {
        let own = || manifest.files.iter().filter(|entry| entry.target.as_deref() == Some(variant.id.as_str()));
        match own().find(missing) {
            None => whole += 1,
            Some(entry) if own().any(|entry| files.contains_key(&entry.path)) => {
                return Err(lacks(&entry.path));
            }
            Some(_) => (),
        }
    }
    match whole == 0 && !manifest.variants.is_empty() {
        true => Err(ContainerError::invalid("oaax.json", "none of its variants has its files here")),
        false => Ok(()),
    }
}

impl OpenedPackage {
    /// Which form was opened.
    pub fn form(&self) -> Form {
        self.form
    }

    /// Whether something outside the files binds `oaax.json`: the digests of the image, or one that the caller gave.
    pub fn bound(&self) -> bool {
        self.bound
    }

    /// `oaax.json`.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// `oaax.json` as it stands there; its digest binds the package.
    pub fn manifest_bytes(&self) -> &[u8] {
        &self.manifest_bytes
    }

    /// The files that are present, by path relative to `/models`.
    pub fn files(&self) -> impl Iterator<Item = (&str, &OpenedFile)> {
        self.files.iter().map(|(path, file)| (path.as_str(), file))
    }

    /// Whether a variant's files are here; an image of one target lacks the others'.
    pub fn has_variant(&self, id: &str) -> bool {
        let mut own = self.manifest.files.iter().filter(|entry| entry.target.as_deref() == Some(id));
        self.manifest.variants.iter().any(|variant| variant.id == id) && own.all(|entry| self.files.contains_key(&entry.path))
    }

    /// Where a file's bytes lie in a file of the system; none in compressed layers and in memory.
    pub fn range(&self, path: &str) -> Option<FileRange> {
        match &self.files.get(path)?.place {
            Place::Whole(section) => {
                let (file, name) = section.file()?;
                let (offset, length) = (section.start, section.length);
                Some(FileRange { file: Arc::clone(file), path: name.to_owned(), offset, length })
            }
            Place::InGzip { .. } => None,
        }
    }

    /// A file's bytes, checked against its hash tree; at most `limit` of them.
    pub fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>> {
        if path == "oaax.json" {
            return Ok(self.manifest_bytes.clone());
        }
        let file = self.files.get(path).ok_or_else(|| ContainerError::invalid(path, "is not in the package"))?;
        if file.entry.size > limit {
            return Err(ContainerError::invalid(path, format!("has {} bytes, more than {limit}", file.entry.size)));
        }
        let mut bytes = Vec::new();
        let mut take = |reader: &mut dyn Read| checked_copy(&file.entry, reader, &mut bytes);
        match &file.place {
            Place::Whole(section) => take(&mut section.reader())?,
            Place::InGzip { layer } => layers::stream(&self.layers[*layer], |found, reader| match found == path {
                true => take(reader),
                false => Ok(()),
            })?,
        }
        Ok(bytes)
    }

    /// Hashes every file against its tree and every layer against its digest.
    pub fn verify(&self) -> Result<Verified> {
        let mut verified = Verified::default();
        self.for_each_file(|entry, reader| {
            verified.files += 1;
            verified.bytes += entry.size;
            checked_copy(entry, reader, &mut std::io::sink())
        })?;
        for layer in &self.layers {
            let place = format!("layer {}", layer.digest);
            // Opening has inflated and hashed the compressed ones.
            if !layer.gzip && layer.section.digest(&place)? != layer.digest {
                return Err(ContainerError::invalid(place, "the bytes do not have this digest"));
            }
            verified.layers += 1;
        }
        Ok(verified)
    }

    /// Hands every file to `take`, in the order in which they can be read fast.
    pub(crate) fn for_each_file(&self, mut take: impl FnMut(&FileEntry, &mut dyn Read) -> Result<()>) -> Result<()> {
        for file in self.files.values() {
            if let Place::Whole(section) = &file.place {
                take(&file.entry, &mut section.reader())?;
            }
        }
        for layer in self.layers.iter().filter(|layer| layer.gzip) {
            layers::stream(layer, |path, reader| match self.files.get(path) {
                Some(file) => take(&file.entry, reader),
                None => Ok(()),
            })?;
        }
        Ok(())
    }
}

/// Copies one file and checks size, tree and digest on the way; the copy is complete only if this succeeds.
fn checked_copy(entry: &FileEntry, reader: &mut dyn Read, target: &mut dyn Write) -> Result<()> {
    let place = format!("file {:?}", entry.path);
    let mut tree = TreeHasher::default();
    let mut whole = HashSink::default();
    let mut piece = vec![0u8; (entry.size as usize).clamp(1, 1 << 20)];
    loop {
        let count = match reader.read(&mut piece) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) => return Err(ContainerError::invalid(place, error.to_string())),
        };
        tree.update(&piece[..count]);
        whole.put(&piece[..count])?;
        target.write_all(&piece[..count]).map_err(|error| ContainerError::io("write", &entry.path, error))?;
    }
    let tree = tree.finish();
    if let Some(leaf) = first_difference(&tree.leaves_hex(), &entry.leaves) {
        return Err(ContainerError::invalid(place, format!("leaf {leaf} (2 MiB each) does not have the digest in oaax.json")));
    }
    let (digest, length) = whole.finish();
    match length == entry.size && tree.root().hex() == entry.root && digest.hex() == entry.sha256 {
        true => Ok(()),
        false => Err(ContainerError::invalid(place, "does not have the digest in oaax.json")),
    }
}

fn first_difference(found: &str, listed: &str) -> Option<usize> {
    let pairs = found.as_bytes().chunks(64).zip(listed.as_bytes().chunks(64));
    pairs.enumerate().find(|(_, (found, listed))| found != listed).map(|(leaf, _)| leaf)
}
