//! Names of files that stand for tensors: one rule for all programs, so that what one writes another finds.

use crate::digest::digest;

/// The name of a tensor's file, without extension: bytes other than letters, digits, `_`, `-` and `.` become `%XX`, and
/// a name past 200 bytes is cut to 150 and gets `%` and 16 hexadecimal digits of its SHA-256.
pub fn file_name(name: &str) -> String {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"_-.".contains(b);
    let clean: String = name.bytes().map(|b| if plain(&b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect();
    if clean.len() <= 200 {
        return clean;
    }
    let digest = crate::hex(&digest(name.as_bytes()));
    format!("{}%{}", &clean[..150], &digest[..16])
}
