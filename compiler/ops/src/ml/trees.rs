//! TreeEnsembleClassifier and TreeEnsembleRegressor of ai.onnx.ml (the forms before version 5).
//!
//! Each row walks every tree to a leaf, whose weights are added to the scores. Where the weights of a classifier
//! of two classes name one class alone, its score s stands for both: [1 − s, s] with the class chosen at 0.5 where
//! all weights are positive, else [−s, s] with the class chosen at 0.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Body, Fold, FoldKind, Loop, Store, UnaryOp, V};
use oaaxc_ir::lower::{Arg, Buf, KernelBuilder, LowerCx};
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands, Scalar, ix};

use super::forest::{Forest, MODES};

type Result<T> = std::result::Result<T, Diagnostic>;

macro_rules! row {
    ($name:literal) => {
        OpDef { name: $name, domain: "ai.onnx.ml", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) }
    };
}
/// ai.onnx.ml TreeEnsembleClassifier.
pub static CLASSIFIER: OpDef = row!("TreeEnsembleClassifier");
/// ai.onnx.ml TreeEnsembleRegressor.
pub static REGRESSOR: OpDef = row!("TreeEnsembleRegressor");

/// What becomes of the scores.
struct Form {
    forest: Forest,
    /// The class labels of a classifier.
    labels: Option<Vec<i64>>,
    /// Two classes share one score; whether it is a probability.
    shared: Option<bool>,
    /// An average instead of a sum.
    average: bool,
    transform: String,
}

fn form(cx: &impl ReadAttributes) -> Result<Form> {
    let transform = cx.text("post_transform", "NONE")?;
    if !["NONE", "LOGISTIC", "SOFTMAX"].contains(&&transform[..]) {
        return Err(cx.fail(Code::UNSUPPORTED, format!("`post_transform` {transform} is not supported")));
    }
    if cx.node().op.name == "TreeEnsembleRegressor" {
        let aggregate = cx.text("aggregate_function", "SUM")?;
        if !["SUM", "AVERAGE"].contains(&&aggregate[..]) {
            return Err(cx.fail(Code::UNSUPPORTED, format!("`aggregate_function` {aggregate} is not supported")));
        }
        let targets =
            usize::try_from(cx.int("n_targets", 1)?).map_err(|_| cx.fail(Code::ATTRIBUTE, "`n_targets` is negative"))?;
        let forest = Forest::read(cx, "target", targets.max(1))?;
        return Ok(Form { forest, labels: None, shared: None, average: aggregate == "AVERAGE", transform });
    }
    let Some(labels) = cx.ints("classlabels_int64s")?.filter(|l| !l.is_empty()) else {
        return Err(cx.fail(Code::UNSUPPORTED, "class labels that are strings are not supported"));
    };
    let forest = Forest::read(cx, "class", labels.len())?;
    let ids = cx.ints("class_ids")?.unwrap_or_default();
    let one = labels.len() == 2 && ids.iter().all(|i| *i == ids[0]);
    let positive = cx.floats("class_weights")?.unwrap_or_default().iter().all(|w| *w >= 0.0);
    Ok(Form { forest, shared: one.then_some(positive), labels: Some(labels), average: false, transform })
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let shape = cx.shape(0)?;
    let form = form(cx)?;
    let [rows, features] = &shape[..] else {
        return Err(cx.fail(Code::SHAPE, format!("the input must have rank 2, not {}", shape.len())));
    };
    let needed = form.forest.nodes.iter().map(|n| n.feature + 1).max().unwrap_or(0);
    if features.as_const().is_some_and(|f| f < needed as i64) {
        return Err(cx.fail(Code::SHAPE, format!("the trees ask for {needed} features, the input has {features}")));
    }
    let enough = features.less(&needed.into()).equal(&0.into());
    if enough.as_const() != Some(1) {
        cx.check(enough, format!("the trees ask for {needed} features"));
    }
    let scores = vec![rows.clone(), form.forest.outputs.into()];
    if form.labels.is_some() {
        cx.set(0, DType::I64, vec![rows.clone()]);
        cx.set(1, DType::F32, scores);
    } else {
        cx.set(0, DType::F32, scores);
    }
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (x, form) = (cx.input(0)?, form(cx)?);
    let (f, outputs, features) = (&form.forest, form.forest.outputs, x.dims[1]);
    let values = x.to_f64s();
    let (mut all, mut chosen) = (Vec::new(), Vec::new());
    for row in 0..x.dims[0] {
        // Scores are floats and summed as such: a threshold may lie exactly on a sum.
        let mut sums = f.base.clone();
        for &root in &f.roots {
            let leaf = f.leaf(root, &values[row * features..(row + 1) * features]);
            let share = if form.average { f.roots.len() as f32 } else { 1.0 };
            (0..outputs).for_each(|o| sums[o] += f.weights[leaf * outputs + o] / share);
        }
        let mut scores: Vec<f64> = sums.iter().map(|s| f64::from(*s)).collect();
        let mut best = (0..outputs).fold(0, |b, o| if scores[o] > scores[b] { o } else { b });
        if let Some(probability) = form.shared {
            let s: f64 = scores.iter().sum();
            best = usize::from(s > if probability { 0.5 } else { 0.0 });
            scores = vec![if probability { 1.0 - s } else { -s }, s];
        }
        chosen.push(form.labels.as_ref().map_or(0, |l| l[best]));
        match &form.transform[..] {
            "LOGISTIC" => scores.iter_mut().for_each(|s| *s = 1.0 / (1.0 + (-*s).exp())),
            "SOFTMAX" => {
                let largest = scores.iter().fold(f64::NEG_INFINITY, |a, s| a.max(*s));
                let sum: f64 = scores.iter().map(|s| (s - largest).exp()).sum();
                scores.iter_mut().for_each(|s| *s = (*s - largest).exp() / sum);
            }
            _ => {}
        }
        all.extend(scores);
    }
    let scores = Tensor::from_f64s(DType::F32, vec![x.dims[0], outputs], all);
    let mut results = match form.labels {
        Some(_) => vec![Tensor::from_i64s(DType::I64, vec![x.dims[0]], chosen).into(), scores.into()],
        None => vec![scores.into()],
    };
    results.truncate(cx.output_count());
    Ok(results)
}

