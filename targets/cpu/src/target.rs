//! The targets by name: which levels each has, and how kernels become one object per level.

use oaaxc_base::{Code, Diagnostic, Diagnostics};
use oaaxc_ir::kernel::Kernel;
use oaaxc_llvm::{BackendError, Batch, Level, WorkerPool, Workers};
use oaaxc_target_api::{CodeObject, Device, EmitCx, KernelEntry, Level as LinkedLevel, Target};

use crate::kernel::{Emitted, Options, emit};

/// Columns of a weight panel, the same for all levels: weights are stored once.
pub const PANEL: i64 = 16;

/// A CPU target.
pub struct CpuTarget {
    name: String,
    device: Device,
    levels: Vec<CpuLevel>,
    /// The workers of the last call, for the next one that wants the same.
    workers: Workers,
}

/// One level of a target.
#[derive(Clone, Debug)]
pub struct CpuLevel {
    /// The name by which the runtime asks the machine: `x86-64-v3`.
    pub name: String,
    /// LLVM's machine.
    pub machine: Level,
    /// How kernels are emitted for it.
    pub options: Options,
}

/// The CPU target with this name, if there is one.
pub fn cpu_target(name: &str) -> Option<Box<dyn Target>> {
    let levels = match name {
        "cpu" => vec![v2(), v3(), v4()],
        "cpu:x86-64-v2" => vec![v2()],
        "cpu:x86-64-v3" => vec![v3()],
        "cpu:x86-64-v4" => vec![v4()],
        "cpu:native" => vec![native()],
        "cpu:aarch64" => vec![aarch64(""), aarch64("+dotprod")],
        "cpu:aarch64+neon" => vec![aarch64("")],
        "cpu:aarch64+dotprod" => vec![aarch64("+dotprod")],
        "cpu:aarch64+i8mm" => vec![aarch64("+dotprod+i8mm")],
        "cpu:aarch64+sve" => vec![aarch64("+sve")],
        "cpu:riscv64" => vec![riscv64(""), riscv64("+v")],
        "cpu:riscv64gc" => vec![riscv64("")],
        "cpu:riscv64gcv" => vec![riscv64("+v")],
        "cpu:strict" => vec![CpuLevel { options: Options { strict: true, ..v3().options }, ..v3() }],
        _ => return None,
    };
    let strict = name == "cpu:strict";
    let panel = if strict { 0 } else { PANEL };
    let arch = match name.trim_start_matches("cpu:") {
        other if other.starts_with("aarch64") => "aarch64",
        other if other.starts_with("riscv64") => "riscv64",
        _ => "x86_64",
    };
    let device = Device { kind: "cpu", arch, strict, panel };
    Some(Box::new(CpuTarget { name: name.to_string(), device, levels, workers: Workers::default() }))
}

fn level(name: &str, machine: Level, lanes: u32) -> CpuLevel {
    let registers = if lanes == 16 { 32 } else { 16 };
    CpuLevel { name: name.to_string(), machine, options: Options { strict: false, fma: lanes > 4, lanes, registers, x86: true } }
}

/// Registers and arithmetic of the machines that are not x86: 128-bit vectors, fused multiply-add.
const PORTABLE: Options = Options { strict: false, fma: true, lanes: 4, registers: 32, x86: false };

/// AArch64 with Advanced SIMD and these features, as `+dotprod+i8mm`.
fn aarch64(features: &str) -> CpuLevel {
    let machine = Level::aarch64("generic", features.replace('+', ",+").trim_start_matches(','));
    CpuLevel { name: format!("aarch64{features}"), machine, options: PORTABLE }
}

/// RV64GC, and vectors where the features say so. LLVM maps vectors of fixed length to both.
fn riscv64(features: &str) -> CpuLevel {
    CpuLevel { name: format!("riscv64{features}"), machine: Level::riscv64(features), options: PORTABLE }
}

