//! The side that stays alive: every check runs in a process of its own, with a limit of time, in an
//! empty folder, its streams caught. What becomes of the process is part of the finding.

use crate::{
    Rule,
    subject::{Diary, Subject, Use, Verdict},
};
use std::{
    ffi::OsString,
    fs::{self, File},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Rules whose checks count bytes. glibc keeps freed blocks for the thread that freed them, and counts
/// them as used: without that cache the count is exact.
const COUNTS_BYTES: [&str; 5] = ["R2-15", "R2-17", "R2-18", "R1-6", "R1-8"];

/// What came of one rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The rule holds.
    Holds,
    /// The rule is broken, and how.
    Broken(String),
    /// Nothing can be said, and why.
    Skipped(String),
    /// The process died, and where.
    Crashed(String),
    /// The process gave no answer in time, and where it stood.
    Hung(String),
}

/// Runs the check of one rule in a process: `worker` and then the arguments that `arguments` makes.
/// `scratch` is a folder for files of this check alone.
pub fn check(subject: &Subject, rule: &Rule, worker: &[OsString], limit: Duration, scratch: &Path) -> Outcome {
    match run(subject, rule, worker, limit, scratch) {
        Ok(outcome) => outcome,
        Err(error) => Outcome::Skipped(format!("the check cannot run: {error}")),
    }
}

fn run(subject: &Subject, rule: &Rule, worker: &[OsString], limit: Duration, scratch: &Path) -> std::io::Result<Outcome> {
    let place = scratch.join(rule.id);
    let (working, files) = (place.join("working"), place.join("files"));
    fs::create_dir_all(&working)?;
    fs::create_dir_all(&files)?;
    let diary = place.join("diary");
    let subject = Subject { folder: files, library: fs::canonicalize(&subject.library)?, ..subject.clone() };
    let mut command = Command::new(&worker[0]);
    command.args(&worker[1..]).args(arguments(&subject, rule, &diary)).current_dir(&working);
    command.stdin(Stdio::null()).stdout(File::create(place.join("stdout"))?).stderr(File::create(place.join("stderr"))?);
    if COUNTS_BYTES.contains(&rule.id) {
        command.env("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0");
    }
    let mut child = command.spawn()?;
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if start.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            break None;
        }
        crate::process::wait(if start.elapsed().as_millis() < 100 { 2 } else { 20 });
    };
    let text = fs::read_to_string(&diary).unwrap_or_default();
    let (step, verdict) = Diary::read(&text);
    let at = format!("at: {}", step.unwrap_or("the start"));
    let said = fs::read(place.join("stderr")).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let said = said.lines().rfind(|line| !line.trim().is_empty()).map(|line| format!("; it said: {line}")).unwrap_or_default();
    Ok(match (status, verdict) {
        (None, None) => Outcome::Hung(format!("no answer within {} s, {at}", limit.as_secs())),
        (None, Some(_)) => Outcome::Hung(format!("the process does not end within {} s, {at}", limit.as_secs())),
        (Some(status), verdict) => match (status.signal(), status.code(), verdict) {
            (Some(signal), _, None) => Outcome::Crashed(format!("{}, {at}{said}", signal_name(signal))),
            (Some(signal), _, Some(Verdict::Holds)) => {
                Outcome::Crashed(format!("{} when the process ends, {at}{said}", signal_name(signal)))
            }
            (_, Some(code), None) => Outcome::Crashed(format!("it ended the process with code {code}, {at}{said}")),
            (_, Some(code), Some(Verdict::Holds)) if code != 0 => {
                Outcome::Crashed(format!("the process ends with code {code}, {at}{said}"))
            }
            (_, _, Some(Verdict::Holds)) => Outcome::Holds,
            (_, _, Some(Verdict::Broken(how))) => Outcome::Broken(how),
            (_, _, Some(Verdict::Skipped(why))) => Outcome::Skipped(why),
            (_, _, None) => Outcome::Crashed(format!("it ended in an unknown way, {at}")),
        },
    })
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGFPE => "SIGFPE",
        libc::SIGILL => "SIGILL",
        libc::SIGKILL => "SIGKILL",
        _ => return format!("signal {signal}"),
    };
    name.to_owned()
}

/// The arguments of a worker; [`crate::child::main`] reads them.
fn arguments(subject: &Subject, rule: &Rule, diary: &Path) -> Vec<OsString> {
    let mut list: Vec<OsString> =
        vec![rule.id.into(), diary.into(), subject.library.clone().into(), subject.folder.clone().into()];
    for model in [&subject.model, &subject.failing] {
        list.extend(model_arguments(model.as_ref()));
    }
    list
}

/// The number of what follows, then path, whether it doubles, and the ports; 0 where there is no model.
fn model_arguments(model: Option<&Use>) -> Vec<OsString> {
    let Some(model) = model else { return vec!["0".into()] };
    let mut list: Vec<OsString> = vec![(model.inputs.len() + 2).to_string().into(), model.path.clone().into()];
    list.push(if model.doubles { "doubles" } else { "any" }.into());
    list.extend(model.inputs.iter().map(|port| OsString::from(port.text())));
    list
}
