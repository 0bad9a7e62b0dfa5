//! Measures what a worker costs: its start, one matrix kernel, many of them, its memory.
//! Run: `cargo run --release -p oaaxc-llvm --example measure`

use std::{fmt::Write, time::Instant};

use oaaxc_llvm::{Job, Level, WORKER_ARGUMENT, WorkerPool, worker_main};

/// A 6×16 matrix micro-kernel, unrolled four times over k; `n` keeps them different.
fn kernel(n: usize) -> String {
    let mut t = String::new();
    let mut line = |text: String| writeln!(t, "{text}").expect("strings take text");
    line(format!("func.func @k{n}(%a: !llvm.ptr, %b: !llvm.ptr, %c: !llvm.ptr, %k: i64) {{"));
    line("  %c0 = arith.constant 0 : i64\n  %c4 = arith.constant 4 : i64".into());
    line(format!("  %z = arith.constant dense<{n}.0> : vector<8xf32>"));
    let name = |prefix: &str| (0..12).map(|i| format!("%{prefix}{i}")).collect::<Vec<_>>();
    let types = ["vector<8xf32>"; 12].join(", ");
    let init: Vec<String> = name("acc").iter().map(|a| format!("{a} = %z")).collect();
    line(format!("  %r:12 = scf.for %i = %c0 to %k step %c4 iter_args({}) -> ({types}) : i64 {{", init.join(", ")));
    let mut accumulators = name("acc");
    for u in 0..4 {
        for j in 0..2 {
            let at = u * 16 + j * 8;
            line(format!(
                "    %ob{u}{j} = arith.constant {at} : i64\n    %s{u}{j} = arith.constant 16 : i64\n    %ib{u}{j} = arith.muli %i, %s{u}{j} : i64\n    %jb{u}{j} = arith.addi %ib{u}{j}, %ob{u}{j} : i64"
            ));
            line(format!(
                "    %pb{u}{j} = llvm.getelementptr %b[%jb{u}{j}] : (!llvm.ptr, i64) -> !llvm.ptr, f32\n    %b{u}{j} = llvm.load %pb{u}{j} {{alignment = 32 : i64}} : !llvm.ptr -> vector<8xf32>"
            ));
        }
        for m in 0..6 {
            let at = u * 6 + m;
            line(format!(
                "    %oa{u}{m} = arith.constant {at} : i64\n    %sa{u}{m} = arith.constant 6 : i64\n    %ia{u}{m} = arith.muli %i, %sa{u}{m} : i64\n    %ja{u}{m} = arith.addi %ia{u}{m}, %oa{u}{m} : i64"
            ));
            line(format!(
                "    %pa{u}{m} = llvm.getelementptr %a[%ja{u}{m}] : (!llvm.ptr, i64) -> !llvm.ptr, f32\n    %a{u}{m} = llvm.load %pa{u}{m} : !llvm.ptr -> f32\n    %v{u}{m} = vector.broadcast %a{u}{m} : f32 to vector<8xf32>"
            ));
            for j in 0..2 {
                let i = m * 2 + j;
                line(format!("    %f{u}_{i} = vector.fma %v{u}{m}, %b{u}{j}, {} : vector<8xf32>", accumulators[i]));
                accumulators[i] = format!("%f{u}_{i}");
            }
        }
    }
    line(format!("    scf.yield {} : {types}\n  }}", accumulators.join(", ")));
    for i in 0..12 {
        line(format!(
            "  %oc{i} = llvm.getelementptr %c[{}] : (!llvm.ptr) -> !llvm.ptr, f32\n  llvm.store %r#{i}, %oc{i} {{alignment = 4 : i64}} : vector<8xf32>, !llvm.ptr",
            i * 8
        ));
    }
    line("  return\n}".into());
    t
}

/// Resident and peak KiB of our only child.
fn memory() -> String {
    let me = std::process::id();
    let children = std::fs::read_to_string(format!("/proc/{me}/task/{me}/children"));
    let child = children.unwrap_or_default().trim().to_string();
    let status = std::fs::read_to_string(format!("/proc/{child}/status")).unwrap_or_default();
    let smaps = std::fs::read_to_string(format!("/proc/{child}/smaps_rollup")).unwrap_or_default();
    let wanted = |l: &&str| ["VmRSS", "VmHWM", "Pss:", "Private_Dirty"].iter().any(|w| l.starts_with(w));
    let lines: Vec<&str> = status.lines().chain(smaps.lines()).filter(wanted).collect();
    lines.join(", ").replace('\t', "").replace("   ", " ")
}

fn main() {
    if std::env::args().nth(1).as_deref() == Some(WORKER_ARGUMENT) {
        std::process::exit(worker_main());
    }
    let program = std::env::current_exe().expect("we were started");
    let level = Level::x86_64_v3();
    let pool = WorkerPool::new(1, &program);
    let run = |from: usize, count: usize| {
        let start = Instant::now();
        let job = |n| Job { key: String::new(), mlir: kernel(n), level: level.clone() };
        let answers = pool.compile_batch((from..from + count).map(job).collect());
        let objects: Vec<Vec<u8>> = answers.into_iter().map(|a| a.expect("it compiles")).collect();
        (objects, start.elapsed())
    };
    println!("start and first kernel  {:?}   {}", run(0, 1).1, memory());
    println!("second kernel           {:?}   {}", run(1, 1).1, memory());
    let (objects, time) = run(2, 100);
    println!("100 more, each          {:?}   {}", time / 100, memory());
    println!("400 more, each          {:?}   {}", run(102, 400).1 / 400, memory());
    for _ in 0..2 {
        let start = Instant::now();
        let linked = pool.link(&objects, &level).expect("it links");
        println!("link 100 objects        {:?}, {} bytes", start.elapsed(), linked.len());
    }
}
