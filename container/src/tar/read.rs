//! Reads tar strictly.
//!
//! Promises: no input makes it panic or allocate more than an extended header's limit; every entry it yields has
//! an acceptable path that it yields once; sizes and names that two readers could take differently are errors.
//! What is accepted, field by field: `docs/artefact.md`.

use std::{
    collections::BTreeMap,
    io::{self, Read},
};

use super::{BLOCK, EXTENDED, FOLDER, REGULAR, checksum, padding};
use crate::{
    error::{ContainerError, Result},
    paths,
};

/// Longest extended header: the longest padding of an aligned file is 64 KiB + 512 bytes.
const MAX_EXTENDED: u64 = 128 << 10;
/// Most entries of one archive.
const MAX_ENTRIES: usize = 1 << 16;

/// Bytes in order that can be passed over.
pub(crate) trait Source: Read {
    /// Passes over `count` bytes; fails where they do not exist.
    fn skip(&mut self, count: u64) -> io::Result<()>;
}

/// A file or folder in the archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Without a trailing slash.
    pub path: String,
    pub folder: bool,
    pub size: u64,
    /// Of the first data byte in the stream.
    pub offset: u64,
}

pub(crate) struct TarReader<S> {
    source: S,
    place: String,
    position: u64,
    /// Data of the current entry that was not taken yet, and the padding after it.
    left: u64,
    padding: u64,
    /// Path to whether it is a folder.
    seen: BTreeMap<String, bool>,
}

impl<S: Source> TarReader<S> {
    /// Reads `source`; errors speak of `place`.
    pub fn new(source: S, place: impl Into<String>) -> TarReader<S> {
        TarReader { source, place: place.into(), position: 0, left: 0, padding: 0, seen: BTreeMap::new() }
    }

    /// The next entry, or nothing after a correct end.
    pub fn next(&mut self) -> Result<Option<Entry>> {
        self.pass_over()?;
        let mut header = self.block()?;
        let mut records = Records::default();
        let extended = header[156] == EXTENDED;
        if extended {
            records = self.extended(&header)?;
            header = self.block()?;
        }
        if header.iter().all(|&byte| byte == 0) {
            if extended {
                return Err(self.wrong("an extended header without its file"));
            }
            self.end()?;
            return Ok(None);
        }
        let entry = self.entry(&header, records)?;
        self.left = entry.size;
        self.padding = padding(entry.size);
        Ok(Some(entry))
    }

    /// Takes the current entry's next data bytes; 0 at its end.
    pub fn data(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let room = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        self.fill(&mut buffer[..room])?;
        self.left -= room as u64;
        Ok(room)
    }

    /// Gives the source back.
    pub fn into_source(self) -> S {
        self.source
    }

