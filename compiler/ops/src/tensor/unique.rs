//! Unique. ONNX: "Find the unique elements of a tensor. When an optional attribute 'axis' is provided, unique
//! subtensors sliced along the 'axis' are returned", sorted or in order of first occurrence; optional results
//! are first positions, the inverse, and counts.
//!
//! Kernels: the tensor becomes rows; rows are sorted by repeated stable sorts from the last column to the
//! first; where a row differs from the one before it a group begins.

use oaaxc_base::Diagnostic;
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::interpret::arithmetic::compare;
use oaaxc_ir::kernel::{BinaryOp, Body, Compact, Fold, FoldKind, Index, Loop, LoopAxis, Sort, Step, Store};
use oaaxc_ir::lower::{Arg, LowerCx};
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::{Tensor, position};
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands, Type};

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static UNIQUE: OpDef = OpDef { name: "Unique", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, mut shape) = (cx.dtype(0)?, cx.shape(0)?);
    let count = cx.fresh("unique");
    let rows = if cx.has("axis") {
        let axis = cx.axis("axis", 0, shape.len())?;
        std::mem::replace(&mut shape[axis], count.clone())
    } else {
        let total = Expr::product(&shape);
        shape = vec![count.clone()];
        total
    };
    cx.set(0, dtype, shape);
    cx.set(1, DType::I64, vec![count.clone()]);
    cx.set(2, DType::I64, vec![rows]);
    cx.set(3, DType::I64, vec![count]);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let (x, axis) = match cx.has("axis") {
        true => (x.clone(), cx.axis("axis", 0, x.rank())?),
        false => (x.reshaped(vec![x.len()]), 0),
    };
    let n = x.dims[axis];
    let mut rest = x.dims.clone();
    rest.remove(axis);
    let row = |i: usize| {
        let all = oaaxc_ir::tensor::Coordinates::new(&rest).map(move |mut c| {
            c.insert(axis, i);
            c
        });
        all.map(|c| position(&c, &x.dims)).collect::<Vec<usize>>()
    };
    let by_value = |a: usize, b: usize| {
        if x.dtype == DType::String { x.string_at(a).cmp(x.string_at(b)) } else { compare(x.get(a), x.get(b)) }
    };
    let order = |a: usize, b: usize| {
        let pairs = row(a).into_iter().zip(row(b));
        pairs.map(|(a, b)| by_value(a, b)).find(|o| o.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
    };
    let mut sorted: Vec<usize> = (0..n).collect();
    sorted.sort_by(|&a, &b| order(a, b));
    // Groups of equal rows, each in order of position.
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for i in sorted {
        match groups.last_mut() {
            Some(group) if order(group[0], i).is_eq() => group.push(i),
            _ => groups.push(vec![i]),
        }
    }
    if !cx.flag("sorted", true)? {
        groups.sort_by_key(|g| g[0]);
    }
    let mut dims = x.dims.clone();
    dims[axis] = groups.len();
    let y = x.gathered(dims, |c| {
        let mut from = c.to_vec();
        from[axis] = groups[c[axis]][0];
        position(&from, &x.dims)
    });
    let ints = |v: Vec<usize>| -> Datum {
        Tensor::from_i64s(DType::I64, vec![v.len()], v.into_iter().map(|i| i as i64).collect::<Vec<_>>()).into()
    };
    let mut inverse = vec![0; n];
    for (g, group) in groups.iter().enumerate() {
        group.iter().for_each(|&i| inverse[i] = g);
    }
    let first = groups.iter().map(|g| g[0]).collect();
    Ok(vec![y.into(), ints(first), ints(inverse), ints(groups.iter().map(Vec::len).collect())])
}

