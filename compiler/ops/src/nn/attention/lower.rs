//! Attention as kernels: scores (a contract with masks in its epilogue), softmax over rows, and the weighted sum
//! of values (a contract). Grouped heads are a batch axis that only the queries have, so all indices stay affine.

use oaaxc_base::Diagnostic;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::kernel::{BinaryOp, Body, Contract, FoldKind, Index, Loop, Operand, Step, Store, UnaryOp, V};
use oaaxc_ir::lower::{Arg, Buf, LowerCx};
use oaaxc_ir::{DType, ReadOperands, Scalar, ix};

use super::{Form, Sizes, form};
use crate::formula::{Formula, compute_type};
use crate::nn::rows::Rows;

type Result<T> = std::result::Result<T, Diagnostic>;

/// The index of an element in `[batch, sequence, heads·size]` or `[batch, heads, sequence, size]`.
fn place(rank: usize, size: &Expr, b: &Expr, h: &Expr, s: &Expr, d: &Expr) -> Vec<Expr> {
    if rank == 3 { vec![b.clone(), s.clone(), h * size + d] } else { vec![b.clone(), h.clone(), s.clone(), d.clone()] }
}

fn indices(index: Vec<Expr>) -> Vec<Index> {
    index.into_iter().map(Index::Expr).collect()
}

/// Keys or values with the cache before them, `[batch, heads, total, size]`; the operand itself where there is no cache.
fn with_cache(cx: &mut LowerCx, new: usize, past: usize, result: usize, sizes: &Sizes, size: &Expr) -> Result<Arg> {
    let from = cx.arg(new)?;
    let wanted = cx.has_output(result);
    let past = cx.optional_arg(past)?;
    if past.is_none() && !wanted {
        return Ok(from);
    }
    let dims = vec![sizes.batch.clone(), sizes.kv_heads.clone(), sizes.total(), size.clone()];
    let to = if wanted { cx.result(result)? } else { cx.temp(from.dtype, dims) };
    let mut k = cx.kernel();
    let xb = k.read(&from);
    let pb = past.map(|p| k.read(&p));
    let yb = k.write(&to);
    let mut l = Loop::default();
    let axes = k.axes(&mut l.parallel, &to.dims);
    let body = &mut l.post;
    let at = place(from.dims.len(), size, &axes[0], &axes[1], &(&axes[2] - &sizes.past), &axes[3]);
    let v = match &pb {
        None => body.load(&xb, indices(at)),
        Some(pb) => {
            let (position, before) = (body.index(axes[2].clone()), body.index(sizes.past.clone()));
            let old = body.binary(BinaryOp::Lt, position, before);
            let new = body.binary(BinaryOp::Ge, position, before);
            let new_value = body.load_when(&xb, indices(at), new, Scalar::zero(from.dtype));
            let old_value = body.load_when(pb, indices(axes.clone()), old, Scalar::zero(from.dtype));
            body.select(old, old_value, new_value)
        }
    };
    l.stores.push(Store::at(&yb, indices(axes), v));
    k.push(l);
    cx.launch(k)?;
    Ok(to)
}

pub fn lower(cx: &mut LowerCx) -> Result<()> {
    let (q, v0, y) = (cx.arg(0)?, cx.arg(2)?, if cx.has_output(0) { cx.result(0)? } else { return Ok(()) });
    let form = form(cx, q.dims.len())?;
    let k0 = cx.arg(1)?;
    let past = cx.optional_arg(4)?.map(|p| p.dims);
    let sizes = Sizes::of(&form, &q.dims, &k0.dims, &v0.dims, past.as_deref());
    let keys = with_cache(cx, 1, 4, 1, &sizes, &sizes.head)?;
    let values = with_cache(cx, 2, 5, 2, &sizes, &sizes.v_head)?;
    let stat = compute_type(q.dtype);
    let square = vec![sizes.batch.clone(), sizes.q_heads.clone(), sizes.queries.clone(), sizes.total()];
    let scores = cx.temp(stat, square);
    let shown = if cx.has_output(3) { Some(cx.result(3)?) } else { None };
    score(cx, &form, &sizes, &q, &keys, &scores, shown.as_ref().filter(|_| form.shown < 3))?;
    let shares = softmax(cx, &scores, shown.as_ref().filter(|_| form.shown == 3))?;
    weigh(cx, &sizes, &shares, &values, &y)
}

