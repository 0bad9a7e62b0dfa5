//! Joins us to Debian's LLVM 22: the C API of MLIR and lld as a library.
//!
//! Debian ships `libMLIR.so` and the static `libMLIRCAPI*.a`, but no `libMLIR-C.so`, which `mlir-sys`
//! asks for by `-lMLIR-C`. A GNU ld script of that name satisfies it: the C API goes into our binary
//! while MLIR itself stays shared, so that its type ids exist once.

use std::{env, fs, path::Path};

fn main() {
    println!("cargo:rerun-if-env-changed=MLIR_SYS_220_PREFIX");
    println!("cargo:rerun-if-changed=src/lld.cpp");
    let prefix = env::var("MLIR_SYS_220_PREFIX").unwrap_or("/usr/lib/llvm-22".into());
    let lib = Path::new(&prefix).join("lib");
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");

    if env::var("MLIR_SYS_LINK_SHARED").is_ok() {
        let entries = fs::read_dir(&lib).unwrap_or_else(|e| panic!("{}: {e}", lib.display()));
        let mut archives: Vec<String> = entries
            .filter_map(|entry| {
                let path = entry.ok()?.path();
                let name = path.file_name()?.to_str()?;
                (name.starts_with("libMLIRCAPI") && name.ends_with(".a")).then(|| path.display().to_string())
            })
            .collect();
        archives.sort();
        assert!(!archives.is_empty(), "no libMLIRCAPI*.a in {}: install libmlir-22-dev", lib.display());
        let script = format!("/* GNU ld script */\nGROUP ( {} )\n", archives.join(" "));
        fs::write(Path::new(&out).join("libMLIR-C.so"), script).expect("OUT_DIR is writable");
        println!("cargo:rustc-link-search=native={out}");
    }

    assert!(lib.join("liblldELF.a").exists(), "no liblldELF.a in {}: install liblld-22-dev", lib.display());
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .flag("-fno-rtti")
        .flag("-fno-exceptions")
        .warnings(false)
        .include(Path::new(&prefix).join("include"))
        .file("src/lld.cpp")
        .compile("oaaxc_lld");
    println!("cargo:rustc-link-search=native={}", lib.display());
    println!("cargo:rustc-link-lib=static=lldELF");
    println!("cargo:rustc-link-lib=static=lldCommon");
    println!("cargo:rustc-link-lib=dylib=LLVM-22");
    println!("cargo:rustc-link-lib=dylib=z");
    println!("cargo:rustc-link-lib=dylib=zstd");
}
