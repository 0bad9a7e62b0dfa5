//! Operators that move, cut, join and index tensors.

mod cast;
mod cast_rules;
mod choose;
pub(crate) mod concat;
mod constant;
mod expand;
mod gather;
mod pad;
mod range;
mod reshape;
mod shape_of;
mod slice;
mod split;
mod transpose;

use oaaxc_ir::op::OpDef;

/// The operators of this group.
pub static OPS: &[&OpDef] = &[
    &cast::BIT_CAST,
    &cast::CAST,
    &cast::CAST_LIKE,
    &choose::WHERE,
    &concat::CONCAT,
    &constant::CONSTANT,
    &constant::CONSTANT_OF_SHAPE,
    &expand::EXPAND,
    &expand::TILE,
    &gather::GATHER,
    &pad::PAD,
    &range::RANGE,
    &reshape::FLATTEN,
    &reshape::IDENTITY,
    &reshape::RESHAPE,
    &reshape::SQUEEZE,
    &reshape::UNSQUEEZE,
    &shape_of::SHAPE,
    &shape_of::SIZE,
    &slice::SLICE,
    &split::SPLIT,
    &transpose::TRANSPOSE,
];
