//! `oaaxc test`: many folders in ONNX's backend-test form, in few processes.
//!
//! Promises: cases run in long-lived child processes, so that code that crashes or hangs ends its case
//! alone; one line each in the order of their names; counts at the end.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use oaaxc_conformance::runner;
use serde_json::{Value, json};

use super::Outcome;
use super::arguments::{CompileArguments, io_error, one, usage};
use super::console::Console;
use super::crash;
use super::table::seconds;
use crate::cases::{self, Answer, Way};
use crate::session;

/// The hidden subcommand of the child processes.
pub const WORKER: &str = "__cases";

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  oaaxc test .cases/node --target cpu:x86-64-v3
  oaaxc test .cases/node --target eval --filter softmax
  oaaxc test mycases/one mycases/two --target cpu --json")]
pub struct Arguments {
    /// Folders that hold model.onnx and test_data_set_*, or that hold such folders
    #[arg(required = true)]
    folders: Vec<PathBuf>,
    /// What runs them: a target, `eval` (the operators' own evaluation) or `interpreter`
    #[arg(short, long, default_value = "cpu:native")]
    target: String,
    /// Only cases whose name holds this
    #[arg(long, default_value = "")]
    filter: String,
    /// Runs the artefacts of another machine's target by this command, such as
    /// `qemu-aarch64 -L /usr/aarch64-linux-gnu target/cross/aarch64/oaax-run`
    #[arg(long, value_name = "COMMAND")]
    runner: Option<String>,
    /// Seconds for one case
    #[arg(long, default_value_t = 60.0, value_name = "SECONDS")]
    limit: f64,
    /// Only cases that do not pass
    #[arg(long)]
    failures: bool,
    #[command(flatten)]
    compiling: CompileArguments,
}

#[derive(clap::Args, Debug)]
pub struct WorkerArguments {
    #[arg(long)]
    target: String,
    #[arg(long)]
    no_cache: bool,
    #[arg(long)]
    runner: Option<String>,
}

/// Runs the cases.
pub fn main(arguments: &Arguments, console: &Console) -> Outcome {
    Way::find_with(&arguments.target, arguments.runner.as_deref()).map_err(one)?;
    let folders =
        runner::folders(&arguments.folders, &arguments.filter).map_err(|e| io_error("list", &arguments.folders[0], &e))?;
    if folders.is_empty() {
        return Err(usage("no folder holds a model.onnx, or the filter fits none"));
    }
    let start = Instant::now();
    let jobs = arguments.compiling.options().jobs.clamp(1, folders.len());
    let todo = Mutex::new(folders.iter().enumerate());
    let report =
        Mutex::new(InOrder { next: 0, waiting: BTreeMap::new(), counts: BTreeMap::new(), failures: arguments.failures, console });
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                let mut worker = None;
                loop {
                    // The lock is held while the next one is taken, not while it runs.
                    let next = todo.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).next();
                    let Some((index, folder)) = next else { break };
                    let answer = ask(&mut worker, folder, arguments);
                    report.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take(index, answer);
                }
            });
        }
    });
    let counts = report.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()).counts;
    let n = |status: &str| counts.get(status).copied().unwrap_or(0);
    let took = start.elapsed().as_secs_f64();
    if console.json {
        console.object(&json!({
            "target": arguments.target, "cases": folders.len(), "pass": n("pass"), "wrong": n("wrong"),
            "refused": n("refused"), "error": n("error"), "seconds": took,
        }));
    } else {
        console.line(&format!(
            "{}: {} of {} pass, {} wrong, {} refused, {} errors, in {}",
            arguments.target,
            n("pass"),
            folders.len(),
            n("wrong"),
            n("refused"),
            n("error"),
            seconds(took)
        ));
    }
    Ok(match (n("error"), n("wrong"), n("refused")) {
        (0, 0, 0) => 0,
        (0, 0, _) => 3,
        (0, _, _) => 4,
        _ => 1,
    })
}

/// Prints answers in the order of the cases, whatever the order in which they come.
struct InOrder<'a> {
    next: usize,
    waiting: BTreeMap<usize, Answer>,
    counts: BTreeMap<&'static str, usize>,
    failures: bool,
    console: &'a Console,
}

