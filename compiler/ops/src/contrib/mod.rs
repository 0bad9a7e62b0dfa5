//! Operators of com.microsoft, as ONNX Runtime's optimiser and quantiser write them into models.

mod dynamic_quantize_lstm;
mod gelu;
mod products;
mod qlinear;

use oaaxc_ir::op::OpDef;

/// The operators of this group.
pub static OPS: &[&OpDef] = &[
    &dynamic_quantize_lstm::DYNAMIC_QUANTIZE_LSTM,
    &gelu::BIAS_GELU,
    &gelu::FAST_GELU,
    &gelu::GELU,
    &gelu::QUICK_GELU,
    &products::DYNAMIC_QUANTIZE_MATMUL,
    &products::FUSED_MATMUL,
    &products::MATMUL_INTEGER_TO_FLOAT,
    &products::MATMUL_N_BITS,
    &qlinear::QLINEAR_ADD,
    &qlinear::QLINEAR_LEAKY_RELU,
    &qlinear::QLINEAR_MUL,
    &qlinear::QLINEAR_SIGMOID,
];
