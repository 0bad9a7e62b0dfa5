//! A GPU target: kernels to objects by the worker pool, objects to one file by the leaf's packing.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use oaaxc_base::{Code, Diagnostic, Diagnostics};
use oaaxc_ir::kernel::Kernel;
use oaaxc_llvm::{Cache, Form, Job, Level, WorkerPool};
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

/// Workers that live as long as their target: starting one costs more than compiling a kernel.
#[derive(Default)]
pub struct Workers(Mutex<Option<Kept>>);

struct Kept {
    jobs: usize,
    program: PathBuf,
    cache: Option<PathBuf>,
    pool: Arc<WorkerPool>,
}

impl Workers {
    fn pool(&self, cx: &EmitCx) -> Arc<WorkerPool> {
        let jobs = if cx.jobs == 0 { std::thread::available_parallelism().map_or(1, usize::from) } else { cx.jobs };
        let mut kept = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let fits = |w: &&Kept| w.jobs == jobs && w.program == cx.worker && w.cache == cx.cache;
        if let Some(kept) = kept.as_ref().filter(fits) {
            return kept.pool.clone();
        }
        let cache = cx.cache.as_ref().map_or_else(Cache::none, Cache::at);
        let pool = Arc::new(WorkerPool::new(jobs, &cx.worker).with_cache(cache));
        *kept = Some(Kept { jobs, program: cx.worker.clone(), cache: cx.cache.clone(), pool: pool.clone() });
        pool
    }
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
        let (mut batch, mut symbols, mut known, mut entries) = (Vec::new(), Vec::new(), BTreeSet::new(), Vec::new());
        for kernel in kernels {
            match emit_named(kernel, &self.gpu) {
                Ok((symbol, emitted)) => {
                    let Emitted { text, groups, scratch, threads, generic } = emitted;
                    if known.insert(symbol.clone()) {
                        let key = format!("{symbol} ({})", kernel.name.0);
                        batch.push(Job { key, mlir: text, level: self.machine.clone() });
                        symbols.push(symbol.clone());
                    }
                    entries.push(KernelEntry { symbol, groups, scratch, threads, generic });
                }
                Err(why) => errors.push(Diagnostic::error(Code::UNSUPPORTED, format!("{}: {why}", kernel.name.0))),
            }
        }
        if errors.has_errors() {
            return Err(errors);
        }
        let pool = self.workers.pool(cx);
        let mut out = CodeObject { texts: texts(&self.level, &batch, cx, &pool), ..CodeObject::default() };
        let before = pool.found_in_cache();
        let mut objects = Vec::new();
        for (result, symbol) in pool.compile_batch(batch).into_iter().zip(symbols) {
            match result {
                Ok(object) => objects.push((symbol, object)),
                Err(e) => errors.push(Diagnostic::error(Code::INTERNAL, format!("{}: {e}", self.level))),
            }
        }
        out.cached = pool.found_in_cache() - before;
        if errors.has_errors() {
            return Err(errors);
        }
        match (self.pack)(&objects, &pool, &self.machine) {
            Ok(object) => {
                let (name, extension) = (self.level.clone(), self.extension);
                out.levels.push(LinkedLevel { name, extension, object, kernels: entries });
                Ok(out)
            }
            Err(e) => {
                errors.push(Diagnostic::error(Code::INTERNAL, format!("{}: {e}", self.level)));
                Err(errors)
            }
        }
    }
}

fn texts(level: &str, batch: &[Job], cx: &EmitCx, pool: &WorkerPool) -> Vec<(String, String, String)> {
    let mut texts = Vec::new();
    for stage in &cx.keep {
        let form = match stage.as_str() {
            "mlir" => None,
            "llvm" => Some(Form::LlvmIr),
            "asm" => Some(Form::Assembly),
            _ => continue,
        };
        for job in batch {
            let text = match form {
                None => job.mlir.clone(),
                // Compiling it again reports the error; the text of what fails is only missing here.
                Some(form) => pool.emit(job, form).map_or_else(|e| e.to_string(), |b| String::from_utf8_lossy(&b).into_owned()),
            };
            texts.push((stage.clone(), format!("{level} {}", job.key), text));
        }
    }
    texts
}

/// A kernel under the name of its own text: equal kernels of all models share one cache entry.
pub fn emit_named(kernel: &Kernel, gpu: &Gpu) -> Result<(String, Emitted), String> {
    const PLACEHOLDER: &str = "oaaxc_kernel";
    let mut emitted = emit(kernel, PLACEHOLDER, gpu)?;
    let symbol = format!("k{:032x}", fnv(emitted.text.as_bytes()));
    emitted.text = emitted.text.replace(PLACEHOLDER, &symbol);
    Ok((symbol, emitted))
}

/// FNV-1a of 128 bits.
fn fnv(bytes: &[u8]) -> u128 {
    let prime = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |h: u128, b| (h ^ u128::from(*b)).wrapping_mul(prime))
}
