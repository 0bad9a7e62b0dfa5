//! Untrusted bytes: held open once, read at offsets, or inflated in order.
//!
//! Promises: what is hashed and what is used later come from the same open file, so swapping a name in between
//! changes nothing. Inflating stops at a bound that grows with the compressed size.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use flate2::bufread::GzDecoder;
use sha2::{Digest as _, Sha256};

use crate::{
    digest::Digest,
    error::{ContainerError, Result},
    tar::read::Source,
};

/// Most bytes that one compressed byte may become; stored gzip stays near 1, deflate can reach 1,032.
const MAX_RATIO: u64 = 200;
/// And so many more, for tiny layers.
const RATIO_SLACK: u64 = 1 << 20;
const PIECE: usize = 256 << 10;

#[derive(Clone, Debug)]
enum Bytewise {
    File(Arc<File>, PathBuf),
    Memory(Bytes),
}

/// A range of a file or of memory.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    bytes: Bytewise,
    pub start: u64,
    pub length: u64,
}

impl Section {
    /// All of an open file.
    pub fn of_file(file: File, path: &Path) -> Result<Section> {
        let facts = file.metadata().map_err(|error| ContainerError::io("read", path, error))?;
        if !facts.is_file() {
            return Err(ContainerError::invalid(path.display().to_string(), "is not a regular file"));
        }
        Ok(Section { bytes: Bytewise::File(Arc::new(file), path.to_owned()), start: 0, length: facts.len() })
    }

    pub fn of_memory(bytes: Bytes) -> Section {
        let length = bytes.len() as u64;
        Section { bytes: Bytewise::Memory(bytes), start: 0, length }
    }

    /// The part from `offset` of `length` bytes, where it exists.
    pub fn part(&self, offset: u64, length: u64) -> Option<Section> {
        let inside = offset.checked_add(length).is_some_and(|end| end <= self.length);
        inside.then(|| Section { bytes: self.bytes.clone(), start: self.start + offset, length })
    }

    /// The file that holds these bytes, open and by name.
    pub fn file(&self) -> Option<(&Arc<File>, &Path)> {
        match &self.bytes {
            Bytewise::File(file, path) => Some((file, path)),
            Bytewise::Memory(_) => None,
        }
    }

    pub fn reader(&self) -> SectionReader {
        SectionReader { section: self.clone(), position: 0 }
    }

    /// All bytes, at most `limit` of them.
    pub fn read_all(&self, limit: u64, place: &str) -> Result<Vec<u8>> {
        if self.length > limit {
            return Err(ContainerError::invalid(place, format!("has {} bytes, more than {limit}", self.length)));
        }
        let mut bytes = Vec::with_capacity(self.length as usize);
        self.reader().read_to_end(&mut bytes).map_err(|error| ContainerError::invalid(place, error.to_string()))?;
        Ok(bytes)
    }

    pub fn digest(&self, place: &str) -> Result<Digest> {
        let mut hash = Sha256::new();
        let mut reader = self.reader();
        let mut piece = vec![0u8; PIECE];
        loop {
            match reader.read(&mut piece) {
                Ok(0) => return Ok(Digest::from_bytes(hash.finalize().into())),
                Ok(count) => hash.update(&piece[..count]),
                Err(error) => return Err(ContainerError::invalid(place, error.to_string())),
            }
        }
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let left = usize::try_from(self.length - position).unwrap_or(usize::MAX);
        let room = left.min(buffer.len());
        let buffer = &mut buffer[..room];
        match &self.bytes {
            Bytewise::File(file, _) => match file.read_at(buffer, self.start + position) {
                // The file was longer when it was opened.
                Ok(0) if room > 0 => Err(io::ErrorKind::UnexpectedEof.into()),
                other => other,
            },
            Bytewise::Memory(bytes) => {
                let from = (self.start + position) as usize;
                buffer.copy_from_slice(&bytes[from..from + room]);
                Ok(room)
            }
        }
    }
}

