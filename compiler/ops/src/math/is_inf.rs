//! IsInf. ONNX: "Map infinity to true and other values to false"; `detect_negative` and `detect_positive` choose which.

use oaaxc_base::Diagnostic;
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::BinaryOp;
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands, Scalar};

use crate::formula::compute_type;

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static IS_INF: OpDef = OpDef { name: "IsInf", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };

fn wanted(cx: &impl ReadAttributes) -> Result<(bool, bool)> {
    Ok((cx.flag("detect_negative", true)?, cx.flag("detect_positive", true)?))
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let shape = cx.shape(0)?;
    cx.set(0, DType::Bool, shape);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let (negative, positive) = wanted(cx)?;
    let test = |v: Scalar| {
        let v = v.as_f64();
        Scalar::from_bool((negative && v == f64::NEG_INFINITY) || (positive && v == f64::INFINITY))
    };
    Ok(vec![Tensor::from_scalars(DType::Bool, x.dims.clone(), x.scalars().map(test)).into()])
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let (x, y) = (cx.arg(0)?, cx.result(0)?);
    let (negative, positive) = wanted(cx)?;
    let dtype = compute_type(x.dtype);
    cx.pointwise(std::slice::from_ref(&x), &y, |body, v| {
        let v = body.cast(dtype, v[0]);
        let mut found = body.scalar(Scalar::from_bool(false));
        for (wanted, infinity) in [(negative, f64::NEG_INFINITY), (positive, f64::INFINITY)] {
            if wanted {
                let infinity = body.float(dtype, infinity);
                let equal = body.binary(BinaryOp::Eq, v, infinity);
                found = body.binary(BinaryOp::Or, found, equal);
            }
        }
        found
    })
}
