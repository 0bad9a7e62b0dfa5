//! What a target is: data about a device, and a function from kernels to code objects.
//!
//! Promises: a target never sees a graph or an operator's name; it matches Kernel IR exhaustively.

use std::path::PathBuf;

use oaaxc_base::Diagnostics;
use oaaxc_ir::Expr;
use oaaxc_ir::kernel::Kernel;

/// A target: a code generator for one kind of device.
pub trait Target: Sync {
    /// The name on the command line: `cpu`, `cpu:x86-64-v3`, `cpu:strict`.
    fn name(&self) -> &str;
    /// What passes may know of it.
    fn device(&self) -> &Device;
    /// Whether the device can run a kernel; the error is a sentence that says why not.
    fn claims(&self, _kernel: &Kernel) -> Result<(), String> {
        Ok(())
    }
    /// Compiles canonical kernels. One entry per kernel, in order, for every level of the object.
    fn emit(&self, kernels: &[Kernel], cx: &EmitCx) -> Result<CodeObject, Diagnostics>;
}

/// What passes read to decide layouts, packings and schedules.
#[derive(Clone, PartialEq, Debug)]
pub struct Device {
    /// `cpu`, `gpu`.
    pub kind: &'static str,
    /// Architecture: `x86_64`, `amdgcn`.
    pub arch: &'static str,
    /// No fusion, no reassociation, no packing: the oracle for whole models.
    pub strict: bool,
    /// Columns of a packed weight panel: `[N/panel][K][panel]`; 0 where weights stay plain.
    pub panel: i64,
}

/// How to emit.
#[derive(Clone, Debug, Default)]
pub struct EmitCx {
    /// Parallel workers; 0 for the number of cores.
    pub jobs: usize,
    /// The executable that runs as worker when its first argument is `__worker`.
    pub worker: PathBuf,
    /// Where compiled kernels are cached; `None` for no cache.
    pub cache: Option<PathBuf>,
    /// Keep the texts of the stages asked for (`mlir`, `llvm`, `asm`).
    pub keep: Vec<String>,
}

/// Code for every level of a target.
#[derive(Clone, Debug, Default)]
pub struct CodeObject {
    /// One linked object per level.
    pub levels: Vec<Level>,
    /// Texts of the stages asked for: (stage, kernel symbol, text).
    pub texts: Vec<(String, String, String)>,
    /// How many kernels came from the cache.
    pub cached: usize,
}

/// One instruction-set level.
#[derive(Clone, Debug)]
pub struct Level {
    /// `x86-64-v3`, `gfx942`.
    pub name: String,
    /// How a file of it ends: `so`, `hsaco`, `ptx`, `spv.a`.
    pub extension: &'static str,
    /// The linked, freestanding object.
    pub object: Vec<u8>,
    /// One entry per kernel, in order.
    pub kernels: Vec<KernelEntry>,
}

/// How the runtime calls a kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct KernelEntry {
    /// The symbol in the object.
    pub symbol: String,
    /// How many groups there are, over the kernel's symbols s0, s1, …; groups are independent.
    pub groups: Expr,
    /// Bytes of scratch that one worker (on a GPU: one launched work group) needs, likewise.
    pub scratch: Expr,
    /// Threads of a work group; 0 on a CPU, whose groups are plain calls.
    pub threads: u32,
    /// Whether a schedule of its own was used, or the generic path.
    pub generic: bool,
}
