//! A machine level as data: everything LLVM must know about the machine code is made for.
//!
//! A new machine is a new value of [`Level`], never a new branch in the compiler below. Two equal levels
//! give equal code; a level is part of every cache key.

use inkwell::targets::TargetMachine;

/// What comes out of the code generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// A relocatable ELF object (or a SPIR-V binary).
    Object,
    /// Assembly text: PTX.
    Assembly,
}

/// A machine level.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Level {
    /// LLVM target triple.
    pub triple: String,
    /// LLVM cpu name: `x86-64-v3`, `gfx942`, `sm_80`, …
    pub cpu: String,
    /// LLVM feature string, `+a,-b`; may be empty.
    pub features: String,
    /// LLVM ABI name; empty is the triple's default. RISC-V needs `lp64d`.
    pub abi: String,
    /// Bits of the widest vector that loops are vectorised to; 0 leaves it to LLVM.
    pub prefer_vector_width: u32,
    /// Whether loops and straight lines may become vector code: a GPU's threads are its vectors.
    pub vectorise: bool,
    /// Whether the code is compiled again by the device's driver. LLVM's generator for SPIR-V is used as plainly
    /// as it can be: for one module of a process (it numbers blocks by what it remembers of earlier ones), without
    /// its own optimisations (they make integers of odd widths, which it then widens without masking), and
    /// integers of odd widths are an error.
    pub portable: bool,
    /// What the code generator writes.
    pub output: Output,
    /// Whether objects are linked with our hidden support module (memcpy, fmod, half conversions, …).
    pub support: bool,
}

const LINUX_X86: &str = "x86_64-unknown-linux-gnu";

impl Level {
    /// x86-64-v2: SSE4.2, no AVX, no FMA, no half conversions.
    pub fn x86_64_v2() -> Level {
        Level::elf(LINUX_X86, "x86-64-v2", "", "", 128)
    }

    /// x86-64-v3: AVX2, FMA, F16C.
    pub fn x86_64_v3() -> Level {
        Level::elf(LINUX_X86, "x86-64-v3", "", "", 256)
    }

    /// x86-64-v4: AVX-512 F, BW, CD, DQ, VL, with whole 512-bit vectors.
    pub fn x86_64_v4() -> Level {
        Level::elf(LINUX_X86, "x86-64-v4", "", "", 512)
    }

    /// The processor we run on, and only that.
    pub fn native() -> Level {
        let cpu = TargetMachine::get_host_cpu_name().to_string();
        let features = TargetMachine::get_host_cpu_features().to_string();
        let width = if features.split(',').any(|f| f == "+avx512f") { 512 } else { 0 };
        let triple = TargetMachine::get_default_triple().as_str().to_string_lossy().into_owned();
        let abi = if triple.starts_with("riscv64") { "lp64d" } else { "" };
        Level::elf(&triple, &cpu, &features, abi, width)
    }

    /// AArch64 with Advanced SIMD; `cpu` as LLVM spells it (`generic`, `neoverse-v1`, …).
    pub fn aarch64(cpu: &str, features: &str) -> Level {
        Level::elf("aarch64-unknown-linux-gnu", cpu, features, "", 0)
    }

    /// RV64GC, hard-float ABI; `features` may add `+v`.
    pub fn riscv64(features: &str) -> Level {
        let base = "+m,+a,+f,+d,+c";
        let features = if features.is_empty() { base.into() } else { format!("{base},{features}") };
        Level::elf("riscv64-unknown-linux-gnu", "generic-rv64", &features, "lp64d", 0)
    }

    /// An AMD GPU, `chip` as `gfx942`.
    pub fn amdgcn(chip: &str) -> Level {
        // The newer ones pair their compute units unless told not to.
        let features = if chip.starts_with("gfx1") { "+cumode" } else { "" };
        Level { support: false, vectorise: false, ..Level::elf("amdgcn-amd-amdhsa", chip, features, "", 0) }
    }

    /// An NVIDIA GPU, `chip` as `sm_80`, `ptx` as `+ptx80`; the output is PTX text.
    pub fn nvptx(chip: &str, ptx: &str) -> Level {
        Level {
            output: Output::Assembly,
            support: false,
            vectorise: false,
            ..Level::elf("nvptx64-nvidia-cuda", chip, ptx, "", 0)
        }
    }

    /// OpenCL-flavoured SPIR-V 1.0, a binary.
    pub fn spirv() -> Level {
        Level { support: false, vectorise: false, portable: true, ..Level::elf("spirv64v1.0-unknown-unknown", "", "", "", 0) }
    }

    fn elf(triple: &str, cpu: &str, features: &str, abi: &str, width: u32) -> Level {
        Level {
            triple: triple.into(),
            cpu: cpu.into(),
            features: features.into(),
            abi: abi.into(),
            prefer_vector_width: width,
            vectorise: true,
            portable: false,
            output: Output::Object,
            support: true,
        }
    }

    pub(crate) const FIELDS: usize = 9;

    /// The fields as strings, in order: the wire form and the form that is hashed.
    pub(crate) fn fields(&self) -> [String; Level::FIELDS] {
        let output = match self.output {
            Output::Object => "object",
            Output::Assembly => "assembly",
        };
        [
            self.triple.clone(),
            self.cpu.clone(),
            self.features.clone(),
            self.abi.clone(),
            self.prefer_vector_width.to_string(),
            self.vectorise.to_string(),
            self.portable.to_string(),
            output.into(),
            self.support.to_string(),
        ]
    }

    /// The inverse of [`Level::fields`].
    pub(crate) fn from_fields(fields: &[String]) -> Option<Level> {
        let [triple, cpu, features, abi, width, vectorise, portable, output, support] = fields else {
            return None;
        };
        let output = match output.as_str() {
            "object" => Output::Object,
            "assembly" => Output::Assembly,
            _ => return None,
        };
        let prefer_vector_width = width.parse().ok()?;
        let support = support.parse().ok()?;
        let vectorise = vectorise.parse().ok()?;
        let portable = portable.parse().ok()?;
        Some(Level {
            triple: triple.clone(),
            cpu: cpu.clone(),
            features: features.clone(),
            abi: abi.clone(),
            prefer_vector_width,
            vectorise,
            portable,
            output,
            support,
        })
    }
}
