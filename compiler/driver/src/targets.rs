//! The list of targets that this executable knows.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_target_api::Target;

/// What `oaaxc targets` lists: name and one line.
pub static KNOWN: &[(&str, &str)] = &[
    ("cpu", "x86-64-v2, -v3 and -v4 in one artefact, chosen by CPUID when it is loaded"),
    ("cpu:x86-64-v2", "SSE4.2; runs on every x86-64 processor since about 2009"),
    ("cpu:x86-64-v3", "AVX2 and FMA"),
    ("cpu:x86-64-v4", "AVX-512 F, BW, CD, DQ, VL"),
    ("cpu:native", "this machine's processor, with all that it has; the artefact may not run elsewhere"),
    ("cpu:aarch64", "64-bit Arm: Advanced SIMD, and dot products where the processor has them"),
    ("cpu:aarch64+neon", "64-bit Arm: Advanced SIMD alone"),
    ("cpu:aarch64+dotprod", "64-bit Arm with dot products"),
    ("cpu:aarch64+i8mm", "64-bit Arm with dot products and 8-bit matrix products"),
    ("cpu:aarch64+sve", "64-bit Arm with scalable vectors"),
    ("cpu:riscv64", "RV64GC, and vectors where the processor has them"),
    ("cpu:riscv64gc", "RV64GC alone"),
    ("cpu:riscv64gcv", "RV64GC with vectors"),
    ("cpu:strict", "the oracle: every operator alone, no fusion, no reassociation"),
    ("rocm", "AMD GPUs: gfx90a, gfx942, gfx950, gfx1100 and gfx1201, a variant for each in one artefact"),
    ("cuda", "NVIDIA GPUs: PTX for sm_80, which the driver of every later one compiles"),
    ("spirv", "any OpenCL device that takes SPIR-V 1.0"),
    ("rocm:gfx90a", "AMD Instinct MI200"),
    ("rocm:gfx942", "AMD Instinct MI300"),
    ("rocm:gfx950", "AMD Instinct MI350"),
    ("rocm:gfx1100", "AMD Radeon RX 7900"),
    ("rocm:gfx1201", "AMD Radeon RX 9070"),
    ("cuda:sm_80", "NVIDIA A100, and by its driver every later one"),
    ("cuda:sm_90a", "NVIDIA H100"),
    ("cuda:sm_100", "NVIDIA B200"),
    ("cuda:sm_120", "NVIDIA RTX 5090"),
];

/// What was done with a target's code before it was released: executed on such hardware, executed by something
/// that stands for it, or only compiled and looked at by the maker's tools. Nothing of a GPU was measured.
pub fn checked(name: &str) -> &'static str {
    let family = name.split(':').next().unwrap_or(name);
    match family {
        "spirv" => "executed on OpenCL's run-time for CPUs; not measured on a GPU",
        "rocm" => "compiled, linked and looked at; never executed, not measured",
        "cuda" => "compiled and assembled by ptxas; never executed, not measured",
        _ if name.contains("aarch64") || name.contains("riscv64") => "executed in an emulator; not measured",
        _ => "executed and measured",
    }
}

/// What compiles the kernels of a GPU's program that its device cannot run: the lowest level of each architecture.
pub static HOSTS: &[&str] = &["cpu:x86-64-v2", "cpu:aarch64+neon"];

/// The architectures that `rocm` stands for: Instinct MI200, MI300 and MI350, Radeon RX 7900 and RX 9070.
pub static ROCM: &[&str] = &["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"];

/// The targets that a name stands for: `rocm` for one of each architecture, every other name for itself.
pub fn members(name: &str) -> Vec<String> {
    match name {
        "rocm" => ROCM.iter().map(|chip| format!("rocm:{chip}")).collect(),
        // Every later driver compiles it for its own device.
        "cuda" => vec!["cuda:sm_80".into()],
        other => vec![other.into()],
    }
}

/// The target with this name.
pub fn find(name: &str) -> Result<Box<dyn Target>, Diagnostic> {
    let gpu = || match name {
        "spirv" => Some(oaaxc_target_spirv::target()),
        _ => oaaxc_target_rocm::target(name).or_else(|| oaaxc_target_cuda::target(name)),
    };
    oaaxc_target_cpu::cpu_target(name).or_else(gpu).ok_or_else(|| {
        let error = Diagnostic::error(Code::UNKNOWN_TARGET, format!("there is no target \"{name}\""));
        match closest(name, KNOWN.iter().map(|k| k.0)) {
            Some(known) => error.help(format!("did you mean \"{known}\"? `oaaxc targets` lists all")),
            None => error.help("`oaaxc targets` lists all"),
        }
    })
}

/// The known name nearest to what was typed, where one is near.
pub fn closest<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known.map(|k| (distance(typed, k), k)).filter(|(d, k)| *d <= k.len().max(3) / 3).min().map(|(_, k)| k)
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let next = (diagonal + usize::from(x != *y)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = row[j + 1];
            row[j + 1] = next;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_finds_its_neighbour() {
        assert_eq!(closest("cpu:x86-64-v5", KNOWN.iter().map(|k| k.0)).map(|k| &k[..11]), Some("cpu:x86-64-"));
        assert_eq!(closest("zebra", KNOWN.iter().map(|k| k.0)), None);
    }
}
