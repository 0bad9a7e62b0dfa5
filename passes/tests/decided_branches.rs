//! A branch that folding decides takes its node's place, with what follows typed by it.

use std::collections::BTreeMap;

use oaaxc_ir::edit::NewNode;
use oaaxc_ir::graph::{BlockId, Def, Graph};
use oaaxc_ir::types::Fact;
use oaaxc_ir::{DType, Expr, Tensor, Type, ValueId, eval};
use oaaxc_passes::graph::{branch, dead, fold};

fn add(graph: &mut Graph, block: BlockId, op: &str, inputs: &[ValueId], blocks: Vec<BlockId>, name: &str) -> ValueId {
    let new = NewNode {
        op: oaaxc_ops::find("", op).expect("the operator is in the table"),
        opset: 28,
        attributes: BTreeMap::new(),
        inputs: inputs.iter().map(|v| Some(*v)).collect(),
        outputs: vec![Some(name.to_string())],
        blocks,
        origin: Default::default(),
    };
    let node = graph.append(block, new).expect("the node is valid");
    graph.nodes[node].outputs[0].expect("it has one result")
}

fn input(graph: &mut Graph, name: &str, sizes: &[&str]) -> ValueId {
    let dims = sizes.iter().map(|n| n.parse::<i64>().map_or_else(|_| Expr::sym(graph.symbols.named(n)), Expr::constant));
    let ty = Type::tensor(DType::F32, dims.collect());
    let root = graph.root;
    let value = graph.add_value(name, Fact::of(ty), Def::Input(root));
    graph.blocks[root].inputs.push(value);
    value
}

/// A condition that only folding knows: a comparison of floats.
fn condition(graph: &mut Graph, holds: bool) -> ValueId {
    let root = graph.root;
    let a = graph.add_constant("a", Tensor::from_f32s(vec![], &[1.0]));
    let b = graph.add_constant("b", Tensor::from_f32s(vec![], &[if holds { 2.0 } else { 0.0 }]));
    add(graph, root, "Less", &[a, b], vec![], "condition")
}

#[test]
fn either_branch_with_captures_and_the_output_name() {
    for holds in [true, false] {
        let mut graph = Graph::new("if");
        let root = graph.root;
        let x = input(&mut graph, "x", &["N", "1", "2"]);
        let c = condition(&mut graph, holds);
        let bodies = ["Neg", "Squeeze"].map(|op| {
            let body = graph.blocks.push(Default::default());
            // The second branch has another rank: an inner If over the same condition, and a squeeze.
            let axes = graph.add_constant("axes", Tensor::from_i64s(DType::I64, vec![1], [1]));
            let inputs = if op == "Neg" { vec![x] } else { vec![x, axes] };
            let y = add(&mut graph, body, op, &inputs, vec![], op);
            graph.blocks[body].outputs = vec![y];
            body
        });
        let chosen = add(&mut graph, root, "If", &[c], bodies.to_vec(), "chosen");
        let y = add(&mut graph, root, "Abs", &[chosen], vec![], "y");
        graph.blocks[root].outputs = vec![y, chosen];

        let given = Tensor::from_f32s(vec![2, 1, 2], &[1.0, -2.0, 3.0, -4.0]);
        let before = eval::evaluate(&graph, vec![given.clone().into()]).expect("it runs");
        fold::fold(&mut graph, &|_| false);
        assert_eq!(branch::branch(&mut graph, &oaaxc_ops::control::decided), 1);
        dead::dead(&mut graph);
        assert_eq!(eval::evaluate(&graph, vec![given.into()]).expect("it runs"), before);
        let outputs: Vec<&str> = graph.root().outputs.iter().map(|v| graph.values[*v].name.as_str()).collect();
        assert_eq!(outputs, ["y", "chosen"]);
        let shown = graph.symbols.show_type(&graph.values[graph.root().outputs[0]].fact.ty);
        assert_eq!(shown, if holds { "float[N,1,2]" } else { "float[N,2]" });
        assert_eq!(graph.listed_nodes().len(), 2);
    }
}

#[test]
fn a_size_that_either_branch_could_give_is_the_chosen_ones_everywhere() {
    let mut graph = Graph::new("if");
    let root = graph.root;
    let (x, z) = (input(&mut graph, "x", &["N", "2"]), input(&mut graph, "z", &["M", "2"]));
    let c = condition(&mut graph, false);
    let inner = [x, z].map(|v| {
        let body = graph.blocks.push(Default::default());
        let y = add(&mut graph, body, "Neg", &[v], vec![], "inner");
        graph.blocks[body].outputs = vec![y];
        body
    });
    let outer = graph.blocks.push(Default::default());
    let nested = add(&mut graph, outer, "If", &[c], inner.to_vec(), "nested");
    graph.blocks[outer].outputs = vec![nested];
    let other = graph.blocks.push(Default::default());
    graph.blocks[other].outputs = vec![nested];
    let chosen = add(&mut graph, root, "If", &[c], vec![other, outer], "chosen");
    let y = add(&mut graph, root, "Abs", &[chosen], vec![], "y");
    graph.blocks[root].outputs = vec![y];

    fold::fold(&mut graph, &|_| false);
    assert_eq!(branch::branch(&mut graph, &oaaxc_ops::control::decided), 2);
    assert_eq!(graph.symbols.show_type(&graph.values[y].fact.ty), "float[M,2]");
}
