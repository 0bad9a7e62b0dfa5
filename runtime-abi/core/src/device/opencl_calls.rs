//! OpenCL's calls and numbers, as its headers have them (all of version 2.1, and Intel's unified memory).

use super::{
    Handle,
    library::{Library, calls, text},
};
use std::ffi::{CStr, c_char, c_void};

/// Where the loader of OpenCL drivers may be, in the order of the search.
pub const LIBRARIES: [&str; 2] = ["libOpenCL.so.1", "libOpenCL.so"];

pub const DEVICE_TYPE: u32 = 0x1000;
pub const DEVICE_NAME: u32 = 0x102b;
pub const DEVICE_MEMORY: u32 = 0x101f;
pub const DEVICE_EXTENSIONS: u32 = 0x1030;
pub const DEVICE_IL: u32 = 0x105b;
pub const DEVICE_SVM: u32 = 0x1053;
pub const PLATFORM_NAME: u32 = 0x0902;
pub const BUILD_LOG: u32 = 0x1183;
pub const ALL_DEVICES: u64 = 0xffff_ffff;
pub const TYPE_CPU: u64 = 2;
/// Coarse-grained shared buffers.
pub const SVM_BUFFERS: u64 = 1;
pub const SVM_READ_WRITE: u64 = 1;

type Notify = *const c_void;
type Sizes = *const usize;

calls! {
    pub struct Calls {
        platforms: "clGetPlatformIDs" fn(u32, *mut Handle, *mut u32) -> i32;
        platform_info: "clGetPlatformInfo" fn(Handle, u32, usize, *mut c_void, *mut usize) -> i32;
        devices: "clGetDeviceIDs" fn(Handle, u64, u32, *mut Handle, *mut u32) -> i32;
        device_info: "clGetDeviceInfo" fn(Handle, u32, usize, *mut c_void, *mut usize) -> i32;
        context: "clCreateContext" fn(*const isize, u32, *const Handle, Notify, *mut c_void, *mut i32) -> Handle;
        release_context: "clReleaseContext" fn(Handle) -> i32;
        queue: "clCreateCommandQueueWithProperties" fn(Handle, Handle, *const u64, *mut i32) -> Handle;
        release_queue: "clReleaseCommandQueue" fn(Handle) -> i32;
        finish: "clFinish" fn(Handle) -> i32;
        program: "clCreateProgramWithIL" fn(Handle, *const c_void, usize, *mut i32) -> Handle;
        release_program: "clReleaseProgram" fn(Handle) -> i32;
        build: "clBuildProgram" fn(Handle, u32, *const Handle, *const c_char, Notify, *mut c_void) -> i32;
        build_info: "clGetProgramBuildInfo" fn(Handle, Handle, u32, usize, *mut c_void, *mut usize) -> i32;
        kernel: "clCreateKernel" fn(Handle, *const c_char, *mut i32) -> Handle;
        release_kernel: "clReleaseKernel" fn(Handle) -> i32;
        argument: "clSetKernelArg" fn(Handle, u32, usize, *const c_void) -> i32;
        svm_argument: "clSetKernelArgSVMPointer" fn(Handle, u32, *const c_void) -> i32;
        launch: "clEnqueueNDRangeKernel" fn(Handle, Handle, u32, Sizes, Sizes, Sizes, u32, *const Handle, *mut Handle) -> i32;
        svm_allocate: "clSVMAlloc" fn(Handle, u64, usize, u32) -> *mut c_void;
        svm_free: "clSVMFree" fn(Handle, *mut c_void) -> ();
        svm_copy: "clEnqueueSVMMemcpy" fn(Handle, u32, *mut c_void, *const c_void, usize, u32, *const Handle, *mut Handle) -> i32;
        extension: "clGetExtensionFunctionAddressForPlatform" fn(Handle, *const c_char) -> *mut c_void;
    }
}

pub type Allocate = unsafe extern "C" fn(Handle, Handle, *const u64, usize, u32, *mut i32) -> *mut c_void;
pub type Free = unsafe extern "C" fn(Handle, *mut c_void) -> i32;
pub type Copy = unsafe extern "C" fn(Handle, u32, *mut c_void, *const c_void, usize, u32, *const Handle, *mut Handle) -> i32;
pub type SetPointer = unsafe extern "C" fn(Handle, u32, *const c_void) -> i32;

/// Intel's unified shared memory: addresses of the device alone.
#[derive(Clone, Copy)]
pub struct Unified {
    pub allocate: Allocate,
    pub free: Free,
    pub copy: Copy,
    pub argument: SetPointer,
}

