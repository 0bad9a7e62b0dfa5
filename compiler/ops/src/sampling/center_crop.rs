//! CenterCropPad. ONNX: "Center crop or pad an input to given dimensions. The crop/pad dimensions can be
//! specified for a subset of the `axes`"; an odd difference leaves one more at the end.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::attributes::normalize_axis;
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{Index, Loop, Store};
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::{Coordinates, Tensor, position};
use oaaxc_ir::{Datum, ReadAttributes, ReadOperands, Scalar, Type};

use crate::sizes::dim;

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static CENTER_CROP_PAD: OpDef =
    OpDef { name: "CenterCropPad", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };

fn axes(cx: &impl ReadAttributes, rank: usize) -> Result<Vec<usize>> {
    match cx.ints("axes")? {
        None => Ok((0..rank).collect()),
        Some(axes) => axes.into_iter().map(|a| normalize_axis(cx.node(), a, rank)).collect(),
    }
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, mut shape) = (cx.dtype(0)?, cx.shape(0)?);
    let axes = axes(cx, shape.len())?;
    if !Expr::product(&cx.shape(1)?).is(axes.len() as i64) {
        return Err(cx.fail(Code::VALUE, "there must be one size for each axis"));
    }
    let known = cx.known(1);
    for (j, &axis) in axes.iter().enumerate() {
        shape[axis] = match &known {
            Some(known) => known[j].clone(),
            None => cx.fresh("centered"),
        };
    }
    cx.set(0, dtype, shape);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (x, sizes) = (cx.input(0)?, cx.input(1)?.to_i64s());
    let mut dims = x.dims.clone();
    for (&axis, &size) in axes(cx, x.rank())?.iter().zip(&sizes) {
        dims[axis] = dim(size);
    }
    let element = |c: Vec<usize>| {
        let mut from = Vec::new();
        for ((&i, &new), &old) in c.iter().zip(&dims).zip(&x.dims) {
            let at = if new <= old { Some(i + (old - new) / 2) } else { i.checked_sub((new - old) / 2) };
            match at.filter(|&at| at < old) {
                Some(at) => from.push(at),
                None => return Scalar::zero(x.dtype),
            }
        }
        x.get(position(&from, &x.dims))
    };
    let values: Vec<Scalar> = Coordinates::new(&dims).map(element).collect();
    Ok(vec![Tensor::from_scalars(x.dtype, dims, values).into()])
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let x = cx.arg(0)?;
    if cx.known(1).is_none() {
        let cells = cx.sizes(1)?;
        let axes = axes(cx, x.dims.len())?;
        if let Some(Type::Tensor(ty)) = cx.output_type(0).cloned() {
            let sizes = ty.shape.unwrap_or_default();
            for (&axis, cell) in axes.iter().zip(&cells) {
                cx.define(&sizes[axis], cell.clone())?;
            }
        }
    }
    let y = cx.result(0)?;
    let mut k = cx.kernel();
    let (xb, yb) = (k.read(&x), k.write(&y));
    let mut l = Loop::default();
    let c = k.axes(&mut l.parallel, &y.dims);
    let from = c.iter().zip(&y.dims).zip(&x.dims).map(|((i, new), old)| {
        let zero = Expr::constant(0);
        let cut = (old - new).maximum(&zero).floor_div(&2.into());
        let before = (new - old).maximum(&zero).floor_div(&2.into());
        Index::Expr(i + cut - before)
    });
    let v = l.post.load_or(&xb, from.collect(), Scalar::zero(x.dtype));
    l.stores.push(Store::at(&yb, c.iter().map(Index::from).collect(), v));
    k.push(l);
    cx.launch(k)
}
