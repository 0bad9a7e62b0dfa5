//! NonMaxSuppression. ONNX: "Filter out boxes that have high intersection-over-union (IOU) overlap with
//! previously selected boxes"; results are [batch, class, box] triples, per class by falling score.
//!
//! Kernels: scores are sorted per class; ranks are visited in order, each asks the kept ones before it; what
//! is kept is counted, then collected.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Body, Compact, Fold, FoldKind, Index, Loop, LoopAxis, Sort, Step, Store, V};
use oaaxc_ir::lower::{Arg, Buf, LowerCx};
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands, Scalar, Type};

use crate::formula::Formula;
use crate::tensor::count_true;

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static NON_MAX_SUPPRESSION: OpDef =
    OpDef { name: "NonMaxSuppression", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };

fn infer(cx: &mut InferCx) -> Result<()> {
    let (boxes, scores) = (cx.shape(0)?, cx.shape(1)?);
    let ([batch, count, four], [score_batch, _, score_count]) = (&boxes[..], &scores[..]) else {
        return Err(cx.fail(Code::RANK, "boxes and scores must have 3 dims"));
    };
    cx.require_equal(four, &4.into(), "a box has 4 numbers")?;
    cx.require_equal(batch, score_batch, "batches of boxes and scores")?;
    cx.require_equal(count, score_count, "numbers of boxes and scores")?;
    let selected = cx.fresh("selected");
    cx.set(0, DType::I64, vec![selected, 3.into()]);
    Ok(())
}

/// Smallest and largest coordinates of a box as [y, x].
fn corners(b: &[f64], center: bool) -> [(f64, f64); 2] {
    if center {
        return [(b[1] - b[3] / 2.0, b[1] + b[3] / 2.0), (b[0] - b[2] / 2.0, b[0] + b[2] / 2.0)];
    }
    [(b[0].min(b[2]), b[0].max(b[2])), (b[1].min(b[3]), b[1].max(b[3]))]
}

fn overlap(a: &[f64], b: &[f64], center: bool) -> f64 {
    let (a, b) = (corners(a, center), corners(b, center));
    let area = |c: &[(f64, f64); 2]| (c[0].1 - c[0].0) * (c[1].1 - c[1].0);
    let side = |d: usize| (a[d].1.min(b[d].1) - a[d].0.max(b[d].0)).max(0.0);
    let shared = side(0) * side(1);
    let union = area(&a) + area(&b) - shared;
    if shared <= 0.0 || area(&a) <= 0.0 || area(&b) <= 0.0 || union <= 0.0 { 0.0 } else { shared / union }
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (boxes, scores) = (cx.input(0)?, cx.input(1)?);
    let number = |i: usize| -> Result<Option<f64>> { Ok(cx.optional(i)?.filter(|t| !t.is_empty()).map(|t| t.f64_at(0))) };
    let most = number(2)?.unwrap_or(0.0).max(0.0) as usize;
    let (iou, least) = (number(3)?.unwrap_or(0.0), number(4)?);
    let center = cx.flag("center_point_box", false)?;
    let (n, values) = (boxes.dims[1], boxes.to_f64s());
    let mut selected = Vec::new();
    for batch in 0..scores.dims[0] {
        let at = |i: usize| &values[(batch * n + i) * 4..(batch * n + i + 1) * 4];
        for class in 0..scores.dims[1] {
            let score = |i: usize| scores.f64_at((batch * scores.dims[1] + class) * n + i);
            let mut order: Vec<usize> = (0..n).filter(|&i| least.is_none_or(|l| score(i) > l)).collect();
            order.sort_by(|&a, &b| score(b).total_cmp(&score(a)));
            let mut kept: Vec<usize> = Vec::new();
            for i in order {
                if kept.len() < most && !kept.iter().any(|&k| overlap(at(i), at(k), center) > iou) {
                    kept.push(i);
                    selected.extend([batch as i64, class as i64, i as i64]);
                }
            }
        }
    }
    Ok(vec![Tensor::from_i64s(DType::I64, vec![selected.len() / 3, 3], selected).into()])
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let (boxes, scores) = (cx.arg(0)?, cx.arg(1)?);
    let order = cx.temp(DType::I64, scores.dims.clone());
    let mut k = cx.kernel();
    let (sb, ob) = (k.read(&scores), k.write(&order));
    let mut parallel = Vec::new();
    let (batch, class) = (k.axis(&mut parallel, scores.dims[0].clone()), k.axis(&mut parallel, scores.dims[1].clone()));
    let along = k.new_axis();
    let index = vec![batch, class, Expr::axis(along)];
    let mut key = Body::default();
    let value = key.load(&sb, index.iter().map(Index::from).collect());
    let along = LoopAxis { axis: along, extent: scores.dims[2].clone() };
    k.step(Step::Sort(Sort { parallel, along, key, value, descending: true, order: ob.id, index }));
    cx.launch(k)?;

    let kept = keep(cx, &boxes, &scores, &order)?;
    let n = count_true(cx, &kept)?;
    if let Some(Type::Tensor(ty)) = cx.output_type(0).cloned() {
        cx.define(&ty.shape.unwrap_or_default()[0], n)?;
    }
    let y = cx.result(0)?;
    let mut k = cx.kernel();
    let (kb, ob, yb) = (k.read(&kept), k.read(&order), k.write(&y));
    let mut axes = Vec::new();
    let c = k.axes(&mut axes, &kept.dims);
    let position = k.new_axis();
    let mut body = Body::default();
    let index: Vec<Index> = c.iter().map(Index::from).collect();
    let keep = body.load(&kb, index.clone());
    let triple = [body.index(c[0].clone()), body.index(c[1].clone()), body.load(&ob, index)];
    let to = |j: usize| vec![Index::Expr(Expr::axis(position)), Index::Expr(j.into())];
    let stores = triple.into_iter().enumerate().map(|(j, v)| Store::at(&yb, to(j), v)).collect();
    k.step(Step::Compact(Compact { axes, body, keep, position, stores, count: None }));
    cx.launch(k)
}

