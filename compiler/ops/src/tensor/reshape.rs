//! Reshape, Flatten, Squeeze, Unsqueeze, Identity: the same elements under other sizes, never a kernel.
//!
//! ONNX Reshape: "A dimension could also be 0, in which case the actual dimension value is unchanged
//! (i.e. taken from the input tensor)" unless `allowzero`; "at most one dimension of the new shape can be -1",
//! inferred from the rest. Sizes that are copied cancel before that, so that the inferred one does not depend on
//! whether there are elements: `{0, -1}` makes 0×6 of 0×2×3, as it makes 5×6 of 5×2×3.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::attributes::normalize_axis;
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::upgrade::UpgradeCx;
use oaaxc_ir::{Datum, ReadAttributes, ReadOperands, Type};

use crate::sizes::{axis_flags, dim, with_ones, without_flagged};

type Result<T> = std::result::Result<T, Diagnostic>;

/// ONNX Reshape.
pub static RESHAPE: OpDef = OpDef {
    name: "Reshape",
    domain: "",
    upgrade: upgrade_reshape,
    infer: infer_reshape,
    eval: eval_reshape,
    lower: Lower::Kernels(lower_reshape),
};
/// ONNX Flatten.
pub static FLATTEN: OpDef = OpDef {
    name: "Flatten",
    domain: "",
    upgrade: no_upgrade,
    infer: infer_flatten,
    eval: eval_flatten,
    lower: Lower::Kernels(alias),
};
/// ONNX Squeeze.
pub static SQUEEZE: OpDef = OpDef {
    name: "Squeeze",
    domain: "",
    upgrade: upgrade_axes,
    infer: infer_squeeze,
    eval: eval_squeeze,
    lower: Lower::Kernels(lower_axes),
};
/// ONNX Unsqueeze.
pub static UNSQUEEZE: OpDef = OpDef {
    name: "Unsqueeze",
    domain: "",
    upgrade: upgrade_axes,
    infer: infer_unsqueeze,
    eval: eval_unsqueeze,
    lower: Lower::Kernels(lower_axes),
};
/// ONNX Identity.
pub static IDENTITY: OpDef = OpDef {
    name: "Identity",
    domain: "",
    upgrade: no_upgrade,
    infer: infer_identity,
    eval: eval_identity,
    lower: Lower::Host(lower_identity),
};

fn alias(cx: &mut LowerCx) -> Result<()> {
    let x = cx.arg(0)?;
    cx.alias(0, &x)
}

/// Before 5 the shape was an attribute.
fn upgrade_reshape(cx: &mut UpgradeCx) -> Result<()> {
    cx.ints_to_input("shape", 1);
    Ok(())
}

/// Before 13 the axes were an attribute.
fn upgrade_axes(cx: &mut UpgradeCx) -> Result<()> {
    cx.ints_to_input("axes", 1);
    Ok(())
}

fn infer_reshape(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (cx.dtype(0)?, cx.shape(0)?);
    let Some(target) = cx.known(1) else {
        let count = Expr::product(&cx.shape(1)?);
        let Some(count) = count.as_const() else {
            return Err(cx.fail(Code::RANK, "the number of elements of the shape must be known when the model is built"));
        };
        let dims = (0..count).map(|_| cx.fresh("reshaped")).collect();
        cx.set(0, dtype, dims);
        return Ok(());
    };
    let allow_zero = cx.flag("allowzero", false)?;
    let mut dims = Vec::new();
    let mut open = None;
    // The product of the sizes on both sides that are not copied.
    let mut left = shape.clone();
    let mut rest = Expr::constant(1);
    for (i, size) in target.iter().enumerate() {
        dims.push(match size.as_const() {
            Some(0) if !allow_zero => {
                let copied = left.get_mut(i).map(|size| std::mem::replace(size, 1.into()));
                copied
                    .ok_or_else(|| cx.fail(Code::VALUE, format!("size {i} is 0, but the input has only {} dims", shape.len())))?
            }
            Some(-1) if open.is_some() => return Err(cx.fail(Code::VALUE, "the shape has more than one -1")),
            Some(-1) => {
                open = Some(i);
                Expr::constant(1)
            }
            Some(n) if n < 0 => return Err(cx.fail(Code::VALUE, format!("size {i} is {n}"))),
            _ => {
                rest = rest * size;
                size.clone()
            }
        });
    }
    let total = Expr::product(&shape);
    if let Some(open) = open {
        dims[open] = if rest.is(0) { 0.into() } else { Expr::product(&left).floor_div(&rest) };
    }
    cx.require_equal(&total, &Expr::product(&dims), "the numbers of elements before and after differ")?;
    let known = cx.known(0);
    cx.set_known(0, dtype, dims, known);
    Ok(())
}

