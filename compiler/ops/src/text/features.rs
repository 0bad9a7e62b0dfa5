//! ArrayFeatureExtractor and Binarizer of ai.onnx.ml: features picked, and cut at a threshold.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Index, Loop, Store};
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::{Tensor, position};
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands, Scalar};

use crate::tensor::{checked_index, wrapped};

type Result<T> = std::result::Result<T, Diagnostic>;

/// ai.onnx.ml ArrayFeatureExtractor: "Select elements of the input tensor based on the indices passed"; they are
/// picked along the last dim.
pub static ARRAY_FEATURE_EXTRACTOR: OpDef = OpDef {
    name: "ArrayFeatureExtractor",
    domain: "ai.onnx.ml",
    upgrade: no_upgrade,
    infer: infer_pick,
    eval: eval_pick,
    lower: Lower::Kernels(lower_pick),
};
/// ai.onnx.ml Binarizer: "Maps the values of the input tensor to either 0 or 1, element-wise, based on the
/// outcome of a comparison against a threshold value".
pub static BINARIZER: OpDef = OpDef {
    name: "Binarizer",
    domain: "ai.onnx.ml",
    upgrade: no_upgrade,
    infer: infer_cut,
    eval: eval_cut,
    lower: Lower::Kernels(lower_cut),
};

fn infer_pick(cx: &mut InferCx) -> Result<()> {
    let (dtype, mut shape) = (cx.dtype(0)?, cx.shape(0)?);
    let picked = Expr::product(&cx.shape(1)?);
    match shape.len() {
        0 => return Err(cx.fail(Code::RANK, "the input must have a dim")),
        1 => shape = vec![1.into(), picked],
        n => shape[n - 1] = picked,
    }
    cx.set(0, dtype, shape);
    Ok(())
}

fn eval_pick(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (x, indices) = (cx.input(0)?, cx.input(1)?);
    let x = if x.rank() == 1 { x.reshaped(vec![1, x.len()]) } else { x.clone() };
    let last = x.rank() - 1;
    let picks = indices.to_i64s().into_iter().map(|i| checked_index(cx, i, x.dims[last])).collect::<Result<Vec<_>>>()?;
    let mut dims = x.dims.clone();
    dims[last] = picks.len();
    let y = x.gathered(dims, |c| position(&[&c[..last], &[picks[c[last]]]].concat(), &x.dims));
    Ok(vec![y.into()])
}

fn lower_pick(cx: &mut LowerCx) -> Result<()> {
    let (mut x, indices, y) = (cx.arg(0)?, cx.arg(1)?, cx.result(0)?);
    if x.dims.len() == 1 {
        let dims = vec![1.into(), x.dims[0].clone()];
        x = cx.reshaped(&x, dims);
    }
    let flat = vec![Expr::product(&indices.dims)];
    let indices = cx.reshaped(&indices, flat);
    let last = x.dims.len() - 1;
    let mut k = cx.kernel();
    let (xb, ib, yb) = (k.read(&x), k.read(&indices), k.write(&y));
    let mut l = Loop::default();
    let c: Vec<Index> = k.axes(&mut l.parallel, &y.dims).iter().map(Index::from).collect();
    let pick = l.post.load(&ib, vec![c[last].clone()]);
    let pick = wrapped(&mut l.post, pick, &x.dims[last]);
    let v = l.post.load_checked(&xb, [&c[..last], &[Index::Value(pick)]].concat());
    l.stores.push(Store::at(&yb, c, v));
    k.push(l);
    cx.launch(k)
}

fn infer_cut(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (cx.dtype(0)?, cx.shape(0)?);
    cx.set(0, dtype, shape);
    Ok(())
}

fn eval_cut(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let threshold = f64::from(cx.float("threshold", 0.0)?);
    let cut = x.scalars().map(|v| Scalar::from_bool(v.as_f64() > threshold));
    Ok(vec![Tensor::from_scalars(x.dtype, x.dims.clone(), cut.collect::<Vec<_>>()).into()])
}

fn lower_cut(cx: &mut LowerCx) -> Result<()> {
    let (x, y) = (cx.arg(0)?, cx.result(0)?);
    let threshold = f64::from(cx.float("threshold", 0.0)?);
    cx.pointwise(std::slice::from_ref(&x), &y, |body, v| {
        let (v, threshold) = (body.cast(DType::F64, v[0]), body.float(DType::F64, threshold));
        body.binary(BinaryOp::Gt, v, threshold)
    })
}
