//! liboaaxc_rt: the versioned C interface of the runtime, over `oaax-core`.
//!
//! `include/oaaxc_rt.h` is the truth and the documentation. Promises: one exported symbol; no panic
//! crosses the border (it becomes `OAAXC_INTERNAL`); pointers that may be NULL by the header are
//! checked, others are the caller's word. Never: keeps global state.

mod objects;
mod run;
mod types;

use oaax_core::{Options, Status, Verify, digest_from_hex};
use objects::{Error, Model, Session};
use std::{
    ffi::{CStr, c_char, c_void},
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};
use types::{OpenOptions, Output, Port, Value};

type Outcome<T> = Result<T, oaax_core::Error>;

/// The table; see the header.
#[repr(C)]
pub struct Api {
    struct_size: u32,
    version: u32,
    library_version: extern "C" fn() -> *const c_char,
    error_status: unsafe extern "C" fn(*const Error) -> i32,
    error_message: unsafe extern "C" fn(*const Error) -> *const c_char,
    error_node: unsafe extern "C" fn(*const Error) -> *const c_char,
    error_release: unsafe extern "C" fn(*mut Error),
    open: unsafe extern "C" fn(*const c_char, *const OpenOptions, *mut *mut Model, *mut *mut Error) -> i32,
    open_memory: unsafe extern "C" fn(*const c_void, u64, *const OpenOptions, *mut *mut Model, *mut *mut Error) -> i32,
    model_release: unsafe extern "C" fn(*mut Model),
    model_info: unsafe extern "C" fn(*const Model) -> *const c_char,
    input_count: unsafe extern "C" fn(*const Model) -> u32,
    output_count: unsafe extern "C" fn(*const Model) -> u32,
    input: unsafe extern "C" fn(*const Model, u32) -> *const Port,
    output: unsafe extern "C" fn(*const Model, u32) -> *const Port,
    session_create: unsafe extern "C" fn(*const Model, *mut *mut Session, *mut *mut Error) -> i32,
    session_release: unsafe extern "C" fn(*mut Session),
    run: unsafe extern "C" fn(*mut Session, u32, *const Value, u32, *mut Output, *mut *mut Error) -> i32,
    output_release: unsafe extern "C" fn(*mut Output),
}

const VERSION: u32 = 1;
/// Bytes of the options of the first release.
const FIRST_OPTIONS: usize = 40;
const _: () = assert!(size_of::<Api>() == 144);

static API: Api = Api {
    struct_size: size_of::<Api>() as u32,
    version: VERSION,
    library_version,
    error_status,
    error_message,
    error_node,
    error_release,
    open,
    open_memory,
    model_release,
    model_info,
    input_count,
    output_count,
    input,
    output,
    session_create,
    session_release,
    run: run_session,
    output_release,
};

/// The table of the highest version in `min_version..=max_version`; null if there is none.
#[unsafe(no_mangle)]
pub extern "C" fn oaaxc_rt_get_api(min_version: u32, max_version: u32) -> *const Api {
    match (min_version..=max_version).contains(&VERSION) {
        true => &API,
        false => std::ptr::null(),
    }
}

/// Calls `body`, turns what it gives into a status and an error object.
///
/// # Safety
/// `error` is null or a place for a pointer.
unsafe fn guard(error: *mut *mut Error, body: impl FnOnce() -> Outcome<()>) -> i32 {
    let outcome = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| Err(oaax_core::Error::panic()));
    let (status, object) = match outcome {
        Ok(()) => (0, std::ptr::null_mut()),
        Err(found) => (found.status as i32, Error::boxed(found)),
    };
    // SAFETY: by this function's contract.
    unsafe {
        match error.is_null() {
            false => *error = object,
            true => error_release(object),
        }
    }
    status
}

/// A string argument.
///
/// # Safety
/// `text` is null or a NUL-terminated string.
unsafe fn text<'a>(text: *const c_char) -> Outcome<Option<&'a str>> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: by this function's contract.
    match unsafe { CStr::from_ptr(text) }.to_str() {
        Ok(text) => Ok(Some(text)),
        Err(_) => Err(invalid("a string is not UTF-8")),
    }
}

fn invalid(message: &str) -> oaax_core::Error {
    oaax_core::Error::new(Status::InvalidArgument, message)
}

/// # Safety
/// `options` is null or options with strings as the header says.
unsafe fn options(options: *const OpenOptions) -> Outcome<Options> {
    if options.is_null() {
        return Ok(Options::default());
    }
    // SAFETY: by this function's contract the size stands first, and as many bytes are there.
    let size = unsafe { (*options).struct_size } as usize;
    let mut copy: OpenOptions = OpenOptions::NONE;
    if size < FIRST_OPTIONS {
        return Err(invalid("the options' struct_size is too small"));
    }
    // SAFETY: no more than the caller has, no more than the copy takes.
    unsafe { options.cast::<u8>().copy_to((&raw mut copy).cast(), size.min(size_of::<OpenOptions>())) };
    let given = &copy;
    // SAFETY: by this function's contract.
    let (level, variant, digest) = unsafe { (text(given.cpu_level)?, text(given.variant)?, text(given.manifest_sha256)?) };
    // SAFETY: by this function's contract.
    let device = unsafe { text(given.device) }?;
    let manifest_digest = match digest {
        Some(digits) => Some(digest_from_hex(digits).ok_or_else(|| invalid("manifest_sha256 is not 64 lower-case digits"))?),
        None => None,
    };
    Ok(Options {
        threads: given.threads as usize,
        cpu_level: level.map(str::to_owned),
        variant: variant.map(str::to_owned),
        device: device.map(str::to_owned),
        verify: if given.verify_late != 0 { Verify::AtFirstRun } else { Verify::AtOpen },
        manifest_digest,
    })
}

