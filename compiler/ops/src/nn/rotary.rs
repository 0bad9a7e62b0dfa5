//! RotaryEmbedding: pairs of features turned by an angle that depends on the position.
//!
//! ONNX: "real = cos_x * x1 - sin_x * x2, imag = sin_x * x1 + cos_x * x2", where x1 and x2 are the two halves of
//! the rotated features, or with `interleaved` the even and the odd ones. Features behind `rotary_embedding_dim` stay.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Body, Index, Loop, Store};
use oaaxc_ir::lower::{Buf, LowerCx};
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::{Coordinates, Tensor, position};
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands, ix};

use crate::formula::compute_type;

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static ROTARY_EMBEDDING: OpDef =
    OpDef { name: "RotaryEmbedding", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };

/// Size of a head, and how many of its features are turned.
fn sizes(cx: &impl ReadAttributes, shape: &[Expr]) -> Result<(Expr, Expr)> {
    let head = match shape {
        [_, _, hidden] => {
            let heads = cx.required_int("num_heads")?;
            if heads < 1 {
                return Err(cx.fail(Code::ATTRIBUTE, "`num_heads` must be positive for an input of rank 3"));
            }
            hidden.floor_div(&heads.into())
        }
        [_, _, _, head] => head.clone(),
        _ => return Err(cx.fail(Code::SHAPE, format!("the input must have rank 3 or 4, not {}", shape.len()))),
    };
    let turned = match cx.int("rotary_embedding_dim", 0)? {
        0 => head.clone(),
        n => n.into(),
    };
    Ok((head, turned))
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (cx.dtype(0)?, cx.shape(0)?);
    let (_, turned) = sizes(cx, &shape)?;
    let cos = cx.shape(1)?;
    let rank = if cx.has_input(3) { 2 } else { 3 };
    if cos.len() != rank {
        return Err(cx.fail(Code::SHAPE, format!("the caches must have rank {rank}, not {}", cos.len())));
    }
    cx.require_equal(&cos[rank - 1], &turned.floor_div(&2.into()), "the caches' last size and half of the turned features")?;
    cx.set(0, dtype, shape);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (x, cos, sin, ids) = (cx.input(0)?, cx.input(1)?, cx.input(2)?, cx.optional(3)?);
    let exprs: Vec<Expr> = x.dims.iter().map(|&d| d.into()).collect();
    let (head, turned) = sizes(cx, &exprs)?;
    let n = |e: &Expr| e.as_const().expect("sizes are numbers") as usize;
    let (head, turned, interleaved) = (n(&head), n(&turned), cx.flag("interleaved", false)?);
    let half = turned / 2;
    let (values, cos_values, sin_values) = (x.to_f64s(), cos.to_f64s(), sin.to_f64s());
    let mut out = Vec::with_capacity(values.len());
    for (at, c) in Coordinates::new(&x.dims).enumerate() {
        let last = c[c.len() - 1];
        let (d, s) = (last % head, if x.rank() == 3 { c[1] } else { c[2] });
        if d >= turned {
            out.push(values[at]);
            continue;
        }
        let (pair, first) = if interleaved { (d / 2, d % 2 == 0) } else { (d % half, d < half) };
        let distance = if interleaved { 1 } else { half };
        let partner = if first { at + distance } else { at - distance };
        let angle = match ids {
            Some(ids) => {
                let row = ids.i64_at(c[0] * ids.dims[1] + s);
                if row < 0 || row as usize >= cos.dims[0] {
                    return Err(cx.fail(Code::RUN, format!("position {row} is outside the caches")));
                }
                row as usize * half + pair
            }
            None => position(&[c[0], s, pair], &cos.dims),
        };
        let turn = if first { -sin_values[angle] } else { sin_values[angle] };
        out.push(values[at] * cos_values[angle] + values[partner] * turn);
    }
    Ok(vec![Tensor::from_f64s(x.dtype, x.dims.clone(), out).into()])
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let (x, cos, sin, ids, y) = (cx.arg(0)?, cx.arg(1)?, cx.arg(2)?, cx.optional_arg(3)?, cx.result(0)?);
    let (head, turned) = sizes(cx, &x.dims)?;
    let interleaved = cx.flag("interleaved", false)?;
    let stat = compute_type(x.dtype);
    let mut k = cx.kernel();
    let (xb, cb, sb) = (k.read(&x), k.read(&cos), k.read(&sin));
    let ib = ids.map(|i| k.read(&i));
    let yb = k.write(&y);
    let mut l = Loop::default();
    let axes = k.axes(&mut l.parallel, &y.dims);
    let (batch, last) = (axes[0].clone(), axes[axes.len() - 1].clone());
    let s = if axes.len() == 3 { axes[1].clone() } else { axes[2].clone() };
    let d = if axes.len() == 3 { last.modulo(&head) } else { last.clone() };
    let half = turned.floor_div(&2.into());
    let (pair, first, distance) = if interleaved {
        (d.floor_div(&2.into()), d.modulo(&2.into()).equal(&0.into()), Expr::constant(1))
    } else {
        (d.modulo(&half), d.less(&half), half.clone())
    };
    let stays = Expr::constant(1) - d.less(&turned);
    let pair = stays.select(&0.into(), &pair);
    let partner = stays.select(&last, &(&last + first.select(&distance, &(Expr::constant(0) - &distance))));
    let b = &mut l.post;
    let row = ib.map(|ib| {
        let v = b.load(&ib, ix![&batch, &s]);
        b.cast(DType::I64, v)
    });
    let angle = |b: &mut Body, buffer: &Buf| {
        let v = match row {
            Some(row) => b.load_checked(buffer, ix![row, &pair]),
            None => b.load(buffer, ix![&batch, &s, &pair]),
        };
        b.cast(stat, v)
    };
    let (c, t) = (angle(b, &cb), angle(b, &sb));
    let load = |b: &mut Body, at: &Expr| {
        let index: Vec<Index> = axes[..axes.len() - 1].iter().chain([at]).map(Into::into).collect();
        let v = b.load(&xb, index);
        b.cast(stat, v)
    };
    let (own, other) = (load(b, &last), load(b, &partner));
    let sign = b.index(Expr::constant(1) - first * 2);
    let sign = b.cast(stat, sign);
    let t = b.binary(BinaryOp::Mul, t, sign);
    let (u, w) = (b.binary(BinaryOp::Mul, own, c), b.binary(BinaryOp::Mul, other, t));
    let v = b.binary(BinaryOp::Add, u, w);
    let (stays, zero) = (b.index(stays), b.int(DType::I64, 0));
    let stays = b.binary(BinaryOp::Ne, stays, zero);
    let v = b.select(stays, own, v);
    let v = b.cast(y.dtype, v);
    l.stores.push(Store::at(&yb, axes.iter().map(Into::into).collect(), v));
    k.push(l);
    cx.launch(k)
}
