//! Attention: softmax(Q·Kᵀ·scale + bias)·V over heads, with grouped heads, a key-value cache and masks.
//!
//! A query at position `i` sees key `j` where the mask allows it, and under `is_causal` where `j ≤ i + offset`;
//! the offset is the length of the cache before it. The soft cap comes before masks. A query that sees no key at
//! all gives zeros. Scores and softmax are in f32 (f64 for double), whatever `softmax_precision` says below that.

mod eval;
mod lower;

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::{ReadAttributes, ReadOperands};

type Result<T> = std::result::Result<T, Diagnostic>;

/// ONNX Attention.
pub static ATTENTION: OpDef =
    OpDef { name: "Attention", domain: "", upgrade: no_upgrade, infer, eval: eval::eval, lower: Lower::Kernels(lower::lower) };

/// The attributes.
struct Form {
    /// Heads of Q and of K and V, where the inputs have rank 3.
    heads: Option<(i64, i64)>,
    scale: Option<f64>,
    softcap: f64,
    causal: bool,
    /// 0 raw scores, 1 after the soft cap, 2 with masks, 3 after the softmax.
    shown: i64,
    /// How far before and behind a query its keys may be.
    window: (Option<i64>, Option<i64>),
}

fn form(cx: &impl ReadAttributes, rank: usize) -> Result<Form> {
    let heads = match rank {
        3 => Some((cx.required_int("q_num_heads")?, cx.required_int("kv_num_heads")?)),
        _ => None,
    };
    if heads.is_some_and(|(q, kv)| q < 1 || kv < 1 || q % kv != 0) {
        return Err(cx.fail(Code::ATTRIBUTE, "`q_num_heads` must be a multiple of `kv_num_heads`"));
    }
    let side = |name: &str| -> Result<Option<i64>> { Ok(Some(cx.int(name, -1)?).filter(|w| *w >= 0)) };
    Ok(Form {
        heads,
        scale: if cx.has("scale") { Some(cx.float("scale", 1.0)?.into()) } else { None },
        softcap: cx.float("softcap", 0.0)?.into(),
        causal: cx.flag("is_causal", false)?,
        shown: cx.int("qk_matmul_output_mode", 0)?,
        window: (side("left_window_size")?, side("right_window_size")?),
    })
}

/// Sizes, as expressions.
struct Sizes {
    batch: Expr,
    q_heads: Expr,
    kv_heads: Expr,
    queries: Expr,
    /// Keys that are given, and those of the cache before them.
    keys: Expr,
    past: Expr,
    head: Expr,
    v_head: Expr,
}

impl Sizes {
    fn total(&self) -> Expr {
        &self.past + &self.keys
    }
    fn of(form: &Form, q: &[Expr], k: &[Expr], v: &[Expr], past: Option<&[Expr]>) -> Sizes {
        let past = past.map_or(0.into(), |p| p[2].clone());
        match form.heads {
            Some((qh, kvh)) => Sizes {
                batch: q[0].clone(),
                q_heads: qh.into(),
                kv_heads: kvh.into(),
                queries: q[1].clone(),
                keys: k[1].clone(),
                past,
                head: q[2].floor_div(&qh.into()),
                v_head: v[2].floor_div(&kvh.into()),
            },
            None => Sizes {
                batch: q[0].clone(),
                q_heads: q[1].clone(),
                kv_heads: k[1].clone(),
                queries: q[2].clone(),
                keys: k[2].clone(),
                past,
                head: q[3].clone(),
                v_head: v[3].clone(),
            },
        }
    }
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, q, k, v) = (cx.dtype(0)?, cx.shape(0)?, cx.shape(1)?, cx.shape(2)?);
    if ![3, 4].contains(&q.len()) || k.len() != q.len() || v.len() != q.len() {
        return Err(
            cx.fail(Code::SHAPE, format!("Q, K and V must all have rank 3 or 4, not {}, {}, {}", q.len(), k.len(), v.len()))
        );
    }
    let form = form(cx, q.len())?;
    let past = if cx.has_input(4) { Some(cx.shape(4)?) } else { None };
    if past.as_ref().is_some_and(|p| p.len() != 4) || past.is_some() != cx.has_input(5) {
        return Err(cx.fail(Code::SHAPE, "past_key and past_value must be given together, with rank 4"));
    }
    let s = Sizes::of(&form, &q, &k, &v, past.as_deref());
    if let (Some(a), Some(b)) = (s.q_heads.as_const(), s.kv_heads.as_const())
        && (b == 0 || a % b != 0)
    {
        return Err(cx.fail(Code::SHAPE, format!("{a} query heads are no multiple of {b} key heads")));
    }
    cx.require_equal(&k[0], &s.batch, "the batch of K and of Q")?;
    cx.require_equal(&v[0], &s.batch, "the batch of V and of Q")?;
    let y = match form.heads {
        Some(_) => vec![s.batch.clone(), s.queries.clone(), &s.q_heads * &s.v_head],
        None => vec![s.batch.clone(), s.q_heads.clone(), s.queries.clone(), s.v_head.clone()],
    };
    let cache = |head: &Expr| vec![s.batch.clone(), s.kv_heads.clone(), s.total(), head.clone()];
    cx.set(0, dtype, y);
    cx.set(1, cx.dtype(1)?, cache(&s.head));
    cx.set(2, cx.dtype(2)?, cache(&s.v_head));
    cx.set(3, dtype, vec![s.batch.clone(), s.q_heads.clone(), s.queries.clone(), s.total()]);
    Ok(())
}
