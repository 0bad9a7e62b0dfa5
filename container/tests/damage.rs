//! Damaged packages: truncated anywhere, bits flipped anywhere. Nothing panics; damaged contents are found.

mod common;

use std::{fs, panic::catch_unwind, path::Path};

use bytes::Bytes;
use oaaxc_container::{Expectation, OpenedPackage, open, open_bytes, write_archive, write_layout};

fn archive() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.oaax");
    write_archive(&common::tiny_package(), &path).unwrap();
    fs::read(path).unwrap()
}

fn check(bytes: Vec<u8>) -> Result<OpenedPackage, String> {
    let bytes = Bytes::from(bytes);
    catch_unwind(|| {
        let opened = open_bytes(bytes, &Expectation::default()).map_err(|error| error.to_string())?;
        opened.verify().map_err(|error| error.to_string())?;
        Ok(opened)
    })
    .expect("damage must not make the reader panic")
}

#[test]
fn an_archive_cut_anywhere_is_refused() {
    let whole = archive();
    check(whole.clone()).unwrap();
    let ends = (0..whole.len()).step_by(512).flat_map(|block| [block.saturating_sub(1), block, block + 1, block + 257]);
    for end in ends.filter(|&end| end < whole.len()) {
        assert!(check(whole[..end].to_vec()).is_err(), "cut at {end}");
    }
}

#[test]
fn flips_anywhere_never_panic_and_flips_in_contents_are_found() {
    let whole = archive();
    let opened = check(whole.clone()).unwrap();
    let manifest = opened.manifest_bytes().to_vec();
    let find = |needle: &[u8]| whole.windows(needle.len()).position(|window| window == needle).unwrap();
    let data = common::noise(3000, 9);
    let (data_at, manifest_at) = (find(&data), find(&manifest));
    // Every byte of oaax.json and every byte of the file, one bit each.
    for (start, length) in [(data_at, data.len()), (manifest_at, manifest.len())] {
        for at in start..start + length {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            assert!(check(bytes).is_err(), "a flip at {at} went unnoticed");
        }
    }
    // Anywhere, several at once.
    let places = common::noise(4 * 3 * 2000, 11);
    let mut unnoticed = 0;
    for round in places.chunks(12) {
        let mut bytes = whole.clone();
        for place in round.chunks(4) {
            let at = u32::from_le_bytes(place.try_into().unwrap()) as usize % whole.len();
            bytes[at] ^= 1 << (place[0] % 8);
        }
        unnoticed += usize::from(check(bytes).is_ok());
    }
    // Everything but index.json, manifest.json and the alignment of the outer tar is under a digest.
    assert!(unnoticed < 1000, "{unnoticed} of 2000");
}

#[test]
fn flips_in_headers_and_documents_never_panic() {
    let whole = archive();
    let dense: Vec<usize> = (0..whole.len()).filter(|&at| whole[at] != 0 && whole[at] != b' ').collect();
    let documents = &dense[..dense.len().min(6000)];
    for &at in documents {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 7);
        let _ = check(bytes);
    }
}

#[test]
fn every_blob_of_a_layout_is_watched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("layout");
    write_layout(&common::tiny_package(), &path).unwrap();
    let verify = |path: &Path| open(path).and_then(|opened| opened.verify()).is_ok();
    assert!(verify(&path));
    for blob in fs::read_dir(path.join("blobs/sha256")).unwrap().map(|entry| entry.unwrap().path()) {
        let whole = fs::read(&blob).unwrap();
        let step = (whole.len() / 40).max(1);
        for at in (0..whole.len()).step_by(step).chain([whole.len() - 1]) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            fs::write(&blob, bytes).unwrap();
            assert!(!verify(&path), "{} at {at}", blob.display());
        }
        fs::write(&blob, &whole[..whole.len() - 1]).unwrap();
        assert!(!verify(&path));
        fs::write(&blob, [&whole[..], b"x"].concat()).unwrap();
        assert!(!verify(&path));
        fs::remove_file(&blob).unwrap();
        assert!(!verify(&path));
        let aside = folder.path().join("aside");
        fs::write(&aside, &whole).unwrap();
        std::os::unix::fs::symlink(&aside, &blob).unwrap();
        assert!(!verify(&path), "a blob behind a link");
        fs::remove_file(&blob).unwrap();
        fs::write(&blob, &whole).unwrap();
        assert!(verify(&path));
    }
}
