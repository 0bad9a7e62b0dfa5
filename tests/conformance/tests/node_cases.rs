//! No node case of ONNX that passed before fails now, by either oracle and through text; none crashes.
//! The cases are written by `scripts/node-cases`; where they are not, there is nothing to run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use oaaxc_conformance::{Status, Way, runner};

fn allowed(way: Way) -> BTreeMap<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("expected").join(format!("{}.txt", way.word()));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(' ')).map(|(name, status)| (name.to_string(), status.to_string())).collect()
}

#[test]
fn every_fourth_case_passes_or_stands_in_the_list() {
    let root: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.cases/node");
    if !root.exists() {
        eprintln!("no cases: run scripts/node-cases");
        return;
    }
    let folders = runner::folders(&[root], "").expect("the cases can be listed");
    let folders: Vec<PathBuf> = folders.into_iter().step_by(4).collect();
    runner::quiet_panics();
    let lists: BTreeMap<Way, BTreeMap<String, String>> = Way::ALL.into_iter().map(|way| (way, allowed(way))).collect();
    let mut failures = Vec::new();
    runner::run_all(&folders, &Way::ALL, 2, Duration::from_secs(60), |folder, way, outcome| {
        let name = runner::name(folder);
        let listed = lists[&way].contains_key(&name) && outcome.status != Status::Crash;
        if outcome.status != Status::Pass && !listed {
            failures.push(format!("{name} by {}: {} {}", way.word(), outcome.status.word(), outcome.cause));
        }
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
