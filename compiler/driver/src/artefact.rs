//! The package of a build: manifest, host programs, code objects, weights.

use std::collections::BTreeMap;

use oaaxc_container::{
    Data, Dim, Manifest, Needs, Package, PackageFile, Part, Platform, Role, SymbolRange, ValueInfo, ValueType, Variant,
};
use oaaxc_ir::program::SlotId;
use oaaxc_ir::{Expr, Type};
use oaaxc_passes::kernel::encode::Weights;

use crate::pipeline::Compiled;

/// Joins the targets' shares into one package. The signature is the first one's; all have the same.
pub fn package(compiled: Vec<Compiled>, weights: Weights) -> Package {
    let mut package = Package::default();
    let Some(first) = compiled.first() else { return package };
    package.manifest = signature(first);
    let mut archs: Vec<&str> = Vec::new();
    for share in compiled {
        if !archs.contains(&share.arch) {
            archs.push(share.arch);
        }
        add_share(&mut package, share);
    }
    package.files.push(PackageFile { path: WEIGHTS.into(), role: Role::Weights, data: Data::Parts(parts(weights)) });
    package.platforms = archs.into_iter().map(|arch| Platform::linux(oci_arch(arch))).collect();
    package
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
    let mut file = |path: String, role: Role, data: Data| package.files.push(PackageFile { path, role, data });
    let program = format!("{folder}/program.bin");
    file(program.clone(), Role::Target(id.clone()), share.host.encode().into());
    let generic = share.code.levels.last().map_or(0, |level| level.kernels.iter().filter(|k| k.generic).count());
    let extra = [("kernels", share.kernels), ("generic_kernels", generic)];
    let mut objects = Vec::new();
    let mut levels = Vec::new();
    for level in share.code.levels {
        // A native level names every feature of its machine, which is more than a path may hold.
        let file_name = if level.name.len() <= 32 { level.name.as_str() } else { "native" };
        let path = format!("{folder}/{file_name}.so");
        objects.push(path.clone());
        levels.push(level.name);
        file(path, Role::Target(id.clone()), level.object.into());
    }
    let needs =
        Needs { os: Some("linux".into()), arch: vec![oci_arch(share.arch).into()], cpu_levels: levels, ..Needs::default() };
    package.manifest.variants.push(Variant {
        id,
        target: share.target,
        needs,
        program,
        objects,
        weights: vec![WEIGHTS.into()],
        extra: extra.into_iter().map(|(name, n)| (name.to_string(), n.into())).collect(),
    });
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
