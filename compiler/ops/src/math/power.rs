//! Pow. ONNX: "takes input data (`Tensor<T>`) and exponent Tensor, and produces one output data
//! (`Tensor<T>`) where the function f(x) = x^exponent"; the exponent's type may differ, the result has the base's.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::interpret::arithmetic;
use oaaxc_ir::kernel::BinaryOp;
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef};
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands, Scalar};

use crate::broadcast::broadcast_map;
use crate::formula::compute_type;
use crate::math::binary;

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static POW: OpDef = OpDef { name: "Pow", domain: "", upgrade: binary::upgrade, infer, eval, lower: Lower::Kernels(lower) };

/// The type in which the power is taken: the base's where both are integers, else a float.
fn power_type(base: DType, exponent: DType) -> DType {
    if base.is_float() {
        compute_type(base)
    } else if exponent.is_float() {
        DType::F64
    } else {
        base
    }
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let dtype = cx.dtype(0)?;
    let shapes = [cx.shape(0)?, cx.shape(1)?];
    let out = match cx.int_if_any("axis")? {
        Some(_) => shapes[0].clone(),
        None => cx.broadcast(&shapes)?,
    };
    cx.set(0, dtype, out);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (a, b) = (cx.input(0)?, cx.input(1)?);
    let mut dims = b.dims.clone();
    if let Some(axis) = cx.int_if_any("axis")? {
        dims.extend(vec![1; a.rank().saturating_sub(b.rank() + axis.max(0) as usize)]);
    }
    let b = &b.reshaped(dims);
    let integers = !a.dtype.is_float() && !b.dtype.is_float();
    let power = |x: &[Scalar]| {
        if integers {
            return arithmetic::binary(BinaryOp::Pow, x[0], x[1].cast(x[0].dtype()));
        }
        Scalar::from_f64(x[0].as_f64().powf(x[1].as_f64()))
    };
    let y = broadcast_map(&[a, b], a.dtype, power);
    Ok(vec![y.ok_or_else(|| cx.fail(Code::SHAPE, "the operands do not broadcast"))?.into()])
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let whole = cx.constant(1).and_then(|t| t.as_splat()).map(Scalar::as_f64).filter(|e| *e == 2.0 || *e == 3.0);
    let ((a, b), y) = (binary::operands(cx)?, cx.result(0)?);
    let dtype = power_type(a.dtype, b.dtype);
    // A square is one product: what normalisations are written with.
    cx.pointwise(&[a, b], &y, |body, v| {
        let (x, e) = (body.cast(dtype, v[0]), v[1]);
        match whole {
            None => {
                let e = body.cast(dtype, e);
                body.binary(BinaryOp::Pow, x, e)
            }
            Some(exponent) => {
                let square = body.binary(BinaryOp::Mul, x, x);
                if exponent == 2.0 { square } else { body.binary(BinaryOp::Mul, square, x) }
            }
        }
    })
}