/// One kernel: rows are parallel, trees and their levels sequential.
fn lower(cx: &mut LowerCx) -> Result<()> {
    let (x, form) = (cx.arg(0)?, form(cx)?);
    let f = &form.forest;
    let n = f.nodes.len();
    let ints = |cx: &mut LowerCx, dims: Vec<usize>, v: Vec<usize>| {
        cx.constant_arg(Tensor::from_i64s(DType::I64, dims, v.into_iter().map(|i| i as i64)))
    };
    let column = |pick: &dyn Fn(&super::forest::Node) -> usize| -> Vec<usize> { f.nodes.iter().map(pick).collect() };
    let tables: Vec<Arg> = vec![
        ints(cx, vec![n], column(&|t| t.feature)),
        ints(cx, vec![n], column(&|t| t.mode)),
        ints(cx, vec![n], column(&|t| usize::from(t.missing))),
        ints(cx, vec![n, 2], f.nodes.iter().flat_map(|t| t.next).collect()),
        ints(cx, vec![f.roots.len()], f.roots.clone()),
        cx.constant_arg(Tensor::from_f32s(vec![n], &f.nodes.iter().map(|t| t.value).collect::<Vec<_>>())),
        cx.constant_arg(Tensor::from_f32s(vec![n, f.outputs], &f.weights)),
        cx.constant_arg(Tensor::from_f32s(vec![f.outputs], &f.base)),
    ];
    let labels = form.labels.as_ref().map(|l| cx.constant_arg(Tensor::from_i64s(DType::I64, vec![l.len()], l.iter().copied())));
    let mut k = cx.kernel();
    let row = k.parallel(x.dims[0].clone());
    let xb = k.read(&x);
    let t: Vec<Buf> = tables.iter().map(|a| k.read(a)).collect();
    let labels = labels.map(|l| k.read(&l));
    let first = usize::from(labels.is_some());
    let label = if first == 1 && cx.has_output(0) { Some(k.write(&cx.result(0)?)) } else { None };
    let shown = if cx.has_output(first) { Some(k.write(&cx.result(first)?)) } else { None };
    let (scores, node) = (k.local(DType::F32, vec![f.outputs.into()]), k.local(DType::I64, vec![]));
    each(&mut k, f.outputs, |b, o| {
        let v = b.load(&t[7], ix![o]);
        vec![Store::at(&scores, ix![o], v)]
    });
    k.sequential(f.roots.len(), |k, tree| {
        each(k, 1, |b, _| {
            let root = b.load(&t[4], ix![&tree]);
            vec![Store::at(&node, vec![], root)]
        });
        k.sequential(f.depth, |k, _| each(k, 1, |b, _| vec![descend(b, &xb, &t, &row, &node)]));
        each(k, f.outputs, |b, o| {
            let at = b.load(&node, vec![]);
            let (w, s) = (b.load(&t[6], ix![at, o]), b.load(&scores, ix![o]));
            let share = b.float(DType::F32, if form.average { f.roots.len() as f64 } else { 1.0 });
            let w = b.binary(BinaryOp::Div, w, share);
            let v = b.binary(BinaryOp::Add, s, w);
            vec![Store::at(&scores, ix![o], v)]
        });
    });
    if let (Some(label), Some(labels)) = (&label, &labels) {
        choose(&mut k, &form, &scores, labels, label, &row);
    }
    if let Some(probability) = form.shared {
        let total = k.local(DType::F32, vec![]);
        fold(&mut k, f.outputs, FoldKind::Sum, |b, o| b.load(&scores, ix![o]), &total);
        each(&mut k, 2, |b, o| {
            let (s, from) = (b.load(&total, vec![]), b.float(DType::F32, if probability { 1.0 } else { 0.0 }));
            let other = b.binary(BinaryOp::Sub, from, s);
            let (o_value, zero) = (b.index(o.clone()), b.int(DType::I64, 0));
            let first = b.binary(BinaryOp::Eq, o_value, zero);
            let v = b.select(first, other, s);
            vec![Store::at(&scores, ix![o], v)]
        });
    }
    if let Some(shown) = &shown {
        transform(&mut k, &form, &scores, shown, &row);
    }
    cx.launch(k)
}

