//! `oaaxc conformance` as a vendor runs it: findings one by one, as text and as JSON, and the exit code.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use oaax_testkit::{Folder, folder, root, run};
use serde_json::Value;

/// A runtime of `tests/oaax/broken` as a library.
fn library(files: &Folder, name: &str) -> PathBuf {
    let path = files.join("libRuntimeLibrary.so");
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let source = text(&root().join(format!("tests/oaax/broken/{name}.c")));
    let include = format!("-I{}", text(&root().join("runtime-abi/oaax2/include")));
    run("cc", &["-std=gnu99", "-shared", "-fPIC", &include, &source, "-o", &text(&path), "-lpthread", "-ldl"]);
    path
}

fn conformance(library: &Path, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_oaaxc"));
    command.args(["conformance", "--oaax"]).arg(library).args(more).env("NO_COLOR", "1");
    command.output().expect("the program starts")
}

#[test]
fn a_broken_rule_is_named_and_ends_with_1() {
    let files = folder("conformance-broken");
    let library = library(&files, "r2_16");
    let done = conformance(&library, &["--json", "--rule", "R2-4", "--rule", "r2-16"]);
    assert_eq!(done.status.code(), Some(1));
    let lines: Vec<Value> = done
        .stdout
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).expect("JSON"))
        .collect();
    let status = |index: usize| (lines[index]["rule"].as_str(), lines[index]["status"].as_str());
    assert_eq!((status(0), status(1)), ((Some("R2-4"), Some("holds")), (Some("R2-16"), Some("broken"))));
    assert!(lines[1]["detail"].as_str().is_some_and(|text| text.contains("never heard of again")));
    assert_eq!((lines.len(), &lines[2]["broken"]), (3, &Value::from(1)));
}

#[test]
fn a_sound_runtime_that_takes_plain_onnx_ends_with_0() {
    let files = folder("conformance-sound");
    let done = conformance(&library(&files, "sound2"), &["--rule", "R2-15", "--rule", "R2-16"]);
    let text = String::from_utf8_lossy(&done.stdout);
    assert_eq!(done.status.code(), Some(0), "{text}");
    assert!(text.ends_with("OAAX 2.0: 2 rules hold, 0 are broken, 0 cannot be checked\n"), "{text}");
}

#[test]
fn what_is_no_runtime_and_what_is_no_rule_are_refused() {
    let files = folder("conformance-none");
    let script = files.join("script");
    std::fs::write(&script, "#!/bin/sh\n").expect("writable");
    assert_eq!(conformance(&script, &[]).status.code(), Some(2));
    let done = conformance(&library(&files, "sound2"), &["--rule", "R1-1"]);
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("R2-23"));
}
