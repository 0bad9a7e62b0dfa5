//! Random graphs over many operators: every pass keeps the numbers of `eval`, and every memory plan
//! that comes of them is placed and proved again by the checker that does not trust the placement.

use oaaxc_ir::edit::NewNode;
use oaaxc_ir::graph::{Attributes, Def, Graph};
use oaaxc_ir::program::{Instr, Program, Space};
use oaaxc_ir::types::Fact;
use oaaxc_ir::{Attribute, DType, Datum, Expr, Tensor, Type, ValueId, eval, interpret, lower};
use oaaxc_passes::kernel::encode::{LevelEntry, LevelSpec, Weights, encode};
use oaaxc_passes::kernel::intern::Interned;
use oaaxc_passes::kernel::{fuse, intern, pack, place, place_check, precompute, resolve};

/// A small generator of its own: the same graphs on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
    fn of<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }
}

struct Builder {
    graph: Graph,
    random: Random,
    values: Vec<ValueId>,
}

impl Builder {
    fn shape(&self, v: ValueId) -> Vec<Expr> {
        self.graph.values[v].fact.ty.as_tensor().and_then(|t| t.shape.clone()).expect("tensors of known rank")
    }
    fn weights(&mut self, dims: Vec<usize>) -> ValueId {
        let (n, shift) = (dims.iter().product::<usize>(), self.random.below(9) as f64);
        let name = format!("w{}", self.graph.values.len());
        let tensor = Tensor::from_f64s(DType::F32, dims, (0..n).map(|i| (i as f64 * 0.61 + shift).sin() * 0.7));
        self.graph.add_constant(name, tensor)
    }
    fn ints(&mut self, values: Vec<i64>) -> ValueId {
        let name = format!("c{}", self.graph.values.len());
        self.graph.add_constant(name, Tensor::from_i64s(DType::I64, vec![values.len()], values))
    }
    /// Adds a node; one that inference refuses is left out.
    fn node(&mut self, op: &str, attributes: &[(&str, Attribute)], inputs: &[ValueId]) -> Option<ValueId> {
        let attributes: Attributes = attributes.iter().map(|(n, a)| (n.to_string(), a.clone())).collect();
        let new = NewNode {
            op: oaaxc_ops::find("", op).expect("the operator is in the table"),
            opset: 28,
            attributes,
            inputs: inputs.iter().map(|v| Some(*v)).collect(),
            outputs: vec![Some(format!("v{}_{op}", self.graph.values.len()))],
            blocks: vec![],
            origin: Default::default(),
        };
        let root = self.graph.root;
        let node = self.graph.append(root, new).ok()?;
        self.graph.nodes[node].outputs[0]
    }
    /// One random operator on a recent value.
    fn step(&mut self) {
        let x = self.values[self.values.len() - 1 - self.random.below(self.values.len().min(3))];
        let other = self.random.of(&self.values);
        let shape = self.shape(x);
        let rank = shape.len();
        let axis = self.random.below(rank.max(1)) as i64;
        let int = Attribute::Int;
        let last = shape.last().and_then(Expr::as_const).map(|d| d as usize);
        let made = match self.random.below(20) {
            0..=2 => {
                let op = self.random.of(&["Add", "Sub", "Mul", "Max", "Min"]);
                self.node(op, &[], &[x, other])
            }
            3 | 4 => {
                let op = self.random.of(&["Tanh", "Sigmoid", "Relu", "Abs", "Neg", "Erf", "Gelu"]);
                self.node(op, &[], &[x])
            }
            5 | 6 => {
                let op = self.random.of(&["ReduceMean", "ReduceMax", "ReduceSum", "ReduceL2"]);
                let axes = self.ints(vec![axis]);
                let keep = self.random.below(3).min(1) as i64;
                self.node(op, &[("keepdims", int(keep))], &[x, axes])
            }
            7 | 8 => {
                let mut perm: Vec<i64> = (0..rank as i64).collect();
                for i in (1..rank).rev() {
                    perm.swap(i, self.random.below(i + 1));
                }
                self.node("Transpose", &[("perm", Attribute::Ints(perm))], &[x])
            }
            9 => {
                let (start, end) = (self.random.below(2) as i64, self.random.of(&[i64::MAX, 3, -1]));
                let (from, to, axes) = (self.ints(vec![start]), self.ints(vec![end]), self.ints(vec![axis]));
                let steps = self.random.of(&[1, 2]);
                let steps = self.ints(vec![steps]);
                self.node("Slice", &[], &[x, from, to, axes, steps])
            }
            10 => self.node("Concat", &[("axis", int(axis))], &[x, other]),
            11 => {
                let target = self.ints(vec![0, -1]);
                self.node("Reshape", &[], &[x, target])
            }
            12 | 13 => last.and_then(|k| {
                let n = self.random.of(&[1, 3, 16, 17]);
                let w = self.weights(vec![k, n]);
                self.node("MatMul", &[], &[x, w])
            }),
            14 if rank == 4 => shape[1].as_const().and_then(|c| {
                let (k, stride) = (self.random.of(&[1usize, 2, 3]), self.random.of(&[1, 2]));
                let m = self.random.of(&[1, 5, 16]);
                let w = self.weights(vec![m, c as usize, k, k]);
                let pad = (k / 2) as i64;
                let pads = Attribute::Ints(vec![pad; 4]);
                self.node("Conv", &[("pads", pads), ("strides", Attribute::Ints(vec![stride; 2]))], &[x, w])
            }),
            15 if rank == 4 => {
                let op = self.random.of(&["MaxPool", "AveragePool"]);
                let pads = Attribute::Ints(vec![1; 4]);
                self.node(op, &[("kernel_shape", Attribute::Ints(vec![3; 2])), ("pads", pads)], &[x])
            }
            16 => self.node("Softmax", &[("axis", int(axis))], &[x]),
            17 => last.and_then(|k| {
                let (scale, bias) = (self.weights(vec![k]), self.weights(vec![k]));
                self.node("LayerNormalization", &[("axis", int(-1))], &[x, scale, bias])
            }),
            18 => {
                let at = self.random.of(&[vec![0], vec![0, 0, 0]]);
                let at = self.ints(at);
                self.node("Gather", &[("axis", int(axis))], &[x, at])
            }
            19 => {
                let mut pads = vec![0; 2 * rank];
                pads[axis as usize] = 1;
                pads[rank + axis as usize] = 2;
                let pads = self.ints(pads);
                self.node("Pad", &[], &[x, pads])
            }
            _ => {
                let axes = self.ints(vec![axis]);
                self.node("Unsqueeze", &[], &[x, axes])
            }
        };
        if let Some(v) = made
            && (1..=5).contains(&self.shape(v).len())
        {
            self.values.push(v);
        }
    }
}

