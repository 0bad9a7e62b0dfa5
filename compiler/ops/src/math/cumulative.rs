//! CumSum and CumProd. ONNX: "Performs cumulative sum of the input elements along the given axis";
//! `exclusive`: element j is the sum of the elements before it; `reverse`: from the end.

use oaaxc_base::Diagnostic;
use oaaxc_ir::attributes::normalize_axis;
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::interpret::arithmetic;
use oaaxc_ir::kernel::{BinaryOp, Index, Loop, Store};
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::{Coordinates, Tensor, position};
use oaaxc_ir::{Datum, ReadAttributes, ReadOperands, Scalar};

use crate::formula::compute_type;
use crate::math::reduce::Split;
use crate::sizes::axis_flags;

type Result<T> = std::result::Result<T, Diagnostic>;

/// ONNX CumSum.
pub static CUM_SUM: OpDef = OpDef { name: "CumSum", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };
/// ONNX CumProd.
pub static CUM_PROD: OpDef =
    OpDef { name: "CumProd", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };

fn operation(name: &str) -> BinaryOp {
    if name == "CumProd" { BinaryOp::Mul } else { BinaryOp::Add }
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (cx.dtype(0)?, cx.shape(0)?);
    if let Some([axis]) = cx.known_ints(1).as_deref() {
        normalize_axis(cx.node, *axis, shape.len())?;
    }
    cx.set(0, dtype, shape);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (x, axis) = (cx.input(0)?, cx.input(1)?);
    let axis = normalize_axis(cx.node, if axis.is_empty() { 0 } else { axis.i64_at(0) }, x.rank())?;
    let (exclusive, reverse) = (cx.flag("exclusive", false)?, cx.flag("reverse", false)?);
    let op = operation(cx.node.op.name);
    let start = Scalar::from_i64(i64::from(op == BinaryOp::Mul));
    let wide = if x.dtype.is_float() { oaaxc_ir::DType::F64 } else { x.dtype };
    let mut out = vec![Scalar::zero(x.dtype); x.len()];
    let mut rows = x.dims.clone();
    rows[axis] = rows[axis].min(1);
    for mut c in Coordinates::new(&rows) {
        let mut total = start.cast(wide);
        for step in 0..x.dims[axis] {
            c[axis] = if reverse { x.dims[axis] - 1 - step } else { step };
            let at = position(&c, &x.dims);
            let next = arithmetic::binary(op, total, x.get(at).cast(wide));
            out[at] = if exclusive { total } else { next };
            total = next;
        }
    }
    Ok(vec![Tensor::from_scalars(x.dtype, x.dims.clone(), out).into()])
}

/// Rows are independent; within a row one total runs along the axis, which may be known only at run time.
fn lower(cx: &mut LowerCx) -> Result<()> {
    let (x, y) = (cx.arg(0)?, cx.result(0)?);
    let (exclusive, reverse) = (cx.flag("exclusive", false)?, cx.flag("reverse", false)?);
    let op = operation(cx.node.op.name);
    let flags = axis_flags(&cx.sizes(1)?, x.dims.len());
    let split = Split::new(&x.dims, &flags);
    let length = Expr::product(&split.reduced);
    let acc = if x.dtype.is_float() { compute_type(x.dtype) } else { x.dtype };

    let mut k = cx.kernel();
    let (xb, yb) = (k.read(&x), k.write(&y));
    let total = k.local(acc, vec![]);
    let outer: Vec<Expr> = split.kept.iter().map(|e| if e.is(1) { Expr::constant(0) } else { k.parallel(e.clone()) }).collect();
    let mut begin = Loop::default();
    let start = begin.post.int(acc, i64::from(op == BinaryOp::Mul));
    begin.stores.push(Store::at(&total, vec![], start));
    k.push(begin);
    k.sequential(length.clone(), |k, step| {
        let along = if reverse { &length - 1 - step } else { step };
        let index: Vec<Index> = outer.iter().zip(&flags).map(|(o, f)| Index::Expr(f.select(&along, &0.into()) + o)).collect();
        let mut l = Loop::default();
        let v = l.post.load(&xb, index.clone());
        let v = l.post.cast(acc, v);
        let before = l.post.load(&total, vec![]);
        let next = l.post.binary(op, before, v);
        let result = if exclusive { before } else { next };
        let result = l.post.cast(y.dtype, result);
        l.stores.push(Store::at(&yb, index, result));
        l.stores.push(Store::at(&total, vec![], next));
        k.push(l);
    });
    cx.launch(k)
}
