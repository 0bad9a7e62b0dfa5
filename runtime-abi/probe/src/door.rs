//! The one door through which a library comes in: `dlopen`. What is behind it may do anything, so it is
//! opened only in a process that may die.

use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A library that is open; it stays so until `close`.
pub struct Door {
    handle: *mut c_void,
    path: CString,
}

// SAFETY: the handle is only a name for the loader, which takes it from any thread.
unsafe impl Send for Door {}
// SAFETY: as above.
unsafe impl Sync for Door {}

impl Door {
    /// Opens a library; its symbols are its own (`RTLD_LOCAL`) and are all there (`RTLD_NOW`).
    pub fn open(path: &Path) -> Result<Door, String> {
        let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| "a path with a NUL".to_owned())?;
        // SAFETY: a string; the library's initialisers are the risk that this process was made for.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        match handle.is_null() {
            false => Ok(Door { handle, path }),
            true => Err(format!("dlopen: {}", error())),
        }
    }

    /// The address of a symbol.
    pub fn symbol(&self, name: &str) -> Result<*mut c_void, String> {
        let text = CString::new(name).map_err(|_| "a name with a NUL".to_owned())?;
        // SAFETY: an open handle and a string.
        let address = unsafe { libc::dlsym(self.handle, text.as_ptr()) };
        if address.is_null() { Err(format!("{name} is not exported")) } else { Ok(address) }
    }

    /// Closes the library and says whether it is really unmapped. Nothing of it may be called afterwards.
    pub fn close(self) -> Result<(), String> {
        // SAFETY: an open handle, closed once.
        if unsafe { libc::dlclose(self.handle) } != 0 {
            return Err(format!("dlclose: {}", error()));
        }
        // SAFETY: a string; nothing is loaded anew.
        let again = unsafe { libc::dlopen(self.path.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD) };
        if again.is_null() {
            return Ok(());
        }
        Err("the library is still mapped after dlclose: one of its threads, thread-locals or unique symbols holds it".to_owned())
    }
}

fn error() -> String {
    // SAFETY: gives a string of this thread or null.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "no reason given".to_owned();
    }
    // SAFETY: a string that stands until the next call.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
