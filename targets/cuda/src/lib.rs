//! oaaxc-target-cuda: NVIDIA GPUs, one PTX text for each compute capability; the driver compiles it.
//!
//! Nothing here was run on hardware; the tests have every kernel form assembled by NVIDIA's own assembler.

mod device;
mod matrix;
mod ptx;

pub use device::{CHIPS, gpu, machine, target, targets};
pub use ptx::join;
