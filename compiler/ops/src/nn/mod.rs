//! Neural-network operators: convolution, pooling, normalisation, recurrence, attention.

pub mod conv;
mod pool;
mod softmax;
pub mod window;

use oaaxc_ir::op::OpDef;

/// The operators of this group.
pub static OPS: &[&OpDef] = &[
    &conv::CONV,
    &pool::AVERAGE_POOL,
    &pool::GLOBAL_AVERAGE_POOL,
    &pool::GLOBAL_LP_POOL,
    &pool::GLOBAL_MAX_POOL,
    &pool::LP_POOL,
    &pool::MAX_POOL,
    &softmax::SOFTMAX,
];
