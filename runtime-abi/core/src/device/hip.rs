//! AMD GPUs through HIP's module interface (`libamdhip64`), as ROCm 5 to 7 have it.

use super::{
    Found, Handle,
    library::{Library, calls, text},
    streams::{Calls, Names, Streams, Vendor},
};
use crate::error::{Error, Result, Status};
use std::ffi::{c_char, c_void};

/// Where HIP may be, in the order of the search.
const LIBRARIES: [&str; 5] =
    ["libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "/opt/rocm/lib/libamdhip64.so"];

calls! {
    struct Hip {
        device_count: "hipGetDeviceCount" fn(*mut i32) -> i32;
        device_name: "hipDeviceGetName" fn(*mut c_char, i32, i32) -> i32;
        device_memory: "hipDeviceTotalMem" fn(*mut usize, i32) -> i32;
        device_current: "hipGetDevice" fn(*mut i32) -> i32;
        device_set: "hipSetDevice" fn(i32) -> i32;
        allocate: "hipMalloc" fn(*mut u64, usize) -> i32;
        free: "hipFree" fn(u64) -> i32;
        upload: "hipMemcpyHtoDAsync" fn(u64, *const c_void, usize, Handle) -> i32;
        download: "hipMemcpyDtoHAsync" fn(*mut c_void, u64, usize, Handle) -> i32;
        copy: "hipMemcpyDtoDAsync" fn(u64, u64, usize, Handle) -> i32;
        open_queue: "hipStreamCreateWithFlags" fn(*mut Handle, u32) -> i32;
        close_queue: "hipStreamDestroy" fn(Handle) -> i32;
        wait: "hipStreamSynchronize" fn(Handle) -> i32;
        load: "hipModuleLoadDataEx" fn(*mut Handle, *const c_void, u32, *mut i32, *mut *mut c_void) -> i32;
        unload: "hipModuleUnload" fn(Handle) -> i32;
        function: "hipModuleGetFunction" fn(*mut Handle, Handle, *const c_char) -> i32;
        launch: "hipModuleLaunchKernel" fn(Handle, u32, u32, u32, u32, u32, u32, u32, Handle, *mut *mut c_void, *mut *mut c_void) -> i32;
        error_name: "hipGetErrorName" fn(i32) -> *const c_char;
        error_text: "hipGetErrorString" fn(i32) -> *const c_char;
    }
}

type Properties = unsafe extern "C" fn(*mut c_void, i32) -> i32;

/// One GPU.
pub struct Gpu {
    hip: Hip,
    calls: Calls,
    index: i32,
}

fn error_text(hip: &Hip, code: i32) -> String {
    // SAFETY: both calls take any code and give static strings.
    let (name, sentence) = unsafe { (text((hip.error_name)(code)), text((hip.error_text)(code))) };
    format!("{name} ({code}): {sentence}")
}

/// See [`super::probe`].
pub fn probe() -> std::result::Result<Vec<Found>, String> {
    let library = Library::open(&LIBRARIES)?;
    let hip = Hip::new(&library)?;
    let mut count = 0;
    // SAFETY: a place for a number.
    let code = unsafe { (hip.device_count)(&mut count) };
    if code != 0 || count < 1 {
        let why = if code == 0 { String::new() } else { format!(" ({})", error_text(&hip, code)) };
        return Err(format!("{} finds no device{why}", library.name));
    }
    Ok((0..count).map(|index| describe(&library, &hip, index)).collect())
}

fn describe(library: &Library, hip: &Hip, index: i32) -> Found {
    let (mut name, mut memory) = ([0u8; 256], 0usize);
    // SAFETY: places of the sizes that are given; the last byte of the name stays NUL.
    let name = unsafe {
        (hip.device_memory)(&mut memory, index);
        match (hip.device_name)(name.as_mut_ptr().cast(), 255, index) {
            0 => text(name.as_ptr().cast()),
            _ => String::new(),
        }
    };
    let architecture = architecture(library, index).unwrap_or_default();
    let name = if name.is_empty() { format!("HIP device {index}") } else { name };
    Found { index: index as u32, name, architecture, memory: memory as u64 }
}

/// `gfx942`. The record of a device's properties has another layout in each release, so the one string in it
/// that names an architecture is searched for instead.
fn architecture(library: &Library, index: i32) -> Option<String> {
    let call = library.symbol(c"hipGetDevicePropertiesR0600").or_else(|_| library.symbol(c"hipGetDeviceProperties")).ok()?;
    // SAFETY: both symbols have this type.
    let call = unsafe { std::mem::transmute::<*mut c_void, Properties>(call.as_ptr()) };
    let mut record = vec![0u64; 2048];
    // SAFETY: the record is ten times larger than any release's.
    if unsafe { call(record.as_mut_ptr().cast(), index) } != 0 {
        return None;
    }
    let bytes: Vec<u8> = record.iter().flat_map(|word| word.to_le_bytes()).collect();
    find_architecture(&bytes)
}

/// The last string of the form `gfx` and hexadecimal digits; features after a colon are cut off.
fn find_architecture(bytes: &[u8]) -> Option<String> {
    let starts = (0..bytes.len()).rev().filter(|at| bytes[*at..].starts_with(b"gfx"));
    let name = |at: usize| {
        let digits = bytes[at + 3..].iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        (3..=6).contains(&digits).then(|| String::from_utf8_lossy(&bytes[at..at + 3 + digits]).into_owned())
    };
    starts.filter_map(name).next()
}

/// See [`super::open`].
pub fn open(found: &Found) -> Result<Streams<Gpu>> {
    let load = || -> std::result::Result<Hip, String> { Hip::new(&Library::open(&LIBRARIES)?) };
    let hip = load().map_err(|reason| Error::new(Status::DeviceError, reason))?;
    let calls = Calls {
        allocate: hip.allocate,
        free: hip.free,
        upload: hip.upload,
        download: hip.download,
        copy: hip.copy,
        open_queue: hip.open_queue,
        close_queue: hip.close_queue,
        wait: hip.wait,
        unload: hip.unload,
        function: hip.function,
        launch: hip.launch,
    };
    Ok(Streams::new(Gpu { hip, calls, index: found.index as i32 }, found.clone()))
}

const NAMES: Names = Names {
    allocate: "hipMalloc",
    upload: "hipMemcpyHtoDAsync",
    download: "hipMemcpyDtoHAsync",
    copy: "hipMemcpyDtoDAsync",
    queue: "hipStreamCreateWithFlags",
    wait: "hipStreamSynchronize",
    load: "hipModuleLoadDataEx",
    launch: "hipModuleLaunchKernel",
};

impl Vendor for Gpu {
    fn calls(&self) -> &Calls {
        &self.calls
    }

    fn names(&self) -> &'static Names {
        &NAMES
    }

    fn enter(&self) -> Result<i32> {
        let mut before = self.index;
        // SAFETY: a place for a number; a device that exists.
        let code = unsafe {
            match (self.hip.device_current)(&mut before) {
                0 if before == self.index => 0,
                _ => (self.hip.device_set)(self.index),
            }
        };
        match code {
            0 => Ok(before),
            code => Err(Error::new(Status::DeviceError, format!("hipSetDevice failed: {}", error_text(&self.hip, code)))),
        }
    }

    fn leave(&self, before: i32) {
        if before != self.index {
            // SAFETY: the device was current before.
            unsafe { (self.hip.device_set)(before) };
        }
    }

    fn error_text(&self, code: i32) -> String {
        error_text(&self.hip, code)
    }

    fn load(&self, object: &[u8], module: &mut Handle, _: &mut Vec<u8>) -> i32 {
        // SAFETY: the object is an ELF file whose form the driver checks; no options.
        unsafe { (self.hip.load)(module, object.as_ptr().cast(), 0, std::ptr::null_mut(), std::ptr::null_mut()) }
    }
}

#[cfg(test)]
mod tests {
    use super::find_architecture;

    #[test]
    fn the_architecture_is_found_wherever_it_lies() {
        let mut record = vec![0u8; 900];
        record[..16].copy_from_slice(b"gfx board maker\0");
        record[500..524].copy_from_slice(b"gfx942:sramecc+:xnack-\0\0");
        assert_eq!(find_architecture(&record).as_deref(), Some("gfx942"));
        record[500..509].copy_from_slice(b"gfx90a\0\0\0");
        assert_eq!(find_architecture(&record[..600]).as_deref(), Some("gfx90a"));
        assert_eq!(find_architecture(b"nothing"), None);
    }
}
