//! A small door to the OpenCL device of this machine, where there is one: builds a module, runs one kernel.

use std::{
    ffi::{CString, c_char, c_void},
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// A kernel argument.
pub enum Argument<'a> {
    /// Memory that the device reads and writes.
    Memory(&'a mut Vec<u64>),
    /// A 64-bit number.
    Long(i64),
    /// A 32-bit number.
    Int(i32),
}

type Handle = *mut c_void;

/// The first OpenCL device, with a context and a queue.
pub struct OpenCl {
    library: Handle,
    device: Handle,
    context: Handle,
    queue: Handle,
}

// SAFETY: OpenCL's handles may be used from any thread.
unsafe impl Send for OpenCl {}
// SAFETY: every call below that changes an object changes one that this call made.
unsafe impl Sync for OpenCl {}

macro_rules! call {
    ($self:expr, $name:literal, ($($ty:ty),*) -> $out:ty, $($argument:expr),*) => {{
        let address = symbol($self.library, $name);
        // SAFETY: the type is that of the OpenCL function of this name.
        let function: extern "C" fn($($ty),*) -> $out = unsafe { std::mem::transmute(address) };
        function($($argument),*)
    }};
}

fn symbol(library: Handle, name: &str) -> Handle {
    let text = CString::new(name).expect("names hold no NUL");
    // SAFETY: the library is open for good.
    let address = unsafe { libc::dlsym(library, text.as_ptr()) };
    assert!(!address.is_null(), "no {name}");
    address
}

/// Intel's CPU run-time in the repository's own Python environment.
fn run_time() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/lib/libintelocl.so");
    path.exists().then(|| path.canonicalize().unwrap_or(path))
}

impl OpenCl {
    /// The device of this machine; none where no run-time is installed.
    pub fn here() -> Option<&'static OpenCl> {
        static DEVICE: OnceLock<Option<OpenCl>> = OnceLock::new();
        DEVICE.get_or_init(OpenCl::open).as_ref()
    }

    fn open() -> Option<OpenCl> {
        if std::env::var_os("OCL_ICD_VENDORS").is_none() {
            let folder = tempfile::tempdir().ok()?.keep();
            std::fs::write(folder.join("intel.icd"), run_time()?.display().to_string()).ok()?;
            // SAFETY: called once, before any thread of ours reads this variable.
            unsafe { std::env::set_var("OCL_ICD_VENDORS", &folder) };
        }
        // SAFETY: opening a library by name.
        let library = unsafe { libc::dlopen(c"libOpenCL.so.1".as_ptr(), libc::RTLD_NOW) };
        if library.is_null() {
            return None;
        }
        let null = std::ptr::null_mut::<c_void>();
        let mut door = OpenCl { library, device: null, context: null, queue: null };
        let mut platform = null;
        let status = call!(door, "clGetPlatformIDs", (u32, *mut Handle, *mut u32) -> i32, 1, &mut platform, std::ptr::null_mut());
        if status != 0 {
            return None;
        }
        let mut device = null;
        let every = 0xffff_ffff_u64;
        let status = call!(door, "clGetDeviceIDs", (Handle, u64, u32, *mut Handle, *mut u32) -> i32,
            platform, every, 1, &mut device, std::ptr::null_mut());
        if status != 0 {
            return None;
        }
        door.device = device;
        let mut error = 0;
        door.context = call!(door, "clCreateContext", (*const isize, u32, *const Handle, Handle, Handle, *mut i32) -> Handle,
            std::ptr::null(), 1, &device, null, null, &mut error);
        assert_eq!(error, 0, "clCreateContext");
        door.queue = call!(door, "clCreateCommandQueue", (Handle, Handle, u64, *mut i32) -> Handle,
            door.context, device, 0, &mut error);
        assert_eq!(error, 0, "clCreateCommandQueue");
        Some(door)
    }

    /// Builds the module's kernel of this name.
    ///
    /// # Panics
    /// When the device refuses it.
    pub fn build(&self, module: &[u8], kernel: &str) -> Built<'_> {
        let null = std::ptr::null_mut::<c_void>();
        let mut error = 0;
        let program = call!(self, "clCreateProgramWithIL", (Handle, *const u8, usize, *mut i32) -> Handle,
            self.context, module.as_ptr(), module.len(), &mut error);
        assert_eq!(error, 0, "clCreateProgramWithIL");
        let status = call!(self, "clBuildProgram", (Handle, u32, *const Handle, *const c_char, Handle, Handle) -> i32,
            program, 1, &self.device, c"".as_ptr(), null, null);
        assert_eq!(status, 0, "clBuildProgram: {}", self.log(program));
        let name = CString::new(kernel).expect("names hold no NUL");
        let function =
            call!(self, "clCreateKernel", (Handle, *const c_char, *mut i32) -> Handle, program, name.as_ptr(), &mut error);
        assert_eq!(error, 0, "clCreateKernel");
        Built { device: self, program, function }
    }

    fn log(&self, program: Handle) -> String {
        let mut text = vec![0u8; 1 << 16];
        let mut size = 0;
        call!(self, "clGetProgramBuildInfo", (Handle, Handle, u32, usize, *mut u8, *mut usize) -> i32,
            program, self.device, 0x1183, text.len(), text.as_mut_ptr(), &mut size);
        text.truncate(size);
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// A kernel that is ready to run.
pub struct Built<'d> {
    device: &'d OpenCl,
    program: Handle,
    function: Handle,
}

