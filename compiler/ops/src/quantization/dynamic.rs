//! DynamicQuantizeLinear. ONNX: "y_scale = (maximum(0, max(x)) - minimum(0, min(x))) / (qmax - qmin)",
//! "intermediate_zero_point = qmin - min(x)/y_scale, y_zero_point = cast(round(saturate(itermediate_zero_point)))".
//!
//! Where every element is 0 the scale would be 0; it is 1, as in ONNX Runtime, so that the result is defined.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Fold, FoldKind, Index, Loop, Store, UnaryOp};
use oaaxc_ir::lower::{Arg, LowerCx};
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands, Scalar};

use super::scheme::{f32_at, quantize, quantized};

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static DYNAMIC_QUANTIZE: OpDef =
    OpDef { name: "DynamicQuantizeLinear", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (cx.dtype(0)?, cx.shape(0)?);
    if dtype != DType::F32 {
        return Err(cx.fail(Code::TYPE, format!("the input must be float, not {dtype}")));
    }
    cx.set(0, DType::U8, shape);
    cx.set(1, DType::F32, vec![]);
    cx.set(2, DType::U8, vec![]);
    Ok(())
}

/// Scale and zero point of a tensor, as f32 and as a whole number.
pub fn parameters(x: &Tensor) -> (f32, f32) {
    let (low, high) = (0..x.len()).map(|i| f32_at(x, i)).fold((0f32, 0f32), |(l, h), v| (l.min(v), h.max(v)));
    let scale = if high == low { 1.0 } else { (high - low) / 255.0 };
    (scale, (0.0 - low / scale).clamp(0.0, 255.0).round_ties_even())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let (scale, zero) = parameters(x);
    let y = (0..x.len()).map(|i| quantize(f32_at(x, i) / scale, zero, DType::U8));
    let mut results = vec![
        Tensor::from_scalars(DType::U8, x.dims.clone(), y.collect::<Vec<_>>()).into(),
        Tensor::scalar(Scalar::from_f32(scale)).into(),
        Tensor::scalar(Scalar::from_f32(zero).cast(DType::U8)).into(),
    ];
    results.truncate(cx.output_count());
    Ok(results)
}

/// Writes `x`'s scale and zero point to two tensors of rank 0, then `y`. One kernel for the parameters, one for the elements.
pub fn launch(cx: &mut LowerCx, x: &Arg, y: &Arg, scale: &Arg, zero: &Arg) -> Result<()> {
    let mut k = cx.kernel();
    let (xb, sb, zb) = (k.read(x), k.write(scale), k.write(zero));
    let mut l = Loop::default();
    let axes = k.axes(&mut l.reduce, &x.dims);
    let value = l.body.load(&xb, axes.iter().map(Into::into).collect());
    for kind in [FoldKind::Min, FoldKind::Max] {
        l.folds.push(Fold { kind, value, dtype: DType::F32 });
    }
    let b = &mut l.post;
    let (nothing, full, one) = (b.float(DType::F32, 0.0), b.float(DType::F32, 255.0), b.float(DType::F32, 1.0));
    let (low, high) = (b.param(0, DType::F32), b.param(1, DType::F32));
    let (low, high) = (b.binary(BinaryOp::Min, low, nothing), b.binary(BinaryOp::Max, high, nothing));
    let span = b.binary(BinaryOp::Sub, high, low);
    let s = b.binary(BinaryOp::Div, span, full);
    let flat = b.binary(BinaryOp::Eq, span, nothing);
    let s = b.select(flat, one, s);
    let z = b.binary(BinaryOp::Div, low, s);
    let z = b.binary(BinaryOp::Sub, nothing, z);
    let z = b.binary(BinaryOp::Max, z, nothing);
    let z = b.binary(BinaryOp::Min, z, full);
    let z = b.unary(UnaryOp::Round, z);
    let z = b.cast(DType::U8, z);
    l.stores = vec![Store::at(&sb, vec![], s), Store::at(&zb, vec![], z)];
    k.push(l);
    cx.launch(k)?;

    let mut k = cx.kernel();
    let (xb, sb, zb, yb) = (k.read(x), k.read(scale), k.read(zero), k.write(y));
    let mut l = Loop::default();
    let index: Vec<Index> = k.axes(&mut l.parallel, &y.dims).into_iter().map(Index::Expr).collect();
    let b = &mut l.post;
    let (v, s, z) = (b.load(&xb, index.clone()), b.load(&sb, vec![]), b.load(&zb, vec![]));
    let (q, z) = (b.binary(BinaryOp::Div, v, s), b.cast(DType::F32, z));
    let v = quantized(b, q, Some(z), DType::U8);
    l.stores.push(Store::at(&yb, index, v));
    k.push(l);
    cx.launch(k)
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let x = cx.arg(0)?;
    let y = if cx.has_output(0) { cx.result(0)? } else { cx.temp(DType::U8, x.dims.clone()) };
    let scale = if cx.has_output(1) { cx.result(1)? } else { cx.temp(DType::F32, vec![]) };
    let zero = if cx.has_output(2) { cx.result(2)? } else { cx.temp(DType::U8, vec![]) };
    launch(cx, &x, &y, &scale, &zero)
}
