//! Shape and Size: sizes as data. Their elements are always known as expressions, so the host computes them.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands, Scalar};

type Result<T> = std::result::Result<T, Diagnostic>;

/// ONNX Shape.
pub static SHAPE: OpDef =
    OpDef { name: "Shape", domain: "", upgrade: no_upgrade, infer: infer_shape, eval: eval_shape, lower: Lower::Host(lower) };
/// ONNX Size.
pub static SIZE: OpDef =
    OpDef { name: "Size", domain: "", upgrade: no_upgrade, infer: infer_size, eval: eval_size, lower: Lower::Host(lower) };

/// ONNX: "negative values … counting from the end; clamped to [0, r]".
fn range(cx: &impl ReadAttributes, rank: usize) -> Result<std::ops::Range<usize>> {
    let rank = rank as i64;
    let clamp = |v: i64| (if v < 0 { v.saturating_add(rank) } else { v }).clamp(0, rank) as usize;
    let (start, end) = (clamp(cx.int("start", 0)?), clamp(cx.int("end", rank)?));
    Ok(start..end.max(start))
}

fn infer_shape(cx: &mut InferCx) -> Result<()> {
    let shape = cx.shape(0)?;
    let sizes = shape[range(cx, shape.len())?].to_vec();
    if sizes.len() > oaaxc_ir::types::MAX_KNOWN {
        return Err(cx.fail(Code::RANK, "the rank is too high"));
    }
    cx.set_known(0, DType::I64, vec![sizes.len().into()], Some(sizes));
    Ok(())
}

fn eval_shape(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let sizes = &x.dims[range(cx, x.rank())?];
    Ok(vec![Tensor::from_i64s(DType::I64, vec![sizes.len()], sizes.iter().map(|&d| d as i64)).into()])
}

fn infer_size(cx: &mut InferCx) -> Result<()> {
    let size = Expr::product(&cx.shape(0)?);
    cx.set_known(0, DType::I64, vec![], Some(vec![size]));
    Ok(())
}

fn eval_size(cx: &EvalCx) -> Result<Vec<Datum>> {
    Ok(vec![Tensor::scalar(Scalar::from_i64(cx.input(0)?.len() as i64)).into()])
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    Err(cx.fail(Code::INTERNAL, "sizes are always known, so nobody lowers them"))
}
