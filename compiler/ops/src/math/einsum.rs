//! Einsum. ONNX: "evaluates algebraic tensor operations on a sequence of tensors, using the Einstein summation
//! convention". Labels are letters, `...` stands for the dims that no label names, a label that occurs twice in a
//! term takes the diagonal. Without `->`, the result has the ellipsis and then every label that occurs once, sorted.

use std::collections::{BTreeMap, BTreeSet};

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Body, Contract, Fold, FoldKind, Index, Loop, LoopAxis, Operand, Step, Store, V};
use oaaxc_ir::lower::{Buf, LowerCx};
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::{Coordinates, Tensor, position};
use oaaxc_ir::{Datum, ReadAttributes, ReadOperands};

use crate::nn::conv::accumulator;

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static EINSUM: OpDef = OpDef { name: "Einsum", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };

/// A dim of the iteration space: a letter, or a dim of the ellipsis counted from its end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Label {
    Ellipsis(usize),
    Letter(char),
}

/// The labels of each operand and of the result.
struct Equation {
    terms: Vec<Vec<Label>>,
    result: Vec<Label>,
}

fn equation(cx: &impl ReadAttributes, ranks: &[usize]) -> Result<Equation> {
    let text: String = cx.text("equation", "")?.chars().filter(|c| !c.is_whitespace()).collect();
    let bad = |why: &str| cx.fail(Code::ATTRIBUTE, format!("equation \"{text}\": {why}"));
    let (left, right) = match text.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (&text[..], None),
    };
    let parts: Vec<&str> = left.split(',').collect();
    if parts.len() != ranks.len() {
        return Err(bad(&format!("{} terms for {} operands", parts.len(), ranks.len())));
    }
    let letters = |part: &str| part.replace("...", "").chars().collect::<Vec<char>>();
    let mut terms = Vec::new();
    let mut widest = 0;
    for (part, &rank) in parts.iter().zip(ranks) {
        let named = letters(part);
        let spare = if part.contains("...") { rank.checked_sub(named.len()) } else { (rank == named.len()).then_some(0) };
        let Some(spare) = spare else { return Err(bad(&format!("term \"{part}\" does not fit rank {rank}"))) };
        widest = widest.max(spare);
        terms.push(expand(part, spare).ok_or_else(|| bad("labels must be letters"))?);
    }
    let result = match right {
        Some(right) => expand(right, widest).ok_or_else(|| bad("labels must be letters"))?,
        None => {
            let all: Vec<Label> = terms.iter().flatten().copied().collect();
            let once = all.iter().filter(|l| matches!(l, Label::Letter(_)) && all.iter().filter(|m| m == l).count() == 1);
            let once: BTreeSet<Label> = once.copied().collect();
            (0..widest).rev().map(Label::Ellipsis).chain(once).collect()
        }
    };
    if result.iter().any(|l| matches!(l, Label::Letter(_)) && !terms.iter().flatten().any(|t| t == l)) {
        return Err(bad("the result names a label that no operand has"));
    }
    if (1..result.len()).any(|i| result[..i].contains(&result[i])) {
        return Err(bad("the result names a label twice"));
    }
    Ok(Equation { terms, result })
}

fn expand(part: &str, spare: usize) -> Option<Vec<Label>> {
    let one = |c: char| c.is_ascii_alphabetic().then_some(Label::Letter(c));
    let Some((before, after)) = part.split_once("...") else { return part.chars().map(one).collect() };
    let dots = (0..spare).rev().map(|d| Some(Label::Ellipsis(d)));
    before.chars().map(one).chain(dots).chain(after.chars().map(one)).collect()
}

/// The size of each label: equal in all operands, or 1.
fn label_sizes(equation: &Equation, shapes: &[Vec<Expr>]) -> BTreeMap<Label, Expr> {
    let mut sizes: BTreeMap<Label, Expr> = BTreeMap::new();
    for (label, size) in equation.terms.iter().zip(shapes).flat_map(|(t, s)| t.iter().zip(s)) {
        let known = sizes.entry(*label).or_insert_with(|| size.clone());
        if known.is(1) {
            *known = size.clone();
        }
    }
    sizes
}

