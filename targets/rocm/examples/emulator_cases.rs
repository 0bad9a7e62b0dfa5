//! Writes kernel cases as files for an emulator of AMD's chips: code object, arguments, what the interpreter expects.
//!
//! `cargo run -p oaaxc-target-rocm --example emulator_cases -- FOLDER [CASE]...`, then `scripts/amd-emulator`.

use std::fmt::Write;
use std::path::Path;

use oaaxc_ir::kernel::{Kernel, Role};
use oaaxc_kernel_cases::{Check, contractions, evaluate, expected, structures};
use oaaxc_llvm::{compile_module, link};
use oaaxc_target_gpu::emit_kernel;
use oaaxc_target_rocm::{gpu, machine};

/// A family of cases, by its name on the command line.
type Case = (&'static str, fn(Check));

/// One chip for each instruction set that the emulator knows.
const CHIPS: [&str; 3] = ["gfx942", "gfx1100", "gfx1201"];
const CASES: [Case; 5] = [
    ("halves", contractions::products_of_halves),
    ("integers", contractions::integer_convolutions_are_exact),
    ("depthwise", contractions::depthwise_convolutions),
    ("windows", structures::windows_read_padding_and_guards_touch_nothing),
    ("scan", structures::rows_with_private_memory_and_a_sequence),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (folder, wanted) = arguments.split_first().expect("a folder");
    for (name, cases) in CASES.iter().filter(|c| wanted.is_empty() || wanted.iter().any(|w| w == c.0)) {
        let mut number = 0;
        cases(&mut |kernel: &Kernel, dims: &[i64], memory: &[Vec<u8>], tolerance: f64| {
            for chip in CHIPS {
                write_case(&Path::new(folder).join(format!("{name}-{number}-{chip}")), chip, kernel, dims, memory, tolerance);
            }
            number += 1;
        });
    }
}

fn write_case(folder: &Path, chip: &str, kernel: &Kernel, dims: &[i64], memory: &[Vec<u8>], tolerance: f64) {
    let Ok(results) = expected(kernel, dims, memory) else { return };
    let emitted = emit_kernel(kernel, "kernel_under_test", &gpu(chip)).expect("a case is a kernel");
    let groups = evaluate(&emitted.groups, dims);
    if groups == 0 {
        return;
    }
    std::fs::create_dir_all(folder).expect("the folder can be made");
    let write = |name: String, bytes: &[u8]| std::fs::write(folder.join(name), bytes).expect("files can be written");
    let object = compile_module(&emitted.text, &machine(chip)).expect("a case compiles");
    write("code.hsaco".into(), &link(&[object], &machine(chip)).expect("a case links"));
    let launched = groups.min(4);
    let mut plan = format!("threads {}\ngroups {launched}\n", emitted.threads);
    let mut line = |text: String| writeln!(plan, "{text}").expect("strings take text");
    for (i, (_, buffer)) in kernel.arguments().enumerate() {
        write(format!("in-{i}"), &memory[i]);
        let is_output = buffer.role != Role::In;
        if is_output {
            write(format!("out-{i}"), &results[i]);
        }
        line(format!("memory in-{i} {} {} {tolerance}", buffer.dtype, if is_output { format!("out-{i}") } else { "-".into() }));
    }
    let symbols = (0..).take_while(|s| emitted.text.contains(&format!("%s{s}: i64"))).count();
    for d in &dims[..symbols] {
        line(format!("long {d}"));
    }
    line(format!("room {}", evaluate(&emitted.scratch, dims) * launched));
    line("room 32".into());
    line(format!("long {launched}"));
    line("int 7".into());
    write("plan".into(), plan.as_bytes());
}
