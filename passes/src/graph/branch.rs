//! Branches that are decided: where folding made the condition of a node a constant, the only body that
//! will run takes the node's place.
//!
//! Captures need no care, since all blocks share one arena of values. Results take the body's types,
//! which say more than what was true of either branch; what was inferred from them is inferred anew.

use std::collections::{BTreeMap, BTreeSet};

use oaaxc_ir::expr::{Expr, SymId};
use oaaxc_ir::graph::{BlockId, Def, Node};
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::{Fact, Graph, NodeId, Type, ValueId};

/// Which body of a node will run, where that is decided.
pub type Decided<'a> = dyn Fn(&Graph, &Node) -> Option<usize> + 'a;

/// Puts decided bodies in the place of their nodes, nested ones too; returns how many.
pub fn branch(graph: &mut Graph, decided: &Decided) -> usize {
    let mut count = 0;
    let mut refused = BTreeSet::new();
    while let Some((block, node, which)) = first(graph, graph.root, decided, &refused) {
        // What must be inferred anew may fail, and then all stays as it was.
        let mut changed = graph.clone();
        match inline(&mut changed, block, node, which) {
            Some(()) => {
                *graph = changed;
                count += 1;
            }
            None => drop(refused.insert(node)),
        }
    }
    count
}

/// The first decided node, outer ones first.
fn first(graph: &Graph, block: BlockId, decided: &Decided, refused: &BTreeSet<NodeId>) -> Option<(BlockId, NodeId, usize)> {
    for &id in &graph.blocks[block].nodes {
        let node = &graph.nodes[id];
        let which = decided(graph, node).filter(|which| *which < node.blocks.len() && !refused.contains(&id));
        if let Some(which) = which {
            return Some((block, id, which));
        }
        if let Some(found) = node.blocks.iter().find_map(|body| first(graph, *body, decided, refused)) {
            return Some(found);
        }
    }
    None
}

/// Puts a body in a node's place; `None` where that cannot be.
fn inline(graph: &mut Graph, block: BlockId, id: NodeId, which: usize) -> Option<()> {
    let node = graph.nodes[id].clone();
    let body = graph.blocks[node.blocks[which]].clone();
    if !body.inputs.is_empty() || body.outputs.len() != node.outputs.len() {
        return None;
    }
    let at = graph.blocks[block].nodes.iter().position(|n| *n == id)?;
    graph.blocks[block].nodes.splice(at..=at, body.nodes.iter().copied());
    // What the node would check is checked by the first node of the body.
    if let Some(first) = body.nodes.first() {
        graph.nodes[*first].checks.splice(0..0, node.checks.iter().cloned());
    } else if !node.checks.is_empty() {
        return None;
    }
    let mut changed = BTreeSet::new();
    for (old, new) in node.outputs.iter().zip(&body.outputs) {
        let Some(old) = *old else { continue };
        let new = named(graph, block, old, *new)?;
        learn(graph, old, new);
        // What more is known of elements, `refine` tells the nodes after it.
        if graph.values[old].fact.ty != graph.values[new].fact.ty {
            changed.insert(new);
        }
        graph.values[old].fact.ty = graph.values[new].fact.ty.clone();
        graph.replace_uses(old, new).ok()?;
    }
    infer_anew(graph, graph.root, &mut changed)
}

/// The value that takes a result's place, under the result's name where the model gives it out.
fn named(graph: &mut Graph, block: BlockId, old: ValueId, new: ValueId) -> Option<ValueId> {
    let is_output = |graph: &Graph, value: ValueId| graph.root().outputs.contains(&value);
    if block != graph.root || !is_output(graph, old) {
        return Some(new);
    }
    let name = graph.values[old].name.clone();
    match graph.values[new].def.clone() {
        // The constant may be an operand elsewhere.
        Def::Constant(tensor) => Some(graph.add_constant(name, tensor)),
        Def::Node(..) if !is_output(graph, new) => {
            graph.values[old].name = format!("{name}~");
            graph.values[new].name = name;
            Some(new)
        }
        _ => None,
    }
}

/// Sizes that were names of "what the branch gives" are now what this branch gives, everywhere.
fn learn(graph: &mut Graph, old: ValueId, new: ValueId) {
    let (old, new) = (graph.values[old].fact.clone(), graph.values[new].fact.clone());
    let mut map: BTreeMap<SymId, Expr> = BTreeMap::new();
    let mut pair = |old: &[Expr], new: &[Expr]| {
        for (name, size) in old.iter().zip(new).filter(|(name, size)| name != size) {
            let open = name.as_sym().filter(|s| !graph.symbols.table[*s].input && !size.symbols().contains(s));
            if let Some(symbol) = open {
                map.entry(symbol).or_insert_with(|| size.clone());
            }
        }
    };
    if let (Type::Tensor(old), Type::Tensor(new)) = (&old.ty, &new.ty)
        && let (Some(old), Some(new)) = (&old.shape, &new.shape)
        && old.len() == new.len()
    {
        pair(old, new);
    }
    if let (Some(old), Some(new)) = (&old.known, &new.known) {
        pair(old, new);
    }
    super::refine::know(graph, &map);
}

/// Infers all nodes whose operands have other facts than before. Bodies of loops are typed by their importer, together
/// with their nodes: what reaches those stays as it was, and `None` says so.
fn infer_anew(graph: &mut Graph, block: BlockId, changed: &mut BTreeSet<ValueId>) -> Option<()> {
    for id in graph.blocks[block].nodes.clone() {
        if changed.is_empty() {
            return Some(());
        }
        let mut used: Vec<ValueId> = graph.nodes[id].inputs.iter().flatten().copied().collect();
        graph.captures(id, &mut used);
        if !used.iter().any(|v| changed.contains(v)) {
            continue;
        }
        let node = graph.nodes[id].clone();
        if node.blocks.iter().any(|body| !graph.blocks[*body].inputs.is_empty()) {
            return None;
        }
        for &body in &node.blocks {
            infer_anew(graph, body, changed)?;
        }
        let mut symbols = graph.symbols.clone();
        let results = vec![None; node.outputs.len()];
        let mut cx = InferCx { symbols: &mut symbols, graph, node: &node, results, checks: Vec::new() };
        (node.op.infer)(&mut cx).ok()?;
        let InferCx { results, checks, .. } = cx;
        let fresh = node.outputs.iter().zip(results).filter_map(|(value, fact)| Some(((*value)?, fact?)));
        let fresh: Vec<(ValueId, Fact)> = fresh.filter(|(value, fact)| graph.values[*value].fact != *fact).collect();
        graph.symbols = symbols;
        graph.nodes[id].checks = checks;
        for (value, fact) in fresh {
            // A constant knows itself best.
            if graph.constant(value).is_none() {
                graph.refine(value, fact);
                changed.insert(value);
            }
        }
    }
    Some(())
}
