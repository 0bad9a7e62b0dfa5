//! Loads a kernel object from memory: an ELF shared object that needs nothing.
//!
//! Promises: only `ET_DYN` of this machine with relative relocations, without `DT_NEEDED`, undefined
//! symbols, initialisers or thread-local storage; no page is ever writable and executable; anything
//! else is refused with its reason before a byte of it runs. No `dlopen`, no temporary file.

use crate::error::{Result, fail};
use std::{collections::HashMap, ptr::null_mut};

#[cfg(target_arch = "x86_64")]
const MACHINE: (u16, u32) = (62, 8); // EM_X86_64, R_X86_64_RELATIVE
#[cfg(target_arch = "aarch64")]
const MACHINE: (u16, u32) = (183, 1027); // EM_AARCH64, R_AARCH64_RELATIVE
#[cfg(target_arch = "riscv64")]
const MACHINE: (u16, u32) = (243, 3); // EM_RISCV, R_RISCV_RELATIVE

const LOAD: u32 = 1;
const DYNAMIC: u32 = 2;
const INTERPRETER: u32 = 3;
const THREAD_LOCAL: u32 = 7;
const RELRO: u32 = 0x6474_e552;
const EXECUTE: u32 = 1;
const WRITE: u32 = 2;
/// Largest image in memory: far above any kernel object, far below what would hurt.
const MAX_SPAN: u64 = 1 << 30;

/// Kernel code in memory; unmapped on drop.
#[derive(Debug)]
pub struct Code {
    base: *mut u8,
    span: usize,
    symbols: HashMap<String, usize>,
}

// SAFETY: after loading, the mapping does not change until it is dropped.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours; nobody may call into it any more, as they would borrow `self`.
        unsafe { libc::munmap(self.base.cast(), self.span) };
    }
}

/// Reads numbers of the file with bounds.
#[derive(Clone, Copy)]
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn slice(self, offset: u64, length: u64) -> Result<&'a [u8]> {
        let end = offset.checked_add(length).filter(|end| *end <= self.0.len() as u64);
        match end {
            Some(end) => Ok(&self.0[offset as usize..end as usize]),
            None => fail!(InvalidModel, "kernel object: bytes {offset}+{length} lie outside the file"),
        }
    }

    fn u16(self, offset: u64) -> Result<u16> {
        Ok(u16::from_le_bytes(self.slice(offset, 2)?.try_into().expect("two bytes")))
    }

    fn u32(self, offset: u64) -> Result<u32> {
        Ok(u32::from_le_bytes(self.slice(offset, 4)?.try_into().expect("four bytes")))
    }

    fn u64(self, offset: u64) -> Result<u64> {
        Ok(u64::from_le_bytes(self.slice(offset, 8)?.try_into().expect("eight bytes")))
    }
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    file_size: u64,
    size: u64,
}

impl Segment {
    fn end(&self) -> u64 {
        self.address.saturating_add(self.size)
    }
}

impl Code {
    /// Loads the object in `file`.
    pub fn load(file: &[u8]) -> Result<Code> {
        let segments = segments(Bytes(file))?;
        let span = check_segments(&segments)?;
        let page = page_size();
        let span = span.next_multiple_of(page) as usize;
        // SAFETY: a new anonymous mapping, not yet executable.
        let base = unsafe {
            let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            libc::mmap(null_mut(), span, protection, flags, -1, 0)
        };
        if base == libc::MAP_FAILED {
            fail!(OutOfMemory, "{span} bytes cannot be mapped for a kernel object");
        }
        let mut code = Code { base: base.cast(), span, symbols: HashMap::new() };
        // SAFETY: the mapping has `span` bytes, is ours alone and writable until `protect`.
        let image = unsafe { std::slice::from_raw_parts_mut(code.base, span) };
        for segment in segments.iter().filter(|segment| segment.kind == LOAD) {
            let bytes = Bytes(file).slice(segment.offset, segment.file_size)?;
            image[segment.address as usize..][..bytes.len()].copy_from_slice(bytes);
        }
        let tags = Tags::read(&segments, image)?;
        tags.relocate(image)?;
        code.symbols = tags.symbols(image, &segments)?;
        code.protect(&segments, page)?;
        Ok(code)
    }

    /// The address of a function.
    pub fn symbol(&self, name: &str) -> Option<*const u8> {
        let offset = *self.symbols.get(name)?;
        Some(self.base.wrapping_add(offset))
    }