    fn pass_over(&mut self) -> Result<()> {
        let left = std::mem::take(&mut self.left);
        self.source.skip(left).map_err(|error| broken(&self.place, &error))?;
        self.position += left;
        let mut rest = [0u8; BLOCK as usize];
        let rest = &mut rest[..std::mem::take(&mut self.padding) as usize];
        self.fill(rest)?;
        if rest.iter().any(|&byte| byte != 0) {
            return Err(self.wrong("the padding after a file's data is not zero"));
        }
        Ok(())
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<()> {
        self.source.read_exact(buffer).map_err(|error| broken(&self.place, &error))?;
        self.position += buffer.len() as u64;
        Ok(())
    }

    fn block(&mut self) -> Result<[u8; 512]> {
        let mut block = [0u8; 512];
        self.fill(&mut block)?;
        Ok(block)
    }

    /// After a first zero block: a second one, then nothing.
    fn end(&mut self) -> Result<()> {
        if self.block()?.iter().any(|&byte| byte != 0) {
            return Err(self.wrong("a lone zero block"));
        }
        let mut more = [0u8; 1];
        match self.source.read(&mut more) {
            Ok(0) => Ok(()),
            Ok(_) => Err(self.wrong("data after the end of the tar")),
            Err(error) => Err(broken(&self.place, &error)),
        }
    }

    fn extended(&mut self, header: &[u8; 512]) -> Result<Records> {
        self.check_form(header)?;
        let size = self.number(header, 124, 12, "size")?;
        if size > MAX_EXTENDED {
            return Err(self.wrong("an extended header longer than 128 KiB"));
        }
        let mut bytes = vec![0u8; size as usize];
        self.fill(&mut bytes)?;
        let mut rest = [0u8; BLOCK as usize];
        let rest = &mut rest[..padding(size) as usize];
        self.fill(rest)?;
        if rest.iter().any(|&byte| byte != 0) {
            return Err(self.wrong("the padding after an extended header is not zero"));
        }
        Records::parse(&bytes).map_err(|reason| self.wrong(reason))
    }

    fn entry(&mut self, header: &[u8; 512], records: Records) -> Result<Entry> {
        self.check_form(header)?;
        let kind = header[156];
        let folder = kind == FOLDER;
        if kind != REGULAR && !folder {
            let reason = format!("an entry of type {:?}; only files and folders are accepted", char::from(kind));
            return Err(self.wrong(reason));
        }
        let size = self.number(header, 124, 12, "size")?;
        if records.size.is_some_and(|extended| extended != size) {
            return Err(self.wrong("two sizes for one file: header and extended header disagree"));
        }
        if folder && size != 0 {
            return Err(self.wrong("a folder with data"));
        }
        let mode = self.number(header, 100, 8, "mode")?;
        if mode & 0o7002 != 0 {
            return Err(self.wrong(format!("mode {mode:o}: set-user-id, sticky and world-writable are refused")));
        }
        let path = self.path(header, records.path, folder)?;
        self.remember(&path, folder)?;
        Ok(Entry { path, folder, size, offset: self.position })
    }

    fn check_form(&self, header: &[u8; 512]) -> Result<()> {
        if &header[257..265] != b"ustar\x0000" {
            return Err(self.wrong("not a POSIX ustar header (old and GNU forms are refused)"));
        }
        let digits = &header[148..156];
        let sum = digits.iter().take_while(|byte| byte.is_ascii_digit()).fold(0u32, |sum, byte| sum * 8 + u32::from(byte - b'0'));
        let form = digits[..6].iter().all(|byte| (b'0'..=b'7').contains(byte)) && &digits[6..] == b"\0 ";
        if !form || sum != checksum(header) {
            return Err(self.wrong("a header with a wrong checksum"));
        }
        let empty = |range: std::ops::Range<usize>| header[range].iter().all(|&byte| byte == 0);
        if !empty(157..257) {
            return Err(self.wrong("a link name"));
        }
        if !empty(345..512) {
            return Err(self.wrong("a name prefix or data after the header's fields"));
        }
        for (at, name) in [(108, "uid"), (116, "gid")] {
            self.number(header, at, 8, name)?;
        }
        Ok(())
    }

    /// Octal digits that fill the field up to its one terminator; base-256 and blanks are not numbers here.
    fn number(&self, header: &[u8; 512], at: usize, width: usize, name: &str) -> Result<u64> {
        let (digits, terminator) = header[at..at + width].split_at(width - 1);
        let octal = digits.iter().all(|byte| (b'0'..=b'7').contains(byte));
        if !octal || !matches!(terminator[0], 0 | b' ') {
            return Err(self.wrong(format!("a header whose {name} is not {} octal digits", width - 1)));
        }
        Ok(digits.iter().fold(0, |value, digit| value * 8 + u64::from(digit - b'0')))
    }

    fn path(&self, header: &[u8; 512], extended: Option<String>, folder: bool) -> Result<String> {
        let field = &header[..100];
        let length = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
        if field[length..].iter().any(|&byte| byte != 0) {
            return Err(self.wrong("bytes after a name's end"));
        }
        let short = str::from_utf8(&field[..length]).map_err(|_| self.wrong("a name that is not UTF-8"))?;
        if extended.as_ref().is_some_and(|long| !long.starts_with(short)) {
            return Err(self.wrong("two names for one file: header and extended header disagree"));
        }
        let name = extended.unwrap_or_else(|| short.to_owned());
        let path = if folder { name.strip_suffix('/').unwrap_or(&name) } else { &name };
        paths::check(path).map_err(|reason| self.wrong(format!("the path {path:?} {reason}")))?;
        Ok(path.to_owned())
    }

    fn remember(&mut self, path: &str, folder: bool) -> Result<()> {
        if self.seen.len() == MAX_ENTRIES {
            return Err(self.wrong("more than 65,536 entries"));
        }
        if let Some(file) = paths::folders_above(path).find(|above| self.seen.get(*above) == Some(&false)) {
            return Err(self.wrong(format!("{file:?} is a file and {path:?} lies in it")));
        }
        let below = format!("{path}/");
        if !folder && self.seen.range(below.clone()..).next().is_some_and(|(other, _)| other.starts_with(&below)) {
            return Err(self.wrong(format!("{path:?} is a file, but others lie in it")));
        }
        match self.seen.insert(path.to_owned(), folder) {
            None => Ok(()),
            Some(_) => Err(self.wrong(format!("{path:?} stands twice in it"))),
        }
    }

    fn wrong(&self, reason: impl Into<String>) -> ContainerError {
        ContainerError::invalid(format!("{} before byte {}", self.place, self.position), reason)
    }
}

/// A failed read of untrusted bytes is a fault of those bytes, whoever noticed it.
fn broken(place: &str, error: &io::Error) -> ContainerError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => ContainerError::invalid(place, "ends too early"),
        _ => ContainerError::invalid(place, error.to_string()),
    }
}

