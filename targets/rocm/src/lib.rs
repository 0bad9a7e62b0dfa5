//! oaaxc-target-rocm: AMD GPUs, one linked HSACO for each chip, made without ROCm.
//!
//! Nothing here was run on hardware; the tests link every kernel form and read the metadata back.

mod device;
mod matrix;

pub use device::{CHIPS, gpu, machine, target, targets};
