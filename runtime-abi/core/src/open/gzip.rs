//! Gzip whose blocks are stored, the registry form of layers: copied out once, never inflated.

use crate::error::{Result, fail};

/// The content of a gzip file of stored blocks. Its digest is checked by whoever knows the tar's.
pub fn stored(bytes: &[u8]) -> Result<Vec<u8>> {
    let Some([0x1f, 0x8b, 8, 0, _, _, _, _, _, _, rest @ ..]) = bytes.get(..) else {
        fail!(InvalidModel, "a layer is neither a tar nor gzip without extra fields");
    };
    let (mut out, mut rest) = (Vec::with_capacity(bytes.len()), rest);
    loop {
        let [header, l0, l1, n0, n1, tail @ ..] = rest else {
            fail!(InvalidModel, "a gzip layer is cut off");
        };
        let length = u16::from_le_bytes([*l0, *l1]);
        if header >> 1 != 0 {
            fail!(Unsupported, "a layer is compressed; unpack the image or use a model.oaax file");
        }
        if length != !u16::from_le_bytes([*n0, *n1]) || tail.len() < length as usize {
            fail!(InvalidModel, "a gzip layer is damaged");
        }
        out.extend_from_slice(&tail[..length as usize]);
        rest = &tail[length as usize..];
        if header & 1 == 1 {
            return Ok(out);
        }
    }
}
