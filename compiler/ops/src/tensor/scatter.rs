//! ScatterElements, ScatterND and Scatter: a copy of the data with updates written at indices that are data.
//!
//! ONNX: `reduction` none, add, mul, max or min joins an update to what stands there. Rows that cannot meet
//! are independent; updates that may meet are written one after the other, so duplicates have one meaning.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::interpret::arithmetic;
use oaaxc_ir::kernel::{BinaryOp, Body, Bounds, Index, Loop, Store, V};
use oaaxc_ir::lower::{Buf, LowerCx};
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::{Coordinates, Tensor, position};
use oaaxc_ir::upgrade::UpgradeCx;
use oaaxc_ir::{Datum, ReadAttributes, ReadOperands};

use crate::tensor::gather::{checked_index, wrapped};
use crate::tensor::gather_elements::tuples;

type Result<T> = std::result::Result<T, Diagnostic>;

macro_rules! elements {
    ($name:literal, $upgrade:ident) => {
        OpDef { name: $name, domain: "", upgrade: $upgrade, infer, eval: eval_elements, lower: Lower::Kernels(lower_elements) }
    };
}
/// ONNX ScatterElements.
pub static SCATTER_ELEMENTS: OpDef = elements!("ScatterElements", no_upgrade);
/// ONNX Scatter, the old name of ScatterElements.
pub static SCATTER: OpDef = elements!("Scatter", upgrade_elements);
/// ONNX ScatterND.
pub static SCATTER_ND: OpDef =
    OpDef { name: "ScatterND", domain: "", upgrade: no_upgrade, infer, eval: eval_nd, lower: Lower::Kernels(lower_nd) };

/// Scatter becomes ScatterElements.
fn upgrade_elements(cx: &mut UpgradeCx) -> Result<()> {
    cx.node.op = &SCATTER_ELEMENTS;
    Ok(())
}

/// How an update joins; `None`: it replaces.
fn reduction(cx: &impl ReadAttributes) -> Result<Option<BinaryOp>> {
    Ok(match &cx.text("reduction", "none")?[..] {
        "none" => None,
        "add" => Some(BinaryOp::Add),
        "mul" => Some(BinaryOp::Mul),
        "max" => Some(BinaryOp::Max),
        "min" => Some(BinaryOp::Min),
        other => return Err(cx.fail(Code::ATTRIBUTE, format!("`reduction` \"{other}\" is not known"))),
    })
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (cx.dtype(0)?, cx.shape(0)?);
    reduction(cx)?;
    if cx.dtype(2)? != dtype {
        return Err(cx.fail(Code::TYPE, "data and updates must have one element type"));
    }
    let (indices, updates) = (cx.shape(1)?, cx.shape(2)?);
    let expected = if cx.node.op.name == "ScatterND" {
        let last = tuple_length(cx, &indices, shape.len())?;
        [&indices[..indices.len() - 1], &shape[last..]].concat()
    } else {
        cx.axis("axis", 0, shape.len())?;
        indices
    };
    if expected.len() != updates.len() {
        return Err(cx.fail(Code::RANK, format!("the updates have {} dims, {} are wanted", updates.len(), expected.len())));
    }
    for (a, b) in updates.iter().zip(&expected) {
        cx.require_equal(a, b, "a dim of the updates")?;
    }
    cx.set(0, dtype, shape);
    Ok(())
}

fn tuple_length(cx: &impl ReadAttributes, indices: &[Expr], rank: usize) -> Result<usize> {
    let last = indices.last().and_then(Expr::as_const).and_then(|n| usize::try_from(n).ok()).filter(|n| *n <= rank);
    last.ok_or_else(|| cx.fail(Code::SHAPE, "the last dim of the indices must be known and not above the data's rank"))
}

/// The data with updates: each is a position in the data and a position in the updates.
fn written(cx: &EvalCx, moves: &[(usize, usize)]) -> Result<Vec<Datum>> {
    let (x, updates) = (cx.input(0)?, cx.input(2)?);
    let op = reduction(cx)?;
    if x.dtype == oaaxc_ir::DType::String {
        let mut all: Vec<Vec<u8>> = (0..x.len()).map(|i| x.string_at(i).to_vec()).collect();
        moves.iter().for_each(|&(to, from)| all[to] = updates.string_at(from).to_vec());
        return Ok(vec![Tensor::from_strings(x.dims.clone(), all).into()]);
    }
    let mut all: Vec<_> = x.scalars().collect();
    for &(to, from) in moves {
        let update = updates.get(from);
        all[to] = op.map_or(update, |op| arithmetic::binary(op, all[to], update));
    }
    Ok(vec![Tensor::from_scalars(x.dtype, x.dims.clone(), all).into()])
}

