//! A GPU target: kernels to objects by the worker pool, objects to one file by the leaf's packing.

use oaaxc_base::{Code, Diagnostic, Diagnostics};
use oaaxc_ir::kernel::Kernel;
use oaaxc_llvm::{Batch, Level, WorkerPool, Workers};
use oaaxc_target_api::{CodeObject, Device, EmitCx, KernelEntry, Level as LinkedLevel, Target};

use crate::device::Gpu;
use crate::kernel::{Emitted, check, emit};

/// One file of the objects of all kernels, each with its symbol.
pub type Pack = fn(&[(String, Vec<u8>)], &WorkerPool, &Level) -> Result<Vec<u8>, String>;

/// A GPU target.
pub struct GpuTarget {
    /// The name on the command line.
    pub name: String,
    /// What passes may know.
    pub device: Device,
    /// What the generator must know.
    pub gpu: Gpu,
    /// LLVM's machine.
    pub machine: Level,
    /// The level's name in an artefact: `gfx942`.
    pub level: String,
    /// How a file of it ends.
    pub extension: &'static str,
    /// Makes the file.
    pub pack: Pack,
    /// The workers of the last call, for the next one that wants the same.
    pub workers: Workers,
}

impl Target for GpuTarget {
    fn name(&self) -> &str {
        &self.name
    }
    fn device(&self) -> &Device {
        &self.device
    }
    fn claims(&self, kernel: &Kernel) -> Result<(), String> {
        check(kernel, &self.gpu)
    }
    fn emit(&self, kernels: &[Kernel], cx: &EmitCx) -> Result<CodeObject, Diagnostics> {
        let mut errors = Diagnostics::new();
        let (mut batch, mut entries) = (Batch::new(self.machine.clone()), Vec::new());
        for kernel in kernels {
            match emit(kernel, Batch::PLACEHOLDER, &self.gpu) {
                Ok(Emitted { text, groups, scratch, threads, generic }) => {
                    let symbol = batch.add(&kernel.name.0, &text);
                    entries.push(KernelEntry { symbol, groups, scratch, threads, generic });
                }
                Err(why) => errors.push(Diagnostic::error(Code::UNSUPPORTED, format!("{}: {why}", kernel.name.0))),
            }
        }
        if errors.has_errors() {
            return Err(errors);
        }
        let pool = self.workers.pool(cx.jobs, &cx.worker, cx.cache.as_deref());
        let texts = batch.texts(&self.level, &cx.keep, &pool);
        let failed = |why: &dyn std::fmt::Display| Diagnostic::error(Code::INTERNAL, format!("{}: {why}", self.level));
        let (objects, cached) =
            batch.compile(&pool).map_err(|all| Diagnostics { items: all.iter().map(|error| failed(error)).collect() })?;
        let object = (self.pack)(&objects, &pool, &self.machine).map_err(|e| Diagnostics { items: vec![failed(&e)] })?;
        let level = LinkedLevel { name: self.level.clone(), extension: self.extension, object, kernels: entries };
        Ok(CodeObject { levels: vec![level], texts, cached })
    }
}
