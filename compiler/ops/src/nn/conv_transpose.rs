//! ConvTranspose: the gradient of a convolution as an operator of its own.
//!
//! ONNX: "output_shape[i] = stride[i] * (input_size[i] - 1) + output_padding[i] + ((kernel_shape[i] - 1) *
//! dilations[i] + 1) - pads[start_i] - pads[end_i]"; with `output_shape` the pads follow from it, and
//! SAME_UPPER puts the odd one behind, SAME_LOWER (and `output_shape` alone) before.
//!
//! Result pixel `o` reads input pixel `(o + begin − k·dilation) / stride` where that is whole. So the result
//! falls into `stride` phases per dim, each an ordinary convolution by every stride-th tap: one contract each,
//! with affine indices and no wasted products. Where pads are known only at run time, the input is spread
//! with zeros between its pixels instead.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Contract, Index, Loop, Operand, Step, Store};
use oaaxc_ir::lower::{Arg, LowerCx};
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::{Coordinates, Tensor, position};
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands, Scalar, ix};

use crate::nn::conv::{accumulator, group};

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static CONV_TRANSPOSE: OpDef =
    OpDef { name: "ConvTranspose", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };

/// One spatial dim.
#[derive(Clone, Debug)]
struct Dim {
    input: Expr,
    kernel: i64,
    stride: i64,
    dilation: i64,
    begin: Expr,
    output: Expr,
}

fn dims(cx: &impl ReadAttributes, input: &[Expr], kernel: &[Expr]) -> Result<Vec<Dim>> {
    let rank = input.len();
    let list = |name: &str, default: i64, count: usize| -> Result<Vec<i64>> {
        match cx.ints(name)? {
            None => Ok(vec![default; count]),
            Some(values) if values.len() == count => Ok(values),
            Some(values) => Err(cx.fail(Code::ATTRIBUTE, format!("`{name}` has {} values, {count} are needed", values.len()))),
        }
    };
    let (strides, dilations) = (list("strides", 1, rank)?, list("dilations", 1, rank)?);
    let (pads, more) = (list("pads", 0, 2 * rank)?, list("output_padding", 0, rank)?);
    let wanted = cx.ints("output_shape")?.map(|s| s[s.len().saturating_sub(rank)..].to_vec());
    let auto = cx.text("auto_pad", "NOTSET")?;
    let mut all = Vec::new();
    for i in 0..rank {
        let Some(taps) = kernel[i].as_const() else {
            return Err(cx.fail(Code::UNSUPPORTED, "the kernel's size must be known when the model is built"));
        };
        let (stride, dilation) = (strides[i], dilations[i]);
        if stride < 1 || dilation < 1 {
            return Err(cx.fail(Code::ATTRIBUTE, "strides and dilations must be positive"));
        }
        let full = (&input[i] - 1) * stride + more[i] + (taps - 1) * dilation + 1;
        let same = auto.starts_with("SAME");
        let (begin, output) = match &wanted {
            None if !same => {
                let pads = if auto == "VALID" { (0, 0) } else { (pads[i], pads[rank + i]) };
                (Expr::constant(pads.0), full - pads.0 - pads.1)
            }
            _ => {
                let output = wanted.as_ref().and_then(|w| w.get(i)).map_or(&input[i] * stride, |&w| Expr::constant(w));
                let total = (full - &output).maximum(&0.into());
                let half = total.floor_div(&2.into());
                (if auto == "SAME_UPPER" { half } else { total - half }, output)
            }
        };
        if output.as_const().is_some_and(|o| o < 0) {
            return Err(cx.fail(Code::SHAPE, format!("spatial dim {i} would have {output} elements")));
        }
        all.push(Dim { input: input[i].clone(), kernel: taps, stride, dilation, begin, output });
    }
    Ok(all)
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, x, w) = (cx.dtype(0)?, cx.shape(0)?, cx.shape(1)?);
    if x.len() < 3 || w.len() != x.len() {
        let message = format!("the input has rank {}, the weight rank {}: both must be equal and at least 3", x.len(), w.len());
        return Err(cx.fail(Code::SHAPE, message));
    }
    let group = group(cx)?;
    cx.require_equal(&x[1], &w[0], "the channels of the input and of the weight")?;
    if x[1].as_const().is_some_and(|c| c % group != 0) {
        return Err(cx.fail(Code::SHAPE, format!("{} channels do not divide into {group} groups", x[1])));
    }
    let spatial = dims(cx, &x[2..], &w[2..])?.into_iter().map(|d| d.output);
    cx.set(0, dtype, [x[0].clone(), &w[1] * group].into_iter().chain(spatial).collect());
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (x, w) = (cx.input(0)?, cx.input(1)?);
    let exprs = |d: &[usize]| d.iter().map(|&s| s.into()).collect::<Vec<Expr>>();
    let dims = dims(cx, &exprs(&x.dims[2..]), &exprs(&w.dims[2..]))?;
    let number = |e: &Expr| e.as_const().expect("sizes are numbers");
    let group = usize::try_from(group(cx)?).expect("checked positive");
    let (per_in, per_out) = (x.dims[1] / group, w.dims[1]);
    let spatial: Vec<usize> = dims.iter().map(|d| number(&d.output) as usize).collect();
    let out_dims: Vec<usize> = [x.dims[0], per_out * group].into_iter().chain(spatial.iter().copied()).collect();
    let (pixels, in_pixels): (usize, usize) = (spatial.iter().product(), x.dims[2..].iter().product());
    let taps: usize = w.dims[2..].iter().product();
    let (xv, wv) = (x.to_f64s(), w.to_f64s());
    let bias = cx.optional(2)?.map(Tensor::to_f64s);
    let mut out = vec![0.0; out_dims.iter().product()];
    // Every input pixel and tap: where it lands, if inside.
    let mut landings = Vec::new();
    for i in Coordinates::new(&x.dims[2..]) {
        for k in Coordinates::new(&w.dims[2..]) {
            let at: Vec<i64> = dims
                .iter()
                .enumerate()
                .map(|(d, s)| i[d] as i64 * s.stride + k[d] as i64 * s.dilation - number(&s.begin))
                .collect();
            if at.iter().zip(&spatial).all(|(a, s)| 0 <= *a && *a < *s as i64) {
                let to = at.iter().zip(&spatial).fold(0, |p, (a, s)| p * s + *a as usize);
                landings.push((position(&i, &x.dims[2..]), position(&k, &w.dims[2..]), to));
            }
        }
    }
    for n in 0..x.dims[0] {
        for m in 0..per_out * group {
            let plane = &mut out[(n * per_out * group + m) * pixels..][..pixels];
            plane.fill(bias.as_ref().map_or(0.0, |b| b[m]));
            for c in 0..per_in {
                let channel = m / per_out * per_in + c;
                let (image, filter) =
                    (&xv[(n * x.dims[1] + channel) * in_pixels..], &wv[(channel * per_out + m % per_out) * taps..]);
                landings.iter().for_each(|&(i, k, to)| plane[to] += image[i] * filter[k]);
            }
        }
    }
    Ok(vec![Tensor::from_f64s(x.dtype, out_dims, out).into()])
}

