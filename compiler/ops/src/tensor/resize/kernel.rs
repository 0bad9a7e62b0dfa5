//! Resize as one loop over the output: each output element joins a few input elements, whose positions are
//! computed in double precision along each axis.
//!
//! Enlarging by a whole number to the nearest neighbour is an index map, which passes can fuse.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::expr::Expr;
use oaaxc_ir::kernel::{BinaryOp, Body, Fold, FoldKind, Index, Loop, Store, UnaryOp, V};
use oaaxc_ir::lower::{Arg, Buf, LowerCx};
use oaaxc_ir::{DType, ReadAttributes, ReadOperands, Scalar, Type};

use crate::formula::{Formula, compute_type};
use crate::tensor::resize::{
    Axis, Mode, Rounding, Scale, Settings, Transformation, axes, from_sizes, is_empty, known_axes, policy, settings,
};

type Result<T> = std::result::Result<T, Diagnostic>;

/// One resized axis while its body is written.
struct Line<'a> {
    axis: &'a Axis,
    input: &'a Expr,
    output: &'a Expr,
    place: &'a Expr,
}

/// The operands that a body may read.
struct Operands {
    scales: Option<Buf>,
    roi: Option<Buf>,
    axes: usize,
}

/// Lowers Resize and Upsample.
pub fn lower(cx: &mut LowerCx) -> Result<()> {
    let x = cx.arg(0)?;
    let set = settings(cx)?;
    let plan = defined_axes(cx, &x)?;
    let y = cx.result(0)?;
    let crop = set.transformation == Transformation::TfCropAndResize;
    let kept = |a: &Axis| matches!(&a.scale, Scale::Number(s) if *s == 1.0) || is_same(&a.scale);
    let moved: Vec<&Axis> = plan.iter().filter(|a| crop || !kept(a) || x.dims[a.dim] != y.dims[a.dim]).collect();
    if let Some(factors) = whole_factors(&set, &moved, &x, &y) {
        return cx.gather_map(&x, &y, |c| c.iter().zip(&factors).map(|(i, f)| i.floor_div(&Expr::constant(*f))).collect());
    }
    let scales = if plan.iter().any(|a| matches!(a.scale, Scale::Element(_))) { Some(cx.arg(2)?) } else { None };
    let roi = if crop { Some(cx.arg(1)?) } else { None };

    let mut k = cx.kernel();
    let xb = k.read(&x);
    let operands =
        Operands { scales: scales.as_ref().map(|s| k.read(s)), roi: roi.as_ref().map(|r| k.read(r)), axes: plan.len() };
    let yb = k.write(&y);
    let mut l = Loop::default();
    let c = k.axes(&mut l.parallel, &y.dims);
    let lines: Vec<Line> = moved
        .iter()
        .map(|axis| Line { axis, input: &x.dims[axis.dim], output: &y.dims[axis.dim], place: &c[axis.dim] })
        .collect();
    let compute = compute_type(x.dtype);
    let index: Vec<Index> = c.iter().map(Index::from).collect();

    let value = if set.antialias {
        // Windows grow with the shrinking: their taps are loops.
        let mut taps = Vec::new();
        for line in &lines {
            let Some((first, count)) = window(&set, line) else {
                return Err(cx.fail(Code::UNSUPPORTED, "antialias with scales known only at run time is not compiled"));
            };
            taps.push((first, k.axis(&mut l.reduce, count)));
        }
        if taps.is_empty() {
            k.axis(&mut l.reduce, 1);
        }
        let mut from = index.clone();
        let mut weight = l.body.float(DType::F64, 1.0);
        for (line, (first, tap)) in lines.iter().zip(&taps) {
            let source = source(&mut l.body, &set, line, &operands);
            let offset = l.body.index(first + tap);
            let (at, w) = tap_at(&mut l.body, &set, line, &operands, source, offset);
            from[line.axis.dim] = Index::Value(at);
            weight = l.body.binary(BinaryOp::Mul, weight, w);
        }
        let v = l.body.load(&xb, from);
        let v = l.body.cast(DType::F64, v);
        let product = l.body.binary(BinaryOp::Mul, v, weight);
        l.folds.push(Fold { kind: FoldKind::Sum, value: product, dtype: DType::F64 });
        l.folds.push(Fold { kind: FoldKind::Sum, value: weight, dtype: DType::F64 });
        let (sum, total) = (l.post.param(0, DType::F64), l.post.param(1, DType::F64));
        l.post.binary(BinaryOp::Div, sum, total)
    } else {
        joined(&mut l.post, &set, &lines, &operands, &xb, index.clone(), compute)
    };
    let mut value = clamped(&mut l.post, value, y.dtype);
    if crop {
        let beyond = l.post.float(compute, set.extrapolation);
        let beyond = l.post.cast(y.dtype, beyond);
        for line in &lines {
            let at = source(&mut l.post, &set, line, &operands);
            let outside = is_outside(&mut l.post, at, line.input);
            value = l.post.select(outside, beyond, value);
        }
    }
    l.stores.push(Store::at(&yb, index, value));
    k.push(l);
    cx.launch(k)
}