/// `scores[b, h, i, j]`, masked.
fn score(cx: &mut LowerCx, form: &Form, s: &Sizes, q: &Arg, keys: &Arg, scores: &Arg, shown: Option<&Arg>) -> Result<()> {
    let stat = scores.dtype;
    let cached = cx.has_input(4);
    let (mask, valid) = (cx.optional_arg(3)?, cx.optional_arg(6)?);
    let mut k = cx.kernel();
    let (qb, kb) = (k.read(q), k.read(keys));
    let (mask, valid) = (mask.map(|m| k.read(&m)), valid.map(|v| k.read(&v)));
    let sb = k.write(scores);
    let shown = shown.map(|a| k.write(a));
    let (mut batch, mut m, mut n, mut kk) = (vec![], vec![], vec![], vec![]);
    let repeat = s.q_heads.floor_div(&s.kv_heads);
    let b = k.axis(&mut batch, s.batch.clone());
    let g = k.axis(&mut batch, s.kv_heads.clone());
    let r = k.axis(&mut batch, repeat.clone());
    let (i, j, d) = (k.axis(&mut m, s.queries.clone()), k.axis(&mut n, s.total()), k.axis(&mut kk, s.head.clone()));
    let h = &g * &repeat + &r;
    let plain = |buffer: &Buf, index| Operand { buffer: buffer.id, index, otherwise: None, zero: None, prologue: None };
    let a = plain(&qb, place(q.dims.len(), &s.head, &b, &h, &i, &d));
    let c = plain(&kb, place(keys.dims.len(), &s.head, &b, &g, &j, &d));
    let mut contract = Contract { batch, m, n, k: kk, a, b: c, acc: stat, post: Body::default(), stores: vec![] };
    let body = &mut contract.post;
    let sum = body.param(0, stat);
    let scale = match form.scale {
        Some(scale) => body.float(stat, scale),
        None => {
            let size = body.index(s.head.clone());
            let (size, one) = (body.cast(stat, size), body.float(stat, 1.0));
            let root = body.unary(UnaryOp::Sqrt, size);
            body.binary(BinaryOp::Div, one, root)
        }
    };
    let raw = body.binary(BinaryOp::Mul, sum, scale);
    let mut capped = raw;
    if form.softcap > 0.0 {
        let mut f = Formula { body, dtype: stat };
        let t = f.scale(raw, 1.0 / form.softcap);
        let t = f.unary(UnaryOp::Tanh, t);
        capped = f.scale(t, form.softcap);
    }
    let at = [b.clone(), h, i.clone(), j.clone()];
    let mut v = capped;
    if let Some(mask) = &mask {
        v = with_mask(body, mask, &at, &s.total(), v);
    }
    if let Some(hidden) = hidden(body, form, s, valid.as_ref().map(|v| (v, cached)), &at) {
        let lowest = body.float(stat, f64::NEG_INFINITY);
        v = body.select(hidden, lowest, v);
    }
    contract.stores.push(Store::at(&sb, indices(at.to_vec()), v));
    if let Some(shown) = &shown {
        let v = [raw, capped, v][form.shown.clamp(0, 2) as usize];
        let v = contract.post.cast(shown.dtype, v);
        contract.stores.push(Store::at(shown, indices(at.to_vec()), v));
    }
    k.step(Step::Contract(contract));
    cx.launch(k)
}

/// The score with the mask added; a key behind the mask's last column is hidden.
fn with_mask(body: &mut Body, mask: &Buf, at: &[Expr], total: &Expr, score: V) -> V {
    let stat = body.dtype(score);
    let last = mask.dims.len() - 1;
    let own = mask.dims.iter().zip(&at[4 - mask.dims.len()..]).enumerate().map(|(d, (size, axis))| {
        if d == last || size.as_const().is_some_and(|n| n != 1) { axis.clone() } else { axis.minimum(&(size - 1)) }
    });
    let index: Vec<Index> = own.map(Index::Expr).collect();
    let whole = mask.dims[last] == *total;
    let otherwise = Scalar::lowest(mask.dtype);
    let v = if whole { body.load(mask, index) } else { body.load_or(mask, index, otherwise) };
    let lowest = body.float(stat, f64::NEG_INFINITY);
    if mask.dtype == DType::Bool {
        return body.select(v, score, lowest);
    }
    let v = body.cast(stat, v);
    let closed = body.binary(BinaryOp::Eq, v, lowest);
    let sum = body.binary(BinaryOp::Add, score, v);
    body.select(closed, lowest, sum)
}

