//! Reductions over axes: a table of what is done to each element, how values join, and what is done to the total.
//!
//! ONNX: `axes` "A list of integers, along which to reduce. The default is to reduce over empty axes";
//! `keepdims`; with `noop_with_empty_axes` no axes means "reduction over an empty set of axes", in which
//! the steps before and after still happen. Axes may be known only at run time: then a dim's extent is
//! split into a kept and a reduced part, one of which is 1.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::interpret::arithmetic;
use oaaxc_ir::kernel::{BinaryOp, Body, Fold, FoldKind, Index, Loop, LoopAxis, Store, UnaryOp, V};
use oaaxc_ir::lower::{Arg, Buf, KernelBuilder, LowerCx};
use oaaxc_ir::op::{Lower, OpDef};
use oaaxc_ir::tensor::{Coordinates, Tensor, position};
use oaaxc_ir::upgrade::UpgradeCx;
use oaaxc_ir::{DType, Datum, Node, ReadAttributes, ReadOperands, Scalar};

use crate::formula::compute_type;
use crate::sizes::{axis_flags, without_flagged};

type Result<T> = std::result::Result<T, Diagnostic>;

/// What is done to an element before it joins.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    Nothing,
    Abs,
    Square,
    /// exp(x − largest): the row's largest value is found first.
    Exp,
}

/// What is done to the total.
#[derive(Clone, Copy, PartialEq)]
enum After {
    Nothing,
    Sqrt,
    Log,
    /// Divided by the number of elements.
    Mean,
    /// log(total) + largest.
    LogPlusLargest,
}

struct Row {
    name: &'static str,
    before: Before,
    fold: FoldKind,
    after: After,
}

const fn row(name: &'static str, before: Before, fold: FoldKind, after: After) -> Row {
    Row { name, before, fold, after }
}

const ROWS: &[Row] = &[
    row("ReduceSum", Before::Nothing, FoldKind::Sum, After::Nothing),
    row("ReduceMean", Before::Nothing, FoldKind::Sum, After::Mean),
    row("ReduceProd", Before::Nothing, FoldKind::Product, After::Nothing),
    row("ReduceMax", Before::Nothing, FoldKind::Max, After::Nothing),
    row("ReduceMin", Before::Nothing, FoldKind::Min, After::Nothing),
    row("ReduceL1", Before::Abs, FoldKind::Sum, After::Nothing),
    row("ReduceL2", Before::Square, FoldKind::Sum, After::Sqrt),
    row("ReduceSumSquare", Before::Square, FoldKind::Sum, After::Nothing),
    row("ReduceLogSum", Before::Nothing, FoldKind::Sum, After::Log),
    row("ReduceLogSumExp", Before::Exp, FoldKind::Sum, After::LogPlusLargest),
];

macro_rules! operators {
    ($($constant:ident $name:literal;)*) => {
        $(#[doc = concat!("ONNX ", $name, ".")]
        pub static $constant: OpDef = OpDef { name: $name, domain: "", upgrade, infer, eval, lower: Lower::Kernels(lower) };)*
        /// The operators of this file.
        pub static OPS: &[&OpDef] = &[$(&$constant),*];
    };
}
#[rustfmt::skip]
operators! {
    SUM "ReduceSum"; MEAN "ReduceMean"; PROD "ReduceProd"; MAX "ReduceMax"; MIN "ReduceMin"; L1 "ReduceL1"; L2 "ReduceL2";
    SUM_SQUARE "ReduceSumSquare"; LOG_SUM "ReduceLogSum"; LOG_SUM_EXP "ReduceLogSumExp";
}

fn find(node: &Node) -> &'static Row {
    ROWS.iter().find(|row| row.name == node.op.name).expect("each operator of this file has a row")
}

/// The axes moved from an attribute to operand 1 in 13 (ReduceSum) and 18 (the others).
fn upgrade(cx: &mut UpgradeCx) -> Result<()> {
    cx.ints_to_input("axes", 1);
    Ok(())
}

/// The type in which values join.
fn accumulator(row: &Row, dtype: DType) -> DType {
    let floating = dtype.is_float() || matches!(row.after, After::Sqrt | After::Log | After::LogPlusLargest);
    if matches!(row.fold, FoldKind::Max | FoldKind::Min) || !floating { dtype } else { compute_type(dtype) }
}

