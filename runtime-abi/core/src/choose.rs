//! Which variant of an artefact runs here, and why: the first of the manifest whose needs are met.
//!
//! The manifest's order is the order in which the targets were asked for. `Options::variant` (or the
//! environment's `OAAX_TARGET`) and `Options::device` narrow the choice. Devices are probed only as far as
//! the choice needs it; `explain` probes for every variant.

use crate::{
    cpu,
    device::{self, Found, Kind},
    digest::verify,
    error::{Error, Result, Status, fail},
    manifest::{DeviceNeed, Fallback, Manifest, Variant},
    model::Options,
    open::{Bytes, Files},
    pool::Pool,
};
use oaax_abi::{Program, Space};
use std::collections::BTreeMap;

/// What became of a variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariantReport {
    /// Id in the manifest.
    pub id: String,
    /// What was asked for when it was built: `rocm:gfx942`.
    pub target: String,
    /// What it needs, in words.
    pub needs: String,
    /// What the machine answered.
    pub answer: String,
    /// Whether it can run here (and is among those asked for).
    pub runs: bool,
    /// Whether it is the one that is taken.
    pub chosen: bool,
    /// Why it is taken or not.
    pub reason: String,
}

/// A variant that runs.
pub struct Choice<'a> {
    pub variant: &'a Variant,
    pub program: Program,
    /// Index among the host levels, where there are host kernels.
    pub host: Option<usize>,
    pub device: Option<(Kind, Found)>,
    /// Level or device, and why.
    pub why: String,
    /// What the caller should hear.
    pub messages: Vec<String>,
}

/// Why a variant does not run.
struct Refusal {
    reason: String,
    /// For lack of a device.
    device: bool,
}

/// What the caller asked for.
struct Wanted {
    variant: Option<String>,
    /// For messages: what named the variant.
    source: &'static str,
    device: Option<WantedDevice>,
}

/// `--device`: `cpu`, `gpu`, `hip`, `cuda:1` …
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WantedDevice {
    Cpu,
    Gpu(Option<Kind>, Option<u32>),
}

impl Wanted {
    fn new(options: &Options) -> Result<Wanted> {
        let device = options.device.as_deref().map(wanted_device).transpose()?.flatten();
        if options.variant.is_some() {
            return Ok(Wanted { variant: options.variant.clone(), source: "the options ask", device });
        }
        let variant = std::env::var("OAAX_TARGET").ok().filter(|name| !name.is_empty());
        Ok(Wanted { variant, source: "OAAX_TARGET asks", device })
    }

    /// Whether the variant is the one asked for by id, by target, or by the target's family (`rocm`).
    fn names(&self, variant: &Variant) -> bool {
        let family = variant.target.split(':').next().unwrap_or_default();
        self.variant.as_ref().is_none_or(|name| *name == variant.id || *name == variant.target || name == family)
    }
}

fn wanted_device(text: &str) -> Result<Option<WantedDevice>> {
    let (name, index) = match text.split_once(':') {
        Some((name, index)) => (name, Some(index.parse::<u32>().ok())),
        None => (text, None),
    };
    Ok(match (name, Kind::named(name), index) {
        ("auto", None, None) => None,
        ("cpu", None, None) => Some(WantedDevice::Cpu),
        ("gpu", None, None) => Some(WantedDevice::Gpu(None, None)),
        (_, Some(kind), None) => Some(WantedDevice::Gpu(Some(kind), None)),
        (_, Some(kind), Some(Some(index))) => Some(WantedDevice::Gpu(Some(kind), Some(index))),
        _ => fail!(InvalidArgument, "device {text:?} is none of auto, cpu, gpu, hip, cuda, opencl, hip:0, cuda:1 …"),
    })
}

