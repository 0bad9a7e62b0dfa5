//! Conv: cross-correlation of N-D images with a bank of filters, in groups.
//!
//! ONNX: "The convolution operator consumes an input tensor and a filter, and computes the output."
//! One `Contract`: batch (image, group), M the output pixels, N the output channels of the group,
//! K (kernel dims, input channel of the group); the bias stands in `post`.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Contract, Operand, Step, Store};
use oaaxc_ir::lower::{Buf, KernelBuilder, LowerCx};
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::{Coordinates, Tensor};
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands, Scalar, ix};

use crate::nn::window::{self, Concrete, Dim};

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static CONV: OpDef = OpDef { name: "Conv", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };

/// The type in which products of this type are summed.
pub fn accumulator(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        DType::U8 | DType::I8 => DType::I32,
        other => other,
    }
}

/// Checks weights `[M, C/group, kernel…]` against an input `[N, C, …]` and gives the result's sizes.
pub fn infer_shape(cx: &mut InferCx, x: usize, w: usize) -> Result<Vec<Expr>> {
    let (x, w) = (cx.shape(x)?, cx.shape(w)?);
    if x.len() < 3 || w.len() != x.len() {
        let message = format!("the input has rank {}, the weight rank {}: both must be equal and at least 3", x.len(), w.len());
        return Err(cx.fail(Code::SHAPE, message));
    }
    let group = group(cx)?;
    if let Some(shape) = cx.ints("kernel_shape")? {
        for (given, real) in shape.iter().zip(&w[2..]) {
            cx.require_equal(&Expr::constant(*given), real, "`kernel_shape` and the weight's size")?;
        }
    }
    if let (Some(channels), Some(wanted)) = (x[1].as_const(), w[1].as_const())
        && channels != wanted * group
    {
        let message = format!(
            "weight has {wanted} input channels, but group = {group} over {channels} channels needs {}",
            channels / group
        );
        return Err(cx.fail(Code::SHAPE, message).help("the exporter may have dropped the group split"));
    }
    cx.require_equal(&x[1], &(&w[1] * group), "input channels and weight channels times group")?;
    if w[0].as_const().is_some_and(|m| m % group != 0) {
        return Err(cx.fail(Code::SHAPE, format!("{} output channels do not divide into {group} groups", w[0])));
    }
    let dims = window::read(cx, Some(cx.symbols), &x[2..], &w[2..])?;
    Ok([x[0].clone(), w[0].clone()].into_iter().chain(dims.into_iter().map(|d| d.output)).collect())
}

/// The number of groups.
pub fn group(cx: &impl ReadAttributes) -> Result<i64> {
    let group = cx.int("group", 1)?;
    if group < 1 {
        return Err(cx.fail(Code::ATTRIBUTE, format!("`group` must be positive, not {group}")));
    }
    Ok(group)
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let dtype = cx.dtype(0)?;
    let shape = infer_shape(cx, 0, 1)?;
    if cx.has_input(2) {
        let bias = cx.shape(2)?;
        if bias.len() != 1 {
            return Err(cx.fail(Code::SHAPE, format!("the bias must have rank 1, not {}", bias.len())));
        }
        cx.require_equal(&bias[0], &shape[1], "the bias's size and the output channels")?;
    }
    cx.set(0, dtype, shape);
    Ok(())
}

