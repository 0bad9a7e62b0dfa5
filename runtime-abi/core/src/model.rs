//! An open artefact: verified, its best variant chosen, its kernels loaded, its program ready; and
//! sessions that run it.

use crate::{
    bind::check_inputs,
    choose::{self, Choice, VariantReport, sized, verified},
    code::{Ready, device_symbols},
    context::{Context, Sample},
    device::{self, Driver, Weights},
    digest::{digest, verify},
    elf::Code,
    error::{Error, Result, Status, fail},
    manifest::Manifest,
    open::{Bytes, Files},
    pool::Pool,
    run,
    value::{Output, Value},
};
use oaax_abi::{DType, Program, SlotKind, Space};
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
    /// Use a variant by its id, its target (`rocm:gfx942`) or the target's family (`rocm`). `None`: what
    /// `OAAX_TARGET` in the environment names, else the first that runs here.
    pub variant: Option<String>,
    /// Use this device: `cpu`, `gpu`, `hip`, `cuda`, `opencl`, with a number as in `hip:0`; `None`, `auto`: any.
    pub device: Option<String>,
    /// When weights are verified. Tables and code always are, before use.
    pub verify: Verify,
    /// Expected SHA-256 of `oaax.json`: binds an unpacked folder.
    pub manifest_digest: Option<[u8; 32]>,
}

/// The device of a model; what was uploaded to it is given back before the device is.
struct Device {
    weights: OnceLock<Result<Weights>>,
    driver: Arc<dyn Driver>,
}

/// A model ready to run. Shared by sessions; kept alive by them.
pub struct Model {
    /// First, so that modules go before their device.
    ready: Ready,
    device: Option<Device>,
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
    /// The chosen CPU level or device and why, and which variants were passed over.
    pub choice: String,
    /// Name of the device, if there is one.
    pub device_name: Option<String>,
    /// What the caller should hear, for example that kernels run on the host.
    pub messages: Vec<String>,
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

    /// What becomes of every variant of an artefact on this machine, and why. Errors: it is no artefact, or
    /// `options` name a device wrongly.
    pub fn explain(path: impl AsRef<Path>, options: &Options) -> Result<Vec<VariantReport>> {
        let mut files = Files::open(path.as_ref())?;
        let manifest = Manifest::parse(&files.manifest)?;
        choose::explain(&manifest, &mut files, options, &Pool::new(1))
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
        if manifest.signature_required && options.manifest_digest.is_none() {
            fail!(Tampered, "oaax.json: demands a signature; check it (oaaxc verify --policy) and open with the digest it gives");
        }
        let Choice { variant, program, host, device, why, messages } = choose::choose(&manifest, &mut files, options, &pool)?;
        let driver = match &device {
            Some((kind, found)) => Some(device::open(*kind, found).map_err(|error| choose::cannot_open(*kind, found, &error))?),
            None => None,
        };
        let host_level = host.and_then(|host| program.levels_of(Space::Host).nth(host)).map(|(level, _)| level);
        let (mut objects, mut modules) = (Vec::new(), Vec::new());
        let symbols = device_symbols(&program);
        for (index, object) in program.objects.iter().enumerate() {
            let is_device = program.levels[object.level as usize].space == Space::Device;
            let mut bytes = || verified(&manifest, &mut files, &variant.objects[index], &pool);
            let (code, module) = match &driver {
                Some(driver) if is_device && !symbols[index].is_empty() => (None, Some(driver.load(&bytes()?, &symbols[index])?)),
                _ if Some(object.level as usize) == host_level => (Some(Code::load(&bytes()?)?), None),
                _ => (None, None),
            };
            objects.push(code);
            modules.push(module);
        }
        let (mut weights, mut unverified) = (Vec::new(), Vec::new());
        for path in &variant.weights {
            let bytes = sized(&manifest, &mut files, path)?;
            unverified.push((path.clone(), bytes.clone(), manifest.files[path].leaves.clone()));
            weights.push(bytes);
        }
        check_slots(&program, &weights)?;
        let model = Model {
            ready: Ready::new(program, host.unwrap_or(0), &objects, modules)?,
            device_name: driver.as_ref().map(|driver| driver.found().name.clone()),
            device: driver.map(|driver| Device { weights: OnceLock::new(), driver }),
            messages,
            _objects: objects,
            weights,
            unverified,
            verified: OnceLock::new(),
            pool,
            digest: found,
            bound: files.bound || options.manifest_digest.is_some(),
            form: files.form,
            variant: variant.id.clone(),
            choice: why,
            copied: files.copied,
        };
        if options.verify == Verify::AtOpen {
            model.prepare_weights()?;
        }
        Ok(Arc::new(model))
    }

    /// Checks the weights, and brings the device's to it; once, and the result is remembered.
    fn prepare_weights(&self) -> Result<Option<(&Arc<dyn Driver>, &Weights)>> {
        let check = || self.unverified.iter().try_for_each(|(path, bytes, leaves)| verify(path, bytes, leaves, &self.pool));
        self.verified.get_or_init(check).clone()?;
        let Some(Device { weights, driver }) = &self.device else { return Ok(None) };
        let upload = || {
            let files: Vec<&[u8]> = self.weights.iter().map(|bytes| &**bytes).collect();
            Weights::upload(driver, &self.ready.program, &files)
        };
        let weights = weights.get_or_init(upload).as_ref().map_err(Clone::clone)?;
        Ok(Some((driver, weights)))
    }

    /// A context for one run at a time.
    fn context(&self, device: Option<(&Arc<dyn Driver>, &Weights)>) -> Result<Context> {
        Context::new(&self.ready, &self.weights, self.pool.workers(), device)
    }

    /// Bytes of the weights on the device.
    pub fn device_weight_bytes(&self) -> u64 {
        let weights = self.device.as_ref().and_then(|device| device.weights.get());
        weights.and_then(|weights| weights.as_ref().ok()).map_or(0, Weights::bytes)
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
        let device = model.prepare_weights()?;
        let kept = self.contexts.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut context = match kept {
            Some(context) => context,
            None => model.context(device)?,
        };
        let result = run::run(&model.ready, &mut context, &model.pool, inputs, outputs);
        self.contexts.lock().unwrap_or_else(PoisonError::into_inner).push(context);
        result
    }

    /// As `run`, launch by launch: what each took. Launches that may share a region run one after the other.
    pub fn profile(&self, inputs: &[Value<'_>], outputs: &mut [Output]) -> Result<Vec<Sample>> {
        let model = &*self.model;
        let mut context = model.context(model.prepare_weights()?)?;
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