/// The variant to run.
pub fn choose<'a>(manifest: &'a Manifest, files: &mut Files, options: &Options, pool: &Pool) -> Result<Choice<'a>> {
    let mut examiner = Examiner::new(manifest, files, options, pool)?;
    let (mut passed_over, mut device) = (Vec::new(), false);
    for variant in &manifest.variants {
        if !examiner.wanted.names(variant) {
            continue;
        }
        match examiner.examine(variant)?.1 {
            Ok(mut choice) => {
                if !passed_over.is_empty() {
                    choice.why += &format!("; passed over {}", passed_over.join("; "));
                }
                return Ok(choice);
            }
            Err(refusal) => {
                device |= refusal.device;
                passed_over.push(format!("{}: {}", variant.id, refusal.reason));
            }
        }
    }
    match (passed_over.is_empty(), device) {
        (true, _) => {
            let ids: Vec<&str> = manifest.variants.iter().map(|variant| variant.id.as_str()).collect();
            let wanted = examiner.wanted.variant.as_deref().unwrap_or("at all");
            fail!(Unsupported, "the artefact has no variant {wanted}; it has {}", ids.join(", "))
        }
        (false, true) => fail!(DeviceError, "no variant runs here: {}", passed_over.join("; ")),
        (false, false) => fail!(Unsupported, "no variant runs here: {}", passed_over.join("; ")),
    }
}

/// Every variant with its needs, what the machine answers, and what becomes of it.
pub fn explain(manifest: &Manifest, files: &mut Files, options: &Options, pool: &Pool) -> Result<Vec<VariantReport>> {
    let mut examiner = Examiner::new(manifest, files, options, pool)?;
    let (mut reports, mut taken) = (Vec::new(), false);
    for variant in &manifest.variants {
        let (answer, outcome) = match examiner.examine(variant) {
            Ok(found) => found,
            Err(error) => (String::new(), Err(Refusal { reason: error.to_string(), device: false })),
        };
        let runs = outcome.is_ok() && examiner.wanted.names(variant);
        let chosen = runs && !taken;
        let reason = match outcome {
            Err(refusal) => refusal.reason,
            Ok(_) if !examiner.wanted.names(variant) => {
                format!("{} for {}", examiner.wanted.source, examiner.wanted.variant.as_deref().unwrap_or_default())
            }
            Ok(choice) if chosen => format!("the first that runs here: {}", choice.why),
            Ok(_) => "runs here, but one before it is taken".to_owned(),
        };
        taken |= chosen;
        let (id, target, needs) = (variant.id.clone(), variant.target.clone(), needs(variant));
        reports.push(VariantReport { id, target, needs, answer, runs, chosen, reason });
    }
    Ok(reports)
}

/// What a variant needs, in words.
fn needs(variant: &Variant) -> String {
    let mut parts = Vec::new();
    if !variant.arch.is_empty() {
        parts.push(format!("architecture {}", variant.arch.join(" or ")));
    }
    if let Some(level) = variant.cpu_levels.first() {
        parts.push(format!("CPU level {level} or a higher one"));
    }
    if let Some(DeviceNeed { kind, names, memory }) = &variant.device {
        let names = if names.is_empty() { String::new() } else { format!(" {}", names.join(" or ")) };
        let memory = memory.map_or(String::new(), |bytes| format!(" with {bytes} bytes of memory"));
        parts.push(format!("{kind} device{names}{memory}"));
    }
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}

struct Examiner<'a, 'f> {
    manifest: &'a Manifest,
    files: &'f mut Files,
    options: &'f Options,
    pool: &'f Pool,
    wanted: Wanted,
    probes: BTreeMap<Kind, std::result::Result<Vec<Found>, String>>,
}

type Outcome<'a> = std::result::Result<Choice<'a>, Refusal>;

fn refused<'a>(reason: String, device: bool) -> Outcome<'a> {
    Err(Refusal { reason, device })
}

impl<'a, 'f> Examiner<'a, 'f> {
    fn new(manifest: &'a Manifest, files: &'f mut Files, options: &'f Options, pool: &'f Pool) -> Result<Examiner<'a, 'f>> {
        Ok(Examiner { manifest, files, options, pool, wanted: Wanted::new(options)?, probes: BTreeMap::new() })
    }

