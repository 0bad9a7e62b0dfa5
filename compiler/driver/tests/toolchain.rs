//! The entry point of the OAAX toolchain image, held to the checklist TC-1 to TC-15: `oaaxc oaax-entry`
//! as the image runs it. What only an image can show is in `scripts/test-toolchain-image`.

use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use oaax_probe::{Outcome, Subject, Use, Version, check, models, rules};
use oaax_testkit::{Folder, folder, oaax_library, root};
use serde_json::Value;

/// A folder with an input, and one for the output that is not there yet.
struct Place {
    files: Folder,
    input: PathBuf,
    output: PathBuf,
}

fn place(name: &str, input: &str, bytes: &[u8]) -> Place {
    let files = folder(&format!("toolchain-{name}"));
    let (path, output) = (files.join(input), files.join("deep/er/build"));
    fs::write(&path, bytes).expect("the folder is writable");
    Place { files, input: path, output }
}

fn entry(arguments: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_oaaxc")).arg("oaax-entry").args(arguments).output().expect("the program starts")
}

/// Elements of the log, after the checks that every log must pass.
fn log(output: &Path) -> Vec<Value> {
    let text = fs::read(output.join("logs.json")).expect("there is a log");
    assert_eq!(text, fs::read(output.join("conversion-log.json")).expect("there is the other log"));
    let log: Value = serde_json::from_slice(&text).expect("the log is JSON");
    let log = log.as_array().expect("the log is an array").clone();
    assert!(log.iter().all(|element| element["Message"].is_string()), "{log:?}");
    log
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).expect("a folder").flatten().map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

impl Place {
    /// Converts, and must.
    fn convert(&self) -> Vec<Value> {
        let done = entry(&[&self.input, &self.output]);
        assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
        assert!(!done.stdout.is_empty() && done.stderr.is_empty(), "progress is on stdout, and nothing is wrong");
        assert_eq!(names(&self.output), ["conversion-log.json", "logs.json", "model.oaax"]);
        log(&self.output)
    }

    /// Fails with this exit code, leaves a log whose last element has this diagnostic code, and no model.
    fn fails(&self, exit: i32, code: &str) -> Value {
        let done = entry(&[&self.input, &self.output]);
        assert_eq!(done.status.code(), Some(exit), "{}", String::from_utf8_lossy(&done.stderr));
        assert!(!done.stderr.is_empty(), "errors are on stderr");
        assert_eq!(names(&self.output), ["conversion-log.json", "logs.json"]);
        let last = log(&self.output).pop().expect("elements");
        assert_eq!((&last["Message"], &last["Data"]["Code"]), (&Value::from("Conversion Failed"), &Value::from(code)), "{last}");
        assert!(last["Data"]["Error"].as_str().is_some_and(|text| !text.is_empty()));
        last
    }
}

#[test]
fn tc_1_exactly_two_arguments() {
    let path = Path::new("/tmp/x");
    for arguments in [&[][..], &[path][..], &[path, path, path][..]] {
        let done = entry(arguments);
        assert!(done.status.code().is_some_and(|code| code != 0));
        assert!(String::from_utf8_lossy(&done.stderr).contains("usage"));
    }
}

#[test]
fn tc_3_6_7_13_a_model_converts_with_its_log_and_always_to_the_same_bytes() {
    let place = place("model", "double.onnx", &models::double());
    let log = place.convert();
    let last = &log.last().expect("elements")["Data"];
    assert_eq!(log.last().expect("elements")["Message"], "Successful Conversion");
    assert!(
        log.iter().any(|element| element["Message"].as_str().is_some_and(|text| text.to_lowercase().contains("successfully")))
    );
    assert_eq!((&last["Output file name"], &last["Logs file name"]), (&Value::from("model.oaax"), &Value::from("logs.json")));
    assert_eq!(last["MIME type"], "application/x-oaax; device=cpu");
    let model = place.output.join("model.oaax");
    let bytes = fs::read(&model).expect("a model");
    let sum = |program: &str| {
        let text = oaax_testkit::run(program, &[model.to_str().expect("UTF-8")]);
        Value::from(text.split(' ').next().unwrap_or_default())
    };
    assert_eq!((&last["Output file MD5"], &last["Output file SHA-256"]), (&sum("md5sum"), &sum("sha256sum")));
    let mode = fs::metadata(&model).expect("a model").permissions().mode();
    assert!(
        mode & 0o600 == 0o600
            && mode & 0o044 == fs::metadata(place.output.join("logs.json")).expect("a log").permissions().mode() & 0o044
    );
    // Again, into the folder that is there now and holds another file.
    fs::write(place.output.join("other"), "stays").expect("writable");
    assert_eq!(entry(&[&place.input, &place.output]).status.code(), Some(0));
    assert_eq!(fs::read(&model).expect("a model"), bytes);
    assert_eq!(names(&place.output), ["conversion-log.json", "logs.json", "model.oaax", "other"]);
}

