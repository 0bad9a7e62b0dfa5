//! MatMulInteger and QLinearMatMul: products of 8-bit integers, summed exactly in int32.
//!
//! ONNX: "The production MUST never overflow. The accumulation may overflow if and only if in 32 bits."
//! A zero point may stand for all, for each row of A, or for each column of B.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Body, BufferId, Index, Step, Store, V};
use oaaxc_ir::lower::{Arg, Buf, LowerCx};
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::{Coordinates, Tensor, position};
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands};

use super::scheme::{f32_at, load_f32, quantize, quantized};
use crate::math::matmul::{self, Product};

type Result<T> = std::result::Result<T, Diagnostic>;

/// ONNX MatMulInteger.
pub static MATMUL_INTEGER: OpDef = OpDef {
    name: "MatMulInteger",
    domain: "",
    upgrade: no_upgrade,
    infer: infer_integer,
    eval: eval_integer,
    lower: Lower::Kernels(lower_integer),
};
/// ONNX QLinearMatMul.
pub static QLINEAR_MATMUL: OpDef = OpDef {
    name: "QLinearMatMul",
    domain: "",
    upgrade: no_upgrade,
    infer: infer_linear,
    eval: eval_linear,
    lower: Lower::Kernels(lower_linear),
};

fn infer_integer(cx: &mut InferCx) -> Result<()> {
    let shape = matmul::infer_shape(cx, &cx.shape(0)?, &cx.shape(1)?)?;
    cx.set(0, DType::I32, shape);
    Ok(())
}

fn infer_linear(cx: &mut InferCx) -> Result<()> {
    let shape = matmul::infer_shape(cx, &cx.shape(0)?, &cx.shape(3)?)?;
    cx.set(0, cx.dtype(7)?, shape);
    Ok(())
}

/// The index of a parameter that stands for all, for each row (`last` = false) or each column of a matrix.
pub fn parameter_index(parameter: &[Expr], matrix: &[Expr], last: bool) -> Vec<Expr> {
    match parameter.len() {
        0 => vec![],
        1 if parameter[0].is(1) || matrix.is_empty() => vec![0.into()],
        1 => vec![matrix[if last || matrix.len() == 1 { matrix.len() - 1 } else { matrix.len() - 2 }].clone()],
        n => {
            let own = &matrix[matrix.len().saturating_sub(n)..];
            own.iter().zip(parameter).map(|(i, d)| if d.is(1) { 0.into() } else { i.clone() }).collect()
        }
    }
}

/// The position in a parameter's dims for an element at `c` of a matrix.
pub fn parameter_position(parameter: &Tensor, c: &[usize], last: bool) -> usize {
    match parameter.rank() {
        _ if parameter.len() == 1 => 0,
        1 => c[if last || c.len() == 1 { c.len() - 1 } else { c.len() - 2 }],
        n => {
            let own: Vec<usize> =
                c[c.len() - n..].iter().zip(&parameter.dims).map(|(i, d)| if *d == 1 { 0 } else { *i }).collect();
            position(&own, &parameter.dims)
        }
    }
}

/// The elements minus their zero points.
pub fn centred(x: &Tensor, zero: Option<&Tensor>, last: bool) -> Vec<i64> {
    let zero_at = |c: &[usize]| zero.map_or(0, |z| z.i64_at(parameter_position(z, c, last)));
    Coordinates::new(&x.dims).zip(x.to_i64s()).map(|(c, v)| v - zero_at(&c)).collect()
}

/// The exact sums, wrapped to 32 bits.
fn sums(a: &Tensor, a_zero: Option<&Tensor>, b: &Tensor, b_zero: Option<&Tensor>) -> (Vec<i64>, Vec<usize>) {
    let (a_values, b_values) = (centred(a, a_zero, false), centred(b, b_zero, true));
    let (sums, dims) = matmul::evaluate((&a_values, &a.dims), (&b_values, &b.dims), 0);
    (sums.into_iter().map(|v| i64::from(v as i32)).collect(), dims)
}

fn eval_integer(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (sums, dims) = sums(cx.input(0)?, cx.optional(2)?, cx.input(1)?, cx.optional(3)?);
    Ok(vec![Tensor::from_i64s(DType::I32, dims, sums).into()])
}

