//! What the writers promise: alignment, equal bytes, agreement of the two encodings, all or nothing.

mod common;

use std::{fs, io::Read, os::unix::fs::FileExt, path::Path, process::Command};

use common::tree;
use oaaxc_container::{
    ALIGNMENT, Data, Expectation, Form, Package, Platform, inspect, open, open_bytes, target_folder, write_archive, write_layout,
};

fn content(package: &Package, path: &str) -> Vec<u8> {
    use oaaxc_container::Part;
    match &package.files.iter().find(|file| file.path == path).unwrap().data {
        Data::Bytes(bytes) => bytes.to_vec(),
        Data::Parts(parts) => parts
            .iter()
            .flat_map(|part| match part {
                Part::Bytes(bytes) => bytes.to_vec(),
                Part::Zeros(count) => vec![0; *count as usize],
            })
            .collect(),
        Data::File(path) => fs::read(path).unwrap(),
    }
}

#[test]
fn every_file_of_an_archive_can_be_mapped_in_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.oaax");
    let package = common::package();
    write_archive(&package, &path).unwrap();
    let opened = open(&path).unwrap();
    assert_eq!(opened.form(), Form::Archive);
    assert_eq!(opened.files().count(), package.files.len());
    for (name, file) in opened.files() {
        let range = opened.range(name).unwrap();
        assert_eq!(range.offset % ALIGNMENT, 0, "{name}");
        assert_eq!(range.length, file.entry.size);
        let mut bytes = vec![0; range.length as usize];
        range.file.read_exact_at(&mut bytes, range.offset).unwrap();
        assert_eq!(bytes, content(&package, name), "{name}");
        assert_eq!(opened.read(name, u64::MAX).unwrap(), bytes);
    }
    let verified = opened.verify().unwrap();
    assert_eq!((verified.files, verified.layers), (package.files.len(), opened.report().layers.len()));
}

#[test]
fn the_tar_crate_sees_the_same_files_aligned_in_every_layer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.oaax");
    write_archive(&common::package(), &path).unwrap();
    let bytes = fs::read(&path).unwrap();
    let mut files = 0;
    let mut outer = tar::Archive::new(bytes.as_slice());
    for blob in outer.entries().unwrap().map(Result::unwrap) {
        let start = blob.raw_file_position();
        let name = blob.path().unwrap().display().to_string();
        let data = &bytes[start as usize..(start + blob.size()) as usize];
        if !name.starts_with("blobs/") || data.is_empty() || data[0] == b'{' {
            continue;
        }
        assert_eq!(start % ALIGNMENT, 0, "{name}");
        for mut file in tar::Archive::new(data).entries().unwrap().map(Result::unwrap) {
            assert_eq!((file.header().uid().unwrap(), file.header().mtime().unwrap()), (0, 0));
            let path = file.path().unwrap().display().to_string();
            let mode = file.header().mode().unwrap();
            if file.header().entry_type().is_dir() {
                assert_eq!(mode, 0o755, "{path}");
                continue;
            }
            assert_eq!(mode, if path == "usr/bin/oaax-run" { 0o555 } else { 0o444 }, "{path}");
            assert_eq!((start + file.raw_file_position()) % ALIGNMENT, 0, "{path}");
            let mut whole = Vec::new();
            file.read_to_end(&mut whole).unwrap();
            files += 1;
        }
    }
    // Six files, oaax.json, two runtime files.
    assert_eq!(files, 9);
}

#[test]
fn both_encodings_hold_the_same_package_and_know_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let (archive, layout) = (folder.path().join("a.oaax"), folder.path().join("b"));
    let package = common::package();
    let written = write_archive(&package, &archive).unwrap();
    let registry = write_layout(&package, &layout).unwrap();
    assert_eq!(written.registry_index, registry.index);
    assert_ne!(written.index, registry.index);
    assert_eq!(written.manifest, registry.manifest);
    let (archive, layout) = (inspect(&archive).unwrap(), inspect(&layout).unwrap());
    assert_eq!(archive.manifest, layout.manifest);
    let diff_ids = |report: &oaaxc_container::Report| report.layers.iter().map(|layer| layer.diff_id).collect::<Vec<_>>();
    assert_eq!(diff_ids(&archive), diff_ids(&layout));
    assert_eq!(archive.registry["index"], registry.index.to_string());
    for (position, image) in layout.images.iter().enumerate() {
        assert_eq!(archive.registry[&format!("manifest.{position}")], image.digest.to_string());
    }
    for layer in &layout.layers {
        assert!(layer.gzip);
        assert_eq!(archive.registry[&format!("layer.{}", layer.diff_id.hex())], layer.digest.to_string());
    }
    assert_eq!(archive.variants_present, ["cpu", "rocm:gfx942"]);
    serde_json::to_string(&archive).unwrap();
}