/// The tensor as rows `[n, columns]`, and the axis that the rows stand at.
fn as_rows(cx: &mut LowerCx) -> Result<(Arg, usize)> {
    let x = cx.arg(0)?;
    if !cx.has("axis") {
        return Ok((cx.reshaped(&x, vec![Expr::product(&x.dims), 1.into()]), 0));
    }
    let axis = cx.axis("axis", 0, x.dims.len())?;
    let mut rest = x.dims.clone();
    let n = rest.remove(axis);
    let moved = cx.temp(x.dtype, [std::slice::from_ref(&n), &rest[..]].concat());
    cx.gather_map(&x, &moved, |c| [&c[1..=axis], &c[..1], &c[axis + 1..]].concat())?;
    Ok((cx.reshaped(&moved, vec![n, Expr::product(&rest)]), axis))
}

/// Positions of the rows in lexicographic order, equal ones by position.
fn sort_rows(cx: &mut LowerCx, rows: &Arg) -> Result<Arg> {
    let (n, columns) = (rows.dims[0].clone(), rows.dims[1].clone());
    let order = cx.temp(DType::I64, vec![n.clone()]);
    let step = cx.temp(DType::I64, vec![n.clone()]);
    let next = cx.temp(DType::I64, vec![n.clone()]);
    let mut k = cx.kernel();
    let (xb, ob, sb, nb) = (k.read(rows), k.write(&order), k.write(&step), k.write(&next));
    let mut begin = Loop::default();
    let i = k.axis(&mut begin.parallel, n.clone());
    let v = begin.post.index(i.clone());
    begin.stores.push(Store::at(&ob, vec![Index::Expr(i)], v));
    k.push(begin);
    k.sequential(columns.clone(), |k, c| {
        let column = &columns - 1 - c;
        let along = k.new_axis();
        let mut key = Body::default();
        let at = key.load(&ob, vec![Index::Expr(Expr::axis(along))]);
        let value = key.load(&xb, vec![Index::Value(at), Index::Expr(column)]);
        let index = vec![Expr::axis(along)];
        let along = LoopAxis { axis: along, extent: n.clone() };
        k.step(Step::Sort(Sort { parallel: vec![], along, key, value, descending: false, order: sb.id, index }));
        let mut compose = Loop::default();
        let i = k.axis(&mut compose.parallel, n.clone());
        let s = compose.post.load(&sb, vec![Index::from(&i)]);
        let v = compose.post.load(&ob, vec![Index::Value(s)]);
        compose.stores.push(Store::at(&nb, vec![Index::Expr(i)], v));
        k.push(compose);
        let mut back = Loop::default();
        let i = k.axis(&mut back.parallel, n.clone());
        let v = back.post.load(&nb, vec![Index::from(&i)]);
        back.stores.push(Store::at(&ob, vec![Index::Expr(i)], v));
        k.push(back);
    });
    cx.launch(k)?;
    Ok(order)
}

