//! A target's kernels on their way through the pool: named after their own texts, each compiled once.
//!
//! Promises: equal texts of all models share one symbol and one cache entry; objects stand in the order of the first
//! kernel of each text. Never: knows what a kernel is.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::{BackendError, Cache, Form, Job, Level, WorkerPool};

/// Workers that live as long as their target: starting one costs more than compiling a kernel.
#[derive(Default)]
pub struct Workers(Mutex<Option<Kept>>);

/// A pool, and what was asked for.
struct Kept {
    jobs: usize,
    program: PathBuf,
    cache: Option<PathBuf>,
    pool: Arc<WorkerPool>,
}

impl Workers {
    /// The pool of the last call, where the same is wanted again. `jobs` 0: one worker for each core.
    pub fn pool(&self, jobs: usize, program: &Path, cache: Option<&Path>) -> Arc<WorkerPool> {
        let jobs = if jobs == 0 { std::thread::available_parallelism().map_or(1, usize::from) } else { jobs };
        let mut kept = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let fits = |k: &&Kept| k.jobs == jobs && k.program == program && k.cache.as_deref() == cache;
        if let Some(kept) = kept.as_ref().filter(fits) {
            return kept.pool.clone();
        }
        let pool = Arc::new(WorkerPool::new(jobs, program).with_cache(cache.map_or_else(Cache::none, Cache::at)));
        *kept = Some(Kept { jobs, program: program.into(), cache: cache.map(Path::to_path_buf), pool: pool.clone() });
        pool
    }
}

/// Kernels to compile for one machine.
pub struct Batch {
    level: Level,
    jobs: Vec<Job>,
    symbols: Vec<String>,
    known: BTreeSet<String>,
}

impl Batch {
    /// The symbol under which a text is written before it has its own name.
    pub const PLACEHOLDER: &'static str = "oaaxc_kernel";

    /// An empty batch.
    pub fn new(level: Level) -> Batch {
        Batch { level, jobs: Vec::new(), symbols: Vec::new(), known: BTreeSet::new() }
    }

    /// Adds a kernel whose symbol is [`Batch::PLACEHOLDER`]; gives the symbol that it gets. `label` is for messages.
    pub fn add(&mut self, label: &str, text: &str) -> String {
        let symbol = format!("k{:032x}", fnv(text.as_bytes()));
        if self.known.insert(symbol.clone()) {
            let mlir = text.replace(Batch::PLACEHOLDER, &symbol);
            self.jobs.push(Job { key: format!("{symbol} ({label})"), mlir, level: self.level.clone() });
            self.symbols.push(symbol.clone());
        }
        symbol
    }

    /// Texts of the stages asked for (`mlir`, `llvm`, `asm`; others are not ours): stage, `NAME SYMBOL (LABEL)`, text.
    pub fn texts(&self, name: &str, stages: &[String], pool: &WorkerPool) -> Vec<(String, String, String)> {
        let mut texts = Vec::new();
        for stage in stages {
            let form = match stage.as_str() {
                "mlir" => None,
                "llvm" => Some(Form::LlvmIr),
                "asm" => Some(Form::Assembly),
                _ => continue,
            };
            for job in &self.jobs {
                let text = match form {
                    None => job.mlir.clone(),
                    // Compiling it again reports the error; the text of what fails is only missing here.
                    Some(form) => {
                        pool.emit(job, form).map_or_else(|e| e.to_string(), |b| String::from_utf8_lossy(&b).into_owned())
                    }
                };
                texts.push((stage.clone(), format!("{name} {}", job.key), text));
            }
        }
        texts
    }

    /// Each distinct kernel's symbol and object, and how many came from the cache; or all that went wrong.
    #[allow(clippy::type_complexity)]
    pub fn compile(self, pool: &WorkerPool) -> Result<(Vec<(String, Vec<u8>)>, usize), Vec<BackendError>> {
        let before = pool.found_in_cache();
        let (mut objects, mut errors) = (Vec::new(), Vec::new());
        for (result, symbol) in pool.compile_batch(self.jobs).into_iter().zip(self.symbols) {
            match result {
                Ok(object) => objects.push((symbol, object)),
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() { Ok((objects, pool.found_in_cache() - before)) } else { Err(errors) }
    }
}

/// FNV-1a of 128 bits.
fn fnv(bytes: &[u8]) -> u128 {
    let prime = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, |h: u128, b| (h ^ u128::from(*b)).wrapping_mul(prime))
}
