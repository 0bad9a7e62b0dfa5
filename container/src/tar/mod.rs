//! The tar subset of this format: POSIX ustar headers of types `0`, `5` and `x`, nothing else.
//!
//! Promises: `write` makes only what `read` accepts, and `read` refuses whatever two readers could see
//! differently: links, devices, GNU forms, sizes that disagree, names twice, anything after the end.

pub(crate) mod read;
pub(crate) mod write;

/// A header, and the unit in which tar counts.
pub(crate) const BLOCK: u64 = 512;
/// The largest size that eleven octal digits can say: 8 GiB - 1.
pub(crate) const MAX_SIZE: u64 = 0o77777777777;

pub(crate) const REGULAR: u8 = b'0';
pub(crate) const FOLDER: u8 = b'5';
pub(crate) const EXTENDED: u8 = b'x';

/// POSIX: "The chksum field shall be the … simple sum of all bytes in the header …
/// the chksum field shall be treated as if it were all <space> characters."
fn checksum(header: &[u8; 512]) -> u32 {
    header
        .iter()
        .enumerate()
        .map(|(at, &byte)| {
            if (148..156).contains(&at) {
                32
            } else {
                u32::from(byte)
            }
        })
        .sum()
}

/// Bytes from `size` up to the next whole block.
pub(crate) fn padding(size: u64) -> u64 {
    size.next_multiple_of(BLOCK) - size
}
