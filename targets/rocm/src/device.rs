//! AMD's chips as data.

use oaaxc_llvm::{Level, WorkerPool};
use oaaxc_target_api::{Device, Target};
use oaaxc_target_gpu::{Gpu, GpuTarget};

use crate::matrix;

/// The chips that `rocm` stands for: MI200, MI300, MI350, RX 7900, RX 9070.
pub const CHIPS: &[&str] = &["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"];

/// What a chip has: all have 64 KiB of local memory; vectors of 64 threads, or of 32 on gfx1x.
pub fn gpu(chip: &str) -> Gpu {
    Gpu {
        convention: "amdgpu_kernelcc",
        attributes: "attributes {rocdl.reqd_work_group_size = array<i32: $threads, 1, 1>, \
             rocdl.flat_work_group_size = \"$threads,$threads\", passthrough = [[\"uniform-work-group-size\", \"true\"]]}",
        // Code object version 5: what ROCm 5.5 and later load.
        declarations: "  llvm.module_flags [#llvm.mlir.module_flag<error, \"amdhsa_code_object_version\", 500 : i32>]",
        ids: "    %group_number = rocdl.workgroup.id.x : i32
    %thread_number = rocdl.workitem.id.x : i32
    %group = arith.extui %group_number : i32 to i64
    %thread = arith.extui %thread_number : i32 to i64",
        barrier: "llvm.fence syncscope(\"workgroup\") release
    rocdl.s.barrier
    llvm.fence syncscope(\"workgroup\") acquire",
        scope: "agent",
        private: "!llvm.ptr<5>",
        threads: 256,
        shared: 64 * 1024,
        f64: true,
        matrix: matrix::of(chip),
    }
}

/// LLVM's machine for a chip.
pub fn machine(chip: &str) -> Level {
    Level::amdgcn(chip)
}

/// The target `rocm:CHIP`, where the chip is one of ours.
pub fn target(name: &str) -> Option<Box<dyn Target>> {
    let chip = name.strip_prefix("rocm:").filter(|c| CHIPS.contains(c))?;
    Some(Box::new(GpuTarget {
        name: name.into(),
        device: Device { kind: "gpu", arch: "amdgcn", strict: false, panel: 0 },
        gpu: gpu(chip),
        machine: machine(chip),
        level: chip.into(),
        extension: "hsaco",
        pack,
        workers: Default::default(),
    }))
}

/// All chips: what `rocm` stands for.
pub fn targets() -> Vec<String> {
    CHIPS.iter().map(|chip| format!("rocm:{chip}")).collect()
}

fn pack(objects: &[(String, Vec<u8>)], pool: &WorkerPool, level: &Level) -> Result<Vec<u8>, String> {
    let objects: Vec<Vec<u8>> = objects.iter().map(|(_, o)| o.clone()).collect();
    pool.link(&objects, level).map_err(|e| e.to_string())
}
