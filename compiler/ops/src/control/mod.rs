//! Control flow, sequences and optionals, and constants: what the host program does itself.
//!
//! `bodies` tells the importer, which must not know operators by name, how the inputs of a body are typed.

mod constant;

use oaaxc_base::Diagnostic;
use oaaxc_ir::graph::Attributes;
use oaaxc_ir::op::OpDef;
use oaaxc_ir::types::Fact;
use oaaxc_ir::upgrade::UpgradeCx;
use oaaxc_ir::{Node, Tensor};

/// The operators of this group.
pub static OPS: &[&OpDef] = &[&constant::CONSTANT];

/// How an operator's bodies hang on its operands.
pub struct Bodies {
    /// The graph attributes, in the order of `Node::blocks`.
    pub attributes: &'static [&'static str],
    /// What is known of the inputs of a body (all bodies of an operator have the same inputs), before it is imported.
    pub inputs: fn(&mut UpgradeCx) -> Result<Vec<Fact>, Diagnostic>,
    /// (input, output) of the body that are one variable: the output is the input of the next iteration.
    pub carried: fn(&Node) -> Vec<(usize, usize)>,
}

/// The rule of an operator with bodies.
pub fn bodies(op: &OpDef) -> Option<&'static Bodies> {
    let _ = op;
    None
}

/// The tensor of a node that only stands for one; `None` for every other operator.
pub fn constant(op: &OpDef, attributes: &Attributes) -> Option<Result<Tensor, Diagnostic>> {
    std::ptr::eq(op, &constant::CONSTANT).then(|| constant::value(attributes))
}
