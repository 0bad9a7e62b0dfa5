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
    header.iter().enumerate().map(|(at, &byte)| if (148..156).contains(&at) { 32 } else { u32::from(byte) }).sum()
}

/// Bytes from `size` up to the next whole block.
pub(crate) fn padding(size: u64) -> u64 {
    size.next_multiple_of(BLOCK) - size
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::{read::TarReader, write::TarWriter, *};
    use crate::{error::Result, open::Section, sink::Sink};

    #[derive(Default)]
    struct Kept(Vec<u8>);

    impl Sink for Kept {
        fn put(&mut self, bytes: &[u8]) -> Result<()> {
            self.0.extend_from_slice(bytes);
            Ok(())
        }
    }

    type Listed = Vec<(String, bool, u64, u64)>;

    fn ours(bytes: &[u8]) -> Result<Listed> {
        let mut tar = TarReader::new(Section::of_memory(Bytes::copy_from_slice(bytes)).reader(), "x");
        let mut listed = Vec::new();
        while let Some(entry) = tar.next()? {
            listed.push((entry.path, entry.folder, entry.size, entry.offset));
        }
        Ok(listed)
    }

    fn theirs(bytes: &[u8]) -> std::io::Result<Listed> {
        let list = |entry: std::io::Result<::tar::Entry<&[u8]>>| {
            let entry = entry?;
            let folder = entry.header().entry_type().is_dir();
            let path = String::from_utf8_lossy(&entry.path_bytes()).trim_end_matches('/').to_owned();
            Ok((path, folder, entry.size(), entry.raw_file_position()))
        };
        ::tar::Archive::new(bytes).entries()?.map(list).collect()
    }

    fn sample() -> (Vec<u8>, Vec<usize>) {
        let mut tar = TarWriter::new(Kept::default());
        tar.folder("models").unwrap();
        for (path, size) in [("models/a", 0u64), ("models/b", 700), ("models/c", 512)] {
            tar.file(path, write::READABLE, size, path != "models/b", |sink| sink.fill(7, size)).unwrap();
        }
        let bytes = tar.finish().unwrap().0;
        let headers = (0..bytes.len()).step_by(512).filter(|&at| &bytes[at + 257..at + 262] == b"ustar");
        let headers = headers.collect();
        (bytes, headers)
    }

    #[test]
    fn what_is_written_is_read_by_both() {
        let (bytes, headers) = sample();
        let listed = ours(&bytes).unwrap();
        assert_eq!(listed, theirs(&bytes).unwrap());
        assert_eq!(listed.len(), 4);
        assert_eq!(headers.len(), 6, "two of the files are aligned by an extended header");
        assert!([1, 3].iter().all(|&at| listed[at].3.is_multiple_of(crate::ALIGNMENT)));
    }

    #[test]
    fn whatever_altered_tar_we_accept_another_reader_sees_alike() {
        let (whole, headers) = sample();
        let mut state = 1u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) as usize % below
        };
        let mut accepted = 0;
        for _ in 0..6000 {
            let mut bytes = whole.clone();
            for _ in 0..=random(2) {
                let at = headers[random(headers.len())];
                // Fields that decide, and the start of an extended header's record.
                let field = [random(12), 100 + random(8), 124 + random(12), 156, 157, 257 + random(8), 345, 512 + random(16)];
                bytes[at + field[random(field.len())]] = *b"01579x/. \0ampsize=".get(random(19)).unwrap_or(&0xff);
            }
            for &at in &headers {
                let sum = checksum(bytes[at..at + 512].first_chunk().unwrap());
                bytes[at + 148..at + 156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
            }
            if let Ok(listed) = ours(&bytes) {
                accepted += 1;
                assert_eq!(listed, theirs(&bytes).unwrap());
            }
        }
        assert!((100..5000).contains(&accepted), "{accepted} of 6000 accepted: the alterations test nothing");
    }
}