/// A run of result pixels on one dim, and the taps and input pixels that they read.
#[derive(Clone, Debug)]
struct Phase {
    /// First result pixel; the others follow at `step`.
    first: i64,
    step: i64,
    count: Expr,
    /// First tap, and the distance to the next one.
    tap: i64,
    tap_step: i64,
    taps: i64,
    /// The input pixel of result 0 and tap 0, what a result adds (1), and what a tap takes away.
    pixel: Expr,
    back: i64,
}

/// The phases of one dim; `None` where they depend on what only the run knows.
fn phases(d: &Dim) -> Option<Vec<Phase>> {
    let begin = d.begin.as_const()?;
    let mut all = Vec::new();
    for first in 0..d.stride {
        let whole: Vec<i64> = (0..d.kernel).filter(|k| (first + begin - k * d.dilation).rem_euclid(d.stride) == 0).collect();
        let tap = whole.first().copied().unwrap_or(0);
        let tap_step = if whole.len() > 1 { whole[1] - whole[0] } else { 1 };
        all.push(Phase {
            first,
            step: d.stride,
            count: (&d.output - first).ceil_div(&d.stride.into()).maximum(&0.into()),
            tap,
            tap_step,
            taps: whole.len() as i64,
            pixel: (first + begin - tap * d.dilation).div_euclid(d.stride).into(),
            back: tap_step * d.dilation / d.stride,
        });
    }
    Some(all)
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let (x, w, bias, y) = (cx.arg(0)?, cx.arg(1)?, cx.optional_arg(2)?, cx.result(0)?);
    let dims = dims(cx, &x.dims[2..], &w.dims[2..])?;
    let per_dim: Option<Vec<Vec<Phase>>> = dims.iter().map(phases).collect();
    let few = |p: &Vec<Vec<Phase>>| p.iter().map(Vec::len).product::<usize>() <= 64;
    let Some(per_dim) = per_dim.filter(few) else {
        let (spread, one) = spread(cx, &x, &dims)?;
        return phase(cx, &spread, &w, bias.as_ref(), &y, &one, true);
    };
    let mut first = true;
    for choice in Coordinates::new(&per_dim.iter().map(Vec::len).collect::<Vec<_>>()) {
        let chosen: Vec<Phase> = choice.iter().zip(&per_dim).map(|(&c, p)| p[c].clone()).collect();
        if chosen.iter().any(|p| p.count.is(0)) {
            continue;
        }
        phase(cx, &x, &w, bias.as_ref(), &y, &chosen, first)?;
        first = false;
    }
    Ok(())
}

