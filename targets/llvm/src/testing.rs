//! Runs linked code in this process, for tests and measurements of the rooms above; never part of a build.

pub mod opencl;

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
        let address = function(linked, name)?;
        // SAFETY: the caller vouches for the function's type.
        Ok(Elementwise { call: unsafe { std::mem::transmute::<*mut c_void, Call>(address) } })
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

/// Loads an object for good and finds a function.
fn function(linked: &[u8], name: &str) -> io::Result<*mut c_void> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("code.so");
    std::fs::write(&path, linked)?;
    let path = CString::new(path.display().to_string())?;
    let name = CString::new(name)?;
    // SAFETY: the object has no initialisers (the linker checked) and stays loaded.
    unsafe {
        let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        if handle.is_null() {
            return Err(io::Error::other("dlopen failed"));
        }
        let address = libc::dlsym(handle, name.as_ptr());
        if address.is_null() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "no such function"));
        }
        Ok(address)
    }
}

/// A kernel of a loaded code object: the entry that `runtime-abi/abi/include/oaaxc_kernel.h` describes.
pub struct KernelFunction {
    call: KernelCall,
}

type KernelCall = extern "C" fn(*const Env, *const *mut c_void, *const i64, u64, u64) -> i32;

#[repr(C)]
struct Env {
    struct_size: u32,
    version: u32,
    worker: u32,
    workers: u32,
    scratch: *mut c_void,
    scratch_size: u64,
    fault: *mut KernelFault,
}

/// What a kernel says about a fault.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelFault {
    /// 1 for an index outside its range.
    pub code: i32,
    /// Which of the kernel's nodes.
    pub place: u32,
    /// The index.
    pub value: i64,
    /// The size that it reached.
    pub limit: i64,
}

impl KernelFunction {
    /// Loads the object, for good, and finds the kernel: code that was just compiled from the caller's own
    /// text, nothing else.
    pub fn load(linked: &[u8], name: &str) -> io::Result<KernelFunction> {
        let address = function(linked, name)?;
        // SAFETY: the caller vouches that the function is a kernel.
        Ok(KernelFunction { call: unsafe { std::mem::transmute::<*mut c_void, KernelCall>(address) } })
    }

    /// Runs groups on memory (one per argument; its alignment is what `Vec<u64>` gives) with that many bytes
    /// of scratch; answers the fault where there was one.
    pub fn run(
        &self,
        memory: &mut [Vec<u64>],
        dims: &[i64],
        scratch: usize,
        groups: std::ops::Range<u64>,
    ) -> Option<KernelFault> {
        let mut buffers: Vec<*mut c_void> = memory.iter_mut().map(|m| m.as_mut_ptr().cast()).collect();
        let buffers = buffers.as_mut_ptr();
        // Filled with ones: a kernel may not rely on what scratch holds.
        let mut room = vec![u64::MAX; scratch / 8 + 16];
        let aligned = room.as_mut_ptr().wrapping_byte_add(room.as_ptr().align_offset(64) * size_of::<u64>());
        let mut fault = KernelFault::default();
        let env = Env {
            struct_size: size_of::<Env>() as u32,
            version: 1,
            worker: 0,
            workers: 1,
            scratch: aligned.cast(),
            scratch_size: scratch as u64,
            fault: &mut fault,
        };
        let status = (self.call)(&env, buffers, dims.as_ptr(), groups.start, groups.end);
        (status != 0).then_some(fault)
    }
}
