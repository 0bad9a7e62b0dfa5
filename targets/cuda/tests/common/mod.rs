//! Compiles kernels for every compute capability; NVIDIA's assembler must take them.

use std::path::Path;
use std::process::Command;

use oaaxc_ir::kernel::Kernel;
use oaaxc_kernel_cases::{is_new, multiplies_halves};
use oaaxc_llvm::compile_module;
use oaaxc_target_cuda::{CHIPS, gpu, machine};
use oaaxc_target_gpu::emit_kernel;

/// PTX for each compute capability, assembled without spills.
pub fn check(kernel: &Kernel, _: &[i64], _: &[Vec<u8>], _: f64) {
    let emitted = emit_kernel(kernel, "kernel_under_test", &gpu()).unwrap();
    if !is_new(&emitted.text) {
        return;
    }
    for (chip, _) in CHIPS {
        let level = machine(chip).unwrap();
        let text = compile_module(&emitted.text, &level).unwrap_or_else(|e| panic!("{chip}: {e}\n{}", emitted.text));
        let matrix = String::from_utf8_lossy(&text).contains("mma.sync");
        assert_eq!(matrix, multiplies_halves(kernel), "{chip} {}: matrix instructions", kernel.name.0);
        assemble(&text, chip, &kernel.name.0);
    }
}

fn assemble(text: &[u8], chip: &str, name: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = root.join(".venv/lib/python3.11/site-packages/nvidia/cu13/bin/ptxas");
    assert!(program.exists(), "no ptxas: `scripts/setup test` installs it");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kernel.ptx");
    std::fs::write(&path, text).unwrap();
    let out = Command::new(program)
        .arg("-O1")
        .arg(format!("-arch={chip}"))
        .arg(&path)
        .arg("-o")
        .arg(folder.path().join("cubin"))
        .output();
    let out = out.unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned() + &String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{chip} {name}: {said}\n{}", String::from_utf8_lossy(text));
}
