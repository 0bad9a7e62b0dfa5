//! The open operator table: one file per operator or family, in ONNX's own groups.
//!
//! Adding an operator costs its file and its line in the group's list. Nothing outside this crate
//! matches on an operator's name. `schema` and `functions` are generated from the ONNX package by
//! `scripts/make-schema`.

mod broadcast;
pub mod contrib;
pub mod control;
mod formula;
#[rustfmt::skip]
pub mod functions;
pub mod math;
pub mod ml;
pub mod nn;
pub mod precision;
pub mod quantization;
pub mod sampling;
#[rustfmt::skip]
pub mod schema;
pub mod schema_types;
mod sizes;
pub mod tensor;
pub mod text;

use oaaxc_ir::op::OpDef;

/// Every group, each a list of operators.
static GROUPS: &[&[&OpDef]] = &[
    contrib::OPS,
    control::OPS,
    math::OPS,
    math::BINARY,
    math::RANDOM,
    math::REDUCE,
    math::UNARY,
    ml::OPS,
    nn::OPS,
    quantization::OPS,
    sampling::OPS,
    tensor::OPS,
    text::OPS,
];

/// Every operator, in the order of the groups.
pub fn all() -> impl Iterator<Item = &'static OpDef> {
    GROUPS.iter().flat_map(|group| group.iter().copied())
}

/// The operator with this domain (`""` or `ai.onnx` for the default one) and name.
pub fn find(domain: &str, name: &str) -> Option<&'static OpDef> {
    let domain = if domain == "ai.onnx" { "" } else { domain };
    all().find(|op| op.domain == domain && op.name == name)
}
