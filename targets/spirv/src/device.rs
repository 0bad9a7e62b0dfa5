//! The OpenCL device as data.

use oaaxc_llvm::{Level, WorkerPool};
use oaaxc_target_api::{Device, Target};
use oaaxc_target_gpu::{Gpu, GpuTarget};

use crate::archive::archive;

/// What every OpenCL device with SPIR-V has: 32 KiB of local memory, groups of 256.
pub fn gpu() -> Gpu {
    Gpu {
        convention: "spir_kernelcc",
        attributes: "attributes {reqd_work_group_size = array<i32: $threads, 1, 1>}",
        declarations: "  llvm.func spir_funccc @_Z12get_group_idj(i32) -> i64 attributes {no_unwind, will_return}
  llvm.func spir_funccc @_Z12get_local_idj(i32) -> i64 attributes {no_unwind, will_return}
  llvm.func spir_funccc @_Z22__spirv_ControlBarrierjjj(i32, i32, i32) attributes {convergent, no_unwind}",
        ids: "    %dimension = arith.constant 0 : i32
    %group = llvm.call spir_funccc @_Z12get_group_idj(%dimension) : (i32) -> i64
    %thread = llvm.call spir_funccc @_Z12get_local_idj(%dimension) : (i32) -> i64
    %barrier_scope = arith.constant 2 : i32
    %barrier_memory = arith.constant 784 : i32",
        barrier: "llvm.call spir_funccc @_Z22__spirv_ControlBarrierjjj(%barrier_scope, %barrier_scope, %barrier_memory) {convergent} : (i32, i32, i32) -> ()",
        scope: "device",
        private: "!llvm.ptr",
        threads: 256,
        shared: 32 * 1024,
        f64: true,
        matrix: &[],
    }
}

/// LLVM's machine.
pub fn machine() -> Level {
    Level::spirv()
}

/// The target `spirv`.
pub fn target() -> Box<dyn Target> {
    Box::new(GpuTarget {
        name: "spirv".into(),
        device: Device { kind: "gpu", arch: "spirv64", strict: false, panel: 0 },
        gpu: gpu(),
        machine: machine(),
        level: "spirv64".into(),
        extension: "spv.a",
        pack,
        workers: Default::default(),
    })
}

fn pack(objects: &[(String, Vec<u8>)], _: &WorkerPool, _: &Level) -> Result<Vec<u8>, String> {
    let members: Vec<(String, &[u8])> = objects.iter().map(|(s, o)| (format!("{s}.spv"), o.as_slice())).collect();
    Ok(archive(&members))
}
