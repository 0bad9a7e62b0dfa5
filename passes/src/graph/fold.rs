//! Constant folding: nodes whose operands are constants are evaluated now, within a budget.
//!
//! The budget keeps small models small: a result larger than its operands and than
//! `BUDGET_ELEMENTS` stays a node (an `Expand` of a scalar to gigabytes is not a constant).
//! Random operators never fold: they are not functions of their operands.

use oaaxc_base::SideTable;
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::graph::{Def, Node, constant_fact};
use oaaxc_ir::{Datum, Graph, NodeId, Tensor, ValueId};

/// Most elements of operands and results together that folding evaluates.
pub const BUDGET_ELEMENTS: usize = 1 << 22;

/// Folds; `is_random` says which nodes must not be. Returns how many nodes became constants.
pub fn fold(graph: &mut Graph, is_random: &dyn Fn(&Node) -> bool) -> usize {
    let mut folded = 0;
    let mut constant: SideTable<ValueId, bool> = SideTable::new(false);
    for id in graph.listed_nodes() {
        if is_random(&graph.nodes[id]) {
            continue;
        }
        let Some(results) = evaluate(graph, id) else { continue };
        let outputs = graph.nodes[id].outputs.clone();
        for (value, datum) in outputs.iter().zip(results) {
            if let (Some(value), Datum::Tensor(tensor)) = (value, datum) {
                let fact = constant_fact(&tensor);
                graph.refine(*value, fact);
                graph.values[*value].def = Def::Constant(tensor);
                constant.set(*value, true);
            }
        }
        folded += 1;
    }
    // A node all of whose results became constants is unlisted.
    let done = |graph: &Graph, n: NodeId| graph.nodes[n].outputs.iter().flatten().all(|v| constant[*v]);
    for block in graph.blocks.ids() {
        let nodes: Vec<NodeId> = graph.blocks[block].nodes.iter().copied().filter(|n| !done(graph, *n)).collect();
        graph.blocks[block].nodes = nodes;
    }
    folded
}

/// The results, where every operand is a constant and the budget holds.
pub(crate) fn evaluate(graph: &Graph, id: NodeId) -> Option<Vec<Datum>> {
    let node = &graph.nodes[id];
    if !node.blocks.is_empty() {
        return None;
    }
    let mut inputs = Vec::new();
    let mut elements = 0usize;
    for input in &node.inputs {
        match input {
            None => inputs.push(None),
            Some(value) => {
                let tensor = graph.constant(*value).cloned().or_else(|| known_tensor(graph, *value))?;
                elements = elements.saturating_add(tensor.len());
                inputs.push(Some(Datum::Tensor(tensor)));
            }
        }
    }
    for value in node.outputs.iter().flatten() {
        let shape = graph.values[*value].fact.ty.as_tensor()?.shape.as_ref()?;
        let mut size = 1usize;
        for dim in shape {
            // A size that only the data gives is bounded by the operands here.
            size = size.saturating_mul(dim.as_const().map_or(elements, |d| usize::try_from(d).unwrap_or(usize::MAX)));
        }
        elements = elements.saturating_add(size);
    }
    if elements > BUDGET_ELEMENTS {
        return None;
    }
    let run_block = |_, _| Err(oaaxc_base::Diagnostic::error(oaaxc_base::Code::INTERNAL, "nodes with bodies are not folded"));
    let cx = EvalCx { graph, node, inputs, run_block: &run_block };
    // A fault at run time is for the run to report, not for the build.
    (node.op.eval)(&cx).ok()
}

/// A value whose elements inference found to be numbers: the shape of a tensor of fixed sizes.
fn known_tensor(graph: &Graph, value: ValueId) -> Option<Tensor> {
    let fact = &graph.values[value].fact;
    let ty = fact.ty.as_tensor()?;
    let elements: Vec<i64> = fact.known.as_ref()?.iter().map(|e| e.as_const()).collect::<Option<_>>()?;
    let size = |e: &oaaxc_ir::Expr| e.as_const().and_then(|d| usize::try_from(d).ok());
    let dims: Vec<usize> = ty.shape.as_ref()?.iter().map(size).collect::<Option<_>>()?;
    (dims.iter().product::<usize>() == elements.len()).then(|| Tensor::from_i64s(ty.dtype, dims, elements))
}

#[cfg(test)]
mod tests {
    use super::*;
    use oaaxc_ir::edit::NewNode;
    use oaaxc_ir::{DType, Fact, Type};

    #[test]
    fn what_hangs_on_the_shape_of_fixed_sizes_folds() {
        let mut graph = Graph::new("shape");
        let root = graph.root;
        let ty = Type::tensor(DType::F32, vec![2.into(), 3.into()]);
        let x = graph.add_value("x", Fact::of(ty), Def::Input(root));
        graph.blocks[root].inputs.push(x);
        let mut value = x;
        for (op, dtype) in [("Shape", None), ("Cast", Some(1))] {
            let attributes = dtype.map(|to| ("to".to_string(), oaaxc_ir::Attribute::Int(to))).into_iter().collect();
            let op = oaaxc_ops::find("", op).expect("in the table");
            let (inputs, outputs) = (vec![Some(value)], vec![Some(op.name.to_string())]);
            let new = NewNode { op, opset: 28, attributes, inputs, outputs, blocks: vec![], origin: Default::default() };
            let node = graph.append(root, new).expect("valid");
            value = graph.nodes[node].outputs[0].expect("one result");
        }
        graph.blocks[root].outputs.push(value);
        fold(&mut graph, &|_| false);
        assert_eq!(graph.constant(value).map(Tensor::to_f64s), Some(vec![2.0, 3.0]));
    }
}
