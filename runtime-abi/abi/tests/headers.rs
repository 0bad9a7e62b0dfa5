//! The C header stands alone, in C99 and in C++11, and the hand-written kernels build without libc.

use std::{path::Path, process::Command};

fn compile(compiler: &str, arguments: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(compiler).args(arguments).current_dir(root).output().expect("a C compiler");
    assert!(output.status.success(), "{compiler} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_kernel_header_compiles_as_c99_and_cpp11() {
    let common = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-Iinclude"];
    compile("gcc", &[&common[..], &["-std=c99", "-x", "c", "include/oaaxc_kernel.h"]].concat());
    compile("g++", &[&common[..], &["-std=c++11", "-x", "c++", "include/oaaxc_kernel.h"]].concat());
}

#[test]
fn the_demo_kernels_need_no_library() {
    let object = std::env::temp_dir().join(format!("oaax-demo-{}.so", std::process::id()));
    let path = object.to_str().expect("a UTF-8 path");
    compile(
        "gcc",
        &[
            "-std=c99",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-O2",
            "-shared",
            "-fPIC",
            "-nostdlib",
            "-ffreestanding",
            "-fno-builtin",
            "-fno-tree-loop-distribute-patterns",
            "-Wl,--no-undefined",
            "-Iinclude",
            "demo.c",
            "-o",
            path,
        ],
    );
    std::fs::remove_file(object).expect("written above");
}
