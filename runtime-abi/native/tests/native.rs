//! The library as a C host sees it: header, exports, and `host.c` over real artefacts.

use oaax_testkit::{folder, programs, run as run_command, write_model};
use std::path::{Path, PathBuf};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The library that this test was built with.
fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its path");
    test.parent().expect("in a folder").join("liboaaxc_rt.so")
}

#[test]
fn the_header_stands_alone_in_c99_and_cpp11() {
    let header = format!("{ROOT}/include/oaaxc_rt.h");
    let common = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"];
    run_command("gcc", &[&common[..], &["-std=c99", "-x", "c", &header]].concat());
    run_command("g++", &[&common[..], &["-std=c++11", "-x", "c++", &header]].concat());
}

#[test]
fn one_symbol_is_exported() {
    let symbols = run_command("nm", &["-D", "--defined-only", library().to_str().expect("UTF-8")]);
    let names: Vec<&str> = symbols.lines().filter_map(|line| line.split_whitespace().last()).collect();
    assert_eq!(names, ["oaaxc_rt_get_api"]);
}

#[test]
fn a_c_host_introspects_runs_and_fails_well() {
    let folder = folder("native");
    for program in [programs::scaled_sum(), programs::gather()] {
        write_model(&program, &folder.join(format!("{}.oaax", program.name)));
    }
    let host = folder.join("host");
    let (source, include) = (format!("{ROOT}/tests/host.c"), format!("-I{ROOT}/include"));
    let host = host.to_str().expect("UTF-8");
    run_command("gcc", &["-std=gnu99", "-Wall", "-Wextra", "-Werror", "-g", &include, &source, "-o", host, "-ldl", "-lpthread"]);
    run_command(host, &[library().to_str().expect("UTF-8"), path(&folder)]);
}

fn path(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}