fn eval_linear(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (a, b, zero) = (cx.input(0)?, cx.input(3)?, cx.input(7)?);
    let (sums, dims) = sums(a, Some(cx.input(2)?), b, Some(cx.input(5)?));
    let (a_scale, b_scale, y_scale) = (cx.input(1)?, cx.input(4)?, cx.input(6)?);
    let elements = Coordinates::new(&dims).zip(sums).map(|(c, sum)| {
        let at = |t: &Tensor, last: bool| if c.is_empty() { 0 } else { parameter_position(t, &c, last) };
        let scale =
            f32_at(a_scale, at(a_scale, false)) * f32_at(b_scale, at(b_scale, true)) / f32_at(y_scale, at(y_scale, false));
        quantize(sum as f32 * scale, f32_at(zero, at(zero, false)), zero.dtype)
    });
    Ok(vec![Tensor::from_scalars(zero.dtype, dims.clone(), elements.collect::<Vec<_>>()).into()])
}

/// The zero point of an operand, at its own index of the contract.
fn zero_operand(zero: Option<&Buf>, index: &[Expr], last: bool) -> Option<(BufferId, Vec<Expr>)> {
    zero.map(|z| (z.id, parameter_index(&z.dims, index, last)))
}

/// Launches `y = post(Σ (a − a_zero)·(b − b_zero))`; `post` gets the sum (int32), the result's index and the column.
pub fn launch(
    cx: &mut LowerCx,
    (a, a_zero): (&Arg, Option<&Arg>),
    (b, b_zero): (&Arg, Option<&Arg>),
    more: &[&Arg],
    y: &Arg,
    post: impl FnOnce(&mut Body, V, &[Expr], &[Buf]) -> V,
) -> Result<()> {
    let mut k = cx.kernel();
    let (ab, bb) = (k.read(a), k.read(b));
    let (az, bz) = (a_zero.map(|z| k.read(z)), b_zero.map(|z| k.read(z)));
    let more: Vec<Buf> = more.iter().map(|m| k.read(m)).collect();
    let yb = k.write(y);
    let Product { mut contract, output, .. } = matmul::contract(&mut k, &ab, &bb, &y.dims, (false, false), DType::I32);
    contract.a.zero = zero_operand(az.as_ref(), &contract.a.index, false);
    contract.b.zero = zero_operand(bz.as_ref(), &contract.b.index, true);
    let sum = contract.post.param(0, DType::I32);
    let value = post(&mut contract.post, sum, &output, &more);
    contract.stores.push(Store::at(&yb, output.iter().map(Into::into).collect(), value));
    k.step(Step::Contract(contract));
    cx.launch(k)
}

fn lower_integer(cx: &mut LowerCx) -> Result<()> {
    let (a, b, y) = (cx.arg(0)?, cx.arg(1)?, cx.result(0)?);
    let (a_zero, b_zero) = (cx.optional_arg(2)?, cx.optional_arg(3)?);
    launch(cx, (&a, a_zero.as_ref()), (&b, b_zero.as_ref()), &[], &y, |_, sum, _, _| sum)
}

fn lower_linear(cx: &mut LowerCx) -> Result<()> {
    let (a, b, y) = (cx.arg(0)?, cx.arg(3)?, cx.result(0)?);
    let (a_zero, b_zero, y_zero) = (cx.arg(2)?, cx.arg(5)?, cx.arg(7)?);
    let (a_scale, b_scale, y_scale) = (cx.arg(1)?, cx.arg(4)?, cx.arg(6)?);
    if y.dims.is_empty() && a_scale.dims.len() > 1 {
        return Err(cx.fail(Code::SHAPE, "a scalar result takes one scale"));
    }
    let more = [&a_scale, &b_scale, &y_scale, &y_zero];
    launch(cx, (&a, Some(&a_zero)), (&b, Some(&b_zero)), &more, &y, |body, sum, out, more| {
        let place = |buffer: &Buf, last: bool| -> Vec<Index> {
            parameter_index(&buffer.dims, out, last).into_iter().map(Index::Expr).collect()
        };
        let (s, t) = (load_f32(body, &more[0], place(&more[0], false)), load_f32(body, &more[1], place(&more[1], true)));
        let (u, z) = (load_f32(body, &more[2], place(&more[2], false)), load_f32(body, &more[3], place(&more[3], false)));
        let scale = body.binary(BinaryOp::Mul, s, t);
        let scale = body.binary(BinaryOp::Div, scale, u);
        let sum = body.cast(DType::F32, sum);
        let value = body.binary(BinaryOp::Mul, sum, scale);
        quantized(body, value, Some(z), y.dtype)
    })
}
