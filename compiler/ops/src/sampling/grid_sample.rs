//! GridSample. ONNX: "Given an input X and a flow-field grid, computes the output Y using X values and pixel
//! locations from the grid"; coordinates are in [-1, 1], x first; modes nearest (ties to even), linear, cubic;
//! beyond the borders zeros, the border, or reflection.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Index, Loop, Store, UnaryOp, V};
use oaaxc_ir::lower::{Buf, LowerCx};
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::{Coordinates, Tensor, position};
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands, Scalar};

use crate::formula::{Formula, compute_type};

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static GRID_SAMPLE: OpDef =
    OpDef { name: "GridSample", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };

#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Nearest,
    Linear,
    Cubic,
}

#[derive(Clone, Copy, PartialEq)]
enum Padding {
    Zeros,
    Border,
    Reflection,
}

#[derive(Clone, Copy)]
struct Settings {
    mode: Mode,
    padding: Padding,
    align: bool,
}

/// The coefficient of cubic convolution that ONNX fixes.
const CUBIC: f64 = -0.75;

fn settings(cx: &impl ReadAttributes) -> Result<Settings> {
    let mode = match &cx.text("mode", "linear")?[..] {
        "nearest" => Mode::Nearest,
        "linear" | "bilinear" => Mode::Linear,
        "cubic" | "bicubic" => Mode::Cubic,
        other => return Err(cx.fail(Code::ATTRIBUTE, format!("`mode` \"{other}\" is not known"))),
    };
    let padding = match &cx.text("padding_mode", "zeros")?[..] {
        "zeros" => Padding::Zeros,
        "border" => Padding::Border,
        "reflection" => Padding::Reflection,
        other => return Err(cx.fail(Code::ATTRIBUTE, format!("`padding_mode` \"{other}\" is not known"))),
    };
    Ok(Settings { mode, padding, align: cx.flag("align_corners", false)? })
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape, grid) = (cx.dtype(0)?, cx.shape(0)?, cx.shape(1)?);
    settings(cx)?;
    if shape.len() < 3 || grid.len() != shape.len() {
        return Err(cx.fail(Code::RANK, "input and grid must have equal ranks of 3 or more"));
    }
    cx.require_equal(&grid[0], &shape[0], "batches of input and grid")?;
    cx.require_equal(&grid[grid.len() - 1], &(shape.len() - 2).into(), "coordinates of a grid point")?;
    let out = [&shape[..2], &grid[1..grid.len() - 1]].concat();
    cx.set(0, dtype, out);
    Ok(())
}

/// Reflected at both borders until inside.
fn reflect(v: f64, low: f64, high: f64) -> f64 {
    let range = high - low;
    if range <= 0.0 {
        return low;
    }
    let m = (v - low).rem_euclid(2.0 * range);
    low + if m > range { 2.0 * range - m } else { m }
}

/// Positions along one axis (`None`: a zero) with weights.
fn taps(set: &Settings, coordinate: f64, size: usize) -> Vec<(Option<usize>, f64)> {
    let length = size as f64;
    let mut x = if set.align { (coordinate + 1.0) / 2.0 * (length - 1.0) } else { ((coordinate + 1.0) * length - 1.0) / 2.0 };
    // The reference rounds coordinates to single precision.
    x = f64::from(x as f32);
    let (low, high) = if set.align { (0.0, length - 1.0) } else { (-0.5, length - 0.5) };
    if set.mode == Mode::Nearest {
        x = x.round_ties_even();
    }
    if x < low || x > high {
        x = match set.padding {
            Padding::Zeros => x,
            Padding::Border => x.clamp(0.0, length - 1.0),
            Padding::Reflection => reflect(x, low, high),
        };
    }
    let base = if set.mode == Mode::Nearest { x.trunc() } else { x.floor() };
    let r = x - base;
    let weights = match set.mode {
        Mode::Nearest => vec![(0.0, 1.0)],
        Mode::Linear => vec![(0.0, 1.0 - r), (1.0, r)],
        Mode::Cubic => [-1.0, 0.0, 1.0, 2.0].map(|t| (t, cubic((t - r).abs()))).to_vec(),
    };
    let at = |i: f64| {
        let i = match set.padding {
            Padding::Zeros => i,
            Padding::Border => i.clamp(0.0, length - 1.0),
            Padding::Reflection if i < low || i > high => reflect(i, low, high).trunc(),
            Padding::Reflection => i,
        };
        (0.0 <= i && i < length).then_some(i as usize)
    };
    weights.into_iter().map(|(t, w)| (at(base + t), w)).collect()
}

