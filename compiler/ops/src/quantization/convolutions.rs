//! ConvInteger and QLinearConv: convolutions of 8-bit integers, summed exactly in int32.
//!
//! Padding reads the input's zero point, so that it adds nothing. Where that is known only during the run,
//! the input is first copied with its padding around it.

use oaaxc_base::Diagnostic;
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Body, Index, Loop, Step, Store, V};
use oaaxc_ir::lower::{Arg, Buf, LowerCx};
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands, Scalar, ix};

use super::scheme::{f32_at, load_f32, quantize, quantized};
use crate::nn::conv::{self, Convolution};
use crate::nn::window::{self, Dim};

type Result<T> = std::result::Result<T, Diagnostic>;

/// ONNX ConvInteger.
pub static CONV_INTEGER: OpDef =
    OpDef { name: "ConvInteger", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };
/// ONNX QLinearConv.
pub static QLINEAR_CONV: OpDef =
    OpDef { name: "QLinearConv", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };

/// Which operand is what: x, its zero point, w, its zero point; and whether the result is quantised.
fn operands(cx: &impl ReadAttributes) -> ([usize; 4], bool) {
    if cx.node().op.name.starts_with('Q') { ([0, 2, 3, 5], true) } else { ([0, 2, 1, 3], false) }
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let ([x, _, w, _], linear) = operands(cx);
    let shape = conv::infer_shape(cx, x, w)?;
    let dtype = if linear { cx.dtype(7)? } else { DType::I32 };
    cx.set(0, dtype, shape);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let ([x, x_zero, w, w_zero], linear) = operands(cx);
    let (x, w) = (cx.input(x)?, cx.input(w)?);
    let x_zero = cx.optional(x_zero)?.map_or(0, |z| z.i64_at(0));
    let w_zero = cx.optional(w_zero)?;
    let per_channel: usize = w.dims[1..].iter().product();
    let of_channel = |t: &Tensor, m: usize| if t.len() == 1 { 0 } else { m };
    let x_values: Vec<i64> = x.to_i64s().into_iter().map(|v| v - x_zero).collect();
    let w_values: Vec<i64> = w
        .to_i64s()
        .into_iter()
        .enumerate()
        .map(|(i, v)| v - w_zero.map_or(0, |z| z.i64_at(of_channel(z, i / per_channel.max(1)))))
        .collect();
    let bias = if linear { cx.optional(8)? } else { None };
    let start = |m: usize| bias.map_or(0, |b| b.i64_at(m));
    let (sums, dims) = conv::evaluate(cx, (&x_values, &x.dims), (&w_values, &w.dims), start)?;
    let sums = sums.into_iter().map(|v| v as i32);
    if !linear {
        return Ok(vec![Tensor::from_i64s(DType::I32, dims, sums.map(i64::from)).into()]);
    }
    let (x_scale, w_scale, y_scale, y_zero) = (f32_at(cx.input(1)?, 0), cx.input(4)?, f32_at(cx.input(6)?, 0), cx.input(7)?);
    let pixels: usize = dims[2..].iter().product();
    let elements = sums.enumerate().map(|(i, sum)| {
        let m = i / pixels.max(1) % dims[1];
        let scale = x_scale * f32_at(w_scale, of_channel(w_scale, m)) / y_scale;
        quantize(sum as f32 * scale, f32_at(y_zero, 0), y_zero.dtype)
    });
    Ok(vec![Tensor::from_scalars(y_zero.dtype, dims.clone(), elements.collect::<Vec<_>>()).into()])
}

/// The index of a parameter that stands for all or for each channel.
fn of_channel(parameter: &Buf, channel: &Expr) -> Vec<Expr> {
    parameter.dims.iter().map(|d| if d.is(1) { 0.into() } else { channel.clone() }).collect()
}

