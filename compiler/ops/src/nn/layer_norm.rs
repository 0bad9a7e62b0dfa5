//! LayerNormalization and RMSNormalization, and ONNX Runtime's forms that add a skip connection first.
//!
//! ONNX: "Mean = ReduceMean(X), D = X - Mean, Var = ReduceMean(D * D), InvStdDev = Reciprocal(Sqrt(Var + epsilon)),
//! Y = D * InvStdDev * Scale + B", over the dims from `axis` on; RMSNormalization leaves the mean out.
//! Statistics are in f32 (f64 for double), whatever `stash_type` asks beyond the results' type.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Body, Index, Store, UnaryOp, V};
use oaaxc_ir::lower::{Buf, LowerCx};
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands};

use crate::broadcast::expand;
use crate::formula::compute_type;
use crate::nn::rows::{self, Rows};

type Result<T> = std::result::Result<T, Diagnostic>;

macro_rules! row {
    ($name:literal, $domain:literal) => {
        OpDef { name: $name, domain: $domain, upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) }
    };
}
/// ONNX LayerNormalization.
pub static LAYER_NORMALIZATION: OpDef = row!("LayerNormalization", "");
/// ONNX RMSNormalization.
pub static RMS_NORMALIZATION: OpDef = row!("RMSNormalization", "");
/// ONNX Runtime's older name of RMSNormalization, which it also writes into the default domain.
pub static SIMPLIFIED: OpDef = row!("SimplifiedLayerNormalization", "");
/// The same in com.microsoft.
pub static SIMPLIFIED_MICROSOFT: OpDef = row!("SimplifiedLayerNormalization", "com.microsoft");
/// `LayerNormalization(input + skip + bias)`; result 3 is the sum.
pub static SKIP: OpDef = row!("SkipLayerNormalization", "com.microsoft");
/// `RMSNormalization(input + skip + bias)`; result 3 is the sum.
pub static SKIP_SIMPLIFIED: OpDef = row!("SkipSimplifiedLayerNormalization", "com.microsoft");

/// Which operands are what.
struct Form {
    /// No mean is subtracted.
    rms: bool,
    skip: Option<usize>,
    scale: usize,
    shift: Option<usize>,
    /// Added to the sum of input and skip.
    bias: Option<usize>,
    epsilon: f32,
    /// The first normalised dim.
    axis: usize,
    stash: DType,
    /// The results for mean, inverse deviation and the sum of the skip connection.
    results: [Option<usize>; 3],
}

