//! SHA-256 digests and the hash tree of a file.
//!
//! Promises: a digest is read only from its one canonical spelling (lower-case hexadecimal), so equal digests
//! are equal strings. The tree has leaves of 2 MiB from the file's first byte and one root over them.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use sha2::{Digest as _, Sha256};

/// Bytes of a leaf of the hash tree; the last leaf of a file may be shorter.
pub const LEAF_SIZE: u64 = 2 << 20;

/// A SHA-256 digest. Serialises as OCI writes it, `sha256:<64 hex digits>`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Digest {
        Digest(Sha256::digest(bytes).into())
    }

    /// The digest whose 32 bytes are `bytes`.
    pub fn from_bytes(bytes: [u8; 32]) -> Digest {
        Digest(bytes)
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// 64 lower-case hexadecimal digits.
    pub fn hex(&self) -> String {
        to_hex(&self.0)
    }

    /// Reads exactly 64 lower-case hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Digest> {
        Some(Digest(from_hex(text)?.try_into().ok()?))
    }

    /// Reads `sha256:` and 64 lower-case hexadecimal digits; other algorithms are not known here.
    pub fn parse(text: &str) -> Option<Digest> {
        Digest::from_hex(text.strip_prefix("sha256:")?)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Digest, D::Error> {
        let text = String::deserialize(deserializer)?;
        Digest::parse(&text).ok_or_else(|| D::Error::custom("a digest must be sha256: and 64 lower-case hexadecimal digits"))
    }
}

pub(crate) fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let nibble = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let bytes = text.as_bytes();
    if !bytes.len().is_multiple_of(2) {
        return None;
    }
    bytes.chunks_exact(2).map(|pair| Some(nibble(pair[0])? << 4 | nibble(pair[1])?)).collect()
}

/// The finished tree of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashTree {
    /// Digests of the leaves in file order; empty for an empty file.
    pub leaves: Vec<Digest>,
}

impl HashTree {
    /// SHA-256 over the leaf digests, one after the other.
    pub fn root(&self) -> Digest {
        let mut hash = Sha256::new();
        for leaf in &self.leaves {
            hash.update(leaf.as_bytes());
        }
        Digest(hash.finalize().into())
    }

    /// The leaf digests as one string of hexadecimal digits, as `oaax.json` keeps them.
    pub fn leaves_hex(&self) -> String {
        self.leaves.iter().map(Digest::hex).collect()
    }
}

/// Builds a tree from a file's bytes in order.
#[derive(Default)]
pub struct TreeHasher {
    leaf: Sha256,
    filled: u64,
    leaves: Vec<Digest>,
}

impl TreeHasher {
    /// Takes the file's next bytes.
    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = usize::try_from(LEAF_SIZE - self.filled).expect("a leaf fits into memory");
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.leaf.update(now);
            self.filled += now.len() as u64;
            if self.filled == LEAF_SIZE {
                self.close_leaf();
            }
            bytes = later;
        }
    }

    /// The tree over all bytes taken.
    pub fn finish(mut self) -> HashTree {
        if self.filled > 0 {
            self.close_leaf();
        }
        HashTree { leaves: self.leaves }
    }

    fn close_leaf(&mut self) {
        self.leaves.push(Digest(self.leaf.finalize_reset().into()));
        self.filled = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_canonical_spelling_is_a_digest() {
        let hex = "0123456789abcdef".repeat(4);
        assert!(Digest::parse(&format!("sha256:{hex}")).is_some());
        for bad in [
            hex.clone(),
            format!("SHA256:{hex}"),
            format!("sha512:{hex}{hex}"),
            format!("md5:{hex}"),
            format!("sha256:{}", hex.to_uppercase()),
            format!("sha256:{}", &hex[1..]),
            format!("sha256:{hex}0"),
            "sha256:../../etc/passwd".to_owned(),
            String::new(),
        ] {
            assert!(Digest::parse(&bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_tree_does_not_depend_on_how_its_bytes_arrive() {
        let bytes: Vec<u8> = (0..(2 * LEAF_SIZE + 5)).map(|i| (i % 251) as u8).collect();
        let mut whole = TreeHasher::default();
        whole.update(&bytes);
        let mut pieces = TreeHasher::default();
        bytes.chunks(777_777).for_each(|piece| pieces.update(piece));
        let (whole, pieces) = (whole.finish(), pieces.finish());
        assert_eq!(whole, pieces);
        assert_eq!(whole.leaves.len(), 3);
        assert_eq!(whole.leaves[2], Digest::of(&bytes[2 * LEAF_SIZE as usize..]));
        assert_eq!(TreeHasher::default().finish().root(), Digest::of(b""));
    }
}
