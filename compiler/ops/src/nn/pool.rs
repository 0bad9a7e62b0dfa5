//! Pools: MaxPool, AveragePool, LpPool and their global forms.
//!
//! ONNX: "pooling consists of computing the max (average, Lp norm) on all values of a subset of the
//! input tensor according to the kernel size". Padding never wins a maximum; it counts for an average
//! only under `count_include_pad`, and then only as far as `pads` reach (a window that `ceil_mode` lets
//! reach further does not count what lies behind).

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Body, Fold, FoldKind, Loop, Store, UnaryOp, V};
use oaaxc_ir::lower::{Buf, LowerCx};
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::{Coordinates, Tensor};
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands, Scalar};

use crate::nn::conv::accumulator;
use crate::nn::window::{self, Concrete, Dim, kernel_shape};

type Result<T> = std::result::Result<T, Diagnostic>;

macro_rules! row {
    ($name:literal, $domain:literal) => {
        OpDef { name: $name, domain: $domain, upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) }
    };
}
/// ONNX MaxPool.
pub static MAX_POOL: OpDef = row!("MaxPool", "");
/// ONNX AveragePool.
pub static AVERAGE_POOL: OpDef = row!("AveragePool", "");
/// ONNX LpPool. Before version 2 `p` was a float; it is read as an integer.
pub static LP_POOL: OpDef = row!("LpPool", "");
/// ONNX GlobalMaxPool.
pub static GLOBAL_MAX_POOL: OpDef = row!("GlobalMaxPool", "");
/// ONNX GlobalAveragePool.
pub static GLOBAL_AVERAGE_POOL: OpDef = row!("GlobalAveragePool", "");
/// ONNX GlobalLpPool.
pub static GLOBAL_LP_POOL: OpDef = row!("GlobalLpPool", "");

/// What a pool does with the elements of a window.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Max,
    Average,
    Lp(i64),
}

fn kind(cx: &impl ReadAttributes) -> Result<(Kind, bool)> {
    let name = cx.node().op.name;
    let kind = match name.trim_start_matches("Global") {
        "MaxPool" => Kind::Max,
        "AveragePool" => Kind::Average,
        _ => Kind::Lp(cx.int("p", 2)?),
    };
    Ok((kind, name.starts_with("Global")))
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, x) = (cx.dtype(0)?, cx.shape(0)?);
    if x.len() < 2 {
        return Err(cx.fail(Code::SHAPE, format!("the input must have a batch and a channel dim, but its rank is {}", x.len())));
    }
    let mut shape = x[..2].to_vec();
    if kind(cx)?.1 {
        shape.extend(x[2..].iter().map(|_| Expr::constant(1)));
    } else {
        let dims = window::read(cx, Some(cx.symbols), &x[2..], &kernel_shape(cx)?)?;
        shape.extend(dims.into_iter().map(|d| d.output));
    }
    cx.set(0, dtype, shape.clone());
    cx.set(1, DType::I64, shape);
    Ok(())
}

/// The input position of each tap of a window (`None`: padding), and how many lie on input or pads.
type Taps = (Vec<Option<usize>>, usize);

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let (kind, global) = kind(cx)?;
    let spatial = &x.dims[2..];
    let (points, output): (Vec<Taps>, Vec<usize>) = if global {
        let count = spatial.iter().product();
        (vec![((0..count).map(Some).collect(), count)], vec![1; spatial.len()])
    } else {
        let kernel: Vec<usize> = kernel_shape(cx)?.iter().map(|k| k.as_const().unwrap_or(0) as usize).collect();
        let window = Concrete::read(cx, spatial, &kernel)?;
        (Coordinates::new(&window.output).map(|o| window.taps(&o)).collect(), window.output)
    };
    let include = cx.flag("count_include_pad", false)?;
    let column_major = cx.flag("storage_order", false)?;
    let pixels: usize = spatial.iter().product();
    let values = x.to_f64s();
    let (mut pooled, mut indices) = (Vec::new(), Vec::new());
    for plane in 0..x.dims[0] * x.dims[1] {
        for (taps, padded) in &points {
            let inside: Vec<usize> = taps.iter().flatten().map(|at| plane * pixels + at).collect();
            pooled.push(match kind {
                Kind::Max => {
                    let best = best_of(&values, &inside);
                    let at = best.map_or(0, |b| b - plane * pixels);
                    let at = if column_major { reversed_position(at, spatial) } else { at };
                    indices.push((plane * pixels + at) as i64);
                    best.map_or(Scalar::lowest(x.dtype).as_f64(), |b| values[b])
                }
                Kind::Average => {
                    let count = if include { *padded } else { inside.len() };
                    inside.iter().map(|&i| values[i]).sum::<f64>() / count as f64
                }
                Kind::Lp(p) => {
                    let sum: f64 = inside.iter().map(|&i| values[i].abs().powi(p as i32)).sum();
                    sum.powf(1.0 / p as f64)
                }
            });
        }
    }
    let dims: Vec<usize> = x.dims[..2].iter().copied().chain(output).collect();
    let mut results = vec![Tensor::from_f64s(x.dtype, dims.clone(), pooled).into()];
    if cx.output_count() > 1 {
        results.push(Tensor::from_i64s(DType::I64, dims, indices).into());
    }
    Ok(results)
}

