//! An open artefact: verified, its best variant chosen, its kernels loaded, its program ready; and
//! sessions that run it.

use crate::{
    bind::check_inputs,
    code::Ready,
    context::{Context, Sample},
    cpu,
    digest::{digest, verify},
    elf::Code,
    error::{Error, Result, Status, fail},
    manifest::{Manifest, Variant},
    open::{Bytes, Files},
    pool::Pool,
    run,
    value::{Output, Value},
};
use oaax_abi::{DType, Program, SlotKind};
use std::{
    path::Path,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

/// When weights are checked against their digests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Verify {
    /// When the model is opened.
    #[default]
    AtOpen,
    /// Before the first run.
    AtFirstRun,
}

/// How to open a model.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Workers, the calling thread included; 0: one for each CPU.
    pub threads: usize,
    /// Use this CPU level or a lower one.
    pub cpu_level: Option<String>,
    /// Use the variant of this id.
    pub variant: Option<String>,
    /// When weights are verified. Tables and code always are, before use.
    pub verify: Verify,
    /// Expected SHA-256 of `oaax.json`: binds an unpacked folder.
    pub manifest_digest: Option<[u8; 32]>,
}

/// A model ready to run. Shared by sessions; kept alive by them.
pub struct Model {
    ready: Ready,
    /// Kernels point into these.
    _objects: Vec<Option<Code>>,
    weights: Vec<Bytes>,
    unverified: Vec<(String, Bytes, Vec<[u8; 32]>)>,
    verified: OnceLock<Result<()>>,
    pool: Pool,
    /// Digest of `oaax.json`, which binds the whole artefact.
    pub digest: [u8; 32],
    /// Whether something outside the files binds `oaax.json`: the container's digests, or one that was given.
    pub bound: bool,
    /// Form of the artefact: `archive`, `folder`, `layout`, `memory`.
    pub form: &'static str,
    /// The chosen variant.
    pub variant: String,
    /// The chosen CPU level and why.
    pub choice: String,
    /// What had to be copied and why; empty if everything is mapped in place.
    pub copied: Vec<String>,
}

impl Model {
    /// Opens `model.oaax`, an unpacked `/models` folder or an OCI layout folder.
    ///
    /// The files are mapped: they must not be changed or cut while the model is open.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Arc<Model>> {
        Model::load(Files::open(path.as_ref())?, options)
    }

    /// Opens an archive in memory; the bytes may be released afterwards.
    pub fn open_memory(bytes: &[u8], options: &Options) -> Result<Arc<Model>> {
        Model::load(Files::open_memory(bytes)?, options)
    }

    fn load(mut files: Files, options: &Options) -> Result<Arc<Model>> {
        let threads = match options.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads.min(1024),
        };
        let pool = Pool::new(threads);
        let found = digest(&files.manifest);
        if options.manifest_digest.is_some_and(|expected| expected != found) {
            fail!(Tampered, "oaax.json: is not the one whose digest was given");
        }
        let manifest = Manifest::parse(&files.manifest)?;
        let (variant, program, level, choice) = choose(&manifest, &mut files, options, &pool)?;
        let mut objects = Vec::new();
        for (index, object) in program.objects.iter().enumerate() {
            let wanted = object.level as usize == level && !program.kernels.is_empty();
            let code = match wanted {
                true => Some(Code::load(&verified(&manifest, &mut files, &variant.objects[index], &pool)?)?),
                false => None,
            };
            objects.push(code);
        }
        let (mut weights, mut unverified) = (Vec::new(), Vec::new());
        for path in &variant.weights {
            let bytes = sized(&manifest, &mut files, path)?;
            unverified.push((path.clone(), bytes.clone(), manifest.files[path].leaves.clone()));
            weights.push(bytes);
        }
        check_slots(&program, &weights)?;
        let model = Model {
            ready: Ready::new(program, level, &objects)?,
            _objects: objects,
            weights,
            unverified,
            verified: OnceLock::new(),
            pool,
            digest: found,
            bound: files.bound || options.manifest_digest.is_some(),
            form: files.form,
            variant: variant.id.clone(),
            choice,
            copied: files.copied,
        };
        if options.verify == Verify::AtOpen {
            model.verify_weights()?;
        }
        Ok(Arc::new(model))
    }

    /// Checks the weights once; the result is remembered.
    fn verify_weights(&self) -> Result<()> {
        let check = || self.unverified.iter().try_for_each(|(path, bytes, leaves)| verify(path, bytes, leaves, &self.pool));
        self.verified.get_or_init(check).clone()
    }

    /// The host program: names, types and dims of inputs and outputs.
    pub fn program(&self) -> &Program {
        &self.ready.program
    }

    /// Workers, the calling thread included.
    pub fn workers(&self) -> usize {
        self.pool.workers()
    }

    /// Bytes of all weight files.
    pub fn weight_bytes(&self) -> u64 {
        self.weights.iter().map(|bytes| bytes.len() as u64).sum()
    }
}

/// The bytes of a file, of the size that the manifest says.
fn sized(manifest: &Manifest, files: &mut Files, path: &str) -> Result<Bytes> {
    let bytes = files.get(path)?;
    match manifest.files[path].size == bytes.len() as u64 {
        true => Ok(bytes),
        false => fail!(Tampered, "{path}: has {} bytes instead of {}", bytes.len(), manifest.files[path].size),
    }
}