/// The input with `stride − 1` zeros between its pixels, and the one phase that reads it.
fn spread(cx: &mut LowerCx, x: &Arg, dims: &[Dim]) -> Result<(Arg, Vec<Phase>)> {
    let wide = |d: &Dim| ((&d.input - 1) * d.stride + 1).maximum(&0.into());
    let out = cx.temp(x.dtype, x.dims[..2].iter().cloned().chain(dims.iter().map(wide)).collect());
    let mut k = cx.kernel();
    let (xb, yb) = (k.read(x), k.write(&out));
    let mut l = Loop::default();
    let axes = k.axes(&mut l.parallel, &out.dims);
    let mut hit = Expr::constant(1);
    let mut index: Vec<Index> = axes[..2].iter().map(Into::into).collect();
    for (d, a) in dims.iter().zip(&axes[2..]) {
        let stride = Expr::constant(d.stride);
        hit = hit * a.modulo(&stride).equal(&0.into());
        index.push(a.floor_div(&stride).into());
    }
    let b = &mut l.post;
    let (hit, none) = (b.index(hit), b.int(DType::I64, 0));
    let hit = b.binary(BinaryOp::Ne, hit, none);
    let v = b.load_when(&xb, index, hit, Scalar::zero(x.dtype));
    l.stores.push(Store::at(&yb, axes.into_iter().map(Index::Expr).collect(), v));
    k.push(l);
    cx.launch(k)?;
    let one = |d: &Dim| Phase {
        first: 0,
        step: 1,
        count: d.output.clone(),
        tap: 0,
        tap_step: 1,
        taps: d.kernel,
        pixel: d.begin.clone(),
        back: d.dilation,
    };
    Ok((out, dims.iter().map(one).collect()))
}

/// One phase: `y[n, g·M + m, first + q·step] = bias + Σ x[n, g·C + c, pixel + q − back·j] · w[g·C + c, m, tap + j·tap_step]`.
fn phase(cx: &mut LowerCx, x: &Arg, w: &Arg, bias: Option<&Arg>, y: &Arg, dims: &[Phase], first: bool) -> Result<()> {
    let group = group(cx)?;
    let acc = accumulator(x.dtype);
    let mut k = cx.kernel();
    let (xb, wb) = (k.read(x), k.read(w));
    let bias = bias.map(|b| k.read(b));
    // Later phases leave what earlier ones wrote.
    let yb = if first { k.write(y) } else { k.read_write(y) };
    let (mut batch, mut m, mut n, mut kk) = (vec![], vec![], vec![], vec![]);
    let per_in = w.dims[0].floor_div(&group.into());
    let (image, g) = (k.axis(&mut batch, x.dims[0].clone()), k.axis(&mut batch, group));
    let q: Vec<Expr> = dims.iter().map(|p| k.axis(&mut m, p.count.clone())).collect();
    let oc = k.axis(&mut n, w.dims[1].clone());
    let j: Vec<Expr> = dims.iter().map(|p| k.axis(&mut kk, p.taps)).collect();
    let ic = k.axis(&mut kk, per_in.clone());
    let channel = &g * &per_in + &ic;
    let pixels = dims.iter().zip(q.iter().zip(&j)).map(|(p, (q, j))| &p.pixel + q - j * p.back);
    let taps = dims.iter().zip(&j).map(|(p, j)| j * p.tap_step + p.tap);
    let a_index = [image.clone(), channel.clone()].into_iter().chain(pixels).collect();
    let b_index = [channel, oc.clone()].into_iter().chain(taps).collect();
    let out_channel = &g * &w.dims[1] + &oc;
    let inside =
        |(p, size): (&Phase, &Expr)| p.taps == 1 && p.pixel.is(0) && (size - &p.count).as_const().is_some_and(|room| room >= 0);
    let otherwise = (!dims.iter().zip(&x.dims[2..]).all(inside)).then(|| Scalar::zero(x.dtype));
    let a = Operand { buffer: xb.id, index: a_index, otherwise, zero: None, prologue: None };
    let b = Operand { buffer: wb.id, index: b_index, otherwise: None, zero: None, prologue: None };
    let mut contract = Contract { batch, m, n, k: kk, a, b, acc, post: Default::default(), stores: vec![] };
    let mut v = contract.post.param(0, acc);
    if let Some(bias) = &bias {
        let t = contract.post.load(bias, ix![&out_channel]);
        let t = contract.post.cast(acc, t);
        v = contract.post.binary(BinaryOp::Add, v, t);
    }
    let v = contract.post.cast(y.dtype, v);
    let places = dims.iter().zip(&q).map(|(p, q)| q * p.step + p.first);
    let index = [image, out_channel].into_iter().chain(places).map(Index::Expr).collect();
    contract.stores.push(Store::at(&yb, index, v));
    k.step(Step::Contract(contract));
    cx.launch(k)
}
