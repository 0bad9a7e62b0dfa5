//! `oaaxc doctor`: what this machine offers, with the reason where something is missing.

use std::path::Path;
use std::time::Instant;

use oaaxc_llvm::{Cache, Job, Level, WorkerPool};
use serde_json::json;

use super::Outcome;
use super::console::Console;
use super::table::{bytes, seconds};
use crate::{runtime, session};

#[derive(clap::Args, Debug)]
pub struct Arguments {}

/// One finding.
struct Finding {
    what: &'static str,
    good: bool,
    /// Without it no build is possible.
    needed: bool,
    detail: String,
}

/// Looks at the machine.
pub fn main(_: &Arguments, console: &Console) -> Outcome {
    let findings = [version(), processor(), levels(), code_generation(), cache(), temporary(), runtime_layer(), peer()];
    for f in &findings {
        if console.json {
            console.object(&json!({ "what": f.what, "good": f.good, "needed": f.needed, "detail": f.detail }));
            continue;
        }
        let mark = match (f.good, f.needed) {
            (true, _) => console.paint("32;1", "ok     "),
            (false, true) => console.paint("31;1", "missing"),
            (false, false) => console.paint("33;1", "absent "),
        };
        console.line(&format!("{mark}  {:<16} {}", f.what, f.detail));
    }
    Ok(if findings.iter().all(|f| f.good || !f.needed) { 0 } else { 6 })
}

fn finding(what: &'static str, good: bool, needed: bool, detail: impl Into<String>) -> Finding {
    Finding { what, good, needed, detail: detail.into() }
}

fn version() -> Finding {
    finding("oaaxc", true, true, format!("{} with LLVM and MLIR 22", env!("CARGO_PKG_VERSION")))
}

fn processor() -> Finding {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name =
        text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':')).map_or("unknown", |(_, name)| name.trim());
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    finding("processor", true, true, format!("{name}, {count} for this process, {}", std::env::consts::ARCH))
}

fn levels() -> Finding {
    let names = ["x86-64-v2", "x86-64-v3", "x86-64-v4"];
    let lacks: Vec<String> =
        names.iter().filter_map(|name| Some(format!("{name} lacks {}", oaax_core::missing(name)?))).collect();
    let runs: Vec<&str> = names.iter().copied().filter(|name| oaax_core::missing(name).is_none()).collect();
    let good = !runs.is_empty();
    let reasons = if lacks.is_empty() { String::new() } else { format!(" ({})", lacks.join("; ")) };
    finding("CPU levels", good, true, format!("runs {}{reasons}", if good { runs.join(", ") } else { "none".into() }))
}

/// Compiles and links one small kernel in a worker, as a build does.
fn code_generation() -> Finding {
    let pool = WorkerPool::new(1, session::worker());
    let level = Level::x86_64_v2();
    let mlir = "func.func @probe(%a: i64, %b: i64) -> i64 { %r = arith.addi %a, %b : i64 return %r : i64 }";
    let start = Instant::now();
    let compiled = pool.compile_batch(vec![Job { key: "probe".into(), mlir: mlir.into(), level: level.clone() }]).remove(0);
    match compiled.and_then(|object| pool.link(&[object], &level)) {
        Ok(object) => {
            let took = seconds(start.elapsed().as_secs_f64());
            finding(
                "code generation",
                true,
                true,
                format!("compiled and linked a kernel of {} in {took}", bytes(object.len() as u64)),
            )
        }
        Err(error) => finding("code generation", false, true, error.to_string()),
    }
}

fn cache() -> Finding {
    let Some(folder) = Cache::user_folder() else {
        return finding("kernel cache", false, false, "none: neither OAAXC_CACHE, XDG_CACHE_HOME nor HOME is set");
    };
    let (mut count, mut total) = (0, 0);
    for shelf in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
        for entry in std::fs::read_dir(shelf.path()).into_iter().flatten().flatten() {
            count += 1;
            total += entry.metadata().map_or(0, |m| m.len());
        }
    }
    let place = folder.display();
    match std::fs::create_dir_all(&folder).and_then(|()| tempfile::tempfile_in(&folder)) {
        Ok(_) => finding("kernel cache", true, false, format!("{place}: {count} entries, {}", bytes(total))),
        Err(error) => finding("kernel cache", false, false, format!("{place} cannot be written: {error}")),
    }
}

fn temporary() -> Finding {
    let place = std::env::temp_dir();
    match tempfile::tempfile_in(&place) {
        Ok(_) => finding("temporary files", true, true, place.display().to_string()),
        Err(error) => finding("temporary files", false, true, format!("{} cannot be written: {error}", place.display())),
    }
}

fn runtime_layer() -> Finding {
    let Some(folder) = runtime::folder() else {
        return finding("runtime layer", false, false, "this executable's folder is not known");
    };
    let found: Vec<String> = std::fs::read_dir(&folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    match found.is_empty() {
        false => finding("runtime layer", true, false, format!("{} in {}", found.join(", "), folder.display())),
        true => finding(
            "runtime layer",
            false,
            false,
            format!("nothing in {}; images can be mounted, not started (OAAXC_RUNTIME names another folder)", folder.display()),
        ),
    }
}

fn peer() -> Finding {
    let python = super::peer::python();
    let good = Path::new(&python).exists();
    let detail = if good {
        format!("{} for `bench --peer onnxruntime`", python.display())
    } else {
        format!("no {}: run scripts/setup", python.display())
    };
    finding("peer", good, false, detail)
}