fn cubic(d: f64) -> f64 {
    if d <= 1.0 {
        ((CUBIC + 2.0) * d - (CUBIC + 3.0)) * d * d + 1.0
    } else {
        ((CUBIC * d - 5.0 * CUBIC) * d + 8.0 * CUBIC) * d - 4.0 * CUBIC
    }
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (x, grid) = (cx.input(0)?, cx.input(1)?);
    let set = settings(cx)?;
    let k = x.rank() - 2;
    let dims = [&x.dims[..2], &grid.dims[1..=k]].concat();
    let element = |c: Vec<usize>| {
        // Choices of taps, one axis after the other; a missing tap is a zero.
        let mut points = vec![(Some(c[..2].to_vec()), 1.0)];
        for d in 0..k {
            let at = [&c[..1], &c[2..], &[k - 1 - d]].concat();
            let taps = taps(&set, grid.f64_at(position(&at, &grid.dims)), x.dims[2 + d]);
            let join = |(point, weight): &(Option<Vec<usize>>, f64)| {
                let with = |(tap, w): &(Option<usize>, f64)| {
                    let next = point.clone().zip(*tap).map(|(p, t)| [&p[..], &[t]].concat());
                    (next, weight * w)
                };
                taps.iter().map(with).collect::<Vec<_>>()
            };
            points = points.iter().flat_map(join).collect();
        }
        let value = |(point, weight): (Option<Vec<usize>>, f64)| point.map_or(0.0, |p| weight * x.f64_at(position(&p, &x.dims)));
        points.into_iter().map(value).sum()
    };
    let values: Vec<f64> = Coordinates::new(&dims).map(element).collect();
    Ok(vec![Tensor::from_f64s(x.dtype, dims, values).into()])
}

/// One axis of one output point while its body is written.
struct Axis<'a> {
    size: &'a Expr,
    low: V,
    high: V,
    last: V,
}

fn reflect_body(f: &mut Formula, v: V, axis: &Axis) -> V {
    let range = f.sub(axis.high, axis.low);
    let (twice, from_low) = (f.scale(range, 2.0), f.sub(v, axis.low));
    let m = f.body.binary(BinaryOp::Mod, from_low, twice);
    let back = f.sub(twice, m);
    let beyond = f.body.binary(BinaryOp::Gt, m, range);
    let m = f.select(beyond, back, m);
    let inside = f.add(axis.low, m);
    // A dim of one element has nowhere to go.
    let has_range = f.is_greater(range, 0.0);
    f.select(has_range, inside, axis.low)
}

fn is_beyond(f: &mut Formula, v: V, axis: &Axis) -> V {
    let (below, above) = (f.body.binary(BinaryOp::Lt, v, axis.low), f.body.binary(BinaryOp::Gt, v, axis.high));
    f.body.binary(BinaryOp::Or, below, above)
}

fn clamp_body(f: &mut Formula, v: V, axis: &Axis) -> V {
    let zero = f.number(0.0);
    let v = f.min(v, axis.last);
    f.max(v, zero)
}

