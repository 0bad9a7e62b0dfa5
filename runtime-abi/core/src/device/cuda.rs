//! NVIDIA GPUs through the driver interface (`libcuda`), on the primary context of a device.

use super::{
    Found, Handle,
    library::{Library, calls, text},
    streams::{Calls, Names, Streams, Vendor},
};
use crate::error::{Error, Result, Status};
use std::{
    ffi::{c_char, c_void},
    ptr::null_mut,
};

/// Where the driver may be, in the order of the search.
const LIBRARIES: [&str; 3] = ["libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1"];

/// Attributes of a device: the two halves of its compute capability.
const CAPABILITY: (i32, i32) = (75, 76);
/// Options of a load: a buffer for the log of errors, and its size.
const LOG_OPTIONS: [i32; 2] = [5, 6];
/// Bytes of such a log.
const LOG_BYTES: usize = 16 << 10;

calls! {
    struct Cuda {
        start: "cuInit" fn(u32) -> i32;
        device_count: "cuDeviceGetCount" fn(*mut i32) -> i32;
        device: "cuDeviceGet" fn(*mut i32, i32) -> i32;
        device_name: "cuDeviceGetName" fn(*mut c_char, i32, i32) -> i32;
        device_memory: "cuDeviceTotalMem_v2" fn(*mut usize, i32) -> i32;
        device_attribute: "cuDeviceGetAttribute" fn(*mut i32, i32, i32) -> i32;
        retain: "cuDevicePrimaryCtxRetain" fn(*mut Handle, i32) -> i32;
        release: "cuDevicePrimaryCtxRelease_v2" fn(i32) -> i32;
        push: "cuCtxPushCurrent_v2" fn(Handle) -> i32;
        pop: "cuCtxPopCurrent_v2" fn(*mut Handle) -> i32;
        allocate: "cuMemAlloc_v2" fn(*mut u64, usize) -> i32;
        free: "cuMemFree_v2" fn(u64) -> i32;
        upload: "cuMemcpyHtoDAsync_v2" fn(u64, *const c_void, usize, Handle) -> i32;
        download: "cuMemcpyDtoHAsync_v2" fn(*mut c_void, u64, usize, Handle) -> i32;
        copy: "cuMemcpyDtoDAsync_v2" fn(u64, u64, usize, Handle) -> i32;
        open_queue: "cuStreamCreate" fn(*mut Handle, u32) -> i32;
        close_queue: "cuStreamDestroy_v2" fn(Handle) -> i32;
        wait: "cuStreamSynchronize" fn(Handle) -> i32;
        load: "cuModuleLoadDataEx" fn(*mut Handle, *const c_void, u32, *mut i32, *mut *mut c_void) -> i32;
        unload: "cuModuleUnload" fn(Handle) -> i32;
        function: "cuModuleGetFunction" fn(*mut Handle, Handle, *const c_char) -> i32;
        launch: "cuLaunchKernel" fn(Handle, u32, u32, u32, u32, u32, u32, u32, Handle, *mut *mut c_void, *mut *mut c_void) -> i32;
        error_name: "cuGetErrorName" fn(i32, *mut *const c_char) -> i32;
        error_text: "cuGetErrorString" fn(i32, *mut *const c_char) -> i32;
    }
}

/// One GPU.
pub struct Gpu {
    cuda: Cuda,
    calls: Calls,
    device: i32,
    context: Handle,
}

// SAFETY: a context may be made current on any thread.
unsafe impl Send for Gpu {}
// SAFETY: as above.
unsafe impl Sync for Gpu {}

fn error_text(cuda: &Cuda, code: i32) -> String {
    let (mut name, mut sentence) = (std::ptr::null(), std::ptr::null());
    // SAFETY: places for pointers to static strings, which stay null for an unknown code.
    let (name, sentence) = unsafe {
        (cuda.error_name)(code, &mut name);
        (cuda.error_text)(code, &mut sentence);
        (text(name), text(sentence))
    };
    format!("{name} ({code}): {sentence}")
}

/// See [`super::probe`].
pub fn probe() -> std::result::Result<Vec<Found>, String> {
    let library = Library::open(&LIBRARIES)?;
    let cuda = Cuda::new(&library)?;
    let mut count = 0;
    // SAFETY: no flags; a place for a number.
    let code = unsafe {
        match (cuda.start)(0) {
            0 => (cuda.device_count)(&mut count),
            code => code,
        }
    };
    if code != 0 || count < 1 {
        let why = if code == 0 { String::new() } else { format!(" ({})", error_text(&cuda, code)) };
        return Err(format!("{} finds no device{why}", library.name));
    }
    Ok((0..count).map(|index| describe(&cuda, index)).collect())
}