fn is_same(scale: &Scale) -> bool {
    matches!(scale, Scale::Ratio(n, d) if n == d)
}

/// The axes with all sizes known to the host: run-time scales and sizes are read here.
fn defined_axes(cx: &mut LowerCx, x: &Arg) -> Result<Vec<Axis>> {
    let mut plan = known_axes(cx)?;
    if plan.iter().all(|a| a.size.is_some()) {
        return Ok(plan);
    }
    let Some(Type::Tensor(ty)) = cx.output_type(0).cloned() else { return Ok(plan) };
    let sizes = ty.shape.unwrap_or_default();
    if cx.has_input(3) && !is_empty(cx, 3) {
        let cells = cx.sizes(3)?;
        let axes = axes(cx, x.dims.len())?;
        plan = from_sizes(&x.dims, &axes, &cells, policy(cx)?);
        for axis in &plan {
            if let Some(size) = &axis.size {
                cx.define(&sizes[axis.dim], size.clone())?;
            }
        }
        return Ok(plan);
    }
    if cx.constant(2).is_none() {
        let scales = cx.arg(2)?;
        let cells = cx.temp(DType::I64, vec![plan.len().into()]);
        let mut k = cx.kernel();
        let (sb, cb) = (k.read(&scales), k.write(&cells));
        for axis in &plan {
            let mut l = Loop::default();
            let scale = l.post.load(&sb, vec![Index::Expr(axis.place.into())]);
            let scale = l.post.cast(DType::F64, scale);
            let size = l.post.index(x.dims[axis.dim].clone());
            let size = l.post.cast(DType::F64, size);
            let size = l.post.binary(BinaryOp::Mul, size, scale);
            let size = l.post.unary(UnaryOp::Floor, size);
            let size = l.post.cast(DType::I64, size);
            l.stores.push(Store::at(&cb, vec![Index::Expr(axis.place.into())], size));
            k.push(l);
        }
        cx.launch(k)?;
        for axis in &plan {
            let cell = cx.read_cell(&cells, axis.place);
            cx.define(&sizes[axis.dim], cell)?;
        }
        return Ok(plan);
    }
    Err(cx.fail(Code::UNSUPPORTED, "a scale that is no short fraction needs sizes known when the model is built"))
}

/// The factor of each dim where output position i is input position i / factor.
fn whole_factors(set: &Settings, moved: &[&Axis], x: &Arg, y: &Arg) -> Option<Vec<i64>> {
    use Rounding::{Floor, PreferCeil, PreferFloor};
    use Transformation::{Asymmetric, HalfPixel};
    let floors = matches!((set.transformation, set.rounding), (Asymmetric, Floor) | (HalfPixel, PreferFloor | PreferCeil));
    if set.mode != Mode::Nearest || !floors {
        return None;
    }
    let mut factors = vec![1; x.dims.len()];
    for axis in moved {
        let (old, new) = (&x.dims[axis.dim], &y.dims[axis.dim]);
        let factor = new.floor_div(old).as_const().filter(|f| *f >= 1 && old * &Expr::constant(*f) == *new)?;
        let scale_is_whole = match &axis.scale {
            Scale::Number(s) => *s == factor as f64,
            Scale::Ratio(n, d) => d * &Expr::constant(factor) == *n,
            Scale::Element(_) => false,
        };
        if !scale_is_whole {
            return None;
        }
        factors[axis.dim] = factor;
    }
    Some(factors)
}

/// First tap relative to the floor of the source, and how many, for a window that grows as the axis shrinks.
fn window(set: &Settings, line: &Line) -> Option<(Expr, Expr)> {
    let radius = if set.mode == Mode::Linear { 1i64 } else { 2 };
    // radius / min(scale, 1), rounded up.
    let reach = match &line.axis.scale {
        Scale::Number(s) => Expr::constant((radius as f64 / s.min(1.0)).ceil() as i64),
        Scale::Ratio(n, d) => (d.maximum(n) * radius).ceil_div(n),
        Scale::Element(_) => return None,
    };
    let first = Expr::constant(1) - &reach;
    Some((first.clone(), Expr::constant(2) - first * 2))
}

