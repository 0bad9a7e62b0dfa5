//! A strict reader of the tar form that artefacts use: ustar headers, PAX records, files and folders.
//! Links, devices, sparse files and foreign extensions are refused; nothing is unpacked.

use super::Bytes;
use crate::error::{Result, fail};
use std::collections::BTreeMap;

const BLOCK: usize = 512;

/// The files of an archive by path.
pub fn read(archive: &Bytes) -> Result<BTreeMap<String, Bytes>> {
    let mut files = BTreeMap::new();
    let (mut at, mut pax) = (0usize, Pax::default());
    loop {
        let Some(header) = archive.get(at..).and_then(|rest| rest.get(..BLOCK)) else {
            fail!(InvalidModel, "not an artefact: the tar ends without its end mark at byte {at}");
        };
        if header.iter().all(|byte| *byte == 0) {
            return Ok(files);
        }
        check_header(header, at)?;
        let size = match pax.size {
            Some(size) => size,
            None => octal(&header[124..136]).unwrap_or(u64::MAX),
        };
        let start = at + BLOCK;
        let Some(data) = usize::try_from(size).ok().and_then(|size| archive.part(start, size)) else {
            fail!(InvalidModel, "tar: the entry at byte {at} reaches beyond the end");
        };
        at = start + data.len().next_multiple_of(BLOCK);
        match header[156] {
            b'x' => {
                pax = Pax::read(&data)?;
                continue;
            }
            b'0' | 0 => {
                let path = std::mem::take(&mut pax).path.map_or_else(|| name(header), Ok)?;
                if files.insert(path.clone(), data).is_some() {
                    fail!(InvalidModel, "tar: {path:?} is there twice");
                }
            }
            b'5' if data.is_empty() => pax = Pax::default(),
            kind => fail!(InvalidModel, "tar: the entry at byte {} is of kind {:?}", start - BLOCK, char::from(kind)),
        }
    }
}

fn check_header(header: &[u8], at: usize) -> Result<()> {
    if &header[257..263] != b"ustar\0" {
        fail!(InvalidModel, "not an artefact: no ustar header at byte {at}");
    }
    let sum: u64 = header.iter().enumerate().map(|(i, byte)| if (148..156).contains(&i) { 32 } else { *byte as u64 }).sum();
    match octal(&header[148..156]) == Some(sum) {
        true => Ok(()),
        false => fail!(InvalidModel, "tar: the header at byte {at} has a wrong checksum"),
    }
}

/// A number in octal digits, ended by space or NUL.
fn octal(field: &[u8]) -> Option<u64> {
    let end = field.iter().position(|byte| *byte == 0 || *byte == b' ').unwrap_or(field.len());
    let text = std::str::from_utf8(&field[..end]).ok()?;
    u64::from_str_radix(text, 8).ok()
}

/// Prefix and name of a ustar header.
fn name(header: &[u8]) -> Result<String> {
    let part = |field: &[u8]| {
        let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
        std::str::from_utf8(&field[..end]).map(str::to_owned)
    };
    match (part(&header[345..500]), part(&header[..100])) {
        (Ok(prefix), Ok(name)) if prefix.is_empty() => Ok(name),
        (Ok(prefix), Ok(name)) => Ok(format!("{prefix}/{name}")),
        _ => fail!(InvalidModel, "tar: a name is not UTF-8"),
    }
}

/// What PAX records say of the next entry.
#[derive(Default)]
struct Pax {
    path: Option<String>,
    size: Option<u64>,
}

impl Pax {
    /// Records are `length key=value\n`; the length counts itself.
    fn read(mut data: &[u8]) -> Result<Pax> {
        let mut pax = Pax::default();
        while !data.is_empty() {
            let space = data.iter().take(20).position(|byte| *byte == b' ');
            let length = space.and_then(|space| std::str::from_utf8(&data[..space]).ok()?.parse::<usize>().ok());
            let (Some(space), Some(length)) = (space, length) else { fail!(InvalidModel, "tar: a PAX record has no length") };
            let record = data.get(space + 1..length).and_then(|record| record.strip_suffix(b"\n"));
            let pair = record.and_then(|record| std::str::from_utf8(record).ok()?.split_once('='));
            let Some((key, value)) = pair else { fail!(InvalidModel, "tar: a PAX record is malformed") };
            match key {
                "path" => pax.path = Some(value.to_owned()),
                "size" => match value.parse() {
                    Ok(size) => pax.size = Some(size),
                    Err(_) => fail!(InvalidModel, "tar: a PAX size is not a number"),
                },
                key if key.starts_with("GNU.sparse") => fail!(InvalidModel, "tar: sparse files are not accepted"),
                _ => {}
            }
            data = &data[length..];
        }
        Ok(pax)
    }
}
