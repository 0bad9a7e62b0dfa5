//! Operators that move, cut, join and index tensors.

mod cache_update;
mod cast;
mod cast_rules;
mod choose;
pub(crate) mod concat;
mod depth_space;
mod expand;
mod fill;
mod gather;
mod gather_elements;
mod one_hot;
mod pad;
mod range;
mod reshape;
mod resize;
mod reverse_sequence;
mod scatter;
mod select_where;
mod shape_of;
mod slice;
mod split;
mod top_k;
mod transpose;
mod triangle;
mod unique;

pub use cast::named_type;
pub use gather::{checked_index, wrapped};
pub use select_where::count_true;

use oaaxc_ir::op::OpDef;

/// The operators of this group.
pub static OPS: &[&OpDef] = &[
    &cache_update::TENSOR_SCATTER,
    &cast::BIT_CAST,
    &cast::CAST,
    &cast::CAST_LIKE,
    &choose::WHERE,
    &concat::CONCAT,
    &depth_space::DEPTH_TO_SPACE,
    &depth_space::SPACE_TO_DEPTH,
    &expand::EXPAND,
    &expand::TILE,
    &fill::CONSTANT_OF_SHAPE,
    &gather::GATHER,
    &gather_elements::GATHER_ELEMENTS,
    &gather_elements::GATHER_ND,
    &one_hot::ONE_HOT,
    &pad::PAD,
    &range::RANGE,
    &resize::RESIZE,
    &resize::UPSAMPLE,
    &reverse_sequence::REVERSE_SEQUENCE,
    &scatter::SCATTER,
    &scatter::SCATTER_ELEMENTS,
    &scatter::SCATTER_ND,
    &select_where::COMPRESS,
    &select_where::NON_ZERO,
    &reshape::FLATTEN,
    &reshape::IDENTITY,
    &reshape::RESHAPE,
    &reshape::SQUEEZE,
    &reshape::UNSQUEEZE,
    &shape_of::SHAPE,
    &shape_of::SIZE,
    &slice::SLICE,
    &split::SPLIT,
    &top_k::TOP_K,
    &transpose::TRANSPOSE,
    &triangle::EYE_LIKE,
    &triangle::TRILU,
    &unique::UNIQUE,
];