/// Whether the box at each rank of each class is kept.
fn keep(cx: &mut LowerCx, boxes: &Arg, scores: &Arg, order: &Arg) -> Result<Arg> {
    let center = cx.flag("center_point_box", false)?;
    let mut limits = Vec::new();
    for i in 2..5 {
        let given = cx.has_input(i) && !cx.shape(i)?.iter().any(|d| d.is(0));
        let arg = if given { Some(cx.arg(i)?) } else { None };
        limits.push(arg.map(|a| cx.reshaped(&a, vec![])));
    }
    let kept = cx.temp(DType::Bool, scores.dims.clone());
    let mut k = cx.kernel();
    let (bb, sb, ob) = (k.read(boxes), k.read(scores), k.read(order));
    let limits: Vec<Option<Buf>> = limits.iter().map(|l| l.as_ref().map(|l| k.read(l))).collect();
    let kb = k.write(&kept);
    let taken = k.local(DType::I64, vec![]);
    let (batch, class) = (k.parallel(scores.dims[0].clone()), k.parallel(scores.dims[1].clone()));
    let mut begin = Loop::default();
    let zero = begin.post.int(DType::I64, 0);
    begin.stores.push(Store::at(&taken, vec![], zero));
    k.push(begin);
    k.sequential(scores.dims[2].clone(), |k, rank| {
        let at = |i: &Expr| vec![Index::from(&batch), Index::from(&class), Index::from(i)];
        let mut l = Loop::default();
        let before = k.axis(&mut l.reduce, rank.clone());
        let was_kept = l.body.load(&kb, at(&before));
        let (mine, other) = (l.body.load(&ob, at(&rank)), l.body.load(&ob, at(&before)));
        let (mine, other) = (load_box(&mut l.body, &bb, &batch, mine), load_box(&mut l.body, &bb, &batch, other));
        let overlap = overlap_body(&mut l.body, &mine, &other, center);
        let iou = limit(&mut l.body, &limits[1], 0.0);
        let too_much = l.body.binary(BinaryOp::Gt, overlap, iou);
        let suppressed = l.body.binary(BinaryOp::And, was_kept, too_much);
        l.folds.push(Fold { kind: FoldKind::Or, value: suppressed, dtype: DType::Bool });
        let suppressed = l.post.param(0, DType::Bool);
        let free = l.post.unary(oaaxc_ir::kernel::UnaryOp::Not, suppressed);
        let (count, most) = (l.post.load(&taken, vec![]), limit(&mut l.post, &limits[0], 0.0));
        let most = l.post.cast(DType::I64, most);
        let has_room = l.post.binary(BinaryOp::Lt, count, most);
        let mut keep = l.post.binary(BinaryOp::And, free, has_room);
        if limits[2].is_some() {
            let index = l.post.load(&ob, at(&rank));
            let score = l.post.load(&sb, vec![Index::from(&batch), Index::from(&class), Index::Value(index)]);
            let score = l.post.cast(DType::F64, score);
            let least = limit(&mut l.post, &limits[2], 0.0);
            let enough = l.post.binary(BinaryOp::Gt, score, least);
            keep = l.post.binary(BinaryOp::And, keep, enough);
        }
        l.stores.push(Store::at(&kb, at(&rank), keep));
        let one = l.post.cast(DType::I64, keep);
        let count = l.post.binary(BinaryOp::Add, count, one);
        l.stores.push(Store::at(&taken, vec![], count));
        k.push(l);
    });
    cx.launch(k)?;
    Ok(kept)
}