/// The flags of the reduced dims for axes that may be none.
fn flags(cx: &impl ReadAttributes, axes: Option<Vec<Expr>>, rank: usize) -> Result<Vec<Expr>> {
    let axes = axes.unwrap_or_default();
    if axes.is_empty() {
        let all = !cx.flag("noop_with_empty_axes", false)?;
        return Ok(vec![Expr::constant(i64::from(all)); rank]);
    }
    for axis in axes.iter().filter_map(Expr::as_const) {
        oaaxc_ir::attributes::normalize_axis(cx.node(), axis, rank)?;
    }
    Ok(axis_flags(&axes, rank))
}

/// Sizes of the result.
fn result_dims(shape: &[Expr], flags: &[Expr], keep: bool) -> Vec<Expr> {
    let dims = shape.iter().zip(flags);
    if keep {
        return dims.map(|(d, f)| f.select(&1.into(), d)).collect();
    }
    dims.filter(|(_, f)| f.is(0)).map(|(d, _)| d.clone()).collect()
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (cx.dtype(0)?, cx.shape(0)?);
    let keep = cx.flag("keepdims", true)?;
    if !cx.has_input(1) || cx.known(1).is_some() {
        let flags = flags(cx, cx.known(1), shape.len())?;
        let known = known(cx, &flags);
        cx.set_known(0, dtype, result_dims(&shape, &flags, keep), known);
        return Ok(());
    }
    let count = Expr::product(&cx.shape(1)?);
    let Some(count) = count.as_const() else {
        return Err(cx.fail(Code::VALUE, "the number of axes must be known when the model is built"));
    };
    let rank = if keep { shape.len() } else { shape.len().saturating_sub(count as usize) };
    let dims = (0..rank).map(|_| cx.fresh("reduced")).collect();
    cx.set(0, dtype, dims);
    Ok(())
}

/// The product or sum of sizes.
fn known(cx: &InferCx, flags: &[Expr]) -> Option<Vec<Expr>> {
    let elements = cx.known(0)?;
    if flags.len() != 1 || !flags[0].is(1) {
        return None;
    }
    let join: fn(Expr, Expr) -> Expr = match cx.node.op.name {
        "ReduceSum" => |a, b| a + b,
        "ReduceProd" => |a, b| a * b,
        "ReduceMax" => |a, b| a.maximum(&b),
        "ReduceMin" => |a, b| a.minimum(&b),
        _ => return None,
    };
    elements.into_iter().reduce(join).map(|total| vec![total])
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let keep = cx.flag("keepdims", true)?;
    let axes = cx.optional(1)?.map(|t| t.to_i64s().into_iter().map(Expr::constant).collect());
    let flags: Vec<bool> = flags(cx, axes, x.rank())?.iter().map(|f| f.is(1)).collect();
    let kept: Vec<usize> = x.dims.iter().zip(&flags).map(|(&d, &f)| if f { 1 } else { d }).collect();
    let mut groups: Vec<Vec<Scalar>> = vec![Vec::new(); kept.iter().product()];
    for (i, c) in Coordinates::new(&x.dims).enumerate() {
        let at: Vec<usize> = c.iter().zip(&flags).map(|(&c, &f)| if f { 0 } else { c }).collect();
        groups[position(&at, &kept)].push(x.get(i));
    }
    let row = find(cx.node);
    let results: Vec<Scalar> = groups.iter().map(|g| reduce(row, x.dtype, g)).collect();
    let dims = if keep { kept } else { kept.iter().zip(&flags).filter(|(_, f)| !**f).map(|(d, _)| *d).collect() };
    Ok(vec![Tensor::from_scalars(x.dtype, dims, results).into()])
}

