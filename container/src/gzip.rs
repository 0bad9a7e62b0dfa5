//! gzip that stores: the registry form of a layer.
//!
//! Promises: byte *n* of the content stands at byte `10 + n + 5 * (n / 65535 + 1)` of the output (RFC 1951,
//! section 3.2.4: stored blocks, here of 65,535 bytes each), so the bytes depend on no compressor's version
//! and a reader may seek. The last block, which may be empty, carries the final bit.

use flate2::Crc;

use crate::{error::Result, sink::Sink};

/// Bytes of a full stored block.
const BLOCK: usize = 65535;
/// RFC 1952: magic, deflate, no flags, no time, no extra flags, unknown operating system.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// Wraps what it is given in stored gzip and passes it on.
pub(crate) struct GzipSink<S> {
    sink: S,
    block: Vec<u8>,
    crc: Crc,
}

impl<S: Sink> GzipSink<S> {
    pub fn new(mut sink: S) -> Result<GzipSink<S>> {
        sink.put(&HEADER)?;
        Ok(GzipSink { sink, block: Vec::with_capacity(BLOCK), crc: Crc::new() })
    }

    /// Writes the last block and the trailer; gives the inner sink back.
    pub fn finish(mut self) -> Result<S> {
        let block = std::mem::take(&mut self.block);
        self.stored(true, &block)?;
        self.sink.put(&self.crc.sum().to_le_bytes())?;
        // RFC 1952, ISIZE: "the size of the original input data modulo 2^32".
        self.sink.put(&self.crc.amount().to_le_bytes())?;
        Ok(self.sink)
    }

    fn stored(&mut self, last: bool, block: &[u8]) -> Result<()> {
        let length = u16::try_from(block.len()).expect("a block holds at most 65,535 bytes");
        let mut head = [u8::from(last), 0, 0, 0, 0];
        head[1..3].copy_from_slice(&length.to_le_bytes());
        head[3..5].copy_from_slice(&(!length).to_le_bytes());
        self.sink.put(&head)?;
        self.sink.put(block)
    }
}

impl<S: Sink> Sink for GzipSink<S> {
    fn put(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.crc.update(bytes);
        while !bytes.is_empty() {
            if self.block.is_empty() && bytes.len() > BLOCK {
                // A full block straight from the caller: large weights are not copied once more.
                let (now, later) = bytes.split_at(BLOCK);
                self.stored(false, now)?;
                bytes = later;
                continue;
            }
            if self.block.len() == BLOCK {
                let block = std::mem::take(&mut self.block);
                self.stored(false, &block)?;
                self.block = block;
                self.block.clear();
                continue;
            }
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK - self.block.len()));
            self.block.extend_from_slice(now);
            bytes = later;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    struct Kept(Vec<u8>);

    impl Sink for Kept {
        fn put(&mut self, bytes: &[u8]) -> Result<()> {
            self.0.extend_from_slice(bytes);
            Ok(())
        }
    }

    fn packed(content: &[u8], piece: usize) -> Vec<u8> {
        let mut gzip = GzipSink::new(Kept(Vec::new())).unwrap();
        content.chunks(piece).for_each(|bytes| gzip.put(bytes).unwrap());
        gzip.finish().unwrap().0
    }

    #[test]
    fn any_length_and_any_pieces_inflate_to_the_content() {
        for length in [0, 1, 511, 65534, 65535, 65536, 131070, 131071, 200_000] {
            let content: Vec<u8> = (0..length).map(|i: usize| (i * 7 % 253) as u8).collect();
            let whole = packed(&content, usize::MAX >> 1);
            for piece in [512, 65535, 65536, 99_999] {
                assert_eq!(packed(&content, piece), whole, "{length} in pieces of {piece}");
            }
            let mut back = Vec::new();
            flate2::read::GzDecoder::new(whole.as_slice()).read_to_end(&mut back).unwrap();
            assert_eq!(back, content);
        }
    }

    #[test]
    fn a_byte_stands_where_the_formula_says() {
        let content: Vec<u8> = (0..300_000usize).map(|i| (i / 3 % 251) as u8).collect();
        let stored = packed(&content, 1000);
        for n in [0, 1, 65534, 65535, 65536, 131069, 131070, 299_999] {
            assert_eq!(stored[10 + n + 5 * (n / BLOCK + 1)], content[n], "{n}");
        }
    }
}
