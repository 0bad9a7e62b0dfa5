//! oaax-core: opens an oaaxc artefact, verifies it, and executes its host program.
//!
//! Promises: nothing of an artefact is used before its digest was checked; weights of a mapped
//! artefact are not copied; a run of known sizes allocates nothing; runs from many threads at once
//! are safe; what goes wrong is an [`Error`] with a sentence and the ONNX node. Never: knows the
//! compiler, writes a file, opens an artefact's code with `dlopen`, prints.
//!
//! Files: `open/` (forms of artefacts), `manifest.rs` (what `oaax.json` says), `elf.rs` (kernel
//! loader), `cpu.rs` (levels), `choose.rs` (variants), `device/` (accelerators), `code.rs` (program made ready), `context.rs`, `bind.rs`, `run.rs`,
//! `launch.rs` (a run), `pool.rs`, `thread.rs` (workers), `model.rs` (the front door).

mod bind;
mod buffer;
mod cells;
mod choose;
mod code;
mod context;
mod cpu;
mod device;
mod digest;
mod element;
mod elf;
mod error;
mod info;
mod json;
mod launch;
mod manifest;
mod model;
mod names;
mod open;
mod pool;
mod run;
mod thread;
mod value;

pub use buffer::Buffer;
pub use choose::VariantReport;
pub use context::Sample;
pub use cpu::{architecture, missing};
pub use digest::{Digest, digest, digest_from_hex, hex};
pub use elf::Code as KernelObject;
pub use error::{Error, Result, Status};
pub use info::{DimInfo, PortInfo, info_json, ports};
pub use json::{Json, quote};
pub use model::{Model, Options, Session, Verify};
pub use names::file_name;
pub use oaax_abi as abi;
pub use thread::Thread;
pub use value::{Item, Memory, Output, Tensor, Value};
