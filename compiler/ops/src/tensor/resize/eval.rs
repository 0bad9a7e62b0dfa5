//! Resize, slow and obvious: one axis after the other, in double precision.

use oaaxc_base::Diagnostic;
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::tensor::{Coordinates, Tensor, position};
use oaaxc_ir::{DType, Datum, Scalar};

use crate::sizes::dim;
use crate::tensor::resize::{
    Axis, Mode, Rounding, Scale, Settings, Transformation, axes, from_scales, from_sizes, policy, settings,
};

type Result<T> = std::result::Result<T, Diagnostic>;

/// One axis in numbers.
struct Line {
    input: usize,
    output: usize,
    scale: f64,
    roi: Option<(f64, f64)>,
}

/// Evaluates Resize and Upsample.
pub fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let set = settings(cx)?;
    let shape: Vec<Expr> = x.dims.iter().map(|&d| d.into()).collect();
    let axes = axes(cx, x.rank())?;
    let sizes = cx.optional(3)?.filter(|t| !t.is_empty());
    let plan: Vec<Axis> = match sizes {
        Some(sizes) => {
            let sizes: Vec<Expr> = sizes.to_i64s().into_iter().map(Expr::constant).collect();
            from_sizes(&shape, &axes, &sizes, policy(cx)?)
        }
        None => {
            let scales: Vec<f32> = cx.input(2)?.to_f64s().into_iter().map(|s| s as f32).collect();
            from_scales(&shape, &axes, &scales)
        }
    };
    let roi = cx.optional(1)?.filter(|t| t.len() == 2 * axes.len()).map(Tensor::to_f64s);
    let mut dims = x.dims.clone();
    let mut values = x.to_f64s();
    for axis in &plan {
        let number = |e: &Expr| e.as_const().expect("numbers give numbers");
        let scale = match &axis.scale {
            Scale::Number(scale) => *scale,
            Scale::Ratio(n, d) => number(n) as f64 / number(d) as f64,
            Scale::Element(_) => unreachable!("evaluation has all numbers"),
        };
        let roi = roi.as_ref().map(|r| (r[axis.place], r[axis.place + axes.len()]));
        let output = dim(axis.size.as_ref().map_or(0, number));
        let line = Line { input: dims[axis.dim], output, scale, roi };
        let whole = roi.is_none_or(|r| r == (0.0, 1.0));
        if scale == 1.0 && line.output == line.input && whole {
            continue;
        }
        (dims, values) = resize_axis(&set, &line, axis.dim, &dims, &values);
    }
    // Integers are cut to their range.
    let last = |v: f64| match x.dtype.integer_range() {
        Some((low, high)) => Scalar::from_integer(x.dtype, (v as i128).clamp(low, high)),
        None => Scalar::from_f64(v),
    };
    Ok(vec![
        Tensor::from_scalars(if x.dtype == DType::String { DType::F64 } else { x.dtype }, dims, values.into_iter().map(last))
            .into(),
    ])
}

fn resize_axis(set: &Settings, line: &Line, axis: usize, dims: &[usize], values: &[f64]) -> (Vec<usize>, Vec<f64>) {
    let mut out = dims.to_vec();
    out[axis] = line.output;
    let taps: Vec<Option<Vec<(usize, f64)>>> = (0..line.output).map(|i| taps(set, line, i as f64)).collect();
    let element = |mut c: Vec<usize>| {
        let Some(taps) = &taps[c[axis]] else { return set.extrapolation };
        let mut sum = 0.0;
        for &(at, weight) in taps {
            c[axis] = at;
            sum += weight * values[position(&c, dims)];
        }
        sum
    };
    let values = Coordinates::new(&out).map(element).collect();
    (out, values)
}

/// Where output position `i` lies in the input; `None` beyond it (crop only).
fn source(set: &Settings, line: &Line, i: f64) -> Option<f64> {
    let (input, scale) = (line.input as f64, line.scale);
    let output = scale * input;
    Some(match set.transformation {
        Transformation::HalfPixel => (i + 0.5) / scale - 0.5,
        Transformation::PytorchHalfPixel if output == 1.0 => -0.5,
        Transformation::PytorchHalfPixel => (i + 0.5) / scale - 0.5,
        Transformation::HalfPixelSymmetric => {
            let adjustment = line.output as f64 / output;
            input / 2.0 * (1.0 - adjustment) + (i + 0.5) / scale - 0.5
        }
        Transformation::AlignCorners if output == 1.0 => 0.0,
        Transformation::AlignCorners => i * (input - 1.0) / (output - 1.0),
        Transformation::Asymmetric => i / scale,
        Transformation::TfHalfPixelForNearest => (i + 0.5) / scale,
        Transformation::TfCropAndResize => {
            let (start, end) = line.roi.unwrap_or((0.0, 1.0));
            let along = if output == 1.0 { 0.5 } else { i / (output - 1.0) };
            let x = (start + along * (end - start)) * (input - 1.0);
            let x = if output == 1.0 { (end - start) * (input - 1.0) / 2.0 + start * (input - 1.0) } else { x };
            if x < 0.0 || x > input - 1.0 {
                return None;
            }
            x
        }
    })
}

/// Which input positions make output position `i`, with weights.
fn taps(set: &Settings, line: &Line, i: f64) -> Option<Vec<(usize, f64)>> {
    let x = source(set, line, i)?;
    let last = line.input as i64 - 1;
    let clamp = |at: f64| (at as i64).clamp(0, last) as usize;
    if set.mode == Mode::Nearest {
        let at = match set.rounding {
            Rounding::Floor => x.floor(),
            Rounding::Ceil => x.ceil(),
            Rounding::PreferFloor => (x - 0.5).ceil(),
            Rounding::PreferCeil => (x + 0.5).floor(),
        };
        return Some(vec![(clamp(at), 1.0)]);
    }
    let radius = if set.mode == Mode::Linear { 1.0 } else { 2.0 };
    let shrink = if set.antialias { line.scale.min(1.0) } else { 1.0 };
    let first = (-radius / shrink).floor() + 1.0;
    let count = 2.0 - 2.0 * first;
    let (base, mut weights) = (x.floor(), Vec::new());
    let mut t = 0.0;
    while t < count {
        let at = base + first + t;
        let distance = ((at - x) * shrink).abs();
        let weight = if set.mode == Mode::Linear { (1.0 - distance).max(0.0) } else { cubic(set.cubic, distance) };
        let outside = at < 0.0 || at > last as f64;
        weights.push((clamp(at), if set.exclude_outside && outside { 0.0 } else { weight }));
        t += 1.0;
    }
    let total: f64 = weights.iter().map(|w| w.1).sum();
    if set.exclude_outside || set.antialias {
        weights.iter_mut().for_each(|w| w.1 /= if total == 0.0 { 1.0 } else { total });
    }
    Some(weights)
}

/// Keys' cubic convolution at a distance.
fn cubic(a: f64, d: f64) -> f64 {
    if d <= 1.0 {
        ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0
    } else if d < 2.0 {
        ((a * d - 5.0 * a) * d + 8.0 * a) * d - 4.0 * a
    } else {
        0.0
    }
}