fn shapes(cx: &impl ReadOperands) -> Result<Vec<Vec<Expr>>> {
    (0..cx.input_count()).map(|i| cx.shape(i)).collect()
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let shapes = shapes(cx)?;
    let equation = equation(cx, &shapes.iter().map(Vec::len).collect::<Vec<_>>())?;
    let sizes = label_sizes(&equation, &shapes);
    for (label, size) in equation.terms.iter().zip(&shapes).flat_map(|(t, s)| t.iter().zip(s)) {
        if !size.is(1) {
            cx.require_equal(size, &sizes[label], "the sizes of one label")?;
        }
    }
    let shape = equation.result.iter().map(|l| sizes.get(l).cloned().unwrap_or(1.into())).collect();
    cx.set(0, cx.dtype(0)?, shape);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let tensors = (0..cx.inputs.len()).map(|i| cx.input(i)).collect::<Result<Vec<_>>>()?;
    let shapes: Vec<Vec<Expr>> = tensors.iter().map(|t| t.dims.iter().map(|&d| d.into()).collect()).collect();
    let equation = equation(cx, &tensors.iter().map(|t| t.rank()).collect::<Vec<_>>())?;
    let sizes = label_sizes(&equation, &shapes);
    let size = |l: &Label| sizes.get(l).and_then(Expr::as_const).unwrap_or(1) as usize;
    let summed: Vec<Label> = sizes.keys().filter(|l| !equation.result.contains(l)).copied().collect();
    let dims: Vec<usize> = equation.result.iter().map(size).collect();
    let summed_dims: Vec<usize> = summed.iter().map(size).collect();
    let values: Vec<Vec<f64>> = tensors.iter().map(|t| t.to_f64s()).collect();
    let dtype = tensors[0].dtype;
    let mut out = Vec::new();
    for o in Coordinates::new(&dims) {
        let mut sum = 0.0;
        for k in Coordinates::new(&summed_dims) {
            let at = |l: &Label| {
                let place = |labels: &[Label], c: &[usize]| labels.iter().position(|m| m == l).map(|p| c[p]);
                place(&equation.result, &o).or_else(|| place(&summed, &k)).unwrap_or(0)
            };
            let element = |(t, labels): (usize, &Vec<Label>)| {
                let dims = &tensors[t].dims;
                let c: Vec<usize> = labels.iter().zip(dims).map(|(l, d)| if *d == 1 { 0 } else { at(l) }).collect();
                values[t][position(&c, dims)]
            };
            sum += equation.terms.iter().enumerate().map(element).product::<f64>();
        }
        out.push(sum);
    }
    Ok(vec![Tensor::from_f64s(dtype, dims, out).into()])
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let shapes = shapes(cx)?;
    let equation = equation(cx, &shapes.iter().map(Vec::len).collect::<Vec<_>>())?;
    let sizes = label_sizes(&equation, &shapes);
    let y = cx.result(0)?;
    let acc = accumulator(y.dtype);
    let mut k = cx.kernel();
    let mut buffers = Vec::new();
    for i in 0..shapes.len() {
        buffers.push(k.read(&cx.arg(i)?));
    }
    let yb = k.write(&y);
    // An axis per label; the labels of the result first, in its order.
    let summed: Vec<Label> = sizes.keys().filter(|l| !equation.result.contains(l)).copied().collect();
    let mut axes: BTreeMap<Label, LoopAxis> = BTreeMap::new();
    for label in equation.result.iter().chain(&summed) {
        let extent = sizes.get(label).cloned().unwrap_or(1.into());
        axes.insert(*label, LoopAxis { axis: k.new_axis(), extent });
    }
    let index = |t: usize| -> Vec<Expr> {
        let own = equation.terms[t].iter().zip(&shapes[t]);
        own.map(|(l, d)| if d.is(1) { 0.into() } else { Expr::axis(axes[l].axis) }).collect()
    };
    let output: Vec<Index> = equation.result.iter().map(|l| Expr::axis(axes[l].axis).into()).collect();
    let pick = |labels: &[Label]| -> Vec<LoopAxis> { labels.iter().map(|l| axes[l].clone()).collect() };
    let used = |t: usize, l: &Label| index(t).contains(&Expr::axis(axes[l].axis));
    if buffers.len() == 2 && !summed.is_empty() && summed.iter().all(|l| used(0, l) && used(1, l)) {
        let side = |a: bool, b: bool| -> Vec<Label> {
            equation.result.iter().filter(|l| (used(0, l), used(1, l)) == (a, b)).copied().collect()
        };
        let batch = [side(true, true), side(false, false)].concat();
        let plain = |t: usize| Operand { buffer: buffers[t].id, index: index(t), otherwise: None, zero: None, prologue: None };
        let mut contract = Contract {
            batch: pick(&batch),
            m: pick(&side(true, false)),
            n: pick(&side(false, true)),
            k: pick(&summed),
            a: plain(0),
            b: plain(1),
            acc,
            post: Body::default(),
            stores: vec![],
        };
        let sum = contract.post.param(0, acc);
        let sum = contract.post.cast(y.dtype, sum);
        contract.stores.push(Store::at(&yb, output, sum));
        k.step(Step::Contract(contract));
        return cx.launch(k);
    }
    let product = |body: &mut Body| -> V {
        let load = |body: &mut Body, t: usize| {
            let buffer: &Buf = &buffers[t];
            let v = body.load(buffer, index(t).into_iter().map(Index::Expr).collect());
            body.cast(acc, v)
        };
        let first = load(body, 0);
        (1..buffers.len()).fold(first, |p, t| {
            let v = load(body, t);
            body.binary(BinaryOp::Mul, p, v)
        })
    };
    let mut l = Loop { parallel: pick(&equation.result), reduce: pick(&summed), ..Loop::default() };
    let value = if summed.is_empty() {
        product(&mut l.post)
    } else {
        let value = product(&mut l.body);
        l.folds.push(Fold { kind: FoldKind::Sum, value, dtype: acc });
        l.post.param(0, acc)
    };
    let value = l.post.cast(y.dtype, value);
    l.stores.push(Store::at(&yb, output, value));
    k.push(l);
    cx.launch(k)
}
