//! A session: a model file, the targets asked for, and what comes of them.

use std::path::{Path, PathBuf};

use oaaxc_base::{Diagnostic, Diagnostics};
use oaaxc_container::Package;
use oaaxc_ir::Graph;
use oaaxc_onnx::{ImportOptions, import};
use oaaxc_passes::kernel::encode::Weights;

use crate::pipeline::{Compiled, Options, Progress, compile, simplify};
use crate::{artefact, targets};

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
    /// Texts of the stages asked for: (stage, name, text).
    pub texts: Vec<(String, String, String)>,
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
    /// What each phase took.
    pub times: Vec<(&'static str, std::time::Duration)>,
}

/// Imports and simplifies a model.
pub fn load(model: &Path, import_options: &ImportOptions, progress: &mut dyn Progress) -> Result<(Graph, Vec<Diagnostic>), Diagnostics> {
    progress.phase("import");
    let imported = import(model, import_options)?;
    let mut graph = imported.graph;
    progress.phase("simplify");
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
    let targets = find_all(names)?;
    let (graph, warnings) = load(model, import_options, progress)?;
    let mut built = Built { graph, warnings, reports: Vec::new(), package: Package::default(), texts: Vec::new() };
    if options.emit.iter().any(|s| s == "graph" || s == "typed") {
        built.texts.push(("graph".into(), built.graph.name.clone(), oaaxc_onnx::text::print(&built.graph)));
    }
    let mut weights = Weights::default();
    let mut shares = Vec::new();
    for target in &targets {
        let mut share = compile(&built.graph, target.as_ref(), options, &mut weights, progress)?;
        built.texts.append(&mut share.texts);
        built.reports.push(report(&share));
        shares.push(share);
    }
    progress.phase("package");
    built.package = artefact::package(shares, weights);
    Ok(built)
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
        times: share.times.clone(),
    }
}

/// This executable, which becomes a worker when its first argument says so.
pub fn worker() -> PathBuf {
    std::env::current_exe().unwrap_or_else(|_| PathBuf::from("oaaxc"))
}
