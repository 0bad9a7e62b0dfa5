//! Compiles a kernel for each level that this machine can run, runs it, and compares with the interpreter.
#![allow(dead_code)] // Each test uses its part.

use oaaxc_ir::expr::{Expr, SymId};
use oaaxc_ir::interpret::kernel::{run, storage_len};
use oaaxc_ir::kernel::{Kernel, Role};
use oaaxc_ir::{DType, Scalar};
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

/// A small deterministic generator.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() >> 20) as usize % n
    }
    /// An element: mostly ordinary values, now and then an edge of the type.
    pub fn element(&mut self, dtype: DType) -> Scalar {
        let edge = self.below(16);
        let ordinary = (self.below(2001) as f64 - 1000.0) / 125.0;
        if dtype == DType::Bool {
            return Scalar::from_bool(self.below(2) == 1);
        }
        if let Some((low, high)) = dtype.integer_range() {
            return match edge {
                0 => Scalar::from_integer(dtype, low),
                1 => Scalar::from_integer(dtype, high),
                2 => Scalar::from_integer(dtype, -1),
                3 => Scalar::from_integer(dtype, 0),
                _ => Scalar::from_integer(dtype, (ordinary * 3.0) as i128),
            };
        }
        let value = match edge {
            0 => f64::INFINITY,
            1 => f64::NAN,
            2 => 0.0,
            3 => -0.0,
            4 => f64::NEG_INFINITY,
            // Beyond 2^45 the circular functions of a double are not reduced exactly.
            5 if dtype == DType::F64 => 1e12,
            5 => 1e30,
            _ => ordinary,
        };
        Scalar::from_f64(value).cast(dtype)
    }
    /// An element without surprises.
    pub fn tame(&mut self, dtype: DType) -> Scalar {
        let v = (self.below(65) as f64 - 32.0) / 16.0;
        if dtype.is_integer() { Scalar::from_i64((v * 4.0) as i64).cast(dtype) } else { Scalar::from_f64(v).cast(dtype) }
    }
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
    let eval = |e: &Expr| e.eval(&|s: SymId| dims.get(s.0 as usize).copied(), &|_| None).expect("sizes are known");
    let function = KernelFunction::load(&linked, "kernel").unwrap();
    (function, eval(&emitted.groups) as u64, eval(&emitted.scratch) as usize)
}

/// Bytes in words, so that they are aligned.
pub fn words(bytes: &[u8]) -> Vec<u64> {
    // A guard word behind the end shows writes beyond it.
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().next_multiple_of(8), 0xa5);
    padded.extend([0x5a; 64]);
    padded.chunks(8).map(|c| u64::from_le_bytes(c.try_into().unwrap())).collect()
}

pub fn bytes(words: &[u64], len: usize) -> Vec<u8> {
    let all: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    assert!(all[len.next_multiple_of(8)..].iter().all(|b| *b == 0x5a), "written behind the end");
    all[..len].to_vec()
}

fn close(dtype: DType, x: Scalar, y: Scalar, tolerance: f64) -> bool {
    if !dtype.is_float() {
        return x.bits() == y.bits();
    }
    let (a, b) = (x.as_f64(), y.as_f64());
    if a.is_nan() || b.is_nan() {
        return a.is_nan() && b.is_nan();
    }
    let step = match dtype {
        DType::F32 | DType::F64 => tolerance,
        DType::F16 => tolerance.max(1.0 / 512.0),
        DType::BF16 => tolerance.max(1.0 / 64.0),
        _ => tolerance.max(0.6),
    };
    a == b || (a - b).abs() <= step * a.abs().max(b.abs()).max(if dtype == DType::F64 { 1e-300 } else { 1e-38 })
}

/// Runs on all levels and compares; `arguments` one per argument, outputs included.
pub fn check(kernel: &Kernel, dims: &[i64], arguments: &[Vec<u8>], tolerance: f64) {
    assert!(symbol_count(kernel) <= dims.len());
    let mut expected: Vec<Vec<u8>> = arguments.to_vec();
    let outcome = run(kernel, &mut expected, &|s| dims.get(s.0 as usize).copied());
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
            Err(why) => {
                assert!(fault.is_some_and(|f| f.code == 1), "{}: no fault where the interpreter says {why}", level.name);
                continue;
            }
            Ok(()) => assert_eq!(fault, None, "{}: a fault", level.name),
        }
        for (i, (id, buffer)) in kernel.arguments().enumerate() {
            let found = bytes(&memory[i], expected[i].len());
            if buffer.role == Role::In {
                continue;
            }
            let size = buffer.dtype.size();
            for (at, (e, f)) in expected[i].chunks(size).zip(found.chunks(size)).enumerate() {
                let (e, f) = (Scalar::read(buffer.dtype, e), Scalar::read(buffer.dtype, f));
                assert!(
                    close(buffer.dtype, e, f, tolerance),
                    "{} \"{}\" {id} element {at} of {}: interpreter {e:?} {}, kernel {f:?} {}",
                    level.name,
                    kernel.name.0,
                    buffer.dtype,
                    e.as_f64(),
                    f.as_f64()
                );
            }
        }
    }
}

/// Memory for every argument, filled by `f(argument, dtype)`.
pub fn memory(kernel: &Kernel, dims: &[i64], mut f: impl FnMut(usize, DType) -> Scalar) -> Vec<Vec<u8>> {
    let eval = |e: &Expr| e.eval(&|s: SymId| dims.get(s.0 as usize).copied(), &|_| None).expect("sizes are known");
    let one = |(i, (_, b)): (usize, (_, &oaaxc_ir::kernel::Buffer))| {
        let sizes: Vec<i64> = b.dims.iter().map(eval).collect();
        let mut out = Vec::new();
        while out.len() < storage_len(&b.layout, &sizes, b.dtype) {
            f(i, b.dtype).append_to(&mut out);
        }
        out
    };
    kernel.arguments().enumerate().map(one).collect()
}
