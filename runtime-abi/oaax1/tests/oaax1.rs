//! The library as an OAAX 1.x host sees it: header, exports, and `host.c`, which goes through the
//! checklist R1-1 to R1-10 over real artefacts, under valgrind too.

use oaax_testkit::{oaax_library, programs, run, valgrind, write_model};
use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

const ROOM: &str = env!("CARGO_MANIFEST_DIR");

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Library, host and models, made once.
fn setup() -> &'static Path {
    static SETUP: OnceLock<PathBuf> = OnceLock::new();
    SETUP.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("oaax1");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("cargo's folder is writable");
        oaax_library(1, &folder.join("libRuntimeLibrary.so"));
        let all = [programs::scaled_sum(), programs::gather(), programs::counting(true), programs::cells(), programs::half()];
        for program in all {
            write_model(&program, &folder.join(format!("{}.oaax", program.name)));
        }
        let (source, include) = (format!("{ROOM}/tests/host.c"), format!("-I{ROOM}/include"));
        let flags = ["-std=gnu99", "-Wall", "-Wextra", "-Werror", "-g", &include, &source, "-o"];
        run("gcc", &[&flags[..], &[text(&folder.join("host")), "-ldl", "-lpthread"]].concat());
        folder
    })
}

/// Runs one part of `host.c`.
fn host(part: &str) {
    let folder = setup();
    run(text(&folder.join("host")), &[text(&folder.join("libRuntimeLibrary.so")), text(folder), part]);
}

#[test]
fn r1_1_exactly_nine_symbols() {
    let listing = run("nm", &["-D", "--defined-only", text(&setup().join("libRuntimeLibrary.so"))]);
    let mut names: Vec<&str> = listing.lines().filter_map(|line| line.split_whitespace().last()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "receive_output",
            "runtime_destruction",
            "runtime_error_message",
            "runtime_initialization",
            "runtime_initialization_with_args",
            "runtime_model_loading",
            "runtime_name",
            "runtime_version",
            "send_input",
        ]
    );
    let header = format!("{ROOM}/include/oaax1_runtime.h");
    let common = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"];
    run("gcc", &[&common[..], &["-std=c99", "-x", "c", &header]].concat());
    run("g++", &[&common[..], &["-std=c++11", "-x", "c++", &header]].concat());
}

#[test]
fn r1_2_the_struct_has_the_published_layout() {
    host("layout");
}

#[test]
fn r1_3_init_either_way_and_its_keys() {
    host("init");
}

#[test]
fn r1_4_loading_one_model() {
    host("loading");
}

#[test]
fn r1_5_and_10_wrong_inputs_stay_the_callers_and_many_may_wait() {
    host("wrong_inputs");
}

#[test]
fn r1_6_receiving() {
    host("receiving");
}

#[test]
fn r1_7_and_9_two_threads_and_the_order() {
    host("two_threads");
}

#[test]
fn r1_8_destruction_and_a_hundred_cycles() {
    host("cycles");
}

#[test]
fn a_failed_request_is_reported_in_its_turn() {
    host("failure");
}

#[test]
fn the_library_is_really_unmapped() {
    host("unload");
}

#[test]
fn valgrind_finds_no_fault_and_no_leak() {
    let folder = setup();
    for part in ["loading", "wrong_inputs", "failure"] {
        valgrind(&folder.join("host"), &[text(&folder.join("libRuntimeLibrary.so")), text(folder), part]);
    }
}
