//! `--precision` and what belongs to it, and the table that a build shows.

use std::collections::BTreeMap;
use std::path::PathBuf;

use oaaxc_base::Diagnostics;
use oaaxc_passes::precision::observe::Observer;
use serde_json::Value;

use super::arguments::{one, usage};
use super::console::Console;
use super::table::Table;
use crate::precision::{self, Precision, Settings};

/// In how many bits a model is computed.
#[derive(clap::Args, Debug, Clone, Default)]
pub struct PrecisionArguments {
    /// Compute in fewer bits; inputs and outputs keep their types
    #[arg(long, value_name = "PRECISION", default_value = "fp32", value_parser = ["fp32", "fp16", "bf16", "int8", "mixed"])]
    precision: String,
    /// A folder of real inputs by which activations and errors are measured: NAME.npy or NAME.pb, or a folder for each request
    #[arg(long, value_name = "DIR")]
    calibration: Option<PathBuf>,
    /// How 8-bit ranges of activations are chosen
    #[arg(long, value_name = "OBSERVER", default_value = "min-max", value_parser = ["min-max", "percentile", "mse"])]
    observer: String,
    /// Quantise activations by each run's own range
    #[arg(long)]
    dynamic: bool,
    /// Fail, with code 4 and nothing written, where an output differs from fp32 by more than this part of its scale
    #[arg(long, value_name = "RELATIVE")]
    tolerance: Option<f64>,
}

impl PrecisionArguments {
    /// As the pipeline wants them.
    pub fn settings(&self, dims: &BTreeMap<String, i64>) -> Result<Settings, Diagnostics> {
        let precision = Precision::from_name(&self.precision).ok_or_else(|| usage("no such precision"))?;
        let observer = Observer::from_name(&self.observer).ok_or_else(|| usage("no such observer"))?;
        let is_int8 = matches!(precision, Precision::Int8 | Precision::Mixed);
        if precision == Precision::Fp32 && (self.calibration.is_some() || self.tolerance.is_some()) {
            return Err(usage("--calibration and --tolerance belong to a narrower --precision"));
        }
        if self.dynamic && !is_int8 {
            return Err(usage("--dynamic belongs to --precision int8 or mixed"));
        }
        if self.tolerance.is_some_and(|t| !(0.0..=1e6).contains(&t)) {
            return Err(usage("--tolerance is a part of an output's scale, such as 0.02"));
        }
        if let Some(folder) = &self.calibration {
            precision::check_folder(folder).map_err(one)?;
        }
        let (calibration, tolerance, dynamic) = (self.calibration.clone(), self.tolerance, self.dynamic);
        Ok(Settings { precision, calibration, observer, dynamic, tolerance, dims: dims.clone() })
    }
}

/// The lines of a build's report.
pub fn report(table: &precision::Table, console: &Console) {
    let (narrowed, kept) = table.counts();
    let types: Vec<String> = narrowed.iter().map(|(name, n)| format!("{n} {name}")).collect();
    let errors: Vec<String> = table
        .outputs
        .iter()
        .map(|(name, e)| format!("{name} {}", e.map_or("not measured".into(), |e| format!("{e:.2e}"))))
        .collect();
    let inputs = if table.seeded { "seeded inputs" } else { "calibration inputs" };
    console.note(&format!(
        "{}: {}, {kept} kept in float; errors on {} {inputs}: {}",
        table.precision.name(),
        if types.is_empty() { "nothing narrowed".into() } else { types.join(", ") },
        table.samples,
        errors.join(", ")
    ));
    let worst: Vec<_> = table.worst().into_iter().take(if console.verbose { usize::MAX } else { 3 }).collect();
    if worst.is_empty() {
        return;
    }
    let mut lines = Table::new(&["worst tensors", "node", "from", "to", "error", "why"]);
    for row in worst {
        let error = row.error.map_or_else(|| "-".into(), |e| format!("{e:.2e}"));
        lines.row(vec![
            row.tensor.clone(),
            row.node.clone(),
            row.from.to_string(),
            row.to.to_string(),
            error,
            row.reason.clone(),
        ]);
    }
    lines.lines().iter().for_each(|line| console.note(line));
}

/// The lines of a manifest's table, for `inspect`.
pub fn inspect(table: &Value, console: &Console) {
    let text = |v: &Value| v.as_str().unwrap_or("-").to_string();
    let number = |v: &Value| v.as_f64().map_or_else(|| "-".to_string(), |e| format!("{e:.2e}"));
    let outputs = table["outputs"].as_array().into_iter().flatten();
    let errors: Vec<String> = outputs.map(|o| format!("{} {}", text(&o["name"]), number(&o["error"]))).collect();
    console.line(&format!(
        "precision {}, errors on {} {} inputs: {}",
        text(&table["precision"]),
        table["samples"],
        text(&table["inputs"]),
        errors.join(", ")
    ));
    let mut lines = Table::new(&["tensor", "node", "role", "from", "to", "error", "why"]);
    for row in table["tensors"].as_array().into_iter().flatten() {
        let names = ["tensor", "node", "role", "from", "to"].map(|name| text(&row[name]));
        lines.row(names.into_iter().chain([number(&row["error"]), text(&row["reason"])]).collect());
    }
    lines.lines().iter().for_each(|line| console.line(line));
}
