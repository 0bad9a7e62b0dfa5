//! Builds a tiny model and runs it: the main job through the command line.

mod common;

use common::{Place, floats, npy, text};

#[test]
fn an_artefact_runs_at_two_sizes() {
    let place = Place::with_tiny();
    place.succeed("build tiny.onnxtxt --target cpu:x86-64-v2 -o tiny.oaax");
    for (rows, values, expected) in [
        (1, vec![1.0, -1.0, 2.0], vec![2.0, -2.0, 8.0]),
        (2, vec![1.0, 1.0, 1.0, -1.0, 0.0, 0.5], vec![2.0, 3.0, 4.0, -1.0, 0.0, 2.0]),
    ] {
        place.write("x.npy", &npy(&[rows, 3], &values));
        place.succeed("run tiny.oaax --input x=x.npy --output out");
        assert_eq!(floats(place.read("out/y.npy")), expected);
    }
}

#[test]
fn a_model_runs_without_an_artefact_and_writes_pb() {
    let place = Place::with_tiny();
    let told = place.succeed("run tiny.onnxtxt --target cpu:x86-64-v2 --dim N=2 --output out --output-format pb --json");
    let told: serde_json::Value = serde_json::from_str(told.trim()).expect("one object");
    assert_eq!(told["inputs"][0]["dims"], serde_json::json!([2, 3]));
    assert_eq!(told["inputs"][0]["seeded"], true);
    assert!(place.file("out/y.pb").exists());
}

#[test]
fn seeds_decide_the_outputs() {
    let place = Place::with_tiny();
    place.succeed("build tiny.onnxtxt --target cpu:x86-64-v2 -o tiny.oaax --no-canary");
    let run = |seed: u32, folder: &str| {
        place.succeed(&format!("run tiny.oaax --seed {seed} --output {folder}"));
        place.read(&format!("{folder}/y.npy"))
    };
    assert_eq!(run(1, "a"), run(1, "b"));
    assert_ne!(run(1, "a"), run(2, "c"));
}

#[test]
fn a_layout_runs_like_an_archive() {
    let place = Place::with_tiny();
    place.succeed("build tiny.onnxtxt --target cpu:x86-64-v2 -o layout/");
    place.write("x.npy", &npy(&[1, 3], &[1.0, -1.0, 2.0]));
    place.succeed("run layout --input x=x.npy --output out");
    assert_eq!(floats(place.read("out/y.npy")), [2.0, -2.0, 8.0]);
}

#[test]
fn the_same_model_gives_the_same_bytes() {
    let place = Place::with_tiny();
    let other = Place::with_tiny();
    let build = |place: &Place, arguments: &str, environment: &[(&str, &str)]| {
        let mut command =
            place.command(&format!("build tiny.onnxtxt --target cpu:x86-64-v2,cpu:x86-64-v3 -o out.oaax {arguments}"));
        command.envs(environment.iter().copied());
        let output = command.output().expect("the program starts");
        assert!(output.status.success(), "{}", text(&output.stderr));
        place.read("out.oaax")
    };
    let first = build(&place, "--jobs 1", &[]);
    assert_eq!(first, build(&place, "--jobs 2", &[]), "warm cache, two jobs");
    assert_eq!(first, build(&place, "--no-cache", &[]), "no cache");
    assert_eq!(first, build(&other, "--jobs 2", &[("TZ", "Asia/Tokyo"), ("LC_ALL", "C"), ("HOME", "/nonexistent")]), "elsewhere");
}

#[test]
fn the_file_mode_follows_the_umask_and_the_bytes_do_not() {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::with_tiny();
    let build = |mask: &str| {
        let line = format!(
            "umask {mask} && exec {} build tiny.onnxtxt --target cpu:x86-64-v2 -o m{mask}.oaax",
            env!("CARGO_BIN_EXE_oaaxc")
        );
        let output = std::process::Command::new("sh")
            .args(["-c", &line])
            .current_dir(place.path())
            .env("OAAXC_CACHE", place.file("cache"))
            .output();
        let output = output.expect("a shell");
        assert!(output.status.success(), "{}", text(&output.stderr));
        let path = place.file(&format!("m{mask}.oaax"));
        (std::fs::read(&path).expect("an artefact"), std::fs::metadata(&path).expect("an artefact").permissions().mode() & 0o777)
    };
    let (open, closed) = (build("022"), build("077"));
    assert_eq!(open.0, closed.0);
    assert_eq!((open.1, closed.1), (0o644, 0o600));
}

