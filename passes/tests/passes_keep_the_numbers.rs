//! Every pass keeps the numbers: programs of random graphs give equal results before and after.

use oaaxc_ir::edit::NewNode;
use oaaxc_ir::graph::{Attributes, Def, Graph};
use oaaxc_ir::program::Program;
use oaaxc_ir::types::Fact;
use oaaxc_ir::{Attribute, DType, Expr, Tensor, Type, ValueId, interpret, lower};
use oaaxc_passes::kernel::{fuse, resolve};

/// A small generator of its own: the same graphs on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}

fn add(graph: &mut Graph, op: &str, attributes: &[(&str, Attribute)], inputs: &[ValueId], name: String) -> ValueId {
    let attributes: Attributes = attributes.iter().map(|(n, a)| (n.to_string(), a.clone())).collect();
    let new = NewNode {
        op: oaaxc_ops::find("", op).expect("the operator is in the table"),
        opset: 28,
        attributes,
        inputs: inputs.iter().map(|v| Some(*v)).collect(),
        outputs: vec![Some(name)],
        blocks: vec![],
        origin: oaaxc_base::Origin { operator: op.into(), ..Default::default() },
    };
    let root = graph.root;
    let node = graph.append(root, new).expect("the node is valid");
    graph.nodes[node].outputs[0].expect("it has one result")
}

/// A random chain of elementwise operators, transposes and softmaxes over [A, B] tensors with A = B in the data.
fn random_graph(seed: u64) -> Graph {
    let mut random = Random(seed);
    let mut graph = Graph::new("random");
    let root = graph.root;
    let mut values = Vec::new();
    for i in 0..2 {
        let dims = ["A", "A"].map(|n| Expr::sym(graph.symbols.named(n))).to_vec();
        let v = graph.add_value(format!("x{i}"), Fact::of(Type::tensor(DType::F32, dims)), Def::Input(root));
        graph.blocks[root].inputs.push(v);
        values.push(v);
    }
    for i in 0..3 + random.below(8) {
        let a = values[random.below(values.len() as u64) as usize];
        let b = values[values.len() - 1];
        let name = format!("v{i}");
        let v = match random.below(5) {
            0 => add(&mut graph, "Transpose", &[], &[b], name),
            1 => add(&mut graph, "Softmax", &[("axis", Attribute::Int(random.below(2) as i64))], &[b], name),
            2 => add(&mut graph, "Mul", &[], &[a, b], name),
            3 => add(&mut graph, "Sub", &[], &[a, b], name),
            _ => add(&mut graph, "Add", &[], &[a, b], name),
        };
        values.push(v);
    }
    graph.blocks[root].outputs = vec![values[values.len() - 1]];
    if random.below(3) == 0 {
        let middle = values[values.len() / 2];
        graph.blocks[root].outputs.push(middle);
    }
    graph
}

fn run(program: &Program, size: usize) -> Vec<Tensor> {
    let input = |k: f64| Tensor::from_f64s(DType::F32, vec![size, size], (0..size * size).map(|i| (i as f64 * k).sin()));
    interpret::run(program, &[input(0.7), input(1.3)]).expect("the program runs")
}

#[test]
fn fusion_of_random_chains() {
    let mut saved = 0;
    for seed in 0..200 {
        let graph = random_graph(seed);
        let plain = lower::lower(&graph).expect("it lowers");
        let mut fused = plain.clone();
        resolve::resolve(&mut fused);
        saved += fuse::fuse(&mut fused);
        for size in [1, 3] {
            for (expected, found) in run(&plain, size).iter().zip(run(&fused, size)) {
                for i in 0..expected.len() {
                    let (e, f) = (expected.f64_at(i), found.f64_at(i));
                    assert!((e - f).abs() <= 1e-5 * e.abs().max(1.0), "seed {seed}: {e} became {f}");
                }
            }
        }
    }
    assert!(saved > 200, "fusion saves kernels, here only {saved}");
}

/// A table of small integers, widened whole and then gathered from.
fn gathered_table() -> Graph {
    let mut graph = Graph::new("table");
    let root = graph.root;
    let (rows, n) = (graph.symbols.named("R"), graph.symbols.named("N"));
    let input = |graph: &mut Graph, name: &str, dtype, dims: Vec<Expr>| {
        let v = graph.add_value(name.to_string(), Fact::of(Type::tensor(dtype, dims)), Def::Input(root));
        graph.blocks[root].inputs.push(v);
        v
    };
    let table = input(&mut graph, "table", DType::I8, vec![Expr::sym(rows), 4.into()]);
    let positions = input(&mut graph, "positions", DType::I64, vec![Expr::sym(n)]);
    let wide = add(&mut graph, "Cast", &[("to", Attribute::Int(1))], &[table], "wide".into());
    let signed = add(&mut graph, "Neg", &[], &[wide], "signed".into());
    let y = add(&mut graph, "Gather", &[], &[signed, positions], "y".into());
    graph.blocks[root].outputs.push(y);
    graph
}

#[test]
fn only_the_rows_that_are_asked_for_are_widened_and_a_wrong_position_still_names_the_gather() {
    let graph = gathered_table();
    let mut program = lower::lower(&graph).expect("it lowers");
    resolve::resolve(&mut program);
    fuse::fuse(&mut program);
    assert_eq!(program.launches().len(), 1, "one kernel");
    assert_eq!(&*program.launches()[0].origins[0].operator, "Gather");
    let table = Tensor::from_scalars(DType::I8, vec![3, 4], (0..12).map(|i| oaaxc_ir::Scalar::from_i64(i).cast(DType::I8)));
    let run = |positions: &[i64]| {
        let list = positions.iter().map(|p| oaaxc_ir::Scalar::from_i64(*p));
        let positions = Tensor::from_scalars(DType::I64, vec![positions.len()], list);
        interpret::run(&program, &[table.clone(), positions])
    };
    let y = run(&[2, -3]).expect("both rows exist");
    let found: Vec<f64> = y[0].scalars().map(|s| s.as_f64()).collect();
    assert_eq!(found, [-8.0, -9.0, -10.0, -11.0, 0.0, -1.0, -2.0, -3.0]);
    assert!(run(&[3]).is_err(), "there is no row 3");
}
