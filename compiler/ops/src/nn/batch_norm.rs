//! BatchNormalization.
//!
//! ONNX: "Y = (X - input_mean) / sqrt(input_var + epsilon) * scale + B"; with `training_mode` the batch's own
//! mean and (population) variance take the place of the inputs, and results 1 and 2 are
//! "running_mean = input_mean * momentum + current_mean * (1 - momentum)" and likewise the variance.
//! `spatial` = 0 (before 9) gives every position its own parameters; their rank says so here.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Body, Index, Loop, Store};
use oaaxc_ir::lower::{Arg, LowerCx};
use oaaxc_ir::op::{Lower, OpDef};
use oaaxc_ir::tensor::{Coordinates, Tensor, position};
use oaaxc_ir::upgrade::UpgradeCx;
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands, ix};

use crate::formula::compute_type;
use crate::nn::layer_norm::inverse_root;
use crate::nn::rows::{self, Rows};

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static BATCH_NORMALIZATION: OpDef =
    OpDef { name: "BatchNormalization", domain: "", upgrade, infer, eval, lower: Lower::Kernels(lower) };

fn upgrade(cx: &mut UpgradeCx) -> Result<()> {
    if cx.version < 14 {
        // Version 1 to 6 said `is_test`; 7 and 9 train where more than one result is asked for.
        let test = cx.version < 7 && cx.flag("is_test", false)?;
        if !test && cx.output_count() > 1 {
            let message = "training (more than one result) before opset 14 is not supported";
            return Err(cx.fail(Code::UNSUPPORTED, message).help("export the model for inference"));
        }
        if cx.take("spatial") == Some(oaaxc_ir::Attribute::Int(0)) {
            cx.set("per_position", oaaxc_ir::Attribute::Int(1));
        }
        for name in ["is_test", "consumed_inputs"] {
            cx.take(name);
        }
    }
    Ok(())
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (cx.dtype(0)?, cx.shape(0)?);
    if shape.len() < 2 && !(shape.len() == 1 && cx.has_input(1)) {
        return Err(cx.fail(Code::SHAPE, format!("the input must have batch and channel dims, but its rank is {}", shape.len())));
    }
    let channels =
        if cx.flag("per_position", false)? { shape[1..].to_vec() } else { vec![shape.get(1).cloned().unwrap_or(1.into())] };
    for (i, what) in [(1, "the size of scale"), (2, "the size of B"), (3, "the size of input_mean"), (4, "the size of input_var")]
    {
        let own = cx.shape(i)?;
        if own.len() != channels.len() {
            return Err(cx.fail(Code::SHAPE, format!("input {i} must have rank {}, not {}", channels.len(), own.len())));
        }
        for (a, b) in own.iter().zip(&channels) {
            cx.require_equal(a, b, what)?;
        }
    }
    cx.set(0, dtype, shape);
    if cx.flag("training_mode", false)? {
        let mean = cx.dtype(3)?;
        cx.set(1, mean, channels.clone());
        cx.set(2, mean, channels);
    }
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let operand = |i: usize| -> Result<Vec<f64>> { Ok(cx.input(i)?.to_f64s()) };
    let (scale, shift, mut mean, mut variance) = (operand(1)?, operand(2)?, operand(3)?, operand(4)?);
    let (epsilon, momentum) = (f64::from(cx.float("epsilon", 1e-5)?), f64::from(cx.float("momentum", 0.9)?));
    let values = x.to_f64s();
    let mut results = Vec::new();
    if cx.flag("training_mode", false)? {
        let reduced: Vec<bool> = (0..x.rank()).map(|d| d != 1).collect();
        let now: Vec<(f64, f64)> = rows::positions(&x.dims, &reduced).iter().map(|r| rows::moments(&values, r)).collect();
        for (old, pick) in [(&mut mean, 0), (&mut variance, 1)] {
            let current: Vec<f64> = now.iter().map(|m| if pick == 0 { m.0 } else { m.1 }).collect();
            let running = old.iter().zip(&current).map(|(o, c)| o * momentum + c * (1.0 - momentum)).collect::<Vec<_>>();
            results.push(Datum::from(Tensor::from_f64s(cx.input(3)?.dtype, vec![running.len()], running)));
            *old = current;
        }
    }
    let parameter_dims = &cx.input(1)?.dims;
    let parameter = |c: &[usize]| position(c.get(1..1 + parameter_dims.len()).unwrap_or(&[0]), parameter_dims);
    let out = Coordinates::new(&x.dims).zip(&values).map(|(c, v)| {
        let p = parameter(&c);
        (v - mean[p]) / (variance[p] + epsilon).sqrt() * scale[p] + shift[p]
    });
    results.insert(0, Tensor::from_f64s(x.dtype, x.dims.clone(), out.collect::<Vec<_>>()).into());
    results.truncate(cx.output_count());
    Ok(results)
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let (x, y) = (cx.arg(0)?, cx.result(0)?);
    let (scale, shift, mut mean, mut variance) = (cx.arg(1)?, cx.arg(2)?, cx.arg(3)?, cx.arg(4)?);
    let (epsilon, stat) = (cx.float("epsilon", 1e-5)?, compute_type(x.dtype));
    if cx.flag("training_mode", false)? {
        (mean, variance) = train(cx, &x, stat)?;
    }
    let (factor, offset) = line(cx, stat, [&mean, &variance, &scale, &shift], epsilon)?;
    let mut k = cx.kernel();
    let [xb, fb, ob] = [&x, &factor, &offset].map(|a| k.read(a));
    let yb = k.write(&y);
    let mut l = Loop::default();
    let axes = k.axes(&mut l.parallel, &y.dims);
    let own: Vec<Index> = match factor.dims.len() {
        1 if axes.len() < 2 => ix![Expr::constant(0)],
        n => axes[1..1 + n].iter().map(Into::into).collect(),
    };
    let index: Vec<Index> = axes.iter().map(Into::into).collect();
    let b = &mut l.post;
    let v = b.load(&xb, index.clone());
    let v = b.cast(stat, v);
    let (f, o) = (b.load(&fb, own.clone()), b.load(&ob, own));
    let v = b.binary(BinaryOp::Mul, v, f);
    let v = b.binary(BinaryOp::Add, v, o);
    let v = b.cast(y.dtype, v);
    l.stores.push(Store::at(&yb, index, v));
    k.push(l);
    cx.launch(k)
}