    /// What the machine answers to a variant, and what follows. Errors: the artefact is damaged.
    fn examine(&mut self, variant: &'a Variant) -> Result<(String, Outcome<'a>)> {
        let host = cpu::architecture();
        let mut answer = format!("architecture {host}");
        let device = match self.device(variant, &mut answer) {
            Ok(device) => device,
            Err(refusal) => return Ok((answer, Err(refusal))),
        };
        if !variant.arch.is_empty() && !variant.arch.iter().any(|arch| arch == host) {
            return Ok((answer, refused(format!("is for {}, this machine is {host}", variant.arch.join(", ")), false)));
        }
        if !self.files.has(&variant.program) {
            return Ok((answer, refused("its files are not in this image".to_owned(), false)));
        }
        let program = Program::parse(&verified(self.manifest, self.files, &variant.program, self.pool)?)?;
        if program.objects.len() != variant.objects.len() {
            let (listed, wanted) = (variant.objects.len(), program.objects.len());
            fail!(InvalidModel, "variant {} lists {listed} objects, its program {wanted}", variant.id);
        }
        let on_host = program.kernels.iter().filter(|kernel| kernel.space == Space::Host).count();
        if on_host < program.kernels.len() && device.is_none() {
            fail!(InvalidModel, "variant {} has kernels for a device and needs none", variant.id);
        }
        let mut messages = Vec::new();
        if device.is_some() && on_host > 0 {
            let placed = format!("{on_host} of {} kernels of variant {} run on the host", program.kernels.len(), variant.id);
            match self.manifest.fallback {
                Fallback::Error => return Ok((answer, refused(format!("{placed}, which the artefact does not allow"), false))),
                Fallback::Warn => messages.push(placed),
                Fallback::Allow => {}
            }
        }
        let levels: Vec<&str> = program.levels_of(Space::Host).map(|(_, level)| program.text(level.name)).collect();
        let (level, why) = match on_host {
            0 => (None, None),
            _ => match cpu::choose(&levels, self.options.cpu_level.as_deref()) {
                (Some(level), why) => (Some(level), Some(why)),
                (None, why) => return Ok((answer, refused(why, false))),
            },
        };
        let device_why = device.as_ref().map(|(kind, found)| format!("{}:{} {}", kind.name(), found.index, described(found)));
        let whys: Vec<String> = device_why.into_iter().chain(why).collect();
        let why = if whys.is_empty() { "the program has no kernels".to_owned() } else { whys.join("; host kernels ") };
        Ok((answer, Ok(Choice { variant, program, host: level, device, why, messages })))
    }

    /// The device for a variant, if it needs one.
    fn device(&mut self, variant: &Variant, answer: &mut String) -> std::result::Result<Option<(Kind, Found)>, Refusal> {
        let refusal = |reason: String| Err(Refusal { reason, device: true });
        let Some(need) = &variant.device else {
            return match self.wanted.device {
                None | Some(WantedDevice::Cpu) => Ok(None),
                Some(_) => refusal("needs no device, and one is asked for".to_owned()),
            };
        };
        let Some(kind) = Kind::named(&need.kind) else {
            return refusal(format!("needs a device of kind {}, which this runtime does not drive", need.kind));
        };
        let wanted_index = match self.wanted.device {
            Some(WantedDevice::Cpu) => return refusal("needs a device, and the CPU is asked for".to_owned()),
            Some(WantedDevice::Gpu(Some(other), _)) if other != kind => {
                return refusal(format!("needs a device of kind {}, and {} is asked for", kind.name(), other.name()));
            }
            Some(WantedDevice::Gpu(_, index)) => index,
            None => None,
        };
        let found = match self.probes.entry(kind).or_insert_with(|| device::probe(kind)) {
            Ok(found) => found,
            Err(reason) => {
                *answer = reason.clone();
                return refusal(reason.clone());
            }
        };
        let list: Vec<String> =
            found.iter().map(|found| format!("{}:{} {}", kind.name(), found.index, described(found))).collect();
        *answer = list.join(", ");
        if wanted_index.is_some_and(|index| found.iter().all(|found| found.index != index)) {
            return refusal(format!("device {} is not there; there is {answer}", wanted_index.unwrap_or_default()));
        }
        let asked = |found: &&Found| wanted_index.is_none_or(|index| found.index == index);
        match found.iter().filter(asked).find(|found| suits(kind, need, found)) {
            Some(found) => Ok(Some((kind, found.clone()))),
            None => refusal(format!("needs {}; there is {answer}", need_text(need))),
        }
    }
}

fn described(found: &Found) -> String {
    match found.architecture.as_str() {
        "" => found.name.clone(),
        architecture => format!("{} ({architecture})", found.name),
    }
}

