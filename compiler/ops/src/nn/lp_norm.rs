//! LpNormalization. ONNX: "given a matrix, apply Lp-normalization along the provided axis";
//! where the norm is 0 the result is 0.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Body, FoldKind, Index, Store, UnaryOp};
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::{Datum, Expr, ReadAttributes, ReadOperands};

use crate::formula::compute_type;
use crate::nn::rows::{self, Rows};

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static LP_NORMALIZATION: OpDef =
    OpDef { name: "LpNormalization", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };

/// Which dims are folded, and whether the norm is L1.
fn form(cx: &impl ReadAttributes, rank: usize) -> Result<(Vec<bool>, bool)> {
    let axis = cx.axis("axis", -1, rank)?;
    match cx.int("p", 2)? {
        p @ 1..=2 => Ok(((0..rank).map(|d| d == axis).collect(), p == 1)),
        p => Err(cx.fail(Code::ATTRIBUTE, format!("`p` must be 1 or 2, not {p}"))),
    }
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (cx.dtype(0)?, cx.shape(0)?);
    form(cx, shape.len())?;
    cx.set(0, dtype, shape);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let (reduced, l1) = form(cx, x.rank())?;
    let values = x.to_f64s();
    let mut out = vec![0.0; values.len()];
    for row in rows::positions(&x.dims, &reduced) {
        let term = |v: f64| if l1 { v.abs() } else { v * v };
        let sum: f64 = row.iter().map(|&i| term(values[i])).sum();
        let norm = if l1 { sum } else { sum.sqrt() };
        row.iter().for_each(|&i| out[i] = if norm == 0.0 { 0.0 } else { values[i] / norm });
    }
    Ok(vec![Tensor::from_f64s(x.dtype, x.dims.clone(), out).into()])
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let (x, y) = (cx.arg(0)?, cx.result(0)?);
    let (reduced, l1) = form(cx, x.dims.len())?;
    let stat = compute_type(x.dtype);
    let (outer, inner) = rows::split(&x.dims, &reduced);
    let mut rows = Rows::new(cx.kernel(), &outer, &inner, stat);
    let (xb, yb) = (rows.k.read(&x), rows.k.write(&y));
    let row = rows.outer.clone();
    let index = |i: &[Expr]| -> Vec<Index> { rows::place(&row, &reduced, i).iter().map(Into::into).collect() };
    let load = |b: &mut Body, i: &[Expr]| {
        let v = b.load(&xb, index(i));
        b.cast(stat, v)
    };
    let norm = rows.statistic(
        FoldKind::Sum,
        |b, i| {
            let v = load(b, i);
            if l1 { b.unary(UnaryOp::Abs, v) } else { b.binary(BinaryOp::Mul, v, v) }
        },
        |b, sum| if l1 { sum } else { b.unary(UnaryOp::Sqrt, sum) },
    );
    rows.each(|b, i| {
        let (v, norm, zero) = (load(b, i), b.load(&norm, vec![]), b.float(stat, 0.0));
        let q = b.binary(BinaryOp::Div, v, norm);
        let nothing = b.binary(BinaryOp::Eq, norm, zero);
        let q = b.select(nothing, zero, q);
        let q = b.cast(y.dtype, q);
        vec![Store::at(&yb, index(i), q)]
    });
    cx.launch(rows.k)
}
