//! Workers and cache: order, death, time-outs, garbage, reuse.

use std::time::Duration;

use oaaxc_llvm::{Cache, Form, Job, Level, Stage, WorkerPool, compile_module, link};

const WORKER: &str = env!("CARGO_BIN_EXE_oaaxc-llvm-worker");

fn job(n: i32) -> Job {
    let mlir = format!("func.func @k{n}() -> i32 {{ %r = arith.constant {n} : i32 return %r : i32 }}");
    Job { key: format!("kernel {n}"), mlir, level: Level::x86_64_v3() }
}

/// LLVM cannot select a logarithm for NVIDIA and aborts.
fn deadly() -> Job {
    let mlir = "func.func @k(%p: !llvm.ptr<1>) { %x = llvm.load %p : !llvm.ptr<1> -> f32 %y = math.log %x : f32 llvm.store %y, %p : f32, !llvm.ptr<1> return }";
    Job { key: "deadly".into(), mlir: mlir.into(), level: Level::nvptx("sm_80", "+ptx80") }
}

#[test]
fn results_do_not_depend_on_the_number_of_workers() {
    let batch = || [1, 2, 3, 2, 4, 5].map(job).to_vec();
    let one = WorkerPool::new(1, WORKER).compile_batch(batch());
    let two = WorkerPool::new(2, WORKER).compile_batch(batch());
    assert_eq!(one, two);
    assert_eq!(one[1], one[3]);
    for (answer, n) in one.iter().zip([1, 2, 3, 2, 4, 5]) {
        assert_eq!(answer.as_ref().unwrap(), &compile_module(&job(n).mlir, &job(n).level).unwrap());
    }
    let mut reversed = WorkerPool::new(2, WORKER).compile_batch(batch().into_iter().rev().collect());
    reversed.reverse();
    assert_eq!(one, reversed);
}

#[test]
fn a_deadly_job_fails_alone() {
    let pool = WorkerPool::new(2, WORKER);
    let batch = vec![job(1), deadly(), job(2), Job { key: "empty".into(), mlir: "nonsense".into(), ..job(1) }, job(3)];
    let answers = pool.compile_batch(batch);
    assert!(answers[0].is_ok() && answers[2].is_ok() && answers[4].is_ok());
    let dead = answers[1].as_ref().unwrap_err();
    assert_eq!(dead.stage, Stage::Worker);
    assert!(dead.message.starts_with("deadly: "), "{dead}");
    assert!(dead.message.contains("Cannot select: 0x…: ch"), "LLVM's words, no addresses: {dead}");
    assert_eq!(answers[3].as_ref().unwrap_err().stage, Stage::Parse);
    assert!(pool.compile_batch(vec![job(9)])[0].is_ok(), "the pool lives on");
}

#[test]
fn a_silent_worker_is_timed_out() {
    let silent = "printf 'oaaxc-llvm worker 1\\n'; exec tail -f /dev/null";
    let pool = WorkerPool::new(1, "/bin/sh").with_arguments(vec!["-c".into(), silent.into()]);
    let pool = pool.with_limit(Duration::from_millis(300));
    let e = pool.compile_batch(vec![job(1)]).remove(0).unwrap_err();
    assert_eq!(e.stage, Stage::Worker);
    assert!(e.message.contains("0.3 s"), "{e}");
}

#[test]
fn what_is_no_worker_is_said_to_be_none() {
    for (program, word) in [("/bin/echo", "ended"), ("/nonexistent/worker", "cannot start")] {
        let e = WorkerPool::new(1, program).compile_batch(vec![job(1)]).remove(0).unwrap_err();
        assert!(e.message.contains(word), "{e}");
    }
    let garbage = "printf 'oaaxc-llvm worker 1\\nxxxxxxxxxxxxxxxxxxxx'";
    let pool = WorkerPool::new(1, "/bin/sh").with_arguments(vec!["-c".into(), garbage.into()]);
    assert_eq!(pool.compile_batch(vec![job(1)]).remove(0).unwrap_err().stage, Stage::Worker);
}

#[test]
fn a_second_build_starts_no_worker() {
    let folder = tempfile::tempdir().unwrap();
    let pool = || WorkerPool::new(2, WORKER).with_cache(Cache::at(folder.path()));
    let build = |pool: &WorkerPool| {
        let objects = pool.compile_batch(vec![job(1), job(2)]);
        let objects: Vec<Vec<u8>> = objects.into_iter().map(Result::unwrap).collect();
        pool.link(&objects, &Level::x86_64_v3()).unwrap()
    };
    let (cold, warm) = (pool(), pool());
    let linked = build(&cold);
    assert!(cold.workers_started() > 0);
    assert_eq!(linked, build(&warm));
    assert_eq!(warm.workers_started(), 0);
    let objects = [1, 2].map(|n| compile_module(&job(n).mlir, &Level::x86_64_v3()).unwrap());
    assert_eq!(linked, link(&objects, &Level::x86_64_v3()).unwrap());
    // Another level is another entry.
    let other = Job { level: Level::x86_64_v2(), ..job(1) };
    assert!(warm.compile_batch(vec![other])[0].is_ok());
    assert_eq!(warm.workers_started(), 1);
}

#[test]
fn readable_forms_come_from_workers_too() {
    let pool = WorkerPool::new(1, WORKER);
    let text = |form| String::from_utf8(pool.emit(&job(7), form).unwrap()).unwrap();
    assert!(text(Form::LlvmIr).contains("define"));
    assert!(text(Form::LoweredMlir).contains("llvm.func @k7"));
    assert!(text(Form::Assembly).contains("k7"));
}
