//! The package of a build: manifest, host programs, code objects, weights.

use std::collections::BTreeMap;

use oaaxc_container::{
    Data, DeviceNeed, Dim, HostNode, Manifest, Needs, Package, PackageFile, Part, Platform, Role, SymbolRange, ValueInfo,
    ValueType, Variant,
};
use oaaxc_ir::program::SlotId;
use oaaxc_ir::{Expr, Type};
use oaaxc_passes::kernel::encode::Weights;
use oaaxc_passes::kernel::place::OnHost;
use oaaxc_target_api::Level;

use crate::pipeline::{Compiled, file_name};
use crate::placement::{Fallback, Placement};

/// Joins the targets' shares into one package, in their order: a reader takes the first that runs. The
/// signature is the first one's; all have the same.
pub fn package(compiled: Vec<Compiled>, weights: Weights, fallback: Fallback) -> Package {
    let mut package = Package::default();
    let Some(first) = compiled.first() else { return package };
    package.manifest = signature(first);
    if compiled.iter().any(|share| share.placement.is_some()) {
        package.manifest.fallback.policy = fallback.name().into();
    }
    let mut archs: Vec<&str> = Vec::new();
    for share in compiled {
        if share.placement.is_none() && !archs.contains(&share.arch) {
            archs.push(share.arch);
        }
        add_share(&mut package, share);
    }
    // Where no CPU was asked for: the host program of a device runs wherever the runtime does.
    if archs.is_empty() {
        archs.push("x86_64");
    }
    package.files.push(PackageFile { path: WEIGHTS.into(), role: Role::Weights, data: Data::Parts(parts(weights)) });
    package.platforms = archs.into_iter().map(|arch| Platform::linux(oci_arch(arch))).collect();
    package
}

/// Says in every variant what became of the tensors.
pub fn describe_precision(package: &mut Package, table: &crate::precision::Table) {
    for variant in &mut package.manifest.variants {
        variant.extra.insert("precision".into(), table.to_json());
    }
}

/// OCI's name of an architecture.
fn oci_arch(arch: &str) -> &str {
    match arch {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The weight file that all targets share.
const WEIGHTS: &str = "weights/0.bin";

/// The weight file as pieces, so that mapped constants are never copied.
fn parts(weights: Weights) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut at = 0;
    for (offset, bytes) in weights.parts {
        if offset > at {
            parts.push(Part::Zeros(offset - at));
        }
        at = offset + bytes.len() as u64;
        parts.push(Part::Bytes(bytes));
    }
    parts
}

fn add_share(package: &mut Package, share: Compiled) {
    let folder = oaaxc_container::target_folder(&share.target);
    let id = folder.trim_start_matches("targets/").to_string();
    let program = format!("{folder}/program.bin");
    let data = share.host.encode().into();
    package.files.push(PackageFile { path: program.clone(), role: Role::Target(id.clone()), data });
    let generic = share.code.levels.last().map_or(0, |level| level.kernels.iter().filter(|k| k.generic).count());
    let mut extra = BTreeMap::from([("kernels".to_string(), share.kernels.into()), ("generic_kernels".into(), generic.into())]);
    let first_host = share.code.levels.len() - share.host_levels;
    let mut needs = Needs { os: Some("linux".into()), ..Needs::default() };
    match &share.placement {
        None => needs.arch.push(oci_arch(share.arch).into()),
        Some(placement) => {
            needs.device = device_need(share.arch, &share.code.levels);
            extra.insert("placement".into(), placement.to_json());
            package.manifest.fallback.host.extend(host_nodes(placement));
            if share.host_levels > 0 {
                needs.arch = HOST_ARCHITECTURES.iter().map(|arch| oci_arch(arch).to_string()).collect();
            }
        }
    }
    let mut objects = Vec::new();
    for (at, level) in share.code.levels.into_iter().enumerate() {
        let path = format!("{folder}/{}", file_name(&level));
        objects.push(path.clone());
        if first_host <= at {
            needs.cpu_levels.push(level.name);
        }
        package.files.push(PackageFile { path, role: Role::Target(id.clone()), data: level.object.into() });
    }
    package.manifest.variants.push(Variant {
        id,
        target: share.target,
        needs,
        program,
        objects,
        weights: vec![WEIGHTS.into()],
        extra: extra.into_iter().collect(),
    });
}

/// The architectures of `targets::HOSTS`.
const HOST_ARCHITECTURES: &[&str] = &["x86_64", "aarch64"];

/// What a reader probes for.
fn device_need(arch: &str, levels: &[Level]) -> Option<DeviceNeed> {
    let names = levels.first().map(|level| level.name.clone()).into_iter().collect();
    let (kind, names) = match arch {
        "amdgcn" => ("hip", names),
        "nvptx64" => ("cuda", names),
        _ => ("opencl", Vec::new()),
    };
    Some(DeviceNeed { kind: kind.into(), names, memory: None })
}

/// Nodes of one target that the host runs.
fn host_nodes(placement: &Placement) -> Vec<HostNode> {
    let node = |launch: &OnHost| {
        let reason = launch.reason.clone();
        let one = move |origin: &oaaxc_base::Origin| HostNode {
            node: origin.node.to_string(),
            operator: origin.operator.to_string(),
            reason: reason.clone(),
        };
        launch.origins.iter().map(one).collect::<Vec<_>>()
    };
    placement.on_host.iter().flat_map(node).collect()
}

/// Name, inputs, outputs and symbols of a model.
fn signature(share: &Compiled) -> Manifest {
    let program = &share.program;
    let value = |slot: &SlotId| {
        let slot = &program.slots[*slot];
        ValueInfo { name: slot.name.clone(), ty: value_type(&slot.ty, &|e| dim(program, e)), overridable: false }
    };
    let mut symbols = BTreeMap::new();
    for slot in &program.inputs {
        let Type::Tensor(t) = &program.slots[*slot].ty else { continue };
        for symbol in t.shape.iter().flatten().flat_map(Expr::symbols) {
            let s = &program.symbols.table[symbol];
            let max = (s.max != i64::MAX).then_some(s.max.max(0) as u64);
            symbols.insert(s.name.clone(), SymbolRange { min: s.min.max(0) as u64, max });
        }
    }
    Manifest {
        symbols,
        inputs: program.inputs.iter().map(value).collect(),
        outputs: program.outputs.iter().map(value).collect(),
        ..Manifest::new(program.name.clone(), env!("CARGO_PKG_VERSION"))
    }
}

fn dim(program: &oaaxc_ir::program::Program, e: &Expr) -> Dim {
    match e.as_const() {
        Some(size) => Dim::Size(u64::try_from(size).unwrap_or(0)),
        None => Dim::Named(program.symbols.show(e)),
    }
}

fn value_type(ty: &Type, dim: &dyn Fn(&Expr) -> Dim) -> ValueType {
    match ty {
        Type::Tensor(t) => ValueType::Tensor {
            dtype: t.dtype.name().into(),
            dims: t.shape.as_ref().map(|shape| shape.iter().map(dim).collect()),
        },
        Type::Sequence(inner) => ValueType::Sequence { element: Box::new(value_type(inner, dim)) },
        Type::Optional(inner) => ValueType::Optional { element: Box::new(value_type(inner, dim)) },
        Type::Map(key, value) => ValueType::Map { key: key.name().into(), value: Box::new(value_type(value, dim)) },
    }
}