impl Drop for Built<'_> {
    fn drop(&mut self) {
        call!(self.device, "clReleaseKernel", (Handle) -> i32, self.function);
        call!(self.device, "clReleaseProgram", (Handle) -> i32, self.program);
    }
}

impl Built<'_> {
    /// Runs `groups` groups of `threads` threads, to the end.
    ///
    /// # Panics
    /// When the device refuses anything.
    pub fn run(&self, arguments: Vec<Argument>, groups: usize, threads: usize) {
        let (device, function, null) = (self.device, self.function, std::ptr::null_mut::<c_void>());
        let mut shared: Vec<(Handle, &mut Vec<u64>)> = Vec::new();
        for (at, argument) in arguments.into_iter().enumerate() {
            let at = at as u32;
            let set = |bytes: &[u8]| {
                let status = call!(device, "clSetKernelArg", (Handle, u32, usize, *const u8) -> i32, function, at, bytes.len(), bytes.as_ptr());
                assert_eq!(status, 0, "clSetKernelArg {at}");
            };
            match argument {
                Argument::Long(v) => set(&v.to_le_bytes()),
                Argument::Int(v) => set(&v.to_le_bytes()),
                Argument::Memory(memory) => {
                    let bytes = (memory.len() * 8).max(8);
                    let address =
                        call!(device, "clSVMAlloc", (Handle, u64, usize, u32) -> Handle, device.context, 1 | 1 << 10, bytes, 64);
                    assert!(!address.is_null(), "clSVMAlloc");
                    // SAFETY: fresh fine-grained memory of this many bytes.
                    unsafe { std::ptr::copy_nonoverlapping(memory.as_ptr(), address.cast(), memory.len()) };
                    let status = call!(device, "clSetKernelArgSVMPointer", (Handle, u32, Handle) -> i32, function, at, address);
                    assert_eq!(status, 0, "clSetKernelArgSVMPointer {at}");
                    shared.push((address, memory));
                }
            }
        }
        let (all, local) = (groups * threads, threads);
        let status = call!(device, "clEnqueueNDRangeKernel",
            (Handle, Handle, u32, *const usize, *const usize, *const usize, u32, Handle, Handle) -> i32,
            device.queue, function, 1, std::ptr::null(), &all, &local, 0, null, null);
        assert_eq!(status, 0, "clEnqueueNDRangeKernel");
        let status = call!(device, "clFinish", (Handle) -> i32, device.queue);
        assert_eq!(status, 0, "clFinish");
        for (address, memory) in shared {
            // SAFETY: the device is done with this memory of this many bytes.
            unsafe { std::ptr::copy_nonoverlapping(address.cast(), memory.as_mut_ptr(), memory.len()) };
            call!(device, "clSVMFree", (Handle, Handle) -> (), device.context, address);
        }
    }
}