fn random_graph(seed: u64) -> Graph {
    let mut b = Builder { graph: Graph::new("random"), random: Random(seed.wrapping_mul(7919) + 1), values: Vec::new() };
    let shapes: [&[&str]; 3] = [&["N", "3", "H", "H"], &["N", "3", "1", "H"], &["H", "7"]];
    for i in 0..2 {
        let names = if i == 0 { shapes[seed as usize % 2] } else { b.random.of(&shapes) };
        let dims = names.iter().map(|n| n.parse().map_or_else(|_| Expr::sym(b.graph.symbols.named(n)), Expr::constant)).collect();
        let root = b.graph.root;
        let v = b.graph.add_value(format!("x{i}"), Fact::of(Type::tensor(DType::F32, dims)), Def::Input(root));
        b.graph.blocks[root].inputs.push(v);
        b.values.push(v);
    }
    for _ in 0..4 + b.random.below(9) {
        b.step();
    }
    let mut outputs = vec![b.values[b.values.len() - 1]];
    let middle = b.values[b.values.len() / 2];
    if b.random.below(3) == 0 && middle != outputs[0] {
        outputs.push(middle);
    }
    // A graph that hands its input through is not what is tested here.
    outputs.retain(|v| !matches!(b.graph.values[*v].def, Def::Input(_)));
    let root = b.graph.root;
    b.graph.blocks[root].outputs = outputs;
    b.graph
}

/// Inputs for N and H.
fn inputs(graph: &Graph, n: i64, h: i64) -> Vec<Tensor> {
    let size =
        |e: &Expr| e.eval(&|s| Some(if graph.symbols.table[s].name == "N" { n } else { h }), &|_| None).expect("input dims");
    let tensor = |(i, v): (usize, &ValueId)| {
        let ty = graph.values[*v].fact.ty.as_tensor().expect("a tensor");
        let dims: Vec<usize> = ty.shape.iter().flatten().map(|e| size(e) as usize).collect();
        let count = dims.iter().product::<usize>();
        Tensor::from_f64s(DType::F32, dims, (0..count).map(|k| ((k + 3 * i) as f64 * 0.83).sin()))
    };
    graph.root().inputs.iter().enumerate().map(tensor).collect()
}

fn differs(expected: &[Tensor], found: &[Tensor]) -> Option<String> {
    for (e, f) in expected.iter().zip(found) {
        if e.dims != f.dims {
            return Some(format!("{:?} became {:?}", e.dims, f.dims));
        }
        for i in 0..e.len() {
            let (a, b) = (e.f64_at(i), f.f64_at(i));
            if (a - b).abs() > 2e-4 * a.abs().max(1.0) && !(a.is_nan() && b.is_nan()) && a != b {
                return Some(format!("element {i}: {a} became {b}"));
            }
        }
    }
    None
}

