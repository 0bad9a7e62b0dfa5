//! CPU levels: which names this machine can run, and why not.
//!
//! A level is a base and perhaps features: `x86-64-v3`, `x86-64-v3+avxvnni`, `aarch64`, `riscv64`.

/// The architecture of this build as OCI names it.
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(target_arch = "x86_64")]
macro_rules! features {
    ($($name:tt),* $(,)?) => { [$(($name, std::is_x86_feature_detected!($name))),*] };
}

/// The first thing of `level` that this CPU lacks; `None` if it can run it.
#[cfg(target_arch = "x86_64")]
pub fn missing(level: &str) -> Option<String> {
    let present = features![
        "sse3",
        "ssse3",
        "sse4.1",
        "sse4.2",
        "popcnt",
        "cmpxchg16b",
        "avx",
        "avx2",
        "bmi1",
        "bmi2",
        "f16c",
        "fma",
        "lzcnt",
        "movbe",
        "avx512f",
        "avx512bw",
        "avx512cd",
        "avx512dq",
        "avx512vl",
        "avx512vnni",
        "avx512bf16",
        "avx512fp16",
        "avx512vbmi",
        "avx512vbmi2",
        "avx512bitalg",
        "avx512ifma",
        "avx512vpopcntdq",
        "avxvnni",
        "avxifma",
        "gfni",
        "vaes",
        "vpclmulqdq",
        "aes",
        "pclmulqdq",
        "sha",
        "adx",
    ];
    let lacks = |names: &[&str]| {
        let has = |name: &str| present.iter().any(|(known, found)| *known == name && *found);
        names.iter().find(|name| !has(name)).map(|name| (*name).to_owned())
    };
    const V2: &[&str] = &["sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cmpxchg16b"];
    const V3: &[&str] = &["avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "lzcnt", "movbe"];
    const V4: &[&str] = &["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"];
    let mut parts = level.split('+');
    let base = match parts.next() {
        Some("x86-64") => None,
        Some("x86-64-v2") => lacks(V2),
        Some("x86-64-v3") => lacks(V2).or_else(|| lacks(V3)),
        Some("x86-64-v4") => lacks(V2).or_else(|| lacks(V3)).or_else(|| lacks(V4)),
        _ => Some(format!("the architecture of {level}")),
    };
    base.or_else(|| lacks(&parts.collect::<Vec<_>>()))
}

/// The first thing of `level` that this CPU lacks; `None` if it can run it.
#[cfg(target_arch = "aarch64")]
pub fn missing(level: &str) -> Option<String> {
    let mut parts = level.split('+');
    if parts.next() != Some("aarch64") {
        return Some(format!("the architecture of {level}"));
    }
    let has = |name: &str| match name {
        "dotprod" => std::arch::is_aarch64_feature_detected!("dotprod"),
        "i8mm" => std::arch::is_aarch64_feature_detected!("i8mm"),
        "sve" => std::arch::is_aarch64_feature_detected!("sve"),
        _ => false,
    };
    parts.find(|name| !has(name)).map(str::to_owned)
}

/// The first thing of `level` that this CPU lacks; `None` if it can run it.
#[cfg(target_arch = "riscv64")]
pub fn missing(level: &str) -> Option<String> {
    let mut parts = level.split('+');
    if parts.next() != Some("riscv64") {
        return Some(format!("the architecture of {level}"));
    }
    // SAFETY: getauxval only reads what the kernel gave to the process. Single-letter extensions are bits by letter.
    let letters = unsafe { libc::getauxval(libc::AT_HWCAP) };
    let has = |name: &str| name == "v" && letters & (1 << (b'v' - b'a')) != 0;
    parts.find(|name| !has(name)).map(str::to_owned)
}

/// The highest of `levels` (lowest first) that this CPU runs, at most `limit` if one is named, and
/// why: the sentence stands in the model's information and in errors.
pub fn choose(levels: &[&str], limit: Option<&str>) -> (Option<usize>, String) {
    let mut reasons = Vec::new();
    let end = match limit {
        Some(limit) => match levels.iter().position(|level| *level == limit) {
            Some(index) => index + 1,
            None => return (None, format!("level {limit} is not in the artefact, which has {}", levels.join(", "))),
        },
        None => levels.len(),
    };
    for (index, level) in levels.iter().enumerate().take(end).rev() {
        match missing(level) {
            Some(lack) => reasons.push(format!("this CPU lacks {lack} for {level}")),
            None => {
                let why = match (reasons.first(), limit) {
                    (Some(reason), _) => reason.clone(),
                    (None, Some(_)) => "as asked for".to_owned(),
                    (None, None) => format!("the highest of {}", levels.join(", ")),
                };
                return (Some(index), format!("{level}: {why}"));
            }
        }
    }
    let reason = reasons.last().cloned().unwrap_or_else(|| "the artefact has no levels".to_owned());
    (None, reason)
}

#[cfg(test)]
mod tests {
    use super::choose;

    #[test]
    fn a_foreign_level_is_passed_over_with_its_reason() {
        let base = if cfg!(target_arch = "x86_64") { "x86-64" } else { std::env::consts::ARCH };
        let (chosen, why) = choose(&[base, "vax-11"], None);
        assert_eq!(chosen, Some(0));
        assert!(why.contains("vax-11"), "{why}");
        assert_eq!(choose(&["vax-11"], None).0, None);
        assert_eq!(choose(&[base], Some("none")).0, None);
    }
}