impl InOrder<'_> {
    fn take(&mut self, index: usize, answer: Answer) {
        *self.counts.entry(answer.status).or_default() += 1;
        self.waiting.insert(index, answer);
        while let Some(answer) = self.waiting.remove(&self.next) {
            self.next += 1;
            self.print(&answer);
        }
    }
    fn print(&self, answer: &Answer) {
        if self.failures && answer.status == "pass" {
            return;
        }
        if self.console.json {
            self.console.object(&answer.to_json());
            return;
        }
        let mut line = format!("{:<8} {}", answer.status, answer.name);
        if answer.status == "pass" {
            if self.console.verbose {
                line += &format!("  {} kernels, max error {:.1e}, {}", answer.kernels, answer.max_error, seconds(answer.seconds));
            }
        } else {
            let cause: String = answer.cause.replace('\n', " / ").chars().take(300).collect();
            line += &format!("  {cause}");
        }
        if !self.console.quiet {
            self.console.line(&line);
        }
    }
}

/// A child process that runs cases.
struct Worker {
    child: Child,
    words: ChildStdin,
    answers: Receiver<Value>,
}

impl Worker {
    fn start(arguments: &Arguments) -> std::io::Result<Worker> {
        let mut command = Command::new(session::worker());
        command.args([WORKER, "--target", &arguments.target]);
        if arguments.compiling.no_cache {
            command.arg("--no-cache");
        }
        if let Some(runner) = &arguments.runner {
            command.args(["--runner", runner]);
        }
        // Ctrl-C at the terminal is ours to handle: see `signals`.
        let mut child = command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let words = child.stdin.take().expect("stdin is piped");
        let lines = BufReader::new(child.stdout.take().expect("stdout is piped")).lines();
        let (sender, answers) = channel();
        // Ends with the child's output.
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let Ok(value) = serde_json::from_str(&line) else { continue };
                if sender.send(value).is_err() {
                    break;
                }
            }
        });
        Ok(Worker { child, words, answers })
    }
    /// Ends the child; how it ended by itself, where it did.
    fn end(mut self) -> String {
        let _ = self.child.kill();
        match self.child.wait() {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        }
    }
}

/// Asks a worker, which is started where there is none; a dead or silent one is ended.
fn ask(slot: &mut Option<Worker>, folder: &Path, arguments: &Arguments) -> Answer {
    let name = runner::name(folder);
    let start = Instant::now();
    let failed = |cause: String| Answer::error(name.clone(), cause, start.elapsed().as_secs_f64());
    let mut worker = match slot.take().map_or_else(|| Worker::start(arguments), Ok) {
        Ok(worker) => worker,
        Err(error) => return failed(format!("cannot start a worker: {error}")),
    };
    let word = json!({ "folder": folder.display().to_string() });
    let sent = writeln!(worker.words, "{word}").and_then(|()| worker.words.flush());
    let limit = Duration::from_secs_f64(arguments.limit.clamp(0.1, 3600.0));
    let answer = match sent {
        Ok(()) => worker.answers.recv_timeout(limit),
        Err(_) => Err(RecvTimeoutError::Disconnected),
    };
    match answer {
        Ok(value) => {
            *slot = Some(worker);
            Answer::from_json(&value).unwrap_or_else(|| failed(format!("the worker answers {value}")))
        }
        Err(RecvTimeoutError::Timeout) => {
            worker.end();
            failed(format!("no end within {} s", arguments.limit))
        }
        Err(RecvTimeoutError::Disconnected) => failed(format!("the worker died: {}", worker.end())),
    }
}

/// The child process: one folder a line in, one answer a line out.
pub fn worker(arguments: &WorkerArguments, console: &Console) -> Outcome {
    let way = Way::find_with(&arguments.target, arguments.runner.as_deref()).map_err(one)?;
    let mut options = CompileArguments { jobs: 1, no_cache: arguments.no_cache, ..CompileArguments::default() }.options();
    (options.jobs, options.unfolded) = (1, true);
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let Some(folder) = serde_json::from_str::<Value>(&line).ok().and_then(|v| v["folder"].as_str().map(PathBuf::from)) else {
            continue;
        };
        console.object(&cases::run(&folder, &way, &options, &crash::last).to_json());
    }
    Ok(0)
}
