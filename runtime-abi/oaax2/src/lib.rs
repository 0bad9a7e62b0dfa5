//! The OAAX 2.0 runtime: nine exported functions over `oaax-core`.
//!
//! `include/oaax_runtime.h` is the interface. Promises: nothing else is exported (the linker's
//! version script), no panic crosses the border, no thread outlives `runtime_cleanup`, and the
//! library is really unmapped by `dlclose`, which also cleans up. Never: writes to the standard
//! streams or to a file, except the log file that the host asks for.

mod config;
mod tensors;
mod types;

use oaax_service::{Engine, Failure, Log, Outcome, Settings, Status, Texts};
use std::{
    ffi::{c_char, c_int},
    panic::catch_unwind,
    sync::{Arc, Mutex, PoisonError},
};
use tensors::Request;
use types::{Config, ModelConfig, Tensors};

type Running = Arc<Engine<Request>>;

/// What stands between init and cleanup.
static ENGINE: Mutex<Option<Running>> = Mutex::new(None);
/// The last error, and those before it.
static ERROR: Texts = Texts::new(1024);
/// The last states.
static INFO: Texts = Texts::new(64);
static LOG: Log = Log::new();

fn engine() -> Outcome<Running> {
    let engine = ENGINE.lock().unwrap_or_else(PoisonError::into_inner).clone();
    engine.ok_or_else(|| Failure::new(Status::NotInitialized, "the runtime is not initialised"))
}

fn guard(body: impl FnOnce() -> Outcome<()>) -> c_int {
    oaax_service::guard(&ERROR, &LOG, body) as c_int
}

/// Starts the runtime.
///
/// # Safety
/// `config` as the header says. The same holds for the arguments of all functions below.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runtime_init(config: Config) -> c_int {
    guard(|| {
        let mut engine = ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
        if engine.is_some() {
            return Err(Failure::new(Status::AlreadyInitialized, "the runtime is initialised already"));
        }
        // SAFETY: by this function's contract.
        let settings = unsafe { config::with(Settings::default(), &config) }?;
        ERROR.clear();
        LOG.open(settings.log_file.as_deref(), settings.log_level);
        *engine = Some(Arc::new(Engine::new(settings)));
        Ok(())
    })
}

/// Loads all models or none.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runtime_load_models(num_models: c_int, model_configs: *const ModelConfig) -> c_int {
    guard(|| {
        let engine = engine()?;
        let count = usize::try_from(num_models).unwrap_or(0);
        if count == 0 || model_configs.is_null() {
            return Err(Failure::new(Status::InvalidArgument, "no models are given"));
        }
        engine.needs_models()?;
        // SAFETY: by this function's contract there are as many configs.
        let configs = unsafe { std::slice::from_raw_parts(model_configs, count) };
        let mut sources = Vec::new();
        for config in configs {
            // SAFETY: by this function's contract; the sources are gone when this call returns.
            sources.push(unsafe { (config::with(engine.settings().clone(), &config.config)?, config::source(config)?) });
        }
        engine.load(sources, tensors::admit)
    })
}

/// Hands an input over.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runtime_enqueue_input(model_id: c_int, input_tensors: *mut Tensors) -> c_int {
    guard(|| {
        let engine = engine()?;
        let model = engine.model(model_id)?;
        if input_tensors.is_null() {
            return Err(Failure::new(Status::InvalidArgument, "input_tensors is NULL"));
        }
        // SAFETY: by this function's contract.
        let request = unsafe { Request::read(input_tensors, &model.inputs) }?;
        engine.enqueue(&model, request).map_err(|(mut request, failure)| {
            request.disown();
            failure
        })
    })
}

/// Waits for an output.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runtime_retrieve_output(
    model_id: *mut c_int,
    output_tensors: *mut *mut Tensors,
    timeout_ms: c_int,
) -> c_int {
    let mut empty = false;
    let status = guard(|| {
        let engine = engine()?;
        if model_id.is_null() || output_tensors.is_null() {
            return Err(Failure::new(Status::InvalidArgument, "model_id or output_tensors is NULL"));
        }
        // SAFETY: checked not to be null; places of the caller.
        unsafe { *output_tensors = std::ptr::null_mut() };
        let Some(done) = engine.retrieve(timeout_ms) else {
            empty = true;
            return Ok(());
        };
        // SAFETY: as above.
        unsafe { *model_id = done.model };
        match done.outcome {
            // SAFETY: as above.
            Ok(response) => unsafe { *output_tensors = response.give_away() },
            Err(failure) => {
                let message = format!("request {} of model {}: {}", done.id, done.model, failure.message);
                let status = match failure.status {
                    Status::DeviceError => Status::DeviceError,
                    _ => Status::InferenceError,
                };
                return Err(Failure::new(status, message));
            }
        }
        Ok(())
    });
    // No output is no failure: it leaves the last error as it is.
    if empty { Status::NoOutputAvailable as c_int } else { status }
}

/// Stops the runtime; may be called at any time.
#[unsafe(no_mangle)]
pub extern "C" fn runtime_cleanup() -> c_int {
    let status = guard(|| {
        let engine = ENGINE.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(engine) = engine {
            engine.shut_down();
        }
        Ok(())
    });
    ERROR.clear();
    INFO.clear();
    LOG.close();
    status
}

/// The last error, or null.
#[unsafe(no_mangle)]
pub extern "C" fn runtime_get_error() -> *const c_char {
    ERROR.get()
}

/// Version of this runtime.
#[unsafe(no_mangle)]
pub extern "C" fn runtime_get_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Name of this runtime.
#[unsafe(no_mangle)]
pub extern "C" fn runtime_get_name() -> *const c_char {
    c"OAAX oaaxc Runtime".as_ptr()
}

/// The state as a JSON object, or null.
#[unsafe(no_mangle)]
pub extern "C" fn runtime_get_info() -> *const c_char {
    let info = catch_unwind(|| engine().ok().map(|engine| engine.info())).unwrap_or(None);
    match info {
        Some(info) => INFO.set(&info),
        None => std::ptr::null(),
    }
}

/// A host that unloads the library or exits without cleanup must not leave threads in unmapped code.
extern "C" fn at_unload() {
    // A process that was forked has the state but not the threads; it leaves both to the system.
    if engine().is_ok_and(|engine| engine.is_ours()) {
        runtime_cleanup();
    }
}

#[used]
#[cfg_attr(target_os = "linux", unsafe(link_section = ".fini_array"))]
static AT_UNLOAD: extern "C" fn() = at_unload;
