//! Runs many cases on a few threads. A panic or a hang ends its case alone.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use crate::{Outcome, Status, Way, run_case};

thread_local! {
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Remembers panics instead of printing them, so that they can stand in the report.
pub fn quiet_panics() {
    std::panic::set_hook(Box::new(|info| {
        let text = info.to_string().replace('\n', " ");
        LAST_PANIC.with(|last| *last.borrow_mut() = text);
    }));
}

/// Folders with a `model.onnx`: the given ones, or those directly below them, whose name holds `filter`.
pub fn folders(roots: &[PathBuf], filter: &str) -> std::io::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for root in roots {
        if root.join("model.onnx").exists() {
            all.push(root.clone());
            continue;
        }
        for entry in std::fs::read_dir(root)? {
            let path = entry?.path();
            if path.join("model.onnx").exists() {
                all.push(path);
            }
        }
    }
    all.retain(|path| name(path).contains(filter));
    all.sort();
    Ok(all)
}

/// The last part of a folder's path.
pub fn name(folder: &Path) -> String {
    folder.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Runs every folder every way; `done` hears of each as it ends, from one thread at a time.
pub fn run_all(folders: &[PathBuf], ways: &[Way], threads: usize, limit: Duration, done: impl FnMut(&Path, Way, Outcome) + Send) {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(done));
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while let Some(folder) = folders.get(next.fetch_add(1, Ordering::Relaxed)) {
                    for &way in ways {
                        let outcome = run_limited(folder, way, limit);
                        let mut done = done.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                        done(folder, way, outcome);
                    }
                }
            });
        }
    });
}

/// Runs a case on a thread of its own. One that does not end is left behind and ends with the process.
fn run_limited(folder: &Path, way: Way, limit: Duration) -> Outcome {
    let (sender, receiver) = mpsc::channel();
    let folder = folder.to_path_buf();
    let body = move || {
        let outcome = std::panic::catch_unwind(|| run_case(&folder, way));
        let outcome = outcome.unwrap_or_else(|_| Outcome::failed(Status::Crash, LAST_PANIC.with(|last| last.take())));
        // The receiver is gone where the limit has passed.
        let _ = sender.send(outcome);
    };
    let spawned = std::thread::Builder::new().stack_size(16 << 20).spawn(body);
    if let Err(error) = spawned {
        return Outcome::failed(Status::Crash, format!("no thread: {error}"));
    }
    let late = || Outcome::failed(Status::Crash, format!("no end within {} s", limit.as_secs()));
    receiver.recv_timeout(limit).unwrap_or_else(|_| late())
}
