//! The bytes of a host program: little endian, a header, a table of sections, fixed-size records.
//!
//! ```text
//! 0  "OAAXPROG"   8  u32 version (2)   12  u32 number of sections   16  section table
//! section: u32 kind, u32 record size, u64 offset from byte 0, u64 count
//! ```
//!
//! A reader skips sections of unknown kind below 0x8000_0000 and refuses those above; it accepts
//! records longer than it knows and ignores their tails. Nothing is trusted: every offset, count,
//! index and expression is checked before a [`Program`] exists, and memory taken is in proportion
//! to the bytes given.

use crate::program::Program;
use alloc::{string::String, vec::Vec};
use core::fmt;

/// First bytes of every program.
pub const MAGIC: [u8; 8] = *b"OAAXPROG";
/// The version that this crate reads and writes.
pub const VERSION: u32 = 2;
/// Stands for "none" where a record holds an optional index.
pub(crate) const NONE: u32 = u32::MAX;
/// Sections of this kind or above may not be skipped.
const CRITICAL: u32 = 0x8000_0000;
const HEADER: usize = 16;
const SECTION: usize = 24;

/// Kinds and record sizes of the sections.
#[rustfmt::skip] // a table of one-liners
pub(crate) mod section {
    pub const META: (u32, usize) = (1, 16);
    pub const STRING_BYTES: (u32, usize) = (2, 1);
    pub const STRINGS: (u32, usize) = (3, 8);
    pub const CODE: (u32, usize) = (4, 16);
    pub const EXPRESSIONS: (u32, usize) = (5, 8);
    pub const POOL: (u32, usize) = (6, 4);
    pub const SLOTS: (u32, usize) = (7, 48);
    pub const INPUTS: (u32, usize) = (8, 24);
    pub const DIM_RULES: (u32, usize) = (9, 40);
    pub const OUTPUTS: (u32, usize) = (10, 24);
    pub const OUTPUT_DIMS: (u32, usize) = (11, 16);
    pub const PLAN: (u32, usize) = (12, 24);
    pub const LEVELS: (u32, usize) = (13, 8);
    pub const OBJECTS: (u32, usize) = (14, 8);
    pub const KERNELS: (u32, usize) = (15, 40);
    pub const ENTRIES: (u32, usize) = (16, 24);
    pub const STEPS: (u32, usize) = (17, 32);
    pub const COUNT: usize = 17;
}

/// Why bytes are not a valid program (or a built program is not valid).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseError(pub String);

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "host program: {}", self.0)
    }
}

impl core::error::Error for ParseError {}

/// Fails with a formatted [`ParseError`].
macro_rules! refuse {
    ($($part:tt)*) => { return Err($crate::wire::ParseError(alloc::format!($($part)*))) };
}
pub(crate) use refuse;

/// The sections of a file, checked to lie inside it.
pub(crate) struct Sections<'a> {
    rows: [Option<Rows<'a>>; section::COUNT + 1],
}

/// The records of one section.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    bytes: &'a [u8],
    stride: usize,
    pub count: usize,
}

impl<'a> Rows<'a> {
    /// Record `index`; its first `size` bytes are there, as `Sections::rows` checked the stride.
    pub fn row(&self, index: usize) -> Row<'a> {
        Row(&self.bytes[index * self.stride..][..self.stride])
    }

    /// `length` bytes from `start` on of a section of single bytes.
    pub fn slice(&self, start: usize, length: usize) -> &'a [u8] {
        &self.bytes[start..start + length]
    }

    /// All records in order.
    pub fn iter(self) -> impl Iterator<Item = Row<'a>> {
        (0..self.count).map(move |index| self.row(index))
    }
}

/// One record.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a>(pub &'a [u8]);

impl Row<'_> {
    pub fn u32(&self, offset: usize) -> u32 {
        u32::from_le_bytes(self.0[offset..offset + 4].try_into().expect("four bytes"))
    }

    pub fn u64(&self, offset: usize) -> u64 {
        u64::from_le_bytes(self.0[offset..offset + 8].try_into().expect("eight bytes"))
    }

    pub fn i64(&self, offset: usize) -> i64 {
        self.u64(offset) as i64
    }

    /// An optional index: all ones is none.
    pub fn option(&self, offset: usize) -> Option<u32> {
        Some(self.u32(offset)).filter(|value| *value != NONE)
    }
}