/// The sums of a convolution over plain numbers, row-major `[N, M, out…]`, with the window used. `pad` is what padding reads.
pub fn evaluate<T: Copy + std::ops::Mul<Output = T> + std::ops::AddAssign>(
    cx: &impl ReadAttributes,
    x: (&[T], &[usize]),
    w: (&[T], &[usize]),
    start: impl Fn(usize) -> T,
) -> Result<(Vec<T>, Vec<usize>)> {
    let ((x, xd), (w, wd)) = (x, w);
    let window = Concrete::read(cx, &xd[2..], &wd[2..])?;
    let group = usize::try_from(group(cx)?).expect("checked positive");
    let (per_in, per_out) = (wd[1], wd[0] / group);
    let (pixels, taps) = (window.input.iter().product::<usize>(), window.kernel.iter().product::<usize>());
    let points: Vec<Vec<Option<usize>>> = Coordinates::new(&window.output).map(|o| window.taps(&o).0).collect();
    let mut out = Vec::with_capacity(xd[0] * wd[0] * points.len());
    for n in 0..xd[0] {
        for m in 0..wd[0] {
            let first = m / per_out * per_in;
            for point in &points {
                let mut sum = start(m);
                for c in 0..per_in {
                    let (image, filter) = ((n * xd[1] + first + c) * pixels, (m * per_in + c) * taps);
                    for (k, at) in point.iter().enumerate() {
                        if let Some(at) = at {
                            sum += x[image + at] * w[filter + k];
                        }
                    }
                }
                out.push(sum);
            }
        }
    }
    let dims = [xd[0], wd[0]].into_iter().chain(window.output).collect();
    Ok((out, dims))
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (x, w, bias) = (cx.input(0)?, cx.input(1)?, cx.optional(2)?);
    let bias = bias.map(Tensor::to_f64s);
    let start = |m: usize| bias.as_ref().map_or(0.0, |b| b[m]);
    let (sums, dims) = evaluate(cx, (&x.to_f64s(), &x.dims), (&w.to_f64s(), &w.dims), start)?;
    Ok(vec![Tensor::from_f64s(x.dtype, dims, sums).into()])
}

/// A convolution under construction: the contract without `post` and stores, and the indices that these need.
pub struct Convolution {
    /// The contract; `post` and `stores` are empty.
    pub contract: Contract,
    /// The index of the output channel.
    pub channel: Expr,
    /// The index of the result element.
    pub output: Vec<Expr>,
}

/// Builds the contract of a convolution of `x` `[N, C, …]` by `w` `[M, C/group, …]`. `padding` is what lies around the input.
pub fn contract(k: &mut KernelBuilder, x: &Buf, w: &Buf, dims: &[Dim], group: i64, padding: Scalar, acc: DType) -> Convolution {
    let (mut batch, mut m, mut n, mut kk) = (vec![], vec![], vec![], vec![]);
    let per_out = w.dims[0].floor_div(&group.into());
    let (image, g) = (k.axis(&mut batch, x.dims[0].clone()), k.axis(&mut batch, group));
    let outputs: Vec<Expr> = dims.iter().map(|d| k.axis(&mut m, d.output.clone())).collect();
    let oc = k.axis(&mut n, per_out.clone());
    let taps: Vec<Expr> = dims.iter().map(|d| k.axis(&mut kk, d.kernel.clone())).collect();
    let ic = k.axis(&mut kk, w.dims[1].clone());
    let channel = &g * &per_out + &oc;
    let positions = dims.iter().zip(outputs.iter().zip(&taps)).map(|(d, (o, t))| d.position(o, t));
    let a_index = [image.clone(), &g * &w.dims[1] + &ic].into_iter().chain(positions).collect();
    let b_index = [channel.clone(), ic].into_iter().chain(taps.iter().cloned()).collect();
    let otherwise = dims.iter().any(Dim::may_pad).then(|| padding.cast(x.dtype));
    let a = Operand { buffer: x.id, index: a_index, otherwise, zero: None, prologue: None };
    let b = Operand { buffer: w.id, index: b_index, otherwise: None, zero: None, prologue: None };
    let output = [image, channel.clone()].into_iter().chain(outputs).collect();
    let contract = Contract { batch, m, n, k: kk, a, b, acc, post: Default::default(), stores: vec![] };
    Convolution { contract, channel, output }
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let (x, w, bias, y) = (cx.arg(0)?, cx.arg(1)?, cx.optional_arg(2)?, cx.result(0)?);
    let dims = window::read(cx, None, &x.dims[2..], &w.dims[2..])?;
    let group = group(cx)?;
    let acc = accumulator(x.dtype);
    let mut k = cx.kernel();
    let (xb, wb) = (k.read(&x), k.read(&w));
    let bias = bias.map(|b| k.read(&b));
    let yb = k.write(&y);
    let Convolution { mut contract, channel, output } = contract(&mut k, &xb, &wb, &dims, group, Scalar::zero(x.dtype), acc);
    let mut value = contract.post.param(0, acc);
    if let Some(bias) = &bias {
        let b = contract.post.load(bias, ix![channel]);
        let b = contract.post.cast(acc, b);
        value = contract.post.binary(BinaryOp::Add, value, b);
    }
    let value = contract.post.cast(y.dtype, value);
    contract.stores.push(Store::at(&yb, output.iter().map(Into::into).collect(), value));
    k.step(Step::Contract(contract));
    cx.launch(k)
}
