//! A session: a model file, the targets asked for, and what comes of them.

use std::path::{Path, PathBuf};

use oaaxc_base::{Code, Diagnostic, Diagnostics};
use oaaxc_container::Package;
use oaaxc_ir::Graph;
use oaaxc_onnx::{ImportOptions, Imported, import, import_text};
use oaaxc_passes::kernel::encode::Weights;
use oaaxc_passes::precision::qdq;

use crate::execute::{self, Loaded, Wanted};
use crate::pipeline::{Compiled, Options, Progress, Text, compile, simplify};
use crate::placement::Placement;
use crate::precision::{self, Precision};
use crate::{artefact, pass_check, targets};

/// Larger constants are cut in printed graphs.
pub const TEXT_ELEMENTS: usize = 64;

/// What a build gives.
pub struct Built {
    /// The simplified graph.
    pub graph: Graph,
    /// What people should know.
    pub warnings: Vec<Diagnostic>,
    /// One report per target.
    pub reports: Vec<Report>,
    /// The package, ready to be written.
    pub package: Package,
    /// Texts of the stages asked for.
    pub texts: Vec<Text>,
    /// What became of the tensors, where the model was narrowed.
    pub precision: Option<precision::Table>,
}

/// What became of a model on one target.
pub struct Report {
    /// The target.
    pub target: String,
    /// Launches in the host program.
    pub launches: usize,
    /// Distinct kernels.
    pub kernels: usize,
    /// Kernels that came from the cache, over all levels.
    pub cached: usize,
    /// Kernels saved by fusion.
    pub fused: usize,
    /// Names of kernels on the generic path.
    pub generic: Vec<String>,
    /// Bytes of code, per level.
    pub code_bytes: Vec<(String, usize)>,
    /// What runs where; `None` where the target is the host itself.
    pub placement: Option<Placement>,
    /// What each phase took.
    pub times: Vec<(&'static str, std::time::Duration)>,
}

/// Imports a model: ONNX's bytes, or ONNX text where the file's name ends in `.onnxtxt`.
pub fn read(model: &Path, options: &ImportOptions) -> Result<Imported, Diagnostics> {
    if model.extension().is_none_or(|extension| extension != "onnxtxt") {
        return import(model, options);
    }
    let failed = |e: std::io::Error| {
        let message = format!("cannot read {}: {e}", model.display());
        Diagnostics { items: vec![Diagnostic::error(Code::IO, message)] }
    };
    import_text(&std::fs::read_to_string(model).map_err(failed)?, &model.display().to_string(), options)
}

/// Imports and simplifies a model.
pub fn load(
    model: &Path,
    import_options: &ImportOptions,
    progress: &mut dyn Progress,
) -> Result<(Graph, Vec<Diagnostic>), Diagnostics> {
    progress.phase("import");
    let imported = read(model, import_options)?;
    let mut graph = imported.graph;
    progress.phase("simplify");
    qdq::collect(&mut graph).map_err(|d| Diagnostics { items: vec![d] })?;
    simplify(&mut graph);
    Ok((graph, imported.warnings))
}

/// Builds a model for all the targets.
pub fn build(
    model: &Path,
    names: &[String],
    import_options: &ImportOptions,
    options: &Options,
    progress: &mut dyn Progress,
) -> Result<Built, Diagnostics> {
    // Before the import: a mistyped target should not cost the time of one.
    find_all(names)?;
    let (graph, warnings) = if options.verify_passes {
        progress.phase("import");
        let mut imported = read(model, import_options)?;
        qdq::collect(&mut imported.graph).map_err(|d| Diagnostics { items: vec![d] })?;
        let mut graph = imported.graph.clone();
        simplify(&mut graph);
        progress.phase("verify");
        progress.note(&pass_check::graph_passes(&imported.graph, &graph, options)?);
        (graph, imported.warnings)
    } else {
        load(model, import_options, progress)?
    };
    let mut built = build_graph(graph, names, options, progress)?;
    built.warnings.splice(..0, warnings);
    Ok(built)
}

/// Builds a simplified graph for all the targets.
pub fn build_graph(graph: Graph, names: &[String], options: &Options, progress: &mut dyn Progress) -> Result<Built, Diagnostics> {
    let targets = find_all(names)?;
    let mut built = Built {
        graph,
        warnings: Vec::new(),
        reports: Vec::new(),
        package: Package::default(),
        texts: Vec::new(),
        precision: None,
    };
    if options.emit.iter().any(|stage| stage == "graph" || stage == "typed") {
        let text = oaaxc_onnx::text::print(&built.graph, TEXT_ELEMENTS);
        built.texts.push(Text { target: String::new(), stage: "graph".into(), name: built.graph.name.clone(), text });
    }
    let narrowed = match options.precision.precision {
        Precision::Fp32 => None,
        _ => Some(precision::apply(&built.graph, options, progress)?),
    };
    built.warnings.extend(narrowed.iter().flat_map(|n| n.warnings.clone()));
    if let Some(narrowed) = &narrowed
        && options.emit.iter().any(|stage| stage == "typed")
    {
        let text = oaaxc_onnx::text::print(&narrowed.graph, TEXT_ELEMENTS);
        built.texts.push(Text {
            target: String::new(),
            stage: "typed".into(),
            name: narrowed.table.precision.name().into(),
            text,
        });
    }
    let graph = narrowed.as_ref().map_or(&built.graph, |n| &n.graph);
    let mut weights = Weights::default();
    let mut shares = Vec::new();
    for target in &targets {
        let options = &Options { halves: narrowed.is_some(), ..options.clone() };
        let mut share = compile(graph, target.as_ref(), options, &mut weights, progress)?;
        built.texts.append(&mut share.texts);
        built.warnings.extend(share.placement.iter().flat_map(|placement| placement.warnings.clone()));
        built.reports.push(report(&share));
        shares.push(share);
    }
    progress.phase("package");
    built.package = artefact::package(shares, weights, options.fallback);
    if let Some(narrowed) = narrowed {
        artefact::describe_precision(&mut built.package, &narrowed.table);
        built.precision = Some(narrowed.table);
    }
    Ok(built)
}

/// An artefact that is open; one that was built for this alone lies in a folder that goes with it.
pub struct Opened {
    /// Ready to run.
    pub loaded: Loaded,
    /// Where the artefact lies.
    pub path: PathBuf,
    folder: Option<tempfile::TempDir>,
}

impl Opened {
    /// Opens an artefact that lies somewhere.
    pub fn file(path: &Path, wanted: &Wanted) -> Result<Opened, Diagnostic> {
        Ok(Opened { loaded: execute::open(path, wanted)?, path: path.to_path_buf(), folder: None })
    }
    /// Writes a package to a folder of its own and opens it.
    pub fn package(package: &Package, threads: usize) -> Result<Opened, Diagnostic> {
        Opened::package_as(package, &Wanted::threads(threads))
    }
    /// As `package`, with more to ask for.
    pub fn package_as(package: &Package, wanted: &Wanted) -> Result<Opened, Diagnostic> {
        let mut wanted = wanted.clone();
        // What the environment asks for is meant for the user's artefacts, not for an oracle's.
        if let [only] = &package.manifest.variants[..] {
            wanted.variant = Some(only.id.clone());
        }
        let failed = |e: &dyn std::fmt::Display| Diagnostic::error(Code::IO, format!("cannot write a temporary artefact: {e}"));
        let folder =
            tempfile::Builder::new().prefix(&format!("oaaxc-{}-", std::process::id())).tempdir().map_err(|e| failed(&e))?;
        let path = folder.path().join("model.oaax");
        oaaxc_container::write_archive(package, &path).map_err(|e| failed(&e))?;
        let loaded = execute::open(&path, &wanted)?;
        Ok(Opened { loaded, path, folder: Some(folder) })
    }
    /// Whether it was built for this alone.
    pub fn is_temporary(&self) -> bool {
        self.folder.is_some()
    }
}

fn find_all(names: &[String]) -> Result<Vec<Box<dyn oaaxc_target_api::Target>>, Diagnostics> {
    let mut errors = Diagnostics::new();
    let found: Vec<_> = names.iter().filter_map(|name| errors.collect(targets::find(name))).collect();
    if errors.has_errors() { Err(errors) } else { Ok(found) }
}

fn report(share: &Compiled) -> Report {
    let top = share.code.levels.last();
    let generic = top.into_iter().flat_map(|l| l.kernels.iter().filter(|k| k.generic).map(|k| k.symbol.clone())).collect();
    Report {
        target: share.target.clone(),
        launches: share.program.launches().len(),
        kernels: share.kernels,
        cached: share.code.cached,
        fused: share.fused,
        generic,
        code_bytes: share.code.levels.iter().map(|l| (l.name.clone(), l.object.len())).collect(),
        placement: share.placement.clone(),
        times: share.times.clone(),
    }
}

/// This executable, which becomes a worker when its first argument says so.
pub fn worker() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| PathBuf::from("oaaxc"))
}
