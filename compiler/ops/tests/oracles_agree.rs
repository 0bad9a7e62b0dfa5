//! Each operator's two oracles agree: `eval` on the graph, and the interpreter on its kernels.

use oaaxc_ir::edit::NewNode;
use oaaxc_ir::graph::{Attributes, Def, Graph};
use oaaxc_ir::types::Fact;
use oaaxc_ir::{Attribute, DType, Datum, Expr, Tensor, Type, eval, interpret, lower};

/// Builds a graph of one node over inputs of these symbolic shapes, runs both oracles, and compares.
fn check(op: &str, attributes: &[(&str, Attribute)], inputs: &[(Tensor, &[&str])]) -> Tensor {
    let mut graph = Graph::new(op);
    let mut operands = Vec::new();
    for (i, (tensor, names)) in inputs.iter().enumerate() {
        let dims = names.iter().map(|n| n.parse::<i64>().map_or_else(|_| Expr::sym(graph.symbols.named(n)), Expr::constant));
        let ty = Type::tensor(tensor.dtype, dims.collect());
        let root = graph.root;
        let value = graph.add_value(format!("x{i}"), Fact::of(ty), Def::Input(root));
        graph.blocks[root].inputs.push(value);
        operands.push(Some(value));
    }
    let attributes: Attributes = attributes.iter().map(|(n, a)| (n.to_string(), a.clone())).collect();
    let op = oaaxc_ops::find("", op).expect("the operator is in the table");
    let new = NewNode {
        op,
        opset: 28,
        attributes,
        inputs: operands,
        outputs: vec![Some("y".into())],
        blocks: vec![],
        origin: Default::default(),
    };
    let root = graph.root;
    let node = graph.append(root, new).expect("the node is valid");
    let outputs = graph.nodes[node].outputs.iter().flatten().copied().collect();
    graph.blocks[root].outputs = outputs;

    let data: Vec<Datum> = inputs.iter().map(|(t, _)| t.clone().into()).collect();
    let expected = eval::evaluate(&graph, data).expect("eval runs").remove(0);
    let program = lower::lower(&graph).expect("it lowers");
    let tensors: Vec<Tensor> = inputs.iter().map(|(t, _)| t.clone()).collect();
    let found = interpret::run(&program, &tensors).expect("the kernels run").remove(0);
    let expected = expected.as_tensor().expect("a tensor").clone();
    assert_eq!((&expected.dims, expected.dtype), (&found.dims, found.dtype));
    for i in 0..expected.len() {
        let (e, f) = (expected.f64_at(i), found.f64_at(i));
        assert!((e - f).abs() <= 1e-6 * e.abs().max(1.0), "element {i}: eval {e}, kernels {f}");
    }
    found
}

fn ramp(dims: &[usize]) -> Tensor {
    let n: usize = dims.iter().product();
    Tensor::from_f64s(DType::F32, dims.to_vec(), (0..n).map(|i| (i as f64 * 0.37).sin() * 3.0))
}

#[test]
fn add_broadcasts_symbolic_shapes() {
    let y = check("Add", &[], &[(ramp(&[2, 3]), &["N", "3"]), (ramp(&[3]), &["3"])]);
    assert_eq!(y.dims, [2, 3]);
    // A size that may be 1 at run time.
    let y = check("Mul", &[], &[(ramp(&[2, 3]), &["N", "M"]), (ramp(&[1, 3]), &["K", "M"])]);
    assert_eq!(y.dims, [2, 3]);
}

#[test]
fn transpose_of_symbolic_dims() {
    let y = check("Transpose", &[("perm", Attribute::Ints(vec![2, 0, 1]))], &[(ramp(&[2, 3, 4]), &["A", "B", "C"])]);
    assert_eq!(y.dims, [4, 2, 3]);
}

#[test]
fn softmax_over_a_middle_axis_and_flattened() {
    check("Softmax", &[("axis", Attribute::Int(1))], &[(ramp(&[2, 5, 3]), &["N", "C", "3"])]);
    check("Softmax", &[("axis", Attribute::Int(1)), ("flatten", Attribute::Int(1))], &[(ramp(&[2, 5, 3]), &["N", "C", "3"])]);
}
