//! The part that HIP and CUDA have in common: eleven calls of the same shape, under other names.

use super::{Arguments, Driver, Found, Handle, Module};
use crate::error::{Error, Result, Status, fail};
use std::{
    ffi::{CString, c_char, c_void},
    ptr::null_mut,
    sync::Arc,
};

/// Code of both for "out of memory".
const OUT_OF_MEMORY: i32 = 2;
/// Flag of both for a stream that does not wait for the default one.
const NON_BLOCKING: u32 = 1;

/// The calls. An address is a plain number in CUDA and a pointer in HIP: one word on both.
#[derive(Clone, Copy)]
pub struct Calls {
    pub allocate: unsafe extern "C" fn(*mut u64, usize) -> i32,
    pub free: unsafe extern "C" fn(u64) -> i32,
    pub upload: unsafe extern "C" fn(u64, *const c_void, usize, Handle) -> i32,
    pub download: unsafe extern "C" fn(*mut c_void, u64, usize, Handle) -> i32,
    pub copy: unsafe extern "C" fn(u64, u64, usize, Handle) -> i32,
    pub open_queue: unsafe extern "C" fn(*mut Handle, u32) -> i32,
    pub close_queue: unsafe extern "C" fn(Handle) -> i32,
    pub wait: unsafe extern "C" fn(Handle) -> i32,
    pub unload: unsafe extern "C" fn(Handle) -> i32,
    pub function: unsafe extern "C" fn(*mut Handle, Handle, *const c_char) -> i32,
    #[allow(clippy::type_complexity)] // The vendors' signature.
    pub launch:
        unsafe extern "C" fn(Handle, u32, u32, u32, u32, u32, u32, u32, Handle, *mut *mut c_void, *mut *mut c_void) -> i32,
}

/// Names of the calls for messages.
pub struct Names {
    pub allocate: &'static str,
    pub upload: &'static str,
    pub download: &'static str,
    pub copy: &'static str,
    pub queue: &'static str,
    pub wait: &'static str,
    pub load: &'static str,
    pub launch: &'static str,
}

/// What differs: the current device of a thread, names of errors, the log of a load.
pub trait Vendor: Send + Sync {
    fn calls(&self) -> &Calls;
    fn names(&self) -> &'static Names;
    /// See [`Driver::enter`].
    fn enter(&self) -> Result<i32>;
    /// See [`Driver::leave`].
    fn leave(&self, before: i32);
    /// The driver's own name and sentence of a code.
    fn error_text(&self, code: i32) -> String;
    /// Bytes as `load` wants them, and a place for its log.
    fn load(&self, object: &[u8], module: &mut Handle, log: &mut Vec<u8>) -> i32;
}

/// A device behind [`Calls`].
pub struct Streams<V> {
    shared: Arc<Shared<V>>,
}

struct Shared<V> {
    vendor: V,
    found: Found,
}

struct Inside<'a, V: Vendor>(&'a V, i32);

impl<V: Vendor> Drop for Inside<'_, V> {
    fn drop(&mut self) {
        self.0.leave(self.1);
    }
}

impl<V: Vendor> Shared<V> {
    fn inside(&self) -> Result<Inside<'_, V>> {
        Ok(Inside(&self.vendor, self.vendor.enter()?))
    }

    fn check(&self, call: &str, code: i32) -> Result<()> {
        match code {
            0 => Ok(()),
            code => fail!(DeviceError, "{call} failed on {}: {}", self.found.name, self.vendor.error_text(code)),
        }
    }
}

impl<V: Vendor> Streams<V> {
    /// A driver over an open vendor library.
    pub fn new(vendor: V, found: Found) -> Streams<V> {
        Streams { shared: Arc::new(Shared { vendor, found }) }
    }

    fn calls(&self) -> &Calls {
        self.shared.vendor.calls()
    }

    fn names(&self) -> &'static Names {
        self.shared.vendor.names()
    }
}

