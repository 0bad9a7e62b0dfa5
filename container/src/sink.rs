//! Where bytes go: a file, a hash, or both forms of a layer at once.
//!
//! Promises: writes in order, errors name the file; nothing is buffered beyond one piece.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

use crate::{
    digest::Digest,
    error::{ContainerError, Result},
};

/// Takes bytes in order.
pub(crate) trait Sink {
    fn put(&mut self, bytes: &[u8]) -> Result<()>;

    fn fill(&mut self, byte: u8, mut count: u64) -> Result<()> {
        let piece = [byte; 4096];
        while count > 0 {
            let now = count.min(piece.len() as u64);
            self.put(&piece[..now as usize])?;
            count -= now;
        }
        Ok(())
    }
}

impl<S: Sink + ?Sized> Sink for &mut S {
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        (**self).put(bytes)
    }
}

/// Hashes and counts.
#[derive(Default)]
pub(crate) struct HashSink {
    hash: Sha256,
    pub length: u64,
}

impl HashSink {
    pub fn finish(self) -> (Digest, u64) {
        (Digest::from_bytes(self.hash.finalize().into()), self.length)
    }
}

impl Sink for HashSink {
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.hash.update(bytes);
        self.length += bytes.len() as u64;
        Ok(())
    }
}

/// Writes to a file.
pub(crate) struct FileSink {
    writer: BufWriter<File>,
    path: PathBuf,
}

impl FileSink {
    /// Writes to `file`; errors speak of `path`, where the file will stand in the end.
    pub fn new(file: File, path: &Path) -> FileSink {
        FileSink { writer: BufWriter::with_capacity(256 << 10, file), path: path.to_owned() }
    }

    /// Flushes down to the disk, where quotas and network file systems report that there is no room.
    pub fn finish(self) -> Result<()> {
        let FileSink { writer, path } = self;
        let file = writer.into_inner().map_err(|error| ContainerError::io("write", &path, error.into_error()))?;
        file.sync_data().map_err(|error| ContainerError::io("write", &path, error))
    }
}

impl Sink for FileSink {
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.writer.write_all(bytes).map_err(|error| ContainerError::io("write", &self.path, error))
    }
}
