//! Reads zip archives by their central directory: members stored or deflated, no encryption, no zip64.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use super::Failure;
use super::archive::{Target, refused};

/// The end record and the longest comment behind it.
const LONGEST_TAIL: u64 = 22 + 65_535;
/// Largest central directory.
const MOST_DIRECTORY: u64 = 64 << 20;
/// A field that says: see the zip64 record.
const ZIP64: u64 = 0xffff_ffff;

fn number(bytes: &[u8], at: usize, length: usize) -> Option<u64> {
    Some(bytes.get(at..at + length)?.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

fn damaged() -> Failure {
    refused("the zip archive is damaged")
}

fn read_at(file: &mut File, at: u64, length: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(at)).map_err(|_| damaged())?;
    file.take(length).read_to_end(&mut bytes).map_err(|_| damaged())?;
    if bytes.len() as u64 == length { Ok(bytes) } else { Err(damaged()) }
}

/// Unpacks all members.
pub fn unpack(file: &mut File, size: u64, target: &mut Target) -> Result<(), Failure> {
    let length = size.min(LONGEST_TAIL);
    let tail = read_at(file, size - length, length)?;
    let is_end = |at: &usize| tail[*at..].starts_with(b"PK\x05\x06") && tail.len() >= at + 22;
    let end = (0..tail.len().saturating_sub(21)).rev().find(is_end).ok_or_else(damaged)?;
    let field = |at: usize, length: usize| number(&tail, end + at, length).ok_or_else(damaged);
    let (count, bytes, start) = (field(10, 2)?, field(12, 4)?, field(16, 4)?);
    if bytes == ZIP64 || start == ZIP64 || count == 0xffff {
        return Err(refused("zip64 archives are not taken; use .tar.gz"));
    }
    if bytes > MOST_DIRECTORY || start.saturating_add(bytes) > size {
        return Err(damaged());
    }
    let directory = read_at(file, start, bytes)?;
    let mut at = 0;
    for _ in 0..count {
        at = member(file, &directory, at, target)?;
    }
    Ok(())
}

/// One entry of the central directory; gives where the next begins.
fn member(file: &mut File, directory: &[u8], at: usize, target: &mut Target) -> Result<usize, Failure> {
    let field = |offset: usize, length: usize| number(directory, at + offset, length).ok_or_else(damaged);
    if directory.get(at..at + 4) != Some(b"PK\x01\x02") {
        return Err(damaged());
    }
    let (flags, method, checksum) = (field(8, 2)?, field(10, 2)?, field(16, 4)? as u32);
    let (packed, size) = (field(20, 4)?, field(24, 4)?);
    let lengths = (field(28, 2)? as usize, field(30, 2)? as usize, field(32, 2)? as usize);
    let (attributes, header) = (field(38, 4)?, field(42, 4)?);
    let name = directory.get(at + 46..at + 46 + lengths.0).ok_or_else(damaged)?;
    let name = std::str::from_utf8(name).map_err(|_| refused("a member's name is not UTF-8"))?;
    let next = at + 46 + lengths.0 + lengths.1 + lengths.2;
    if name.ends_with('/') {
        target.place(name)?;
        return Ok(next);
    }
    // The upper half is the Unix mode, where there is one: regular files alone.
    let kind = attributes >> 16 & 0o170_000;
    if kind != 0 && kind != 0o100_000 {
        return Err(refused(format!("{name:?} is a link or a special file")));
    }
    if flags & 1 != 0 {
        return Err(refused(format!("{name:?} is encrypted")));
    }
    if [packed, size, header].contains(&ZIP64) {
        return Err(refused("zip64 archives are not taken; use .tar.gz"));
    }
    let local = read_at(file, header, 30)?;
    if !local.starts_with(b"PK\x03\x04") {
        return Err(damaged());
    }
    let skipped = number(&local, 26, 2).ok_or_else(damaged)? + number(&local, 28, 2).ok_or_else(damaged)?;
    file.seek(SeekFrom::Start(header + 30 + skipped)).map_err(|_| damaged())?;
    let content = file.take(packed);
    let mut counted = Counted { content: decoder(content, method, name)?, checksum: flate2::Crc::new() };
    target.add(name, size, &mut counted)?;
    if counted.checksum.sum() != checksum {
        return Err(refused(format!("{name:?} is damaged: its checksum does not fit")));
    }
    Ok(next)
}

fn decoder<'a>(content: impl Read + 'a, method: u64, name: &str) -> Result<Box<dyn Read + 'a>, Failure> {
    match method {
        0 => Ok(Box::new(content)),
        8 => Ok(Box::new(flate2::read::DeflateDecoder::new(content))),
        _ => Err(refused(format!("{name:?} is packed by method {method}; stored and deflated members are taken"))),
    }
}

/// Counts the checksum of what is read.
struct Counted<'a> {
    content: Box<dyn Read + 'a>,
    checksum: flate2::Crc,
}

impl Read for Counted<'_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let read = self.content.read(to)?;
        self.checksum.update(&to[..read]);
        Ok(read)
    }
}
