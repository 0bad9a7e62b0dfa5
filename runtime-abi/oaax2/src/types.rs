//! Mirrors of the structs of `include/oaax_runtime.h`; enums that come in are plain numbers.

use std::ffi::{c_char, c_int, c_void};

/// `RuntimeStatus`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum Status {
    Success = 0,
    Error = 1,
    NotInitialized = 2,
    AlreadyInitialized = 3,
    ModelNotLoaded = 4,
    InvalidArgument = 5,
    InvalidModel = 6,
    FileNotFound = 7,
    OutOfMemory = 8,
    InvalidTensor = 9,
    ShapeMismatch = 10,
    TypeMismatch = 11,
    NoOutputAvailable = 12,
    InferenceError = 13,
    NotImplemented = 14,
    Timeout = 15,
    DeviceError = 16,
    UnknownError = 17,
    InvalidModelId = 18,
}

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

/// A failure of a call: status and sentence.
#[derive(Clone, Debug)]
pub struct Failure {
    pub status: Status,
    pub message: String,
}

impl Failure {
    pub fn new(status: Status, message: impl Into<String>) -> Failure {
        Failure { status, message: message.into() }
    }
}

impl From<oaax_core::Error> for Failure {
    fn from(error: oaax_core::Error) -> Failure {
        use oaax_core::Status as Core;
        let status = match error.status {
            Core::InvalidArgument | Core::OutputTooSmall => Status::InvalidArgument,
            Core::NotFound => Status::FileNotFound,
            Core::InvalidModel | Core::Tampered => Status::InvalidModel,
            Core::Unsupported => Status::DeviceError,
            Core::ShapeMismatch => Status::ShapeMismatch,
            Core::TypeMismatch => Status::TypeMismatch,
            Core::OutOfMemory => Status::OutOfMemory,
            Core::RunFailed => Status::InferenceError,
            Core::Internal => Status::UnknownError,
            Core::NotImplemented => Status::NotImplemented,
        };
        Failure::new(status, error.to_string())
    }
}

/// Result of this crate.
pub type Outcome<T> = Result<T, Failure>;
