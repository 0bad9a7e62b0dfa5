//! Mathematical operators: elementwise, comparisons, logic, products, reductions.

mod binary;

use oaaxc_ir::op::OpDef;

/// The operators of this group.
pub static OPS: &[&OpDef] = &[&binary::ADD, &binary::SUB, &binary::MUL];
