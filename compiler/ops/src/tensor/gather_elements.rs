//! GatherElements and GatherND: elements or slices at indices that are data.
//!
//! ONNX GatherElements: "out[i][j][k] = input[index[i][j][k]][j][k] if axis = 0". ONNX GatherND: the last
//! dim of `indices` holds index tuples into `data` after `batch_dims` leading dims that both share.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{Index, Loop, Store};
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::{Coordinates, position};
use oaaxc_ir::{Datum, ReadAttributes, ReadOperands};

use crate::sizes::dim;
use crate::tensor::gather::{checked_index, wrapped};

type Result<T> = std::result::Result<T, Diagnostic>;

/// ONNX GatherElements.
pub static GATHER_ELEMENTS: OpDef = OpDef {
    name: "GatherElements",
    domain: "",
    upgrade: no_upgrade,
    infer: infer_elements,
    eval: eval_elements,
    lower: Lower::Kernels(lower_elements),
};
/// ONNX GatherND.
pub static GATHER_ND: OpDef =
    OpDef { name: "GatherND", domain: "", upgrade: no_upgrade, infer: infer_nd, eval: eval_nd, lower: Lower::Kernels(lower_nd) };

fn infer_elements(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape, indices) = (cx.dtype(0)?, cx.shape(0)?, cx.shape(1)?);
    cx.axis("axis", 0, shape.len())?;
    if shape.len() != indices.len() {
        return Err(cx.fail(Code::RANK, "data and indices must have equal ranks"));
    }
    cx.set(0, dtype, indices);
    Ok(())
}

fn eval_elements(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (x, indices) = (cx.input(0)?, cx.input(1)?);
    let axis = cx.axis("axis", 0, x.rank())?;
    let picks = indices.to_i64s().into_iter().map(|i| checked_index(cx, i, x.dims[axis])).collect::<Result<Vec<_>>>()?;
    let y = x.gathered(indices.dims.clone(), |c| {
        let mut from = c.to_vec();
        from[axis] = picks[position(c, &indices.dims)];
        position(&from, &x.dims)
    });
    Ok(vec![y.into()])
}

fn lower_elements(cx: &mut LowerCx) -> Result<()> {
    let (x, indices, y) = (cx.arg(0)?, cx.arg(1)?, cx.result(0)?);
    let axis = cx.axis("axis", 0, x.dims.len())?;
    let mut k = cx.kernel();
    let (xb, ib, yb) = (k.read(&x), k.read(&indices), k.write(&y));
    let mut l = Loop::default();
    let c: Vec<Index> = k.axes(&mut l.parallel, &y.dims).iter().map(Index::from).collect();
    let index = l.post.load(&ib, c.clone());
    let mut from = c.clone();
    from[axis] = Index::Value(wrapped(&mut l.post, index, &x.dims[axis]));
    let v = l.post.load_checked(&xb, from);
    l.stores.push(Store::at(&yb, c, v));
    k.push(l);
    cx.launch(k)
}

/// `batch_dims` and the length of an index tuple.
fn tuple(cx: &impl ReadAttributes, rank: usize, indices_rank: usize, last: Option<i64>) -> Result<(usize, usize)> {
    let batch = dim(cx.int("batch_dims", 0)?);
    let length = last.ok_or_else(|| cx.fail(Code::SHAPE, "the last dim of the indices must be known when the model is built"))?;
    if indices_rank <= batch || rank < batch + dim(length) {
        return Err(cx.fail(Code::RANK, format!("tuples of {length} after {batch} batch dims do not fit rank {rank}")));
    }
    Ok((batch, dim(length)))
}

fn infer_nd(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape, indices) = (cx.dtype(0)?, cx.shape(0)?, cx.shape(1)?);
    let last = indices.last().and_then(Expr::as_const);
    let (batch, length) = tuple(cx, shape.len(), indices.len(), last)?;
    for d in 0..batch {
        cx.require_equal(&shape[d], &indices[d], "batch dims must be equal")?;
    }
    let out = [&indices[..indices.len() - 1], &shape[batch + length..]].concat();
    cx.set(0, dtype, out);
    Ok(())
}

fn eval_nd(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (x, indices) = (cx.input(0)?, cx.input(1)?);
    let (batch, length) = tuple(cx, x.rank(), indices.rank(), indices.dims.last().map(|&d| d as i64))?;
    let rows = &indices.dims[..indices.rank() - 1];
    let picks = indices.to_i64s();
    let mut tuples = Vec::new();
    for row in 0..rows.iter().product() {
        let one = (0..length).map(|j| checked_index(cx, picks[row * length + j], x.dims[batch + j]));
        tuples.push(one.collect::<Result<Vec<_>>>()?);
    }
    let out = [rows, &x.dims[batch + length..]].concat();
    let y = x.gathered(out, |c| {
        let (row, rest) = c.split_at(rows.len());
        position(&[&row[..batch], &tuples[position(row, rows)], rest].concat(), &x.dims)
    });
    Ok(vec![y.into()])
}

fn lower_nd(cx: &mut LowerCx) -> Result<()> {
    let (x, indices, y) = (cx.arg(0)?, cx.arg(1)?, cx.result(0)?);
    let last = indices.dims.last().and_then(Expr::as_const);
    let (batch, length) = tuple(cx, x.dims.len(), indices.dims.len(), last)?;
    let rows = indices.dims.len() - 1;
    let mut k = cx.kernel();
    let (xb, ib, yb) = (k.read(&x), k.read(&indices), k.write(&y));
    let mut l = Loop::default();
    let c: Vec<Index> = k.axes(&mut l.parallel, &y.dims).iter().map(Index::from).collect();
    let mut from = c[..batch].to_vec();
    for j in 0..length {
        let index = l.post.load(&ib, [&c[..rows], &[Index::Expr(j.into())]].concat());
        from.push(Index::Value(wrapped(&mut l.post, index, &x.dims[batch + j])));
    }
    from.extend_from_slice(&c[rows..]);
    let v = l.post.load_checked(&xb, from);
    l.stores.push(Store::at(&yb, c, v));
    k.push(l);
    cx.launch(k)
}

/// All coordinates of a tensor of index tuples, with the tuples: shared with the scatters' evaluation.
pub fn tuples(rows: &[usize], length: usize, picks: &[i64]) -> Vec<(Vec<usize>, Vec<i64>)> {
    Coordinates::new(rows).enumerate().map(|(i, c)| (c, picks[i * length..(i + 1) * length].to_vec())).collect()
}
