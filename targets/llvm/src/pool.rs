//! The pool of workers in front of the cache: what a build calls.
//!
//! Jobs are handed out one at a time to whichever worker is free; results stand in the order of the jobs
//! and depend neither on that order nor on the number of workers. A job that ends its worker is an error
//! of that job alone. The calling process never initialises LLVM.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::{
    cache::{Cache, Key},
    compile::Form,
    error::{BackendError, Stage},
    level::Level,
    link, lower,
    process::{Failure, Worker},
    support,
    wire::{Answer, Request, form_name},
    worker::WORKER_ARGUMENT,
};

/// A module to compile.
#[derive(Clone, Debug)]
pub struct Job {
    /// The caller's name for it, put before messages.
    pub key: String,
    /// The module.
    pub mlir: String,
    /// The machine.
    pub level: Level,
}

/// Workers and cache of a build.
pub struct WorkerPool {
    program: PathBuf,
    arguments: Vec<String>,
    jobs: usize,
    limit: Duration,
    cache: Cache,
    idle: Mutex<Vec<Worker>>,
    started: AtomicUsize,
    found: AtomicUsize,
}

/// Requests after which a worker is replaced, since LLVM and MLIR give little memory back.
const SERVICE: usize = 1000;

impl WorkerPool {
    /// A pool of at most `jobs` workers (at least one), each `program __worker`; none is started yet.
    ///
    /// Nothing is cached until [`WorkerPool::with_cache`].
    pub fn new(jobs: usize, program: impl Into<PathBuf>) -> WorkerPool {
        WorkerPool {
            program: program.into(),
            arguments: vec![WORKER_ARGUMENT.to_string()],
            jobs: jobs.max(1),
            limit: Duration::from_secs(600),
            cache: Cache::none(),
            idle: Mutex::new(Vec::new()),
            started: AtomicUsize::new(0),
            found: AtomicUsize::new(0),
        }
    }

    /// The same pool in front of a cache.
    pub fn with_cache(self, cache: Cache) -> WorkerPool {
        WorkerPool { cache, ..self }
    }

    /// The same pool with another time limit for one job (ten minutes unless set).
    pub fn with_limit(self, limit: Duration) -> WorkerPool {
        WorkerPool { limit, ..self }
    }

    /// The same pool with other arguments for its workers.
    pub fn with_arguments(self, arguments: Vec<String>) -> WorkerPool {
        WorkerPool { arguments, ..self }
    }

    /// How many worker processes were started so far: 0 when the cache had everything.
    pub fn workers_started(&self) -> usize {
        self.started.load(Ordering::Relaxed)
    }

    /// How many answers came from the cache so far.
    pub fn found_in_cache(&self) -> usize {
        self.found.load(Ordering::Relaxed)
    }