fn need_text(need: &DeviceNeed) -> String {
    let memory = need.memory.map_or(String::new(), |bytes| format!(" with {bytes} bytes of memory"));
    match need.names.is_empty() {
        true => format!("a device of kind {}{memory}", need.kind),
        false => format!("{}{memory}", need.names.join(" or ")),
    }
}

/// Whether a device has what a variant needs. PTX for one capability runs on every later one, unless it
/// names a feature set (`sm_90a`).
fn suits(kind: Kind, need: &DeviceNeed, found: &Found) -> bool {
    let capability = |name: &str| name.strip_prefix("sm_")?.parse::<u32>().ok();
    let named = |name: &String| match kind {
        Kind::Hip => *name == found.architecture,
        Kind::Cuda => match (capability(name), capability(&found.architecture)) {
            (Some(least), Some(has)) => least <= has,
            _ => name.trim_end_matches(['a', 'f']) == found.architecture,
        },
        Kind::OpenCl => found.name.contains(name.as_str()),
    };
    (need.names.is_empty() || need.names.iter().any(named)) && need.memory.is_none_or(|bytes| bytes <= found.memory)
}

/// The bytes of a file, of the size that the manifest says.
pub fn sized(manifest: &Manifest, files: &mut Files, path: &str) -> Result<Bytes> {
    let bytes = files.get(path)?;
    match manifest.files[path].size == bytes.len() as u64 {
        true => Ok(bytes),
        false => fail!(Tampered, "{path}: has {} bytes instead of {}", bytes.len(), manifest.files[path].size),
    }
}

/// The bytes of a file, verified.
pub fn verified(manifest: &Manifest, files: &mut Files, path: &str, pool: &Pool) -> Result<Bytes> {
    let bytes = sized(manifest, files, path)?;
    verify(path, &bytes, &manifest.files[path].leaves, pool)?;
    Ok(bytes)
}

/// An error for a device that was chosen and cannot be opened.
pub fn cannot_open(kind: Kind, found: &Found, error: &Error) -> Error {
    let status = if error.status == Status::OutOfMemory { Status::OutOfMemory } else { Status::DeviceError };
    Error::new(status, format!("{}:{} {} cannot be used: {}", kind.name(), found.index, found.name, error.message))
}

#[cfg(test)]
mod tests {
    use super::{DeviceNeed, Found, Kind, WantedDevice, suits, wanted_device};

    fn need(kind: &str, name: &str) -> DeviceNeed {
        DeviceNeed { kind: kind.to_owned(), names: vec![name.to_owned()], memory: None }
    }

    fn found(architecture: &str) -> Found {
        Found { index: 0, name: "a device".to_owned(), architecture: architecture.to_owned(), memory: 1 << 30 }
    }

    #[test]
    fn architectures_are_matched_as_their_vendors_mean_them() {
        assert!(suits(Kind::Hip, &need("hip", "gfx942"), &found("gfx942")));
        assert!(!suits(Kind::Hip, &need("hip", "gfx942"), &found("gfx90a")));
        assert!(suits(Kind::Cuda, &need("cuda", "sm_80"), &found("sm_120")));
        assert!(!suits(Kind::Cuda, &need("cuda", "sm_100"), &found("sm_90")));
        assert!(suits(Kind::Cuda, &need("cuda", "sm_90a"), &found("sm_90")));
        assert!(!suits(Kind::Cuda, &need("cuda", "sm_90a"), &found("sm_100")));
        let any = DeviceNeed { kind: "opencl".to_owned(), names: vec![], memory: Some(2 << 30) };
        assert!(!suits(Kind::OpenCl, &any, &found("")));
    }

    #[test]
    fn devices_are_asked_for_by_kind_and_number() {
        assert_eq!(wanted_device("cuda:1"), Ok(Some(WantedDevice::Gpu(Some(Kind::Cuda), Some(1)))));
        assert_eq!(wanted_device("gpu"), Ok(Some(WantedDevice::Gpu(None, None))));
        assert_eq!(wanted_device("auto"), Ok(None));
        for text in ["", "tpu", "cuda:", "cuda:-1", "cpu:0", "hip:0:1"] {
            assert!(wanted_device(text).is_err(), "{text}");
        }
    }
}
