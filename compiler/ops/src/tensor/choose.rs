//! Where. ONNX: "Return elements, either from X or Y, depending on condition" with numpy's broadcasting.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands};

use crate::broadcast::{broadcast_dims, expand};

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static WHERE: OpDef = OpDef { name: "Where", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };

fn infer(cx: &mut InferCx) -> Result<()> {
    let dtype = cx.dtype(1)?;
    if cx.dtype(2)? != dtype || cx.dtype(0)? != DType::Bool {
        return Err(cx.fail(Code::TYPE, "the condition must be bool and both choices of one type"));
    }
    let shapes = [cx.shape(0)?, cx.shape(1)?, cx.shape(2)?];
    let out = cx.broadcast(&shapes)?;
    let known = known(cx);
    cx.set_known(0, dtype, out, known);
    Ok(())
}

fn known(cx: &InferCx) -> Option<Vec<Expr>> {
    let lists = [cx.known(0)?, cx.known(1)?, cx.known(2)?];
    let count = lists.iter().map(Vec::len).max()?;
    if lists.iter().any(|l| l.len() != count && l.len() != 1) {
        return None;
    }
    let at = |list: &[Expr], i: usize| list[if list.len() == 1 { 0 } else { i }].clone();
    Some((0..count).map(|i| at(&lists[0], i).select(&at(&lists[1], i), &at(&lists[2], i))).collect())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (c, x, y) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
    let dims = broadcast_dims(&[&c.dims, &x.dims, &y.dims]);
    let dims = dims.ok_or_else(|| cx.fail(Code::SHAPE, "the operands do not broadcast"))?;
    let (c, x, y) = (expand(c, &dims), expand(x, &dims), expand(y, &dims));
    let chosen = |i: usize| if c.get(i).as_bool() { &x } else { &y };
    let result = if x.dtype == DType::String {
        Tensor::from_strings(dims, (0..c.len()).map(|i| chosen(i).string_at(i).to_vec()).collect())
    } else {
        Tensor::from_scalars(x.dtype, dims, (0..c.len()).map(|i| chosen(i).get(i)))
    };
    Ok(vec![result.into()])
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let args = [cx.arg(0)?, cx.arg(1)?, cx.arg(2)?];
    let out = cx.result(0)?;
    if out.dtype == DType::String {
        return Err(cx.fail(Code::UNSUPPORTED, "strings are not compiled"));
    }
    cx.pointwise(&args, &out, |body, v| body.select(v[0], v[1], v[2]))
}