    /// Compiles every job; equal ones once. Results stand in the order of the jobs.
    pub fn compile_batch(&self, batch: Vec<Job>) -> Vec<Result<Vec<u8>, BackendError>> {
        let keys: Vec<Key> = batch.iter().map(|job| compile_key(job, Form::Code)).collect();
        let mut first: BTreeMap<Key, usize> = BTreeMap::new();
        for (i, key) in keys.iter().enumerate() {
            first.entry(*key).or_insert(i);
        }
        let mut distinct: Vec<usize> = first.values().copied().collect();
        distinct.sort_unstable();
        let answers: Vec<Mutex<Option<Answer>>> = batch.iter().map(|_| Mutex::new(None)).collect();
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(&i) = distinct.get(next.fetch_add(1, Ordering::Relaxed)) {
                let answer = self.answer(&keys[i], || request(&batch[i], Form::Code));
                *answers[i].lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(answer);
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.jobs.min(distinct.len()) {
                scope.spawn(work);
            }
            work();
        });
        self.cache.trim();
        let answers: Vec<Option<Answer>> =
            answers.into_iter().map(|answer| answer.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())).collect();
        let of = |i: usize| answers[first[&keys[i]]].clone();
        let all = batch.iter().enumerate();
        all.map(|(i, job)| of(i).expect("every distinct job was answered").map_err(|e| named(job, e))).collect()
    }

    /// One job in any form.
    pub fn emit(&self, job: &Job, form: Form) -> Result<Vec<u8>, BackendError> {
        let answer = self.answer(&compile_key(job, form), || request(job, form));
        self.cache.trim();
        answer.map_err(|e| named(job, e))
    }

    /// Links objects of one level in a worker; see [`crate::link`].
    pub fn link(&self, objects: &[Vec<u8>], level: &Level) -> Result<Vec<u8>, BackendError> {
        let mut fields = salt("link");
        fields.extend(level.fields().map(String::into_bytes));
        fields.extend(objects.iter().map(|o| Key::of([o.as_slice()]).bytes().to_vec()));
        let key = Key::of(fields.iter().map(|f| f.as_slice()));
        let answer = self.answer(&key, || Request::Link { objects: objects.to_vec(), level: level.clone() });
        self.cache.trim();
        answer
    }

    fn answer(&self, key: &Key, request: impl FnOnce() -> Request) -> Answer {
        if let Some(content) = self.cache.get(key) {
            self.found.fetch_add(1, Ordering::Relaxed);
            return Ok(content);
        }
        let answer = self.ask(&request());
        if let Ok(content) = &answer {
            self.cache.put(key, content);
        }
        answer
    }

    /// Asks a worker. One that served before and dies gets a second chance in a fresh process, so that the
    /// outcome does not depend on what the worker did earlier.
    fn ask(&self, request: &Request) -> Answer {
        let idle = || self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut worker = idle().pop();
        loop {
            let mut current = match worker.take() {
                Some(worker) => worker,
                None => self.start()?,
            };
            match current.ask(request, self.limit) {
                Ok(answer) => {
                    if current.served < SERVICE {
                        idle().push(current);
                    }
                    return answer;
                }
                Err(Failure::Died(_)) if current.served > 0 => {}
                Err(Failure::Died(how)) => return Err(BackendError::new(Stage::Worker, how)),
                Err(Failure::TimedOut) => {
                    let seconds = self.limit.as_secs_f64();
                    let message = format!("no answer within {seconds} s");
                    return Err(BackendError::new(Stage::Worker, message));
                }
            }
        }
    }

    fn start(&self) -> Result<Worker, BackendError> {
        self.started.fetch_add(1, Ordering::Relaxed);
        Worker::start(&self.program, &self.arguments, self.limit).map_err(|e| BackendError::new(Stage::Worker, e))
    }
}

fn request(job: &Job, form: Form) -> Request {
    Request::Compile { mlir: job.mlir.clone(), level: job.level.clone(), form }
}

fn named(job: &Job, e: BackendError) -> BackendError {
    match job.key.is_empty() {
        true => e,
        false => BackendError { message: format!("{}: {}", job.key, e.message), ..e },
    }
}

fn compile_key(job: &Job, form: Form) -> Key {
    let mut fields = salt(form_name(form));
    fields.extend(job.level.fields().map(String::into_bytes));
    fields.push(job.mlir.clone().into_bytes());
    Key::of(fields.iter().map(|f| f.as_slice()))
}

/// What decides code beside its input: our version, LLVM's, the pipeline, the support module, the linker's options.
fn salt(kind: &str) -> Vec<Vec<u8>> {
    let (mut major, mut minor, mut patch) = (0, 0, 0);
    // SAFETY: writes three integers; needs no initialisation.
    unsafe { llvm_sys::core::LLVMGetVersion(&mut major, &mut minor, &mut patch) };
    let mut fields = vec![
        env!("CARGO_PKG_VERSION").to_string(),
        format!("{major}.{minor}.{patch}"),
        lower::PIPELINE.to_string(),
        kind.to_string(),
    ];
    if kind == "link" {
        fields.extend(support::SOURCES.map(str::to_string));
        fields.extend(link::OPTIONS.map(str::to_string));
    }
    fields.into_iter().map(String::into_bytes).collect()
}