fn each(k: &mut KernelBuilder, count: usize, f: impl FnOnce(&mut Body, &Expr) -> Vec<Store>) {
    let mut l = Loop::default();
    let o = k.axis(&mut l.parallel, count);
    l.stores = f(&mut l.post, &o);
    k.push(l);
}

fn fold(k: &mut KernelBuilder, count: usize, kind: FoldKind, f: impl FnOnce(&mut Body, &Expr) -> V, to: &Buf) {
    let mut l = Loop::default();
    let o = k.axis(&mut l.reduce, count);
    let value = f(&mut l.body, &o);
    l.folds.push(Fold { kind, value, dtype: to.dtype });
    let v = l.post.param(0, to.dtype);
    l.stores.push(Store::at(to, vec![], v));
    k.push(l);
}

/// From a node to the next one.
fn descend(b: &mut Body, x: &Buf, t: &[Buf], row: &Expr, node: &Buf) -> Store {
    let at = b.load(node, vec![]);
    let (feature, mode) = (b.load(&t[0], ix![at]), b.load(&t[1], ix![at]));
    let v = b.load_checked(x, ix![row, feature]);
    let v = b.cast(DType::F32, v);
    let value = b.load(&t[5], ix![at]);
    let comparisons = [BinaryOp::Le, BinaryOp::Lt, BinaryOp::Ge, BinaryOp::Gt, BinaryOp::Eq, BinaryOp::Ne];
    let mut holds = b.scalar(Scalar::from_bool(true));
    for (i, op) in comparisons.iter().enumerate().take(MODES.len()) {
        let (this, number) = (b.binary(*op, v, value), b.int(DType::I64, i as i64));
        let is_mode = b.binary(BinaryOp::Eq, mode, number);
        holds = b.select(is_mode, this, holds);
    }
    let missing = b.load(&t[2], ix![at]);
    let missing = b.cast(DType::Bool, missing);
    let nan = b.unary(UnaryOp::IsNan, v);
    let tracked = b.binary(BinaryOp::And, missing, nan);
    let holds = b.binary(BinaryOp::Or, holds, tracked);
    let (yes, no) = (b.load(&t[3], ix![at, Expr::constant(0)]), b.load(&t[3], ix![at, Expr::constant(1)]));
    let next = b.select(holds, yes, no);
    Store::at(node, vec![], next)
}

