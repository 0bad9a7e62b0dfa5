//! LRN. ONNX: "square_sum[n, c, d1, ..., dk] = sum(X[n, i, d1, ..., dk] ^ 2), where
//! max(0, c - floor((size - 1) / 2)) <= i <= min(C - 1, c + ceil((size - 1) / 2));
//! Y = X / (bias + alpha / size * square_sum) ^ beta".

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Fold, FoldKind, Index, Loop, Store, UnaryOp};
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::{Datum, ReadAttributes, ReadOperands, Scalar};

use crate::formula::compute_type;

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static LRN: OpDef = OpDef { name: "LRN", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (cx.dtype(0)?, cx.shape(0)?);
    if shape.len() < 2 || cx.required_int("size")? < 1 {
        return Err(cx.fail(Code::SHAPE, "the input needs a channel dim, and `size` must be positive"));
    }
    cx.set(0, dtype, shape);
    Ok(())
}

/// `size`, `alpha`, `beta`, `bias`.
fn parameters(cx: &impl ReadAttributes) -> Result<(i64, f64, f64, f64)> {
    let (alpha, beta, bias) = (cx.float("alpha", 0.0001)?, cx.float("beta", 0.75)?, cx.float("bias", 1.0)?);
    Ok((cx.required_int("size")?, alpha.into(), beta.into(), bias.into()))
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let (size, alpha, beta, bias) = parameters(cx)?;
    let (channels, pixels) = (x.dims[1] as i64, x.dims[2..].iter().product::<usize>());
    let values = x.to_f64s();
    let normalised = |(i, v): (usize, &f64)| {
        let c = (i / pixels) as i64 % channels;
        let (low, high) = ((c - (size - 1) / 2).max(0), (c + size / 2).min(channels - 1));
        let sum: f64 = (low..=high).map(|j| values[(i as i64 + (j - c) * pixels as i64) as usize].powi(2)).sum();
        v / (bias + alpha / size as f64 * sum).powf(beta)
    };
    let out: Vec<f64> = values.iter().enumerate().map(normalised).collect();
    Ok(vec![Tensor::from_f64s(x.dtype, x.dims.clone(), out).into()])
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let (x, y) = (cx.arg(0)?, cx.result(0)?);
    let (size, alpha, beta, bias) = parameters(cx)?;
    let stat = compute_type(x.dtype);
    let mut k = cx.kernel();
    let (xb, yb) = (k.read(&x), k.write(&y));
    let mut l = Loop::default();
    let axes = k.axes(&mut l.parallel, &y.dims);
    let near = k.axis(&mut l.reduce, size);
    let mut window: Vec<Expr> = axes.clone();
    window[1] = &axes[1] + &near - (size - 1) / 2;
    let v = l.body.load_or(&xb, window.iter().map(Into::into).collect(), Scalar::zero(x.dtype));
    let v = l.body.cast(stat, v);
    let value = l.body.binary(BinaryOp::Mul, v, v);
    l.folds.push(Fold { kind: FoldKind::Sum, value, dtype: stat });
    let b = &mut l.post;
    let sum = b.param(0, stat);
    let (scale, bias) = (b.float(stat, alpha / size as f64), b.float(stat, bias));
    let sum = b.binary(BinaryOp::Mul, sum, scale);
    let base = b.binary(BinaryOp::Add, sum, bias);
    // The usual exponent needs no logarithm: x^0.75 = √x · √√x.
    let power = if beta == 0.75 {
        let root = b.unary(UnaryOp::Sqrt, base);
        let fourth = b.unary(UnaryOp::Sqrt, root);
        b.binary(BinaryOp::Mul, root, fourth)
    } else {
        let beta = b.float(stat, beta);
        b.binary(BinaryOp::Pow, base, beta)
    };
    let index: Vec<Index> = axes.iter().map(Into::into).collect();
    let v = b.load(&xb, index.clone());
    let v = b.cast(stat, v);
    let v = b.binary(BinaryOp::Div, v, power);
    let v = b.cast(y.dtype, v);
    l.stores.push(Store::at(&yb, index, v));
    k.push(l);
    cx.launch(k)
}
