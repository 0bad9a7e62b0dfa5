//! OneHot. ONNX: "the locations represented by the index values in the 'indices' input will have 'on_value'
//! and the other locations will have 'off_value'"; an index outside [-depth, depth-1] gives all off.
//! (Version 9 does not wrap negative indices; ONNX Runtime does, and so do we.)

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Index, Loop, Store};
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::{Coordinates, Tensor, position};
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands, Type};

use crate::sizes::dim;
use crate::tensor::gather::wrapped;

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static ONE_HOT: OpDef = OpDef { name: "OneHot", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, mut shape) = (cx.dtype(2)?, cx.shape(0)?);
    let axis = cx.axis("axis", -1, shape.len() + 1)?;
    let number = cx.constant(1).filter(|t| t.len() == 1 && t.dtype != DType::String).map(|t| t.i64_at(0));
    let depth = match (number, cx.known(1)) {
        (Some(depth), _) => Expr::constant(depth),
        (None, Some(known)) if known.len() == 1 => known[0].clone(),
        _ => cx.fresh("depth"),
    };
    shape.insert(axis, depth);
    cx.set(0, dtype, shape);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (indices, depth, values) = (cx.input(0)?, cx.input(1)?.i64_at(0), cx.input(2)?);
    if values.len() != 2 {
        return Err(cx.fail(Code::SHAPE, "`values` must be [off_value, on_value]"));
    }
    let axis = cx.axis("axis", -1, indices.rank() + 1)?;
    let mut dims = indices.dims.clone();
    dims.insert(axis, dim(depth));
    let element = |mut c: Vec<usize>| {
        let at = c.remove(axis) as i64;
        let index = indices.i64_at(position(&c, &indices.dims));
        let index = if index < 0 { index + depth } else { index };
        usize::from(index == at)
    };
    let picks: Vec<usize> = Coordinates::new(&dims).map(element).collect();
    if values.dtype == DType::String {
        let strings = picks.iter().map(|&p| values.string_at(p).to_vec()).collect();
        return Ok(vec![Tensor::from_strings(dims, strings).into()]);
    }
    Ok(vec![Tensor::from_scalars(values.dtype, dims, picks.iter().map(|&p| values.get(p))).into()])
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let (indices, values) = (cx.arg(0)?, cx.arg(2)?);
    let axis = cx.axis("axis", -1, indices.dims.len() + 1)?;
    if values.dtype == DType::String {
        return Err(cx.fail(Code::UNSUPPORTED, "strings are not compiled"));
    }
    let Some(Type::Tensor(ty)) = cx.output_type(0).cloned() else { return Ok(()) };
    let depth = ty.shape.unwrap_or_default()[axis].clone();
    if cx.constant(1).is_none() && cx.known(1).is_none() {
        // The depth may be a float: it is converted before the host reads it.
        let given = cx.arg(1)?;
        let cell = cx.temp(DType::I64, given.dims.clone());
        cx.convert(&given, &cell)?;
        let value = cx.read_cell(&cell, 0);
        cx.define(&depth, value)?;
    }
    let y = cx.result(0)?;
    let mut k = cx.kernel();
    let (ib, vb, yb) = (k.read(&indices), k.read(&values), k.write(&y));
    let mut l = Loop::default();
    let c: Vec<Expr> = k.axes(&mut l.parallel, &y.dims);
    let mut from: Vec<Index> = c.iter().map(Index::from).collect();
    from.remove(axis);
    let index = l.post.load(&ib, from);
    let index = wrapped(&mut l.post, index, &depth);
    let at = l.post.index(c[axis].clone());
    let hit = l.post.binary(BinaryOp::Eq, index, at);
    let on = l.post.load(&vb, vec![Index::Expr(1.into())]);
    let off = l.post.load(&vb, vec![Index::Expr(0.into())]);
    let v = l.post.select(hit, on, off);
    l.stores.push(Store::at(&yb, c.iter().map(Index::from).collect(), v));
    k.push(l);
    cx.launch(k)
}
