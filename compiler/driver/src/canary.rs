//! Canaries: seeded inputs with their outputs, stored in an artefact so that any machine can check it
//! without the model.
//!
//! Promises: inputs are a function of seed and sizes. Outputs come from the oracle `cpu:strict` where the
//! user asks for it, else from the build's own lowest CPU level: then a canary says that another machine
//! or level computes the same, not that it is right. Its `source` says which.

use std::collections::BTreeMap;
use std::path::Path;

use bytes::Bytes;
use oaaxc_base::{Code, Diagnostic, Diagnostics};
use oaaxc_container::{Canary, PackageFile, Role, Tolerance};

use crate::data::{self, Comparison, Seed};
use crate::execute::{self, Loaded, Wanted};
use crate::pipeline::{Options, Silent};
use crate::session::{Built, Opened, build_graph};

/// The seed of the canary of a build.
const SEED: u64 = 1;

/// Outputs larger than this are not stored.
const LARGEST: usize = 1 << 20;

/// Adds one canary to a build. The error says why there is none; the artefact is as good without.
pub fn store(built: &mut Built, options: &Options, dims: &BTreeMap<String, i64>, strict: bool) -> Result<(), String> {
    let said = |d: Diagnostics| d.items.first().map_or_else(String::new, |d| d.message.clone());
    // What this machine cannot run is answered for by the oracle.
    let strict = strict || !runs_here(built);
    let opened = if strict {
        let plain = Options { emit: Vec::new(), verify_passes: false, precision: Default::default(), ..options.clone() };
        let strict = build_graph(built.graph.clone(), &["cpu:strict".into()], &plain, &mut Silent).map_err(said)?;
        Opened::package(&strict.package, options.jobs)
    } else {
        // The lowest level gives the same numbers on every machine, so the artefact has the same bytes.
        let host = built.package.manifest.variants.iter().find(|v| v.needs.device.is_none());
        let level = host.and_then(|v| v.needs.cpu_levels.first().cloned());
        let variant = host.map(|v| v.id.clone());
        Opened::package_as(&built.package, &Wanted { level, variant, ..Wanted::threads(options.jobs) })
    }
    .map_err(|d| d.message)?;
    let run = execute::run_seeded(&opened.loaded, &BTreeMap::new(), dims, SEED).map_err(|d| d.message)?;
    let mut canary = Canary { seed: Some(SEED), ..Canary::default() };
    let source = if strict { "cpu:strict" } else { "build" };
    canary.extra.insert("source".into(), source.into());
    canary.extra.insert("integers_below".into(), run.seed.below.into());
    canary.dims = run.sizes.iter().map(|(name, size)| (name.clone(), u64::try_from(*size).unwrap_or(0))).collect();
    for (i, (port, tensor)) in opened.loaded.outputs.iter().zip(&run.outputs).enumerate() {
        if LARGEST < tensor.byte_len() {
            continue;
        }
        let path = format!("canaries/0/output_{i}.pb");
        let bytes = oaaxc_onnx::data::write(&tensor.clone().into(), &port.name);
        built.package.files.push(PackageFile { path: path.clone(), role: Role::Other, data: bytes.into() });
        canary.outputs.insert(port.name.clone(), path);
    }
    if canary.outputs.is_empty() {
        return Err(format!("its outputs are larger than {LARGEST} bytes"));
    }
    let manifest = &mut built.package.manifest;
    manifest.canaries.push(canary);
    let data::Tolerance { absolute, relative } = data::TOLERANCE;
    let relative = relative.max(options.precision.precision.machine_tolerance());
    manifest.tolerance = Some(Tolerance { absolute, relative });
    Ok(())
}

/// Whether the first variant is for processors of this machine's architecture.
fn runs_here(built: &Built) -> bool {
    let needs = built.package.manifest.variants.first().map(|variant| &variant.needs);
    needs.is_none_or(|n| n.device.is_none() && (n.arch.is_empty() || n.arch.iter().any(|a| a == oaax_core::architecture())))
}

/// Runs the canaries of an artefact. None stored: an empty list.
pub fn check(path: &Path, loaded: &Loaded) -> Result<Vec<Comparison>, Diagnostic> {
    let failed = |e: oaaxc_container::ContainerError| Diagnostic::error(Code::ARTEFACT, format!("{}: {e}", path.display()));
    let package = oaaxc_container::open(path).map_err(failed)?;
    let manifest = package.manifest();
    let tolerance =
        manifest.tolerance.as_ref().map_or(data::TOLERANCE, |t| data::Tolerance { absolute: t.absolute, relative: t.relative });
    let mut all = Vec::new();
    for canary in &manifest.canaries {
        let dims = canary.dims.iter().map(|(name, size)| (name.clone(), i64::try_from(*size).unwrap_or(i64::MAX))).collect();
        let below = canary.extra.get("integers_below").and_then(serde_json::Value::as_u64);
        let seed = Seed { below: below.unwrap_or(8), ..Seed::new(canary.seed.unwrap_or(0)) };
        let inputs = data::requests(&loaded.inputs, &BTreeMap::new(), &dims, seed)?;
        let outputs = execute::run(loaded, &inputs)?;
        for (port, found) in loaded.outputs.iter().zip(&outputs) {
            let Some(file) = canary.outputs.get(&port.name) else { continue };
            let bytes = package.read(file, 2 * LARGEST as u64).map_err(failed)?;
            let reference = data::tensor(Bytes::from(bytes))?;
            all.push(data::compare(&port.name, &reference, found, tolerance));
        }
    }
    Ok(all)
}
