//! `cargo run -p oaaxc-target-cpu --example node_cases FOLDER [--filter TEXT] [--level NAME] [--fused]`:
//! runs ONNX cases with compiled kernels, each kernel compared with the interpreter on the same memory.

#[path = "../tests/common/mod.rs"]
mod common;

use std::path::Path;

use bytes::Bytes;
use common::{compile, levels};
use oaaxc_ir::kernel::{Kernel, Role, canonical};
use oaaxc_ir::{Datum, Scalar, SymId, Tensor, interpret, lower};
use oaaxc_kernel_cases::{bytes, words};
use oaaxc_onnx::{ImportOptions, data, import};
use oaaxc_target_cpu::CpuLevel;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let option = |name: &str| arguments.iter().position(|a| a == name).and_then(|i| arguments.get(i + 1)).cloned();
    let folder = arguments.first().expect("a folder of cases");
    let filter = option("--filter").unwrap_or_default();
    let wanted = option("--level").unwrap_or_else(|| "x86-64-v3".into());
    let level = levels().into_iter().find(|l| l.name == wanted).expect("this machine has the level");
    let mut cases: Vec<_> = std::fs::read_dir(folder).expect("the folder").flatten().map(|e| e.path()).collect();
    cases.retain(|p| p.file_name().is_some_and(|n| n.to_string_lossy().contains(&filter)));
    cases.sort();
    let (mut passed, mut skipped, mut failed) = (0, 0, 0);
    for case in cases {
        let name = case.file_name().expect("a folder").to_string_lossy().into_owned();
        match std::panic::catch_unwind(|| run(&case, &level)) {
            Ok(Ok(true)) => passed += 1,
            Ok(Ok(false)) => skipped += 1,
            Ok(Err(why)) => {
                failed += 1;
                println!("{name}: {why}");
            }
            Err(_) => {
                failed += 1;
                println!("{name}: panic");
            }
        }
    }
    println!("{passed} passed, {skipped} skipped, {failed} failed");
}

/// `false` where the case does not reach kernels.
fn run(case: &Path, level: &CpuLevel) -> Result<bool, String> {
    let Ok(imported) = import(&case.join("model.onnx"), &ImportOptions::default()) else { return Ok(false) };
    let graph = imported.graph;
    let Ok(program) = lower::lower(&graph) else { return Ok(false) };
    let mut inputs: Vec<Tensor> = Vec::new();
    for (i, v) in graph.root().inputs.iter().enumerate() {
        let Ok(file) = std::fs::read(case.join(format!("test_data_set_0/input_{i}.pb"))) else { return Ok(false) };
        match data::read(Bytes::from(file), &graph.values[*v].fact.ty) {
            Ok(Datum::Tensor(t)) => inputs.push(t),
            _ => return Ok(false),
        }
    }
    if interpret::run(&program, &inputs).is_err() {
        return Ok(false);
    }
    let compare = |kernel: &Kernel, memory: &mut [Vec<u8>], symbols: &dyn Fn(SymId) -> Option<i64>| {
        let (form, names) = canonical(kernel);
        let dims: Vec<i64> = names.iter().map(|s| symbols(*s).unwrap_or(0)).collect();
        let mut found: Vec<Vec<u64>> = memory.iter().map(|m| words(m)).collect();
        interpret::kernel::run(kernel, memory, symbols)?;
        let (function, groups, scratch) = compile(&form, level, &dims);
        if groups > 0
            && let Some(fault) = function.run(&mut found, &dims, scratch, 0..groups)
        {
            return Err(format!("{}: fault {fault:?}", kernel.name.0));
        }
        for ((i, (id, buffer)), expected) in kernel.arguments().enumerate().zip(memory.iter()) {
            if buffer.role != Role::In {
                let found = bytes(&found[i], expected.len());
                let size = buffer.dtype.size();
                for (at, (e, f)) in expected.chunks(size).zip(found.chunks(size)).enumerate() {
                    let (e, f) = (Scalar::read(buffer.dtype, e), Scalar::read(buffer.dtype, f));
                    let (a, b) = (e.as_f64(), f.as_f64());
                    let near = a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 2e-5 * a.abs().max(1.0);
                    let near_half = buffer.dtype.is_float() && size < 4 && (a - b).abs() <= 2e-2 * a.abs().max(1.0);
                    if !near && !near_half {
                        return Err(format!("{} {id}[{at}] of {}: {a} became {b}", kernel.name.0, buffer.dtype));
                    }
                }
            }
        }
        Ok(())
    };
    interpret::run_with(&program, &inputs, &compare).map(|_| true).map_err(|f| f.message)
}