fn text(graph: &Graph) -> String {
    let name = |v: &Option<ValueId>| v.map_or(String::new(), |v| graph.values[v].name.clone());
    let line = |n: &oaaxc_ir::NodeId| {
        let node = &graph.nodes[*n];
        let ty = node.outputs[0].map_or(String::new(), |v| graph.symbols.show_type(&graph.values[v].fact.ty));
        let inputs: Vec<String> = node.inputs.iter().map(name).collect();
        format!("  {} = {:?} {:?} ({})  {ty}", name(&node.outputs[0]), node.op, node.attributes, inputs.join(", "))
    };
    graph.root().nodes.iter().map(line).collect::<Vec<_>>().join("\n")
}

type Pass = (&'static str, fn(&mut Program));

const PASSES: [Pass; 5] = [
    ("lower", |_| ()),
    ("resolve", resolve::resolve),
    ("precompute", |p| _ = precompute::precompute(p)),
    ("fuse", |p| _ = fuse::fuse(p)),
    ("pack", |p| _ = pack::pack(p, 16)),
];

#[test]
fn every_pass_keeps_the_numbers_of_eval() {
    let (mut runs, mut wrong) = (0, Vec::new());
    for seed in 0..300 {
        let graph = random_graph(seed);
        let Ok(mut program) = lower::lower(&graph) else {
            wrong.push(format!("seed {seed} does not lower\n{}", text(&graph)));
            continue;
        };
        let mut cases = Vec::new();
        for (n, h) in [(1, 1), (2, 5), (1, 4)] {
            let tensors = inputs(&graph, n, h);
            let data: Vec<Datum> = tensors.iter().cloned().map(Datum::Tensor).collect();
            // Sizes that the operators refuse are no case, nor is an empty value: what a -1 of a Reshape
            // stands for is not defined there.
            let mut empty = false;
            let mut observe = |_, datum: &Datum| empty |= datum.as_tensor().is_some_and(Tensor::is_empty);
            let Ok(results) = eval::evaluate_observed(&graph, data, &mut observe) else { continue };
            if empty {
                continue;
            }
            cases.push((tensors, results.iter().map(|d| d.as_tensor().expect("a tensor").clone()).collect::<Vec<_>>()));
        }
        'passes: for (name, pass) in PASSES {
            pass(&mut program);
            for (tensors, expected) in &cases {
                runs += 1;
                let problem = match interpret::run(&program, tensors) {
                    Ok(found) => differs(expected, &found),
                    Err(e) => Some(format!("{e:?}")),
                };
                if let Some(problem) = problem {
                    wrong.push(format!("seed {seed}, {name}, {:?}: {problem}\n{}", tensors[0].dims, text(&graph)));
                    break 'passes;
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of 300 graphs are wrong, the first ones:\n{}",
        wrong.len(),
        wrong[..wrong.len().min(4)].join("\n")
    );
    assert!(runs > 2000, "the graphs run, here only {runs} did");
}

fn level(name: &'static str, space: Space, interned: &Interned) -> LevelSpec<'static> {
    let threads = if space == Space::Host { 0 } else { 64 };
    let entry = |i| LevelEntry { symbol: format!("k{i}"), groups: 1.into(), scratch: 0.into(), threads, generic: true };
    let count = interned.kernels_in(space).len();
    LevelSpec { name, object: format!("{name}.so"), space, entries: (0..count).map(entry).collect() }
}

#[test]
fn every_plan_is_placed_without_overlap() {
    let mut shared = 0;
    for seed in 0..100 {
        let graph = random_graph(seed);
        let Ok(mut program) = lower::lower(&graph) else { continue };
        PASSES.iter().for_each(|(_, pass)| pass(&mut program));
        let interned = intern::intern(&program);
        let levels = [level("only", Space::Host, &interned)];
        let host = encode(&program, &interned, &levels, "test", &mut Weights::default()).expect("it encodes");
        for (n, h) in [(1, 1), (2, 5), (3, 8)] {
            // Registers of input dims as a run binds them.
            let mut registers = vec![0; host.registers as usize];
            for input in &host.inputs {
                let oaax_abi::InputShape::Ranked(rules) = &input.shape else { continue };
                for rule in rules {
                    if let oaax_abi::DimBind::Bind(register) = rule.bind {
                        registers[register.index()] = if host.text(rule.symbol) == "N" { n } else { h };
                    }
                }
            }
            let bytes: Option<Vec<u64>> =
                host.plan.iter().map(|e| host.eval(e.bytes, &registers).ok().and_then(|b| u64::try_from(b).ok())).collect();
            // A size that the model refuses for these dims has no plan.
            let Some(bytes) = bytes else { continue };
            let placement = oaax_abi::place(&host.plan, &bytes).expect("small plans fit");
            oaax_abi::check_placement(&host.plan, &bytes, &placement).expect("no two live buffers share a byte");
            shared += u32::from(placement.totals[0] < bytes.iter().sum());
        }
    }
    assert!(shared > 20, "plans reuse memory, here only {shared} did");
}

/// Places at random: about one kernel of `share` stays on the host.
fn placed_at_random(program: &Program, seed: u64, share: usize) -> Program {
    let random = std::cell::RefCell::new(Random(seed.wrapping_mul(31) + 7));
    let mut placed = program.clone();
    place::place(&mut placed, &|_| match random.borrow_mut().below(share) {
        0 => Err("the die says so".into()),
        _ => Ok(()),
    });
    placed
}

#[test]
fn a_program_placed_at_random_gives_equal_numbers() {
    let (mut copies, mut runs) = (0, 0);
    for seed in 0..200 {
        let graph = random_graph(seed);
        let Ok(mut program) = lower::lower(&graph) else { continue };
        PASSES[..1 + seed as usize % 4].iter().for_each(|(_, pass)| pass(&mut program));
        for share in [1, 2, 4, 1000] {
            let placed = placed_at_random(&program, seed, share);
            place_check::check(&program, &placed).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{}", text(&graph)));
            placed.visit(&mut |instr| copies += usize::from(matches!(instr, Instr::Copy { .. })));
            for (n, h) in [(2, 5), (1, 4)] {
                let tensors = inputs(&graph, n, h);
                let Ok(expected) = interpret::run(&program, &tensors) else { continue };
                let found = interpret::run(&placed, &tensors).unwrap_or_else(|e| panic!("seed {seed}: {e:?}\n{}", text(&graph)));
                assert!(differs(&expected, &found).is_none(), "seed {seed}: the numbers differ\n{}", text(&graph));
                runs += 1;
            }
        }
    }
    assert!(copies > 1000 && runs > 800, "programs are placed and run, here {copies} copies and {runs} runs");
}

#[test]
fn a_placed_program_is_encoded_with_both_spaces() {
    let mut both = 0;
    for seed in 0..60 {
        let graph = random_graph(seed);
        let Ok(mut program) = lower::lower(&graph) else { continue };
        PASSES[..4].iter().for_each(|(_, pass)| pass(&mut program));
        let placed = placed_at_random(&program, seed, 2);
        let interned = intern::intern(&placed);
        let levels = [level("gfx942", Space::Device, &interned), level("x86-64-v2", Space::Host, &interned)];
        let host = encode(&placed, &interned, &levels, "test", &mut Weights::default()).expect("it encodes");
        let spaces = |space| host.kernels.iter().any(|kernel| kernel.space == space);
        both += usize::from(spaces(oaax_abi::Space::Host) && spaces(oaax_abi::Space::Device));
    }
    assert!(both > 20, "programs use both spaces, here {both} did");
}

#[test]
fn a_host_use_of_a_device_slot_is_caught() {
    let graph = random_graph(3);
    let program = lower::lower(&graph).expect("it lowers");
    let mut placed = program.clone();
    place::place(&mut placed, &|_| Ok(()));
    place_check::check(&program, &placed).expect("the placement is right");
    let first = placed.body.iter_mut().find_map(|instr| match instr {
        Instr::Launch(launch) => Some(launch),
        _ => None,
    });
    first.expect("there is a launch").space = Space::Host;
    let why = place_check::check(&program, &placed).expect_err("the launch is on the host, its slots are not");
    assert!(why.contains("lies in Device and is used in Host"), "{why}");
    let fault = interpret::run(&placed, &inputs(&graph, 1, 7)).expect_err("the interpreter refuses it too");
    assert!(fault.message.contains("lies in the memory of the Device"), "{}", fault.message);
}

#[test]
fn a_copy_that_is_missing_is_caught() {
    let mut caught = 0;
    for seed in 0..40 {
        let program = lower::lower(&random_graph(seed)).expect("it lowers");
        let placed = placed_at_random(&program, seed, 2);
        for at in 0..placed.body.len() {
            if matches!(placed.body[at], Instr::Copy { .. }) {
                let mut broken = placed.clone();
                broken.body.remove(at);
                assert!(place_check::check(&program, &broken).is_err(), "seed {seed}: without copy {at}");
                caught += 1;
            }
        }
    }
    assert!(caught > 100, "programs have copies, here {caught}");
}
