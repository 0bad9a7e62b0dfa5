//! Speed of single contractions, each checked against the strict form first: `cargo run --release
//! --example bench_contract [FILTER]`. Prints GFLOP/s of one thread per level.

use std::time::Instant;

use oaaxc_ir::edit::NewNode;
use oaaxc_ir::graph::{Attributes, Def, Graph};
use oaaxc_ir::interpret::store;
use oaaxc_ir::kernel::{Kernel, canonical};
use oaaxc_ir::program::{Program, SlotKind};
use oaaxc_ir::types::Fact;
use oaaxc_ir::{Attribute, DType, Expr, Tensor, Type, lower};
use oaaxc_llvm::testing::KernelFunction;
use oaaxc_passes::kernel::{pack, resolve};
use oaaxc_target_cpu::{CpuLevel, PANEL, emit_kernel, v2, v3, v4};

/// An operator on one input and constant weights (or two inputs).
struct Case {
    name: &'static str,
    op: &'static str,
    attributes: Vec<(&'static str, Attribute)>,
    input: Vec<usize>,
    weights: Vec<usize>,
    constant: bool,
    /// Multiply-adds.
    work: f64,
}

fn product(name: &'static str, m: usize, k: usize, n: usize, constant: bool) -> Case {
    let work = (m * k * n) as f64;
    Case { name, op: "MatMul", attributes: vec![], input: vec![m, k], weights: vec![k, n], constant, work }
}

#[allow(clippy::too_many_arguments)] // a convolution has that many numbers
fn conv(name: &'static str, c: usize, h: usize, w: usize, o: usize, kernel: usize, stride: i64, group: usize) -> Case {
    let pad = (kernel / 2) as i64;
    let attributes = vec![
        ("pads", Attribute::Ints(vec![pad; 4])),
        ("strides", Attribute::Ints(vec![stride; 2])),
        ("group", Attribute::Int(group as i64)),
    ];
    let pixels = h.div_ceil(stride as usize) * w.div_ceil(stride as usize);
    let work = (pixels * o * c / group * kernel * kernel) as f64;
    Case {
        name,
        op: "Conv",
        attributes,
        input: vec![1, c, h, w],
        weights: vec![o, c / group, kernel, kernel],
        constant: true,
        work,
    }
}

fn cases() -> Vec<Case> {
    vec![
        product("matmul 1024x1024x1024", 1024, 1024, 1024, true),
        product("matmul 128x768x768", 128, 768, 768, true),
        product("matmul 128x768x768 run-time b", 128, 768, 768, false),
        product("matmul 97x100x70", 97, 100, 70, true),
        product("matmul 5x300x33", 5, 300, 33, true),
        product("matmul 5x300x33 run-time b", 5, 300, 33, false),
        product("gemv 1x4096x4096", 1, 4096, 4096, true),
        conv("conv3x3 56x56 64->64", 64, 56, 56, 64, 3, 1, 1),
        conv("conv3x3 28x28 128->128", 128, 28, 28, 128, 3, 1, 1),
        conv("conv3x3 14x14 256->256", 256, 14, 14, 256, 3, 1, 1),
        conv("conv3x3 7x7 512->512", 512, 7, 7, 512, 3, 1, 1),
        conv("conv1x1 56x56 64->256", 64, 56, 56, 256, 1, 1, 1),
        conv("conv1x1 14x14 1024->256", 1024, 14, 14, 256, 1, 1, 1),
        conv("conv1x1 160x160 16->24", 16, 160, 160, 24, 1, 1, 1),
        conv("conv7x7/2 224x224 3->64", 3, 224, 224, 64, 7, 2, 1),
        conv("conv3x3/2 56x56 128->128", 128, 56, 56, 128, 3, 2, 1),
        conv("conv3x3 30x17 20->12 odd", 20, 30, 17, 12, 3, 1, 1),
        conv("conv3x3 14x14 64->64 group 4", 64, 14, 14, 64, 3, 1, 4),
        conv("conv3x3 14x14 48->40 group 2", 48, 14, 14, 40, 3, 1, 2),
        conv("depthwise3x3 80x80 96", 96, 80, 80, 96, 3, 1, 96),
        conv("depthwise5x5 20x20 240", 240, 20, 20, 240, 5, 1, 240),
    ]
}

fn random(dims: &[usize], seed: u64) -> Tensor {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((state >> 33) as f64 / (1u64 << 30) as f64 - 1.0) as f32
    };
    let values: Vec<f32> = (0..dims.iter().product()).map(|_| next()).collect();
    Tensor::from_f32s(dims.to_vec(), &values)
}

