//! Devices of any vendor through OpenCL: shared virtual memory or Intel's unified memory for plain
//! addresses, SPIR-V modules out of an archive, each built when it is first launched.

use super::{
    Arguments, Driver, Found, Handle, Module, archive,
    opencl_calls::{
        ALL_DEVICES, Calls, DEVICE_EXTENSIONS, DEVICE_IL, DEVICE_MEMORY, DEVICE_NAME, DEVICE_SVM, DEVICE_TYPE, SVM_BUFFERS,
        SVM_READ_WRITE, TYPE_CPU, Unified, error_name,
    },
};
use crate::error::{Error, Result, Status, fail};
use std::{
    ffi::{CString, c_void},
    ptr::{null, null_mut},
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

/// One device.
#[derive(Clone)]
pub struct OpenCl {
    shared: Arc<Shared>,
}

struct Shared {
    calls: Calls,
    found: Found,
    device: Handle,
    context: Handle,
    /// `None`: shared virtual memory.
    unified: Option<Unified>,
}

// SAFETY: OpenCL's objects may be used from any thread, save kernels while arguments are set (locked below).
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

/// A device that takes SPIR-V.
struct Candidate {
    found: Found,
    platform: Handle,
    device: Handle,
}

/// The usable devices, those that are no CPU first; or why there are none.
fn candidates(calls: &Calls, library: &str) -> std::result::Result<Vec<Candidate>, String> {
    let mut count = 0;
    // SAFETY: a place for a number.
    let code = unsafe { (calls.platforms)(0, null_mut(), &mut count) };
    if code != 0 || count == 0 {
        return Err(format!("{library} finds no OpenCL driver ({}, {code})", error_name(code)));
    }
    let mut platforms = vec![null_mut(); count as usize];
    // SAFETY: as many places as are said.
    unsafe { (calls.platforms)(count, platforms.as_mut_ptr(), null_mut()) };
    let (mut rows, mut passed_over) = (Vec::new(), Vec::new());
    for platform in platforms {
        let mut count = 0;
        // SAFETY: a platform that exists; a place for a number, then as many places as are said.
        let devices = unsafe {
            let code = (calls.devices)(platform, ALL_DEVICES, 0, null_mut(), &mut count);
            let mut devices = vec![null_mut(); if code == 0 { count as usize } else { 0 }];
            (calls.devices)(platform, ALL_DEVICES, devices.len() as u32, devices.as_mut_ptr(), null_mut());
            devices
        };
        for device in devices {
            let name = calls.device_text(device, DEVICE_NAME);
            let name = format!("{} ({})", name.trim(), calls.platform_name(platform).trim());
            let takes = calls.device_text(device, DEVICE_IL).contains("SPIR-V");
            let memory = calls.device_word(device, DEVICE_SVM) & SVM_BUFFERS != 0 || has_unified(calls, device);
            if !takes || !memory {
                let lack = if takes { "shared virtual memory" } else { "SPIR-V" };
                passed_over.push(format!("{name} lacks {lack}"));
                continue;
            }
            let memory = calls.device_word(device, DEVICE_MEMORY);
            let found = Found { index: 0, name, architecture: String::new(), memory };
            let order = calls.device_word(device, DEVICE_TYPE) & TYPE_CPU != 0;
            rows.push((order, Candidate { found, platform, device }));
        }
    }
    if rows.is_empty() {
        let list = if passed_over.is_empty() { "there is none".to_owned() } else { passed_over.join(", ") };
        return Err(format!("{library} finds no OpenCL device that takes SPIR-V: {list}"));
    }
    rows.sort_by_key(|row| row.0);
    let number = |(index, (_, mut candidate)): (usize, (bool, Candidate))| {
        candidate.found.index = index as u32;
        candidate
    };
    Ok(rows.into_iter().enumerate().map(number).collect())
}

fn has_unified(calls: &Calls, device: Handle) -> bool {
    let extensions = calls.device_text(device, DEVICE_EXTENSIONS);
    extensions.split_whitespace().any(|name| name == "cl_intel_unified_shared_memory")
}

/// See [`super::probe`].
pub fn probe() -> std::result::Result<Vec<Found>, String> {
    let (calls, library) = Calls::open()?;
    Ok(candidates(&calls, library)?.into_iter().map(|candidate| candidate.found).collect())
}

impl OpenCl {
    /// Opens a device; its addresses are unified memory's where it has that and it is `wanted`.
    pub fn open(found: &Found, wanted: bool) -> Result<OpenCl> {
        let device_error = |reason| Error::new(Status::DeviceError, reason);
        let (calls, library) = Calls::open().map_err(device_error)?;
        let mut list = candidates(&calls, library).map_err(device_error)?.into_iter();
        let Some(candidate) = list.find(|candidate| candidate.found.index == found.index) else {
            fail!(DeviceError, "OpenCL device {} is gone", found.index)
        };
        let (platform, device) = (candidate.platform, candidate.device);
        let has_shared = calls.device_word(device, DEVICE_SVM) & SVM_BUFFERS != 0;
        let unified = match has_unified(&calls, device) && (wanted || !has_shared) {
            true => Unified::new(&calls, platform),
            false => None,
        };
        let mut code = 0;
        // SAFETY: one device, no properties, no callback; a place for a code.
        let context = unsafe { (calls.context)(null(), 1, &device, null(), null_mut(), &mut code) };
        let shared = Shared { calls, found: candidate.found, device, context, unified };
        match shared.check("clCreateContext", code) {
            Ok(()) => Ok(OpenCl { shared: Arc::new(shared) }),
            Err(error) => {
                std::mem::forget(shared); // There is no context to release.
                Err(error)
            }
        }
    }
}

impl Shared {
    fn check(&self, call: &str, code: i32) -> Result<()> {
        match code {
            0 => Ok(()),
            code => fail!(DeviceError, "{call} failed on {}: {} ({code})", self.found.name, error_name(code)),
        }
    }

    /// Puts a copy on the queue.
    ///
    /// # Safety
    /// As for [`Driver::upload`].
    unsafe fn transfer(&self, queue: Handle, to: *mut c_void, from: *const c_void, bytes: u64) -> Result<()> {
        let (call, name) = match &self.unified {
            Some(unified) => (unified.copy, "clEnqueueMemcpyINTEL"),
            None => (self.calls.svm_copy, "clEnqueueSVMMemcpy"),
        };
        // SAFETY: by this function's contract; it does not block and wants no event.
        let code = unsafe { call(queue, 0, to, from, bytes as usize, 0, null(), null_mut()) };
        self.check(name, code)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: created in `open`; everything in it was given back before.
        unsafe { (self.calls.release_context)(self.context) };
    }
}

fn pointer(address: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

impl Driver for OpenCl {
    fn found(&self) -> &Found {
        &self.shared.found
    }

    fn enter(&self) -> Result<i32> {
        Ok(0)
    }

    fn leave(&self, _: i32) {}

    fn allocate(&self, bytes: u64) -> Result<u64> {
        let Shared { calls, context, device, unified, found } = &*self.shared;
        let mut code = -4;
        // SAFETY: a context and device that exist; a place for a code.
        let address = unsafe {
            match unified {
                Some(unified) => (unified.allocate)(*context, *device, null(), bytes as usize, 0, &mut code),
                None => (calls.svm_allocate)(*context, SVM_READ_WRITE, bytes as usize, 0),
            }
        };
        match address.is_null() {
            false => Ok(address.expose_provenance() as u64),
            true => {
                let message = format!("{bytes} bytes cannot be allocated on {}: {} ({code})", found.name, error_name(code));
                Err(Error::new(Status::OutOfMemory, message))
            }
        }
    }

    fn free(&self, address: u64) {
        let Shared { calls, context, unified, .. } = &*self.shared;
        // SAFETY: the address came from `allocate` and is given back once (`Block`).
        unsafe {
            match unified {
                Some(unified) => drop((unified.free)(*context, pointer(address))),
                None => (calls.svm_free)(*context, pointer(address)),
            }
        }
    }

    fn open_queue(&self) -> Result<Handle> {
        let mut code = 0;
        // SAFETY: a context and device that exist, no properties: in order.
        let queue = unsafe { (self.shared.calls.queue)(self.shared.context, self.shared.device, null(), &mut code) };
        self.shared.check("clCreateCommandQueueWithProperties", code).map(|()| queue)
    }

    fn close_queue(&self, queue: Handle) {
        // SAFETY: the queue came from `open_queue` and is given back once.
        unsafe { (self.shared.calls.release_queue)(queue) };
    }

    unsafe fn upload(&self, queue: Handle, to: u64, from: *const u8, bytes: u64) -> Result<()> {
        // SAFETY: by the trait's contract.
        unsafe { self.shared.transfer(queue, pointer(to), from.cast(), bytes) }
    }

    unsafe fn download(&self, queue: Handle, to: *mut u8, from: u64, bytes: u64) -> Result<()> {
        // SAFETY: by the trait's contract.
        unsafe { self.shared.transfer(queue, to.cast(), pointer(from), bytes) }
    }

    unsafe fn copy(&self, queue: Handle, to: u64, from: u64, bytes: u64) -> Result<()> {
        // SAFETY: by the trait's contract.
        unsafe { self.shared.transfer(queue, pointer(to), pointer(from), bytes) }
    }

    fn wait(&self, queue: Handle) -> Result<()> {
        // SAFETY: a queue of ours.
        self.shared.check("clFinish", unsafe { (self.shared.calls.finish)(queue) })
    }

    fn load(&self, object: &[u8], symbols: &[&str]) -> Result<Box<dyn Module>> {
        let modules =
            archive::read(object).map_err(|reason| Error::new(Status::InvalidModel, format!("code object {reason}")))?;
        let mut kernels = Vec::new();
        for symbol in symbols {
            let (Some(module), Ok(name)) = (modules.get(symbol), CString::new(*symbol)) else {
                fail!(InvalidModel, "kernel {symbol} is not in its object")
            };
            kernels.push(Kernel { symbol: name, module: module.to_vec(), built: OnceLock::new() });
        }
        Ok(Box::new(Loaded { shared: self.shared.clone(), kernels }))
    }
}

struct Loaded {
    shared: Arc<Shared>,
    kernels: Vec<Kernel>,
}

struct Kernel {
    symbol: CString,
    module: Vec<u8>,
    built: OnceLock<Result<Built>>,
}

/// A built program and its kernel; the lock is held while arguments are set and the launch is queued.
struct Built {
    shared: Arc<Shared>,
    program: Handle,
    kernel: Mutex<Handle>,
}

// SAFETY: handles of OpenCL may be used from any thread; the kernel's arguments are behind its lock.
unsafe impl Send for Built {}
// SAFETY: as above.
unsafe impl Sync for Built {}

impl Built {
    fn new(shared: &Arc<Shared>, kernel: &Kernel) -> Result<Built> {
        let (calls, device) = (&shared.calls, shared.device);
        let name = kernel.symbol.to_string_lossy();
        let mut code = 0;
        // SAFETY: the module's bytes and their number; the driver checks their form.
        let program = unsafe { (calls.program)(shared.context, kernel.module.as_ptr().cast(), kernel.module.len(), &mut code) };
        shared.check(&format!("clCreateProgramWithIL of kernel {name}"), code)?;
        let mut built = Built { shared: shared.clone(), program, kernel: Mutex::new(null_mut()) };
        // SAFETY: one device, no options, no callback: the call returns when all is done.
        let code = unsafe { (calls.build)(program, 1, &device, null(), null(), null_mut()) };
        if let Err(mut error) = shared.check(&format!("clBuildProgram of kernel {name}"), code) {
            let log = calls.build_log(program, device);
            if !log.trim().is_empty() {
                error.message += &format!("; the build log: {}", log.trim());
            }
            return Err(error);
        }
        let mut code = 0;
        // SAFETY: a built program, a NUL-terminated name, a place for a code.
        let made = unsafe { (calls.kernel)(program, kernel.symbol.as_ptr(), &mut code) };
        if made.is_null() {
            fail!(InvalidModel, "kernel {name} is not in its module: {} ({code})", error_name(code));
        }
        *built.kernel.get_mut().unwrap_or_else(PoisonError::into_inner) = made;
        Ok(built)
    }
}

impl Drop for Built {
    fn drop(&mut self) {
        let kernel = *self.kernel.get_mut().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: made in `new`, given back once.
        unsafe {
            if !kernel.is_null() {
                (self.shared.calls.release_kernel)(kernel);
            }
            (self.shared.calls.release_program)(self.program);
        }
    }
}

impl Module for Loaded {
    unsafe fn launch(
        &self,
        queue: Handle,
        function: usize,
        groups: u32,
        threads: u32,
        arguments: &mut Arguments<'_>,
    ) -> Result<()> {
        let kernel = &self.kernels[function];
        let built = kernel.built.get_or_init(|| Built::new(&self.shared, kernel)).as_ref().map_err(Clone::clone)?;
        let Shared { calls, unified, .. } = &*self.shared;
        let set_pointer = unified.as_ref().map_or(calls.svm_argument, |unified| unified.argument);
        let handle = built.kernel.lock().unwrap_or_else(PoisonError::into_inner);
        let count = arguments.values.len();
        for (index, value) in arguments.values.iter().enumerate() {
            let is_address = index < arguments.buffers || (count - 4..count - 2).contains(&index);
            let size = if index + 1 == count { 4 } else { 8 };
            // SAFETY: by the trait's contract; a scalar's bytes are copied by the call.
            let code = unsafe {
                match is_address {
                    true => set_pointer(*handle, index as u32, pointer(*value)),
                    false => (calls.argument)(*handle, index as u32, size, std::ptr::from_ref(value).cast()),
                }
            };
            if code != 0 {
                let name = kernel.symbol.to_string_lossy();
                self.shared.check(&format!("setting argument {index} of kernel {name}"), code)?;
            }
        }
        let (global, local) = (groups as usize * threads as usize, threads as usize);
        // SAFETY: one dimension; all arguments are set; no events.
        let code = unsafe { (calls.launch)(queue, *handle, 1, null(), &global, &local, 0, null(), null_mut()) };
        drop(handle);
        match code {
            0 => Ok(()),
            code => self.shared.check(&format!("clEnqueueNDRangeKernel of {}", kernel.symbol.to_string_lossy()), code),
        }
    }
}
