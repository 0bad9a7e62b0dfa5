//! NonZero and Compress: what a condition keeps. The number of kept elements is known only during the run:
//! one kernel counts, the host reads the count, a second one collects.
//!
//! ONNX NonZero: "Returns the indices of the elements that are non-zero (in row-major order)"; a column each.
//! ONNX Compress: "Selects slices from an input tensor along a given axis where condition evaluates to True".

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{Compact, Fold, FoldKind, Index, Loop, Step, Store};
use oaaxc_ir::lower::{Arg, LowerCx};
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::{Coordinates, Tensor, position};
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands, Type};

type Result<T> = std::result::Result<T, Diagnostic>;

/// ONNX NonZero.
pub static NON_ZERO: OpDef = OpDef {
    name: "NonZero",
    domain: "",
    upgrade: no_upgrade,
    infer: infer_non_zero,
    eval: eval_non_zero,
    lower: Lower::Kernels(lower_non_zero),
};
/// ONNX Compress.
pub static COMPRESS: OpDef = OpDef {
    name: "Compress",
    domain: "",
    upgrade: no_upgrade,
    infer: infer_compress,
    eval: eval_compress,
    lower: Lower::Kernels(lower_compress),
};

fn infer_non_zero(cx: &mut InferCx) -> Result<()> {
    let rank = cx.rank(0)?;
    let count = cx.fresh("nonzero");
    cx.set(0, DType::I64, vec![rank.into(), count]);
    Ok(())
}

fn eval_non_zero(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let kept: Vec<Vec<usize>> =
        Coordinates::new(&x.dims).enumerate().filter(|(i, _)| x.get(*i).as_bool()).map(|(_, c)| c).collect();
    let rows = (0..x.rank()).flat_map(|d| kept.iter().map(move |c| c[d] as i64));
    Ok(vec![Tensor::from_i64s(DType::I64, vec![x.rank(), kept.len()], rows.collect::<Vec<_>>()).into()])
}

/// How many elements are true, read by the host.
pub fn count_true(cx: &mut LowerCx, x: &Arg) -> Result<Expr> {
    let cell = cx.temp(DType::I64, vec![]);
    let mut k = cx.kernel();
    let (xb, cb) = (k.read(x), k.write(&cell));
    let mut l = Loop::default();
    let mut c: Vec<Index> = k.axes(&mut l.reduce, &x.dims).iter().map(Index::from).collect();
    if l.reduce.is_empty() {
        k.axis(&mut l.reduce, 1);
        c.clear();
    }
    let v = l.body.load(&xb, c);
    let v = l.body.cast(DType::Bool, v);
    let v = l.body.cast(DType::I64, v);
    l.folds.push(Fold { kind: FoldKind::Sum, value: v, dtype: DType::I64 });
    let total = l.post.param(0, DType::I64);
    l.stores.push(Store::at(&cb, vec![], total));
    k.push(l);
    cx.launch(k)?;
    Ok(cx.read_cell(&cell, 0))
}

/// Row `d` of `out` receives coordinate `d` of each true element.
fn collect(cx: &mut LowerCx, x: &Arg, out: &Arg) -> Result<()> {
    let mut k = cx.kernel();
    let (xb, yb) = (k.read(x), k.write(out));
    let mut axes = Vec::new();
    let c = k.axes(&mut axes, &x.dims);
    if axes.is_empty() {
        k.axis(&mut axes, 1);
    }
    let position = k.new_axis();
    let mut body = oaaxc_ir::kernel::Body::default();
    let v = body.load(&xb, c.iter().map(Index::from).collect());
    let keep = body.cast(DType::Bool, v);
    let mut stores = Vec::new();
    for (d, at) in c.iter().enumerate() {
        let value = body.index(at.clone());
        stores.push(Store::at(&yb, vec![Index::Expr(d.into()), Index::Expr(Expr::axis(position))], value));
    }
    k.step(Step::Compact(Compact { axes, body, keep, position, stores, count: None }));
    cx.launch(k)
}

/// The size that inference made up for dim `d` of the result.
fn open_size(cx: &LowerCx, d: usize) -> Option<Expr> {
    match cx.output_type(0) {
        Some(Type::Tensor(ty)) => ty.shape.as_ref()?.get(d).cloned(),
        _ => None,
    }
}

fn lower_non_zero(cx: &mut LowerCx) -> Result<()> {
    let x = cx.arg(0)?;
    let n = count_true(cx, &x)?;
    if let Some(size) = open_size(cx, 1) {
        cx.define(&size, n)?;
    }
    let y = cx.result(0)?;
    collect(cx, &x, &y)
}

fn infer_compress(cx: &mut InferCx) -> Result<()> {
    let (dtype, mut shape) = (cx.dtype(0)?, cx.shape(0)?);
    if cx.dtype(1)? != DType::Bool || cx.rank(1)? != 1 {
        return Err(cx.fail(Code::TYPE, "the condition must be bool and have one dim"));
    }
    let kept = cx.fresh("kept");
    if cx.has("axis") {
        let axis = cx.axis("axis", 0, shape.len())?;
        shape[axis] = kept;
    } else {
        shape = vec![kept];
    }
    cx.set(0, dtype, shape);
    Ok(())
}

fn eval_compress(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (x, condition) = (cx.input(0)?, cx.input(1)?);
    let (x, axis) = match cx.has("axis") {
        true => (x.clone(), cx.axis("axis", 0, x.rank())?),
        false => (x.reshaped(vec![x.len()]), 0),
    };
    let kept: Vec<usize> = (0..condition.len()).filter(|&i| condition.get(i).as_bool()).collect();
    if kept.iter().any(|&i| i >= x.dims[axis]) {
        return Err(cx.fail(Code::VALUE, "the condition is longer than the axis"));
    }
    let mut dims = x.dims.clone();
    dims[axis] = kept.len();
    let y = x.gathered(dims, |c| {
        let mut from = c.to_vec();
        from[axis] = kept[c[axis]];
        position(&from, &x.dims)
    });
    Ok(vec![y.into()])
}

fn lower_compress(cx: &mut LowerCx) -> Result<()> {
    let (mut x, condition) = (cx.arg(0)?, cx.arg(1)?);
    let axis = if cx.has("axis") {
        cx.axis("axis", 0, x.dims.len())?
    } else {
        let total = Expr::product(&x.dims);
        x = cx.reshaped(&x, vec![total]);
        0
    };
    let n = count_true(cx, &condition)?;
    if let Some(size) = open_size(cx, axis) {
        cx.define(&size, n.clone())?;
    }
    let picks = cx.temp(DType::I64, vec![1.into(), n]);
    collect(cx, &condition, &picks)?;
    let y = cx.result(0)?;
    let mut k = cx.kernel();
    let (xb, pb, yb) = (k.read(&x), k.read(&picks), k.write(&y));
    let mut l = Loop::default();
    let c: Vec<Index> = k.axes(&mut l.parallel, &y.dims).iter().map(Index::from).collect();
    let pick = l.post.load(&pb, vec![Index::Expr(0.into()), c[axis].clone()]);
    let mut from = c.clone();
    from[axis] = Index::Value(pick);
    let v = l.post.load_checked(&xb, from);
    l.stores.push(Store::at(&yb, c, v));
    k.push(l);
    cx.launch(k)
}