/// `begins[j]`: whether the j-th row in order differs from the one before. Returns it and the number of groups.
fn find_groups(cx: &mut LowerCx, rows: &Arg, order: &Arg) -> Result<(Arg, Expr)> {
    let n = rows.dims[0].clone();
    let begins = cx.temp(DType::Bool, vec![n.clone()]);
    let mut k = cx.kernel();
    let (xb, ob, bb) = (k.read(rows), k.read(order), k.write(&begins));
    let mut l = Loop::default();
    let j = k.axis(&mut l.parallel, n.clone());
    let c = k.axis(&mut l.reduce, rows.dims[1].clone());
    let here = l.body.load(&ob, vec![Index::from(&j)]);
    let before = l.body.load(&ob, vec![Index::Expr((&j - 1).maximum(&0.into()))]);
    let a = l.body.load(&xb, vec![Index::Value(here), Index::from(&c)]);
    let b = l.body.load(&xb, vec![Index::Value(before), Index::from(&c)]);
    let differs = l.body.binary(BinaryOp::Ne, a, b);
    l.folds.push(Fold { kind: FoldKind::Or, value: differs, dtype: DType::Bool });
    let any = l.post.param(0, DType::Bool);
    let first = l.post.index(j.equal(&0.into()));
    let first = l.post.cast(DType::Bool, first);
    let v = l.post.binary(BinaryOp::Or, any, first);
    l.stores.push(Store::at(&bb, vec![Index::Expr(j)], v));
    k.push(l);
    cx.launch(k)?;

    let cell = cx.temp(DType::I64, vec![]);
    let mut k = cx.kernel();
    let (bb, cb) = (k.read(&begins), k.write(&cell));
    let mut l = Loop::default();
    let j = k.axis(&mut l.reduce, n);
    let v = l.body.load(&bb, vec![Index::Expr(j)]);
    let v = l.body.cast(DType::I64, v);
    l.folds.push(Fold { kind: FoldKind::Sum, value: v, dtype: DType::I64 });
    let total = l.post.param(0, DType::I64);
    l.stores.push(Store::at(&cb, vec![], total));
    k.push(l);
    cx.launch(k)?;
    let count = cx.read_cell(&cell, 0);
    Ok((begins, count))
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let (rows, axis) = as_rows(cx)?;
    let n = rows.dims[0].clone();
    let order = sort_rows(cx, &rows)?;
    let (begins, count) = find_groups(cx, &rows, &order)?;
    for (i, d) in [(0, axis), (1, 0), (3, 0)] {
        if let Some(Type::Tensor(ty)) = cx.output_type(i).cloned() {
            cx.define(&ty.shape.unwrap_or_default()[d], count.clone())?;
            break;
        }
    }

    // Each group's start in the order; then its rank among the results.
    let starts = cx.temp(DType::I64, vec![count.clone()]);
    let mut k = cx.kernel();
    let (bb, sb) = (k.read(&begins), k.write(&starts));
    let mut axes = Vec::new();
    let j = k.axis(&mut axes, n.clone());
    let at = k.new_axis();
    let mut body = Body::default();
    let keep = body.load(&bb, vec![Index::from(&j)]);
    let v = body.index(j);
    let stores = vec![Store::at(&sb, vec![Index::Expr(Expr::axis(at))], v)];
    k.step(Step::Compact(Compact { axes, body, keep, position: at, stores, count: None }));
    cx.launch(k)?;
    let ranked = rank_groups(cx, &order, &starts, &count)?;
    write_groups(cx, &rows, &order, &starts, &ranked, axis)?;
    if cx.has_output(2) { write_inverse(cx, &order, &begins, &ranked) } else { Ok(()) }
}

/// `ranked[q]`: which group is the q-th result: in sorted order, or by first occurrence.
fn rank_groups(cx: &mut LowerCx, order: &Arg, starts: &Arg, count: &Expr) -> Result<Arg> {
    let sorted = cx.flag("sorted", true)?;
    let ranked = cx.temp(DType::I64, vec![count.clone()]);
    let mut k = cx.kernel();
    let (ob, sb, rb) = (k.read(order), k.read(starts), k.write(&ranked));
    let along = k.new_axis();
    let index = vec![Expr::axis(along)];
    let mut key = Body::default();
    let start = key.load(&sb, vec![Index::Expr(Expr::axis(along))]);
    let value = if sorted { start } else { key.load(&ob, vec![Index::Value(start)]) };
    let along = LoopAxis { axis: along, extent: count.clone() };
    k.step(Step::Sort(Sort { parallel: vec![], along, key, value, descending: false, order: rb.id, index }));
    cx.launch(k)?;
    Ok(ranked)
}

