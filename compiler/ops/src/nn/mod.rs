//! Neural-network operators: convolution, pooling, normalisation, recurrence, attention.

mod softmax;

use oaaxc_ir::op::OpDef;

/// The operators of this group.
pub static OPS: &[&OpDef] = &[&softmax::SOFTMAX];