/// A copy of `x` with the padding of the windows around it, filled with the zero point.
fn padded(cx: &mut LowerCx, x: &Arg, zero: &Arg, dims: &[Dim]) -> Result<(Arg, Vec<Dim>)> {
    let wide: Vec<Dim> = dims.iter().map(Dim::padded).collect();
    let sizes = x.dims[..2].iter().cloned().chain(wide.iter().map(|d| d.input.clone())).collect();
    let out = cx.temp(x.dtype, sizes);
    let mut k = cx.kernel();
    let (xb, zb, yb) = (k.read(x), k.read(zero), k.write(&out));
    let mut l = Loop::default();
    let axes = k.axes(&mut l.parallel, &out.dims);
    let mut inside = Expr::constant(1);
    let mut index: Vec<Index> = axes[..2].iter().map(Into::into).collect();
    for (d, axis) in dims.iter().zip(&axes[2..]) {
        let at = axis - &d.begin;
        inside = inside * at.less(&d.input) * (Expr::constant(1) - at.less(&0.into()));
        index.push(at.into());
    }
    let b = &mut l.post;
    let (flag, none) = (b.index(inside), b.int(DType::I64, 0));
    let flag = b.binary(BinaryOp::Ne, flag, none);
    let v = b.load_when(&xb, index, flag, Scalar::zero(x.dtype));
    let z = b.load(&zb, vec![Index::Expr(0.into()); zero.dims.len()]);
    let v = b.select(flag, v, z);
    l.stores.push(Store::at(&yb, axes.into_iter().map(Index::Expr).collect(), v));
    k.push(l);
    cx.launch(k)?;
    Ok((out, wide))
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let ([xi, x_zero_i, wi, w_zero_i], linear) = operands(cx);
    let (mut x, w, y) = (cx.arg(xi)?, cx.arg(wi)?, cx.result(0)?);
    let (x_zero, w_zero) = (cx.optional_arg(x_zero_i)?, cx.optional_arg(w_zero_i)?);
    let mut dims = window::read(cx, None, &x.dims[2..], &w.dims[2..])?;
    let mut padding = Scalar::zero(x.dtype);
    if let Some(zero) = &x_zero
        && dims.iter().any(Dim::may_pad)
    {
        match cx.constant(x_zero_i).and_then(Tensor::as_splat) {
            Some(known) => padding = known,
            None => (x, dims) = padded(cx, &x, zero, &dims)?,
        }
    }
    let mut more = Vec::new();
    if linear {
        for i in [1, 4, 6, 7] {
            more.push(cx.arg(i)?);
        }
        more.extend(cx.optional_arg(8)?);
    }
    let group = conv::group(cx)?;
    let mut k = cx.kernel();
    let (xb, wb) = (k.read(&x), k.read(&w));
    let (xz, wz) = (x_zero.map(|z| k.read(&z)), w_zero.map(|z| k.read(&z)));
    let more: Vec<Buf> = more.iter().map(|a| k.read(a)).collect();
    let yb = k.write(&y);
    let Convolution { mut contract, channel, output } = conv::contract(&mut k, &xb, &wb, &dims, group, padding, DType::I32);
    contract.a.zero = xz.map(|z| (z.id, vec![0.into(); z.dims.len()]));
    contract.b.zero = wz.map(|z| (z.id, of_channel(&z, &channel)));
    let mut value = contract.post.param(0, DType::I32);
    if linear {
        value = requantized(&mut contract.post, value, &channel, &more, y.dtype);
    }
    contract.stores.push(Store::at(&yb, output.iter().map(Into::into).collect(), value));
    k.step(Step::Contract(contract));
    cx.launch(k)
}

/// From the exact sum to the result: bias, `x_scale · w_scale / y_scale`, round, zero point, saturate.
fn requantized(body: &mut Body, mut sum: V, channel: &Expr, more: &[Buf], dtype: DType) -> V {
    if let Some(bias) = more.get(4) {
        let b = body.load(bias, ix![channel]);
        sum = body.binary(BinaryOp::Add, sum, b);
    }
    let first = |buffer: &Buf| vec![Index::Expr(0.into()); buffer.dims.len()];
    let s = load_f32(body, &more[0], first(&more[0]));
    let t = load_f32(body, &more[1], of_channel(&more[1], channel).into_iter().map(Index::Expr).collect());
    let (u, z) = (load_f32(body, &more[2], first(&more[2])), load_f32(body, &more[3], first(&more[3])));
    let scale = body.binary(BinaryOp::Mul, s, t);
    let scale = body.binary(BinaryOp::Div, scale, u);
    let sum = body.cast(DType::F32, sum);
    let value = body.binary(BinaryOp::Mul, sum, scale);
    quantized(body, value, Some(z), dtype)
}