/// SSE4.2.
pub fn v2() -> CpuLevel {
    level("x86-64-v2", Level::x86_64_v2(), 4)
}

/// AVX2 and FMA.
pub fn v3() -> CpuLevel {
    level("x86-64-v3", Level::x86_64_v3(), 8)
}

/// AVX-512.
pub fn v4() -> CpuLevel {
    level("x86-64-v4", Level::x86_64_v4(), 16)
}

/// Features beyond a base that the runtime knows to ask for.
const EXTRAS: &[&str] = &[
    "avx512vnni",
    "avx512bf16",
    "avx512fp16",
    "avx512vbmi",
    "avx512vbmi2",
    "avx512bitalg",
    "avx512ifma",
    "avx512vpopcntdq",
    "avxvnni",
    "avxifma",
    "gfni",
    "vaes",
    "vpclmulqdq",
    "aes",
    "pclmulqdq",
    "sha",
    "adx",
];

/// This machine: its name says what the code may use, so that no other machine runs it by mistake.
fn native() -> CpuLevel {
    let machine = Level::native();
    let has = |name: &str| machine.features.split(',').any(|f| f.strip_prefix('+') == Some(name));
    let all = |names: &[&str]| names.iter().all(|n| has(n));
    let base = if all(&["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"]) {
        v4()
    } else if all(&["avx2", "fma", "f16c", "bmi2"]) {
        v3()
    } else {
        v2()
    };
    let extras: String = EXTRAS.iter().filter(|e| has(e)).map(|e| format!("+{e}")).collect();
    CpuLevel { name: base.name + &extras, machine, options: base.options }
}

impl Target for CpuTarget {
    fn name(&self) -> &str {
        &self.name
    }
    fn device(&self) -> &Device {
        &self.device
    }
    fn emit(&self, kernels: &[Kernel], cx: &EmitCx) -> Result<CodeObject, Diagnostics> {
        let pool = self.workers.pool(cx.jobs, &cx.worker, cx.cache.as_deref());
        let mut errors = Diagnostics::new();
        let mut out = CodeObject::default();
        for level in &self.levels {
            if let Some(linked) = emit_level(level, kernels, cx, &pool, &mut out, &mut errors) {
                out.levels.push(linked);
            }
        }
        if errors.has_errors() {
            return Err(errors);
        }
        Ok(out)
    }
}

fn emit_level(
    level: &CpuLevel,
    kernels: &[Kernel],
    cx: &EmitCx,
    pool: &WorkerPool,
    out: &mut CodeObject,
    errors: &mut Diagnostics,
) -> Option<LinkedLevel> {
    let (mut batch, mut entries) = (Batch::new(level.machine.clone()), Vec::new());
    for kernel in kernels {
        match emit(kernel, Batch::PLACEHOLDER, &level.options) {
            Ok(Emitted { text, groups, scratch, generic }) => {
                let symbol = batch.add(&kernel.name.0, &text);
                entries.push(KernelEntry { symbol, groups, scratch, threads: 0, generic });
            }
            Err(why) => errors.push(Diagnostic::error(Code::UNSUPPORTED, format!("{}: {why}", kernel.name.0))),
        }
    }
    if errors.has_errors() {
        return None;
    }
    out.texts.extend(batch.texts(&level.name, &cx.keep, pool));
    let failed = |why: &BackendError| Diagnostic::error(Code::INTERNAL, format!("{}: {why}", level.name));
    let objects: Vec<Vec<u8>> = match batch.compile(pool) {
        Ok((objects, cached)) => {
            out.cached += cached;
            objects.into_iter().map(|(_, object)| object).collect()
        }
        Err(all) => {
            all.iter().for_each(|error| errors.push(failed(error)));
            return None;
        }
    };
    match pool.link(&objects, &level.machine) {
        Ok(object) => Some(LinkedLevel { name: level.name.clone(), extension: "so", object, kernels: entries }),
        Err(error) => {
            errors.push(failed(&error));
            None
        }
    }
}
