//! MLIR text in, linked code object out: the only room that names melior, inkwell, llvm-sys and lld.
//!
//! ```text
//! text ─ parse, lower ─▶ LLVM dialect ─ translate ─▶ LLVM IR ─ default<O3>, emit ─▶ object ─ lld ─▶ code object
//! ```
//!
//! A build talks to a [`WorkerPool`]: it answers from the [`Cache`] or asks a worker process, because LLVM
//! ends its process on some errors. [`compile_module`] and [`link`] are the same way in one process, for
//! workers and tests. A machine is a [`Level`], which is data.
//!
//! It promises: the same text and level give the same bytes, whatever the number of workers; a code object
//! needs nothing but itself (checked on its bytes); a kernel that LLVM dies of is an error of that kernel.
//! It never looks at what a kernel means, never reads a model, never prints.
//!
//! # What it costs
//!
//! Measured by `cargo run -p oaaxc-llvm --example measure` on two cores at 2 GHz and up (Sapphire Rapids), a
//! 6×16 matrix micro-kernel unrolled four times over k, level x86-64-v3:
//!
//! | | |
//! |---|---|
//! | start of a worker and its first kernel | 55 ms |
//! | each further kernel | 19 ms |
//! | first link of a worker (compiles the support module) | 45 ms |
//! | link of 1 object, of 100 objects | 2 ms, 9 ms |
//! | resident memory of a worker after 1, after 500 kernels | 123 MB, 124 MB |
//! | of that not shared with other workers | 9 MB |
//!
//! A build that finds everything in the cache starts no worker and initialises nothing of LLVM.
//!
//! # Input
//!
//! Dialects `func`, `arith`, `math` (only what has an LLVM intrinsic that the machine selects: fma, sqrt,
//! absf, floor, ceil, trunc, roundeven, copysign; the rest is `oaaxc-emit`'s mathematics), `scf`, `cf`,
//! `index`, `vector`, `ub`, and `llvm` for memory (`!llvm.ptr`, load, store, getelementptr), intrinsics and
//! GPU kernels. `private` functions become internal to their object.

mod batch;
mod cache;
mod codegen;
mod compile;
mod elf;
mod error;
mod isolate;
mod level;
mod link;
mod lower;
mod pool;
mod process;
mod support;
pub mod testing;
mod wire;
mod worker;

pub use batch::{Batch, Workers};
pub use cache::Cache;
pub use compile::{Form, compile_form, compile_module, emit_asm, emit_llvm_ir};
pub use error::{BackendError, Stage};
pub use level::{Level, Output};
pub use link::link;
pub use pool::{Job, WorkerPool};
pub use worker::{WORKER_ARGUMENT, worker_main};
