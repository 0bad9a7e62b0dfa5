//! Pad. ONNX: "Given a tensor containing the data to be padded …, a tensor containing the number of start and
//! end pad values for axis (`pads`), (optionally) a `mode`, and (optionally) `constant_value`"; negative
//! pads remove elements. Modes: constant, reflect, edge, wrap.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::attributes::normalize_axis;
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::graph::Attribute;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Index, Loop, Store};
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef};
use oaaxc_ir::tensor::{Coordinates, Tensor, position};
use oaaxc_ir::upgrade::UpgradeCx;
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands, Scalar, Type};

use crate::sizes::{clamp, dim};

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static PAD: OpDef = OpDef { name: "Pad", domain: "", upgrade, infer, eval, lower: Lower::Kernels(lower) };

/// Before 11 pads and value were attributes (in 1 the pads were called `paddings`).
fn upgrade(cx: &mut UpgradeCx) -> Result<()> {
    if cx.version < 11 {
        cx.ints_to_input("paddings", 1);
        cx.ints_to_input("pads", 1);
        let dtype = cx.dtype(0)?;
        if let Some(Attribute::Float(value)) = cx.take("value") {
            cx.set_input(2, Tensor::scalar(Scalar::from_f32(value).cast(dtype)));
        }
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Constant,
    Reflect,
    Edge,
    Wrap,
}

fn mode(cx: &impl ReadAttributes) -> Result<Mode> {
    match &cx.text("mode", "constant")?[..] {
        "constant" => Ok(Mode::Constant),
        "reflect" => Ok(Mode::Reflect),
        "edge" => Ok(Mode::Edge),
        "wrap" => Ok(Mode::Wrap),
        other => Err(cx.fail(Code::ATTRIBUTE, format!("`mode` \"{other}\" is not known"))),
    }
}

/// Pads before and after each dim, for pads given in the order of `axes`.
fn per_dim<T: Clone>(cx: &impl ReadAttributes, pads: &[T], axes: Option<Vec<i64>>, rank: usize, zero: T) -> Result<Vec<(T, T)>> {
    let axes = axes.unwrap_or_else(|| (0..rank as i64).collect());
    if pads.len() != 2 * axes.len() {
        return Err(cx.fail(Code::VALUE, format!("{} pads are given for {} dims", pads.len(), axes.len())));
    }
    let mut all = vec![(zero.clone(), zero); rank];
    for (j, &axis) in axes.iter().enumerate() {
        all[normalize_axis(cx.node(), axis, rank)?] = (pads[j].clone(), pads[j + axes.len()].clone());
    }
    Ok(all)
}

/// Whether axes are given that only the run knows.
fn open_axes(cx: &impl ReadOperands) -> bool {
    cx.has_input(3) && cx.known_ints(3).is_none()
}

/// As `per_dim` for axes that only the run knows: each dim looks for itself among them.
fn per_open_dim(pads: &[Expr], axes: &[Expr], rank: usize) -> Vec<(Expr, Expr)> {
    let at = |d: usize, from: usize| {
        let named = |j: usize| axes[j].modulo(&rank.max(1).into()).equal(&d.into()) * &pads[from + j];
        (0..axes.len()).fold(Expr::constant(0), |sum, j| sum + named(j))
    };
    (0..rank).map(|d| (at(d, 0), at(d, axes.len()))).collect()
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (cx.dtype(0)?, cx.shape(0)?);
    mode(cx)?;
    if open_axes(cx) {
        let dims = shape.iter().map(|_| cx.fresh("padded")).collect();
        cx.set(0, dtype, dims);
        return Ok(());
    }
    let axes = cx.known_ints(3);
    let dims = match cx.known(1) {
        Some(pads) => {
            let pads = per_dim(cx, &pads, axes, shape.len(), Expr::constant(0))?;
            shape.iter().zip(&pads).map(|(d, (b, e))| d + b + e).collect()
        }
        None => {
            let count = Expr::product(&cx.shape(1)?).as_const();
            let count = count.ok_or_else(|| cx.fail(Code::VALUE, "the number of pads must be known"))?;
            let padded = per_dim(cx, &vec![true; dim(count)], axes, shape.len(), false)?;
            let size = |(d, (is_padded, _)): (&Expr, &(bool, bool))| if *is_padded { cx.fresh("padded") } else { d.clone() };
            shape.iter().zip(&padded).map(size).collect()
        }
    };
    cx.set(0, dtype, dims);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let axes = cx.optional(3)?.map(Tensor::to_i64s);
    let pads = per_dim(cx, &cx.input(1)?.to_i64s(), axes, x.rank(), 0)?;
    let value = cx.optional(2)?.filter(|t| !t.is_empty()).map_or(Scalar::zero(x.dtype), |t| t.get(0));
    let mode = mode(cx)?;
    let dims: Vec<usize> = x.dims.iter().zip(&pads).map(|(&d, (b, e))| dim(d as i64 + b + e)).collect();
    let element = |c: Vec<usize>| {
        let mut from = Vec::new();
        for ((&i, (before, _)), &size) in c.iter().zip(&pads).zip(&x.dims) {
            let (at, size) = (i as i64 - before, size as i64);
            from.push(match mode {
                Mode::Constant if at < 0 || at >= size => return value,
                Mode::Constant => at,
                Mode::Edge => at.clamp(0, (size - 1).max(0)),
                Mode::Wrap => at.rem_euclid(size.max(1)),
                Mode::Reflect => {
                    let period = (2 * (size - 1)).max(1);
                    let at = at.rem_euclid(period);
                    if at < size { at } else { period - at }
                }
            } as usize);
        }
        x.get(position(&from, &x.dims))
    };
    Ok(vec![Tensor::from_scalars(x.dtype, dims.clone(), Coordinates::new(&dims).map(element).collect::<Vec<_>>()).into()])
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let x = cx.arg(0)?;
    let mode = mode(cx)?;
    let cells = cx.sizes(1)?;
    let pads = if open_axes(cx) {
        let axes = cx.sizes(3)?;
        if cells.len() != 2 * axes.len() {
            return Err(cx.fail(Code::VALUE, format!("{} pads are given for {} axes", cells.len(), axes.len())));
        }
        per_open_dim(&cells, &axes, x.dims.len())
    } else {
        per_dim(cx, &cells, cx.known_ints(3), x.dims.len(), Expr::constant(0))?
    };
    // Pads that folding made known may have been open when the result's sizes were named.
    if let Some(Type::Tensor(ty)) = cx.output_type(0).cloned() {
        for ((size, d), (before, after)) in ty.shape.iter().flatten().zip(&x.dims).zip(&pads) {
            let value = d + before + after;
            if *size != value {
                cx.define(size, value)?;
            }
        }
    }
    let y = cx.result(0)?;
    let from = |axes: &[Expr]| -> Vec<Expr> {
        let one = |d: usize| {
            let (at, size) = (&axes[d] - &pads[d].0, &x.dims[d]);
            if pads[d].0.is(0) && pads[d].1.is(0) {
                return at;
            }
            match mode {
                Mode::Constant => at,
                Mode::Edge => clamp(&at, &0.into(), &(size - 1)),
                Mode::Wrap => at.modulo(size),
                Mode::Reflect => {
                    let period = ((size - 1) * 2).maximum(&1.into());
                    let at = at.modulo(&period);
                    at.minimum(&(&period - &at))
                }
            }
        };
        (0..axes.len()).map(one).collect()
    };
    if mode != Mode::Constant {
        return cx.gather_map(&x, &y, from);
    }
    let number = if cx.has_input(2) { cx.constant(2).and_then(Tensor::as_splat) } else { Some(Scalar::zero(x.dtype)) };
    let value = if number.is_none() { Some(cx.arg(2)?) } else { None };
    let mut k = cx.kernel();
    let (xb, vb, yb) = (k.read(&x), value.as_ref().map(|v| k.read(v)), k.write(&y));
    let mut l = Loop::default();
    let at = k.axes(&mut l.parallel, &y.dims);
    let index: Vec<Index> = from(&at).into_iter().map(Index::Expr).collect();
    let result = match (number, vb) {
        (Some(number), _) => l.post.load_or(&xb, index, number.cast(x.dtype)),
        (None, Some(vb)) => {
            let mut inside = l.post.scalar(Scalar::from_bool(true));
            for (d, i) in from(&at).into_iter().enumerate() {
                let (i, zero, size) = (l.post.index(i), l.post.int(DType::I64, 0), l.post.index(x.dims[d].clone()));
                let not_before = l.post.binary(BinaryOp::Ge, i, zero);
                let not_after = l.post.binary(BinaryOp::Lt, i, size);
                inside = l.post.binary(BinaryOp::And, inside, not_before);
                inside = l.post.binary(BinaryOp::And, inside, not_after);
            }
            let element = l.post.load_when(&xb, index, inside, Scalar::zero(x.dtype));
            let only = vec![Index::Expr(0.into()); vb.dims.len()];
            let value = l.post.load(&vb, only);
            l.post.select(inside, element, value)
        }
        (None, None) => unreachable!("the value is a number or an operand"),
    };
    l.stores.push(Store::at(&yb, at.iter().map(Index::from).collect(), result));
    k.push(l);
    cx.launch(k)
}
