//! A layer: sorted files of one kind, written as tar as often as is asked for.
//!
//! Promises: the same files give the same bytes, hashed or written. Contents are read in pieces; a file on disk
//! that changes between two readings is an error, not a broken layer.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::Read,
    path::Path,
    thread,
    time::SystemTime,
};

use serde::Serialize;

use crate::{
    digest::{Digest, HashTree, TreeHasher},
    error::{ContainerError, Result},
    gzip::GzipSink,
    package::{Data, Part},
    paths,
    sink::{HashSink, Sink},
    tar::write::{EXECUTABLE, READABLE, TarWriter},
};

/// Above this size two hashes of the same bytes are worth two threads.
const WORTH_A_THREAD: u64 = 4 << 20;
/// Bytes of a file read at once.
const PIECE: usize = 1 << 20;

/// What a layer holds; in the order in which an image stacks them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LayerRole {
    /// Programs of one CPU architecture, under `/usr`.
    Runtime,
    /// Weights, for all targets and architectures.
    Weights,
    /// Host program and code objects of one target.
    Target,
    /// Canaries and whatever else.
    Other,
    /// `/models/oaax.json` alone.
    Manifest,
}

impl LayerRole {
    /// As the annotation `io.oaax.layer.role` says it.
    pub fn name(self) -> &'static str {
        match self {
            LayerRole::Runtime => "runtime",
            LayerRole::Weights => "weights",
            LayerRole::Target => "target",
            LayerRole::Other => "other",
            LayerRole::Manifest => "manifest",
        }
    }
}

/// Contents whose size is known and which can be read more than once.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    data: Data,
    pub size: u64,
    changed: Option<SystemTime>,
}

impl Content {
    pub fn new(data: Data) -> Result<Content> {
        let (size, changed) = match &data {
            Data::Bytes(bytes) => (bytes.len() as u64, None),
            Data::Parts(parts) => (parts.iter().map(part_length).sum(), None),
            Data::File(path) => state(&open(path)?, path)?,
        };
        Ok(Content { data, size, changed })
    }

    pub fn copy(&self, sink: &mut dyn Sink) -> Result<()> {
        match &self.data {
            Data::Bytes(bytes) => sink.put(bytes),
            Data::Parts(parts) => parts.iter().try_for_each(|part| match part {
                Part::Bytes(bytes) => sink.put(bytes),
                Part::Zeros(count) => sink.fill(0, *count),
            }),
            Data::File(path) => self.copy_file(path, sink),
        }
    }

    fn copy_file(&self, path: &Path, sink: &mut dyn Sink) -> Result<()> {
        let mut file = open(path)?;
        let mut piece = vec![0u8; PIECE];
        loop {
            match file.read(&mut piece) {
                Ok(0) => break,
                Ok(count) => sink.put(&piece[..count])?,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => (),
                Err(error) => return Err(ContainerError::io("read", path, error)),
            }
        }
        match state(&file, path)? == (self.size, self.changed) {
            true => Ok(()),
            false => Err(ContainerError::package(format!("{} changed while it was packed", path.display()))),
        }
    }

    /// SHA-256 of the whole, and the hash tree.
    pub fn hash(&self) -> Result<(Digest, HashTree)> {
        let whole = || {
            let mut sink = HashSink::default();
            self.copy(&mut sink).map(|()| sink.finish().0)
        };
        let tree = || {
            let mut sink = TreeSink(TreeHasher::default());
            self.copy(&mut sink).map(|()| sink.0.finish())
        };
        let (whole, tree) = both(self.size > WORTH_A_THREAD, whole, tree);
        Ok((whole?, tree?))
    }
}

fn part_length(part: &Part) -> u64 {
    match part {
        Part::Bytes(bytes) => bytes.len() as u64,
        Part::Zeros(count) => *count,
    }
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| ContainerError::io("read", path, error))
}

fn state(file: &File, path: &Path) -> Result<(u64, Option<SystemTime>)> {
    let facts = file.metadata().map_err(|error| ContainerError::io("read", path, error))?;
    Ok((facts.len(), facts.modified().ok()))
}

struct TreeSink(TreeHasher);

impl Sink for TreeSink {
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.update(bytes);
        Ok(())
    }
}

/// Runs both, on two threads where that pays.
fn both<A: Send, B: Send>(pays: bool, a: impl FnOnce() -> A + Send, b: impl FnOnce() -> B + Send) -> (A, B) {
    if !pays {
        return (a(), b());
    }
    thread::scope(|scope| {
        let other = scope.spawn(a);
        let b = b();
        (other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), b)
    })
}

/// One file of a layer.
#[derive(Clone, Debug)]
pub(crate) struct LayerFile {
    /// From the image's root.
    pub path: String,
    pub executable: bool,
    pub content: Content,
}

/// Files of one layer, before it is hashed.
#[derive(Clone, Debug)]
pub(crate) struct Layer {
    pub role: LayerRole,
    /// The target, for role `Target`.
    pub target: Option<String>,
    pub files: Vec<LayerFile>,
}

impl Layer {
    /// The layer as tar.
    pub fn emit<S: Sink>(&self, sink: S) -> Result<S> {
        let folders: BTreeSet<&str> = self.files.iter().flat_map(|file| paths::folders_above(&file.path)).collect();
        let mut entries: BTreeMap<&str, Option<&LayerFile>> = folders.into_iter().map(|path| (path, None)).collect();
        entries.extend(self.files.iter().map(|file| (file.path.as_str(), Some(file))));
        let mut tar = TarWriter::new(sink);
        for (path, file) in entries {
            match file {
                None => tar.folder(path)?,
                Some(file) => {
                    let mode = if file.executable { EXECUTABLE } else { READABLE };
                    tar.file(path, mode, file.content.size, true, |sink| file.content.copy(sink))?;
                }
            }
        }
        tar.finish()
    }

    /// The layer as stored gzip of its tar.
    pub fn emit_gzip<S: Sink>(&self, sink: S) -> Result<S> {
        self.emit(GzipSink::new(sink)?)?.finish()
    }

    /// Digests and sizes of both encodings.
    pub fn measure(self) -> Result<MeasuredLayer> {
        let size: u64 = self.files.iter().map(|file| file.content.size).sum();
        let plain = || self.emit(HashSink::default()).map(HashSink::finish);
        let stored = || self.emit_gzip(HashSink::default()).map(HashSink::finish);
        let (plain, stored) = both(size > WORTH_A_THREAD, plain, stored);
        let ((diff_id, tar_size), (gzip_digest, gzip_size)) = (plain?, stored?);
        Ok(MeasuredLayer { layer: self, diff_id, tar_size, gzip_digest, gzip_size })
    }
}

/// A layer with its names in both encodings.
#[derive(Clone, Debug)]
pub(crate) struct MeasuredLayer {
    pub layer: Layer,
    /// Digest of the tar: the layer's name in the archive, and its `diff_id` everywhere.
    pub diff_id: Digest,
    pub tar_size: u64,
    pub gzip_digest: Digest,
    pub gzip_size: u64,
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write};

    use super::*;

    #[test]
    fn a_file_that_changes_between_two_readings_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("w");
        fs::write(&path, "abc").unwrap();
        let content = Content::new(Data::File(path.clone())).unwrap();
        content.hash().unwrap();
        fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"d").unwrap();
        assert!(content.hash().unwrap_err().to_string().contains("changed while it was packed"));
        let file = LayerFile { path: "models/w".to_owned(), executable: false, content };
        let layer = Layer { role: LayerRole::Other, target: None, files: vec![file] };
        assert!(layer.measure().unwrap_err().to_string().contains("while it was packed"));
    }
}
