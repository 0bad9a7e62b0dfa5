//! PRelu. ONNX: "f(x) = slope * x for x < 0, f(x) = x for x >= 0"; the slope broadcasts to the data in one direction.
//!
//! Before 7 a slope of one dim belonged to the channels (dim 1); it is kept as the internal attribute `axis`.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::graph::Attribute;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::BinaryOp;
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef};
use oaaxc_ir::upgrade::UpgradeCx;
use oaaxc_ir::{Datum, ReadAttributes, ReadOperands, Scalar};

use crate::broadcast::broadcast_map;
use crate::formula::compute_type;
use crate::math::binary;

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static PRELU: OpDef = OpDef { name: "PRelu", domain: "", upgrade, infer, eval, lower: Lower::Kernels(lower) };

fn upgrade(cx: &mut UpgradeCx) -> Result<()> {
    if cx.version < 7 && cx.rank(1)? == 1 && cx.rank(0)? > 1 && cx.constant(1).is_none_or(|t| t.len() != 1) {
        cx.set("axis", Attribute::Int(1));
    }
    Ok(())
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (cx.dtype(0)?, cx.shape(0)?);
    if cx.rank(1)? > shape.len() {
        return Err(cx.fail(Code::RANK, "the slope has more dims than the data"));
    }
    if !cx.has("axis") {
        let shapes = [shape.clone(), cx.shape(1)?];
        let out = cx.broadcast(&shapes)?;
        for (a, b) in shape.iter().zip(&out) {
            cx.require_equal(a, b, "the slope must broadcast to the data")?;
        }
    }
    cx.set(0, dtype, shape);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (x, slope) = (cx.input(0)?, cx.input(1)?);
    let mut dims = slope.dims.clone();
    if cx.has("axis") {
        dims.extend(vec![1; x.rank() - 2]);
    }
    let prelu = |v: &[Scalar]| {
        let (x, slope) = (v[0].as_f64(), v[1].as_f64());
        if x < 0.0 { Scalar::from_f64(x * slope) } else { v[0] }
    };
    let y = broadcast_map(&[x, &slope.reshaped(dims)], x.dtype, prelu);
    Ok(vec![y.ok_or_else(|| cx.fail(Code::SHAPE, "the slope does not broadcast to the data"))?.into()])
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let ((x, slope), y) = (binary::operands(cx)?, cx.result(0)?);
    let dtype = if x.dtype.is_float() { compute_type(x.dtype) } else { x.dtype };
    cx.pointwise(&[x, slope], &y, |body, v| {
        let (x, slope) = (body.cast(dtype, v[0]), body.cast(dtype, v[1]));
        let zero = body.int(dtype, 0);
        let negative = body.binary(BinaryOp::Lt, x, zero);
        let scaled = body.binary(BinaryOp::Mul, x, slope);
        body.select(negative, scaled, x)
    })
}
