//! NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss.
//!
//! ONNX: "loss[n][d_1]... = -input[n][c][d_1]... * weight[c], where c = target[n][d_1]...", 0 where the target is
//! `ignore_index`; `mean` divides by the sum of the weights that were applied. A target outside the classes that is
//! not ignored is an error of the run. SoftmaxCrossEntropyLoss takes the logarithm of the softmax first.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Body, Fold, FoldKind, Index, Loop, Store, UnaryOp, V};
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands, ix};

use crate::formula::compute_type;
use crate::nn::softmax;

type Result<T> = std::result::Result<T, Diagnostic>;

macro_rules! row {
    ($name:literal) => {
        OpDef { name: $name, domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) }
    };
}
/// ONNX NegativeLogLikelihoodLoss.
pub static NLL_LOSS: OpDef = row!("NegativeLogLikelihoodLoss");
/// ONNX SoftmaxCrossEntropyLoss.
pub static SCE_LOSS: OpDef = row!("SoftmaxCrossEntropyLoss");

fn takes_softmax(cx: &impl ReadAttributes) -> bool {
    cx.node().op.name.starts_with('S')
}

fn reduction(cx: &impl ReadAttributes) -> Result<String> {
    let reduction = cx.text("reduction", "mean")?;
    match &reduction[..] {
        "none" | "sum" | "mean" => Ok(reduction),
        other => Err(cx.fail(Code::ATTRIBUTE, format!("`reduction` \"{other}\" is not known"))),
    }
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, x, target) = (cx.dtype(0)?, cx.shape(0)?, cx.shape(1)?);
    if x.len() < 2 || target.len() + 1 != x.len() {
        return Err(cx.fail(Code::SHAPE, format!("a target of rank {} does not fit scores of rank {}", target.len(), x.len())));
    }
    for (t, s) in target.iter().zip(x[..1].iter().chain(&x[2..])) {
        cx.require_equal(t, s, "the sizes of the target and of the scores")?;
    }
    if cx.has_input(2) {
        let weight = cx.shape(2)?;
        cx.require_equal(&Expr::product(&weight), &x[1], "the number of weights and of classes")?;
    }
    cx.set(0, dtype, if reduction(cx)? == "none" { target } else { vec![] });
    if takes_softmax(cx) {
        cx.set(1, dtype, x);
    }
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (x, target, weight) = (cx.input(0)?, cx.input(1)?.to_i64s(), cx.optional(2)?.map(Tensor::to_f64s));
    let ignored = cx.int_if_any("ignore_index")?;
    let (classes, pixels) = (x.dims[1], x.dims[2..].iter().product::<usize>());
    let mut values = x.to_f64s();
    if takes_softmax(cx) {
        for n in 0..x.dims[0] {
            for p in 0..pixels {
                let at = |c: usize| (n * classes + c) * pixels + p;
                let largest = (0..classes).map(|c| values[at(c)]).fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = (0..classes).map(|c| (values[at(c)] - largest).exp()).sum();
                (0..classes).for_each(|c| values[at(c)] -= largest + sum.ln());
            }
        }
    }
    let (mut losses, mut total) = (Vec::new(), 0.0);
    for (i, &t) in target.iter().enumerate() {
        if Some(t) == ignored {
            losses.push(0.0);
            continue;
        }
        let Some(class) = usize::try_from(t).ok().filter(|c| *c < classes) else {
            return Err(cx.fail(Code::RUN, format!("target {t} is none of {classes} classes")));
        };
        let w = weight.as_ref().map_or(1.0, |w| w[class]);
        losses.push(-values[(i / pixels * classes + class) * pixels + i % pixels] * w);
        total += w;
    }
    let sum: f64 = losses.iter().sum();
    let loss = match &reduction(cx)?[..] {
        "none" => Tensor::from_f64s(x.dtype, cx.input(1)?.dims.clone(), losses),
        "sum" => Tensor::from_f64s(x.dtype, vec![], [sum]),
        _ => Tensor::from_f64s(x.dtype, vec![], [sum / total]),
    };
    let mut results = vec![loss.into(), Tensor::from_f64s(x.dtype, x.dims.clone(), values).into()];
    results.truncate(cx.output_count());
    Ok(results)
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let (mut x, target, weight, y) = (cx.arg(0)?, cx.arg(1)?, cx.optional_arg(2)?, cx.result(0)?);
    let stat = compute_type(x.dtype);
    if takes_softmax(cx) {
        let logarithm = if cx.has_output(1) { cx.result(1)? } else { cx.temp(stat, x.dims.clone()) };
        softmax::launch(cx, &x, &logarithm, 1..2, "LogSoftmax")?;
        x = logarithm;
    }
    let (reduction, ignored) = (reduction(cx)?, cx.int_if_any("ignore_index")?);
    let mut k = cx.kernel();
    let (xb, tb) = (k.read(&x), k.read(&target));
    let wb = weight.map(|w| k.read(&w));
    let yb = k.write(&y);
    let mut l = Loop::default();
    let whole = reduction == "none";
    let axes = k.axes(if whole { &mut l.parallel } else { &mut l.reduce }, &target.dims);
    // The loss at one point, and the weight that was applied.
    let point = |b: &mut Body| -> (V, V) {
        let class = b.load(&tb, axes.iter().map(Into::into).collect());
        let class = b.cast(DType::I64, class);
        let (zero, nothing) = (b.int(DType::I64, 0), b.float(stat, 0.0));
        let skip = ignored.map(|i| {
            let i = b.int(DType::I64, i);
            b.binary(BinaryOp::Eq, class, i)
        });
        let class = skip.map_or(class, |skip| b.select(skip, zero, class));
        let index: Vec<Index> =
            [Index::from(&axes[0]), class.into()].into_iter().chain(axes[1..].iter().map(Into::into)).collect();
        let v = b.load_checked(&xb, index);
        let mut v = b.cast(stat, v);
        v = b.unary(UnaryOp::Neg, v);
        let mut w = b.float(stat, 1.0);
        if let Some(wb) = &wb {
            w = b.load_checked(wb, ix![class]);
            w = b.cast(stat, w);
        }
        v = b.binary(BinaryOp::Mul, v, w);
        match skip {
            Some(skip) => (b.select(skip, nothing, v), b.select(skip, nothing, w)),
            None => (v, w),
        }
    };
    let (value, index) = if whole {
        (point(&mut l.post).0, axes.iter().map(Into::into).collect())
    } else {
        let (loss, weight) = point(&mut l.body);
        for value in [loss, weight] {
            l.folds.push(Fold { kind: FoldKind::Sum, value, dtype: stat });
        }
        let (sum, total) = (l.post.param(0, stat), l.post.param(1, stat));
        (if reduction == "sum" { sum } else { l.post.binary(BinaryOp::Div, sum, total) }, vec![])
    };
    let value = l.post.cast(y.dtype, value);
    l.stores.push(Store::at(&yb, index, value));
    k.push(l);
    cx.launch(k)
}
