//! What a shared library exports, read from its bytes: nothing of it is loaded or run.

/// Names that the dynamic symbol table of a 64-bit little-endian ELF file defines for others, sorted.
/// Errors: a sentence on what is no such file.
pub fn exports(file: &[u8]) -> Result<Vec<String>, String> {
    let wrong = || "not a 64-bit little-endian ELF shared library, or a damaged one".to_owned();
    if file.get(..6) != Some(b"\x7fELF\x02\x01") {
        return Err(wrong());
    }
    read(file).ok_or_else(wrong)
}

fn number(file: &[u8], at: usize, bytes: usize) -> Option<u64> {
    let field = file.get(at..at.checked_add(bytes)?)?;
    Some(field.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

fn place(file: &[u8], at: usize) -> Option<usize> {
    usize::try_from(number(file, at, 8)?).ok()
}

/// Bytes of the section whose header lies at `at`.
fn section(file: &[u8], at: usize) -> Option<&[u8]> {
    let start = place(file, at + 0x18)?;
    file.get(start..start.checked_add(place(file, at + 0x20)?)?)
}

const DYNAMIC_SYMBOLS: u64 = 11;
const SYMBOL_BYTES: usize = 24;
const LOCAL: u8 = 0;

fn read(file: &[u8]) -> Option<Vec<String>> {
    let (table, size) = (place(file, 0x28)?, number(file, 0x3a, 2)? as usize);
    let count = number(file, 0x3c, 2)? as usize;
    let header = |index: usize| table.checked_add(index.checked_mul(size)?);
    let mut names = Vec::new();
    for index in 0..count {
        let at = header(index)?;
        if number(file, at.checked_add(4)?, 4)? != DYNAMIC_SYMBOLS {
            continue;
        }
        let strings = section(file, header(number(file, at + 0x28, 4)? as usize)?)?;
        for symbol in section(file, at)?.chunks_exact(SYMBOL_BYTES) {
            let (info, other, defined) = (symbol[4], symbol[5], symbol[6] != 0 || symbol[7] != 0);
            // Hidden (2) and internal (1) symbols are nobody else's.
            if info >> 4 == LOCAL || !defined || matches!(other & 3, 1 | 2) {
                continue;
            }
            let name = strings.get(number(symbol, 0, 4)? as usize..)?;
            let end = name.iter().position(|byte| *byte == 0)?;
            names.push(String::from_utf8_lossy(&name[..end]).into_owned());
        }
    }
    names.sort();
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::exports;

    #[test]
    fn what_is_no_library_is_said_and_cut_ones_do_not_panic() {
        assert!(exports(b"#!/bin/sh").is_err());
        let test = std::env::current_exe().and_then(std::fs::read).expect("a test can read itself");
        assert!(exports(&test).is_ok());
        for length in [6, 63, 64, 4096] {
            assert!(exports(&test[..length]).is_err(), "{length}");
        }
    }
}
