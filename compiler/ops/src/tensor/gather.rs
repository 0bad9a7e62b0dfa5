//! Gather. ONNX: "gather entries of the axis dimension of `data` … indexed by `indices`"; an index may be
//! negative and must lie in [-s, s-1].

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Body, Index, Loop, Store, V};
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::{Tensor, position};
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands};

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static GATHER: OpDef = OpDef { name: "Gather", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape, indices) = (cx.dtype(0)?, cx.shape(0)?, cx.shape(1)?);
    let axis = cx.axis("axis", 0, shape.len())?;
    let out = [&shape[..axis], &indices, &shape[axis + 1..]].concat();
    let constant = cx.known_ints(1);
    if let (Some(indices), Some(size)) = (&constant, shape[axis].as_const())
        && let Some(wrong) = indices.iter().find(|&&i| i < -size || i >= size)
    {
        return Err(cx.fail(Code::VALUE, format!("index {wrong} is outside a dim of {size}")));
    }
    let known = cx.known(0).zip(constant).and_then(|(known, indices)| {
        let len = known.len() as i64;
        indices.iter().map(|&i| known.get(usize::try_from(if i < 0 { i + len } else { i }).ok()?).cloned()).collect()
    });
    cx.set_known(0, dtype, out, known.filter(|_| shape.len() == 1));
    Ok(())
}

/// An index of the model's data brought into `0..size`.
pub fn checked_index(cx: &impl ReadAttributes, index: i64, size: usize) -> Result<usize> {
    let at = if index < 0 { index.saturating_add(size as i64) } else { index };
    usize::try_from(at)
        .ok()
        .filter(|&at| at < size)
        .ok_or_else(|| cx.fail(Code::VALUE, format!("index {index} is outside a dim of {size}")))
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (x, indices) = (cx.input(0)?, cx.input(1)?);
    let axis = cx.axis("axis", 0, x.rank())?;
    let picks = indices.to_i64s().into_iter().map(|i| checked_index(cx, i, x.dims[axis])).collect::<Result<Vec<_>>>()?;
    Ok(vec![gathered(x, axis, &picks, &indices.dims).into()])
}

fn gathered(x: &Tensor, axis: usize, picks: &[usize], dims: &[usize]) -> Tensor {
    let out = [&x.dims[..axis], dims, &x.dims[axis + 1..]].concat();
    x.gathered(out, |c| {
        let pick = picks[position(&c[axis..axis + dims.len()], dims)];
        let from = [&c[..axis], &[pick], &c[axis + dims.len()..]].concat();
        position(&from, &x.dims)
    })
}

/// A loaded index as I64, with negative ones counted from the end.
pub fn wrapped(body: &mut Body, index: V, size: &Expr) -> V {
    let index = body.cast(DType::I64, index);
    let (zero, size) = (body.int(DType::I64, 0), body.index(size.clone()));
    let negative = body.binary(BinaryOp::Lt, index, zero);
    let from_end = body.binary(BinaryOp::Add, index, size);
    body.select(negative, from_end, index)
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let x = cx.arg(0)?;
    let axis = cx.axis("axis", 0, x.dims.len())?;
    let y = cx.result(0)?;
    let rank = cx.rank(1)?;
    // One index that is known (a number, or a size that the host computes) needs no operand.
    if let Some([index]) = cx.known(1).as_deref()
        && index.as_const().is_some()
    {
        let at = index.less(&0.into()).select(&(index + &x.dims[axis]), index);
        let inside = Expr::constant(1) - at.less(&0.into()) - x.dims[axis].less(&(&at + 1));
        if !inside.is(1) {
            cx.check(inside, "Gather: an index is out of range".into());
        }
        return cx.gather_map(&x, &y, |c| [&c[..axis], &[at], &c[axis + rank..]].concat());
    }
    let indices = cx.arg(1)?;
    let mut k = cx.kernel();
    let (xb, ib, yb) = (k.read(&x), k.read(&indices), k.write(&y));
    let mut l = Loop::default();
    let c: Vec<Index> = k.axes(&mut l.parallel, &y.dims).iter().map(Index::from).collect();
    let index = l.post.load(&ib, c[axis..axis + rank].to_vec());
    let index = wrapped(&mut l.post, index, &x.dims[axis]);
    let from = [&c[..axis], &[Index::Value(index)], &c[axis + rank..]].concat();
    let v = l.post.load_checked(&xb, from);
    l.stores.push(Store::at(&yb, c, v));
    k.push(l);
    cx.launch(k)
}
