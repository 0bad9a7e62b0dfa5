//! Compiles a kernel to SPIR-V, runs it on the OpenCL device of this machine, and compares with the interpreter.

use oaaxc_ir::kernel::Kernel;
use oaaxc_kernel_cases::{bytes, compare_outputs, evaluate, expected, words};
use oaaxc_llvm::compile_module;
use oaaxc_llvm::testing::opencl::{Argument, OpenCl};
use oaaxc_target_gpu::emit_kernel;
use oaaxc_target_spirv::{gpu, machine};

/// Runs and compares; `arguments` one per argument, outputs included.
pub fn check(kernel: &Kernel, dims: &[i64], arguments: &[Vec<u8>], tolerance: f64) {
    oaaxc_ir::kernel::verify(kernel).unwrap();
    let emitted = emit_kernel(kernel, "kernel_under_test", &gpu()).unwrap();
    if let Ok(path) = std::env::var("OAAXC_TEST_MLIR") {
        std::fs::write(format!("{path}-spirv.mlir"), &emitted.text).unwrap();
    }
    // One at a time: a compilation forks.
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(|p| p.into_inner());
    let binary = compile_module(&emitted.text, &machine()).unwrap_or_else(|e| panic!("{e}\n{}", emitted.text));
    validate(&binary);
    let device = OpenCl::here().expect("an OpenCL device: `scripts/setup test` installs a run-time for CPUs");
    let built = device.build(&binary, "kernel_under_test");
    let outcome = expected(kernel, dims, arguments);
    let groups = evaluate(&emitted.groups, dims);
    // Fewer groups are launched than there are: they share the rest.
    for limit in [3, 64] {
        let launched = groups.min(limit);
        let mut memory: Vec<Vec<u64>> = arguments.iter().map(|a| words(a)).collect();
        let mut scratch = vec![u64::MAX; (evaluate(&emitted.scratch, dims) * launched) as usize / 8 + 8];
        let mut fault = vec![0u64; 4];
        if launched > 0 {
            let symbols = symbol_count(&emitted.text);
            let mut all: Vec<Argument> = memory.iter_mut().map(Argument::Memory).collect();
            all.extend(dims[..symbols].iter().map(|d| Argument::Long(*d)));
            all.extend([
                Argument::Memory(&mut scratch),
                Argument::Memory(&mut fault),
                Argument::Long(launched),
                Argument::Int(7),
            ]);
            built.run(all, launched as usize, emitted.threads as usize);
        }
        let found: Vec<Vec<u8>> = memory.iter().zip(arguments).map(|(m, a)| bytes(m, a.len())).collect();
        match &outcome {
            Err(why) => {
                assert_eq!(fault[0], 1 | 7 << 32, "no fault where the interpreter says {why}");
                assert_eq!(fault[1], 1, "an index outside its range");
            }
            Ok(expected) => {
                assert_eq!(fault, [0; 4], "a fault");
                compare_outputs("spirv", kernel, expected, &found, tolerance);
            }
        }
    }
}

/// How many sizes the kernel takes.
fn symbol_count(text: &str) -> usize {
    (0..).take_while(|s| text.contains(&format!("%s{s}: i64"))).count()
}

fn validate(binary: &[u8]) {
    use std::io::Write;
    let command = std::process::Command::new("spirv-val")
        .args(["--target-env", "spv1.0", "-"])
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn();
    let mut child = command.expect("spirv-val: `scripts/setup test` installs it");
    child.stdin.take().unwrap().write_all(binary).unwrap();
    let out = child.wait_with_output().unwrap();
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    assert!(out.status.success(), "spirv-val: {}{}", text(&out.stderr), text(&out.stdout));
}
