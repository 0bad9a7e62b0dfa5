//! What the generator must know of a device: spellings of its few intrinsics, sizes, abilities.

/// A GPU as data.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// The calling convention of a kernel, as MLIR spells it: `amdgpu_kernelcc`.
    pub convention: &'static str,
    /// Attributes of a kernel; `$threads` stands for the threads of a work group.
    pub attributes: &'static str,
    /// Lines of the module beside the kernel: declarations and flags.
    pub declarations: &'static str,
    /// Lines that define `%group` and `%thread`, both i64.
    pub ids: &'static str,
    /// Lines of a barrier of the work group that orders shared and global memory.
    pub barrier: &'static str,
    /// The synchronisation scope of the whole device, for atomics.
    pub scope: &'static str,
    /// The type of pointers to stack slots.
    pub private: &'static str,
    /// Threads of an ordinary work group; a square number.
    pub threads: u32,
    /// Shared memory that a group may use, in bytes.
    pub shared: i64,
    /// Whether it computes in double precision.
    pub f64: bool,
}

/// Memory that a kernel is given.
pub(crate) const GLOBAL: &str = "!llvm.ptr<1>";
/// Memory of a work group.
pub(crate) const SHARED: &str = "!llvm.ptr<3>";
