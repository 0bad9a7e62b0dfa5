//! MD5 (RFC 1321), which readers of OAAX's logs compare; whether bytes were changed is SHA-256's matter.

/// Rotations of the four rounds.
const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];

/// The digest as 32 hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    let mut state = [0x6745_2301u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    let whole = bytes.len() / 64 * 64;
    bytes[..whole].chunks_exact(64).for_each(|block| round(&mut state, block));
    let mut rest = bytes[whole..].to_vec();
    rest.push(0x80);
    rest.resize(if rest.len() <= 56 { 56 } else { 120 }, 0);
    rest.extend((bytes.len() as u64).wrapping_mul(8).to_le_bytes());
    rest.chunks_exact(64).for_each(|block| round(&mut state, block));
    state.iter().flat_map(|word| word.to_le_bytes()).map(|byte| format!("{byte:02x}")).collect()
}

fn round(state: &mut [u32; 4], block: &[u8]) {
    let word = |index: usize| {
        let at = index * 4;
        u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]])
    };
    let [mut a, mut b, mut c, mut d] = *state;
    for step in 0..64usize {
        let (mixed, index) = match step / 16 {
            0 => ((b & c) | (!b & d), step),
            1 => ((d & b) | (!d & c), 5 * step + 1),
            2 => (b ^ c ^ d, 3 * step + 5),
            _ => (c ^ (b | !d), 7 * step),
        };
        // "T[i] is the integer part of 4294967296 times abs(sin(i))", counted from 1.
        let constant = (((step + 1) as f64).sin().abs() * 4_294_967_296.0) as u32;
        let sum = a.wrapping_add(mixed).wrapping_add(constant).wrapping_add(word(index % 16));
        (a, d, c) = (d, c, b);
        b = b.wrapping_add(sum.rotate_left(SHIFTS[step / 16][step % 4]));
    }
    for (kept, new) in state.iter_mut().zip([a, b, c, d]) {
        *kept = kept.wrapping_add(new);
    }
}

#[cfg(test)]
mod tests {
    use super::hex;

    #[test]
    fn digests_are_those_of_the_rfc() {
        assert_eq!(hex(b""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(hex(b"message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
        let long = "12345678901234567890123456789012345678901234567890123456789012345678901234567890";
        assert_eq!(hex(long.as_bytes()), "57edf4a22be3c955ac49da2e2107b67a");
    }
}
