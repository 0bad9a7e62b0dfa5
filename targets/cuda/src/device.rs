//! NVIDIA's compute capabilities as data.

use oaaxc_llvm::{Level, WorkerPool};
use oaaxc_target_api::{Device, Target};
use oaaxc_target_gpu::{Gpu, GpuTarget};

use crate::matrix::MMA;
use crate::ptx::join;

/// Compute capabilities with the PTX version that first knew them: A100, H100, B200, RTX 5090.
pub const CHIPS: &[(&str, &str)] = &[("sm_80", "+ptx80"), ("sm_90a", "+ptx80"), ("sm_100", "+ptx86"), ("sm_120", "+ptx87")];

/// What all of them have: 48 KiB of shared memory without asking; warps of 32 threads.
pub fn gpu() -> Gpu {
    Gpu {
        convention: "ptx_kernelcc",
        attributes: "attributes {nvvm.kernel, nvvm.reqntid = array<i32: $threads, 1, 1>}",
        declarations: "",
        ids: "    %group_number = nvvm.read.ptx.sreg.ctaid.x : i32
    %thread_number = nvvm.read.ptx.sreg.tid.x : i32
    %group = arith.extui %group_number : i32 to i64
    %thread = arith.extui %thread_number : i32 to i64",
        barrier: "nvvm.barrier0",
        scope: "device",
        private: "!llvm.ptr",
        threads: 256,
        shared: 48 * 1024,
        f64: true,
        matrix: MMA,
    }
}

/// LLVM's machine for a compute capability of [`CHIPS`].
pub fn machine(chip: &str) -> Option<Level> {
    CHIPS.iter().find(|c| c.0 == chip).map(|(chip, ptx)| Level::nvptx(chip, ptx))
}

/// The target `cuda:CHIP`, where the chip is one of ours.
pub fn target(name: &str) -> Option<Box<dyn Target>> {
    let chip = name.strip_prefix("cuda:")?;
    Some(Box::new(GpuTarget {
        name: name.into(),
        device: Device { kind: "gpu", arch: "nvptx64", strict: false, panel: 0 },
        gpu: gpu(),
        machine: machine(chip)?,
        level: chip.into(),
        extension: "ptx",
        pack,
        workers: Default::default(),
    }))
}

/// What `cuda` stands for: PTX of the oldest, which the driver of every later one takes.
pub fn targets() -> Vec<String> {
    vec!["cuda:sm_80".into()]
}

fn pack(objects: &[(String, Vec<u8>)], _: &WorkerPool, _: &Level) -> Result<Vec<u8>, String> {
    join(objects.iter().map(|(_, o)| o.as_slice()))
}
