//! One node, two oracles: `eval` on the graph and the interpreter on its kernels must agree.
#![allow(dead_code)] // each test file uses a part

use oaaxc_ir::edit::NewNode;
use oaaxc_ir::graph::{Attributes, Def, Graph};
use oaaxc_ir::types::Fact;
use oaaxc_ir::{Attribute, DType, Datum, Expr, Tensor, Type, eval, interpret, lower};

/// An input: a tensor under symbolic sizes (`"N"`) or numbers, or a hole.
pub type Input<'a> = Option<(Tensor, &'a [&'a str])>;

/// Builds a graph of one node with this many results, runs both oracles, compares, and returns the results.
pub fn check(domain: &str, op: &str, attributes: &[(&str, Attribute)], inputs: &[Input], results: usize) -> Vec<Tensor> {
    let mut graph = Graph::new(op);
    let mut operands = Vec::new();
    for (i, input) in inputs.iter().enumerate() {
        let Some((tensor, names)) = input else {
            operands.push(None);
            continue;
        };
        let root = graph.root;
        if names.is_empty() && tensor.rank() > 0 {
            operands.push(Some(graph.add_constant(format!("c{i}"), tensor.clone())));
            continue;
        }
        let dims = names.iter().map(|n| n.parse::<i64>().map_or_else(|_| Expr::sym(graph.symbols.named(n)), Expr::constant));
        let ty = Type::tensor(tensor.dtype, dims.collect());
        let value = graph.add_value(format!("x{i}"), Fact::of(ty), Def::Input(root));
        graph.blocks[root].inputs.push(value);
        operands.push(Some(value));
    }
    let attributes: Attributes = attributes.iter().map(|(n, a)| (n.to_string(), a.clone())).collect();
    let op = oaaxc_ops::find(domain, op).expect("the operator is in the table");
    let new = NewNode {
        op,
        opset: 28,
        attributes,
        inputs: operands,
        outputs: (0..results).map(|i| Some(format!("y{i}"))).collect(),
        blocks: vec![],
        origin: Default::default(),
    };
    let root = graph.root;
    let node = graph.append(root, new).expect("the node is valid");
    graph.blocks[root].outputs = graph.nodes[node].outputs.iter().flatten().copied().collect();

    let fed = inputs.iter().flatten().filter(|(t, names)| !names.is_empty() || t.rank() == 0);
    let tensors: Vec<Tensor> = fed.map(|(t, _)| t.clone()).collect();
    let expected = eval::evaluate(&graph, tensors.iter().cloned().map(Datum::from).collect()).expect("eval runs");
    let program = lower::lower(&graph).expect("it lowers");
    let found = interpret::run(&program, &tensors).expect("the kernels run");
    assert_eq!(expected.len(), found.len());
    for (r, (expected, found)) in expected.iter().zip(&found).enumerate() {
        let expected = expected.as_tensor().expect("a tensor");
        assert_eq!((&expected.dims, expected.dtype), (&found.dims, found.dtype), "result {r}");
        let largest = expected.to_f64s().into_iter().filter(|v| v.is_finite()).fold(1.0, |a: f64, v| a.max(v.abs()));
        for i in 0..expected.len() {
            let (e, f) = (expected.f64_at(i), found.f64_at(i));
            let same = e.is_nan() && f.is_nan() || e == f || (e - f).abs() <= 2e-6 * largest;
            assert!(same, "result {r}, element {i}: eval {e}, kernels {f}");
        }
    }
    found
}

/// A float tensor that is not symmetric in anything.
pub fn ramp(dims: &[usize]) -> Tensor {
    let n: usize = dims.iter().product();
    Tensor::from_f64s(DType::F32, dims.to_vec(), (0..n).map(|i| (i as f64 * 0.37).sin() * 3.0 + i as f64 * 0.01))
}

/// An integer tensor with many values.
pub fn scramble(dtype: DType, dims: &[usize]) -> Tensor {
    let n: i64 = dims.iter().product::<usize>() as i64;
    Tensor::from_i64s(dtype, dims.to_vec(), (0..n).map(|i| (i * 37 + 11) % 251))
}

/// An attribute of integers.
pub fn ints(values: &[i64]) -> Attribute {
    Attribute::Ints(values.to_vec())
}

/// An attribute of text.
pub fn text(value: &str) -> Attribute {
    Attribute::Text(value.as_bytes().to_vec())
}