#[test]
fn tc_8_15_the_model_keeps_its_signature_and_runs_in_both_runtimes() {
    let place = place("runs", "double.onnx", &models::double());
    place.convert();
    let model = place.output.join("model.oaax");
    let scratch = place.files.join("checks");
    for (version, rule) in [(2, "R2-13"), (1, "R1-9")] {
        let library = place.files.join(format!("runtime{version}.so"));
        oaax_library(version, &library);
        let subject = Subject {
            library,
            model: Some(Use { path: model.clone(), ..models::use_double(&model) }),
            failing: None,
            folder: PathBuf::new(),
        };
        let worker = [OsString::from(env!("CARGO_BIN_EXE_oaaxc")), OsString::from(oaax_probe::WORKER_ARGUMENT)];
        let all = rules(if version == 2 { Version::Two } else { Version::One });
        let rule = all.iter().find(|known| known.id == rule).expect("a rule");
        assert_eq!(check(&subject, rule, &worker, Duration::from_secs(60), &scratch), Outcome::Holds);
    }
    let script = root().join("tests/oaax/hosts/info.py");
    let library = place.files.join("runtime2.so");
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let info = oaax_testkit::run("python3", &[&text(&script), &text(&library), &text(&model)]);
    let info: Value = serde_json::from_str(&info).expect("JSON");
    let port = |port: &Value| (port["name"].clone(), port["dtype"].clone(), port["shape"].clone());
    let wanted = |name: &str| (Value::from(name), Value::from("float"), Value::from(vec![1, 4]));
    assert_eq!(port(&info["models"][0]["inputs"][0]), wanted("x"));
    assert_eq!(port(&info["models"][0]["outputs"][0]), wanted("y"));
}

/// A zip of stored members, by the format's own fields.
fn zip(members: &[(&str, &[u8], u32)]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, content, mode) in members {
        let mut crc = flate2::Crc::new();
        crc.update(content);
        let mut common = vec![20, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        common.extend(crc.sum().to_le_bytes());
        common.extend((content.len() as u32).to_le_bytes());
        common.extend((content.len() as u32).to_le_bytes());
        common.extend((name.len() as u16).to_le_bytes());
        common.extend([0, 0]);
        directory.extend(b"PK\x01\x02\x14\x03");
        directory.extend(&common);
        directory.extend([0; 6]);
        directory.extend((mode << 16).to_le_bytes());
        directory.extend((out.len() as u32).to_le_bytes());
        directory.extend(name.as_bytes());
        out.extend(b"PK\x03\x04");
        out.extend(&common);
        out.extend(name.as_bytes());
        out.extend(*content);
    }
    let start = out.len() as u32;
    out.extend(&directory);
    out.extend(b"PK\x05\x06\0\0\0\0");
    out.extend((members.len() as u16).to_le_bytes());
    out.extend((members.len() as u16).to_le_bytes());
    out.extend((directory.len() as u32).to_le_bytes());
    out.extend(start.to_le_bytes());
    out.extend([0, 0]);
    out
}

fn tar_gz(build: impl FnOnce(&mut tar::Builder<flate2::write::GzEncoder<Vec<u8>>>)) -> Vec<u8> {
    let mut builder = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    build(&mut builder);
    builder.into_inner().and_then(|gz| gz.finish()).expect("memory")
}

fn add(builder: &mut tar::Builder<impl Write>, name: &str, content: &[u8]) {
    let mut header = tar::Header::new_ustar();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    // The name goes in as it is, without the crate's own checks.
    header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    header.set_cksum();
    builder.append(&header, content).expect("memory");
}

const FILE: u32 = 0o100_644;

