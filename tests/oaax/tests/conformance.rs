//! The conformance kit itself: it passes a sound runtime of each version and our own libraries, and it
//! fails each of the deliberately broken ones in `broken/` by the rule that its file is named after.

use oaax_probe::{Outcome, Rule, Subject, Use, Version, check, detect, models, rules};
use oaax_testkit::{Folder, folder, oaax_library, programs, root, run, write_model};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    time::Duration,
};

const BROKEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/broken");

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn compile(source: &Path, library: &Path) {
    let include = |version: u32| format!("-I{}", text(&root().join(format!("runtime-abi/oaax{version}/include"))));
    let flags = ["-std=gnu99", "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC"];
    let map =
        |version: u32| format!("-Wl,--version-script={}", text(&root().join(format!("runtime-abi/oaax{version}/exports.map"))));
    let name = text(source);
    let version = if name.contains("r1_") || name.contains("sound1") { 1 } else { 2 };
    let mut arguments = flags.to_vec();
    let (include, map) = (include(version), map(version));
    arguments.extend([&include, name, "-o", text(library), "-lpthread", "-ldl"]);
    // The runtimes that export too much are those without a version script.
    if !name.ends_with("_1.c") {
        arguments.push(&map);
    } else {
        arguments.push("-fvisibility=default");
    }
    run("cc", &arguments);
}

/// A library with the ONNX models that the C runtimes load.
fn subject(library: PathBuf, files: &Path) -> Subject {
    let (double, pick) = (files.join("double.onnx"), files.join("pick.onnx"));
    std::fs::write(&double, models::double()).expect("the folder is writable");
    std::fs::write(&pick, models::pick()).expect("the folder is writable");
    let failing = Some(models::use_pick(&pick)).filter(|_| detect(&library) == Ok(Version::Two));
    Subject { library, model: Some(models::use_double(&double)), failing, folder: PathBuf::new() }
}

fn outcome(subject: &Subject, rule: &Rule, files: &Path) -> Outcome {
    let worker = [OsString::from(env!("CARGO_BIN_EXE_oaax-probe-worker"))];
    check(subject, rule, &worker, Duration::from_secs(20), files)
}

/// Every rule of its version holds for the library; those in `skipped` cannot be checked.
fn all_hold(subject: &Subject, files: &Folder, skipped: &[&str]) {
    let version = detect(&subject.library).expect("a runtime library");
    let faults: Vec<String> = rules(version)
        .iter()
        .filter_map(|rule| match outcome(subject, rule, files) {
            Outcome::Holds => None,
            Outcome::Skipped(_) if skipped.contains(&rule.id) => None,
            other => Some(format!("{}: {other:?}", rule.id)),
        })
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

fn sound(version: u32) {
    let files = folder(&format!("sound{version}"));
    let library = files.join("libRuntimeLibrary.so");
    compile(&Path::new(BROKEN).join(format!("sound{version}.c")), &library);
    all_hold(&subject(library, &files), &files, &[]);
}

#[test]
fn a_sound_runtime_of_oaax_2_holds_every_rule() {
    sound(2);
}

#[test]
fn a_sound_runtime_of_oaax_1_holds_every_rule() {
    sound(1);
}

/// Each broken runtime of a version fails by its rule; gives their number.
fn broken(prefix: &str) -> usize {
    let mut sources: Vec<PathBuf> =
        std::fs::read_dir(BROKEN).expect("the folder is there").flatten().map(|file| file.path()).collect();
    sources.sort();
    let files = folder(prefix);
    let (mut faults, mut seen) = (Vec::new(), 0);
    for source in sources {
        let name = source.file_stem().and_then(|name| name.to_str()).unwrap_or_default();
        let Some((version, number)) = name.split_once('_').filter(|_| name.starts_with(prefix)) else { continue };
        let id = format!("{}-{number}", version.to_uppercase());
        let place = files.join(name);
        std::fs::create_dir_all(&place).expect("the folder is writable");
        let library = place.join("libRuntimeLibrary.so");
        compile(&source, &library);
        let subject = subject(library, &place);
        let version = detect(&subject.library).expect("a runtime library");
        let all = rules(version);
        let rule = all.iter().find(|rule| rule.id == id).unwrap_or_else(|| panic!("{name} names no rule"));
        seen += 1;
        // The one that hangs need not do so for long.
        let limit = Duration::from_secs(if id == "R2-17" { 5 } else { 20 });
        let worker = [OsString::from(env!("CARGO_BIN_EXE_oaax-probe-worker"))];
        match check(&subject, rule, &worker, limit, &place) {
            Outcome::Broken(how) | Outcome::Crashed(how) | Outcome::Hung(how) => println!("{id}: {how}"),
            other => faults.push(format!("{name}: {other:?}")),
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    seen
}

#[test]
fn each_broken_runtime_of_oaax_2_fails_by_its_rule() {
    let seen = broken("r2_");
    assert!(seen == 23, "{seen} broken runtimes, there is one for each rule");
}

#[test]
fn each_broken_runtime_of_oaax_1_fails_by_its_rule() {
    let seen = broken("r1_");
    assert!(seen == 9, "{seen} broken runtimes, there is one for each rule");
}

/// Our own library of a version with artefacts of its own.
fn ours(version: u32) {
    let files = folder(&format!("ours{version}"));
    let library = files.join("libRuntimeLibrary.so");
    oaax_library(version, &library);
    let (double, pick) = (files.join("double.oaax"), files.join("pick.oaax"));
    write_model(&programs::double(), &double);
    write_model(&programs::pick(), &pick);
    let as_use = |path: &Path, like: Use| Use { path: path.to_owned(), ..like };
    let subject = Subject {
        library,
        model: Some(as_use(&double, models::use_double(&double))),
        failing: Some(as_use(&pick, models::use_pick(&pick))),
        folder: PathBuf::new(),
    };
    all_hold(&subject, &files, &[]);
}

#[test]
fn our_own_runtime_of_oaax_2_holds_every_rule() {
    ours(2);
}

#[test]
fn our_own_runtime_of_oaax_1_holds_every_rule() {
    ours(1);
}

#[test]
fn what_is_no_runtime_library_is_said() {
    let files = folder("no_library");
    let (script, source, other) = (files.join("script"), files.join("other.c"), files.join("other.so"));
    std::fs::write(&script, "#!/bin/sh\n").expect("the folder is writable");
    std::fs::write(&source, "int other(void) { return 1; }\n").expect("the folder is writable");
    run("cc", &["-shared", "-fPIC", text(&source), "-o", text(&other)]);
    for (path, part) in [(files.join("missing"), "cannot be read"), (script, "ELF"), (other, "no function of OAAX")] {
        let why = detect(&path).expect_err("no runtime");
        assert!(why.contains(part), "{why}");
    }
}
