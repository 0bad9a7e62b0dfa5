//! Ctrl-C in the middle of a build: children end, nothing half-written stays, the exit code says so.

mod common;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::Place;

/// Children of a process.
fn children(process: u32) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists = tasks.map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default());
    lists.flat_map(|list| list.split_whitespace().map(str::to_string).collect::<Vec<_>>()).collect()
}

/// Waits for something that is bound to come.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "{what} does not come");
        std::thread::yield_now();
    }
}

fn files(folder: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            all.extend(files(&entry.path()));
        }
        all.push(entry.file_name().to_string_lossy().into_owned());
    }
    all
}

fn interrupt(child: &mut Child, signal: &str) -> Option<i32> {
    let sent = Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill is there");
    assert!(sent.success());
    child.wait().expect("a child").code()
}

fn is_running(process: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

#[test]
fn an_interrupted_build_leaves_nothing() {
    for (signal, code) in [("-INT", 130), ("-TERM", 143)] {
        let place = Place::with_tiny();
        std::fs::create_dir(place.file("temporary")).expect("a folder");
        let mut command = place.command("build tiny.onnxtxt -o out.oaax --jobs 2");
        let mut child = command.env("TMPDIR", place.file("temporary")).stderr(Stdio::null()).spawn().expect("the program starts");
        let mut workers = Vec::new();
        until("a worker", || {
            workers = children(child.id());
            !workers.is_empty()
        });
        assert_eq!(interrupt(&mut child, signal), Some(code));
        until("the workers' end", || !workers.iter().any(|worker| is_running(worker)));
        let left: Vec<String> =
            files(place.path()).into_iter().filter(|name| name.contains("oaax") && name != "tiny.onnxtxt").collect();
        assert!(left.is_empty(), "{left:?}");
        assert!(!files(place.path()).iter().any(|name| name.starts_with(".new-")));
    }
}

#[test]
fn interrupted_cases_end_with_their_workers() {
    let place = Place::with_tiny();
    for n in 0..4 {
        std::fs::create_dir_all(place.file(&format!("cases/c{n}/test_data_set_0"))).expect("a folder");
        place.write(&format!("cases/c{n}/model.onnx"), b"");
    }
    // A case that waits for ever for its model.
    let pipe = place.file("cases/c0/model.onnx");
    std::fs::remove_file(&pipe).expect("it is there");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there").success());
    let mut command = place.command("test cases --target cpu:x86-64-v2 --jobs 1");
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts");
    let mut workers = Vec::new();
    until("a worker", || {
        workers = children(child.id());
        !workers.is_empty()
    });
    assert_eq!(interrupt(&mut child, "-INT"), Some(130));
    until("the workers' end", || !workers.iter().any(|worker| is_running(worker)));
}