fn eval_reshape(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (x, target) = (cx.input(0)?, cx.input(1)?.to_i64s());
    let allow_zero = cx.flag("allowzero", false)?;
    let wrong = || cx.fail(Code::SHAPE, format!("{:?} cannot be reshaped to {target:?}", x.dims));
    let mut dims = Vec::new();
    let (mut left, mut rest) = (x.dims.clone(), 1usize);
    for (i, &size) in target.iter().enumerate() {
        dims.push(match size {
            0 if !allow_zero => std::mem::replace(left.get_mut(i).ok_or_else(wrong)?, 1),
            -1 => 1,
            _ => {
                let size = usize::try_from(size).map_err(|_| wrong())?;
                rest = rest.checked_mul(size).ok_or_else(wrong)?;
                size
            }
        });
    }
    if let Some(open) = target.iter().position(|&s| s == -1) {
        dims[open] = left.iter().product::<usize>().checked_div(rest).unwrap_or(0);
    }
    if dims.iter().product::<usize>() != x.len() {
        return Err(wrong());
    }
    Ok(vec![x.reshaped(dims).into()])
}

fn lower_reshape(cx: &mut LowerCx) -> Result<()> {
    let x = cx.arg(0)?;
    if cx.known(1).is_none() {
        let cells = cx.sizes(1)?;
        let allow_zero = cx.flag("allowzero", false)?;
        let copied = |i: usize, cell: &Expr| match x.dims.get(i) {
            Some(d) if !allow_zero => cell.equal(&0.into()).select(d, cell),
            _ => cell.clone(),
        };
        let sizes: Vec<Expr> = cells.iter().enumerate().map(|(i, c)| copied(i, c)).collect();
        let (minus_one, one) = (Expr::constant(-1), Expr::constant(1));
        let is_copied = |cell: &Expr| if allow_zero { 0.into() } else { cell.equal(&0.into()) };
        let factor = |c: &Expr| is_copied(c).select(&one, &c.equal(&minus_one).select(&one, c));
        let factors: Vec<Expr> = cells.iter().map(factor).collect();
        let left = x.dims.iter().enumerate().map(|(i, d)| cells.get(i).map_or(d.clone(), |c| is_copied(c).select(&one, d)));
        let left: Vec<Expr> = left.collect();
        let total = Expr::product(&x.dims);
        let open = Expr::product(&left).floor_div(&Expr::product(&factors).maximum(&one));
        let dims: Vec<Expr> = sizes.iter().map(|s| s.equal(&minus_one).select(&open, s)).collect();
        let Some(Type::Tensor(ty)) = cx.output_type(0).cloned() else { return Ok(()) };
        for (size, value) in ty.shape.iter().flatten().zip(&dims) {
            cx.define(size, value.clone())?;
        }
        cx.check(total.equal(&Expr::product(&dims)), "Reshape: the numbers of elements before and after differ".into());
    }
    cx.alias(0, &x)
}

fn infer_flatten(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (cx.dtype(0)?, cx.shape(0)?);
    let axis = flatten_axis(cx, shape.len())?;
    let (before, after) = shape.split_at(axis);
    cx.set(0, dtype, vec![Expr::product(before), Expr::product(after)]);
    Ok(())
}

/// ONNX: "The value for axis must be in the range [-r, r]".
fn flatten_axis(cx: &impl ReadAttributes, rank: usize) -> Result<usize> {
    let axis = cx.int("axis", 1)?;
    if axis == rank as i64 { Ok(rank) } else { normalize_axis(cx.node(), axis, rank) }
}

fn eval_flatten(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let (before, after) = x.dims.split_at(flatten_axis(cx, x.rank())?);
    Ok(vec![x.reshaped(vec![before.iter().product(), after.iter().product()]).into()])
}

/// How many axes operand 1 has, where they come only with the run.
fn open_axes(cx: &InferCx) -> Result<Option<usize>> {
    if !cx.has_input(1) || cx.known_ints(1).is_some() {
        return Ok(None);
    }
    let count = Expr::product(&cx.shape(1)?).as_const().map(dim);
    count.map(Some).ok_or_else(|| cx.fail(Code::RANK, "the number of axes must be known when the model is built"))
}

/// Squeeze and Unsqueeze: sizes of axes that only the run knows are defined here; then an alias.
fn lower_axes(cx: &mut LowerCx) -> Result<()> {
    let x = cx.arg(0)?;
    if cx.has_input(1) && cx.known_ints(1).is_none() {
        let axes = cx.sizes(1)?;
        let Some(Type::Tensor(ty)) = cx.output_type(0).cloned() else { return Ok(()) };
        let sizes = ty.shape.unwrap_or_default();
        let values = if cx.node.op.name == "Squeeze" {
            without_flagged(&x.dims, &axis_flags(&axes, x.dims.len()), sizes.len())
        } else {
            with_ones(&x.dims, &axis_flags(&axes, sizes.len()))
        };
        for (size, value) in sizes.iter().zip(&values) {
            cx.define(size, value.clone())?;
        }
        let same = Expr::product(&x.dims).equal(&Expr::product(&values));
        cx.check(same, format!("{}: the axes do not fit the sizes", cx.node.op.name));
    }
    cx.alias(0, &x)
}

