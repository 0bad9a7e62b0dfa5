//! Quantisation: to integers and narrow floats and back, and products of integers.

mod convolutions;
pub mod dynamic;
mod linear;
pub mod products;
pub mod scheme;

use oaaxc_ir::op::OpDef;

/// The operators of this group.
pub static OPS: &[&OpDef] = &[
    &convolutions::CONV_INTEGER,
    &convolutions::QLINEAR_CONV,
    &dynamic::DYNAMIC_QUANTIZE,
    &linear::DEQUANTIZE,
    &linear::DEQUANTIZE_MICROSOFT,
    &linear::QUANTIZE,
    &linear::QUANTIZE_MICROSOFT,
    &products::MATMUL_INTEGER,
    &products::QLINEAR_MATMUL,
];