/// One total: floats in double precision, integers exactly where the total is an integer.
fn reduce(row: &Row, dtype: DType, values: &[Scalar]) -> Scalar {
    let integers = !dtype.is_float() && !matches!(row.after, After::Sqrt | After::Log | After::LogPlusLargest);
    if integers || matches!(row.fold, FoldKind::Max | FoldKind::Min) {
        let before = |v: Scalar| match row.before {
            Before::Abs => arithmetic::unary(UnaryOp::Abs, v),
            Before::Square => arithmetic::binary(BinaryOp::Mul, v, v),
            Before::Nothing | Before::Exp => v,
        };
        let neutral = arithmetic::neutral(row.fold, dtype);
        let total = values.iter().fold(neutral, |a, &v| arithmetic::join(row.fold, a, before(v)));
        let count = Scalar::from_i64(values.len() as i64).cast(dtype);
        return if row.after == After::Mean { arithmetic::binary(BinaryOp::Div, total, count) } else { total };
    }
    let values: Vec<f64> = values.iter().map(|v| v.as_f64()).collect();
    let largest = values.iter().copied().filter(|v| v.is_finite()).fold(f64::NEG_INFINITY, f64::max);
    let shift = if largest.is_finite() { largest } else { 0.0 };
    let before = |v: &f64| match row.before {
        Before::Nothing => *v,
        Before::Abs => v.abs(),
        Before::Square => v * v,
        Before::Exp => (v - shift).exp(),
    };
    let elements = values.iter().map(before);
    let total: f64 = if row.fold == FoldKind::Product { elements.product() } else { elements.sum() };
    Scalar::from_f64(match row.after {
        After::Nothing => total,
        After::Sqrt => total.sqrt(),
        After::Log => total.ln(),
        After::Mean => total / values.len() as f64,
        After::LogPlusLargest => total.ln() + shift,
    })
}

/// The axes of a reduction: for each dim an index that is the sum of a kept and a reduced part.
pub struct Split {
    /// Extents of the kept part; 1 where the dim is reduced.
    pub kept: Vec<Expr>,
    /// Extents of the reduced part; 1 where the dim is kept.
    pub reduced: Vec<Expr>,
}

impl Split {
    /// For dims and flags.
    pub fn new(dims: &[Expr], flags: &[Expr]) -> Split {
        let part = |one: fn(&Expr, &Expr) -> Expr| dims.iter().zip(flags).map(|(d, f)| one(d, f)).collect();
        Split { kept: part(|d, f| f.select(&1.into(), d)), reduced: part(|d, f| f.select(d, &1.into())) }
    }
    /// Adds a loop for each extent that is not 1; the index of the others is 0.
    pub fn axes(k: &mut KernelBuilder, to: &mut Vec<LoopAxis>, extents: &[Expr]) -> Vec<Expr> {
        extents.iter().map(|e| if e.is(1) { Expr::constant(0) } else { k.axis(to, e.clone()) }).collect()
    }
    /// The operand's index.
    pub fn index(kept: &[Expr], reduced: &[Expr]) -> Vec<Index> {
        kept.iter().zip(reduced).map(|(a, b)| Index::Expr(a + b)).collect()
    }
}

/// Axes known only at run time: the tensor to write, which keeps all dims, after the result's sizes are defined.
/// Where the result drops dims, the caller makes it an alias once the tensor is written.
fn run_time_result(cx: &mut LowerCx, shape: &[Expr], flags: &[Expr], keep: bool) -> Result<Arg> {
    let Some(oaaxc_ir::Type::Tensor(ty)) = cx.output_type(0).cloned() else {
        return Err(cx.fail(Code::INTERNAL, "the result is not a tensor"));
    };
    let sizes = ty.shape.unwrap_or_default();
    let kept: Vec<Expr> = shape.iter().zip(flags).map(|(d, f)| f.select(&1.into(), d)).collect();
    if keep {
        for (size, value) in sizes.iter().zip(&kept) {
            cx.define(size, value.clone())?;
        }
        return cx.result(0);
    }
    for (size, value) in sizes.iter().zip(without_flagged(shape, flags, sizes.len())) {
        cx.define(size, value)?;
    }
    Ok(cx.temp(ty.dtype, kept))
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let x = cx.arg(0)?;
    let keep = cx.flag("keepdims", true)?;
    let run_time = cx.has_input(1) && cx.known(1).is_none();
    let axes = if cx.has_input(1) { Some(cx.sizes(1)?) } else { None };
    let flags = flags(cx, axes, x.dims.len())?;
    let split = Split::new(&x.dims, &flags);
    let y = if run_time { run_time_result(cx, &x.dims, &flags, keep)? } else { cx.result(0)? };
    let dropped = |index: Vec<Expr>| -> Vec<Index> {
        let all = index.into_iter().zip(&flags);
        all.filter(|(_, f)| y.dims.len() == flags.len() || f.is(0)).map(|(i, _)| Index::Expr(i)).collect()
    };
    let row = find(cx.node);
    let acc = accumulator(row, x.dtype);
    let mut k = cx.kernel();
    let (xb, yb) = (k.read(&x), k.write(&y));
    if row.before == Before::Exp {
        log_sum_exp(&mut k, &xb, &yb, &split, acc, &dropped);
    } else {
        let mut l = Loop::default();
        let kept = Split::axes(&mut k, &mut l.parallel, &split.kept);
        let reduced = Split::axes(&mut k, &mut l.reduce, &split.reduced);
        let element = l.reduce.is_empty();
        let body = if element { &mut l.post } else { &mut l.body };
        let v = body.load(&xb, Split::index(&kept, &reduced));
        let v = before(row, body, acc, v);
        let total = if element {
            v
        } else {
            l.folds.push(Fold { kind: row.fold, value: v, dtype: acc });
            l.post.param(0, acc)
        };
        let total = after(row, &mut l.post, acc, total, &Expr::product(&split.reduced));
        let total = l.post.cast(y.dtype, total);
        l.stores.push(Store::at(&yb, dropped(kept), total));
        k.push(l);
    }
    cx.launch(k)?;
    if run_time && !keep { cx.alias(0, &y) } else { Ok(()) }
}

