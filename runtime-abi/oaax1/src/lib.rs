//! The OAAX 1.x runtime: nine exported functions over the same service as OAAX 2.0.
//!
//! `include/oaax1_runtime.h` is the interface. Promises: nothing else is exported (the linker's version
//! script), no panic crosses the border, outputs come in the order of the inputs, no thread outlives
//! `runtime_destruction`, and the library is really unmapped by `dlclose`, which also cleans up. Never:
//! writes to the standard streams or to a file, except the log file that the host asks for; looks at the
//! value of a key that it does not know.

mod tensors;

use oaax_service::{Engine, Failure, Log, Outcome, Settings, Source, Status, Texts, is_known};
use std::{
    ffi::{CStr, c_char, c_int, c_void},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI32, Ordering},
    },
};
use tensors::{Request, Tensors};

type Running = Arc<Engine<Request>>;

/// What stands between initialisation and destruction.
static ENGINE: Mutex<Option<Running>> = Mutex::new(None);
/// The last error, and those before it.
static ERROR: Texts = Texts::new(1024);
static LOG: Log = Log::new();
/// Inputs taken over since the initialisation: a failure names its request by it.
static SENT: AtomicI32 = AtomicI32::new(0);

/// How long `receive_output` waits, in milliseconds: hosts give up after three to ten tries, and expect an answer within 100.
const WAIT: c_int = 80;

fn engine() -> Outcome<Running> {
    let engine = ENGINE.lock().unwrap_or_else(PoisonError::into_inner).clone();
    engine.ok_or_else(|| Failure::new(Status::NotInitialized, "the runtime is not initialised"))
}

fn guard(body: impl FnOnce() -> Outcome<()>) -> c_int {
    oaax_service::guard(&ERROR, &LOG, body) as c_int
}

fn start(settings: impl FnOnce() -> Outcome<Settings>) -> c_int {
    guard(|| {
        let mut engine = ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
        if engine.is_some() {
            return Err(Failure::new(Status::AlreadyInitialized, "the runtime is initialised already"));
        }
        let settings = settings()?;
        ERROR.clear();
        LOG.open(settings.log_file.as_deref(), settings.log_level);
        SENT.store(0, Ordering::Relaxed);
        *engine = Some(Arc::new(Engine::new(settings)));
        Ok(())
    })
}

/// Starts the runtime.
#[unsafe(no_mangle)]
pub extern "C" fn runtime_initialization() -> c_int {
    start(|| Ok(Settings::default()))
}

/// Starts the runtime with what the keys say.
///
/// # Safety
/// Arrays as the header says. The same holds for the arguments of all functions below.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runtime_initialization_with_args(
    length: c_int,
    keys: *const *const c_char,
    values: *const *const c_void,
) -> c_int {
    // SAFETY: by this function's contract.
    start(|| unsafe { settings(length, keys, values) })
}

unsafe fn settings(length: c_int, keys: *const *const c_char, values: *const *const c_void) -> Outcome<Settings> {
    let count = usize::try_from(length).unwrap_or(0);
    if length < 0 || (count > 0 && (keys.is_null() || values.is_null())) {
        return Err(Failure::new(Status::InvalidArgument, "arguments are announced and their arrays are missing"));
    }
    let mut settings = Settings::default();
    for index in 0..count {
        // SAFETY: by the caller's contract both arrays have `length` entries, and keys are strings or null.
        let (key, value) = unsafe { (*keys.add(index), *values.add(index)) };
        if key.is_null() || value.is_null() {
            continue;
        }
        // SAFETY: as above.
        let key = unsafe { CStr::from_ptr(key) }.to_string_lossy();
        if is_known(&key) {
            // SAFETY: the value of a known key is a string or a small number.
            settings.set(&key, &unsafe { value_text(value.cast()) })?;
        }
    }
    Ok(settings)
}

