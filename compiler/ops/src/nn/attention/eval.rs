//! Attention evaluated head by head in f64.

use oaaxc_base::Diagnostic;
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::tensor::{Tensor, position};
use oaaxc_ir::{DType, Datum};

use super::{Form, Sizes, form};

type Result<T> = std::result::Result<T, Diagnostic>;

/// Elements of a `[batch, sequence, heads·size]` or `[batch, heads, sequence, size]` tensor, as the latter.
fn by_head(x: &Tensor, heads: Option<i64>) -> Tensor {
    let Some(heads) = heads else { return x.clone() };
    let (heads, size) = (heads as usize, x.dims[2] / heads as usize);
    x.gathered(vec![x.dims[0], heads, x.dims[1], size], |c| (c[0] * x.dims[1] + c[2]) * x.dims[2] + c[1] * size + c[3])
}

/// The cache with new entries behind it.
fn joined(past: Option<&Tensor>, new: &Tensor) -> Tensor {
    let Some(past) = past else { return new.clone() };
    let mut dims = new.dims.clone();
    let before = past.dims[2];
    dims[2] += before;
    let elements = oaaxc_ir::tensor::Coordinates::new(&dims).map(|mut c| {
        if c[2] < before {
            past.get(position(&c, &past.dims))
        } else {
            c[2] -= before;
            new.get(position(&c, &new.dims))
        }
    });
    Tensor::from_scalars(new.dtype, dims.clone(), elements.collect::<Vec<_>>())
}

pub fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (q, k, v) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let form = form(cx, q.rank())?;
    let (past_k, past_v) = (cx.optional(4)?, cx.optional(5)?);
    let exprs = |t: &Tensor| t.dims.iter().map(|&d| d.into()).collect::<Vec<Expr>>();
    let s = Sizes::of(&form, &exprs(q), &exprs(k), &exprs(v), past_k.map(exprs).as_deref());
    let n = |e: &Expr| e.as_const().expect("sizes are numbers") as usize;
    let (batch, heads, kv, queries, past, size, v_size) =
        (n(&s.batch), n(&s.q_heads), n(&s.kv_heads), n(&s.queries), n(&s.past), n(&s.head), n(&s.v_head));
    let total = n(&s.total());
    let keys = joined(past_k, &by_head(k, form.heads.map(|h| h.1)));
    let values = joined(past_v, &by_head(v, form.heads.map(|h| h.1)));
    let (qv, kv_values, vv) = (by_head(q, form.heads.map(|h| h.0)).to_f64s(), keys.to_f64s(), values.to_f64s());
    let (mask, valid) = (cx.optional(3)?, cx.optional(6)?.map(Tensor::to_i64s));
    let scale = form.scale.unwrap_or(1.0 / (size as f64).sqrt());
    let mut y = vec![0.0; batch * heads * queries * v_size];
    let mut shown = vec![0.0; batch * heads * queries * total];
    for b in 0..batch {
        for h in 0..heads {
            let key_head = (b * kv + h / (heads / kv)) * total;
            for i in 0..queries {
                let row = (b * heads + h) * queries + i;
                let offset = valid.as_ref().filter(|_| past_k.is_none()).map_or(past as i64, |v| v[b] - queries as i64);
                let mut scores = Vec::with_capacity(total);
                for j in 0..total {
                    let dot: f64 = (0..size).map(|d| qv[row * size + d] * kv_values[(key_head + j) * size + d]).sum();
                    let raw = dot * scale;
                    let capped = if form.softcap > 0.0 { (raw / form.softcap).tanh() * form.softcap } else { raw };
                    let hidden = masked(&form, i as i64, j as i64, offset) || valid.as_ref().is_some_and(|v| j as i64 >= v[b]);
                    let bias = mask.map_or(0.0, |m| bias_at(m, &[b, h, i, j]));
                    let bias = if hidden { f64::NEG_INFINITY } else { bias };
                    let score = if bias == f64::NEG_INFINITY { bias } else { capped + bias };
                    shown[row * total + j] = [raw, capped, score][form.shown.clamp(0, 2) as usize];
                    scores.push(score);
                }
                let largest = scores.iter().fold(f64::NEG_INFINITY, |a, v| if v.is_nan() { f64::NAN } else { a.max(*v) });
                let exps: Vec<f64> =
                    scores.iter().map(|v| if largest == f64::NEG_INFINITY { 0.0 } else { (v - largest).exp() }).collect();
                let sum: f64 = exps.iter().sum();
                for (j, e) in exps.iter().enumerate() {
                    let p = if sum == 0.0 { 0.0 } else { e / sum };
                    if form.shown == 3 {
                        shown[row * total + j] = p;
                    }
                    // A key that no one sees adds nothing, whatever its value is.
                    if p != 0.0 {
                        (0..v_size).for_each(|d| y[row * v_size + d] += p * vv[(key_head + j) * v_size + d]);
                    }
                }
            }
        }
    }
    let mut y = Tensor::from_f64s(q.dtype, vec![batch, heads, queries, v_size], y);
    if form.heads.is_some() {
        let from = y.clone();
        y = from.gathered(vec![batch, queries, heads * v_size], |c| {
            ((c[0] * heads + c[2] / v_size) * queries + c[1]) * v_size + c[2] % v_size
        });
    }
    let shown = Tensor::from_f64s(q.dtype, vec![batch, heads, queries, total], shown);
    let mut results = vec![y.into(), keys.into(), values.into(), shown.into()];
    results.truncate(cx.output_count());
    Ok(results)
}

fn masked(form: &Form, i: i64, j: i64, offset: i64) -> bool {
    let distance = i + offset - j;
    form.causal && distance < 0
        || form.window.0.is_some_and(|left| distance > left)
        || form.window.1.is_some_and(|right| -distance > right)
}

/// What the mask adds at `[batch, head, query, key]`; a key behind the mask's last column is hidden.
fn bias_at(mask: &Tensor, c: &[usize]) -> f64 {
    let own = &c[4 - mask.rank()..];
    let last = mask.rank().saturating_sub(1);
    let mut at = Vec::new();
    for (d, (i, size)) in own.iter().zip(&mask.dims).enumerate() {
        if d == last && i >= size {
            return f64::NEG_INFINITY;
        }
        at.push(if *size == 1 { 0 } else { *i });
    }
    let v = mask.get(position(&at, &mask.dims));
    match v.dtype() {
        DType::Bool => {
            if v.as_bool() {
                0.0
            } else {
                f64::NEG_INFINITY
            }
        }
        _ => v.as_f64(),
    }
}
