//! SHA-256 digests and the hash tree of a file: leaves of 2 MiB, root over the leaf digests.

use crate::{
    error::{Result, fail},
    pool::Pool,
};
use sha2::{Digest as _, Sha256};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of a leaf.
pub const LEAF: usize = 2 << 20;

/// A SHA-256 digest.
pub type Digest = [u8; 32];

/// The digest of `bytes`.
pub fn digest(bytes: &[u8]) -> Digest {
    Sha256::digest(bytes).into()
}

/// Lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| char::from(b"0123456789abcdef"[digit as usize])).collect()
}

/// The bytes of lower-case hexadecimal digits.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let pairs = text.as_bytes().chunks_exact(2);
    pairs.remainder().is_empty().then_some(())?;
    pairs.map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

/// A digest of 64 hexadecimal digits.
pub fn digest_from_hex(text: &str) -> Option<Digest> {
    from_hex(text)?.try_into().ok()
}

/// Proves the bytes of a file against the leaves of its tree, on all workers.
pub fn verify(path: &str, bytes: &[u8], leaves: &[Digest], pool: &Pool) -> Result<()> {
    if bytes.len().div_ceil(LEAF) != leaves.len() {
        fail!(Tampered, "{path}: {} bytes do not fit {} leaves", bytes.len(), leaves.len());
    }
    let (next, bad) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
    pool.run(&|_| {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(expected) = leaves.get(index) else { return };
            let leaf = &bytes[index * LEAF..bytes.len().min((index + 1) * LEAF)];
            if digest(leaf) != *expected {
                bad.fetch_min(index, Ordering::Relaxed);
            }
        }
    });
    match bad.into_inner() {
        usize::MAX => Ok(()),
        leaf => fail!(Tampered, "{path}: the bytes from {} on are not those that were built", leaf * LEAF),
    }
}