/// The first of the largest; NaN wins.
fn best_of(values: &[f64], among: &[usize]) -> Option<usize> {
    let mut best: Option<usize> = None;
    for &i in among {
        if best.is_none_or(|b| !values[b].is_nan() && (values[i].is_nan() || values[i] > values[b])) {
            best = Some(i);
        }
    }
    best
}

/// The column-major position of a row-major one (`storage_order` 1).
fn reversed_position(at: usize, dims: &[usize]) -> usize {
    let (mut rest, mut coordinates) = (at, vec![0; dims.len()]);
    for d in (0..dims.len()).rev() {
        coordinates[d] = rest % dims[d].max(1);
        rest /= dims[d].max(1);
    }
    (0..dims.len()).rev().fold(0, |p, d| p * dims[d] + coordinates[d])
}

/// The element that goes into the fold of a pool.
fn prepared(body: &mut Body, kind: Kind, x: V, stat: DType) -> V {
    let Kind::Lp(p) = kind else { return if kind == Kind::Average { body.cast(stat, x) } else { x } };
    let x = body.cast(stat, x);
    match p {
        1 => body.unary(UnaryOp::Abs, x),
        2 => body.binary(BinaryOp::Mul, x, x),
        _ => {
            let (a, p) = (body.unary(UnaryOp::Abs, x), body.float(stat, p as f64));
            body.binary(BinaryOp::Pow, a, p)
        }
    }
}

