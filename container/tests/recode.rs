//! Archive and layout are two forms of one package: each becomes the other without loss.

mod common;

use std::fs;

use oaaxc_container::{Platform, inspect, open, to_archive, to_layout, write_archive, write_layout};

#[test]
fn an_archive_becomes_the_layout_that_it_announces_and_comes_back_byte_for_byte() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for (case, arm) in [("one", false), ("two", true)] {
        let mut package = common::package();
        if arm {
            package.platforms.push(Platform { targets: vec!["cpu".to_owned()], ..Platform::linux("arm64") });
        }
        let (archive, layout) = (at(&format!("{case}.oaax")), at(&format!("{case}.layout")));
        let written = write_archive(&package, &archive).unwrap();
        assert_eq!(to_layout(&archive, &layout, None).unwrap(), written.registry_index);
        open(&layout).unwrap().verify().unwrap();
        let straight = at(&format!("{case}.straight"));
        write_layout(&package, &straight).unwrap();
        let blobs = |path: &std::path::Path| common::tree(&path.join("blobs"));
        assert_eq!(blobs(&layout), blobs(&straight));
        let back = at(&format!("{case}.back.oaax"));
        assert_eq!(to_archive(&layout, &back, None).unwrap(), written.index);
        assert_eq!(fs::read(&back).unwrap(), fs::read(&archive).unwrap());
        assert!(to_layout(&archive, &layout, None).is_err(), "an existing folder is left alone");
    }
}

#[test]
fn an_archive_that_announces_another_registry_form_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("m.oaax");
    let written = write_archive(&common::tiny_package(), &archive).unwrap();
    let mut bytes = fs::read(&archive).unwrap();
    let announced = written.registry_index.hex();
    let at = bytes.windows(64).position(|window| window == announced.as_bytes()).unwrap();
    bytes[at] = if bytes[at] == b'0' { b'1' } else { b'0' };
    fs::write(&archive, bytes).unwrap();
    let error = to_layout(&archive, &folder.path().join("layout"), None).unwrap_err().to_string();
    assert!(error.contains("announces the registry form"), "{error}");
}

#[test]
fn a_damaged_layer_is_not_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("m.oaax");
    write_archive(&common::package(), &archive).unwrap();
    let size = inspect(&archive).unwrap().bytes;
    assert!(size > 2 << 20);
    let mut bytes = fs::read(&archive).unwrap();
    let weights = common::noise((2 << 20) + 777, 1);
    let at = bytes.windows(64).position(|window| window == &weights[200_000..200_064]).unwrap();
    bytes[at] ^= 4;
    fs::write(&archive, bytes).unwrap();
    assert!(to_layout(&archive, &folder.path().join("layout"), None).is_err());
    assert!(!folder.path().join("layout").exists());
}
