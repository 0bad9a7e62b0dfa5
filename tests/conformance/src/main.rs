//! `oaaxc-conformance FOLDER...|MODEL.onnx... [--filter TEXT] [--way eval|kernels|text] [--json] [--bless] [--failures]`:
//! runs ONNX cases by both oracles and through text, one line each, counts at the end.
//!
//! With the whole of the node cases, `--bless` writes the lists of cases that do not pass yet, and
//! without it the exit code says whether the lists still hold.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use oaaxc_conformance::{Outcome, Status, Way, runner};

struct Arguments {
    folders: Vec<PathBuf>,
    filter: String,
    ways: Vec<Way>,
    json: bool,
    bless: bool,
    failures: bool,
    threads: usize,
}

const USAGE: &str = "usage: oaaxc-conformance FOLDER...|MODEL.onnx... [--filter TEXT] [--way eval|kernels|text] [--threads N] [--failures] [--json] [--bless]";

fn arguments() -> Result<Arguments, String> {
    let mut out = Arguments {
        folders: Vec::new(),
        filter: String::new(),
        ways: Way::ALL.to_vec(),
        json: false,
        bless: false,
        failures: false,
        threads: 2,
    };
    let mut all = std::env::args().skip(1);
    while let Some(argument) = all.next() {
        let mut value = || all.next().ok_or_else(|| format!("{argument} wants a value\n{USAGE}"));
        match argument.as_str() {
            "--filter" => out.filter = value()?,
            "--way" => {
                let word = value()?;
                out.ways.retain(|way| way.word() == word);
            }
            "--threads" => out.threads = value()?.parse().map_err(|_| USAGE.to_string())?,
            "--json" => out.json = true,
            "--bless" => out.bless = true,
            "--failures" => out.failures = true,
            option if option.starts_with('-') => return Err(format!("unknown option {option}\n{USAGE}")),
            folder => out.folders.push(folder.into()),
        }
    }
    if out.folders.is_empty() || out.ways.is_empty() { Err(USAGE.to_string()) } else { Ok(out) }
}

fn main() -> ExitCode {
    match arguments().and_then(|arguments| run(&arguments)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(4),
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

fn list_path(way: Way) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("expected").join(format!("{}.txt", way.word()))
}

fn read_list(way: Way) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(list_path(way)).unwrap_or_default();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.filter_map(|line| line.split_once(' ')).map(|(name, status)| (name.to_string(), status.to_string())).collect()
}

/// Imports and lowers one model and says what stands in the way.
fn check_model(path: &Path) -> bool {
    let options = oaaxc_onnx::ImportOptions::default();
    let imported = oaaxc_onnx::import(path, &options);
    let result = imported.and_then(|imported| {
        let graph = imported.graph;
        println!("{}: {} nodes, {} warnings", path.display(), graph.listed_nodes().len(), imported.warnings.len());
        oaaxc_ir::lower::lower(&graph).map(|program| program.launches().len())
    });
    match result {
        Ok(launches) => println!("{}: {launches} kernels", path.display()),
        Err(ref problems) => problems.items.iter().for_each(|d| println!("{d}")),
    }
    result.is_ok()
}

fn run(arguments: &Arguments) -> Result<bool, String> {
    let (models, folders): (Vec<_>, Vec<_>) =
        arguments.folders.iter().cloned().partition(|p| p.extension().is_some_and(|e| e == "onnx"));
    if folders.is_empty() {
        return Ok(models.iter().map(|path| check_model(path)).fold(true, |a, b| a & b));
    }
    let folders = runner::folders(&arguments.folders, &arguments.filter).map_err(|e| format!("cannot list the cases: {e}"))?;
    runner::quiet_panics();
    let mut all: BTreeMap<(Way, String), Outcome> = BTreeMap::new();
    runner::run_all(&folders, &arguments.ways, arguments.threads, Duration::from_secs(20), |folder, way, outcome| {
        let name = runner::name(folder);
        if arguments.json {
            let line = serde_json::json!({ "name": name, "way": way.word(), "status": outcome.status.word(),
                "max_error": outcome.max_error, "cause": outcome.cause });
            println!("{line}");
        } else if !(arguments.failures && outcome.status == Status::Pass) {
            let first = outcome.cause.lines().next().unwrap_or("").chars().take(300).collect::<String>();
            println!("{:7} {:7} {name}  {first}", outcome.status.word(), way.word());
        }
        all.insert((way, name), outcome);
    });
    let mut holds = true;
    for &way in &arguments.ways {
        let of_way = || all.iter().filter(|((w, _), _)| *w == way);
        let mut counts: BTreeMap<Status, usize> = BTreeMap::new();
        of_way().for_each(|(_, outcome)| *counts.entry(outcome.status).or_default() += 1);
        let counts: Vec<String> = counts.iter().map(|(status, n)| format!("{n} {}", status.word())).collect();
        eprintln!("{}: {} of {} cases", way.word(), counts.join(", "), of_way().count());
        if arguments.bless {
            let header =
                format!("# Node cases of ONNX that `{}` does not pass; written with --bless, may only shrink.\n", way.word());
            let failed = of_way().filter(|(_, outcome)| outcome.status != Status::Pass);
            let lines: String = failed.map(|((_, name), outcome)| format!("{name} {}\n", outcome.status.word())).collect();
            std::fs::write(list_path(way), header + &lines).map_err(|e| format!("cannot write the list: {e}"))?;
            continue;
        }
        let expected = read_list(way);
        for ((_, name), outcome) in of_way() {
            let listed = expected.get(name).map_or("pass", String::as_str);
            if outcome.status.word() != listed && (outcome.status != Status::Pass || arguments.filter.is_empty()) {
                holds = false;
                eprintln!("{name}: {} by {}, the list says {listed}", outcome.status.word(), way.word());
            }
        }
    }
    Ok(holds)
}