/// The label of the largest score, or of the side of the threshold on which a shared score lies.
fn choose(k: &mut KernelBuilder, form: &Form, scores: &Buf, labels: &Buf, label: &Buf, row: &Expr) {
    let outputs = form.forest.outputs;
    let mut l = Loop::default();
    let o = k.axis(&mut l.reduce, outputs);
    let value = l.body.load(scores, ix![&o]);
    let at = match form.shared {
        None => {
            l.folds.push(Fold { kind: FoldKind::ArgMax { last: false }, value, dtype: DType::I64 });
            l.post.param(0, DType::I64)
        }
        Some(probability) => {
            l.folds.push(Fold { kind: FoldKind::Sum, value, dtype: DType::F32 });
            let (s, t) = (l.post.param(0, DType::F32), l.post.float(DType::F32, if probability { 0.5 } else { 0.0 }));
            let above = l.post.binary(BinaryOp::Gt, s, t);
            l.post.cast(DType::I64, above)
        }
    };
    let v = l.post.load(labels, ix![at]);
    l.stores.push(Store::at(label, ix![row], v));
    k.push(l);
}

fn transform(k: &mut KernelBuilder, form: &Form, scores: &Buf, shown: &Buf, row: &Expr) {
    let outputs = form.forest.outputs;
    let softmax = (form.transform == "SOFTMAX").then(|| {
        let (largest, sum) = (k.local(DType::F32, vec![]), k.local(DType::F32, vec![]));
        fold(k, outputs, FoldKind::Max, |b, o| b.load(scores, ix![o]), &largest);
        fold(k, outputs, FoldKind::Sum, |b, o| power(b, scores, &largest, o), &sum);
        (largest, sum)
    });
    each(k, outputs, |b, o| {
        let v = match &softmax {
            Some((largest, sum)) => {
                let (e, s) = (power(b, scores, largest, o), b.load(sum, vec![]));
                b.binary(BinaryOp::Div, e, s)
            }
            None if form.transform == "LOGISTIC" => {
                let (v, one) = (b.load(scores, ix![o]), b.float(DType::F32, 1.0));
                let v = b.unary(UnaryOp::Neg, v);
                let v = b.unary(UnaryOp::Exp, v);
                let v = b.binary(BinaryOp::Add, v, one);
                b.binary(BinaryOp::Div, one, v)
            }
            None => b.load(scores, ix![o]),
        };
        vec![Store::at(shown, ix![row, o], v)]
    });
}

/// e to the score minus the largest.
fn power(b: &mut Body, scores: &Buf, largest: &Buf, o: &Expr) -> V {
    let (v, m) = (b.load(scores, ix![o]), b.load(largest, vec![]));
    let d = b.binary(BinaryOp::Sub, v, m);
    b.unary(UnaryOp::Exp, d)
}