impl Unified {
    /// The extension's calls, if the platform has them all.
    pub fn new(calls: &Calls, platform: Handle) -> Option<Unified> {
        let find = |name: &CStr| {
            // SAFETY: a platform that exists, a NUL-terminated name.
            let address = unsafe { (calls.extension)(platform, name.as_ptr()) };
            (!address.is_null()).then_some(address)
        };
        let allocate = find(c"clDeviceMemAllocINTEL")?;
        let free = find(c"clMemFreeINTEL")?;
        let copy = find(c"clEnqueueMemcpyINTEL")?;
        let argument = find(c"clSetKernelArgMemPointerINTEL")?;
        // SAFETY: the extension's specification declares these types.
        unsafe {
            Some(Unified {
                allocate: std::mem::transmute::<*mut c_void, Allocate>(allocate),
                free: std::mem::transmute::<*mut c_void, Free>(free),
                copy: std::mem::transmute::<*mut c_void, Copy>(copy),
                argument: std::mem::transmute::<*mut c_void, SetPointer>(argument),
            })
        }
    }
}

impl Calls {
    /// Opens the loader.
    pub fn open() -> Result<(Calls, &'static str), String> {
        let library = Library::open(&LIBRARIES)?;
        Ok((Calls::new(&library)?, library.name))
    }

    /// A device's property of one word, 0 if it has none.
    pub fn device_word(&self, device: Handle, what: u32) -> u64 {
        let mut word = 0u64;
        // SAFETY: a device that exists, a place of eight bytes.
        let code = unsafe { (self.device_info)(device, what, 8, (&raw mut word).cast(), std::ptr::null_mut()) };
        if code == 0 { word } else { 0 }
    }

    /// A device's property that is a string.
    pub fn device_text(&self, device: Handle, what: u32) -> String {
        // SAFETY: a device that exists; the place has the size that is given.
        string(|size, place, needed| unsafe { (self.device_info)(device, what, size, place, needed) })
    }

    /// A platform's name.
    pub fn platform_name(&self, platform: Handle) -> String {
        // SAFETY: a platform that exists; the place has the size that is given.
        string(|size, place, needed| unsafe { (self.platform_info)(platform, PLATFORM_NAME, size, place, needed) })
    }

    /// What the compiler of a device said of a program.
    pub fn build_log(&self, program: Handle, device: Handle) -> String {
        // SAFETY: a program and a device that exist; the place has the size that is given.
        string(|size, place, needed| unsafe { (self.build_info)(program, device, BUILD_LOG, size, place, needed) })
    }
}

/// Asks for a string's size, then for the string.
fn string(ask: impl Fn(usize, *mut c_void, *mut usize) -> i32) -> String {
    let mut size = 0;
    if ask(0, std::ptr::null_mut(), &mut size) != 0 || size > 1 << 24 {
        return String::new();
    }
    let mut bytes = vec![0u8; size + 1];
    if ask(size, bytes.as_mut_ptr().cast(), std::ptr::null_mut()) != 0 {
        return String::new();
    }
    // SAFETY: the last byte is NUL.
    unsafe { text(bytes.as_ptr().cast()) }
}

/// OpenCL's name of a code.
#[rustfmt::skip] // a table
pub fn error_name(code: i32) -> &'static str {
    const NAMES: &[(i32, &str)] = &[
        (-1, "CL_DEVICE_NOT_FOUND"), (-2, "CL_DEVICE_NOT_AVAILABLE"), (-3, "CL_COMPILER_NOT_AVAILABLE"),
        (-4, "CL_MEM_OBJECT_ALLOCATION_FAILURE"), (-5, "CL_OUT_OF_RESOURCES"), (-6, "CL_OUT_OF_HOST_MEMORY"),
        (-11, "CL_BUILD_PROGRAM_FAILURE"), (-14, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST"),
        (-30, "CL_INVALID_VALUE"), (-32, "CL_INVALID_PLATFORM"), (-33, "CL_INVALID_DEVICE"), (-34, "CL_INVALID_CONTEXT"),
        (-36, "CL_INVALID_COMMAND_QUEUE"), (-38, "CL_INVALID_MEM_OBJECT"), (-42, "CL_INVALID_BINARY"),
        (-43, "CL_INVALID_BUILD_OPTIONS"), (-44, "CL_INVALID_PROGRAM"), (-45, "CL_INVALID_PROGRAM_EXECUTABLE"),
        (-46, "CL_INVALID_KERNEL_NAME"), (-47, "CL_INVALID_KERNEL_DEFINITION"), (-48, "CL_INVALID_KERNEL"),
        (-49, "CL_INVALID_ARG_INDEX"), (-50, "CL_INVALID_ARG_VALUE"), (-51, "CL_INVALID_ARG_SIZE"),
        (-52, "CL_INVALID_KERNEL_ARGS"), (-53, "CL_INVALID_WORK_DIMENSION"), (-54, "CL_INVALID_WORK_GROUP_SIZE"),
        (-55, "CL_INVALID_WORK_ITEM_SIZE"), (-59, "CL_INVALID_OPERATION"), (-61, "CL_INVALID_BUFFER_SIZE"),
        (-63, "CL_INVALID_GLOBAL_WORK_SIZE"), (-1001, "CL_PLATFORM_NOT_FOUND_KHR"),
    ];
    NAMES.iter().find(|row| row.0 == code).map_or("an OpenCL error", |row| row.1)
}
