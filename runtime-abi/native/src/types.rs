//! Mirrors of the structs of `include/oaaxc_rt.h`; the header is the truth, sizes are asserted on both sides.

use std::ffi::{c_char, c_void};

#[repr(C)]
pub struct OpenOptions {
    pub struct_size: u32,
    pub threads: u32,
    pub cpu_level: *const c_char,
    pub variant: *const c_char,
    pub manifest_sha256: *const c_char,
    pub verify_late: u32,
    pub reserved: u32,
    /// There if `struct_size` says so.
    pub device: *const c_char,
}

impl OpenOptions {
    /// The defaults.
    pub const NONE: OpenOptions = OpenOptions {
        struct_size: 0,
        threads: 0,
        cpu_level: std::ptr::null(),
        variant: std::ptr::null(),
        manifest_sha256: std::ptr::null(),
        verify_late: 0,
        reserved: 0,
        device: std::ptr::null(),
    };
}

#[repr(C)]
pub struct Dim {
    pub size: i64,
    pub symbol: *const c_char,
    pub min: i64,
    pub max: i64,
    pub multiple: i64,
}

#[repr(C)]
pub struct Port {
    pub struct_size: u32,
    pub kind: u32,
    pub name: *const c_char,
    pub dtype: u32,
    pub rank: i32,
    pub dims: *const Dim,
}

#[repr(C)]
pub struct Tensor {
    pub struct_size: u32,
    pub dtype: u32,
    pub rank: u32,
    pub reserved: u32,
    pub dims: *const i64,
    pub data: *const c_void,
    pub bytes: u64,
}

#[repr(C)]
pub struct Value {
    pub struct_size: u32,
    pub kind: u32,
    pub count: u64,
    pub tensors: *const Tensor,
}

#[repr(C)]
pub struct Output {
    pub struct_size: u32,
    pub kind: u32,
    pub own_data: *mut c_void,
    pub capacity: u64,
    pub data: *const c_void,
    pub bytes: u64,
    pub dtype: u32,
    pub rank: u32,
    pub dims: *const i64,
    pub count: u64,
    pub items: *const Tensor,
    pub keep: *mut c_void,
}

pub const TENSOR: u32 = 0;
pub const SEQUENCE: u32 = 1;
pub const ABSENT: u32 = 3;

const _: () = {
    assert!(size_of::<OpenOptions>() == 48 && std::mem::offset_of!(OpenOptions, device) == 40);
    assert!(size_of::<Dim>() == 40);
    assert!(size_of::<Port>() == 32);
    assert!(size_of::<Tensor>() == 40);
    assert!(size_of::<Value>() == 24);
    assert!(size_of::<Output>() == 80);
};