fn form(cx: &impl ReadAttributes, rank: usize) -> Result<Form> {
    let name = cx.node().op.name;
    let given = |i: usize| cx.node().inputs.get(i).is_some_and(Option::is_some).then_some(i);
    let stash = match cx.int("stash_type", 1)? {
        1 => DType::F32,
        n => i32::try_from(n)
            .ok()
            .and_then(DType::from_onnx)
            .filter(|d| d.is_float())
            .ok_or_else(|| cx.fail(Code::ATTRIBUTE, format!("`stash_type` {n} is no float type")))?,
    };
    let rms = name.contains("Simplified") || name.starts_with("RMS");
    let skip = name.starts_with("Skip");
    let axis = if skip { rank.saturating_sub(1) } else { cx.axis("axis", -1, rank)? };
    let (scale, shift, bias) = match (skip, rms) {
        (true, false) => (2, given(3), given(4)),
        (true, true) => (2, None, given(3)),
        (false, false) => (1, given(2), None),
        (false, true) => (1, None, None),
    };
    let default = if skip && !rms { 1e-12 } else { 1e-5 };
    let results = match (skip, rms) {
        (true, _) => [Some(1), Some(2), Some(3)],
        (false, false) => [Some(1), Some(2), None],
        (false, true) => [None, Some(1), None],
    };
    let skip = skip.then_some(1);
    Ok(Form { rms, skip, scale, shift, bias, epsilon: cx.float("epsilon", default)?, axis, stash, results })
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (cx.dtype(0)?, cx.shape(0)?);
    let form = form(cx, shape.len())?;
    for operand in [Some(form.scale), form.shift, form.bias, form.skip].into_iter().flatten() {
        let other = cx.shape(operand)?;
        if other.len() > shape.len() {
            return Err(cx.fail(Code::SHAPE, format!("input {operand} has rank {}, more than X's {}", other.len(), shape.len())));
        }
        for (a, b) in other.iter().rev().zip(shape.iter().rev()) {
            if !a.is(1) {
                cx.require_equal(a, b, "the sizes of an operand and of X")?;
            }
        }
    }
    let reduced: Vec<Expr> = shape.iter().enumerate().map(|(d, e)| if d < form.axis { e.clone() } else { 1.into() }).collect();
    cx.set(0, cx.dtype(form.scale)?, shape.clone());
    for i in form.results[..2].iter().flatten() {
        cx.set(*i, form.stash, reduced.clone());
    }
    if let Some(i) = form.results[2] {
        cx.set(i, dtype, shape);
    }
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let form = form(cx, x.rank())?;
    let wide = |i: usize| -> Result<Vec<f64>> { Ok(expand(cx.input(i)?, &x.dims).to_f64s()) };
    let mut values = x.to_f64s();
    for operand in [form.skip, form.bias].into_iter().flatten() {
        values.iter_mut().zip(wide(operand)?).for_each(|(v, w)| *v += w);
    }
    let (scale, shift) = (wide(form.scale)?, form.shift.map(wide).transpose()?);
    let reduced: Vec<bool> = (0..x.rank()).map(|d| d >= form.axis).collect();
    let (mut out, mut means, mut inverses) = (vec![0.0; values.len()], Vec::new(), Vec::new());
    for row in rows::positions(&x.dims, &reduced) {
        let (mean, variance) = rows::moments(&values, &row);
        let square = row.iter().map(|&i| values[i] * values[i]).sum::<f64>() / row.len() as f64;
        let (mean, power) = if form.rms { (0.0, square) } else { (mean, variance) };
        let inverse = 1.0 / (power + f64::from(form.epsilon)).sqrt();
        for &i in &row {
            out[i] = (values[i] - mean) * inverse * scale[i] + shift.as_ref().map_or(0.0, |s| s[i]);
        }
        means.push(mean);
        inverses.push(inverse);
    }
    let small: Vec<usize> = x.dims.iter().enumerate().map(|(d, s)| if d < form.axis { *s } else { 1 }).collect();
    let dtype = cx.input(form.scale)?.dtype;
    let mut results = vec![Datum::from(Tensor::from_f64s(dtype, x.dims.clone(), out))];
    for (number, statistic) in form.results[..2].iter().zip([means, inverses]) {
        if number.is_some() {
            results.push(Tensor::from_f64s(form.stash, small.clone(), statistic).into());
        }
    }
    if form.results[2].is_some() {
        results.push(Tensor::from_f64s(x.dtype, x.dims.clone(), values).into());
    }
    results.truncate(cx.output_count());
    Ok(results)
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let (x, y) = (cx.arg(0)?, cx.result(0)?);
    let form = form(cx, x.dims.len())?;
    let stat = compute_type(x.dtype);
    let reduced: Vec<bool> = (0..x.dims.len()).map(|d| d >= form.axis).collect();
    let (outer, inner) = rows::split(&x.dims, &reduced);
    let mut rows = Rows::new(cx.kernel(), &outer, &inner, stat);
    let xb = rows.k.read(&x);
    let mut more = Vec::new();
    for operand in [form.skip, form.bias].into_iter().flatten() {
        more.push(rows.k.read(&cx.arg(operand)?));
    }
    let scale = rows.k.read(&cx.arg(form.scale)?);
    let shift = match form.shift {
        Some(i) => Some(rows.k.read(&cx.arg(i)?)),
        None => None,
    };
    let yb = rows.k.write(&y);
    let mut extra = Vec::new();
    for number in form.results {
        extra.push(match number.filter(|i| cx.has_output(*i)) {
            Some(i) => Some(rows.k.write(&cx.result(i)?)),
            None => None,
        });
    }
    let outer_index = rows.outer.clone();
    let element = |b: &mut Body, index: &[Expr]| -> V {
        let mut v = operand(b, &xb, index, stat);
        for m in &more {
            let w = operand(b, m, index, stat);
            v = b.binary(BinaryOp::Add, v, w);
        }
        v
    };
    let full = |inner: &[Expr]| -> Vec<Expr> { outer_index.iter().chain(inner).cloned().collect() };
    let mean = (!form.rms).then(|| rows.mean(|b, i| element(b, &full(i)), |_, m| m));
    let centred = |b: &mut Body, index: &[Expr]| {
        let v = element(b, index);
        match &mean {
            None => v,
            Some(m) => {
                let m = b.load(m, vec![]);
                b.binary(BinaryOp::Sub, v, m)
            }
        }
    };
    let inverse = rows.mean(
        |b, i| {
            let d = centred(b, &full(i));
            b.binary(BinaryOp::Mul, d, d)
        },
        |b, power| inverse_root(b, power, form.epsilon),
    );
    rows.each(|b, i| {
        let index = full(i);
        let d = centred(b, &index);
        let inverse = b.load(&inverse, vec![]);
        let mut v = b.binary(BinaryOp::Mul, d, inverse);
        let s = operand(b, &scale, &index, stat);
        v = b.binary(BinaryOp::Mul, v, s);
        if let Some(shift) = &shift {
            let s = operand(b, shift, &index, stat);
            v = b.binary(BinaryOp::Add, v, s);
        }
        let v = b.cast(y.dtype, v);
        let place: Vec<Index> = index.iter().map(Into::into).collect();
        let mut stores = vec![Store::at(&yb, place.clone(), v)];
        if let Some(sum) = &extra[2] {
            let v = element(b, &index);
            let v = b.cast(sum.dtype, v);
            stores.push(Store::at(sum, place, v));
        }
        stores
    });
    if extra[0].is_some() || extra[1].is_some() {
        rows.once(|b| {
            let ones = vec![Expr::constant(0); inner.len()];
            let place: Vec<Index> = full(&ones).iter().map(Into::into).collect();
            let mut stores = Vec::new();
            for (to, from) in [(&extra[0], mean.as_ref()), (&extra[1], Some(&inverse))] {
                if let Some(to) = to {
                    let v = match from {
                        Some(from) => b.load(from, vec![]),
                        None => b.float(stat, 0.0),
                    };
                    let v = b.cast(to.dtype, v);
                    stores.push(Store::at(to, place.clone(), v));
                }
            }
            stores
        });
    }
    cx.launch(rows.k)
}

/// An operand that broadcasts to the full index, as a statistic's type.
pub fn operand(b: &mut Body, buffer: &Buf, index: &[Expr], stat: DType) -> V {
    let skip = index.len() - buffer.dims.len();
    // Only sizes of 1 repeat: inference required the rest to be equal.
    let own = index[skip..].iter().zip(&buffer.dims).map(|(i, d)| if d.is(1) { 0.into() } else { i.clone() });
    let v = b.load(buffer, own.map(Index::Expr).collect());
    b.cast(stat, v)
}

/// `1 / √(x + epsilon)`.
pub fn inverse_root(b: &mut Body, x: V, epsilon: f32) -> V {
    let stat = b.dtype(x);
    let (epsilon, one) = (b.float(stat, f64::from(epsilon)), b.float(stat, 1.0));
    let x = b.binary(BinaryOp::Add, x, epsilon);
    let x = b.unary(UnaryOp::Sqrt, x);
    b.binary(BinaryOp::Div, one, x)
}