/// The result of a pool from its fold; `count` is the divisor of an average.
fn finished(body: &mut Body, kind: Kind, fold: V, count: &Expr) -> V {
    let stat = body.dtype(fold);
    match kind {
        Kind::Max | Kind::Lp(1) => fold,
        Kind::Lp(2) => body.unary(UnaryOp::Sqrt, fold),
        Kind::Lp(p) => {
            let exponent = body.float(stat, 1.0 / p as f64);
            body.binary(BinaryOp::Pow, fold, exponent)
        }
        Kind::Average => {
            let count = body.index(count.clone());
            let count = body.cast(stat, count);
            body.binary(BinaryOp::Div, fold, count)
        }
    }
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let (x, y) = (cx.arg(0)?, cx.result(0)?);
    let indices = if cx.has_output(1) { Some(cx.result(1)?) } else { None };
    let (kind, global) = kind(cx)?;
    let spatial = x.dims[2..].to_vec();
    let dims = if global { None } else { Some(window::read(cx, None, &spatial, &kernel_shape(cx)?)?) };
    let stat = if kind == Kind::Max { x.dtype } else { accumulator(x.dtype) };
    let padding = if kind == Kind::Max { Scalar::lowest(x.dtype) } else { Scalar::zero(x.dtype) };
    let mut k = cx.kernel();
    let (xb, yb) = (k.read(&x), k.write(&y));
    let ib = indices.map(|i| k.write(&i));
    let mut l = Loop::default();
    let out = k.axes(&mut l.parallel, &y.dims);
    let (position, taps) = match &dims {
        None => {
            let taps = k.axes(&mut l.reduce, &spatial);
            (taps.clone(), taps)
        }
        Some(dims) => {
            let taps: Vec<Expr> = dims.iter().map(|d| k.axis(&mut l.reduce, d.kernel.clone())).collect();
            (dims.iter().zip(out[2..].iter().zip(&taps)).map(|(d, (o, t))| d.position(o, t)).collect(), taps)
        }
    };
    debug_assert_eq!(taps.len(), spatial.len());
    let index = out[..2].iter().chain(&position).map(Into::into).collect();
    let padded = dims.as_ref().is_some_and(|d| d.iter().any(Dim::may_pad));
    let value = if padded { l.body.load_or(&xb, index, padding) } else { l.body.load(&xb, index) };
    let value = prepared(&mut l.body, kind, value, stat);
    let fold = if kind == Kind::Max { FoldKind::Max } else { FoldKind::Sum };
    l.folds.push(Fold { kind: fold, value, dtype: stat });
    let count = match &dims {
        None => Expr::product(&spatial),
        Some(dims) => divisor(dims, &out[2..], cx.flag("count_include_pad", false)?),
    };
    let total = l.post.param(0, stat);
    let total = finished(&mut l.post, kind, total, &count);
    let total = l.post.cast(y.dtype, total);
    l.stores.push(Store::at(&yb, out.iter().map(Into::into).collect(), total));
    if let Some(ib) = &ib {
        l.folds.push(Fold { kind: FoldKind::ArgMax { last: false }, value, dtype: DType::I64 });
        let at = argmax_position(&mut l.post, &xb, dims.as_deref().unwrap_or(&[]), &out, cx.flag("storage_order", false)?);
        l.stores.push(Store::at(ib, out.iter().map(Into::into).collect(), at));
    }
    k.push(l);
    cx.launch(k)
}

/// The number of elements that an average divides by.
fn divisor(dims: &[Dim], out: &[Expr], include_pad: bool) -> Expr {
    let one = |(d, o): (&Dim, &Expr)| {
        if !d.may_pad() {
            return d.kernel.clone();
        }
        let low = if include_pad { Expr::constant(0) - &d.begin } else { 0.into() };
        let high = if include_pad { &d.input + &d.end } else { d.input.clone() };
        d.taps_within(o, &low, &high)
    };
    let counts: Vec<Expr> = dims.iter().zip(out).map(one).collect();
    Expr::product(&counts)
}

/// From fold 1, the position of the largest tap in its window, to its position in the whole input. A window of nothing
/// but the lowest value may have its first tap in the padding: the position is brought back inside.
fn argmax_position(post: &mut Body, x: &Buf, dims: &[Dim], out: &[Expr], column_major: bool) -> V {
    let mut tap = post.param(1, DType::I64);
    let spatial = &x.dims[2..];
    let mut coordinates = vec![tap; dims.len()];
    for (i, d) in dims.iter().enumerate().rev() {
        let taps = post.index(d.kernel.clone());
        let k = post.binary(BinaryOp::Rem, tap, taps);
        tap = post.binary(BinaryOp::Div, tap, taps);
        let (dilation, start) = (post.int(DType::I64, d.dilation), post.index(&out[2 + i] * d.stride - &d.begin));
        let step = post.binary(BinaryOp::Mul, k, dilation);
        let at = post.binary(BinaryOp::Add, start, step);
        let (zero, last) = (post.int(DType::I64, 0), post.index(&spatial[i] - 1));
        let at = post.binary(BinaryOp::Max, at, zero);
        coordinates[i] = post.binary(BinaryOp::Min, at, last);
    }
    let mut order: Vec<usize> = (0..dims.len()).collect();
    if column_major {
        order.reverse();
    }
    let mut at = post.int(DType::I64, 0);
    for d in order {
        let size = post.index(spatial[d].clone());
        at = post.binary(BinaryOp::Mul, at, size);
        at = post.binary(BinaryOp::Add, at, coordinates[d]);
    }
    let plane = post.index((&out[0] * &x.dims[1] + &out[1]) * Expr::product(spatial));
    post.binary(BinaryOp::Add, plane, at)
}
