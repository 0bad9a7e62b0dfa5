//! A strict reader of `ar` archives in GNU's form: one SPIR-V module for each kernel, member `SYMBOL.spv`.
//!
//! Promises: no bytes make it panic; members lie inside the archive, apart from one another, each name
//! once; every member is a SPIR-V module by its first word and the lengths of its instructions (drivers have
//! been seen to hang over a length of 0). Symbol tables and thin archives are refused.

use std::collections::BTreeMap;

const MAGIC: &[u8] = b"!<arch>\n";
const HEADER: usize = 60;
/// First word of a SPIR-V module, little endian.
const SPIRV: [u8; 4] = 0x0723_0203u32.to_le_bytes();
/// Header of a SPIR-V module in bytes.
const SPIRV_HEADER: usize = 20;

/// The modules by symbol.
pub fn read(archive: &[u8]) -> Result<BTreeMap<&str, &[u8]>, String> {
    if !archive.starts_with(MAGIC) {
        return Err("is no ar archive".to_owned());
    }
    let (mut modules, mut names, mut at) = (BTreeMap::new(), None, MAGIC.len());
    while at < archive.len() {
        let wrong = |what: &str| format!("{what} at byte {at}");
        let header = archive[at..].get(..HEADER).ok_or_else(|| wrong("a header is cut off"))?;
        if &header[58..] != b"`\n" {
            return Err(wrong("a header has no end mark"));
        }
        let size = number(&header[48..58]).ok_or_else(|| wrong("a size is no number"))?;
        let data = archive[at + HEADER..].get(..size).ok_or_else(|| wrong("a member reaches beyond the end"))?;
        let end = at + HEADER + size;
        if size % 2 == 1 && archive.get(end) != Some(&b'\n') {
            return Err(wrong("padding is missing"));
        }
        let field = trimmed(&header[..16]);
        match field {
            b"//" if names.is_none() && modules.is_empty() => names = Some(data),
            b"//" => return Err(wrong("a second or late table of names")),
            b"/" | b"/SYM64/" => return Err(wrong("a symbol table, which is not taken,")),
            _ => {
                let name = name(field, names).ok_or_else(|| wrong("a name is malformed"))?;
                let symbol = name.strip_suffix(".spv").ok_or_else(|| wrong("a member is no .spv file"))?;
                if !is_module(data) {
                    return Err(format!("member {name} is no SPIR-V module"));
                }
                if modules.insert(symbol, data).is_some() {
                    return Err(format!("member {name} is there twice"));
                }
            }
        }
        at = end + size % 2;
    }
    Ok(modules)
}

/// Whether instructions follow a header one after the other up to the end.
fn is_module(data: &[u8]) -> bool {
    if !data.starts_with(&SPIRV) || data.len() < SPIRV_HEADER || !data.len().is_multiple_of(4) {
        return false;
    }
    let mut at = SPIRV_HEADER;
    while let Some(&[_, _, low, high, ..]) = data.get(at..) {
        let words = u16::from_le_bytes([low, high]) as usize;
        if words == 0 {
            return false;
        }
        at += 4 * words;
    }
    at == data.len()
}

fn trimmed(field: &[u8]) -> &[u8] {
    let end = field.iter().rposition(|byte| *byte != b' ').map_or(0, |last| last + 1);
    &field[..end]
}

fn number(field: &[u8]) -> Option<usize> {
    let digits = trimmed(field);
    let plain = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    plain.then(|| std::str::from_utf8(digits).ok()?.parse().ok()).flatten()
}

/// `name/`, or `/offset` in the table of names, whose entries end with `/` and a line feed.
fn name<'a>(field: &'a [u8], table: Option<&'a [u8]>) -> Option<&'a str> {
    let name = match field {
        [b'/', digits @ ..] => {
            let rest = table?.get(number(digits)?..)?;
            let end = rest.windows(2).position(|two| two == b"/\n")?;
            &rest[..end]
        }
        [name @ .., b'/'] => name,
        _ => return None,
    };
    let good = |byte: &u8| byte.is_ascii_alphanumeric() || b"._$-".contains(byte);
    (!name.is_empty() && name.iter().all(good)).then(|| std::str::from_utf8(name).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::read;

    fn member(name: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 100644, data.len()).into_bytes();
        bytes.extend_from_slice(data);
        bytes.resize(bytes.len().next_multiple_of(2), b'\n');
        bytes
    }

    fn module(words: usize) -> Vec<u8> {
        let mut data = super::SPIRV.to_vec();
        data.resize(20, 7);
        (0..words).for_each(|_| data.extend_from_slice(&[0, 0, 1, 0]));
        data
    }

    fn archive(members: &[Vec<u8>]) -> Vec<u8> {
        [super::MAGIC.to_vec(), members.concat()].concat()
    }

    const LONG: &str = "kernel_of_a_long_name_123.spv";

    fn good() -> Vec<u8> {
        let table = format!("{LONG}/\nother_name_too_long.spv/\n");
        archive(&[
            member("//", table.as_bytes()),
            member("/0", &module(1)),
            member(&format!("/{}", LONG.len() + 2), &module(2)),
            member("k.spv/", &module(0)),
        ])
    }

    #[test]
    fn short_and_long_names_are_read() {
        let bytes = good();
        let modules = read(&bytes).expect("well formed");
        assert_eq!(modules.keys().copied().collect::<Vec<_>>(), ["k", "kernel_of_a_long_name_123", "other_name_too_long"]);
        assert_eq!(modules["other_name_too_long"].len(), 28);
        assert!(read(&archive(&[])).expect("empty").is_empty());
    }

    #[test]
    fn hostile_archives_are_refused() {
        let refuse = |members: &[Vec<u8>], why: &str| {
            let bytes = archive(members);
            let error = read(&bytes).expect_err(why);
            assert!(error.contains(why), "{error}");
        };
        refuse(&[member("k.spv/", &module(0)), member("k.spv/", &module(0))], "twice");
        refuse(&[member("k.spv/", b"not spir-v, but long enough")], "no SPIR-V");
        refuse(&[member("k.spv/", &[&module(0)[..], &[0; 4]].concat())], "no SPIR-V");
        refuse(&[member("k.spv/", &[&module(0)[..], &[0, 0, 2, 0]].concat())], "no SPIR-V");
        refuse(&[member("k.so/", &module(0))], "no .spv");
        refuse(&[member("/", b"\0\0\0\0")], "symbol table");
        refuse(&[member("/7", &module(0))], "name is malformed");
        refuse(&[member("//", b"a.spv/\n"), member("/99", &module(0))], "name is malformed");
        refuse(&[member("//", b"no end"), member("/0", &module(0))], "name is malformed");
        refuse(&[member("../k.spv/", &module(0))], "name is malformed");
        refuse(&[member("k.spv/", &module(0)), member("//", b"a.spv/\n")], "late table");
        let mut bytes = archive(&[member("k.spv/", &module(0))]);
        bytes[8 + 48..8 + 58].copy_from_slice(b"9999999999");
        assert!(read(&bytes).expect_err("too long").contains("beyond the end"));
        bytes[8 + 48..8 + 58].copy_from_slice(b"-1        ");
        assert!(read(&bytes).expect_err("negative").contains("no number"));
        assert!(read(b"!<thin>\n").is_err());
    }

    #[test]
    fn no_damage_makes_it_panic() {
        let bytes = good();
        for at in 0..bytes.len() {
            let _ = read(&bytes[..at]);
            for flip in [1, 0x80, 0xff] {
                let mut bad = bytes.clone();
                bad[at] ^= flip;
                let _ = read(&bad);
            }
        }
    }
}
