//! Writes tar: same entries, same bytes.
//!
//! Promises: owner 0:0 without names, time 0, modes 0444, 0555 and 0755 (folders: a person who is not root must be
//! able to unpack and delete them). An aligned file's data begins at a multiple of 64 KiB of the stream;
//! the gap is one extended header with a `comment` of the length that is needed, which every reader skips.

use super::{BLOCK, EXTENDED, FOLDER, MAX_SIZE, REGULAR, checksum, padding};
use crate::{
    ALIGNMENT,
    error::{ContainerError, Result},
    sink::Sink,
};

/// Mode of files that are read.
pub(crate) const READABLE: u32 = 0o444;
/// Mode of files that are run.
pub(crate) const EXECUTABLE: u32 = 0o555;

/// A tar stream in the making.
pub(crate) struct TarWriter<S> {
    sink: S,
    position: u64,
}

impl<S: Sink> TarWriter<S> {
    pub fn new(sink: S) -> TarWriter<S> {
        TarWriter { sink, position: 0 }
    }

    pub fn folder(&mut self, path: &str) -> Result<()> {
        self.header(&format!("{path}/"), FOLDER, 0o755, 0)
    }

    /// Writes a file of `size` bytes, which `body` puts into its sink.
    pub fn file(
        &mut self,
        path: &str,
        mode: u32,
        size: u64,
        aligned: bool,
        body: impl FnOnce(&mut dyn Sink) -> Result<()>,
    ) -> Result<()> {
        if size > MAX_SIZE {
            return Err(ContainerError::package(format!("{path:?} has {size} bytes; tar can say at most 8 GiB - 1")));
        }
        if aligned {
            self.align()?;
        }
        self.header(path, REGULAR, mode, size)?;
        let mut exact = Exact { sink: &mut self.sink, left: size, path };
        body(&mut exact)?;
        if exact.left != 0 {
            return Err(ContainerError::package(format!("{path:?} became shorter while it was packed")));
        }
        self.sink.fill(0, padding(size))?;
        self.position += size + padding(size);
        Ok(())
    }

    /// Two zero blocks, and not a byte more.
    pub fn finish(mut self) -> Result<S> {
        self.sink.fill(0, 2 * BLOCK)?;
        Ok(self.sink)
    }

    /// Makes the data of the next header's file begin at a multiple of `ALIGNMENT`.
    fn align(&mut self) -> Result<()> {
        let data = self.position + BLOCK;
        let gap = data.next_multiple_of(ALIGNMENT) - data;
        match gap {
            0 => Ok(()),
            // An extended header is two blocks at least: itself and its record.
            BLOCK => self.pad(gap + ALIGNMENT),
            _ => self.pad(gap),
        }
    }

    /// An extended header of `total` bytes: one record `<length> comment=<spaces>\n` that fills its blocks.
    fn pad(&mut self, total: u64) -> Result<()> {
        let record = total - BLOCK;
        self.header("PaxHeader", EXTENDED, READABLE, record)?;
        let start = format!("{record} comment=");
        self.sink.put(start.as_bytes())?;
        self.sink.fill(b' ', record - start.len() as u64 - 1)?;
        self.sink.put(b"\n")?;
        self.position += record;
        Ok(())
    }

    fn header(&mut self, name: &str, kind: u8, mode: u32, size: u64) -> Result<()> {
        assert!(name.len() <= 100, "paths were checked before: {name}");
        let mut header = [0u8; 512];
        let mut field = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
        field(0, name);
        field(100, &format!("{mode:07o}"));
        field(108, "0000000");
        field(116, "0000000");
        field(124, &format!("{size:011o}"));
        field(136, "00000000000");
        field(257, "ustar");
        field(263, "00");
        field(329, "0000000");
        field(337, "0000000");
        header[156] = kind;
        let sum = format!("{:06o}\0 ", checksum(&header));
        header[148..156].copy_from_slice(sum.as_bytes());
        self.sink.put(&header)?;
        self.position += BLOCK;
        Ok(())
    }
}

/// Refuses more bytes than the header said.
struct Exact<'a, S> {
    sink: &'a mut S,
    left: u64,
    path: &'a str,
}

impl<S: Sink> Sink for Exact<'_, S> {
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        match self.left.checked_sub(bytes.len() as u64) {
            Some(left) => {
                self.left = left;
                self.sink.put(bytes)
            }
            None => Err(ContainerError::package(format!("{:?} became longer while it was packed", self.path))),
        }
    }
}
