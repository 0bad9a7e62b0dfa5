//! Operators that move, cut, join and index tensors.

mod transpose;

use oaaxc_ir::op::OpDef;

/// The operators of this group.
pub static OPS: &[&OpDef] = &[&transpose::TRANSPOSE];