fn describe(cuda: &Cuda, index: i32) -> Found {
    let (mut device, mut name, mut memory, mut major, mut minor) = (0, [0u8; 256], 0usize, 0, 0);
    // SAFETY: places of the sizes that are given; the last byte of the name stays NUL.
    let name = unsafe {
        (cuda.device)(&mut device, index);
        (cuda.device_memory)(&mut memory, device);
        (cuda.device_attribute)(&mut major, CAPABILITY.0, device);
        (cuda.device_attribute)(&mut minor, CAPABILITY.1, device);
        match (cuda.device_name)(name.as_mut_ptr().cast(), 255, device) {
            0 => text(name.as_ptr().cast()),
            _ => String::new(),
        }
    };
    let name = if name.is_empty() { format!("CUDA device {index}") } else { name };
    Found { index: index as u32, name, architecture: format!("sm_{major}{minor}"), memory: memory as u64 }
}

/// See [`super::open`].
pub fn open(found: &Found) -> Result<Streams<Gpu>> {
    let load = || -> std::result::Result<Cuda, String> { Cuda::new(&Library::open(&LIBRARIES)?) };
    let cuda = load().map_err(|reason| Error::new(Status::DeviceError, reason))?;
    let (mut device, mut context) = (0, null_mut());
    // SAFETY: no flags; places for a number and a handle.
    let code = unsafe {
        match ((cuda.start)(0), (cuda.device)(&mut device, found.index as i32)) {
            (0, 0) => (cuda.retain)(&mut context, device),
            (0, code) | (code, _) => code,
        }
    };
    if code != 0 {
        let message = format!("cuDevicePrimaryCtxRetain failed on {}: {}", found.name, error_text(&cuda, code));
        return Err(Error::new(Status::DeviceError, message));
    }
    let calls = Calls {
        allocate: cuda.allocate,
        free: cuda.free,
        upload: cuda.upload,
        download: cuda.download,
        copy: cuda.copy,
        open_queue: cuda.open_queue,
        close_queue: cuda.close_queue,
        wait: cuda.wait,
        unload: cuda.unload,
        function: cuda.function,
        launch: cuda.launch,
    };
    Ok(Streams::new(Gpu { cuda, calls, device, context }, found.clone()))
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: retained once in `open`.
        unsafe { (self.cuda.release)(self.device) };
    }
}

const NAMES: Names = Names {
    allocate: "cuMemAlloc",
    upload: "cuMemcpyHtoDAsync",
    download: "cuMemcpyDtoHAsync",
    copy: "cuMemcpyDtoDAsync",
    queue: "cuStreamCreate",
    wait: "cuStreamSynchronize",
    load: "cuModuleLoadDataEx",
    launch: "cuLaunchKernel",
};

impl Vendor for Gpu {
    fn calls(&self) -> &Calls {
        &self.calls
    }

    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn enter(&self) -> Result<i32> {
        // SAFETY: the context is retained.
        match unsafe { (self.cuda.push)(self.context) } {
            0 => Ok(0),
            code => Err(Error::new(Status::DeviceError, format!("cuCtxPushCurrent failed: {}", error_text(&self.cuda, code)))),
        }
    }

    fn leave(&self, _: i32) {
        let mut context = null_mut();
        // SAFETY: a place for a handle; `enter` pushed one.
        unsafe { (self.cuda.pop)(&mut context) };
    }

    fn error_text(&self, code: i32) -> String {
        error_text(&self.cuda, code)
    }

    fn load(&self, object: &[u8], module: &mut Handle, log: &mut Vec<u8>) -> i32 {
        let mut text = object.to_vec();
        text.push(0); // PTX is a string.
        log.resize(LOG_BYTES, 0);
        let (mut options, size) = (LOG_OPTIONS, std::ptr::without_provenance_mut(LOG_BYTES - 1));
        let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), size];
        // SAFETY: NUL-terminated text; two options whose values are as the driver wants them.
        unsafe { (self.cuda.load)(module, text.as_ptr().cast(), 2, options.as_mut_ptr(), values.as_mut_ptr()) }
    }
}