/// What an extended header says.
#[derive(Default)]
struct Records {
    path: Option<String>,
    size: Option<u64>,
}

impl Records {
    fn parse(mut bytes: &[u8]) -> std::result::Result<Records, String> {
        let mut records = Records::default();
        let mut keys: Vec<&[u8]> = Vec::new();
        while !bytes.is_empty() {
            let (record, later) = split_record(bytes).ok_or("an extended header whose record lengths are wrong")?;
            let equals = record.iter().position(|&byte| byte == b'=').ok_or("an extended header record without =")?;
            let (key, value) = (&record[..equals], &record[equals + 1..]);
            if keys.contains(&key) {
                return Err("an extended header that says one thing twice".to_owned());
            }
            keys.push(key);
            match key {
                b"comment" | b"mtime" | b"atime" | b"ctime" => (),
                b"path" => {
                    let path = String::from_utf8(value.to_vec()).map_err(|_| "a name that is not UTF-8")?;
                    records.path = Some(path);
                }
                b"size" => records.size = Some(decimal(value).ok_or("an extended header whose size is no number")?),
                _ => {
                    return Err(format!("an extended header with {:?}", String::from_utf8_lossy(key)));
                }
            }
            bytes = later;
        }
        Ok(records)
    }
}

/// POSIX: "%d %s=%s\n", <length>, <keyword>, <value>; the length counts the whole record.
fn split_record(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let space = bytes.iter().take(8).position(|&byte| byte == b' ')?;
    let length = usize::try_from(decimal(&bytes[..space])?).ok()?;
    if length <= space + 1 || bytes.len() < length || bytes[length - 1] != b'\n' {
        return None;
    }
    Some((&bytes[space + 1..length - 1], &bytes[length..]))
}

/// Digits without leading zeros.
fn decimal(text: &[u8]) -> Option<u64> {
    let canonical = text.len() <= 19 && text.iter().all(u8::is_ascii_digit) && (text == b"0" || text.first() != Some(&b'0'));
    if !canonical {
        return None;
    }
    str::from_utf8(text).ok()?.parse().ok()
}
