//! `oaaxc ops`: every operator of ONNX and of this table, and what is done with each.

use std::collections::BTreeMap;

use oaaxc_ir::op::Lower;
use oaaxc_ops::schema::{NEWEST_OPSET, SCHEMAS};
use oaaxc_ops::schema_types::{FunctionKind, OperatorSchema};
use serde_json::json;

use super::Outcome;
use super::console::Console;
use super::table::Table;

#[derive(clap::Args, Debug)]
pub struct Arguments {
    /// Only the version in force in this opset
    #[arg(long)]
    opset: Option<i64>,
    /// Only operators of this domain; ai.onnx is the default one
    #[arg(long)]
    domain: Option<String>,
    /// Only operators that are refused
    #[arg(long)]
    refused: bool,
}

/// One row.
struct Row {
    domain: String,
    name: String,
    versions: Vec<i64>,
    support: &'static str,
    reason: String,
}

/// Lists the operators.
pub fn main(arguments: &Arguments, console: &Console) -> Outcome {
    let wanted = arguments.domain.as_deref();
    let is_wanted = |row: &&Row| {
        let domain = if row.domain.is_empty() { "ai.onnx" } else { &row.domain };
        wanted.is_none_or(|w| w == domain || w == row.domain) && (!arguments.refused || row.support == "refused")
    };
    let rows = rows(arguments.opset);
    let mut table = Table::new(&["operator", "versions", "support", ""]);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows.iter().filter(is_wanted) {
        *counts.entry(row.support).or_default() += 1;
        if console.json {
            console.object(&json!({
                "domain": if row.domain.is_empty() { "ai.onnx" } else { &row.domain },
                "name": row.name, "versions": row.versions, "support": row.support, "reason": row.reason,
            }));
            continue;
        }
        let name = if row.domain.is_empty() { row.name.clone() } else { format!("{}.{}", row.domain, row.name) };
        let versions: Vec<String> = row.versions.iter().map(ToString::to_string).collect();
        table.row(vec![name, versions.join(" "), row.support.to_string(), row.reason.clone()]);
    }
    if !console.json {
        table.lines().iter().for_each(|line| console.line(line));
        let counts: Vec<String> = counts.iter().map(|(support, n)| format!("{n} {support}")).collect();
        console.line(&format!("{} (ai.onnx up to opset {NEWEST_OPSET})", counts.join(", ")));
    }
    Ok(0)
}

/// ONNX's operators in the order of its schema, then those of the table that ONNX does not define.
fn rows(opset: Option<i64>) -> Vec<Row> {
    let mut rows: Vec<Row> = SCHEMAS.iter().filter_map(|schema| schema_row(schema, opset)).collect();
    for op in oaaxc_ops::all() {
        if !rows.iter().any(|row| row.domain == op.domain && row.name == op.name)
            && SCHEMAS.iter().all(|s| (s.domain, s.name) != (op.domain, op.name))
        {
            let (support, reason) = support(op.domain, op.name);
            rows.push(Row { domain: op.domain.into(), name: op.name.into(), versions: Vec::new(), support, reason });
        }
    }
    rows
}

fn schema_row(schema: &OperatorSchema, opset: Option<i64>) -> Option<Row> {
    let live = |v: &i64| schema.version_at(*v).is_some_and(|v| !v.deprecated);
    let versions: Vec<i64> = match opset {
        Some(opset) => vec![schema.version_at(opset)?.since_version],
        None => schema.versions.iter().map(|v| v.since_version).collect(),
    };
    let versions: Vec<i64> = versions.into_iter().filter(live).collect();
    let newest = *versions.last()?;
    let (mut support, mut reason) = support(schema.domain, schema.name);
    let function = schema.version_at(newest).map(|v| v.function);
    if support == "refused" && reason.is_empty() {
        match function {
            Some(FunctionKind::Fixed) => (support, reason) = ("function", "by ONNX's own body".into()),
            _ => reason = "not in the table".into(),
        }
    }
    Some(Row { domain: schema.domain.into(), name: schema.name.into(), versions, support, reason })
}

/// What the table does with an operator: `kernels`, `host`, `function`, `eval` (the oracle alone), `refused`.
fn support(domain: &str, name: &str) -> (&'static str, String) {
    match oaaxc_ops::find(domain, name).map(|op| &op.lower) {
        Some(Lower::Kernels(_)) => ("kernels", String::new()),
        Some(Lower::Host(_)) => ("host", String::new()),
        Some(Lower::Function) => ("function", String::new()),
        Some(Lower::Refused(why)) => ("eval", format!("not compiled: {why}")),
        None => ("refused", String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_opset_shows_the_version_in_force() {
        let softmax = |opset| rows(opset).into_iter().find(|r| r.name == "Softmax" && r.domain.is_empty()).map(|r| r.versions);
        assert_eq!(softmax(Some(12)), Some(vec![11]));
        assert_eq!(softmax(None), Some(vec![1, 11, 13]));
    }
}