impl<V: Vendor + 'static> Driver for Streams<V> {
    fn found(&self) -> &Found {
        &self.shared.found
    }

    fn enter(&self) -> Result<i32> {
        self.shared.vendor.enter()
    }

    fn leave(&self, before: i32) {
        self.shared.vendor.leave(before);
    }

    fn allocate(&self, bytes: u64) -> Result<u64> {
        let _inside = self.shared.inside()?;
        let mut address = 0;
        // SAFETY: `address` is a place for an address.
        let code = unsafe { (self.calls().allocate)(&mut address, bytes as usize) };
        match code {
            OUT_OF_MEMORY => Err(Error::new(
                Status::OutOfMemory,
                format!(
                    "{bytes} bytes cannot be allocated on {}: {}",
                    self.shared.found.name,
                    self.shared.vendor.error_text(code)
                ),
            )),
            code => self.shared.check(self.names().allocate, code).map(|()| address),
        }
    }

    fn free(&self, address: u64) {
        if let Ok(_inside) = self.shared.inside() {
            // SAFETY: the address came from `allocate` and is given back once (`Block`).
            unsafe { (self.calls().free)(address) };
        }
    }

    fn open_queue(&self) -> Result<Handle> {
        let _inside = self.shared.inside()?;
        let mut queue = null_mut();
        // SAFETY: `queue` is a place for a handle.
        let code = unsafe { (self.calls().open_queue)(&mut queue, NON_BLOCKING) };
        self.shared.check(self.names().queue, code).map(|()| queue)
    }

    fn close_queue(&self, queue: Handle) {
        if let Ok(_inside) = self.shared.inside() {
            // SAFETY: the queue came from `open_queue` and is given back once.
            unsafe { (self.calls().close_queue)(queue) };
        }
    }

    unsafe fn upload(&self, queue: Handle, to: u64, from: *const u8, bytes: u64) -> Result<()> {
        // SAFETY: by the trait's contract.
        let code = unsafe { (self.calls().upload)(to, from.cast(), bytes as usize, queue) };
        self.shared.check(self.names().upload, code)
    }

    unsafe fn download(&self, queue: Handle, to: *mut u8, from: u64, bytes: u64) -> Result<()> {
        // SAFETY: by the trait's contract.
        let code = unsafe { (self.calls().download)(to.cast(), from, bytes as usize, queue) };
        self.shared.check(self.names().download, code)
    }

    unsafe fn copy(&self, queue: Handle, to: u64, from: u64, bytes: u64) -> Result<()> {
        // SAFETY: by the trait's contract.
        let code = unsafe { (self.calls().copy)(to, from, bytes as usize, queue) };
        self.shared.check(self.names().copy, code)
    }

    fn wait(&self, queue: Handle) -> Result<()> {
        // SAFETY: a queue of ours.
        let code = unsafe { (self.calls().wait)(queue) };
        self.shared.check(self.names().wait, code)
    }

    fn load(&self, object: &[u8], symbols: &[&str]) -> Result<Box<dyn Module>> {
        let _inside = self.shared.inside()?;
        let (mut module, mut log) = (null_mut(), Vec::new());
        let code = self.shared.vendor.load(object, &mut module, &mut log);
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
        let log = String::from_utf8_lossy(&log[..end]);
        if let Err(mut error) = self.shared.check(self.names().load, code) {
            if !log.trim().is_empty() {
                error.message += &format!("; the driver's log: {}", log.trim());
            }
            return Err(error);
        }
        let mut loaded = Loaded { shared: self.shared.clone(), module, functions: Vec::new() };
        for symbol in symbols {
            let Ok(name) = CString::new(*symbol) else { fail!(InvalidModel, "a kernel's symbol holds a NUL") };
            let mut function = null_mut();
            // SAFETY: the module is loaded, the name NUL-terminated.
            let code = unsafe { (self.calls().function)(&mut function, module, name.as_ptr()) };
            if code != 0 {
                fail!(InvalidModel, "kernel {symbol} is not in its object: {}", self.shared.vendor.error_text(code));
            }
            loaded.functions.push(function);
        }
        Ok(Box::new(loaded))
    }
}

struct Loaded<V: Vendor> {
    shared: Arc<Shared<V>>,
    module: Handle,
    functions: Vec<Handle>,
}

// SAFETY: modules and functions of both vendors may be used from any thread on which their device is current.
unsafe impl<V: Vendor> Send for Loaded<V> {}
// SAFETY: as above.
unsafe impl<V: Vendor> Sync for Loaded<V> {}

impl<V: Vendor> Module for Loaded<V> {
    unsafe fn launch(
        &self,
        queue: Handle,
        function: usize,
        groups: u32,
        threads: u32,
        arguments: &mut Arguments<'_>,
    ) -> Result<()> {
        for (address, value) in arguments.addresses.iter_mut().zip(arguments.values) {
            *address = std::ptr::from_ref(value).cast_mut().cast();
        }
        let parameters = arguments.addresses.as_mut_ptr();
        let launch = self.shared.vendor.calls().launch;
        // SAFETY: by the trait's contract; the parameters are read before the call returns.
        let code = unsafe { launch(self.functions[function], groups, 1, 1, threads, 1, 1, 0, queue, parameters, null_mut()) };
        self.shared.check(self.shared.vendor.names().launch, code)
    }
}

impl<V: Vendor> Drop for Loaded<V> {
    fn drop(&mut self) {
        if let Ok(_inside) = self.shared.inside() {
            // SAFETY: the module was loaded and is unloaded once.
            unsafe { (self.shared.vendor.calls().unload)(self.module) };
        }
    }
}
