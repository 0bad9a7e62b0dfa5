//! Sizes that were open when a node entered the graph and are known now: folding turns the operand
//! that named them into a constant, and every fact that mentions them learns it.
//!
//! Without this pass a size would stay a name that nobody computes, since lowering rightly computes
//! only what is not known.

use std::collections::BTreeMap;

use oaaxc_base::EntityId;
use oaaxc_ir::expr::{Expr, SymId};
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::{Fact, Graph, NodeId, Type};

/// Refines; returns how many sizes became known.
pub fn refine(graph: &mut Graph) -> usize {
    let mut map: BTreeMap<SymId, Expr> = BTreeMap::new();
    for id in graph.listed_nodes() {
        for (value, fact) in inferred(graph, id) {
            let mut own = graph.values[value].fact.clone();
            learn(graph, &own, &fact, &mut map);
            if own.known.is_none() && fact.known.is_some() {
                own.known = fact.known;
                graph.refine(value, own);
            }
        }
    }
    know(graph, &map);
    map.len()
}

/// Every fact and every check that mentions one of these sizes learns what it is.
pub(super) fn know(graph: &mut Graph, map: &BTreeMap<SymId, Expr>) {
    if map.is_empty() {
        return;
    }
    let know = |e: &Expr| e.substitute(&|s| map.get(&s).cloned().unwrap_or(Expr::sym(s)), &Expr::axis);
    for (_, value) in graph.values.iter_mut() {
        rewrite(&mut value.fact.ty, &know);
        value.fact.known.iter_mut().flatten().for_each(|e| *e = know(e));
    }
    for (_, node) in graph.nodes.iter_mut() {
        node.checks.iter_mut().for_each(|check| check.holds = know(&check.holds));
    }
}

/// What inference says of a node's results today, as far as it needs no new names.
fn inferred(graph: &Graph, id: NodeId) -> Vec<(oaaxc_ir::ValueId, Fact)> {
    let node = &graph.nodes[id];
    // The facts of bodies were found together with their node's.
    if !node.blocks.is_empty() {
        return Vec::new();
    }
    let mut symbols = graph.symbols.clone();
    let first_new = symbols.table.len();
    let results = vec![None; node.outputs.len()];
    let mut cx = InferCx { symbols: &mut symbols, graph, node, results, checks: Vec::new() };
    // What fails now failed then, or is for the run to say.
    if (node.op.infer)(&mut cx).is_err() {
        return Vec::new();
    }
    let is_old = |e: &Expr| e.symbols().iter().all(|s| s.index() < first_new);
    let mut all = Vec::new();
    for (value, fact) in node.outputs.iter().zip(cx.results) {
        if let (Some(value), Some(mut fact)) = (value, fact) {
            fact.known = fact.known.filter(|known| known.iter().all(is_old));
            all.push((*value, fact));
        }
    }
    all
}

/// Pairs the names of the old sizes with what they are.
fn learn(graph: &Graph, old: &Fact, new: &Fact, map: &mut BTreeMap<SymId, Expr>) {
    let (Type::Tensor(old), Type::Tensor(new)) = (&old.ty, &new.ty) else { return };
    let (Some(old), Some(new)) = (&old.shape, &new.shape) else { return };
    if old.len() != new.len() {
        return;
    }
    for (name, size) in old.iter().zip(new) {
        let Some(symbol) = name.as_sym() else { continue };
        let size = size.substitute(&|s| map.get(&s).cloned().unwrap_or(Expr::sym(s)), &Expr::axis);
        let is_open = !graph.symbols.table[symbol].input && !map.contains_key(&symbol);
        let says_more = size.symbols().iter().all(|s| s.index() < symbol.index());
        if is_open && says_more {
            map.insert(symbol, size);
        }
    }
}

fn rewrite(ty: &mut Type, know: &dyn Fn(&Expr) -> Expr) {
    match ty {
        Type::Tensor(t) => t.shape.iter_mut().flatten().for_each(|e| *e = know(e)),
        Type::Sequence(inner) | Type::Optional(inner) | Type::Map(_, inner) => rewrite(inner, know),
    }
}
