//! Mirrors of `include/oaaxc_kernel.h`, the entry of every kernel.
//! The sizes are asserted on both sides; the header is the truth.

use core::ffi::c_void;

/// Version of the kernel entry.
pub const KERNEL_VERSION: u32 = 1;

/// Why a kernel stopped: written by the kernel that returns a status other than 0.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelFault {
    /// One of the codes below; 0 is none.
    pub code: i32,
    /// 0: the node of the launch; else an index in the kernel's list of places (ONNX nodes).
    pub place: u32,
    /// The offending value.
    pub value: i64,
    /// The limit that it broke.
    pub limit: i64,
}

/// An index lies outside -limit ≤ value < limit.
pub const FAULT_INDEX: i32 = 1;
/// An integer division by zero.
pub const FAULT_DIVISION: i32 = 2;
/// A value breaks a rule of its operator.
pub const FAULT_VALUE: i32 = 3;

/// What a kernel gets besides its buffers and dims.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KernelEnv {
    /// `size_of::<KernelEnv>()` of the runtime.
    pub struct_size: u32,
    /// [`KERNEL_VERSION`].
    pub version: u32,
    /// Index of the calling worker, below `workers`.
    pub worker: u32,
    /// Number of workers that may run this launch.
    pub workers: u32,
    /// This worker's scratch, 64-byte aligned; contents undefined.
    pub scratch: *mut c_void,
    /// Its size in bytes.
    pub scratch_size: u64,
    /// This worker's fault slot.
    pub fault: *mut KernelFault,
}

/// A kernel: runs groups `group_begin..group_end` and returns 0, or a status and a filled fault slot.
pub type KernelFn = unsafe extern "C" fn(
    env: *const KernelEnv,
    buffers: *const *mut c_void,
    dims: *const i64,
    group_begin: u64,
    group_end: u64,
) -> i32;

/// The fault record of a run in device memory, all zero at its start: a kernel that meets a fault swaps
/// `state` from 0 to 1 and, if it won, fills the rest.
///
/// A device kernel is `void k(buffers.., i64 dims.., scratch, fault, i64 launched, i32 launch)`, pointers to
/// global memory; `launched` groups of one dimension loop over the groups that its entry counts.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceFault {
    /// 0: none.
    pub state: i32,
    /// Index of the launch in the program (the kernel's argument `launch`).
    pub launch: i32,
    /// As in [`KernelFault`].
    pub code: i32,
    /// As in [`KernelFault`].
    pub place: u32,
    /// The offending value.
    pub value: i64,
    /// The limit that it broke.
    pub limit: i64,
}

const _: () = {
    assert!(size_of::<DeviceFault>() == 32 && core::mem::offset_of!(DeviceFault, value) == 16);
    assert!(size_of::<KernelFault>() == 24 && align_of::<KernelFault>() == 8);
    assert!(size_of::<KernelEnv>() == 40 && align_of::<KernelEnv>() == 8);
    assert!(core::mem::offset_of!(KernelEnv, scratch) == 16);
    assert!(core::mem::offset_of!(KernelEnv, scratch_size) == 24);
    assert!(core::mem::offset_of!(KernelEnv, fault) == 32);
    assert!(core::mem::offset_of!(KernelFault, value) == 8);
};
