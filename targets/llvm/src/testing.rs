//! Runs linked code in this process, for tests and measurements of the rooms above; never part of a build.

use std::{
    ffi::{CString, c_void},
    io,
};

/// A function `void f(const T *x, const T *y, T *out, int64_t count)` of a loaded code object.
pub struct Elementwise {
    call: Call,
}

type Call = extern "C" fn(*const c_void, *const c_void, *mut c_void, i64);

impl Elementwise {
    /// Loads the object, for good, and finds its function `name`, which must have the type above: code that
    /// was just compiled from the caller's own text, nothing else.
    pub fn load(linked: &[u8], name: &str) -> io::Result<Elementwise> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("code.so");
        std::fs::write(&path, linked)?;
        let path = CString::new(path.display().to_string())?;
        let name = CString::new(name)?;
        // SAFETY: the object has no initialisers (the linker checked) and stays loaded; the caller vouches
        // for the function's type.
        unsafe {
            let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
            if handle.is_null() {
                return Err(io::Error::other("dlopen failed"));
            }
            let address = libc::dlsym(handle, name.as_ptr());
            if address.is_null() {
                return Err(io::Error::new(io::ErrorKind::NotFound, "no such function"));
            }
            Ok(Elementwise { call: std::mem::transmute::<*mut c_void, Call>(address) })
        }
    }

    /// Runs the function on arrays of one length.
    ///
    /// # Panics
    /// When the lengths differ.
    pub fn run<T>(&self, x: &[T], y: &[T], out: &mut [T]) {
        assert!(x.len() == out.len() && y.len() == out.len(), "arrays of one length");
        let count = out.len() as i64;
        (self.call)(x.as_ptr().cast(), y.as_ptr().cast(), out.as_mut_ptr().cast(), count);
    }
}