fn taps_body(f: &mut Formula, set: &Settings, coordinate: V, size: &Expr) -> Vec<(V, V)> {
    let length = f.body.index(size.clone());
    let length = f.body.cast(f.dtype, length);
    let last = f.add_number(length, -1.0);
    let shifted = f.add_number(coordinate, 1.0);
    let mut x = if set.align {
        let half = f.scale(shifted, 0.5);
        f.mul(half, last)
    } else {
        let far = f.mul(shifted, length);
        let far = f.add_number(far, -1.0);
        f.scale(far, 0.5)
    };
    let (low, high) = if set.align { (f.number(0.0), last) } else { (f.number(-0.5), f.add_number(length, -0.5)) };
    let axis = Axis { size, low, high, last };
    if set.mode == Mode::Nearest {
        x = f.unary(UnaryOp::Round, x);
    }
    if set.padding != Padding::Zeros {
        let beyond = is_beyond(f, x, &axis);
        let moved = if set.padding == Padding::Border { clamp_body(f, x, &axis) } else { reflect_body(f, x, &axis) };
        x = f.select(beyond, moved, x);
    }
    let base = f.unary(if set.mode == Mode::Nearest { UnaryOp::Trunc } else { UnaryOp::Floor }, x);
    let r = f.sub(x, base);
    let offsets: &[f64] = match set.mode {
        Mode::Nearest => &[0.0],
        Mode::Linear => &[0.0, 1.0],
        Mode::Cubic => &[-1.0, 0.0, 1.0, 2.0],
    };
    let one = f.number(1.0);
    let mut all = Vec::new();
    for &t in offsets {
        let t = f.number(t);
        let distance = f.sub(t, r);
        let distance = f.unary(UnaryOp::Abs, distance);
        let weight = match set.mode {
            Mode::Nearest => one,
            Mode::Linear => f.sub(one, distance),
            Mode::Cubic => cubic_body(f, distance),
        };
        let mut at = f.add(base, t);
        if set.padding == Padding::Border {
            at = clamp_body(f, at, &axis);
        } else if set.padding == Padding::Reflection {
            let beyond = is_beyond(f, at, &axis);
            let moved = reflect_body(f, at, &axis);
            let moved = f.unary(UnaryOp::Trunc, moved);
            at = f.select(beyond, moved, at);
        }
        all.push((f.body.cast(DType::I64, at), weight));
    }
    debug_assert!(!axis.size.is(0), "a dim of no elements has no points");
    all
}

fn cubic_body(f: &mut Formula, d: V) -> V {
    let near = f.scale(d, CUBIC + 2.0);
    let near = f.add_number(near, -(CUBIC + 3.0));
    let near = f.mul(near, d);
    let near = f.mul(near, d);
    let near = f.add_number(near, 1.0);
    let far = f.scale(d, CUBIC);
    let far = f.add_number(far, -5.0 * CUBIC);
    let far = f.mul(far, d);
    let far = f.add_number(far, 8.0 * CUBIC);
    let far = f.mul(far, d);
    let far = f.add_number(far, -4.0 * CUBIC);
    let one = f.number(1.0);
    let is_near = f.body.binary(BinaryOp::Le, d, one);
    f.select(is_near, near, far)
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let (x, grid, y) = (cx.arg(0)?, cx.arg(1)?, cx.result(0)?);
    let set = settings(cx)?;
    let n = x.dims.len() - 2;
    let mut k = cx.kernel();
    let (xb, gb, yb) = (k.read(&x), k.read(&grid), k.write(&y));
    let mut l = Loop::default();
    let c: Vec<Index> = k.axes(&mut l.parallel, &y.dims).iter().map(Index::from).collect();
    let compute = compute_type(x.dtype);
    let mut points: Vec<(Vec<Index>, Option<V>)> = vec![(c[..2].to_vec(), None)];
    for d in 0..n {
        let at = [&c[..1], &c[2..], &[Index::Expr((n - 1 - d).into())]].concat();
        let mut f = Formula { body: &mut l.post, dtype: compute_type(grid.dtype) };
        let coordinate = f.body.load(&gb, at);
        let coordinate = f.body.cast(f.dtype, coordinate);
        let taps = taps_body(&mut f, &set, coordinate, &x.dims[2 + d]);
        let taps: Vec<(V, V)> = taps.into_iter().map(|(at, w)| (at, l.post.cast(compute, w))).collect();
        let mut next = Vec::new();
        for (index, weight) in &points {
            for &(at, w) in &taps {
                let index = [&index[..], &[Index::Value(at)]].concat();
                let weight = weight.map_or(w, |weight| l.post.binary(BinaryOp::Mul, weight, w));
                next.push((index, Some(weight)));
            }
        }
        points = next;
    }
    let value = sum(&mut l.post, &xb, points, compute);
    let value = l.post.cast(y.dtype, value);
    l.stores.push(Store::at(&yb, c, value));
    k.push(l);
    cx.launch(k)
}

/// The weighted sum of elements; outside the image an element is 0.
fn sum(body: &mut oaaxc_ir::kernel::Body, x: &Buf, points: Vec<(Vec<Index>, Option<V>)>, compute: DType) -> V {
    let mut total = None;
    for (index, weight) in points {
        let v = body.load_or(x, index, Scalar::zero(x.dtype));
        let v = body.cast(compute, v);
        let v = weight.map_or(v, |w| body.binary(BinaryOp::Mul, v, w));
        total = Some(total.map_or(v, |t| body.binary(BinaryOp::Add, t, v)));
    }
    total.expect("there is a point")
}