/// A value as text. The interface gives values no type: runtimes take strings, and one public host gives
/// an `int *` where the value is a number. No string begins with the control characters 1 to 31, so a
/// first byte among them is the first of such a number.
unsafe fn value_text(value: *const u8) -> String {
    // SAFETY: there is at least one byte, and of a string a NUL at its end.
    match unsafe { *value } {
        small @ 1..=31 => small.to_string(),
        // SAFETY: as above.
        _ => unsafe { CStr::from_ptr(value.cast()) }.to_string_lossy().into_owned(),
    }
}

/// Loads the one model.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn runtime_model_loading(file_path: *const c_char) -> c_int {
    guard(|| {
        let engine = engine()?;
        engine.needs_models()?;
        if file_path.is_null() {
            return Err(Failure::new(Status::InvalidArgument, "file_path is NULL"));
        }
        // SAFETY: a string.
        let path = unsafe { CStr::from_ptr(file_path) }.to_string_lossy().into_owned();
        engine.load(vec![(engine.settings().clone(), Source::File(path))], tensors::admit)
    })
}

/// Hands an input over.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn send_input(input_tensors: *mut Tensors) -> c_int {
    guard(|| {
        let engine = engine()?;
        let model = engine.model(0)?;
        if input_tensors.is_null() {
            return Err(Failure::new(Status::InvalidArgument, "input_tensors is NULL"));
        }
        let number = SENT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: by this function's contract.
        let request = unsafe { Request::read(input_tensors, number, &model.inputs) }?;
        engine.enqueue(&model, request).map_err(|(mut request, failure)| {
            request.disown();
            failure
        })
    })
}

/// Waits a little for an output.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn receive_output(output_tensors: *mut *mut Tensors) -> c_int {
    let mut is_empty = false;
    let status = guard(|| {
        let engine = engine()?;
        if output_tensors.is_null() {
            return Err(Failure::new(Status::InvalidArgument, "output_tensors is NULL"));
        }
        // SAFETY: checked not to be null; a place of the caller.
        unsafe { *output_tensors = std::ptr::null_mut() };
        let Some(done) = engine.retrieve(WAIT) else {
            is_empty = true;
            return Ok(());
        };
        match done.outcome {
            // SAFETY: as above.
            Ok(response) => unsafe { *output_tensors = response.give_away() },
            Err(failure) => {
                let message = format!("request {} (counted from 0) failed: {}", done.id, failure.message);
                return Err(Failure::new(failure.status, message));
            }
        }
        Ok(())
    });
    if is_empty {
        // No failure, hence not in the log; the message tells it from one.
        ERROR.set("no output is available yet");
        return Status::NoOutputAvailable as c_int;
    }
    status
}

/// Stops the runtime; may be called at any time.
#[unsafe(no_mangle)]
pub extern "C" fn runtime_destruction() -> c_int {
    let status = guard(|| {
        let engine = ENGINE.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(engine) = engine {
            engine.shut_down();
        }
        Ok(())
    });
    ERROR.clear();
    LOG.close();
    status
}

/// The last error; never null.
#[unsafe(no_mangle)]
pub extern "C" fn runtime_error_message() -> *const c_char {
    let text = ERROR.get();
    if text.is_null() { c"no error".as_ptr() } else { text }
}

/// Version of this runtime.
#[unsafe(no_mangle)]
pub extern "C" fn runtime_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// Name of this runtime.
#[unsafe(no_mangle)]
pub extern "C" fn runtime_name() -> *const c_char {
    c"OAAX oaaxc Runtime".as_ptr()
}

/// A host that unloads the library or exits without destruction must not leave threads in unmapped code.
extern "C" fn at_unload() {
    // A process that was forked has the state but not the threads; it leaves both to the system.
    if engine().is_ok_and(|engine| engine.is_ours()) {
        runtime_destruction();
    }
}

#[used]
#[cfg_attr(target_os = "linux", unsafe(link_section = ".fini_array"))]
static AT_UNLOAD: extern "C" fn() = at_unload;
