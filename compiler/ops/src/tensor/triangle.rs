//! Trilu and EyeLike: masks along a diagonal.
//!
//! ONNX Trilu: "returns the upper or lower triangular part of the tensor(s)", `k` moves the diagonal (positive:
//! up). ONNX EyeLike: "ones on the diagonal and zeros elsewhere", of the shape of the input.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Index, Loop, Store};
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::{Coordinates, Tensor};
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands, Scalar};

use crate::tensor::cast::named_type;

type Result<T> = std::result::Result<T, Diagnostic>;

/// ONNX Trilu.
pub static TRILU: OpDef = OpDef {
    name: "Trilu",
    domain: "",
    upgrade: no_upgrade,
    infer: infer_trilu,
    eval: eval_trilu,
    lower: Lower::Kernels(lower_trilu),
};
/// ONNX EyeLike.
pub static EYE_LIKE: OpDef = OpDef {
    name: "EyeLike",
    domain: "",
    upgrade: no_upgrade,
    infer: infer_eye,
    eval: eval_eye,
    lower: Lower::Kernels(lower_eye),
};

fn infer_trilu(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (cx.dtype(0)?, cx.shape(0)?);
    if shape.len() < 2 {
        return Err(cx.fail(Code::RANK, "the input must have 2 dims or more"));
    }
    cx.set(0, dtype, shape);
    Ok(())
}

fn eval_trilu(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let upper = cx.flag("upper", true)?;
    let k = cx.optional(1)?.filter(|t| !t.is_empty()).map_or(0, |t| t.i64_at(0));
    let element = |(i, c): (usize, Vec<usize>)| {
        let (row, column) = (c[c.len() - 2] as i64, c[c.len() - 1] as i64);
        let distance = column - row;
        let kept = if upper { distance >= k } else { distance <= k };
        if kept { x.get(i) } else { Scalar::zero(x.dtype) }
    };
    let all: Vec<_> = Coordinates::new(&x.dims).enumerate().map(element).collect();
    Ok(vec![Tensor::from_scalars(x.dtype, x.dims.clone(), all).into()])
}

fn lower_trilu(cx: &mut LowerCx) -> Result<()> {
    let (x, y) = (cx.arg(0)?, cx.result(0)?);
    let upper = cx.flag("upper", true)?;
    let diagonal = if cx.has_input(1) { cx.sizes(1)?.first().cloned().unwrap_or(0.into()) } else { 0.into() };
    let mut k = cx.kernel();
    let (xb, yb) = (k.read(&x), k.write(&y));
    let mut l = Loop::default();
    let c = k.axes(&mut l.parallel, &y.dims);
    let (row, column) = (&c[c.len() - 2], &c[c.len() - 1]);
    let distance = l.post.index(column - row);
    let diagonal = l.post.index(diagonal);
    let kept = l.post.binary(if upper { BinaryOp::Ge } else { BinaryOp::Le }, distance, diagonal);
    let index: Vec<Index> = c.iter().map(Index::from).collect();
    let v = l.post.load(&xb, index.clone());
    let zero = l.post.scalar(Scalar::zero(y.dtype));
    let v = l.post.select(kept, v, zero);
    l.stores.push(Store::at(&yb, index, v));
    k.push(l);
    cx.launch(k)
}

/// ONNX: "`dtype`: … If not specified, the data type of the input tensor T1 is used".
fn eye_type(cx: &impl ReadAttributes, input: DType) -> Result<DType> {
    if cx.has("dtype") { named_type(cx, "dtype") } else { Ok(input) }
}

fn infer_eye(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (eye_type(cx, cx.dtype(0)?)?, cx.shape(0)?);
    if shape.len() != 2 {
        return Err(cx.fail(Code::RANK, "the input must have 2 dims"));
    }
    cx.set(0, dtype, shape);
    Ok(())
}

fn eval_eye(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let (dtype, k) = (eye_type(cx, x.dtype)?, cx.int("k", 0)?);
    let ones = Coordinates::new(&x.dims).map(|c| i64::from(c[1] as i64 - c[0] as i64 == k));
    Ok(vec![Tensor::from_i64s(dtype, x.dims.clone(), ones.collect::<Vec<_>>()).into()])
}

fn lower_eye(cx: &mut LowerCx) -> Result<()> {
    let y = cx.result(0)?;
    let diagonal = cx.int("k", 0)?;
    let mut k = cx.kernel();
    let yb = k.write(&y);
    let mut l = Loop::default();
    let c = k.axes(&mut l.parallel, &y.dims);
    let on = l.post.index((&c[1] - &c[0]).equal(&Expr::constant(diagonal)));
    let v = l.post.cast(y.dtype, on);
    l.stores.push(Store::at(&yb, c.iter().map(Index::from).collect(), v));
    k.push(l);
    cx.launch(k)
}
