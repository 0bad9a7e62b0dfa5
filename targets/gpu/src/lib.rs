//! oaaxc-target-gpu: Kernel IR to GPU kernels, one generator for all makers.
//!
//! A kernel is a one-dimensional grid of work groups. Outer points are groups; inside a group each step's
//! points are strided over its threads with a barrier between steps, or the threads share one point's
//! reduction through shared memory. What differs between devices is a [`Gpu`], which is data.
//! It never emits a barrier that only some threads of a group reach.

mod compact;
mod contract;
mod device;
mod group;
mod kernel;
mod loops;
mod reduce;
mod schedule;
mod sort;
mod target;

pub use device::{Fragment, Gpu, Lane, Matrix};
pub use kernel::{Emitted, emit as emit_kernel};
pub use target::{GpuTarget, Pack};
