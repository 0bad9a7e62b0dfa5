//! Loads a linked code object with the system's loader.
#![allow(dead_code)] // Each test binary uses its part.

use std::ffi::{CString, c_void};

use oaaxc_llvm::{Level, compile_module, link};

pub struct Loaded(*mut c_void);

impl Loaded {
    pub fn new(linked: &[u8]) -> Loaded {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("code.so");
        std::fs::write(&path, linked).unwrap();
        let name = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: the object has no initialisers (the linker checked) and stays loaded.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        assert!(!handle.is_null(), "dlopen failed");
        Loaded(handle)
    }

    /// # Safety
    /// `F` is the function pointer type of the symbol.
    pub unsafe fn get<F: Copy>(&self, name: &str) -> F {
        let symbol = CString::new(name).unwrap();
        // SAFETY: the handle is open; the caller promises the type.
        unsafe {
            let address = libc::dlsym(self.0, symbol.as_ptr());
            assert!(!address.is_null(), "no symbol {name}");
            assert_eq!(size_of::<F>(), size_of::<*mut c_void>());
            std::mem::transmute_copy(&address)
        }
    }
}

pub fn build(text: &str, level: &Level) -> Loaded {
    let object = compile_module(text, level).unwrap_or_else(|e| panic!("{e}"));
    Loaded::new(&link(&[object], level).unwrap_or_else(|e| panic!("{e}")))
}
