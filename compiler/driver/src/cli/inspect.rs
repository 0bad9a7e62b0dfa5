//! `oaaxc inspect`: what an artefact or a model holds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use oaaxc_base::{Code, Diagnostic, Diagnostics};
use oaaxc_container::{Dim, OpenedPackage, Report, ValueInfo, ValueType};
use oaaxc_ir::{Def, Graph, NodeId};
use serde_json::json;

use super::Outcome;
use super::arguments::{ModelArguments, io_error, is_model, one, usage};
use super::attest::manifest_on;
use super::check::show_type;
use super::console::Console;
use super::precision;
use super::registry::{RegistryArguments, failed as registry_failed};
use super::table::{Table, bytes};
use crate::targets::closest;
use crate::{files, session};

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  oaaxc inspect model.oaax
  oaaxc inspect registry.example.org/team/model:v1
  oaaxc inspect model.onnx --around conv_2a")]
pub struct Arguments {
    /// An artefact, an ONNX model, or a reference to a registry
    path: PathBuf,
    /// Show a node of a model with its neighbours, by the name of the node or of one of its results
    #[arg(long, value_name = "NODE")]
    around: Option<String>,
    /// Write an artefact as one page for a browser: kernels, memory over time, launches, files
    #[arg(long, value_name = "FILE", conflicts_with_all = ["around", "graph"])]
    html: Option<PathBuf>,
    /// Show the whole graph of a model as text
    #[arg(long)]
    graph: bool,
    #[command(flatten)]
    registry: RegistryArguments,
    #[command(flatten)]
    reading: ModelArguments,
}

/// Inspects.
pub fn main(arguments: &Arguments, console: &Console) -> Outcome {
    let text = arguments.path.display().to_string();
    if oaaxc_registry::Reference::is_meant(&text) {
        return remote(&text, &arguments.registry, console);
    }
    if is_model(&arguments.path) {
        if arguments.html.is_some() {
            return Err(usage("--html shows an artefact, and this is a model; build it first"));
        }
        return model(arguments, console);
    }
    let failed =
        |e: oaaxc_container::ContainerError| one(Diagnostic::error(Code::ARTEFACT, format!("{}: {e}", arguments.path.display())));
    if arguments.around.is_some() {
        return Err(usage("--around looks at a model, and this is an artefact"));
    }
    let package = oaaxc_container::open(&arguments.path).map_err(failed)?;
    let report = package.report();
    if let Some(path) = &arguments.html {
        return html(&arguments.path, &package, &report, path, console);
    }
    if console.json {
        console.object(&serde_json::to_value(&report).map_err(|e| one(Diagnostic::error(Code::INTERNAL, e.to_string())))?);
    } else {
        artefact(&arguments.path, &report, console);
    }
    Ok(0)
}

/// What lies under a reference: images, the model's card, and who speaks for it. No weights travel.
fn remote(text: &str, registry: &RegistryArguments, console: &Console) -> Outcome {
    use oaaxc_registry::Shelf;
    let client = registry.client_for(text)?;
    let all = super::trust::subjects(&client)?;
    let manifest = manifest_on(&client)?;
    let root: serde_json::Value = serde_json::from_slice(&all[0].bytes).unwrap_or_default();
    let mut referrers = Vec::new();
    for referrer in client.referrers(&all[0].digest).map_err(registry_failed)? {
        let found = client.by_digest(&referrer).map_err(registry_failed)?;
        let found: serde_json::Value = serde_json::from_slice(&found.bytes).unwrap_or_default();
        let kind = found["annotations"]["dev.sigstore.bundle.predicateType"].as_str().or(found["artifactType"].as_str());
        referrers.push(json!({ "digest": referrer.to_string(), "kind": kind.unwrap_or("?") }));
    }
    let signed = client.by_tag(&format!("sha256-{}.sig", all[0].digest.hex())).map_err(registry_failed)?.is_some();
    let images: Vec<_> = root["manifests"].as_array().into_iter().flatten().cloned().collect();
    if console.json {
        console.object(&json!({
            "reference": text, "digest": all[0].digest.to_string(), "media_type": all[0].media_type, "images": images,
            "manifest": manifest, "cosign": signed, "referrers": referrers,
        }));
        return Ok(0);
    }
    console.line(&format!("{text}: {}, model \"{}\" by {}", all[0].digest, manifest.name, manifest.producer.version));
    for (title, values) in [("input", &manifest.inputs), ("output", &manifest.outputs)] {
        values.iter().for_each(|value| console.line(&format!("{title} {}", show_value(value))));
    }
    for image in &images {
        let word = |value: &serde_json::Value| value.as_str().unwrap_or("?").to_string();
        let platform = format!("{}/{}", word(&image["platform"]["os"]), word(&image["platform"]["architecture"]));
        console.line(&format!(
            "image {} for {platform}: {}",
            word(&image["digest"]),
            word(&image["annotations"]["io.oaax.targets"])
        ));
    }
    console.line(if signed { "signed under cosign's tag" } else { "no signature under cosign's tag" });
    for referrer in &referrers {
        console.line(&format!("{}: {}", referrer["digest"].as_str().unwrap_or("?"), referrer["kind"].as_str().unwrap_or("?")));
    }
    Ok(0)
}