/// Whether causality, the window or the number of valid keys hides a key; `None` where nothing does.
fn hidden(body: &mut Body, form: &Form, s: &Sizes, valid: Option<(&Buf, bool)>, at: &[Expr]) -> Option<V> {
    let (i, j) = (&at[2], &at[3]);
    let count = valid.map(|(v, cached)| {
        let n = body.load(v, ix![&at[0]]);
        (body.cast(DType::I64, n), cached)
    });
    let mut any: Option<V> = None;
    let mut join = |body: &mut Body, v: V| {
        any = Some(match any {
            Some(other) => body.binary(BinaryOp::Or, other, v),
            None => v,
        });
    };
    if form.causal || form.window != (None, None) {
        // i + offset − j
        let distance = match count {
            Some((n, false)) => {
                let rest = body.index(i - j - &s.queries);
                body.binary(BinaryOp::Add, rest, n)
            }
            _ => body.index(i + &s.past - j),
        };
        if form.causal {
            let zero = body.int(DType::I64, 0);
            let v = body.binary(BinaryOp::Lt, distance, zero);
            join(body, v);
        }
        if let Some(left) = form.window.0 {
            let left = body.int(DType::I64, left);
            let v = body.binary(BinaryOp::Gt, distance, left);
            join(body, v);
        }
        if let Some(right) = form.window.1 {
            let right = body.int(DType::I64, -right);
            let v = body.binary(BinaryOp::Lt, distance, right);
            join(body, v);
        }
    }
    if let Some((n, _)) = count {
        let j = body.index(j.clone());
        let v = body.binary(BinaryOp::Ge, j, n);
        join(body, v);
    }
    any
}

/// Softmax over the last dim; a row of nothing but −inf gives zeros.
fn softmax(cx: &mut LowerCx, scores: &Arg, shown: Option<&Arg>) -> Result<Arg> {
    let stat = scores.dtype;
    let out = cx.temp(stat, scores.dims.clone());
    let mut rows = Rows::new(cx.kernel(), &scores.dims[..3], &scores.dims[3..], stat);
    let (sb, yb) = (rows.k.read(scores), rows.k.write(&out));
    let shown = shown.map(|a| rows.k.write(a));
    let row = rows.outer.clone();
    let index = |j: &[Expr]| -> Vec<Index> { row.iter().chain(j).map(Into::into).collect() };
    let largest = rows.statistic(
        FoldKind::Max,
        |b, j| b.load(&sb, index(j)),
        |b, m| {
            // With 0 in its place, e^(−inf − 0) is 0 and nothing is NaN.
            let (lowest, zero) = (b.float(stat, f64::NEG_INFINITY), b.float(stat, 0.0));
            let empty = b.binary(BinaryOp::Eq, m, lowest);
            b.select(empty, zero, m)
        },
    );
    let power = |b: &mut Body, j: &[Expr]| {
        let (v, m) = (b.load(&sb, index(j)), b.load(&largest, vec![]));
        let d = b.binary(BinaryOp::Sub, v, m);
        b.unary(UnaryOp::Exp, d)
    };
    let sum = rows.statistic(FoldKind::Sum, power, |b, s| {
        let (zero, one) = (b.float(stat, 0.0), b.float(stat, 1.0));
        let empty = b.binary(BinaryOp::Eq, s, zero);
        b.select(empty, one, s)
    });
    rows.each(|b, j| {
        let (e, s) = (power(b, j), b.load(&sum, vec![]));
        let v = b.binary(BinaryOp::Div, e, s);
        let mut stores = vec![Store::at(&yb, index(j), v)];
        if let Some(shown) = &shown {
            let v = b.cast(shown.dtype, v);
            stores.push(Store::at(shown, index(j), v));
        }
        stores
    });
    cx.launch(rows.k)?;
    Ok(out)
}

/// `y = shares · values`.
fn weigh(cx: &mut LowerCx, s: &Sizes, shares: &Arg, values: &Arg, y: &Arg) -> Result<()> {
    let stat = shares.dtype;
    let mut k = cx.kernel();
    let (pb, vb, yb) = (k.read(shares), k.read(values), k.write(y));
    let (mut batch, mut m, mut n, mut kk) = (vec![], vec![], vec![], vec![]);
    let repeat = s.q_heads.floor_div(&s.kv_heads);
    let b = k.axis(&mut batch, s.batch.clone());
    let g = k.axis(&mut batch, s.kv_heads.clone());
    let r = k.axis(&mut batch, repeat.clone());
    let (i, d, j) = (k.axis(&mut m, s.queries.clone()), k.axis(&mut n, s.v_head.clone()), k.axis(&mut kk, s.total()));
    let h = &g * &repeat + &r;
    let plain = |buffer: &Buf, index| Operand { buffer: buffer.id, index, otherwise: None, zero: None, prologue: None };
    let a = plain(&pb, vec![b.clone(), h.clone(), i.clone(), j.clone()]);
    let v = plain(&vb, place(values.dims.len(), &s.v_head, &b, &g, &j, &d));
    let mut contract = Contract { batch, m, n, k: kk, a, b: v, acc: stat, post: Body::default(), stores: vec![] };
    let sum = contract.post.param(0, stat);
    let sum = contract.post.cast(y.dtype, sum);
    contract.stores.push(Store::at(&yb, indices(place(y.dims.len(), &s.v_head, &b, &h, &i, &d)), sum));
    k.step(Step::Contract(contract));
    cx.launch(k)
}
