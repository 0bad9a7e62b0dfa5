//! Bills of materials name every file with its digest, and are the same each time.

use oaaxc_container::{Digest, FileEntry, Manifest};
use oaaxc_trust::{Contents, cyclonedx, spdx};
use serde_json::Value;

#[test]
fn every_file_stands_in_both_bills_with_its_digest() {
    let mut manifest = Manifest::new("m", "0.1.0");
    let sha256 = Digest::of(b"weights").hex();
    manifest.files.push(FileEntry { path: "weights/0.bin".to_owned(), sha256: sha256.clone(), ..FileEntry::default() });
    let contents = Contents { manifest: &manifest, digest: Digest::of(b"index"), created: "1970-01-01T00:00:00Z" };
    let read = |bytes: Vec<u8>| serde_json::from_slice::<Value>(&bytes).unwrap();
    let (one, other) = (read(spdx(&contents)), read(cyclonedx(&contents)));
    assert_eq!(one["packages"][1]["name"], "models/weights/0.bin");
    assert_eq!(one["packages"][1]["checksums"][0]["checksumValue"], sha256.as_str());
    assert_eq!(other["components"][0]["hashes"][0]["content"], sha256.as_str());
    assert_eq!(other["metadata"]["component"]["type"], "machine-learning-model");
    assert_eq!((spdx(&contents), cyclonedx(&contents)), (spdx(&contents), cyclonedx(&contents)));
}