/// The scale in double precision.
fn scale(body: &mut Body, line: &Line, operands: &Operands) -> V {
    match (&line.axis.scale, &operands.scales) {
        (Scale::Number(s), _) => body.float(DType::F64, *s),
        (Scale::Element(place), Some(scales)) => {
            let v = body.load(scales, vec![Index::Expr((*place).into())]);
            body.cast(DType::F64, v)
        }
        (Scale::Ratio(n, d), _) => {
            let (n, d) = (body.index(n.clone()), body.index(d.clone()));
            let (n, d) = (body.cast(DType::F64, n), body.cast(DType::F64, d));
            body.binary(BinaryOp::Div, n, d)
        }
        (Scale::Element(_), None) => body.float(DType::F64, 1.0),
    }
}

/// Where the output position lies in the input.
fn source(body: &mut Body, set: &Settings, line: &Line, operands: &Operands) -> V {
    let scale = scale(body, line, operands);
    let whole = |body: &mut Body, e: &Expr| {
        let v = body.index(e.clone());
        body.cast(DType::F64, v)
    };
    let (i, input) = (whole(body, line.place), whole(body, line.input));
    let output_size = whole(body, line.output);
    let mut f = Formula { body, dtype: DType::F64 };
    let output = f.mul(scale, input);
    let one = f.number(1.0);
    let is_one = f.body.binary(BinaryOp::Eq, output, one);
    let half_pixel = |f: &mut Formula| {
        let middle = f.add_number(i, 0.5);
        let middle = f.div(middle, scale);
        f.add_number(middle, -0.5)
    };
    let (last, output_last) = (f.add_number(input, -1.0), f.add_number(output, -1.0));
    match set.transformation {
        Transformation::HalfPixel => half_pixel(&mut f),
        Transformation::PytorchHalfPixel => {
            let (usual, only) = (half_pixel(&mut f), f.number(-0.5));
            f.select(is_one, only, usual)
        }
        Transformation::HalfPixelSymmetric => {
            let adjustment = f.div(output_size, output);
            let rest = f.sub(one, adjustment);
            let center = f.scale(input, 0.5);
            let offset = f.mul(center, rest);
            let usual = half_pixel(&mut f);
            f.add(offset, usual)
        }
        Transformation::AlignCorners => {
            let far = f.mul(i, last);
            let at = f.div(far, output_last);
            let zero = f.number(0.0);
            f.select(is_one, zero, at)
        }
        Transformation::Asymmetric => f.div(i, scale),
        Transformation::TfHalfPixelForNearest => {
            let middle = f.add_number(i, 0.5);
            f.div(middle, scale)
        }
        Transformation::TfCropAndResize => {
            let roi = operands.roi.as_ref().expect("a crop has a region");
            let at = |f: &mut Formula, place: usize| {
                let v = f.body.load(roi, vec![Index::Expr(place.into())]);
                f.body.cast(DType::F64, v)
            };
            let (start, end) = (at(&mut f, line.axis.place), at(&mut f, line.axis.place + operands.axes));
            let along = f.div(i, output_last);
            let half = f.number(0.5);
            let along = f.select(is_one, half, along);
            let length = f.sub(end, start);
            let part = f.mul(along, length);
            let at = f.add(start, part);
            f.mul(at, last)
        }
    }
}

fn is_outside(body: &mut Body, at: V, input: &Expr) -> V {
    let zero = body.float(DType::F64, 0.0);
    let last = body.index(input - 1);
    let last = body.cast(DType::F64, last);
    let before = body.binary(BinaryOp::Lt, at, zero);
    let after = body.binary(BinaryOp::Gt, at, last);
    body.binary(BinaryOp::Or, before, after)
}

/// A position brought into the axis, as an index.
fn position(body: &mut Body, at: V, input: &Expr) -> V {
    let at = body.cast(DType::I64, at);
    let (zero, last) = (body.int(DType::I64, 0), body.index(input - 1));
    let at = body.binary(BinaryOp::Min, at, last);
    body.binary(BinaryOp::Max, at, zero)
}

/// The tap at `offset` from the floor of the source: its index and weight.
fn tap_at(body: &mut Body, set: &Settings, line: &Line, operands: &Operands, source: V, offset: V) -> (V, V) {
    let base = body.unary(UnaryOp::Floor, source);
    let offset = body.cast(DType::F64, offset);
    let at = body.binary(BinaryOp::Add, base, offset);
    let mut distance = body.binary(BinaryOp::Sub, at, source);
    if set.antialias {
        let scale = scale(body, line, operands);
        let one = body.float(DType::F64, 1.0);
        let shrink = body.binary(BinaryOp::Min, scale, one);
        distance = body.binary(BinaryOp::Mul, distance, shrink);
    }
    let distance = body.unary(UnaryOp::Abs, distance);
    let mut f = Formula { body, dtype: DType::F64 };
    let mut weight = if set.mode == Mode::Linear {
        let (one, zero) = (f.number(1.0), f.number(0.0));
        let w = f.sub(one, distance);
        f.max(w, zero)
    } else {
        cubic(&mut f, set.cubic, distance)
    };
    if set.exclude_outside {
        let outside = is_outside(f.body, at, line.input);
        let zero = f.number(0.0);
        weight = f.select(outside, zero, weight);
    }
    (position(body, at, line.input), weight)
}

