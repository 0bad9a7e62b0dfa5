//! ConstantOfShape. ONNX: "Generate a tensor with given value and shape."

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands, Scalar, Type};

use crate::sizes::dim;

type Result<T> = std::result::Result<T, Diagnostic>;

/// ONNX ConstantOfShape.
pub static CONSTANT_OF_SHAPE: OpDef = OpDef {
    name: "ConstantOfShape",
    domain: "",
    upgrade: no_upgrade,
    infer: infer_fill,
    eval: eval_fill,
    lower: Lower::Kernels(lower_fill),
};

/// ONNX: "`value`: The value of the output elements. Should be a one-element tensor. If not specified, it defaults to 0 and float32".
fn fill(cx: &impl ReadAttributes) -> Result<Scalar> {
    match cx.tensor("value")? {
        None => Ok(Scalar::from_f32(0.0)),
        Some(tensor) if tensor.len() == 1 && tensor.dtype != DType::String => Ok(tensor.get(0)),
        Some(_) => Err(cx.fail(Code::ATTRIBUTE, "`value` must have one element")),
    }
}

fn infer_fill(cx: &mut InferCx) -> Result<()> {
    let value = fill(cx)?;
    let Some(shape) = cx.known(0) else {
        let rank = Expr::product(&cx.shape(0)?).as_const();
        let rank = rank.ok_or_else(|| cx.fail(Code::RANK, "the number of sizes must be known when the model is built"))?;
        let dims = (0..rank).map(|_| cx.fresh("filled")).collect();
        cx.set(0, value.dtype(), dims);
        return Ok(());
    };
    let count = Expr::product(&shape).as_const().filter(|c| *c <= oaaxc_ir::types::MAX_KNOWN as i64);
    let whole = value.dtype().is_integer() || value.dtype() == DType::Bool;
    let known = count.filter(|_| whole).map(|count| vec![Expr::constant(value.as_i64()); dim(count)]);
    cx.set_known(0, value.dtype(), shape, known);
    Ok(())
}

fn eval_fill(cx: &EvalCx) -> Result<Vec<Datum>> {
    let dims = cx.input(0)?.to_i64s().into_iter().map(dim).collect();
    Ok(vec![Tensor::splat(fill(cx)?, dims).into()])
}

fn lower_fill(cx: &mut LowerCx) -> Result<()> {
    let value = fill(cx)?;
    if cx.known(0).is_none() {
        let cells = cx.sizes(0)?;
        let Some(Type::Tensor(ty)) = cx.output_type(0).cloned() else { return Ok(()) };
        for (size, cell) in ty.shape.iter().flatten().zip(cells) {
            cx.define(size, cell)?;
        }
    }
    let y = cx.result(0)?;
    cx.pointwise(&[], &y, |body, _| body.scalar(value))
}
