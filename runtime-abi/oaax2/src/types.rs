//! Mirrors of the structs of `include/oaax_runtime.h`; enums that come in are plain numbers.

use std::ffi::{c_char, c_int, c_void};

#[repr(C)]
pub struct TensorDescriptor {
    pub name: *mut c_char,
    pub data_type: c_int,
    pub rank: c_int,
    pub shape: *mut c_int,
    pub data_size: usize,
    pub data: *mut c_void,
}

#[repr(C)]
pub struct Tensors {
    pub id: c_int,
    pub num_tensors: c_int,
    pub tensors: *mut TensorDescriptor,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Config {
    pub length: c_int,
    pub keys: *const *const c_char,
    pub values: *const *const c_char,
}

#[repr(C)]
pub struct ModelConfig {
    pub file_path: *const c_char,
    pub model_data: *const u8,
    pub model_size: usize,
    pub config: Config,
}

const _: () = {
    assert!(size_of::<TensorDescriptor>() == 40 && std::mem::offset_of!(TensorDescriptor, data_size) == 24);
    assert!(size_of::<Tensors>() == 16 && std::mem::offset_of!(Tensors, tensors) == 8);
    assert!(size_of::<Config>() == 24);
    assert!(size_of::<ModelConfig>() == 48 && std::mem::offset_of!(ModelConfig, config) == 24);
};
