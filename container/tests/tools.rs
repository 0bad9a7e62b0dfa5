//! Real tools take what the writers make: skopeo, umoci, GNU tar, Python's tarfile.
//!
//! A tool that is not installed fails its test with the name of the package to install.

mod common;

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use oaaxc_container::{Platform, inspect, open, write_archive, write_layout};

fn run(program: &str, arguments: &[&str]) -> Output {
    match Command::new(program).args(arguments).output() {
        Ok(output) => output,
        Err(error) => {
            panic!("{program} cannot be started ({error}); install it: apt-get install {program}")
        }
    }
}

fn succeed(program: &str, arguments: &[&str]) -> String {
    let output = run(program, arguments);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{program} {arguments:?}\n{stdout}\n{stderr}");
    stdout.into_owned()
}

/// Skopeo without a policy of the machine: these are local files.
fn skopeo_copy(flags: &[&str], from: &str, to: &str) {
    let mut arguments = vec!["--insecure-policy", "copy"];
    arguments.extend(flags);
    arguments.extend([from, to]);
    succeed("skopeo", &arguments);
}

fn unpack(image: &str, bundle: &Path) {
    let user = succeed("id", &["-u"]);
    let rootless: &[&str] = if user.trim() == "0" { &[] } else { &["--rootless"] };
    let bundle = bundle.display().to_string();
    succeed("umoci", &[&["unpack"], rootless, &["--image", image, &bundle]].concat());
}

fn package() -> oaaxc_container::Package {
    let mut package = common::package();
    package.platforms.push(Platform { targets: vec!["cpu".to_owned()], ..Platform::linux("arm64") });
    package
}

#[test]
fn skopeo_copies_the_archive_with_every_digest_and_umoci_unpacks_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let written = write_archive(&package(), Path::new(&at("model.oaax"))).unwrap();
    let source = format!("oci-archive:{}", at("model.oaax"));
    skopeo_copy(&["--all", "--preserve-digests"], &source, &format!("oci:{}:v1", at("copy")));
    let index = fs::read_to_string(Path::new(&at("copy")).join("index.json")).unwrap();
    assert!(index.contains(&written.index.to_string()), "{index}");
    let copy = open(Path::new(&at("copy"))).unwrap();
    assert_eq!(copy.verify().unwrap().files, 6);
    // umoci cannot choose in an index; one image of it can be unpacked.
    skopeo_copy(&["--preserve-digests"], &source, &format!("oci:{}:one", at("single")));
    unpack(&format!("{}:one", at("single")), Path::new(&at("bundle")));
    check_root(&Path::new(&at("bundle")).join("rootfs"));
}

#[test]
fn skopeo_copies_the_layout_without_flags_and_umoci_unpacks_every_image() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let written = write_layout(&package(), Path::new(&at("layout"))).unwrap();
    let source = format!("oci:{}:v1", at("layout"));
    skopeo_copy(&["--all", "--preserve-digests"], &source, &format!("oci:{}:v1", at("exact")));
    // Stored gzip is why the digest also survives a copy that does not ask for it.
    skopeo_copy(&["--all"], &source, &format!("oci:{}:v1", at("plain")));
    for copy in ["exact", "plain"] {
        let index = fs::read_to_string(Path::new(&at(copy)).join("index.json")).unwrap();
        assert!(index.contains(&written.index.to_string()), "{copy}: {index}");
        open(Path::new(&at(copy))).unwrap().verify().unwrap();
    }
    for reference in ["v1-amd64", "v1-arm64", "v1-amd64-cpu", "v1-amd64-rocm-gfx942"] {
        let bundle = at(reference);
        unpack(&format!("{}:{reference}", at("layout")), Path::new(&bundle));
        let models = Path::new(&bundle).join("rootfs/models");
        let opened = open(&models).unwrap();
        opened.verify().unwrap();
        assert_eq!(opened.has_variant("cpu"), reference != "v1-amd64-rocm-gfx942", "{reference}");
        assert_eq!(opened.has_variant("rocm:gfx942"), reference.contains("rocm") || reference == "v1-amd64", "{reference}");
    }
    check_root(&Path::new(&at("v1-amd64")).join("rootfs"));
}

/// The unpacked image: the model opens and verifies, modes are those of the format.
fn check_root(root: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let opened = open(&root.join("models")).unwrap();
    assert_eq!(opened.verify().unwrap().files, 6);
    let mode = |path: &str| fs::metadata(root.join(path)).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode("usr/bin/oaax-run"), 0o555);
    assert_eq!(mode("usr/lib/liboaaxc_rt.so"), 0o444);
    assert_eq!(mode("models/weights/0.bin"), 0o444);
    assert_eq!(mode("models/weights"), 0o755);
}

#[test]
fn an_archive_that_skopeo_wrote_reads_too() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    write_layout(&package(), Path::new(&at("layout"))).unwrap();
    let copy = at("copy.tar");
    skopeo_copy(&["--all"], &format!("oci:{}:v1", at("layout")), &format!("oci-archive:{copy}:v1"));
    let opened = open(Path::new(&copy)).unwrap();
    assert_eq!(opened.verify().unwrap().files, 6);
}

#[test]
fn skopeo_takes_the_archive_as_a_docker_archive() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.oaax");
    write_archive(&package(), &path).unwrap();
    let text = succeed("skopeo", &["inspect", "--config", &format!("docker-archive:{}", path.display())]);
    assert!(text.contains("65532:65532") && text.contains("/usr/bin/oaax-run"), "{text}");
}

#[test]
fn gnu_tar_and_python_list_the_archive_and_each_of_its_layers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.oaax");
    write_archive(&package(), &path).unwrap();
    let outer = folder.path().join("outer");
    fs::create_dir(&outer).unwrap();
    let (archive, out) = (path.display().to_string(), outer.display().to_string());
    assert!(succeed("tar", &["-tvf", &archive]).contains("index.json"));
    succeed("tar", &["-xf", &archive, "-C", &out]);
    let script = "import sys, tarfile\n\
        for m in tarfile.open(sys.argv[1], 'r:'):\n    print(m.name, m.size, m.offset_data % 65536, oct(m.mode), m.uid, m.mtime)";
    let mut listed = Vec::new();
    for layer in inspect(&path).unwrap().layers {
        let blob = outer.join("blobs/sha256").join(layer.digest.hex()).display().to_string();
        let python = succeed("python3", &["-c", script, &blob]);
        let gnu = run("tar", &["-tf", &blob]);
        assert!(gnu.status.success() && gnu.stderr.is_empty(), "{}", String::from_utf8_lossy(&gnu.stderr));
        let names: Vec<String> =
            String::from_utf8_lossy(&gnu.stdout).lines().map(|line| line.trim_end_matches('/').to_owned()).collect();
        assert_eq!(python.lines().map(|line| line.split(' ').next().unwrap()).collect::<Vec<_>>(), names);
        for line in python.lines().filter(|line| line.contains("0o444") || line.contains("0o555")) {
            let fields: Vec<&str> = line.split(' ').collect();
            assert_eq!((fields[2], fields[4], fields[5]), ("0", "0", "0"), "{line}");
            listed.push(fields[0].to_owned());
        }
    }
    assert_eq!(listed.len(), 9);
    assert!(listed.contains(&"models/oaax.json".to_owned()));
}
