//! oaaxc-target-cpu: Kernel IR to freestanding x86-64 objects of the levels v2, v3 and v4.
//!
//! The generic path emits every kernel as scalar loops that LLVM vectorises; what has a better schedule
//! says so in [`schedule`]. Nothing here looks at the machine that compiles, except `cpu:native`.

mod compact;
mod contract;
mod folds;
mod integer;
mod kernel;
mod loops;
mod partition;
pub mod schedule;
mod sort;
mod target;

pub use kernel::{Emitted, Options, emit as emit_kernel, symbol_count};
pub use target::{CpuLevel, CpuTarget, PANEL, cpu_target, v2, v3, v4};