impl<'a> Sections<'a> {
    /// Reads header and section table.
    pub fn read(bytes: &'a [u8]) -> Result<Sections<'a>, ParseError> {
        let Some(header) = bytes.get(..HEADER) else { refuse!("{} bytes are too short for a header", bytes.len()) };
        if header[..8] != MAGIC {
            refuse!("does not begin with OAAXPROG");
        }
        let header = Row(header);
        if header.u32(8) != VERSION {
            refuse!("has format version {}, this runtime reads version {VERSION}", header.u32(8));
        }
        let mut rows = [None; section::COUNT + 1];
        for index in 0..header.u32(12) as usize {
            let start = index.checked_mul(SECTION).and_then(|start| start.checked_add(HEADER));
            let record = start.and_then(|start| bytes.get(start..)?.get(..SECTION));
            let Some(record) = record.map(Row) else { refuse!("the section table is cut off at entry {index}") };
            let (kind, stride, count) = (record.u32(0), record.u32(4) as usize, record.u64(16));
            let length = (stride as u64).checked_mul(count);
            let end = length.and_then(|length| record.u64(8).checked_add(length));
            if stride == 0 || end.is_none_or(|end| end > bytes.len() as u64) {
                refuse!("section {kind} lies outside the file");
            }
            let found = Rows { bytes: &bytes[record.u64(8) as usize..], stride, count: count as usize };
            match rows.get_mut(kind as usize) {
                Some(place) if kind != 0 && place.is_none() => *place = Some(found),
                Some(_) => refuse!("section {kind} is given twice"),
                None if kind < CRITICAL => {}
                None => refuse!("needs section {kind:#x}, which this runtime does not know"),
            }
        }
        Ok(Sections { rows })
    }

    /// The records of a section (none if it is absent).
    pub fn rows(&self, (kind, size): (u32, usize)) -> Result<Rows<'a>, ParseError> {
        let rows = self.rows[kind as usize].unwrap_or(Rows { bytes: &[], stride: size, count: 0 });
        if rows.stride < size || (size == 1 && rows.stride != 1) {
            refuse!("section {kind} has records of {} bytes, at least {size} are needed", rows.stride);
        }
        Ok(rows)
    }
}

/// Builds a file section by section.
pub(crate) struct SectionWriter {
    sections: Vec<(u32, usize, Vec<u8>)>,
}

impl SectionWriter {
    pub fn new() -> SectionWriter {
        SectionWriter { sections: Vec::new() }
    }

    /// Adds a section; `bytes` is a whole number of records.
    pub fn add(&mut self, (kind, size): (u32, usize), bytes: Vec<u8>) {
        debug_assert_eq!(bytes.len() % size, 0, "section {kind} holds whole records");
        self.sections.push((kind, size, bytes));
    }

    /// The whole file; sections are aligned to eight bytes.
    pub fn finish(self) -> Vec<u8> {
        let mut file = Vec::new();
        file.extend_from_slice(&MAGIC);
        file.extend_from_slice(&VERSION.to_le_bytes());
        file.extend_from_slice(&(self.sections.len() as u32).to_le_bytes());
        let mut offset = HEADER + SECTION * self.sections.len();
        for (kind, size, bytes) in &self.sections {
            file.extend_from_slice(&kind.to_le_bytes());
            file.extend_from_slice(&(*size as u32).to_le_bytes());
            file.extend_from_slice(&(offset as u64).to_le_bytes());
            file.extend_from_slice(&((bytes.len() / size) as u64).to_le_bytes());
            offset = (offset + bytes.len()).next_multiple_of(8);
        }
        for (_, _, bytes) in &self.sections {
            file.extend_from_slice(bytes);
            file.resize(file.len().next_multiple_of(8), 0);
        }
        file
    }
}

impl Program {
    /// Reads a program and proves it valid.
    pub fn parse(bytes: &[u8]) -> Result<Program, ParseError> {
        let program = crate::decode::decode(&Sections::read(bytes)?)?;
        program.validate()?;
        Ok(program)
    }

    /// The bytes of a program; `parse` gives it back.
    pub fn encode(&self) -> Vec<u8> {
        crate::encode::encode(self)
    }
}