#[test]
fn a_layout_reads_and_verifies_as_the_archive_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("layout");
    let package = common::package();
    write_layout(&package, &path).unwrap();
    let opened = open(&path).unwrap();
    assert_eq!(opened.form(), Form::Layout);
    assert_eq!(opened.verify().unwrap().files, package.files.len());
    assert!(opened.range("weights/0.bin").is_none());
    assert_eq!(opened.read("weights/0.bin", u64::MAX).unwrap(), content(&package, "weights/0.bin"));
    assert!(opened.read("weights/0.bin", 10).unwrap_err().to_string().contains("more than 10"));
    assert!(opened.read("weights/9.bin", 10).is_err());
}

#[test]
fn one_image_per_platform_comes_first_then_one_per_target() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.oaax");
    let mut package = common::package();
    package.platforms.push(Platform { targets: vec!["cpu".to_owned()], ..Platform::linux("arm64") });
    write_archive(&package, &path).unwrap();
    let report = inspect(&path).unwrap();
    let rows: Vec<(String, String, bool)> =
        report.images.iter().map(|image| (image.platform.clone(), image.targets.join(","), image.slim)).collect();
    let row = |platform: &str, targets: &str, slim| (platform.to_owned(), targets.to_owned(), slim);
    assert_eq!(
        rows,
        [
            row("linux/amd64", "cpu,rocm:gfx942", false),
            row("linux/arm64", "cpu", false),
            row("linux/amd64", "cpu", true),
            row("linux/amd64", "rocm:gfx942", true),
        ]
    );
    assert_eq!(report.layers.iter().filter(|layer| layer.role.as_deref() == Some("weights")).count(), 1);
    package.options.slim = false;
    write_archive(&package, &path).unwrap();
    assert_eq!(inspect(&path).unwrap().images.len(), 2);
}

/// Run again by the test below in another folder, time zone, locale and umask.
#[test]
fn write_where_told() {
    if let Ok(folder) = std::env::var("OAAXC_TEST_WRITE") {
        write_archive(&common::package(), &Path::new(&folder).join("m.oaax")).unwrap();
        write_layout(&common::package(), &Path::new(&folder).join("m")).unwrap();
    }
}

#[test]
fn folder_time_zone_locale_and_umask_leave_no_trace() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    for (folder, (umask, zone, locale)) in folders.iter().zip([("022", "UTC", "C"), ("077", "Asia/Tokyo", "de_DE.UTF-8")]) {
        let status = Command::new("sh")
            .args(["-c", r#"umask "$0"; exec "$1" --exact write_where_told"#, umask])
            .arg(std::env::current_exe().unwrap())
            .env("OAAXC_TEST_WRITE", folder.path())
            .envs([("TZ", zone), ("LC_ALL", locale)])
            .output()
            .unwrap();
        assert!(status.status.success(), "{}", String::from_utf8_lossy(&status.stdout));
    }
    let (first, second) = (tree(folders[0].path()), tree(folders[1].path()));
    assert!(first.len() > 10);
    assert!(first == second, "the two builds differ");
}

#[test]
fn created_follows_the_options_and_nothing_else_does() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m");
    let mut package = common::tiny_package();
    write_layout(&package, &path).unwrap();
    assert!(tree(&path).iter().any(|(_, bytes)| String::from_utf8_lossy(bytes).contains("1970-01-01T00:00:00Z")));
    let digests = |path: &Path| inspect(path).unwrap().layers.iter().map(|layer| layer.digest).collect::<Vec<_>>();
    let before = digests(&path);
    package.options.created = 951_782_400;
    write_layout(&package, &path).unwrap();
    assert!(tree(&path).iter().any(|(_, bytes)| String::from_utf8_lossy(bytes).contains("2000-02-29T00:00:00Z")));
    assert_eq!(before, digests(&path));
}

#[test]
fn bytes_parts_and_files_give_the_same_archive() {
    let folder = tempfile::tempdir().unwrap();
    let whole = common::package();
    let mut files = whole.clone();
    for (position, file) in files.files.iter_mut().enumerate() {
        let path = folder.path().join(position.to_string());
        fs::write(&path, content(&whole, &file.path)).unwrap();
        file.data = Data::File(path);
    }
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    assert_eq!(write_archive(&whole, &a).unwrap(), write_archive(&files, &b).unwrap());
    let bytes = fs::read(&a).unwrap();
    assert!(bytes == fs::read(&b).unwrap());
    let opened = open_bytes(bytes.into(), &Expectation::default()).unwrap();
    opened.verify().unwrap();
}

#[test]
fn a_target_id_becomes_one_folder() {
    assert_eq!(target_folder("cpu:x86-64-v3"), "targets/cpu-x86-64-v3");
    assert_eq!(target_folder("a/../b"), "targets/a-..-b");
}