/// The most bytes of a host program that are read.
const PROGRAM_LIMIT: u64 = 256 << 20;

/// Writes the page of an artefact.
fn html(artefact: &Path, package: &OpenedPackage, report: &Report, path: &Path, console: &Console) -> Outcome {
    let damaged = |e: &dyn std::fmt::Display| one(Diagnostic::error(Code::ARTEFACT, format!("{}: {e}", artefact.display())));
    let mut programs = Vec::new();
    for variant in &report.manifest.variants {
        programs.push(match package.has_variant(&variant.id) {
            true => {
                let bytes = package.read(&variant.program, PROGRAM_LIMIT).map_err(|e| damaged(&e))?;
                Some(oaax_abi::Program::parse(&bytes).map_err(|e| damaged(&format!("{}: {}", variant.program, e.0)))?)
            }
            false => None,
        });
    }
    let page = super::page::page(report, &programs);
    files::write_whole(path, page.as_bytes()).map_err(|e| io_error("write", path, &e))?;
    console.note(&format!("wrote {} ({})", path.display(), bytes(page.len() as u64)));
    Ok(0)
}

fn artefact(path: &Path, report: &Report, console: &Console) {
    let manifest = &report.manifest;
    console.line(&format!(
        "{}: {:?}, model \"{}\" by {} {}",
        path.display(),
        report.form,
        manifest.name,
        manifest.producer.name,
        manifest.producer.version
    ));
    let binding = if report.bound { "bound by the container" } else { "not bound by anything outside" };
    console.line(&format!("manifest sha256:{}, {binding}", report.manifest_digest.hex()));
    for (title, values) in [("input", &manifest.inputs), ("output", &manifest.outputs)] {
        values.iter().for_each(|value| console.line(&format!("{title} {}", show_value(value))));
    }
    for (name, range) in &manifest.symbols {
        let max = range.max.map_or_else(String::new, |max| max.to_string());
        console.line(&format!("symbol {name}: {}..{max}", range.min));
    }
    let mut table = Table::new(&["variant", "target", "needs", "kernels", "generic"]);
    for variant in &manifest.variants {
        let device = variant.needs.device.as_ref();
        let device = device.map(|device| format!("{} {}", device.kind, device.names.join(" ")).trim_end().to_string());
        let needs = [device.unwrap_or_default(), variant.needs.arch.join(" "), variant.needs.cpu_levels.join(" ")];
        let needs: Vec<String> = needs.into_iter().filter(|text| !text.is_empty()).collect();
        let number = |name: &str| variant.extra.get(name).map_or_else(|| "-".into(), ToString::to_string);
        table.row(vec![
            variant.id.clone(),
            variant.target.clone(),
            needs.join(" "),
            number("kernels"),
            number("generic_kernels"),
        ]);
    }
    table.lines().iter().for_each(|line| console.line(line));
    for variant in &manifest.variants {
        if let Some(placement) = variant.extra.get("placement") {
            show_placement(&variant.id, placement, console);
        }
    }
    if !manifest.fallback.policy.is_empty() {
        console.line(&format!("fallback {}", manifest.fallback.policy));
    }
    if let Some(found) = manifest.variants.iter().find_map(|variant| variant.extra.get("precision")) {
        precision::inspect(found, console);
    }
    let mut table = Table::new(&["file", "role", "size"]);
    for file in &report.files {
        table.row(vec![file.path.clone(), file.role.clone(), bytes(file.size)]);
    }
    table.lines().iter().for_each(|line| console.line(line));
    for image in &report.images {
        let slim = if image.slim { ", one target of several" } else { "" };
        console.line(&format!("image {} for {}: {}{slim}", image.digest.hex(), image.platform, image.targets.join(", ")));
    }
    console.line(&format!("{} in {} files, {} canaries", bytes(report.bytes), report.files.len(), manifest.canaries.len()));
}

