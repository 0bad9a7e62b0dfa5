//! Expand and Tile: elements repeated.
//!
//! ONNX Expand: "Broadcast the input tensor following the given shape and the broadcast rule"; a size of 1
//! in the shape keeps the input's. ONNX Tile: "Constructs a tensor by tiling a given tensor … same as numpy.tile".

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::lower::{LowerCx, broadcast_index};
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::position;
use oaaxc_ir::{Datum, ReadAttributes, ReadOperands, Type};

use crate::broadcast::{broadcast_dims, expand};
use crate::sizes::dim;

type Result<T> = std::result::Result<T, Diagnostic>;

/// ONNX Expand.
pub static EXPAND: OpDef = OpDef {
    name: "Expand",
    domain: "",
    upgrade: no_upgrade,
    infer: infer_expand,
    eval: eval_expand,
    lower: Lower::Kernels(lower_expand),
};
/// ONNX Tile.
pub static TILE: OpDef = OpDef {
    name: "Tile",
    domain: "",
    upgrade: no_upgrade,
    infer: infer_tile,
    eval: eval_tile,
    lower: Lower::Kernels(lower_tile),
};

/// How many elements a shape operand has.
fn length(cx: &InferCx, index: usize) -> Result<usize> {
    let count = Expr::product(&cx.shape(index)?).as_const();
    count.map(dim).ok_or_else(|| cx.fail(Code::RANK, format!("the number of elements of input {index} must be known")))
}

fn infer_expand(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (cx.dtype(0)?, cx.shape(0)?);
    let Some(target) = cx.known(1) else {
        let rank = shape.len().max(length(cx, 1)?);
        let dims = (0..rank).map(|_| cx.fresh("expanded")).collect();
        cx.set(0, dtype, dims);
        return Ok(());
    };
    let out = cx.broadcast(&[shape, target])?;
    let known = match (cx.known(0), out.first().map(Expr::as_const)) {
        (Some(one), Some(Some(count))) if one.len() == 1 && count <= oaaxc_ir::types::MAX_KNOWN as i64 => {
            Some(vec![one[0].clone(); dim(count)])
        }
        (Some(same), _) if out.is_empty() || out[0].is(same.len() as i64) => Some(same),
        _ => None,
    };
    cx.set_known(0, dtype, out, known);
    Ok(())
}

fn eval_expand(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let target: Vec<usize> = cx.input(1)?.to_i64s().into_iter().map(dim).collect();
    let dims = broadcast_dims(&[&x.dims, &target]);
    let dims = dims.ok_or_else(|| cx.fail(Code::SHAPE, format!("{:?} does not expand to {target:?}", x.dims)))?;
    Ok(vec![expand(x, &dims).into()])
}

fn lower_expand(cx: &mut LowerCx) -> Result<()> {
    let x = cx.arg(0)?;
    if cx.known(1).is_none() {
        let cells = cx.sizes(1)?;
        let rank = x.dims.len().max(cells.len());
        let Some(Type::Tensor(ty)) = cx.output_type(0).cloned() else { return Ok(()) };
        for (d, size) in ty.shape.iter().flatten().enumerate() {
            let at = |list: &[Expr]| (d + list.len()).checked_sub(rank).map_or(1.into(), |i| list[i].clone());
            let (own, wanted) = (at(&x.dims), at(&cells));
            cx.define(size, own.equal(&1.into()).select(&wanted, &own))?;
            let fits = own.equal(&wanted) + own.equal(&1.into()) + wanted.equal(&1.into());
            cx.check(fits, format!("Expand: dim {d} does not broadcast"));
        }
    }
    let y = cx.result(0)?;
    cx.gather_map(&x, &y, |axes| broadcast_index(&x.dims, &y.dims, axes))
}

fn infer_tile(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (cx.dtype(0)?, cx.shape(0)?);
    if length(cx, 1)? != shape.len() {
        return Err(cx.fail(Code::VALUE, "there must be as many repeats as dims"));
    }
    let dims: Vec<Expr> = match cx.known(1) {
        Some(repeats) => shape.iter().zip(&repeats).map(|(d, r)| d * r).collect(),
        None => shape.iter().map(|_| cx.fresh("tiled")).collect(),
    };
    let known = match (cx.known(0), cx.known_ints(1).as_deref()) {
        (Some(known), Some([repeats])) if *repeats <= oaaxc_ir::types::MAX_KNOWN as i64 => {
            Some(vec![known; dim(*repeats)].concat())
        }
        _ => None,
    };
    cx.set_known(0, dtype, dims, known);
    Ok(())
}

fn eval_tile(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let dims = x.dims.iter().zip(cx.input(1)?.to_i64s()).map(|(d, r)| d * dim(r)).collect();
    let y = x.gathered(dims, |c| {
        let from: Vec<usize> = c.iter().zip(&x.dims).map(|(i, d)| i % d).collect();
        position(&from, &x.dims)
    });
    Ok(vec![y.into()])
}

fn lower_tile(cx: &mut LowerCx) -> Result<()> {
    let x = cx.arg(0)?;
    if cx.known(1).is_none() {
        let cells = cx.sizes(1)?;
        let Some(Type::Tensor(ty)) = cx.output_type(0).cloned() else { return Ok(()) };
        for ((size, d), r) in ty.shape.iter().flatten().zip(&x.dims).zip(&cells) {
            cx.define(size, d * r)?;
        }
    }
    let y = cx.result(0)?;
    cx.gather_map(&x, &y, |axes| {
        let one = |d: usize| if y.dims[d] == x.dims[d] { axes[d].clone() } else { axes[d].modulo(&x.dims[d]) };
        (0..axes.len()).map(one).collect()
    })
}