fn program(case: &Case) -> Program {
    let mut graph = Graph::new(case.name);
    let root = graph.root;
    let input = |graph: &mut Graph, name: &str, dims: &[usize]| {
        let dims = dims.iter().map(|&d| Expr::from(d)).collect();
        let v = graph.add_value(name, Fact::of(Type::tensor(DType::F32, dims)), Def::Input(root));
        graph.blocks[root].inputs.push(v);
        v
    };
    let x = input(&mut graph, "x", &case.input);
    let w = if case.constant { graph.add_constant("w", random(&case.weights, 7)) } else { input(&mut graph, "w", &case.weights) };
    let mut inputs = vec![Some(x), Some(w)];
    if case.op == "Conv" {
        let bias = graph.add_constant("bias", random(&case.weights[..1], 9));
        inputs.push(Some(bias));
    }
    let attributes: Attributes = case.attributes.iter().map(|(n, a)| (n.to_string(), a.clone())).collect();
    let op = oaaxc_ops::find("", case.op).expect("the operator is in the table");
    let new = NewNode {
        op,
        opset: 28,
        attributes,
        inputs,
        outputs: vec![Some("y".into())],
        blocks: vec![],
        origin: Default::default(),
    };
    let node = graph.append(root, new).expect("the node is valid");
    graph.blocks[root].outputs = graph.nodes[node].outputs.iter().flatten().copied().collect();
    let mut program = lower::lower(&graph).expect("it lowers");
    resolve::resolve(&mut program);
    program
}

/// The kernel and its memory, inputs seeded; the output is the last argument that is written.
fn prepare(program: &Program) -> (Kernel, Vec<Vec<u64>>, usize) {
    let launch = program.launches()[0];
    let (kernel, symbols) = canonical(&launch.kernel);
    assert!(symbols.is_empty(), "the cases have fixed sizes");
    let mut memory = Vec::new();
    let mut output = 0;
    for (i, (slot, (_, buffer))) in launch.slots.iter().zip(kernel.arguments()).enumerate() {
        let dims: Vec<usize> = buffer.dims.iter().map(|d| d.as_const().expect("fixed") as usize).collect();
        let bytes = match &program.slots[*slot].kind {
            SlotKind::Constant(tensor) => store(tensor, &buffer.layout).to_vec(),
            SlotKind::Input => random(&dims, 3 + u64::from(program.slots[*slot].name == "w")).to_bytes().to_vec(),
            _ => {
                output = i;
                vec![0; dims.iter().product::<usize>() * 4]
            }
        };
        memory.push(
            bytes
                .chunks(8)
                .map(|c| c.iter().rev().fold(0u64, |w, b| w << 8 | u64::from(*b)) << (64 - 8 * c.len()) >> (64 - 8 * c.len()))
                .collect(),
        );
    }
    (kernel, memory, output)
}

fn floats(words: &[u64]) -> Vec<f32> {
    words.iter().flat_map(|w| [f32::from_bits(*w as u32), f32::from_bits((*w >> 32) as u32)]).collect()
}

fn compile(kernel: &Kernel, level: &CpuLevel, strict: bool) -> (KernelFunction, u64, usize, bool, std::time::Duration) {
    let options = oaaxc_target_cpu::Options { strict, ..level.options };
    let emitted = emit_kernel(kernel, "k", &options).expect("it is emitted");
    if std::env::var_os("DUMP").is_some() && !strict {
        println!("{}", emitted.text);
        println!("{}", oaaxc_llvm::emit_asm(&emitted.text, &level.machine).expect("it compiles"));
    }
    let start = Instant::now();
    let object = oaaxc_llvm::compile_module(&emitted.text, &level.machine).unwrap_or_else(|e| panic!("{e:?}\n{}", emitted.text));
    let time = start.elapsed();
    let linked = oaaxc_llvm::link(&[object], &level.machine).expect("it links");
    let number = |e: &Expr| e.as_const().expect("fixed sizes");
    let function = KernelFunction::load(&linked, "k").expect("it loads");
    (function, number(&emitted.groups) as u64, number(&emitted.scratch) as usize, emitted.generic, time)
}

fn main() {
    let filter = std::env::args().nth(1).unwrap_or_default();
    for case in cases().iter().filter(|c| c.name.contains(&filter)) {
        let plain = program(case);
        let mut packed = plain.clone();
        pack::pack(&mut packed, PANEL);
        let (kernel, mut memory, output) = prepare(&plain);
        let (strict, groups, scratch, _, _) = compile(&kernel, &v3(), true);
        strict.run(&mut memory, &[], scratch, 0..groups);
        let expected = floats(&memory[output]);
        print!("{:32}", case.name);
        for level in [v2(), v3(), v4()] {
            let (kernel, mut memory, output) = prepare(&packed);
            let (function, groups, scratch, generic, time) = compile(&kernel, &level, false);
            function.run(&mut memory, &[], scratch, 0..groups);
            let found = floats(&memory[output]);
            let scale = expected.iter().fold(0f32, |s, x| s.max(x.abs()));
            let worst = expected.iter().zip(&found).fold(0f32, |w, (e, f)| w.max((e - f).abs()));
            let good = worst <= 1e-5 * scale;
            let mut best = f64::INFINITY;
            let start = Instant::now();
            while start.elapsed().as_secs_f64() < 0.25 {
                let start = Instant::now();
                function.run(&mut memory, &[], scratch, 0..groups);
                best = best.min(start.elapsed().as_secs_f64());
            }
            let verdict = if good { "" } else { " WRONG" };
            let path = if generic { " generic" } else { "" };
            let rate = 2.0 * case.work / best / 1e9;
            print!("  {} {rate:6.1}{path}{verdict} ({:.0} ms)", &level.name[7..], time.as_secs_f64() * 1e3);
        }
        println!();
    }
}