#[test]
fn two_builds_at_once_share_a_cache() {
    let place = Place::with_tiny();
    let start = |name: &str| {
        let mut command = place.command(&format!("build tiny.onnxtxt --target cpu:x86-64-v2 -o {name}"));
        command.stderr(std::process::Stdio::null()).spawn().expect("the program starts")
    };
    let (mut a, mut b) = (start("a.oaax"), start("b.oaax"));
    assert!(a.wait().expect("a").success() && b.wait().expect("b").success());
    assert_eq!(place.read("a.oaax"), place.read("b.oaax"));
}

#[test]
fn an_artefact_that_cannot_be_written_leaves_nothing() {
    let place = Place::with_tiny();
    let shown = place.fail(1, "build tiny.onnxtxt --target cpu:x86-64-v2 -o missing/out.oaax");
    assert!(shown.contains("error[E0001]") && shown.contains("missing"), "{shown}");
    place.write("a-file", b"");
    place.fail(1, "build tiny.onnxtxt --target cpu:x86-64-v2 -o a-file/out.oaax");
    let left: Vec<_> = std::fs::read_dir(place.path()).expect("the folder").flatten().map(|e| e.file_name()).collect();
    assert!(left.iter().all(|name| ["tiny.onnxtxt", "a-file", "cache"].iter().any(|known| name == known)), "{left:?}");
}

#[test]
fn canaries_and_the_oracle_agree_with_the_artefact() {
    let place = Place::with_tiny();
    place.succeed("build tiny.onnxtxt --target cpu:x86-64-v2 -o tiny.oaax --verify-passes");
    assert!(place.succeed("verify tiny.oaax").contains("1 of 1 outputs agree with its canary"));
    assert!(place.succeed("verify tiny.oaax --model tiny.onnxtxt").contains("1 of 1 outputs agree with cpu:strict"));
}

#[test]
fn another_model_does_not_agree_and_the_first_node_is_named() {
    let place = Place::with_tiny();
    place.write("other.onnxtxt", common::TINY.replace("0, 2, 0", "0, 2.5, 0").as_bytes());
    place.succeed("build tiny.onnxtxt --target cpu:x86-64-v2 -o tiny.oaax");
    place.fail(4, "verify tiny.oaax --model other.onnxtxt");
}

#[test]
fn a_benchmark_checks_the_numbers_first() {
    let place = Place::with_tiny();
    place.succeed("build tiny.onnxtxt --target cpu:x86-64-v2 -o tiny.oaax");
    let told = place.succeed("bench tiny.oaax --iterations 20 --warmup 0 --json");
    let told: serde_json::Value = serde_json::from_str(told.trim()).expect("one object");
    assert_eq!(told["sides"][0]["runs"], 20);
    place.write("other.onnxtxt", common::TINY.replace("0, 2, 0", "0, 2.5, 0").as_bytes());
    let shown = place.fail(4, "bench tiny.oaax --model other.onnxtxt --iterations 1");
    assert!(shown.contains("no speed is measured for wrong numbers"), "{shown}");
}

#[test]
fn stages_are_shown_and_are_inputs() {
    let place = Place::with_tiny();
    place.succeed("build tiny.onnxtxt --target cpu:x86-64-v2 --emit graph,kernel,mlir,llvm,asm,object --emit-dir texts");
    assert!(!place.file("tiny.oaax").exists(), "with --emit alone no artefact is written");
    let names: Vec<String> = std::fs::read_dir(place.file("texts"))
        .expect("texts")
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    for extension in [".onnxtxt", ".kernel", ".mlir", ".ll", ".s", ".so"] {
        assert!(names.iter().any(|name| name.ends_with(extension)), "{extension} in {names:?}");
    }
    let graph = names.iter().find(|name| name.ends_with(".onnxtxt")).expect("a graph");
    let again = place.succeed(&format!("opt texts/{graph} --pass simplify"));
    assert!(again.contains("MatMul"), "{again}");
}

#[test]
fn a_closed_pipe_ends_quietly() {
    let place = Place::new();
    let line = format!("{} ops | head -n 1", env!("CARGO_BIN_EXE_oaaxc"));
    let output = std::process::Command::new("sh").args(["-c", &line]).current_dir(place.path()).output().expect("a shell");
    assert!(output.status.success());
    assert_eq!(text(&output.stderr), "");
}
