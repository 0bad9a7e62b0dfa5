//! `oaaxc targets`: what this executable compiles for.

use serde_json::json;

use super::Outcome;
use super::console::Console;
use super::table::Table;
use crate::targets::{KNOWN, checked};

#[derive(clap::Args, Debug)]
pub struct Arguments {}

/// Lists the targets.
pub fn main(_: &Arguments, console: &Console) -> Outcome {
    let mut table = Table::new(&["target", "", ""]);
    for (name, what) in KNOWN {
        if console.json {
            console.object(&json!({ "target": name, "description": what, "checked": checked(name) }));
        }
        table.row(vec![(*name).to_string(), (*what).to_string(), checked(name).to_string()]);
    }
    if !console.json {
        table.lines().iter().skip(1).for_each(|line| console.line(line));
        console.hint("several targets make one artefact: oaaxc build model.onnx --target rocm,spirv,cpu");
    }
    Ok(0)
}
