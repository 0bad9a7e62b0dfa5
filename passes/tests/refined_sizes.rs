//! A size that folding makes known is known everywhere: nothing is left that only a run would name.

use oaaxc_ir::edit::NewNode;
use oaaxc_ir::graph::{Def, Graph};
use oaaxc_ir::types::Fact;
use oaaxc_ir::{Attribute, DType, Expr, Tensor, Type, ValueId, interpret, lower};
use oaaxc_passes::graph::{fold, refine};

fn add(graph: &mut Graph, op: &str, attributes: &[(&str, Attribute)], inputs: &[ValueId]) -> ValueId {
    let new = NewNode {
        op: oaaxc_ops::find("", op).expect("the operator is in the table"),
        opset: 28,
        attributes: attributes.iter().map(|(n, a)| (n.to_string(), a.clone())).collect(),
        inputs: inputs.iter().map(|v| Some(*v)).collect(),
        outputs: vec![Some(format!("v{}", graph.values.len()))],
        blocks: vec![],
        origin: Default::default(),
    };
    let root = graph.root;
    let node = graph.append(root, new).expect("the node is valid");
    graph.nodes[node].outputs[0].expect("it has one result")
}

#[test]
fn pads_that_are_computed_from_constants() {
    let mut graph = Graph::new("padded");
    let root = graph.root;
    let dims = vec![Expr::sym(graph.symbols.named("N")), 3.into()];
    let x = graph.add_value("x", Fact::of(Type::tensor(DType::F32, dims)), Def::Input(root));
    graph.blocks[root].inputs.push(x);
    // Floats are no sizes, so the padded dims are open until folding runs the cast.
    let floats = graph.add_constant("pads", Tensor::from_f32s(vec![4], &[1.0, 0.0, 0.0, 2.0]));
    let pads = add(&mut graph, "Cast", &[("to", Attribute::Int(7))], &[floats]);
    let padded = add(&mut graph, "Pad", &[], &[x, pads]);
    let y = add(&mut graph, "Relu", &[], &[padded]);
    graph.blocks[root].outputs = vec![y];

    fold::fold(&mut graph, &|_| false);
    assert!(refine::refine(&mut graph) > 0);
    let shown = graph.symbols.show_type(&graph.values[y].fact.ty);
    assert_eq!(shown, "float[N+1,5]");
    assert_eq!(refine::refine(&mut graph), 0);

    let program = lower::lower(&graph).expect("it lowers");
    let x = Tensor::from_f32s(vec![1, 3], &[1.0, -2.0, 3.0]);
    let found = interpret::run(&program, &[x]).expect("it runs").remove(0);
    assert_eq!(found, Tensor::from_f32s(vec![2, 5], &[0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 3.0, 0.0, 0.0]));
}