#[test]
fn tc_5_archives_convert_whatever_the_order_of_their_members() {
    let (double, config) = (models::double(), br#"{"target": "cpu:x86-64-v2", "quantization": true}"#);
    let first = zip(&[("config.json", config, FILE), ("net/double.onnx", &double, FILE), ("calibration/a.bin", b"1", FILE)]);
    let other = zip(&[("calibration/a.bin", b"1", FILE), ("net/double.onnx", &double, FILE), ("config.json", config, FILE)]);
    let packed = tar_gz(|builder| {
        add(builder, "config.json", config);
        add(builder, "./double.onnx", &double);
    });
    let mut models = Vec::new();
    for (name, bytes) in [("first.zip", first), ("other.zip", other), ("third.tar.gz", packed)] {
        let place = place(name, name, &bytes);
        let log = place.convert();
        let warned = |element: &Value| element["Message"].as_str().is_some_and(|text| text.contains("quantization"));
        assert!(log.iter().any(warned), "a key that is not known is in the log");
        assert_eq!(log.last().expect("elements")["Data"]["MIME type"], "application/x-oaax; device=cpu:x86-64-v2");
        models.push(fs::read(place.output.join("model.oaax")).expect("a model"));
    }
    assert!(models[0] == models[1] && models[1] == models[2]);
}

#[test]
fn tc_5_archives_that_are_no_good_are_refused() {
    let double = models::double();
    let link = zip(&[("m.onnx", &double, FILE), ("l", b"/etc/passwd", 0o120_777)]);
    let mut damaged = zip(&[("m.onnx", &double, FILE)]);
    let content = damaged.windows(4).position(|window| window == b"only").expect("the node's name");
    damaged[content] ^= 1;
    let bomb = tar_gz(|builder| {
        let mut header = tar::Header::new_ustar();
        header.set_size(100 << 20);
        header.set_path("zeros").expect("a name");
        header.set_cksum();
        builder.append(&header, std::io::repeat(0).take(100 << 20)).expect("memory");
    });
    let linked = tar_gz(|builder| {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::Symlink);
        header.set_size(0);
        builder.append_link(&mut header, "l", "/etc/passwd").expect("memory");
        add(builder, "m.onnx", &double);
    });
    let cases: &[(&str, Vec<u8>)] = &[
        ("none.zip", zip(&[("config.json", b"{}", FILE)])),
        ("two.zip", zip(&[("a.onnx", &double, FILE), ("b.onnx", &double, FILE)])),
        ("up.zip", zip(&[("../m.onnx", &double, FILE)])),
        ("absolute.zip", zip(&[("/tmp/m.onnx", &double, FILE)])),
        ("windows.zip", zip(&[("..\\m.onnx", &double, FILE)])),
        ("twice.zip", zip(&[("m.onnx", &double, FILE), ("m.onnx", &double, FILE)])),
        ("link.zip", link),
        ("damaged.zip", damaged),
        ("cut.zip", zip(&[("m.onnx", &double, FILE)])[..60].to_vec()),
        ("up.tar.gz", tar_gz(|builder| add(builder, "../m.onnx", &double))),
        ("absolute.tar.gz", tar_gz(|builder| add(builder, "/tmp/m.onnx", &double))),
        ("link.tar.gz", linked),
        ("bomb.tar.gz", bomb),
        ("cut.tar.gz", tar_gz(|builder| add(builder, "m.onnx", &double))[..40].to_vec()),
    ];
    for (name, bytes) in cases {
        place(name, name, bytes).fails(2, "E0107");
    }
    let config = |text: &str| zip(&[("m.onnx", &double, FILE), ("config.json", text.as_bytes(), FILE)]);
    for text in ["[1]", "{", r#"{"dims": 3}"#, r#"{"dims": {"N": "x"}}"#, r#"{"model_file": "other.onnx"}"#, r#"{"target": 4}"#] {
        place("config", "config.zip", &config(text)).fails(2, "E0108");
    }
    place("precision", "precision.zip", &config(r#"{"precision": "int3"}"#)).fails(3, "E0202");
}

#[test]
fn tc_9_10_every_failure_has_its_code_and_its_log() {
    let double = models::double();
    let missing = place("missing", "double.onnx", &double);
    fs::remove_file(&missing.input).expect("it is there");
    missing.fails(1, "E0001");
    place("empty", "empty.onnx", b"").fails(2, "E0101");
    place("garbage", "garbage.onnx", &b"this is no model at all\n".repeat(40)).fails(2, "E0101");
    place("cut", "cut.onnx", &double[..double.len() - 9]).fails(2, "E0101");
    let last = place("unknown", "unknown.onnx", &models::unknown()).fails(3, "E0201");
    let error = &last["Data"]["errors"][0];
    assert!(error["origin"]["operator"].as_str().is_some_and(|text| text.contains("NoSuchOperator")), "{last}");
    assert_eq!(error["origin"]["node"], "only");
    // A folder that is a file cannot hold even a log.
    let place = place("unwritable", "double.onnx", &double);
    fs::create_dir_all(place.output.parent().expect("a folder")).expect("writable");
    fs::write(&place.output, "a file").expect("writable");
    let done = entry(&[&place.input, &place.output]);
    assert_eq!(done.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&done.stderr).contains("cannot be written"));
}

#[test]
fn tc_9_a_failure_takes_an_earlier_model_away() {
    let place = place("stale", "double.onnx", &models::double());
    place.convert();
    fs::write(&place.input, b"").expect("writable");
    place.fails(2, "E0101");
}
