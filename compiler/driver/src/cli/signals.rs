//! Ctrl-C: what was begun and not finished goes away.
//!
//! Promises: after SIGINT, SIGTERM or SIGHUP every child has ended, no temporary file of this process is left
//! next to an output, in the cache or in the temporary folder, and the exit code is 128 and the signal's
//! number. Files get their names only when they are whole, so nothing else can be half-written.
//! A temporary file carries this process's number in its name: `oaaxc-NUMBER-` or `.oaaxc-NUMBER-`,
//! in the cache `.new-NUMBER-`.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Signals are a matter of the whole process, and so is what they end: folders in which files are being made.
static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Whether a signal has come: nobody wants to hear of what fails because of it.
static ENDING: AtomicBool = AtomicBool::new(false);

/// How long children may take to clean up after themselves.
const GRACE: Duration = Duration::from_secs(1);

/// From now on signals end the process tidily.
pub fn install() {
    // Without a handler the default action ends the process as well, only less tidily.
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM, SIGHUP]) else { return };
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            ENDING.store(true, Ordering::SeqCst);
            end_children();
            sweep();
            std::process::exit(128 + signal);
        }
    });
}

/// Files are made in this folder until they are whole.
pub fn works_in(folder: &Path) {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_path_buf());
    FOLDERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(folder);
}

/// Whether a signal is ending the process.
pub fn is_ending() -> bool {
    ENDING.load(Ordering::SeqCst)
}

/// Does not come back once a signal has come: its thread ends the process, with its own exit code.
pub fn wait_if_ending() {
    while is_ending() {
        std::thread::park();
    }
}

/// Asks the children to end, then ends them. New ones may start meanwhile, so they are looked for again.
fn end_children() {
    let start = Instant::now();
    loop {
        let children = children();
        if children.is_empty() || start.elapsed() > 2 * GRACE {
            return;
        }
        let watched: Vec<OwnedFd> = children.iter().filter_map(|child| pidfd_open(*child, PidfdFlags::empty()).ok()).collect();
        let signal = if start.elapsed() < GRACE { Signal::TERM } else { Signal::KILL };
        for child in children {
            let _ = kill_process(child, signal); // It may have ended by itself.
        }
        // Until the first of them has ended; then those that are left are looked for.
        let mut events: Vec<PollFd> = watched.iter().map(|child| PollFd::new(child, PollFlags::IN)).collect();
        let _ = poll(&mut events, Some(&Timespec { tv_sec: 0, tv_nsec: 100_000_000 }));
    }
}

/// Children of any thread of this process that are not yet dead.
fn children() -> Vec<Pid> {
    let mut found = Vec::new();
    for thread in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let list = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        found.extend(list.split_whitespace().filter(|number| is_alive(number)).filter_map(|n| Pid::from_raw(n.parse().ok()?)));
    }
    found
}

/// A process that has ended but was not waited for is a `Z`.
fn is_alive(number: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// Removes this process's temporary files.
fn sweep() {
    let number = std::process::id();
    let prefixes = [format!("oaaxc-{number}-"), format!(".oaaxc-{number}-"), format!(".new-{number}-")];
    let mut folders = FOLDERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
    folders.push(std::env::temp_dir());
    if let Some(cache) = oaaxc_llvm::Cache::user_folder() {
        folders.extend(std::fs::read_dir(cache).into_iter().flatten().flatten().map(|shelf| shelf.path()));
    }
    for entry in folders.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        // What a layout replaced is the user's until the new one is in its place.
        if name.ends_with(".old") || !prefixes.iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        let path = entry.path();
        // Whatever cannot be removed now stays; there is nobody to tell.
        let _ = if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            std::fs::remove_dir_all(&path)
        } else {
            std::fs::remove_file(&path)
        };
    }
}
