//! Gemm. ONNX: "Y = alpha * A' * B' + beta * C", where `'` transposes if asked, and C broadcasts to (M, N).

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Body, Step, Store, V};
use oaaxc_ir::lower::{LowerCx, broadcast_index};
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands, Scalar};

use crate::math::matmul::{self, Product};
use crate::nn::conv::accumulator;

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator. The attribute `broadcast` of versions before 7 allowed what is always allowed since.
pub static GEMM: OpDef = OpDef { name: "Gemm", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };

fn infer(cx: &mut InferCx) -> Result<()> {
    let (a, b) = (cx.shape(0)?, cx.shape(1)?);
    if a.len() != 2 || b.len() != 2 {
        return Err(cx.fail(Code::SHAPE, format!("A and B must have rank 2, not {} and {}", a.len(), b.len())));
    }
    let (ta, tb) = (usize::from(cx.flag("transA", false)?), usize::from(cx.flag("transB", false)?));
    cx.require_equal(&a[1 - ta], &b[tb], "the inner sizes of A and B")?;
    cx.set(0, cx.dtype(0)?, vec![a[ta].clone(), b[1 - tb].clone()]);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (a, b, c) = (cx.input(0)?, cx.input(1)?, cx.optional(2)?);
    let straight = |t: &Tensor, turn: bool| {
        if turn { t.gathered(vec![t.dims[1], t.dims[0]], |i| i[1] * t.dims[1] + i[0]) } else { t.clone() }
    };
    let (a, b) = (straight(a, cx.flag("transA", false)?), straight(b, cx.flag("transB", false)?));
    let (alpha, beta) = (cx.float("alpha", 1.0)?, cx.float("beta", 1.0)?);
    let addend = |at: usize, columns: usize| -> Option<usize> {
        let c = c?;
        let (r, k) = (at / columns, at % columns);
        let last = c.rank().checked_sub(1).map_or(0, |d| if c.dims[d] == 1 { 0 } else { k });
        let first = c.rank().checked_sub(2).map_or(0, |d| if c.dims[d] == 1 { 0 } else { r });
        Some(first * c.dims.last().copied().unwrap_or(1) + last)
    };
    if a.dtype.is_integer() {
        let wrapping = |t: &Tensor| t.to_i64s().into_iter().map(std::num::Wrapping).collect::<Vec<_>>();
        let (out, dims) = matmul::evaluate((&wrapping(&a), &a.dims), (&wrapping(&b), &b.dims), std::num::Wrapping(0));
        let scaled = out.into_iter().enumerate().map(|(i, v)| {
            let c = addend(i, dims[1]).and_then(|at| c.map(|c| c.i64_at(at))).unwrap_or(0);
            v.0.wrapping_mul(alpha as i64).wrapping_add(c.wrapping_mul(beta as i64))
        });
        return Ok(vec![Tensor::from_i64s(a.dtype, dims.clone(), scaled.collect::<Vec<_>>()).into()]);
    }
    let (out, dims) = matmul::evaluate((&a.to_f64s(), &a.dims), (&b.to_f64s(), &b.dims), 0.0);
    let scaled = out.into_iter().enumerate().map(|(i, v)| {
        let c = addend(i, dims[1]).and_then(|at| c.map(|c| c.f64_at(at)));
        v * f64::from(alpha) + c.map_or(0.0, |c| c * f64::from(beta))
    });
    Ok(vec![Tensor::from_f64s(a.dtype, dims.clone(), scaled.collect::<Vec<_>>()).into()])
}

/// `x · factor`; nothing where the factor is 1.
pub fn scaled(body: &mut Body, x: V, factor: f32) -> V {
    if factor == 1.0 {
        return x;
    }
    let dtype = body.dtype(x);
    let factor = body.scalar(Scalar::from_f32(factor).cast(dtype));
    body.binary(BinaryOp::Mul, x, factor)
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let (a, b, c, y) = (cx.arg(0)?, cx.arg(1)?, cx.optional_arg(2)?, cx.result(0)?);
    let (alpha, beta) = (cx.float("alpha", 1.0)?, cx.float("beta", 1.0)?);
    let turned = (cx.flag("transA", false)?, cx.flag("transB", false)?);
    let mut k = cx.kernel();
    let (ab, bb) = (k.read(&a), k.read(&b));
    let cb = c.map(|c| k.read(&c));
    let yb = k.write(&y);
    let acc: DType = accumulator(a.dtype);
    let Product { mut contract, output, .. } = matmul::contract(&mut k, &ab, &bb, &y.dims, turned, acc);
    let sum = contract.post.param(0, acc);
    let mut value = scaled(&mut contract.post, sum, alpha);
    if let Some(c) = &cb {
        let index = broadcast_index(&c.dims, &y.dims, &output);
        let addend = contract.post.load(c, index.iter().map(Into::into).collect());
        let addend = contract.post.cast(acc, addend);
        let addend = scaled(&mut contract.post, addend, beta);
        value = contract.post.binary(BinaryOp::Add, value, addend);
    }
    let value = contract.post.cast(y.dtype, value);
    contract.stores.push(Store::at(&yb, output.iter().map(Into::into).collect(), value));
    k.step(Step::Contract(contract));
    cx.launch(k)
}