    /// Gives each page its final protection.
    fn protect(&self, segments: &[Segment], page: u64) -> Result<()> {
        let mut pages = vec![0u32; self.span / page as usize];
        for segment in segments.iter().filter(|segment| segment.kind == LOAD && segment.size > 0) {
            let range = segment.address / page..segment.end().div_ceil(page);
            pages[range.start as usize..range.end as usize].iter_mut().for_each(|flags| *flags |= segment.flags | 4);
        }
        for segment in segments.iter().filter(|segment| segment.kind == RELRO) {
            let range = segment.address.div_ceil(page)..segment.end().min(self.span as u64) / page;
            (range.start..range.end).for_each(|index| pages[index as usize] &= !WRITE);
        }
        for (index, flags) in pages.iter().enumerate() {
            if flags & WRITE != 0 && flags & EXECUTE != 0 {
                fail!(InvalidModel, "kernel object: page {index} would be writable and executable");
            }
            let protection = match flags {
                0 => libc::PROT_NONE,
                flags if flags & EXECUTE != 0 => libc::PROT_READ | libc::PROT_EXEC,
                flags if flags & WRITE != 0 => libc::PROT_READ | libc::PROT_WRITE,
                _ => libc::PROT_READ,
            };
            // SAFETY: the page lies inside our mapping.
            let code = unsafe { libc::mprotect(self.base.add(index * page as usize).cast(), page as usize, protection) };
            if code != 0 {
                fail!(Unsupported, "the system forbids executable memory for kernels");
            }
        }
        flush_instructions(self.base, self.span);
        Ok(())
    }
}

/// Makes new code visible to instruction fetch where caches are not coherent.
fn flush_instructions(_start: *mut u8, _length: usize) {
    #[cfg(not(target_arch = "x86_64"))]
    {
        unsafe extern "C" {
            fn __clear_cache(start: *mut u8, end: *mut u8);
        }
        // SAFETY: the range is our mapping; the function of the compiler's support library only cleans caches.
        unsafe { __clear_cache(_start, _start.add(_length)) };
    }
}

fn page_size() -> u64 {
    // SAFETY: asks a number.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).ok().filter(|size| size.is_power_of_two()).unwrap_or(4096)
}

fn segments(file: Bytes<'_>) -> Result<Vec<Segment>> {
    if file.slice(0, 7)? != [0x7f, b'E', b'L', b'F', 2, 1, 1] {
        fail!(InvalidModel, "kernel object: not a 64-bit little-endian ELF file");
    }
    if file.u16(16)? != 3 {
        fail!(InvalidModel, "kernel object: ELF type {} is not a shared object", file.u16(16)?);
    }
    if file.u16(18)? != MACHINE.0 {
        fail!(InvalidModel, "kernel object: made for ELF machine {}, this one is {}", file.u16(18)?, MACHINE.0);
    }
    let (table, size, count) = (file.u64(32)?, file.u16(54)? as u64, file.u16(56)? as u64);
    if size != 56 || count > 64 {
        fail!(InvalidModel, "kernel object: {count} program headers of {size} bytes");
    }
    let mut segments = Vec::new();
    for index in 0..count {
        let header = Bytes(file.slice(table.saturating_add(index * size), size)?);
        segments.push(Segment {
            kind: header.u32(0)?,
            flags: header.u32(4)? & 7,
            offset: header.u64(8)?,
            address: header.u64(16)?,
            file_size: header.u64(32)?,
            size: header.u64(40)?,
        });
    }
    Ok(segments)
}

/// Refuses segments that we do not load; gives the span of the image.
fn check_segments(segments: &[Segment]) -> Result<u64> {
    let mut span = 0;
    for segment in segments {
        match segment.kind {
            LOAD if segment.flags & WRITE != 0 && segment.flags & EXECUTE != 0 => {
                fail!(InvalidModel, "kernel object: a segment is writable and executable")
            }
            LOAD if segment.file_size > segment.size || segment.end() > MAX_SPAN => {
                fail!(InvalidModel, "kernel object: a segment has a wrong size")
            }
            LOAD => span = span.max(segment.end()),
            INTERPRETER => fail!(InvalidModel, "kernel object: asks for an interpreter"),
            THREAD_LOCAL => fail!(InvalidModel, "kernel object: has thread-local storage"),
            _ => {}
        }
    }
    match span {
        0 => fail!(InvalidModel, "kernel object: has nothing to load"),
        span => Ok(span),
    }
}

/// What the dynamic section says. Addresses are offsets into the image.
#[derive(Default)]
struct Tags {
    rela: u64,
    rela_size: u64,
    relr: u64,
    relr_size: u64,
    symbols: u64,
    strings: u64,
    strings_size: u64,
    hash: u64,
    gnu_hash: u64,
}

