//! Runs folders in ONNX's backend-test form: `model.onnx` and `test_data_set_*/{input,output}_N.pb`.
//!
//! A case is imported, run by `eval` and by the interpreter on its kernels, and compared with the
//! outputs that the folder holds. Nothing a case does stops the run of the others.

pub mod compare;
pub mod runner;

use std::path::{Path, PathBuf};

use bytes::Bytes;
use oaaxc_base::{Code, Diagnostic, Diagnostics};
use oaaxc_ir::{Datum, Graph, eval, interpret, lower};
use oaaxc_onnx::{ImportOptions, data, import, import_text, text};

/// How a case ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Status {
    /// Every output is right.
    Pass,
    /// An output differs.
    Wrong,
    /// Something is not supported, and says so.
    Refused,
    /// Any other error.
    Error,
    /// A panic, or no end within the time limit.
    Crash,
}

impl Status {
    /// The word in lists and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Status::Pass => "pass",
            Status::Wrong => "wrong",
            Status::Refused => "refused",
            Status::Error => "error",
            Status::Crash => "crash",
        }
    }
}

/// How a case ended, and why.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The category.
    pub status: Status,
    /// One or more lines; empty for a pass.
    pub cause: String,
    /// Largest absolute difference of floats, where outputs were compared.
    pub max_error: f64,
}

impl Outcome {
    /// A case that did not pass.
    pub fn failed(status: Status, cause: impl Into<String>) -> Outcome {
        Outcome { status, cause: cause.into(), max_error: 0.0 }
    }
}

/// One way to run a graph.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Way {
    /// The operators' own evaluation.
    Eval,
    /// The interpreter on the kernels.
    Kernels,
    /// The operators' own evaluation, of the graph that was printed as text and read back.
    Text,
}

impl Way {
    /// Every way, in the order in which they are tried.
    pub const ALL: [Way; 3] = [Way::Eval, Way::Kernels, Way::Text];
    /// The word in lists and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Way::Eval => "eval",
            Way::Kernels => "kernels",
            Way::Text => "text",
        }
    }
}

/// Runs one folder one way.
pub fn run_case(folder: &Path, way: Way) -> Outcome {
    match try_case(folder, way) {
        Ok(max_error) => Outcome { status: Status::Pass, cause: String::new(), max_error },
        Err(outcome) => outcome,
    }
}

fn try_case(folder: &Path, way: Way) -> Result<f64, Outcome> {
    try_folder(folder, |graph| {
        let graph = if way == Way::Text { through_text(&graph)? } else { graph };
        match way {
            Way::Eval | Way::Text => Ok(Box::new(move |inputs| eval::evaluate(&graph, inputs).map_err(|d| from_diagnostic(&d)))),
            Way::Kernels => by_interpreter(&graph),
        }
    })
}

fn by_interpreter(graph: &Graph) -> Result<Run, Outcome> {
    let program = lower::lower(graph).map_err(|d| from_diagnostics(&d))?;
    Ok(Box::new(move |inputs| {
        let tensors = inputs.into_iter().map(|d| match d {
            Datum::Tensor(t) => Ok(t),
            _ => Err(Outcome::failed(Status::Refused, "an input is no tensor")),
        });
        let tensors = tensors.collect::<Result<Vec<_>, _>>()?;
        let results = interpret::run(&program, &tensors);
        let results = results.map_err(|fault| Outcome::failed(Status::Error, fault.message))?;
        Ok(results.into_iter().map(Datum::from).collect())
    }))
}

/// A model made ready: one datum per input in, one per output out.
pub type Run = Box<dyn Fn(Vec<Datum>) -> Result<Vec<Datum>, Outcome>>;

/// Runs all data sets of a folder on what `prepare` makes of its model; the largest absolute difference of floats.
pub fn try_folder(folder: &Path, prepare: impl FnOnce(Graph) -> Result<Run, Outcome>) -> Result<f64, Outcome> {
    let imported = import(&folder.join("model.onnx"), &ImportOptions::default()).map_err(|d| from_diagnostics(&d))?;
    // Constants are shared, so that a copy of the graph costs little.
    let mut run = prepare(imported.graph.clone())?;
    let mut worst = 0.0f64;
    for set in data_sets(folder)? {
        worst = worst.max(run_set(&imported.graph, &set, &mut run)?);
    }
    Ok(worst)
}

