//! Hosts of other kinds over our libraries: C++ in the upstream form, Python with ctypes, and one that
//! has several runtimes in its process.

use oaax_testkit::{
    Folder, folder,
    gpu::{self, Gpu},
    oaax_library, programs, root, run, stand_in, valgrind, write_model,
};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

const HOSTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/hosts");

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Our library of 2.0, and the two models.
fn setup(name: &str) -> (Folder, PathBuf, PathBuf, PathBuf) {
    let files = folder(name);
    let (library, double, pick) = (files.join("libRuntimeLibrary.so"), files.join("double.oaax"), files.join("pick.oaax"));
    oaax_library(2, &library);
    write_model(&programs::double(), &double);
    write_model(&programs::pick(), &pick);
    (files, library, double, pick)
}

fn include(version: u32) -> String {
    format!("-I{}", text(&root().join(format!("runtime-abi/oaax{version}/include"))))
}

#[test]
fn r2_23_a_cpp_host_in_the_upstream_form_works_unchanged() {
    let (files, library, double, pick) = setup("upstream");
    let (source, host) = (format!("{HOSTS}/upstream.cpp"), files.join("upstream"));
    let flags = ["-std=c++14", "-Wall", "-Wextra", "-Werror", "-g"];
    run("g++", &[&flags[..], &[&include(2), &source, "-o", text(&host), "-ldl", "-lpthread"]].concat());
    let arguments = [text(&library), text(&double), text(&pick)];
    assert!(run(text(&host), &arguments).contains("oaaxc"));
    valgrind(&host, &arguments);
}

#[test]
fn a_python_host_over_ctypes_works() {
    let (_files, library, double, pick) = setup("ctypes");
    run("python3", &[&format!("{HOSTS}/host.py"), text(&library), text(&double), text(&pick)]);
}

#[test]
fn r2_16_a_device_that_fails_gives_device_error() {
    let (files, library, _, _) = setup("device");
    let (model, script) = (files.join("gpu.oaax"), format!("{HOSTS}/device_loss.py"));
    stand_in(Gpu::Gfx942, &files);
    gpu::write(&model, &[(Gpu::Gfx942, gpu::scaled_sum(Gpu::Gfx942, false))], None, Some("allow"));
    let mut host = Command::new("python3");
    host.args([&script, text(&library), text(&model)]).env("LD_LIBRARY_PATH", &*files);
    // Two launches a request: the fourth is the second of the second.
    let done = host.env("OAAX_STAND_IN_FAIL", "hipModuleLaunchKernel:4").output().expect("a process");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn our_answers_where_the_standard_leaves_room_are_as_documented() {
    let (files, library, _, _) = setup("stances");
    for program in [programs::scaled_sum(), programs::strings(), programs::wide()] {
        write_model(&program, &files.join(format!("{}.oaax", program.name)));
    }
    run("python3", &[&format!("{HOSTS}/stances.py"), text(&library), text(&files)]);
}

#[test]
fn r2_20_runtimes_of_two_versions_and_two_vendors_share_a_process() {
    let (files, library, double, _) = setup("neighbours");
    let (ours1, other, onnx) = (files.join("ours1.so"), files.join("other.so"), files.join("double.onnx"));
    oaax_library(1, &ours1);
    std::fs::write(&onnx, oaax_probe::models::double()).expect("the folder is writable");
    let sound = format!("{}/broken/sound2.c", env!("CARGO_MANIFEST_DIR"));
    run("cc", &["-std=gnu99", "-shared", "-fPIC", &include(2), &sound, "-o", text(&other), "-lpthread", "-ldl"]);
    let (source, host) = (format!("{HOSTS}/neighbours.c"), files.join("neighbours"));
    let flags = ["-std=gnu99", "-Wall", "-Wextra", "-Werror", "-g"];
    run("cc", &[&flags[..], &[&include(2), &source, "-o", text(&host), "-ldl"]].concat());
    run(text(&host), &[text(&library), text(&ours1), text(&other), text(&double), text(&onnx)]);
}