impl Tags {
    fn read(segments: &[Segment], image: &[u8]) -> Result<Tags> {
        let mut tags = Tags::default();
        let Some(dynamic) = segments.iter().find(|segment| segment.kind == DYNAMIC) else {
            fail!(InvalidModel, "kernel object: has no dynamic section");
        };
        for index in 0..dynamic.size / 16 {
            let entry = Bytes(Bytes(image).slice(dynamic.address.saturating_add(index * 16), 16)?);
            let value = entry.u64(8)?;
            match entry.u64(0)? {
                0 => break,
                1 => fail!(InvalidModel, "kernel object: needs another library"),
                2 if value != 0 => fail!(InvalidModel, "kernel object: has lazy relocations"),
                4 => tags.hash = value,
                0x6fff_fef5 => tags.gnu_hash = value,
                5 => tags.strings = value,
                6 => tags.symbols = value,
                7 => tags.rela = value,
                8 => tags.rela_size = value,
                10 => tags.strings_size = value,
                36 => tags.relr = value,
                35 => tags.relr_size = value,
                12 | 13 | 25 | 26 | 32 => fail!(InvalidModel, "kernel object: has initialisers"),
                17 => fail!(InvalidModel, "kernel object: has relocations of an old form"),
                22 => fail!(InvalidModel, "kernel object: relocates its text"),
                _ => {}
            }
        }
        Ok(tags)
    }

    /// Applies relative relocations; any other kind is refused.
    fn relocate(&self, image: &mut [u8]) -> Result<()> {
        let base = image.as_ptr() as u64;
        for index in 0..self.rela_size / 24 {
            let entry = Bytes(Bytes(image).slice(self.rela.saturating_add(index * 24), 24)?);
            let (place, info, addend) = (entry.u64(0)?, entry.u64(8)?, entry.u64(16)?);
            if info != MACHINE.1 as u64 {
                fail!(InvalidModel, "kernel object: relocation of type {} is not relative", info & 0xffff_ffff);
            }
            store(image, place, base.wrapping_add(addend))?;
        }
        // Packed form: an even word is an address, an odd one a bitmap of the 63 words after it.
        let mut next = 0u64;
        for index in 0..self.relr_size / 8 {
            let word = Bytes(image).u64(self.relr.saturating_add(index * 8))?;
            if word & 1 == 0 {
                let value = Bytes(image).u64(word)?;
                store(image, word, base.wrapping_add(value))?;
                next = word.saturating_add(8);
                continue;
            }
            for bit in (1..64).filter(|bit| word >> bit & 1 == 1) {
                let place = next.saturating_add((bit - 1) * 8);
                let value = Bytes(image).u64(place)?;
                store(image, place, base.wrapping_add(value))?;
            }
            next = next.saturating_add(63 * 8);
        }
        Ok(())
    }

    /// How many dynamic symbols there are.
    fn symbol_count(&self, image: Bytes<'_>) -> Result<u64> {
        if self.hash != 0 {
            return Ok(image.u32(self.hash.saturating_add(4))? as u64);
        }
        if self.gnu_hash == 0 {
            return Ok(0);
        }
        let (buckets, offset, words) = (
            image.u32(self.gnu_hash)? as u64,
            image.u32(self.gnu_hash.saturating_add(4))? as u64,
            image.u32(self.gnu_hash.saturating_add(8))? as u64,
        );
        let table = self.gnu_hash.saturating_add(16 + words * 8);
        let mut last = 0;
        for bucket in 0..buckets {
            last = last.max(image.u32(table.saturating_add(bucket * 4))? as u64);
        }
        if last < offset {
            return Ok(offset);
        }
        let chain = table.saturating_add(buckets * 4);
        while image.u32(chain.saturating_add((last - offset) * 4))? & 1 == 0 {
            last += 1;
        }
        Ok(last + 1)
    }

    /// Defined functions by name; an undefined symbol is refused.
    fn symbols(&self, image: &[u8], segments: &[Segment]) -> Result<HashMap<String, usize>> {
        let image = Bytes(image);
        let strings = image.slice(self.strings, self.strings_size)?;
        let mut symbols = HashMap::new();
        for index in 1..self.symbol_count(image)? {
            let entry = Bytes(image.slice(self.symbols.saturating_add(index * 24), 24)?);
            let name = strings.get(entry.u32(0)? as usize..).and_then(|name| name.split(|byte| *byte == 0).next());
            let name = name.and_then(|name| std::str::from_utf8(name).ok());
            let (Some(name), kind, section, value) = (name, entry.0[4] & 15, entry.u16(6)?, entry.u64(8)?) else {
                fail!(InvalidModel, "kernel object: symbol {index} has no name");
            };
            if section == 0 && !name.is_empty() {
                fail!(InvalidModel, "kernel object: symbol {name} is not defined");
            }
            let inside = |segment: &Segment| {
                segment.kind == LOAD && segment.flags & EXECUTE != 0 && segment.address <= value && value < segment.end()
            };
            if kind == 2 && segments.iter().any(inside) {
                symbols.insert(name.to_owned(), value as usize);
            }
        }
        Ok(symbols)
    }
}

/// Writes a word of the image.
fn store(image: &mut [u8], place: u64, value: u64) -> Result<()> {
    match place.checked_add(8) {
        Some(end) if end <= image.len() as u64 => {
            image[place as usize..end as usize].copy_from_slice(&value.to_le_bytes());
            Ok(())
        }
        _ => fail!(InvalidModel, "kernel object: a relocation lies outside the image"),
    }
}