/// The bytes of a file, verified.
fn verified(manifest: &Manifest, files: &mut Files, path: &str, pool: &Pool) -> Result<Bytes> {
    let bytes = sized(manifest, files, path)?;
    verify(path, &bytes, &manifest.files[path].leaves, pool)?;
    Ok(bytes)
}

/// The first variant that this machine runs, its program, its level, and why.
fn choose<'a>(
    manifest: &'a Manifest,
    files: &mut Files,
    options: &Options,
    pool: &Pool,
) -> Result<(&'a Variant, Program, usize, String)> {
    let mut reasons = Vec::new();
    for variant in &manifest.variants {
        if options.variant.as_ref().is_some_and(|wanted| *wanted != variant.id) {
            continue;
        }
        if let Some(device) = &variant.device {
            reasons.push(format!("{} needs a device of kind {device}, which this runtime does not drive", variant.id));
            continue;
        }
        let host = cpu::architecture();
        if !variant.arch.is_empty() && !variant.arch.iter().any(|arch| arch == host) {
            reasons.push(format!("{} is for {}, this machine is {host}", variant.id, variant.arch.join(", ")));
            continue;
        }
        if !files.has(&variant.program) {
            reasons.push(format!("the files of {} are not in this image", variant.id));
            continue;
        }
        let program = Program::parse(&verified(manifest, files, &variant.program, pool)?)?;
        if program.objects.len() != variant.objects.len() {
            fail!(
                InvalidModel,
                "variant {} lists {} objects, its program {}",
                variant.id,
                variant.objects.len(),
                program.objects.len()
            );
        }
        if program.kernels.is_empty() {
            return Ok((variant, program, 0, "the program has no kernels".to_owned()));
        }
        let levels: Vec<&str> = program.levels.iter().map(|level| program.text(level.name)).collect();
        match cpu::choose(&levels, options.cpu_level.as_deref()) {
            (Some(level), why) => return Ok((variant, program, level, why)),
            (None, why) => reasons.push(format!("{}: {why}", variant.id)),
        }
    }
    match reasons.is_empty() {
        true => fail!(Unsupported, "the artefact has no variant {}", options.variant.as_deref().unwrap_or("at all")),
        false => fail!(Unsupported, "no variant runs here: {}", reasons.join("; ")),
    }
}

/// Weights lie in their files; types that this runtime cannot hold are refused.
fn check_slots(program: &Program, weights: &[Bytes]) -> Result<()> {
    for (index, slot) in program.slots.iter().enumerate() {
        if slot.dtype == DType::String {
            fail!(NotImplemented, "the model uses strings, which this runtime does not hold yet");
        }
        let SlotKind::Weight { file, offset, length } = slot.kind else { continue };
        let size = weights.get(file as usize).map(|bytes| bytes.len() as u64);
        if size.is_none_or(|size| offset.checked_add(length).is_none_or(|end| end > size)) {
            fail!(InvalidModel, "weight slot {index} lies outside its file");
        }
    }
    Ok(())
}

/// Runs a model; may be used from many threads at once.
pub struct Session {
    model: Arc<Model>,
    contexts: Mutex<Vec<Context>>,
}

impl Session {
    /// A session of an open model.
    pub fn new(model: &Arc<Model>) -> Session {
        Session { model: model.clone(), contexts: Mutex::new(Vec::new()) }
    }

    /// The model.
    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    /// One value for each input and one place for each output, in the model's order. On an error the
    /// outputs hold nothing of use.
    pub fn run(&self, inputs: &[Value<'_>], outputs: &mut [Output]) -> Result<()> {
        let model = &*self.model;
        model.verify_weights()?;
        let kept = self.contexts.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut context = kept.unwrap_or_else(|| Context::new(&model.ready, &model.weights, model.pool.workers()));
        let result = run::run(&model.ready, &mut context, &model.pool, inputs, outputs);
        self.contexts.lock().unwrap_or_else(PoisonError::into_inner).push(context);
        result
    }

    /// As `run`, launch by launch: what each took. Launches that may share a region run one after the other.
    pub fn profile(&self, inputs: &[Value<'_>], outputs: &mut [Output]) -> Result<Vec<Sample>> {
        let model = &*self.model;
        model.verify_weights()?;
        let mut context = Context::new(&model.ready, &model.weights, model.pool.workers());
        context.samples = Some(Vec::new());
        run::run(&model.ready, &mut context, &model.pool, inputs, outputs)?;
        Ok(context.samples.take().unwrap_or_default())
    }

    /// Whether a run would take these inputs: names, types and sizes, before any work.
    pub fn check(&self, inputs: &[Value<'_>]) -> Result<()> {
        let program = &self.model.ready.program;
        check_inputs(program, &mut vec![0; program.registers as usize], inputs)
    }

    /// Bytes of the arenas of all runs that were at work at one time.
    pub fn arena_bytes(&self) -> u64 {
        self.contexts.lock().unwrap_or_else(PoisonError::into_inner).iter().map(|context| context.arena_bytes()).sum()
    }

    /// Runs with outputs in memory of the runtime.
    pub fn run_fresh(&self, inputs: &[Value<'_>]) -> Result<Vec<Output>> {
        let mut outputs: Vec<Output> = self.model.ready.program.outputs.iter().map(|_| Output::default()).collect();
        self.run(inputs, &mut outputs)?;
        Ok(outputs)
    }
}

impl Error {
    /// An error for a bug met by catching a panic.
    pub fn panic() -> Error {
        Error::new(Status::Internal, "the runtime met a bug of its own; please report it")
    }
}
