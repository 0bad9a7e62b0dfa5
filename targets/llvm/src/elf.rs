//! Proves of a linked code object what our loader relies on; see [`crate::link`].
//!
//! Reads only 64-bit little-endian ELF and answers the first broken promise in words.

const PT_LOAD: u64 = 1;
const PT_DYNAMIC: u64 = 2;
const PT_INTERP: u64 = 3;
const PT_TLS: u64 = 7;

/// Checks the promises of a freestanding code object.
pub(crate) fn check_freestanding(file: &[u8]) -> Result<(), String> {
    let elf = Elf(file);
    if file.get(..6) != Some(b"\x7fELF\x02\x01") {
        return Err("not a 64-bit little-endian ELF file".into());
    }
    if elf.number(16, 2)? != 3 {
        return Err("not a shared object".into());
    }
    let relative: u64 = match elf.number(18, 2)? {
        62 => 8,     // R_X86_64_RELATIVE
        183 => 1027, // R_AARCH64_RELATIVE
        243 => 3,    // R_RISCV_RELATIVE
        224 => 13,   // R_AMDGPU_RELATIVE64
        machine => return Err(format!("unknown ELF machine {machine}")),
    };
    let segments = elf.segments()?;
    for segment in &segments {
        match segment.kind {
            PT_LOAD if segment.flags & 3 == 3 => {
                return Err("a segment is writable and executable".into());
            }
            PT_INTERP => return Err("names an interpreter".into()),
            PT_TLS => return Err("has thread-local storage".into()),
            _ => {}
        }
    }
    let Some(dynamic) = segments.iter().find(|s| s.kind == PT_DYNAMIC) else {
        return Err("has no dynamic segment".into());
    };
    let mut tables = [[0; 2]; 2];
    for entry in 0..dynamic.size / 16 {
        let at = dynamic.offset + entry * 16;
        let (tag, value) = (elf.number(at, 8)?, elf.number(at + 8, 8)?);
        match tag {
            0 => break,
            1 => return Err("needs another library".into()),
            7 => tables[0][0] = value,
            8 => tables[0][1] = value,
            23 => tables[1][0] = value,
            2 => tables[1][1] = value,
            12 | 13 | 25 | 26 => return Err("has initialisers".into()),
            17 | 36 => return Err("has relocations without addends".into()),
            22 => return Err("relocates its text".into()),
            _ => {}
        }
    }
    for [address, size] in tables {
        let Some(segment) = segments.iter().find(|s| s.kind == PT_LOAD && s.holds(address)) else {
            continue;
        };
        let offset = address - segment.address + segment.offset;
        for relocation in 0..size / 24 {
            let info = elf.number(offset + relocation * 24 + 8, 8)?;
            if info != relative {
                let (symbol, kind) = (info >> 32, info & 0xffff_ffff);
                return Err(format!("has a relocation of type {kind} on symbol {symbol}"));
            }
        }
    }
    Ok(())
}

struct Elf<'a>(&'a [u8]);

struct Segment {
    kind: u64,
    flags: u64,
    offset: u64,
    address: u64,
    size: u64,
}

impl Segment {
    fn holds(&self, address: u64) -> bool {
        self.address <= address && address - self.address < self.size
    }
}

impl Elf<'_> {
    fn number(&self, at: u64, bytes: usize) -> Result<u64, String> {
        let at = at as usize;
        let end = at.checked_add(bytes).ok_or("ELF offset overflows")?;
        let slice = self.0.get(at..end).ok_or("ELF file is cut short")?;
        let mut wide = [0; 8];
        wide[..bytes].copy_from_slice(slice);
        Ok(u64::from_le_bytes(wide))
    }

    fn segments(&self) -> Result<Vec<Segment>, String> {
        let (start, size, count) = (self.number(32, 8)?, self.number(54, 2)?, self.number(56, 2)?);
        let segment = |i| {
            let at = start + i * size;
            Ok(Segment {
                kind: self.number(at, 4)?,
                flags: self.number(at + 4, 4)?,
                offset: self.number(at + 8, 8)?,
                address: self.number(at + 16, 8)?,
                size: self.number(at + 32, 8)?,
            })
        };
        (0..count).map(segment).collect()
    }
}
