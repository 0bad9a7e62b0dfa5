//! Mathematical operators: elementwise, comparisons, logic, products, reductions.

mod arg_extreme;
mod binary;
mod clip;
mod cumulative;
mod det;
mod einsum;
pub mod gemm;
mod is_inf;
pub mod matmul;
mod power;
mod prelu;
mod random;
pub mod reduce;
mod unary;
mod variadic;

use oaaxc_ir::op::OpDef;

/// The operators of this group that stand alone.
pub static OPS: &[&OpDef] = &[
    &arg_extreme::ARG_MAX,
    &arg_extreme::ARG_MIN,
    &clip::CLIP,
    &clip::RELU,
    &cumulative::CUM_PROD,
    &cumulative::CUM_SUM,
    &einsum::EINSUM,
    &gemm::GEMM,
    &det::DET,
    &is_inf::IS_INF,
    &matmul::MATMUL,
    &power::POW,
    &prelu::PRELU,
    &variadic::MAX,
    &variadic::MEAN,
    &variadic::MIN,
    &variadic::SUM,
];

/// The families of this group, each a table in one file.
pub use binary::OPS as BINARY;
pub use random::OPS as RANDOM;
pub use reduce::OPS as REDUCE;
pub use unary::OPS as UNARY;
