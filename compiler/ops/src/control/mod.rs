//! Control flow, sequences and optionals, and constants: what the host program does itself.
//!
//! `bodies` tells the importer, which must not know operators by name, how the inputs of a body are typed.

mod branch;
mod constant;
mod optional;
mod repeat;
mod scan;
mod scan_output;
mod sequence;
mod sequence_lowering;

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::graph::Attributes;
use oaaxc_ir::lower::{Arg, LowerCx};
use oaaxc_ir::op::OpDef;
use oaaxc_ir::types::Fact;
use oaaxc_ir::upgrade::UpgradeCx;
use oaaxc_ir::{Expr, Graph, Node, ReadAttributes, Tensor, Type, ValueId};

/// The operators of this group.
pub static OPS: &[&OpDef] = &[
    &constant::CONSTANT,
    &branch::IF,
    &repeat::LOOP,
    &scan::SCAN,
    &sequence::CONSTRUCT,
    &sequence::EMPTY,
    &sequence::AT,
    &sequence::INSERT,
    &sequence::ERASE,
    &sequence::LENGTH,
    &sequence::JOIN,
    &sequence::SPLIT,
    &sequence::MAP,
    &optional::OPTIONAL,
    &optional::GET,
    &optional::HAS,
];

/// How an operator's bodies hang on its operands.
pub struct Bodies {
    /// The graph attributes, in the order of `Node::blocks`.
    pub attributes: &'static [&'static str],
    /// What is known of the inputs of a body (all bodies of an operator have the same inputs), before it is imported.
    pub inputs: fn(&mut UpgradeCx) -> Result<Vec<Fact>, Diagnostic>,
    /// The only body that will run, where that is known (at import before any body is read, or after folding): it takes
    /// the node's place.
    pub decided: fn(&Graph, &Node) -> Option<usize>,
    /// (input, output) of the body that are one variable: the output is the input of the next iteration.
    pub carried: fn(&Node) -> Vec<(usize, usize)>,
}

/// The rule of an operator with bodies.
pub fn bodies(op: &OpDef) -> Option<&'static Bodies> {
    let rules: [(&OpDef, &'static Bodies); 4] = [
        (&branch::IF, &branch::IF_BODIES),
        (&repeat::LOOP, &repeat::LOOP_BODIES),
        (&scan::SCAN, &scan::SCAN_BODIES),
        (&sequence::MAP, &sequence::MAP_BODIES),
    ];
    rules.into_iter().find(|(owner, _)| std::ptr::eq(*owner, op)).map(|(_, rule)| rule)
}

/// The number of the only body of a node that will run, where that is known.
pub fn decided(graph: &Graph, node: &Node) -> Option<usize> {
    (bodies(node.op)?.decided)(graph, node)
}

/// The tensor of a node that only stands for one; `None` for every other operator.
pub fn constant(op: &OpDef, attributes: &Attributes) -> Option<Result<Tensor, Diagnostic>> {
    std::ptr::eq(op, &constant::CONSTANT).then(|| constant::value(attributes))
}

/// The internal attribute that remembers the first symbol made for a body: those after it belong to an iteration.
const FIRST_INNER: &str = "first_inner_symbol";

/// Whether a size is the same in every iteration: none of its symbols was made for the body.
fn is_outer(cx: &impl ReadAttributes, size: &Expr) -> bool {
    let first = cx.int(FIRST_INNER, i64::MAX).unwrap_or(i64::MAX);
    size.symbols().iter().all(|s| i64::from(s.0) < first)
}

/// Views for the results from `first` on; `None` for those that nobody asked for or that are known sizes.
fn result_views(cx: &mut LowerCx, first: usize) -> Result<Vec<Option<Arg>>, Diagnostic> {
    let mut views = Vec::new();
    for i in first..cx.node.outputs.len() {
        let known = cx.node.outputs[i].is_some_and(|v| cx.graph.values[v].fact.known.is_some());
        views.push(if known { None } else { cx.result_view(i)? });
    }
    Ok(views)
}

/// Gives the sizes of `value` that are symbols of its own the sizes of `from` at this point of the program.
fn define_fact(cx: &mut LowerCx, value: ValueId, from: ValueId) -> Result<(), Diagnostic> {
    let (to, from) = (cx.graph.values[value].fact.clone(), cx.graph.values[from].fact.clone());
    if let (Some(to), Some(from)) = (&to.known, &from.known) {
        define_all(cx, to, from)?;
    }
    if let (Type::Tensor(to), Type::Tensor(from)) = (&to.ty, &from.ty) {
        let (Some(to), Some(from)) = (&to.shape, &from.shape) else {
            return Err(cx.fail(Code::RANK, "the rank of a result is not known"));
        };
        define_all(cx, to, from)?;
    }
    Ok(())
}

fn define_all(cx: &mut LowerCx, to: &[Expr], from: &[Expr]) -> Result<(), Diagnostic> {
    for (to, from) in to.iter().zip(from).filter(|(to, from)| to != from) {
        cx.define(to, from.clone())?;
    }
    Ok(())
}
