//! Softmax, LogSoftmax and Hardmax.
//! ONNX 13: "Softmax(input, axis) = Exp(input) / ReduceSum(Exp(input), axis=axis, keepdims=1)";
//! LogSoftmax is its logarithm; Hardmax is "1 for the first maximum value, and 0 for all others".
//!
//! Before 13 the input was coerced to 2-D at `axis` (default 1) and the softmax taken over all
//! trailing dims; that form is kept as the internal attribute `flatten`.

use oaaxc_base::Diagnostic;
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::graph::Attribute;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Body, Fold, FoldKind, Index, Loop, Store, UnaryOp, V};
use oaaxc_ir::lower::{Arg, LowerCx};
use oaaxc_ir::op::{Lower, OpDef};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::upgrade::UpgradeCx;
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands};

use crate::formula::compute_type;
use crate::nn::rows::{self, Rows};

type Result<T> = std::result::Result<T, Diagnostic>;

macro_rules! row {
    ($name:literal) => {
        OpDef { name: $name, domain: "", upgrade, infer, eval, lower: Lower::Kernels(lower) }
    };
}
/// ONNX Softmax.
pub static SOFTMAX: OpDef = row!("Softmax");
/// ONNX LogSoftmax.
pub static LOG_SOFTMAX: OpDef = row!("LogSoftmax");
/// ONNX Hardmax.
pub static HARDMAX: OpDef = row!("Hardmax");

fn upgrade(cx: &mut UpgradeCx) -> Result<()> {
    if cx.version < 13 {
        let axis = cx.int("axis", 1)?;
        cx.set("axis", Attribute::Int(axis));
        cx.set("flatten", Attribute::Int(1));
    }
    Ok(())
}

/// First normalised dim and the one after the last.
fn normalised(cx: &impl ReadAttributes, rank: usize) -> Result<std::ops::Range<usize>> {
    if rank == 0 {
        return Ok(0..0);
    }
    let axis = cx.axis("axis", -1, rank)?;
    Ok(if cx.flag("flatten", false)? { axis..rank } else { axis..axis + 1 })
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (cx.dtype(0)?, cx.shape(0)?);
    normalised(cx, shape.len())?;
    cx.set(0, dtype, shape);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let range = normalised(cx, x.rank())?;
    let reduced: Vec<bool> = (0..x.rank()).map(|d| range.contains(&d)).collect();
    let values = x.to_f64s();
    let mut out = vec![0.0; values.len()];
    for row in rows::positions(&x.dims, &reduced) {
        let largest = row
            .iter()
            .map(|&i| values[i])
            .fold(f64::NEG_INFINITY, |a, v| if a.is_nan() || v.is_nan() { f64::NAN } else { a.max(v) });
        let sum: f64 = row.iter().map(|&i| (values[i] - largest).exp()).sum();
        match cx.node.op.name {
            "Hardmax" => {
                if let Some(&first) = row.iter().find(|&&i| values[i] == largest || values[i].is_nan()) {
                    out[first] = 1.0;
                }
            }
            "LogSoftmax" => row.iter().for_each(|&i| out[i] = values[i] - largest - sum.ln()),
            _ => row.iter().for_each(|&i| out[i] = (values[i] - largest).exp() / sum),
        }
    }
    Ok(vec![Tensor::from_f64s(x.dtype, x.dims.clone(), out).into()])
}

/// One kernel: the outer axes are the rows; largest, sum and quotient are three loops over a row.
/// Statistics are in f32 (f64 for double).
fn lower(cx: &mut LowerCx) -> Result<()> {
    let (x, y) = (cx.arg(0)?, cx.result(0)?);
    let range = normalised(cx, x.dims.len())?;
    launch(cx, &x, &y, range, cx.node.op.name)
}

/// Launches the function with this name (one of this file's operators) over the dims `range` of `x`.
pub fn launch(cx: &mut LowerCx, x: &Arg, y: &Arg, range: std::ops::Range<usize>, name: &str) -> Result<()> {
    let reduced: Vec<bool> = (0..x.dims.len()).map(|d| range.contains(&d)).collect();
    let stat = compute_type(x.dtype);
    let (outer, inner) = rows::split(&x.dims, &reduced);
    let mut rows = Rows::new(cx.kernel(), &outer, &inner, stat);
    let (xb, yb) = (rows.k.read(x), rows.k.write(y));
    let row = rows.outer.clone();
    let index = |axes: &[Expr]| -> Vec<Index> {
        let (before, after) = row.split_at(range.start);
        before.iter().chain(axes).chain(after).map(Index::from).collect()
    };
    let load = |b: &mut Body, axes: &[Expr]| {
        let v = b.load(&xb, index(axes));
        b.cast(stat, v)
    };
    if name == "Hardmax" {
        return hardmax(cx, rows, &inner, load, |b, axes, v| {
            let v = b.cast(y.dtype, v);
            Store::at(&yb, index(axes), v)
        });
    }
    let largest = rows.statistic(FoldKind::Max, load, |_, v| v);
    let centred = |b: &mut Body, axes: &[Expr]| {
        let (v, m) = (load(b, axes), b.load(&largest, vec![]));
        b.binary(BinaryOp::Sub, v, m)
    };
    let logarithm = name == "LogSoftmax";
    let sum = rows.statistic(
        FoldKind::Sum,
        |b, axes| {
            let d = centred(b, axes);
            b.unary(UnaryOp::Exp, d)
        },
        |b, sum| if logarithm { b.unary(UnaryOp::Log, sum) } else { sum },
    );
    rows.each(|b, axes| {
        let (d, s) = (centred(b, axes), b.load(&sum, vec![]));
        let v = if logarithm {
            b.binary(BinaryOp::Sub, d, s)
        } else {
            let e = b.unary(UnaryOp::Exp, d);
            b.binary(BinaryOp::Div, e, s)
        };
        let v = b.cast(y.dtype, v);
        vec![Store::at(&yb, index(axes), v)]
    });
    cx.launch(rows.k)
}

/// The position of the first largest element, then ones and zeros.
fn hardmax(
    cx: &mut LowerCx,
    mut rows: Rows,
    inner: &[Expr],
    load: impl Fn(&mut Body, &[Expr]) -> V,
    store: impl Fn(&mut Body, &[Expr], V) -> Store,
) -> Result<()> {
    let first = rows.k.local(DType::I64, vec![]);
    let mut find = Loop::default();
    let axes = rows.k.axes(&mut find.reduce, inner);
    let value = load(&mut find.body, &axes);
    find.folds.push(Fold { kind: FoldKind::ArgMax { last: false }, value, dtype: DType::I64 });
    let at = find.post.param(0, DType::I64);
    find.stores.push(Store::at(&first, vec![], at));
    rows.k.push(find);
    rows.each(|b, axes| {
        let position = axes.iter().zip(inner).fold(Expr::constant(0), |p, (a, size)| p * size + a);
        let (own, first) = (b.index(position), b.load(&first, vec![]));
        let v = b.binary(BinaryOp::Eq, own, first);
        vec![store(b, axes, v)]
    });
    cx.launch(rows.k)
}
