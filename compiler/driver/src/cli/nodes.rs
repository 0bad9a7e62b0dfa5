//! What `oaaxc verify --per-node` shows: a summary by operator and type, and the worst results.
//!
//! Promises: worst first, by the share of the tolerance that is used; the exit code is 4 where one is outside.

use std::collections::BTreeMap;

use serde_json::json;

use super::console::Console;
use super::table::Table;
use crate::node_check::{Allowed, Row};

/// Rows shown without `-v`, beside those that fail.
const SHOWN: usize = 10;

/// Shows the rows; whether all hold.
pub fn report(mut rows: Vec<Row>, console: &Console) -> bool {
    rows.sort_by(|a, b| b.used().total_cmp(&a.used()));
    if console.json {
        rows.iter().for_each(|row| console.object(&to_json(row)));
    } else {
        show(&rows, console);
    }
    rows.iter().all(|row| row.comparison.within)
}

fn to_json(row: &Row) -> serde_json::Value {
    let d = row.comparison.difference.unwrap_or_default();
    let quanta = (!matches!(row.allowed, Allowed::Within(_))).then_some(d.max_abs);
    json!({
        "node": row.node, "operator": row.operator, "value": row.value, "type": row.dtype.name(), "nodes": row.nodes,
        "max_abs": d.max_abs, "max_rel": d.max_rel, "max_ulp": d.max_ulp, "quanta": quanta,
        "allowed": word(row.allowed), "within": row.comparison.within, "cause": row.comparison.why,
    })
}

fn word(allowed: Allowed) -> &'static str {
    match allowed {
        Allowed::Equal => "equal",
        Allowed::OneQuantum => "one quantum",
        Allowed::Within(_) => "tolerance",
    }
}

/// Largest absolute difference, ulps and quanta of one or more results, as cells.
fn cells(rows: &[&Row]) -> [String; 3] {
    let differences = || rows.iter().map(|row| row.comparison.difference.unwrap_or_default());
    let max_abs = differences().map(|d| d.max_abs).fold(0.0, f64::max);
    let max_ulp = differences().map(|d| d.max_ulp).max().unwrap_or(0);
    match rows.first().map(|row| row.allowed) {
        Some(Allowed::Within(_)) => [format!("{max_abs:.1e}"), max_ulp.to_string(), "-".into()],
        _ => [format!("{max_abs}"), "-".into(), format!("{max_abs}")],
    }
}

fn show(rows: &[Row], console: &Console) {
    let mut groups: BTreeMap<(&str, &str, &str), Vec<&Row>> = BTreeMap::new();
    for row in rows {
        groups.entry((&row.operator, row.dtype.name(), word(row.allowed))).or_default().push(row);
    }
    let mut table = Table::new(&["operator", "type", "results", "outside", "max abs", "max ulp", "quanta", "allowed"]);
    for ((operator, dtype, allowed), rows) in &groups {
        let [max_abs, max_ulp, quanta] = cells(rows);
        let outside = rows.iter().filter(|row| !row.comparison.within).count();
        let counts = [rows.len().to_string(), outside.to_string()];
        let [count, outside] = counts;
        table.row(vec![
            (*operator).to_string(),
            (*dtype).to_string(),
            count,
            outside,
            max_abs,
            max_ulp,
            quanta,
            (*allowed).to_string(),
        ]);
    }
    table.lines().iter().for_each(|line| console.line(line));
    console.line("");
    let mut table = Table::new(&["worst results", "operator", "type", "nodes", "max abs", "max ulp", "quanta", ""]);
    let shown: Vec<&Row> = rows
        .iter()
        .enumerate()
        .filter(|(i, row)| console.verbose || *i < SHOWN || !row.comparison.within)
        .map(|(_, row)| row)
        .collect();
    for row in &shown {
        let [max_abs, max_ulp, quanta] = cells(&[*row]);
        let verdict = if row.comparison.within { "holds".to_string() } else { row.comparison.why.clone() };
        let (node, operator, dtype) = (row.node.clone(), row.operator.clone(), row.dtype.name().to_string());
        table.row(vec![node, operator, dtype, row.nodes.to_string(), max_abs, max_ulp, quanta, verdict]);
    }
    table.lines().iter().for_each(|line| console.line(line));
    let hidden = rows.len() - shown.len();
    if hidden > 0 {
        console.line(&format!("{hidden} more; -v shows all"));
    }
    let count = |allowed: &str| {
        let of: Vec<&Row> = rows.iter().filter(|row| word(row.allowed) == allowed).collect();
        format!("{} of {}", of.iter().filter(|row| row.comparison.within).count(), of.len())
    };
    console.line(&format!(
        "{} integer results are equal, {} requantised ones within one quantum, {} float ones within the tolerance",
        count("equal"),
        count("one quantum"),
        count("tolerance")
    ));
}
