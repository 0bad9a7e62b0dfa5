//! A thousand random flips: of file data and of `oaax.json`, in every form. Each is refused by the strict reader.

mod common;

use std::{fs, path::Path};

use oaaxc_container::{Digest, Expectation, open, open_with, write_archive, write_layout};

/// Positions below `length`, the same in every run.
fn places(count: usize, length: usize, seed: u64) -> Vec<usize> {
    let noise = common::noise(count * 4, seed);
    noise.chunks(4).map(|four| u32::from_le_bytes(four.try_into().unwrap()) as usize % length).collect()
}

fn is_refused(path: &Path, expected: &Expectation) -> bool {
    open_with(path, expected).and_then(|package| package.verify()).is_err()
}

/// Flips one bit of the file, asks, and flips it back.
fn flipped(file: &Path, at: usize, ask: impl FnOnce() -> bool) -> bool {
    use std::os::unix::fs::{FileExt, PermissionsExt};
    fs::set_permissions(file, fs::Permissions::from_mode(0o644)).unwrap();
    let open = fs::OpenOptions::new().read(true).write(true).open(file).unwrap();
    let mut byte = [0u8];
    open.read_exact_at(&mut byte, at as u64).unwrap();
    open.write_all_at(&[byte[0] ^ (1 << (at % 8))], at as u64).unwrap();
    let answer = ask();
    open.write_all_at(&byte, at as u64).unwrap();
    answer
}

#[test]
fn a_thousand_flips_of_data_and_manifest_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (archive, layout, models) = (folder.path().join("m.oaax"), folder.path().join("layout"), folder.path().join("models"));
    let mut package = common::tiny_package();
    package.files[0].data = common::noise(60_000, 9).into();
    write_archive(&package, &archive).unwrap();
    write_layout(&package, &layout).unwrap();
    let opened = open(&archive).unwrap();
    opened.unpack(&models).unwrap();
    let manifest = opened.manifest_bytes().to_vec();
    let bound = Expectation { manifest: Some(Digest::of(&manifest)), tag: None };
    let free = Expectation::default();
    let range = opened.range("weights/0.bin").unwrap();
    let whole = fs::read(&archive).unwrap();
    let manifest_at = whole.windows(manifest.len()).position(|window| window == manifest).unwrap();
    let mut asked = 0;
    // The archive: 250 flips of data, 250 of the manifest.
    for (start, length, seed) in [(range.offset as usize, range.length as usize, 1), (manifest_at, manifest.len(), 2)] {
        for at in places(250, length, seed) {
            assert!(flipped(&archive, start + at, || is_refused(&archive, &free)), "archive, byte {}", start + at);
            asked += 1;
        }
    }
    // The unpacked folder, which only a digest binds.
    for (name, length, seed) in [("weights/0.bin", 60_000, 3), ("oaax.json", manifest.len(), 4)] {
        for at in places(150, length, seed) {
            assert!(flipped(&models.join(name), at, || is_refused(&models, &bound)), "{name}, byte {at}");
            asked += 1;
        }
    }
    // The layout: anywhere in any blob.
    let blobs: Vec<_> = fs::read_dir(layout.join("blobs/sha256")).unwrap().map(|entry| entry.unwrap().path()).collect();
    for (turn, place) in places(200, usize::MAX >> 1, 5).into_iter().enumerate() {
        let blob = &blobs[turn % blobs.len()];
        let at = place % fs::metadata(blob).unwrap().len() as usize;
        assert!(flipped(blob, at, || is_refused(&layout, &free)), "{}, byte {at}", blob.display());
        asked += 1;
    }
    assert_eq!(asked, 1000);
    open_with(&models, &bound).unwrap().verify().unwrap();
}