fn infer_squeeze(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (cx.dtype(0)?, cx.shape(0)?);
    if let Some(count) = open_axes(cx)? {
        let dims = (count..shape.len()).map(|_| cx.fresh("squeezed")).collect();
        cx.set(0, dtype, dims);
        return Ok(());
    }
    let mut dropped = vec![false; shape.len()];
    match cx.known_ints(1) {
        Some(axes) => {
            for axis in axes {
                let at = normalize_axis(cx.node, axis, shape.len())?;
                dropped[at] = true;
                cx.require_equal(&shape[at], &1.into(), "a squeezed dim must be 1")?;
            }
        }
        // ONNX: "If axes is not provided, all the single dimensions will be removed".
        None => {
            for (d, size) in shape.iter().enumerate() {
                dropped[d] = size.is(1);
                if size.as_const().is_none() {
                    let message =
                        format!("size {} is 1 only in this run, so the rank of the result was not known", cx.symbols.show(size));
                    cx.check(Expr::constant(1) - size.equal(&1.into()), message);
                }
            }
        }
    }
    let dims = shape.into_iter().zip(dropped).filter(|(_, dropped)| !dropped).map(|(d, _)| d).collect();
    let known = cx.known(0);
    cx.set_known(0, dtype, dims, known);
    Ok(())
}

fn eval_squeeze(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let dropped: Vec<usize> = match cx.optional(1)? {
        Some(axes) => axes.to_i64s().iter().map(|&a| normalize_axis(cx.node, a, x.rank())).collect::<Result<_>>()?,
        None => (0..x.rank()).filter(|&d| x.dims[d] == 1).collect(),
    };
    if let Some(&wrong) = dropped.iter().find(|&&d| x.dims[d] != 1) {
        return Err(cx.fail(Code::SHAPE, format!("dim {wrong} is {}, not 1", x.dims[wrong])));
    }
    let dims = (0..x.rank()).filter(|d| !dropped.contains(d)).map(|d| x.dims[d]).collect();
    Ok(vec![x.reshaped(dims).into()])
}

/// The shape with dims of size 1 at these axes of the result.
fn unsqueezed<T: Clone>(cx: &impl ReadAttributes, shape: &[T], axes: &[i64], one: T) -> Result<Vec<T>> {
    let rank = shape.len() + axes.len();
    let mut new = vec![false; rank];
    for &axis in axes {
        let at = normalize_axis(cx.node(), axis, rank)?;
        if std::mem::replace(&mut new[at], true) {
            return Err(cx.fail(Code::VALUE, format!("axis {axis} is given twice")));
        }
    }
    let mut old = shape.iter();
    Ok(new.iter().map(|&new| if new { one.clone() } else { old.next().expect("as many as are not new").clone() }).collect())
}

fn infer_unsqueeze(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (cx.dtype(0)?, cx.shape(0)?);
    if let Some(count) = open_axes(cx)? {
        let dims = (0..shape.len() + count).map(|_| cx.fresh("unsqueezed")).collect();
        cx.set(0, dtype, dims);
        return Ok(());
    }
    let axes = cx.known_ints(1).ok_or_else(|| cx.fail(Code::OPERAND, "the axes are missing"))?;
    let dims = unsqueezed(cx, &shape, &axes, Expr::constant(1))?;
    let known = cx.known(0);
    cx.set_known(0, dtype, dims, known);
    Ok(())
}

fn eval_unsqueeze(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let dims = unsqueezed(cx, &x.dims, &cx.input(1)?.to_i64s(), 1)?;
    Ok(vec![x.reshaped(dims).into()])
}

fn infer_identity(cx: &mut InferCx) -> Result<()> {
    let fact = cx.fact(0)?.clone();
    cx.set_fact(0, fact);
    Ok(())
}

fn eval_identity(cx: &EvalCx) -> Result<Vec<Datum>> {
    Ok(vec![cx.datum(0)?.clone()])
}

/// Tensors are aliases; of anything else the result is the operand's own slot.
fn lower_identity(cx: &mut LowerCx) -> Result<()> {
    let value = cx.input_value(0)?;
    let slot = cx.slot_of(value);
    if cx.tensor_type(0).is_ok() {
        let x = cx.arg(0)?;
        return cx.alias(0, &x);
    }
    if let Some(result) = cx.node.outputs.first().copied().flatten() {
        cx.bind(result, slot);
    }
    Ok(())
}