/// What runs where in a variant for a device.
fn show_placement(id: &str, placement: &serde_json::Value, console: &Console) {
    let number = |at: &serde_json::Value, name: &str| at[name].as_f64().unwrap_or(0.0);
    let sizes = placement["sizes"].as_object().into_iter().flatten();
    let sizes: Vec<String> = sizes.map(|(name, size)| format!("{name}={size}")).collect();
    let sizes = if sizes.is_empty() { String::new() } else { format!(" for {}", sizes.join(" ")) };
    console.line(&format!("placement of {id}{sizes}"));
    let mut table = Table::new(&["where", "nodes", "launches", "operations", "bytes", "copied there", "bytes copied"]);
    for (space, to) in [("device", "to_device"), ("host", "to_host")] {
        let (share, copies) = (&placement[space], &placement["copies"][to]);
        table.row(vec![
            space.into(),
            format!("{}", number(share, "nodes")),
            format!("{}", number(share, "launches")),
            count(number(share, "operations")),
            bytes(number(share, "bytes") as u64),
            format!("{}", number(copies, "count")),
            bytes(number(copies, "bytes") as u64),
        ]);
    }
    table.lines().iter().for_each(|line| console.line(line));
    for launch in placement["on_host"].as_array().into_iter().flatten() {
        let texts =
            |name: &str| -> Vec<&str> { launch[name].as_array().into_iter().flatten().filter_map(|t| t.as_str()).collect() };
        let nodes: Vec<&str> = texts("nodes").into_iter().filter(|name| !name.is_empty()).collect();
        let nodes = if nodes.is_empty() { texts("operators") } else { nodes };
        console.line(&format!("  on the host: {}: {}", nodes.join(", "), launch["reason"].as_str().unwrap_or_default()));
    }
}

/// A number of operations in thousands and millions.
fn count(n: f64) -> String {
    match n {
        n if n < 1e4 => format!("{n}"),
        n if n < 1e7 => format!("{:.1} thousand", n / 1e3),
        n if n < 1e10 => format!("{:.1} million", n / 1e6),
        n => format!("{:.1} billion", n / 1e9),
    }
}

/// `x: float[N,3]`.
pub(super) fn show_value(value: &ValueInfo) -> String {
    format!("{}: {}", value.name, show_value_type(&value.ty))
}

fn show_value_type(ty: &ValueType) -> String {
    match ty {
        ValueType::Tensor { dtype, dims: None } => format!("{dtype} of any rank"),
        ValueType::Tensor { dtype, dims: Some(dims) } => {
            let dim = |dim: &Dim| match dim {
                Dim::Size(n) => n.to_string(),
                Dim::Named(name) => name.clone(),
            };
            format!("{dtype}[{}]", dims.iter().map(dim).collect::<Vec<_>>().join(","))
        }
        ValueType::Sequence { element } => format!("seq({})", show_value_type(element)),
        ValueType::Optional { element } => format!("optional({})", show_value_type(element)),
        ValueType::Map { key, value } => format!("map({key}, {})", show_value_type(value)),
    }
}