/// Reads a section in order.
pub(crate) struct SectionReader {
    section: Section,
    position: u64,
}

impl Read for SectionReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.section.read_at(buffer, self.position) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
                Ok(count) => {
                    self.position += count as u64;
                    return Ok(count);
                }
            }
        }
    }
}

impl Source for SectionReader {
    fn skip(&mut self, count: u64) -> io::Result<()> {
        match self.position.checked_add(count) {
            Some(position) if position <= self.section.length => {
                self.position = position;
                Ok(())
            }
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

/// Inflates a gzip layer, hashes both sides and bounds the output.
pub(crate) struct Inflater {
    decoder: GzDecoder<BufReader<Hashing<SectionReader>>>,
    hash: Sha256,
    length: u64,
    limit: u64,
}

impl Inflater {
    pub fn new(section: &Section) -> Inflater {
        let reader = BufReader::with_capacity(PIECE, Hashing { inner: section.reader(), hash: Sha256::new() });
        let limit = section.length.saturating_mul(MAX_RATIO).saturating_add(RATIO_SLACK);
        Inflater { decoder: GzDecoder::new(reader), hash: Sha256::new(), length: 0, limit }
    }

    /// Digest of the compressed bytes, then digest of the content, once the content has been read to its end.
    pub fn finish(self, place: &str) -> Result<(Digest, Digest)> {
        let mut rest = self.decoder.into_inner();
        match rest.fill_buf() {
            Ok([]) => (),
            Ok(_) => {
                return Err(ContainerError::invalid(place, "data after the end of the gzip stream"));
            }
            Err(error) => return Err(ContainerError::invalid(place, error.to_string())),
        }
        let compressed = rest.into_inner().hash.finalize().into();
        Ok((Digest::from_bytes(compressed), Digest::from_bytes(self.hash.finalize().into())))
    }
}

impl Read for Inflater {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.decoder.read(buffer)?;
        self.hash.update(&buffer[..count]);
        self.length += count as u64;
        if self.length > self.limit {
            return Err(io::Error::other(format!("inflates to more than {MAX_RATIO} times its size")));
        }
        Ok(count)
    }
}

impl Source for Inflater {
    fn skip(&mut self, mut count: u64) -> io::Result<()> {
        let mut piece = [0u8; 16 << 10];
        while count > 0 {
            let now = count.min(piece.len() as u64) as usize;
            self.read_exact(&mut piece[..now])?;
            count -= now as u64;
        }
        Ok(())
    }
}

struct Hashing<R> {
    inner: R,
    hash: Sha256,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hash.update(&buffer[..count]);
        Ok(count)
    }
}

/// A layer's tar, whichever way it is stored.
pub(crate) enum LayerSource {
    Plain(SectionReader),
    Gzip(Box<Inflater>),
}

impl LayerSource {
    /// By the first two bytes rather than by what a descriptor claims: registries are known to mislabel.
    pub fn new(section: &Section, place: &str) -> Result<LayerSource> {
        match is_gzip(section, place)? {
            true => Ok(LayerSource::Gzip(Box::new(Inflater::new(section)))),
            false => Ok(LayerSource::Plain(section.reader())),
        }
    }
}

pub(crate) fn is_gzip(section: &Section, place: &str) -> Result<bool> {
    let magic = section.part(0, 2).map(|start| start.read_all(2, place)).transpose()?;
    Ok(magic.as_deref() == Some(&[0x1f, 0x8b]))
}

impl Read for LayerSource {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            LayerSource::Plain(reader) => reader.read(buffer),
            LayerSource::Gzip(reader) => reader.read(buffer),
        }
    }
}

impl Source for LayerSource {
    fn skip(&mut self, count: u64) -> io::Result<()> {
        match self {
            LayerSource::Plain(reader) => reader.skip(count),
            LayerSource::Gzip(reader) => reader.skip(count),
        }
    }
}
