//! What the writers promise: alignment, equal bytes, agreement of the two encodings, all or nothing.

mod common;

use std::{fs, io::Read, os::unix::fs::FileExt, path::Path, process::Command};

use oaaxc_container::{
    ALIGNMENT, Data, Expectation, Form, Package, PackageFile, Platform, Role, inspect, open,
    open_bytes, open_with, target_folder, write_archive, write_layout,
};

fn tree(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let mut queue = vec![folder.to_owned()];
    while let Some(next) = queue.pop() {
        for entry in fs::read_dir(next)
            .unwrap()
            .map(|entry| entry.unwrap().path())
        {
            match entry.is_dir() {
                true => queue.push(entry),
                false => files.push((
                    entry.strip_prefix(folder).unwrap().display().to_string(),
                    fs::read(&entry).unwrap(),
                )),
            }
        }
    }
    files.sort();
    files
}

fn content(package: &Package, path: &str) -> Vec<u8> {
    use oaaxc_container::Part;
    match &package
        .files
        .iter()
        .find(|file| file.path == path)
        .unwrap()
        .data
    {
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
    assert_eq!(
        (verified.files, verified.layers),
        (package.files.len(), opened.report().layers.len())
    );
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
        for mut file in tar::Archive::new(data)
            .entries()
            .unwrap()
            .map(Result::unwrap)
        {
            assert_eq!(
                (file.header().uid().unwrap(), file.header().mtime().unwrap()),
                (0, 0)
            );
            let path = file.path().unwrap().display().to_string();
            let mode = file.header().mode().unwrap();
            if file.header().entry_type().is_dir() {
                assert_eq!(mode, 0o755, "{path}");
                continue;
            }
            assert_eq!(
                mode,
                if path == "usr/bin/oaax-run" {
                    0o555
                } else {
                    0o444
                },
                "{path}"
            );
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
    let diff_ids = |report: &oaaxc_container::Report| {
        report
            .layers
            .iter()
            .map(|layer| layer.diff_id)
            .collect::<Vec<_>>()
    };
    assert_eq!(diff_ids(&archive), diff_ids(&layout));
    assert_eq!(archive.registry["index"], registry.index.to_string());
    for (position, image) in layout.images.iter().enumerate() {
        assert_eq!(
            archive.registry[&format!("manifest.{position}")],
            image.digest.to_string()
        );
    }
    for layer in &layout.layers {
        assert!(layer.gzip);
        assert_eq!(
            archive.registry[&format!("layer.{}", layer.diff_id.hex())],
            layer.digest.to_string()
        );
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
    assert_eq!(
        opened.read("weights/0.bin", u64::MAX).unwrap(),
        content(&package, "weights/0.bin")
    );
    assert!(
        opened
            .read("weights/0.bin", 10)
            .unwrap_err()
            .to_string()
            .contains("more than 10")
    );
    assert!(opened.read("weights/9.bin", 10).is_err());
}

#[test]
fn an_unpacked_folder_is_bound_by_a_digest_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (archive, models) = (folder.path().join("a.oaax"), folder.path().join("models"));
    let package = common::package();
    let written = write_archive(&package, &archive).unwrap();
    open(&archive).unwrap().unpack(&models).unwrap();
    assert!(
        open(&archive).unwrap().unpack(&models).is_err(),
        "an existing folder is left alone"
    );
    fs::write(models.join("stranger"), "x").unwrap();
    let expected = Expectation {
        manifest: Some(written.manifest),
        tag: None,
    };
    let opened = open_with(&models, &expected).unwrap();
    assert_eq!(opened.form(), Form::Folder);
    assert_eq!(opened.verify().unwrap().files, package.files.len());
    assert_eq!(opened.range("targets/cpu/kernels.so").unwrap().offset, 0);
    let mut json = fs::read_to_string(models.join("oaax.json")).unwrap();
    json = json.replace("Small_Model", "Other_Model");
    fs::write(models.join("oaax.json"), json).unwrap();
    assert!(open_with(&models, &expected).is_err());
    assert!(open(&models).is_ok());
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
    assert!(
        Command::new("mkfifo")
            .arg(weights.join("0.bin"))
            .status()
            .unwrap()
            .success()
    );
    assert!(open(&models).is_err_and(|error| error.to_string().contains("regular")));
}

#[test]
fn one_image_per_platform_comes_first_then_one_per_target() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.oaax");
    let mut package = common::package();
    package.platforms.push(Platform {
        targets: vec!["cpu".to_owned()],
        ..Platform::linux("arm64")
    });
    write_archive(&package, &path).unwrap();
    let report = inspect(&path).unwrap();
    let rows: Vec<(String, String, bool)> = report
        .images
        .iter()
        .map(|image| (image.platform.clone(), image.targets.join(","), image.slim))
        .collect();
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
    assert_eq!(
        report
            .layers
            .iter()
            .filter(|layer| layer.role.as_deref() == Some("weights"))
            .count(),
        1
    );
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
    for (folder, (umask, zone, locale)) in folders
        .iter()
        .zip([("022", "UTC", "C"), ("077", "Asia/Tokyo", "de_DE.UTF-8")])
    {
        let status = Command::new("sh")
            .args([
                "-c",
                r#"umask "$0"; exec "$1" --exact write_where_told"#,
                umask,
            ])
            .arg(std::env::current_exe().unwrap())
            .env("OAAXC_TEST_WRITE", folder.path())
            .envs([("TZ", zone), ("LC_ALL", locale)])
            .output()
            .unwrap();
        assert!(
            status.status.success(),
            "{}",
            String::from_utf8_lossy(&status.stdout)
        );
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
    assert!(
        tree(&path)
            .iter()
            .any(|(_, bytes)| String::from_utf8_lossy(bytes).contains("1970-01-01T00:00:00Z"))
    );
    let digests = |path: &Path| {
        inspect(path)
            .unwrap()
            .layers
            .iter()
            .map(|layer| layer.digest)
            .collect::<Vec<_>>()
    };
    let before = digests(&path);
    package.options.created = 951_782_400;
    write_layout(&package, &path).unwrap();
    assert!(
        tree(&path)
            .iter()
            .any(|(_, bytes)| String::from_utf8_lossy(bytes).contains("2000-02-29T00:00:00Z"))
    );
    assert_eq!(before, digests(&path));
}

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
    let mut names: Vec<String> = fs::read_dir(folder.path())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
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
        .args([
            "-c",
            r#"trap "" XFSZ; ulimit -f 1000; exec "$0" --exact write_without_room"#,
        ])
        .arg(std::env::current_exe().unwrap())
        .env("OAAXC_TEST_FULL", folder.path())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    assert_eq!(
        tree(folder.path()),
        [("m.oaax".to_owned(), b"old".to_vec())]
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_package_that_contradicts_itself_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    type Change = fn(&mut Package);
    let cases: [(&str, Change); 14] = [
        ("no platform", |p| p.platforms.clear()),
        ("odd or stands twice", |p| {
            p.platforms.push(Platform::linux("amd64"))
        }),
        ("odd or stands twice", |p| {
            p.platforms[0].architecture = "a/../b".to_owned()
        }),
        ("not among the variants", |p| {
            p.platforms[0].targets.push("moon".to_owned())
        }),
        ("not among the variants", |p| {
            p.files[2].role = Role::Target("moon".to_owned())
        }),
        ("not among the files", |p| {
            p.manifest.variants[0].program = "x".to_owned()
        }),
        ("stands twice", |p| {
            p.manifest.variants[1].id = "cpu".to_owned()
        }),
        ("given twice", |p| {
            p.files[0].path = "weights/0.bin".to_owned()
        }),
        ("lies in it", |p| {
            p.files[5].path = "weights/0.bin/x".to_owned()
        }),
        ("component . or ..", |p| p.files[0].path = "../x".to_owned()),
        ("not given as a file", |p| {
            p.files[0].path = "oaax.json".to_owned()
        }),
        ("longer than 100", |p| p.files[0].path = "x".repeat(95)),
        ("under usr/", |p| {
            p.platforms[0].runtime[0].path = "etc/passwd".to_owned()
        }),
        ("would be refused", |p| {
            p.manifest.critical.push("moon".to_owned())
        }),
    ];
    for (expected, change) in cases {
        let mut package = common::package();
        change(&mut package);
        let error = write_archive(&package, &folder.path().join("m"))
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
        assert_eq!(
            write_layout(&package, &folder.path().join("m"))
                .unwrap_err()
                .to_string(),
            error
        );
    }
    let gone = PackageFile {
        path: "x".to_owned(),
        role: Role::Other,
        data: Data::File(folder.path().join("gone")),
    };
    let package = Package {
        files: vec![gone],
        platforms: vec![Platform::linux("amd64")],
        ..common::tiny_package()
    };
    assert!(
        write_archive(&package, &folder.path().join("m"))
            .unwrap_err()
            .to_string()
            .contains("gone")
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
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
    assert_eq!(
        write_archive(&whole, &a).unwrap(),
        write_archive(&files, &b).unwrap()
    );
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