/// Makes a folder of this form: a model in ONNX text, its inputs and its expected outputs.
pub fn write_folder(folder: &Path, model: &str, inputs: &[Datum], outputs: &[Datum]) -> Result<(), String> {
    let model = text::model(model).map_err(|d| d.to_string())?;
    let set = folder.join("test_data_set_0");
    std::fs::create_dir_all(&set).map_err(|e| e.to_string())?;
    let write = |path: PathBuf, bytes: Vec<u8>| std::fs::write(path, bytes).map_err(|e| e.to_string());
    write(folder.join("model.onnx"), prost::Message::encode_to_vec(&model))?;
    for (word, data) in [("input", inputs), ("output", outputs)] {
        for (i, datum) in data.iter().enumerate() {
            write(set.join(format!("{word}_{i}.pb")), data::write(datum, ""))?;
        }
    }
    Ok(())
}

/// The graph printed and read back; printed again it must be the same text.
fn through_text(graph: &Graph) -> Result<Graph, Outcome> {
    let printed = text::print(graph, usize::MAX);
    let read = import_text(&printed, "printed graph", &ImportOptions::default()).map_err(|d| from_diagnostics(&d))?;
    let again = text::print(&read.graph, usize::MAX);
    let difference = printed.lines().zip(again.lines()).find(|(a, b)| a != b);
    match difference {
        Some((a, b)) => Err(Outcome::failed(Status::Wrong, format!("printed `{a}`, and read back `{b}`"))),
        None => Ok(read.graph),
    }
}

fn run_set(graph: &Graph, set: &Path, run: &mut dyn Fn(Vec<Datum>) -> Result<Vec<Datum>, Outcome>) -> Result<f64, Outcome> {
    let load = |word: &str, values: &[oaaxc_ir::ValueId]| -> Result<Vec<Datum>, Outcome> {
        let all = values.iter().enumerate().map(|(i, v)| {
            let path = set.join(format!("{word}_{i}.pb"));
            let bytes = std::fs::read(&path).map_err(|e| Outcome::failed(Status::Error, format!("{}: {e}", path.display())))?;
            data::read(Bytes::from(bytes), &graph.values[*v].fact.ty).map_err(|d| from_diagnostic(&d))
        });
        all.collect()
    };
    let inputs = load("input", &graph.root().inputs)?;
    let expected = load("output", &graph.root().outputs)?;
    let found = run(inputs)?;
    if found.len() != expected.len() {
        let cause = format!("{} outputs came back, {} are expected", found.len(), expected.len());
        return Err(Outcome::failed(Status::Wrong, cause));
    }
    let mut worst = 0.0f64;
    for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let error = compare::compare(found, expected, &compare::ONNX_TOLERANCE);
        worst = worst.max(error.map_err(|why| Outcome::failed(Status::Wrong, format!("output {i}: {why}")))?);
    }
    Ok(worst)
}

fn data_sets(folder: &Path) -> Result<Vec<PathBuf>, Outcome> {
    let io = |e: std::io::Error| Outcome::failed(Status::Error, format!("{}: {e}", folder.display()));
    let mut sets = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path.file_name().is_some_and(|n| n.to_string_lossy().starts_with("test_data_set_")) {
            sets.push(path);
        }
    }
    sets.sort();
    if sets.is_empty() {
        return Err(Outcome::failed(Status::Error, format!("{} holds no test_data_set_*", folder.display())));
    }
    Ok(sets)
}

/// A diagnostic as an outcome.
pub fn from_diagnostic(diagnostic: &Diagnostic) -> Outcome {
    from_diagnostics(&Diagnostics { items: vec![diagnostic.clone()] })
}

/// Refused where every error says that something is not supported.
pub fn from_diagnostics(diagnostics: &Diagnostics) -> Outcome {
    let errors: Vec<&Diagnostic> = diagnostics.items.iter().filter(|d| d.severity == oaaxc_base::Severity::Error).collect();
    let is_refusal = |d: &&Diagnostic| {
        matches!(d.code, Code::UNSUPPORTED | Code::UNKNOWN_OPERATOR | Code::RANK | Code::OPSET | Code::CODEGEN | Code::FALLBACK)
    };
    let refused = !errors.is_empty() && errors.iter().all(is_refusal);
    let cause: Vec<String> = errors.iter().map(|d| format!("{}: {}", d.code, d.message)).collect();
    Outcome::failed(if refused { Status::Refused } else { Status::Error }, cause.join("\n"))
}
