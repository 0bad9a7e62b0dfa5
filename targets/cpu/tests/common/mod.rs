//! Compiles a kernel for each level that this machine can run, runs it, and compares with the interpreter.
#![allow(dead_code)] // Each test uses its part.

use oaaxc_ir::kernel::Kernel;
use oaaxc_kernel_cases::{bytes, compare_outputs, evaluate, expected, words};
use oaaxc_llvm::testing::{KernelFault, KernelFunction};
use oaaxc_llvm::{compile_module, link};
use oaaxc_target_cpu::{CpuLevel, emit_kernel, symbol_count, v2, v3, v4};

/// The levels that this machine can run, and the strict form of one.
pub fn levels() -> Vec<CpuLevel> {
    let mut all = vec![v2()];
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        all.push(v3());
        let mut strict = v3();
        strict.options.strict = true;
        strict.name.push_str(" strict");
        all.push(strict);
    }
    if std::arch::is_x86_feature_detected!("avx512vl") && std::arch::is_x86_feature_detected!("avx512dq") {
        all.push(v4());
    }
    all
}

/// Compiles for a level; answers the function, its group count and its scratch.
pub fn compile(kernel: &Kernel, level: &CpuLevel, dims: &[i64]) -> (KernelFunction, u64, usize) {
    oaaxc_ir::kernel::verify(kernel).unwrap();
    let emitted = emit_kernel(kernel, "kernel", &level.options).unwrap();
    if let Ok(path) = std::env::var("OAAXC_TEST_MLIR") {
        std::fs::write(format!("{path}-{}.mlir", level.name), &emitted.text).unwrap();
    }
    let object = compile_module(&emitted.text, &level.machine).unwrap_or_else(|e| panic!("{e}\n{}", emitted.text));
    let linked = link(&[object], &level.machine).unwrap_or_else(|e| panic!("{e}"));
    let function = KernelFunction::load(&linked, "kernel").unwrap();
    (function, evaluate(&emitted.groups, dims) as u64, evaluate(&emitted.scratch, dims) as usize)
}

/// Runs on all levels and compares; `arguments` one per argument, outputs included.
pub fn check(kernel: &Kernel, dims: &[i64], arguments: &[Vec<u8>], tolerance: f64) {
    assert!(symbol_count(kernel) <= dims.len());
    let outcome = expected(kernel, dims, arguments);
    for level in levels() {
        let (function, groups, scratch) = compile(kernel, &level, dims);
        let mut memory: Vec<Vec<u64>> = arguments.iter().map(|a| words(a)).collect();
        let mut fault: Option<KernelFault> = None;
        // Groups in pieces and backwards: they are independent.
        let half = groups / 2;
        for range in [half..groups, 0..half] {
            if !range.is_empty() {
                fault = function.run(&mut memory, dims, scratch, range).or(fault);
            }
        }
        match &outcome {
            Err(why) => assert!(fault.is_some_and(|f| f.code == 1), "{}: no fault where the interpreter says {why}", level.name),
            Ok(expected) => {
                assert_eq!(fault, None, "{}: a fault", level.name);
                let found: Vec<Vec<u8>> = memory.iter().zip(arguments).map(|(m, a)| bytes(m, a.len())).collect();
                compare_outputs(&level.name, kernel, expected, &found, tolerance);
            }
        }
    }
}
