//! Objects to one loadable code object, by lld as a library.
//!
//! The result is a freestanding `ET_DYN`: no library needed, no undefined symbol, only relative
//! relocations, no initialiser, no thread-local storage, no segment both writable and executable; exported
//! functions stand in `.dynsym` under a System V hash table (whose chain count is the symbol count). All of
//! this is checked on the linked bytes, whatever lld did. Linking is deterministic.

use std::{
    ffi::{CStr, CString, c_char},
    fs,
    sync::Mutex,
};

use crate::{
    elf,
    error::{BackendError, Stage},
    level::Level,
    support,
};

unsafe extern "C" {
    fn oaaxc_lld_elf(args: *const *const c_char, count: usize, log: *mut *mut c_char) -> i32;
}

pub(crate) const OPTIONS: [&str; 14] = [
    "ld.lld",
    "-shared",
    "-Bsymbolic",
    "--no-undefined",
    "--gc-sections",
    "--strip-all",
    "--build-id=none",
    "--hash-style=sysv",
    "--threads=1",
    "-znow",
    "-znorelro",
    "-znoexecstack",
    "-zseparate-code",
    "--fatal-warnings",
];

/// Links relocatable objects of one level with the support module of that level.
///
/// Objects must not define the same exported symbol twice. Not for the main process of a build: it pulls
/// LLVM in; [`crate::WorkerPool::link`] does it in a worker.
pub fn link(objects: &[Vec<u8>], level: &Level) -> Result<Vec<u8>, BackendError> {
    let io = |e: std::io::Error| BackendError::new(Stage::Link, format!("temporary files: {e}"));
    let support = match level.support {
        true => support::objects(level)?,
        false => Default::default(),
    };
    // Named after the process that this worker works for, which removes what an interrupted build leaves.
    let prefix = format!("oaaxc-{}-link-", std::os::unix::process::parent_id());
    let folder = tempfile::Builder::new().prefix(&prefix).tempdir().map_err(io)?;
    let output = folder.path().join("linked");
    let mut arguments: Vec<String> = OPTIONS.iter().map(|o| o.to_string()).collect();
    for (i, object) in objects.iter().chain(support.iter()).enumerate() {
        let path = folder.path().join(format!("object-{i}"));
        fs::write(&path, object).map_err(io)?;
        arguments.push(path.display().to_string());
    }
    arguments.extend(["-o".to_string(), output.display().to_string()]);
    run_lld(&arguments).map_err(|log| {
        // Messages must not hold this run's folder.
        let folder = format!("{}/", folder.path().display());
        BackendError::new(Stage::Link, log.replace(&folder, ""))
    })?;
    let linked = fs::read(&output).map_err(io)?;
    elf::check_freestanding(&linked).map_err(|e| BackendError::new(Stage::Link, e))?;
    Ok(linked)
}

fn run_lld(arguments: &[String]) -> Result<(), String> {
    // lld keeps global state: one link at a time, and none after a crash inside it.
    static LLD: Mutex<bool> = Mutex::new(true);
    let mut usable = LLD.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if !*usable {
        return Err("lld crashed earlier in this process".into());
    }
    let strings = arguments.iter().map(|a| CString::new(a.as_str()));
    let strings: Vec<CString> = strings.collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    let pointers: Vec<*const c_char> = strings.iter().map(|s| s.as_ptr()).collect();
    let mut log = std::ptr::null_mut();
    // SAFETY: the pointers live across the call; the mutex keeps other links out; `log` is a malloc'd C
    // string, copied and freed here.
    let (code, log) = unsafe {
        let code = oaaxc_lld_elf(pointers.as_ptr(), pointers.len(), &mut log);
        let text = match log.is_null() {
            true => String::new(),
            false => CStr::from_ptr(log).to_string_lossy().into_owned(),
        };
        libc::free(log.cast());
        (code, text)
    };
    *usable = code & 0x10000 == 0;
    match code & 0xffff {
        0 => Ok(()),
        _ => Err(log),
    }
}