/// Keys' cubic convolution at a distance.
fn cubic(f: &mut Formula, a: f64, d: V) -> V {
    let near = f.scale(d, a + 2.0);
    let near = f.add_number(near, -(a + 3.0));
    let near = f.mul(near, d);
    let near = f.mul(near, d);
    let near = f.add_number(near, 1.0);
    let far = f.scale(d, a);
    let far = f.add_number(far, -5.0 * a);
    let far = f.mul(far, d);
    let far = f.add_number(far, 8.0 * a);
    let far = f.mul(far, d);
    let far = f.add_number(far, -4.0 * a);
    let zero = f.number(0.0);
    let (in_near, in_far) = (f.is_less(d, 1.0), f.is_less(d, 2.0));
    let outer = f.select(in_far, far, zero);
    f.select(in_near, near, outer)
}

/// All taps of all axes, written out.
fn joined(body: &mut Body, set: &Settings, lines: &[Line], operands: &Operands, x: &Buf, index: Vec<Index>, compute: DType) -> V {
    // Choices so far: an index for every dim, and a weight.
    let mut points: Vec<(Vec<Index>, Option<V>)> = vec![(index, None)];
    for line in lines {
        let source = source(body, set, line, operands);
        let mut taps = Vec::new();
        if set.mode == Mode::Nearest {
            let at = rounded(body, set.rounding, source);
            taps.push((position(body, at, line.input), None));
        } else {
            let (first, count) = if set.mode == Mode::Linear { (0, 2) } else { (-1, 4) };
            let mut weights = Vec::new();
            for t in 0..count {
                let offset = body.int(DType::I64, first + t);
                weights.push(tap_at(body, set, line, operands, source, offset));
            }
            if set.exclude_outside {
                let total = weights.iter().map(|w| w.1).reduce(|a, b| body.binary(BinaryOp::Add, a, b)).expect("there are taps");
                weights.iter_mut().for_each(|w| w.1 = body.binary(BinaryOp::Div, w.1, total));
            }
            taps.extend(weights.into_iter().map(|(at, w)| (at, Some(body.cast(compute, w)))));
        }
        let mut next = Vec::new();
        for (index, weight) in &points {
            for (at, w) in &taps {
                let mut index = index.clone();
                index[line.axis.dim] = Index::Value(*at);
                let weight = match (*weight, *w) {
                    (Some(a), Some(b)) => Some(body.binary(BinaryOp::Mul, a, b)),
                    (a, b) => a.or(b),
                };
                next.push((index, weight));
            }
        }
        points = next;
    }
    let mut sum = None;
    for (index, weight) in points {
        let v = body.load(x, index);
        let v = match weight {
            // The nearest element is copied, not computed.
            None => return v,
            Some(weight) => {
                let v = body.cast(compute, v);
                body.binary(BinaryOp::Mul, v, weight)
            }
        };
        sum = Some(sum.map_or(v, |s| body.binary(BinaryOp::Add, s, v)));
    }
    sum.expect("there is a point")
}

fn rounded(body: &mut Body, rounding: Rounding, x: V) -> V {
    let half = body.float(DType::F64, 0.5);
    match rounding {
        Rounding::Floor => body.unary(UnaryOp::Floor, x),
        Rounding::Ceil => body.unary(UnaryOp::Ceil, x),
        Rounding::PreferFloor => {
            let x = body.binary(BinaryOp::Sub, x, half);
            body.unary(UnaryOp::Ceil, x)
        }
        Rounding::PreferCeil => {
            let x = body.binary(BinaryOp::Add, x, half);
            body.unary(UnaryOp::Floor, x)
        }
    }
}

/// Cast to the result's type; integers are cut to their range.
fn clamped(body: &mut Body, value: V, dtype: DType) -> V {
    let from = body.dtype(value);
    if from == dtype {
        return value;
    }
    if let Some((low, high)) = dtype.integer_range() {
        let (low, high) = (body.float(from, low as f64), body.float(from, high as f64));
        let v = body.binary(BinaryOp::Max, value, low);
        let v = body.binary(BinaryOp::Min, v, high);
        return body.cast(dtype, v);
    }
    if dtype == DType::Bool {
        let zero = body.scalar(Scalar::zero(from));
        return body.binary(BinaryOp::Ne, value, zero);
    }
    body.cast(dtype, value)
}