extern "C" fn library_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// # Safety
/// For this and the functions below: arguments as the header says.
unsafe extern "C" fn error_status(error: *const Error) -> i32 {
    // SAFETY: an error of ours, or null.
    unsafe { error.as_ref() }.map_or(0, |error| error.status)
}

unsafe extern "C" fn error_message(error: *const Error) -> *const c_char {
    // SAFETY: an error of ours, or null.
    unsafe { error.as_ref() }.map_or(std::ptr::null(), |error| error.message.as_ptr())
}

unsafe extern "C" fn error_node(error: *const Error) -> *const c_char {
    // SAFETY: an error of ours, or null.
    let node = unsafe { error.as_ref() }.and_then(|error| error.node.as_ref());
    node.map_or(std::ptr::null(), |node| node.as_ptr())
}

unsafe extern "C" fn error_release(error: *mut Error) {
    if !error.is_null() {
        // SAFETY: an error of ours, released once.
        drop(unsafe { Box::from_raw(error) });
    }
}

unsafe extern "C" fn open(path: *const c_char, given: *const OpenOptions, model: *mut *mut Model, error: *mut *mut Error) -> i32 {
    // SAFETY: arguments as the header says; null ones are checked.
    unsafe {
        guard(error, || {
            let (Some(path), false) = (text(path)?, model.is_null()) else { return Err(invalid("path or model is NULL")) };
            *model = std::ptr::null_mut();
            *model = Model::boxed(oaax_core::Model::open(Path::new(path), &options(given)?)?);
            Ok(())
        })
    }
}

unsafe extern "C" fn open_memory(
    data: *const c_void,
    bytes: u64,
    given: *const OpenOptions,
    model: *mut *mut Model,
    error: *mut *mut Error,
) -> i32 {
    // SAFETY: arguments as the header says; null ones are checked.
    unsafe {
        guard(error, || {
            if data.is_null() || model.is_null() || bytes > isize::MAX as u64 {
                return Err(invalid("data or model is NULL"));
            }
            *model = std::ptr::null_mut();
            let data = std::slice::from_raw_parts(data.cast(), bytes as usize);
            *model = Model::boxed(oaax_core::Model::open_memory(data, &options(given)?)?);
            Ok(())
        })
    }
}

unsafe extern "C" fn model_release(model: *mut Model) {
    if !model.is_null() {
        // SAFETY: a model of ours, released once. Its threads end here unless a session keeps it.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(unsafe { Box::from_raw(model) })));
    }
}

unsafe extern "C" fn model_info(model: *const Model) -> *const c_char {
    // SAFETY: a model of ours, or null.
    unsafe { model.as_ref() }.map_or(std::ptr::null(), |model| model.info.as_ptr())
}

unsafe extern "C" fn input_count(model: *const Model) -> u32 {
    // SAFETY: a model of ours, or null.
    unsafe { model.as_ref() }.map_or(0, |model| model.inputs.len() as u32)
}

unsafe extern "C" fn output_count(model: *const Model) -> u32 {
    // SAFETY: a model of ours, or null.
    unsafe { model.as_ref() }.map_or(0, |model| model.outputs.len() as u32)
}

unsafe extern "C" fn input(model: *const Model, index: u32) -> *const Port {
    // SAFETY: a model of ours, or null.
    let port = unsafe { model.as_ref() }.and_then(|model| model.inputs.get(index as usize));
    port.map_or(std::ptr::null(), |port| port)
}

unsafe extern "C" fn output(model: *const Model, index: u32) -> *const Port {
    // SAFETY: a model of ours, or null.
    let port = unsafe { model.as_ref() }.and_then(|model| model.outputs.get(index as usize));
    port.map_or(std::ptr::null(), |port| port)
}

unsafe extern "C" fn session_create(model: *const Model, session: *mut *mut Session, error: *mut *mut Error) -> i32 {
    // SAFETY: arguments as the header says; null ones are checked.
    unsafe {
        guard(error, || {
            let (Some(model), false) = (model.as_ref(), session.is_null()) else {
                return Err(invalid("model or session is NULL"));
            };
            *session = Box::into_raw(Box::new(Session(oaax_core::Session::new(&model.core))));
            Ok(())
        })
    }
}

unsafe extern "C" fn session_release(session: *mut Session) {
    if !session.is_null() {
        // SAFETY: a session of ours, released once.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(unsafe { Box::from_raw(session) })));
    }
}

unsafe extern "C" fn run_session(
    session: *mut Session,
    input_count: u32,
    inputs: *const Value,
    output_count: u32,
    outputs: *mut Output,
    error: *mut *mut Error,
) -> i32 {
    // SAFETY: arguments as the header says; null ones are checked.
    unsafe {
        guard(error, || {
            let missing = (inputs.is_null() && input_count > 0) || (outputs.is_null() && output_count > 0);
            let (Some(session), false) = (session.as_ref(), missing) else {
                return Err(invalid("session, inputs or outputs are NULL"));
            };
            let inputs = if input_count == 0 { &[] } else { std::slice::from_raw_parts(inputs, input_count as usize) };
            let outputs: &mut [Output] =
                if output_count == 0 { &mut [] } else { std::slice::from_raw_parts_mut(outputs, output_count as usize) };
            run::run(session, inputs, outputs)
        })
    }
}

unsafe extern "C" fn output_release(output: *mut Output) {
    // SAFETY: an output of a run, or null.
    if let Some(output) = unsafe { output.as_mut() } {
        // SAFETY: `keep` is null or ours; it is cleared, so that a second release does nothing.
        unsafe { run::release(output) };
    }
}