fn model(arguments: &Arguments, console: &Console) -> Outcome {
    // As it stands in the file, not as the passes leave it.
    let imported = session::read(&arguments.path, &arguments.reading.options()?)?;
    let graph = &imported.graph;
    if let Some(name) = &arguments.around {
        return around(graph, name, console);
    }
    if arguments.graph {
        console.line(oaaxc_onnx::text::print(graph, session::TEXT_ELEMENTS).trim_end());
        return Ok(0);
    }
    let mut operators: BTreeMap<String, usize> = BTreeMap::new();
    for id in graph.listed_nodes() {
        *operators.entry(graph.nodes[id].op.full_name()).or_default() += 1;
    }
    let constants = graph.values.iter().filter_map(|(_, value)| match &value.def {
        Def::Constant(tensor) => Some(tensor.byte_len() as u64),
        _ => None,
    });
    let weights: u64 = constants.sum();
    let port = |value: &oaaxc_ir::ValueId| {
        let value = &graph.values[*value];
        (value.name.clone(), show_type(graph, &value.fact.ty))
    };
    let (inputs, outputs): (Vec<_>, Vec<_>) =
        (graph.root().inputs.iter().map(port).collect(), graph.root().outputs.iter().map(port).collect());
    if console.json {
        let list =
            |ports: &[(String, String)]| ports.iter().map(|(name, ty)| json!({ "name": name, "type": ty })).collect::<Vec<_>>();
        console.object(&json!({
            "model": graph.name, "producer": imported.producer, "ir_version": imported.ir_version, "opsets": imported.opsets,
            "inputs": list(&inputs), "outputs": list(&outputs), "operators": operators, "constant_bytes": weights,
        }));
        return Ok(0);
    }
    console.line(&format!("model \"{}\" by {}, IR version {}", graph.name, imported.producer, imported.ir_version));
    for (domain, version) in &imported.opsets {
        console.line(&format!("opset {} {version}", if domain.is_empty() { "ai.onnx" } else { domain }));
    }
    for (title, ports) in [("input", &inputs), ("output", &outputs)] {
        ports.iter().for_each(|(name, ty)| console.line(&format!("{title} {name}: {ty}")));
    }
    let mut table = Table::new(&["operator", "nodes"]);
    operators.iter().for_each(|(name, n)| table.row(vec![name.clone(), n.to_string()]));
    table.lines().iter().for_each(|line| console.line(line));
    console.line(&format!("{} nodes, {} of constants", operators.values().sum::<usize>(), bytes(weights)));
    Ok(0)
}

/// The node, the nodes that give its operands, and those that use its results.
fn around(graph: &Graph, name: &str, console: &Console) -> Outcome {
    let nodes = graph.listed_nodes();
    let gives = |id: NodeId, name: &str| graph.nodes[id].outputs.iter().flatten().any(|v| graph.values[*v].name == name);
    let found = nodes
        .iter()
        .copied()
        .find(|id| &*graph.nodes[*id].origin.node == name)
        .or_else(|| nodes.iter().copied().find(|id| gives(*id, name)));
    let Some(found) = found else {
        let names = nodes.iter().map(|id| &*graph.nodes[*id].origin.node).filter(|n| !n.is_empty());
        let error = Diagnostic::error(Code::USAGE, format!("no node is called \"{name}\", and none gives a value of this name"));
        let near = closest(name, names).map(|near| format!("did you mean \"{near}\"?"));
        return Err(Diagnostics {
            items: vec![match near {
                Some(help) => error.help(help),
                None => error,
            }],
        });
    };
    let operands: Vec<_> = graph.nodes[found].inputs.iter().flatten().collect();
    let results: Vec<_> = graph.nodes[found].outputs.iter().flatten().collect();
    for &id in &nodes {
        let node = &graph.nodes[id];
        let before = node.outputs.iter().flatten().any(|v| operands.contains(&v));
        let after = node.inputs.iter().flatten().any(|v| results.contains(&v));
        if id == found || before || after {
            let mark = if id == found { ">" } else { " " };
            console.line(&format!("{mark} {}", node_line(graph, id)));
        }
    }
    for value in graph.nodes[found].inputs.iter().flatten().chain(graph.nodes[found].outputs.iter().flatten()) {
        let value = &graph.values[*value];
        let constant = if matches!(value.def, Def::Constant(_)) { ", constant" } else { "" };
        console.line(&format!("    {}: {}{constant}", value.name, show_type(graph, &value.fact.ty)));
    }
    Ok(0)
}

/// A node in ONNX's text form.
fn node_line(graph: &Graph, id: NodeId) -> String {
    let node = &graph.nodes[id];
    let names = |values: &[Option<oaaxc_ir::ValueId>]| {
        values
            .iter()
            .map(|v| v.map_or_else(|| "\"\"".to_string(), |v| graph.values[v].name.clone()))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let attributes: Vec<&str> = node.attributes.keys().map(String::as_str).collect();
    let attributes = if attributes.is_empty() { String::new() } else { format!(" <{}>", attributes.join(", ")) };
    format!("[{}] {} = {}{attributes} ({})", node.origin.node, names(&node.outputs), node.op.full_name(), names(&node.inputs))
}