/// A limit in double precision.
fn limit(body: &mut Body, buffer: &Option<Buf>, default: f64) -> V {
    match buffer {
        None => body.float(DType::F64, default),
        Some(buffer) => {
            let v = body.load(buffer, vec![]);
            body.cast(DType::F64, v)
        }
    }
}

fn load_box(body: &mut Body, boxes: &Buf, batch: &Expr, which: V) -> [V; 4] {
    [0, 1, 2, 3].map(|j| {
        let v = body.load(boxes, vec![Index::from(batch), Index::Value(which), Index::Expr(Expr::constant(j))]);
        body.cast(DType::F64, v)
    })
}

fn corners_body(f: &mut Formula, b: &[V; 4], center: bool) -> [(V, V); 2] {
    if center {
        let mut around = |at: V, size: V| {
            let half = f.scale(size, 0.5);
            (f.sub(at, half), f.add(at, half))
        };
        return [around(b[1], b[3]), around(b[0], b[2])];
    }
    [(f.min(b[0], b[2]), f.max(b[0], b[2])), (f.min(b[1], b[3]), f.max(b[1], b[3]))]
}

/// Intersection over union; 0 where either box or the intersection is empty.
fn overlap_body(body: &mut Body, a: &[V; 4], b: &[V; 4], center: bool) -> V {
    let mut f = Formula { body, dtype: DType::F64 };
    let (a, b) = (corners_body(&mut f, a, center), corners_body(&mut f, b, center));
    let zero = f.number(0.0);
    let area = |f: &mut Formula, c: &[(V, V); 2]| {
        let (h, w) = (f.sub(c[0].1, c[0].0), f.sub(c[1].1, c[1].0));
        f.mul(h, w)
    };
    let side = |f: &mut Formula, d: usize| {
        let (end, start) = (f.min(a[d].1, b[d].1), f.max(a[d].0, b[d].0));
        let length = f.sub(end, start);
        f.max(length, zero)
    };
    let (h, w) = (side(&mut f, 0), side(&mut f, 1));
    let shared = f.mul(h, w);
    let (area_a, area_b) = (area(&mut f, &a), area(&mut f, &b));
    let both = f.add(area_a, area_b);
    let union = f.sub(both, shared);
    let quotient = f.div(shared, union);
    let mut exists = f.body.scalar(Scalar::from_bool(true));
    for v in [shared, area_a, area_b, union] {
        let positive = f.is_greater(v, 0.0);
        exists = f.body.binary(BinaryOp::And, exists, positive);
    }
    f.select(exists, quotient, zero)
}
