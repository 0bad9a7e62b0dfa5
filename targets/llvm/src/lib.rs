//! MLIR text in, linked code object out: the only room that names melior, inkwell, llvm-sys and lld.

mod cache;
mod codegen;
mod compile;
mod elf;
mod error;
mod level;
mod link;
mod lower;
mod pool;
mod process;
mod support;
mod wire;
mod worker;

pub use cache::Cache;
pub use compile::{Form, compile_form, compile_module, emit_asm, emit_llvm_ir};
pub use error::{BackendError, Stage};
pub use level::{Level, Output};
pub use link::link;
pub use pool::{Job, WorkerPool};
pub use worker::{WORKER_ARGUMENT, worker_main};