fn eval_elements(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (x, indices) = (cx.input(0)?, cx.input(1)?);
    let axis = cx.axis("axis", 0, x.rank())?;
    let picks = indices.to_i64s();
    let mut moves = Vec::new();
    for (i, mut c) in Coordinates::new(&indices.dims).enumerate() {
        c[axis] = checked_index(cx, picks[i], x.dims[axis])?;
        moves.push((position(&c, &x.dims), i));
    }
    written(cx, &moves)
}

fn eval_nd(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (x, indices) = (cx.input(0)?, cx.input(1)?);
    let length = indices.dims.last().copied().unwrap_or(0);
    let slice: usize = x.dims[length..].iter().product();
    let mut moves = Vec::new();
    for (row, (_, tuple)) in tuples(&indices.dims[..indices.rank() - 1], length, &indices.to_i64s()).iter().enumerate() {
        let at = tuple.iter().zip(&x.dims).map(|(&i, &d)| checked_index(cx, i, d)).collect::<Result<Vec<_>>>()?;
        let start = position(&at, &x.dims[..length]) * slice;
        moves.extend((0..slice).map(|j| (start + j, row * slice + j)));
    }
    written(cx, &moves)
}

/// What is written: the update, or the update joined to what stands there.
fn joined(body: &mut Body, op: Option<BinaryOp>, y: &Buf, at: &[Index], update: V) -> V {
    let Some(op) = op else { return update };
    let old = body.load_checked(y, at.to_vec());
    body.binary(op, old, update)
}

fn store(y: &Buf, at: Vec<Index>, value: V) -> Store {
    Store { bounds: Bounds::Fault, ..Store::at(y, at, value) }
}

/// Rows along the axis are independent; within a row updates follow one another.
fn lower_elements(cx: &mut LowerCx) -> Result<()> {
    let (x, indices, updates, y) = (cx.arg(0)?, cx.arg(1)?, cx.arg(2)?, cx.result(0)?);
    let axis = cx.axis("axis", 0, x.dims.len())?;
    let op = reduction(cx)?;
    cx.copy(&x, &y)?;
    let mut k = cx.kernel();
    let (ib, ub, yb) = (k.read(&indices), k.read(&updates), k.read_write(&y));
    let mut c: Vec<Expr> = Vec::new();
    for (d, size) in indices.dims.iter().enumerate() {
        c.push(if d == axis { Expr::constant(0) } else { k.parallel(size.clone()) });
    }
    k.sequential(indices.dims[axis].clone(), |k, i| {
        c[axis] = i;
        let from: Vec<Index> = c.iter().map(Index::from).collect();
        let mut l = Loop::default();
        let index = l.post.load(&ib, from.clone());
        let update = l.post.load(&ub, from.clone());
        let mut to = from;
        to[axis] = Index::Value(wrapped(&mut l.post, index, &x.dims[axis]));
        let value = joined(&mut l.post, op, &yb, &to, update);
        l.stores.push(store(&yb, to, value));
        k.push(l);
    });
    cx.launch(k)
}

/// Elements of a slice are independent; tuples follow one another.
fn lower_nd(cx: &mut LowerCx) -> Result<()> {
    let (x, indices, updates, y) = (cx.arg(0)?, cx.arg(1)?, cx.arg(2)?, cx.result(0)?);
    let length = tuple_length(cx, &indices.dims, x.dims.len())?;
    let op = reduction(cx)?;
    cx.copy(&x, &y)?;
    // The tuples as one dim.
    let rows = Expr::product(&indices.dims[..indices.dims.len() - 1]);
    let indices = cx.reshaped(&indices, vec![rows.clone(), length.into()]);
    let slice = &x.dims[length..];
    let updates = cx.reshaped(&updates, [std::slice::from_ref(&rows), slice].concat());
    let mut k = cx.kernel();
    let (ib, ub, yb) = (k.read(&indices), k.read(&updates), k.read_write(&y));
    let rest: Vec<Index> = slice.iter().map(|d| Index::Expr(k.parallel(d.clone()))).collect();
    k.sequential(rows, |k, row| {
        let mut l = Loop::default();
        let mut to = Vec::new();
        for (j, size) in x.dims[..length].iter().enumerate() {
            let index = l.post.load(&ib, vec![Index::from(&row), Index::Expr(j.into())]);
            to.push(Index::Value(wrapped(&mut l.post, index, size)));
        }
        to.extend_from_slice(&rest);
        let update = l.post.load(&ub, [&[Index::from(&row)], &rest[..]].concat());
        let value = joined(&mut l.post, op, &yb, &to, update);
        l.stores.push(store(&yb, to, value));
        k.push(l);
    });
    cx.launch(k)
}
