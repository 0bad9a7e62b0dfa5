//! The library as an OAAX host sees it: header, exports, and `host.c`, which goes through the
//! checklist R2-1 to R2-19 over real artefacts.

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
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("oaax2");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("cargo's folder is writable");
        oaax_library(2, &folder.join("libRuntimeLibrary.so"));
        let all = [
            programs::scaled_sum(),
            programs::gather(),
            programs::nonzero(),
            programs::counting(true),
            programs::cells(),
            programs::strings(),
            programs::wide(),
        ];
        for program in all {
            write_model(&program, &folder.join(format!("{}.oaax", program.name)));
        }
        let (source, include) = (format!("{ROOM}/tests/host.c"), format!("-I{ROOM}/include"));
        let host = folder.join("host");
        run(
            "gcc",
            &["-std=gnu99", "-Wall", "-Wextra", "-Werror", "-g", &include, &source, "-o", text(&host), "-ldl", "-lpthread"],
        );
        folder
    })
}

/// Runs one part of `host.c`.
fn host(part: &str) {
    let folder = setup();
    run(text(&folder.join("host")), &[text(&folder.join("libRuntimeLibrary.so")), text(folder), part]);
}

#[test]
fn r2_1_exactly_nine_symbols_under_one_version_node() {
    let listing = run("nm", &["-D", "--defined-only", "--with-symbol-versions", text(&setup().join("libRuntimeLibrary.so"))]);
    let mut names: Vec<&str> = listing.lines().filter_map(|line| line.split_whitespace().last()).collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "OAAX_V2", // The node itself, an absolute symbol.
            "runtime_cleanup@@OAAX_V2",
            "runtime_enqueue_input@@OAAX_V2",
            "runtime_get_error@@OAAX_V2",
            "runtime_get_info@@OAAX_V2",
            "runtime_get_name@@OAAX_V2",
            "runtime_get_version@@OAAX_V2",
            "runtime_init@@OAAX_V2",
            "runtime_load_models@@OAAX_V2",
            "runtime_retrieve_output@@OAAX_V2",
        ]
    );
    let header = format!("{ROOM}/include/oaax_runtime.h");
    let common = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"];
    run("gcc", &[&common[..], &["-std=c99", "-x", "c", &header]].concat());
    run("g++", &[&common[..], &["-std=c++11", "-x", "c++", &header]].concat());
}

#[test]
fn r2_2_structs_have_the_published_layout() {
    host("layout");
}

#[test]
fn r2_3_and_4_calls_before_init() {
    host("before_init");
}

#[test]
fn r2_5_and_6_init_and_its_keys() {
    host("init");
}

#[test]
fn r2_7_and_8_loading() {
    host("loading");
}

#[test]
fn r2_9_and_10_loading_from_memory_and_several_models() {
    host("memory");
}

#[test]
fn r2_11_wrong_inputs_stay_the_callers() {
    host("wrong_inputs");
}

#[test]
fn r2_12_and_14_queues_and_timeouts() {
    host("queues");
}

#[test]
fn r2_13_many_threads_and_models() {
    host("many_threads");
}

#[test]
fn r2_16_a_failed_request_is_reported() {
    host("failure");
}

#[test]
fn r2_17_and_18_cleanup_wakes_frees_and_leaves_no_thread() {
    host("cleanup");
}

#[test]
fn r2_19_the_library_is_really_unmapped() {
    host("unload");
}

#[test]
fn r2_19_unloading_or_leaving_without_cleanup_does_not_crash() {
    host("unload_without_cleanup");
    host("exit_without_cleanup");
}

#[test]
fn r2_22_info_is_a_compact_json_object() {
    host("info");
}

#[test]
fn r2_15_valgrind_finds_no_fault_and_no_leak() {
    let folder = setup();
    for part in ["loading", "memory", "wrong_inputs", "failure", "info"] {
        valgrind(&folder.join("host"), &[text(&folder.join("libRuntimeLibrary.so")), text(folder), part]);
    }
}

#[test]
fn r2_15_the_address_sanitizer_finds_no_fault_and_no_leak() {
    let (folder, include) = (setup(), format!("-I{ROOM}/include"));
    let (source, host) = (format!("{ROOM}/tests/host.c"), folder.join("host-asan"));
    let flags = ["-std=gnu99", "-g", "-fsanitize=address", "-fno-omit-frame-pointer", &include, &source, "-o", text(&host)];
    run("gcc", &[&flags[..], &["-ldl", "-lpthread"]].concat());
    for part in ["memory", "wrong_inputs", "failure", "many_threads"] {
        run(text(&host), &[text(&folder.join("libRuntimeLibrary.so")), text(folder), part]);
    }
}