/// `(x − mean) / √(variance + ε) · scale + shift` as `x · factor + offset`: one value of each per channel,
/// so that a normalisation by constants is two constants.
fn line(cx: &mut LowerCx, stat: DType, [mean, variance, scale, shift]: [&Arg; 4], epsilon: f32) -> Result<(Arg, Arg)> {
    let results = [cx.temp(stat, scale.dims.clone()), cx.temp(stat, scale.dims.clone())];
    let mut k = cx.kernel();
    let buffers = [mean, variance, scale, shift].map(|a| k.read(a));
    let [fb, ob] = [&results[0], &results[1]].map(|a| k.write(a));
    let mut l = Loop::default();
    let index: Vec<Index> = k.axes(&mut l.parallel, &scale.dims).iter().map(Into::into).collect();
    let b = &mut l.post;
    let [mean, variance, scale, shift] = buffers.map(|buffer| {
        let v = b.load(&buffer, index.clone());
        b.cast(stat, v)
    });
    let inverse = inverse_root(b, variance, epsilon);
    let factor = b.binary(BinaryOp::Mul, inverse, scale);
    let moved = b.binary(BinaryOp::Mul, mean, factor);
    let offset = b.binary(BinaryOp::Sub, shift, moved);
    l.stores.push(Store::at(&fb, index.clone(), factor));
    l.stores.push(Store::at(&ob, index, offset));
    k.push(l);
    cx.launch(k)?;
    let [factor, offset] = results;
    Ok((factor, offset))
}

/// The batch's mean and variance per channel; writes the running ones where asked for.
fn train(cx: &mut LowerCx, x: &Arg, stat: DType) -> Result<(Arg, Arg)> {
    let momentum = f64::from(cx.float("momentum", 0.9)?);
    let reduced: Vec<bool> = (0..x.dims.len()).map(|d| d != 1).collect();
    let (outer, inner) = rows::split(&x.dims, &reduced);
    let current = [cx.temp(stat, outer.clone()), cx.temp(stat, outer.clone())];
    let mut rows = Rows::new(cx.kernel(), &outer, &inner, stat);
    let xb = rows.k.read(x);
    let current_buffers = [rows.k.write(&current[0]), rows.k.write(&current[1])];
    let channel = rows.outer[0].clone();
    let load = |b: &mut Body, i: &[Expr]| {
        let index: Vec<Index> = [&i[0], &channel].into_iter().chain(&i[1..]).map(Into::into).collect();
        let v = b.load(&xb, index);
        b.cast(stat, v)
    };
    let mean = rows.mean(load, |_, m| m);
    let variance = rows.mean(
        |b, i| {
            let (v, m) = (load(b, i), b.load(&mean, vec![]));
            let d = b.binary(BinaryOp::Sub, v, m);
            b.binary(BinaryOp::Mul, d, d)
        },
        |_, v| v,
    );
    let mut running = Vec::new();
    for i in [1, 2] {
        running.push(if cx.has_output(i) { Some((rows.k.read(&cx.arg(i + 2)?), rows.k.write(&cx.result(i)?))) } else { None });
    }
    rows.once(|b| {
        let mut stores = Vec::new();
        for ((now, to), running) in [&mean, &variance].into_iter().zip(&current_buffers).zip(&running) {
            let v = b.load(now, vec![]);
            stores.push(Store::at(to, ix![channel.clone()], v));
            if let Some((old, to)) = running {
                let o = b.load(old, ix![channel.clone()]);
                let o = b.cast(stat, o);
                let (keep, take) = (b.float(stat, momentum), b.float(stat, 1.0 - momentum));
                let (o, n) = (b.binary(BinaryOp::Mul, o, keep), b.binary(BinaryOp::Mul, v, take));
                let r = b.binary(BinaryOp::Add, o, n);
                let r = b.cast(to.dtype, r);
                stores.push(Store::at(to, ix![channel.clone()], r));
            }
        }
        stores
    });
    cx.launch(rows.k)?;
    let [mean, variance] = current;
    Ok((mean, variance))
}
