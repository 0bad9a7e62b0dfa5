//! oaaxc-target-spirv: any OpenCL device that takes SPIR-V 1.0.
//!
//! One module for each kernel, all in one archive: a run-time builds only what it launches.

mod archive;
mod device;

pub use archive::archive;
pub use device::{gpu, machine, target};
