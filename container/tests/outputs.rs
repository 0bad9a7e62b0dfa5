//! Outputs appear whole or not at all; unpacked folders are read with care.

mod common;

use std::{fs, path::Path, process::Command};

use common::tree;
use oaaxc_container::{
    Data, Expectation, Form, Package, PackageFile, Platform, Role, open, open_with, write_archive, write_layout,
};

#[test]
fn an_older_output_is_replaced_and_a_stranger_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let package = common::tiny_package();
    fs::write(at("m.oaax"), "old").unwrap();
    write_archive(&package, &at("m.oaax")).unwrap();
    open(&at("m.oaax")).unwrap();
    write_layout(&package, &at("layout")).unwrap();
    fs::write(at("layout/stale"), "x").unwrap();
    write_layout(&package, &at("layout")).unwrap();
    assert!(!at("layout/stale").exists());
    fs::create_dir(at("mine")).unwrap();
    write_layout(&package, &at("mine")).unwrap();
    fs::create_dir_all(at("other/things")).unwrap();
    assert!(write_layout(&package, &at("other")).is_err());
    assert!(write_archive(&package, &at("other")).is_err());
    assert!(write_layout(&package, &at("m.oaax")).is_err());
    assert!(at("other/things").is_dir());
    let mut names: Vec<String> =
        fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["layout", "m.oaax", "mine", "other"]);
}

/// Run again by the test below where no file may grow beyond a limit, as on a full disk.
#[test]
fn write_without_room() {
    if let Ok(folder) = std::env::var("OAAXC_TEST_FULL") {
        for error in [
            write_archive(&common::package(), &Path::new(&folder).join("m.oaax")).unwrap_err(),
            write_layout(&common::package(), &Path::new(&folder).join("m")).unwrap_err(),
        ] {
            assert!(error.to_string().starts_with("cannot write"), "{error}");
        }
    }
}

#[test]
fn a_full_disk_leaves_what_was_there_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("m.oaax"), "old").unwrap();
    let output = Command::new("sh")
        .args(["-c", r#"trap "" XFSZ; ulimit -f 1000; exec "$0" --exact write_without_room"#])
        .arg(std::env::current_exe().unwrap())
        .env("OAAXC_TEST_FULL", folder.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(tree(folder.path()), [("m.oaax".to_owned(), b"old".to_vec())]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_package_that_contradicts_itself_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    type Change = fn(&mut Package);
    let cases: [(&str, Change); 14] = [
        ("no platform", |p| p.platforms.clear()),
        ("odd or stands twice", |p| p.platforms.push(Platform::linux("amd64"))),
        ("odd or stands twice", |p| p.platforms[0].architecture = "a/../b".to_owned()),
        ("not among the variants", |p| p.platforms[0].targets.push("moon".to_owned())),
        ("not among the variants", |p| p.files[2].role = Role::Target("moon".to_owned())),
        ("not among the files", |p| p.manifest.variants[0].program = "x".to_owned()),
        ("stands twice", |p| p.manifest.variants[1].id = "cpu".to_owned()),
        ("given twice", |p| p.files[0].path = "weights/0.bin".to_owned()),
        ("lies in it", |p| p.files[5].path = "weights/0.bin/x".to_owned()),
        ("component . or ..", |p| p.files[0].path = "../x".to_owned()),
        ("not given as a file", |p| p.files[0].path = "oaax.json".to_owned()),
        ("longer than 100", |p| p.files[0].path = "x".repeat(95)),
        ("under usr/", |p| p.platforms[0].runtime[0].path = "etc/passwd".to_owned()),
        ("would be refused", |p| p.manifest.critical.push("moon".to_owned())),
    ];
    for (expected, change) in cases {
        let mut package = common::package();
        change(&mut package);
        let error = write_archive(&package, &folder.path().join("m")).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(write_layout(&package, &folder.path().join("m")).unwrap_err().to_string(), error);
    }
    let gone = PackageFile { path: "x".to_owned(), role: Role::Other, data: Data::File(folder.path().join("gone")) };
    let package = Package { files: vec![gone], platforms: vec![Platform::linux("amd64")], ..common::tiny_package() };
    assert!(write_archive(&package, &folder.path().join("m")).unwrap_err().to_string().contains("gone"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn an_unpacked_folder_is_bound_by_a_digest_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (archive, models) = (folder.path().join("a.oaax"), folder.path().join("models"));
    let package = common::package();
    let written = write_archive(&package, &archive).unwrap();
    open(&archive).unwrap().unpack(&models).unwrap();
    assert!(open(&archive).unwrap().unpack(&models).is_err(), "an existing folder is left alone");
    fs::write(models.join("stranger"), "x").unwrap();
    let expected = Expectation { manifest: Some(written.manifest), tag: None };
    let opened = open_with(&models, &expected).unwrap();
    assert_eq!((opened.form(), opened.bound()), (Form::Folder, true));
    assert_eq!(opened.verify().unwrap().files, package.files.len());
    assert_eq!(opened.range("targets/cpu/kernels.so").unwrap().offset, 0);
    let mut json = fs::read_to_string(models.join("oaax.json")).unwrap();
    json = json.replace("Small_Model", "Other_Model");
    fs::write(models.join("oaax.json"), json).unwrap();
    assert!(open_with(&models, &expected).is_err());
    assert!(!open(&models).unwrap().bound());
    fs::remove_file(models.join("targets/rocm-gfx942/program.bin")).unwrap();
    let slim = open(&models).unwrap();
    assert!(slim.has_variant("cpu") && !slim.has_variant("rocm:gfx942"));
    fs::remove_file(models.join("targets/cpu/program.bin")).unwrap();
    assert!(open(&models).is_err_and(|error| error.to_string().contains("missing")));
}

#[test]
fn links_and_pipes_in_an_unpacked_folder_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (archive, models) = (folder.path().join("a.oaax"), folder.path().join("models"));
    write_archive(&common::tiny_package(), &archive).unwrap();
    open(&archive).unwrap().unpack(&models).unwrap();
    let (weights, aside) = (models.join("weights"), folder.path().join("aside"));
    fs::rename(&weights, &aside).unwrap();
    std::os::unix::fs::symlink(&aside, &weights).unwrap();
    assert!(open(&models).is_err_and(|error| error.to_string().contains("link")));
    fs::remove_file(&weights).unwrap();
    fs::create_dir(&weights).unwrap();
    std::os::unix::fs::symlink(aside.join("0.bin"), weights.join("0.bin")).unwrap();
    assert!(open(&models).is_err_and(|error| error.to_string().contains("link")));
    fs::remove_file(weights.join("0.bin")).unwrap();
    assert!(Command::new("mkfifo").arg(weights.join("0.bin")).status().unwrap().success());
    assert!(open(&models).is_err_and(|error| error.to_string().contains("regular")));
}