fn before(row: &Row, body: &mut Body, acc: DType, v: V) -> V {
    let v = body.cast(acc, v);
    match row.before {
        Before::Nothing | Before::Exp => v,
        Before::Abs => body.unary(UnaryOp::Abs, v),
        Before::Square => body.binary(BinaryOp::Mul, v, v),
    }
}

fn after(row: &Row, body: &mut Body, acc: DType, total: V, count: &Expr) -> V {
    match row.after {
        After::Nothing | After::LogPlusLargest => total,
        After::Sqrt => body.unary(UnaryOp::Sqrt, total),
        After::Log => body.unary(UnaryOp::Log, total),
        After::Mean => {
            let count = body.index(count.clone());
            let count = body.cast(acc, count);
            body.binary(BinaryOp::Div, total, count)
        }
    }
}

/// One kernel, rows as outer axes: the largest finite value, then the sum of exponentials.
fn log_sum_exp(k: &mut KernelBuilder, x: &Buf, y: &Buf, split: &Split, acc: DType, dropped: &dyn Fn(Vec<Expr>) -> Vec<Index>) {
    let largest = k.local(acc, vec![]);
    let kept: Vec<Expr> = split.kept.iter().map(|e| if e.is(1) { Expr::constant(0) } else { k.parallel(e.clone()) }).collect();

    let mut find = Loop::default();
    // A reduction needs an axis even where every dim is kept.
    let reduced = reduce_axes(k, &mut find.reduce, &split.reduced);
    let v = find.body.load(x, Split::index(&kept, &reduced));
    let v = find.body.cast(acc, v);
    let infinite = find.body.unary(UnaryOp::IsInf, v);
    let lowest = find.body.float(acc, f64::NEG_INFINITY);
    let v = find.body.select(infinite, lowest, v);
    find.folds.push(Fold { kind: FoldKind::Max, value: v, dtype: acc });
    let m = find.post.param(0, acc);
    let infinite = find.post.unary(UnaryOp::IsInf, m);
    let zero = find.post.float(acc, 0.0);
    let m = find.post.select(infinite, zero, m);
    find.stores.push(Store::at(&largest, vec![], m));
    k.push(find);

    let mut total = Loop::default();
    let reduced = reduce_axes(k, &mut total.reduce, &split.reduced);
    let v = total.body.load(x, Split::index(&kept, &reduced));
    let v = total.body.cast(acc, v);
    let m = total.body.load(&largest, vec![]);
    let d = total.body.binary(BinaryOp::Sub, v, m);
    let e = total.body.unary(UnaryOp::Exp, d);
    total.folds.push(Fold { kind: FoldKind::Sum, value: e, dtype: acc });
    let sum = total.post.param(0, acc);
    let log = total.post.unary(UnaryOp::Log, sum);
    let m = total.post.load(&largest, vec![]);
    let result = total.post.binary(BinaryOp::Add, log, m);
    let result = total.post.cast(y.dtype, result);
    total.stores.push(Store::at(y, dropped(kept), result));
    k.push(total);
}

fn reduce_axes(k: &mut KernelBuilder, to: &mut Vec<LoopAxis>, extents: &[Expr]) -> Vec<Expr> {
    let index = Split::axes(k, to, extents);
    if to.is_empty() {
        k.axis(to, 1);
    }
    index
}
