//! Elementwise operators of com.microsoft on quantised tensors: QLinearAdd, QLinearMul, QLinearSigmoid, QLinearLeakyRelu.
//!
//! Each dequantises its operands to f32, applies the function and quantises the result. Scales stand for the whole tensor.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Body, Index, Loop, Store, UnaryOp, V};
use oaaxc_ir::lower::{Buf, LowerCx, broadcast_index};
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::{DType, Datum, Expr, ReadAttributes, ReadOperands};

use crate::broadcast::{broadcast_dims, expand};
use crate::quantization::scheme::{dequantize, dequantized, f32_at, load_f32, quantize, quantized};

type Result<T> = std::result::Result<T, Diagnostic>;

macro_rules! row {
    ($name:literal) => {
        OpDef { name: $name, domain: "com.microsoft", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) }
    };
}
/// A + B.
pub static QLINEAR_ADD: OpDef = row!("QLinearAdd");
/// A · B.
pub static QLINEAR_MUL: OpDef = row!("QLinearMul");
/// 1 / (1 + e^−X).
pub static QLINEAR_SIGMOID: OpDef = row!("QLinearSigmoid");
/// X, or alpha · X where X < 0.
pub static QLINEAR_LEAKY_RELU: OpDef = row!("QLinearLeakyRelu");

/// Operands of the function: each takes a value, a scale and a zero point.
fn arity(cx: &impl ReadAttributes) -> usize {
    if ["QLinearAdd", "QLinearMul"].contains(&cx.node().op.name) { 2 } else { 1 }
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let shapes = (0..arity(cx)).map(|i| cx.shape(3 * i)).collect::<Result<Vec<_>>>()?;
    let dtype = cx.dtype(0)?;
    for i in 0..=arity(cx) {
        let at = if i == arity(cx) { 3 * i } else { 3 * i + 1 };
        let scale = cx.shape(at)?;
        if !scale.iter().all(|d| d.is(1)) {
            return Err(cx.fail(Code::SHAPE, format!("the scale at input {at} must have one element")));
        }
    }
    let out = cx.broadcast(&shapes)?;
    cx.set(0, dtype, out);
    Ok(())
}

fn function(cx: &impl ReadAttributes, x: &[f32]) -> Result<f32> {
    Ok(match cx.node().op.name {
        "QLinearAdd" => x[0] + x[1],
        "QLinearMul" => x[0] * x[1],
        "QLinearSigmoid" => 1.0 / (1.0 + (-x[0]).exp()),
        _ => {
            if x[0] < 0.0 {
                x[0] * cx.float("alpha", 0.01)?
            } else {
                x[0]
            }
        }
    })
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let n = arity(cx);
    let tensors = (0..n).map(|i| cx.input(3 * i)).collect::<Result<Vec<_>>>()?;
    let dims = broadcast_dims(&tensors.iter().map(|t| &t.dims[..]).collect::<Vec<_>>())
        .ok_or_else(|| cx.fail(Code::SHAPE, "the operands do not broadcast"))?;
    let wide: Vec<Tensor> = tensors.iter().map(|t| expand(t, &dims)).collect();
    let (scale, zero, dtype) = (cx.input(3 * n)?, cx.optional(3 * n + 1)?, tensors[0].dtype);
    let mut out = Vec::new();
    for e in 0..dims.iter().product() {
        let mut x = Vec::new();
        for (i, t) in wide.iter().enumerate() {
            x.push(dequantize(t.get(e), cx.optional(3 * i + 2)?.map(|z| z.get(0)), f32_at(cx.input(3 * i + 1)?, 0)));
        }
        out.push(quantize(function(cx, &x)? / f32_at(scale, 0), zero.map_or(0.0, |z| f32_at(z, 0)), dtype));
    }
    Ok(vec![Tensor::from_scalars(dtype, dims, out).into()])
}

fn emit(cx: &LowerCx, b: &mut Body, x: &[V]) -> Result<V> {
    Ok(match cx.node.op.name {
        "QLinearAdd" => b.binary(BinaryOp::Add, x[0], x[1]),
        "QLinearMul" => b.binary(BinaryOp::Mul, x[0], x[1]),
        "QLinearSigmoid" => {
            let one = b.float(DType::F32, 1.0);
            let v = b.unary(UnaryOp::Neg, x[0]);
            let v = b.unary(UnaryOp::Exp, v);
            let v = b.binary(BinaryOp::Add, one, v);
            b.binary(BinaryOp::Div, one, v)
        }
        _ => {
            let (alpha, zero) = (b.float(DType::F32, cx.float("alpha", 0.01)?.into()), b.float(DType::F32, 0.0));
            let low = b.binary(BinaryOp::Mul, x[0], alpha);
            let below = b.binary(BinaryOp::Lt, x[0], zero);
            b.select(below, low, x[0])
        }
    })
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let (n, y) = (arity(cx), cx.result(0)?);
    let mut k = cx.kernel();
    let mut buffers: Vec<Option<Buf>> = Vec::new();
    for i in 0..3 * n + 2 {
        buffers.push(cx.optional_arg(i)?.map(|a| k.read(&a)));
    }
    let yb = k.write(&y);
    let mut l = Loop::default();
    let axes = k.axes(&mut l.parallel, &y.dims);
    let b = &mut l.post;
    let only = |buffer: &Buf| vec![Index::Expr(Expr::constant(0)); buffer.dims.len()];
    let missing = || cx.fail(Code::OPERAND, "an operand is missing");
    let mut x = Vec::new();
    for i in 0..n {
        let (v, s) = (buffers[3 * i].as_ref().ok_or_else(missing)?, buffers[3 * i + 1].as_ref().ok_or_else(missing)?);
        let v = b.load(v, broadcast_index(&v.dims, &y.dims, &axes).into_iter().map(Index::Expr).collect());
        let s = load_f32(b, s, only(s));
        let z = buffers[3 * i + 2].as_ref().map(|z| b.load(z, only(z)));
        x.push(dequantized(b, v, z, s));
    }
    let v = emit(cx, b, &x)?;
    let s = buffers[3 * n].as_ref().ok_or_else(missing)?;
    let s = load_f32(b, s, only(s));
    let v = b.binary(BinaryOp::Div, v, s);
    let z = buffers[3 * n + 1].as_ref().map(|z| load_f32(b, z, only(z)));
    let v = quantized(b, v, z, y.dtype);
    l.stores.push(Store::at(&yb, axes.into_iter().map(Index::Expr).collect(), v));
    k.push(l);
    cx.launch(k)
}