/// The unique rows, their first positions and their counts.
fn write_groups(cx: &mut LowerCx, rows: &Arg, order: &Arg, starts: &Arg, ranked: &Arg, axis: usize) -> Result<()> {
    let count = ranked.dims[0].clone();
    if cx.has_output(0) {
        let y = cx.result(0)?;
        let mut k = cx.kernel();
        let (xb, ob, sb, rb) = (k.read(rows), k.read(order), k.read(starts), k.read(ranked));
        let yb = k.write(&y);
        let mut l = Loop::default();
        let c = k.axes(&mut l.parallel, &y.dims);
        let column = c.iter().zip(&y.dims).enumerate().filter(|(d, _)| *d != axis);
        let column = column.fold(Expr::constant(0), |at, (_, (i, size))| at * size + i);
        let group = l.post.load(&rb, vec![Index::from(&c[axis])]);
        let start = l.post.load(&sb, vec![Index::Value(group)]);
        let row = l.post.load(&ob, vec![Index::Value(start)]);
        let v = l.post.load(&xb, vec![Index::Value(row), Index::Expr(column)]);
        l.stores.push(Store::at(&yb, c.iter().map(Index::from).collect(), v));
        k.push(l);
        cx.launch(k)?;
    }
    if !cx.has_output(1) && !cx.has_output(3) {
        return Ok(());
    }
    let first = if cx.has_output(1) { cx.result(1)? } else { cx.temp(DType::I64, vec![count.clone()]) };
    let counts = if cx.has_output(3) { cx.result(3)? } else { cx.temp(DType::I64, vec![count.clone()]) };
    let mut k = cx.kernel();
    let (ob, sb, rb) = (k.read(order), k.read(starts), k.read(ranked));
    let (fb, cb) = (k.write(&first), k.write(&counts));
    let mut l = Loop::default();
    let q = k.axis(&mut l.parallel, count.clone());
    let group = l.post.load(&rb, vec![Index::from(&q)]);
    let start = l.post.load(&sb, vec![Index::Value(group)]);
    let row = l.post.load(&ob, vec![Index::Value(start)]);
    l.stores.push(Store::at(&fb, vec![Index::from(&q)], row));
    // The next group's start, or the end.
    let one = l.post.int(DType::I64, 1);
    let following = l.post.binary(BinaryOp::Add, group, one);
    let (total, all) = (l.post.index(count), l.post.index(order.dims[0].clone()));
    let is_last = l.post.binary(BinaryOp::Ge, following, total);
    let zero = l.post.int(DType::I64, 0);
    let safe = l.post.select(is_last, zero, following);
    let next = l.post.load(&sb, vec![Index::Value(safe)]);
    let end = l.post.select(is_last, all, next);
    let length = l.post.binary(BinaryOp::Sub, end, start);
    l.stores.push(Store::at(&cb, vec![Index::from(&q)], length));
    k.push(l);
    cx.launch(k)
}

/// For each row the result that it equals: a running number of groups, mapped by rank.
fn write_inverse(cx: &mut LowerCx, order: &Arg, begins: &Arg, ranked: &Arg) -> Result<()> {
    let y = cx.result(2)?;
    let rank_of = cx.temp(DType::I64, ranked.dims.clone());
    let mut k = cx.kernel();
    let (ob, bb, rb) = (k.read(order), k.read(begins), k.read(ranked));
    let (kb, yb) = (k.write(&rank_of), k.write(&y));
    let running = k.local(DType::I64, vec![]);
    let mut turn = Loop::default();
    let q = k.axis(&mut turn.parallel, ranked.dims[0].clone());
    let group = turn.post.load(&rb, vec![Index::from(&q)]);
    let v = turn.post.index(q);
    turn.stores.push(Store::at(&kb, vec![Index::Value(group)], v));
    k.push(turn);
    let mut begin = Loop::default();
    let before = begin.post.int(DType::I64, -1);
    begin.stores.push(Store::at(&running, vec![], before));
    k.push(begin);
    k.sequential(order.dims[0].clone(), |k, j| {
        let mut l = Loop::default();
        let old = l.post.load(&running, vec![]);
        let begins = l.post.load(&bb, vec![Index::from(&j)]);
        let begins = l.post.cast(DType::I64, begins);
        let group = l.post.binary(BinaryOp::Add, old, begins);
        let row = l.post.load(&ob, vec![Index::from(&j)]);
        let rank = l.post.load(&kb, vec![Index::Value(group)]);
        l.stores.push(Store::at(&yb, vec![Index::Value(row)], rank));
        l.stores.push(Store::at(&running, vec![], group));
        k.push(l);
    });
    cx.launch(k)
}
