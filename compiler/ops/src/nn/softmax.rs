//! Softmax. ONNX 13: "Softmax(input, axis) = Exp(input) / ReduceSum(Exp(input), axis=axis, keepdims=1)".
//!
//! Before 13 the input was coerced to 2-D at `axis` (default 1) and the softmax taken over all
//! trailing dims; that form is kept as the internal attribute `flatten`.

use oaaxc_base::Diagnostic;
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::graph::Attribute;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Fold, FoldKind, Index, Loop, Store, UnaryOp};
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef};
use oaaxc_ir::tensor::{Tensor, position};
use oaaxc_ir::upgrade::UpgradeCx;
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands};

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static SOFTMAX: OpDef = OpDef { name: "Softmax", domain: "", upgrade, infer, eval, lower: Lower::Kernels(lower) };

fn upgrade(cx: &mut UpgradeCx) -> Result<()> {
    if cx.version < 13 {
        let axis = cx.int("axis", 1)?;
        cx.set("axis", Attribute::Int(axis));
        cx.set("flatten", Attribute::Int(1));
    }
    Ok(())
}

/// First normalised dim and the one after the last.
fn normalised(cx: &impl ReadAttributes, rank: usize) -> Result<std::ops::Range<usize>> {
    if rank == 0 {
        return Ok(0..0);
    }
    let axis = cx.axis("axis", -1, rank)?;
    Ok(if cx.flag("flatten", false)? { axis..rank } else { axis..axis + 1 })
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (cx.dtype(0)?, cx.shape(0)?);
    normalised(cx, shape.len())?;
    cx.set(0, dtype, shape);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let range = normalised(cx, x.rank())?;
    let row = |c: &[usize]| {
        let mut start = c.to_vec();
        start[range.clone()].fill(0);
        position(&start, &x.dims)
    };
    let values = x.to_f64s();
    let all: Vec<Vec<usize>> = oaaxc_ir::tensor::Coordinates::new(&x.dims).collect();
    let mut largest = vec![f64::NEG_INFINITY; values.len()];
    for (c, v) in all.iter().zip(&values) {
        let r = row(c);
        largest[r] = if v.is_nan() { f64::NAN } else { largest[r].max(*v) };
    }
    let mut sum = vec![0.0; values.len()];
    for (c, v) in all.iter().zip(&values) {
        sum[row(c)] += (v - largest[row(c)]).exp();
    }
    let result = all.iter().zip(&values).map(|(c, v)| (v - largest[row(c)]).exp() / sum[row(c)]);
    Ok(vec![Tensor::from_f64s(x.dtype, x.dims.clone(), result.collect::<Vec<_>>()).into()])
}

/// One kernel: the outer axes are the rows; largest, sum and quotient are three loops over a row.
/// Statistics are in f32 (f64 for double).
fn lower(cx: &mut LowerCx) -> Result<()> {
    let (x, y) = (cx.arg(0)?, cx.result(0)?);
    let range = normalised(cx, x.dims.len())?;
    let stat = if x.dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let mut k = cx.kernel();
    let (xb, yb) = (k.read(&x), k.write(&y));
    let (largest, sum) = (k.local(stat, vec![]), k.local(stat, vec![]));
    let outer: Vec<Expr> =
        x.dims.iter().enumerate().filter(|(d, _)| !range.contains(d)).map(|(_, e)| k.parallel(e.clone())).collect();
    let inner = &x.dims[range.clone()];
    let index = |axes: &[Expr]| -> Vec<Index> {
        let (before, after) = outer.split_at(range.start);
        before.iter().chain(axes).chain(after).map(Index::from).collect()
    };

    let mut find = Loop::default();
    let axes = k.axes(&mut find.reduce, inner);
    let v = find.body.load(&xb, index(&axes));
    let v = find.body.cast(stat, v);
    find.folds.push(Fold { kind: FoldKind::Max, value: v, dtype: stat });
    let v = find.post.param(0, stat);
    find.stores.push(Store::at(&largest, vec![], v));
    k.push(find);

    let exponential = |body: &mut oaaxc_ir::kernel::Body, axes: &[Expr]| {
        let v = body.load(&xb, index(axes));
        let v = body.cast(stat, v);
        let m = body.load(&largest, vec![]);
        let d = body.binary(BinaryOp::Sub, v, m);
        body.unary(UnaryOp::Exp, d)
    };
    let mut total = Loop::default();
    let axes = k.axes(&mut total.reduce, inner);
    let e = exponential(&mut total.body, &axes);
    total.folds.push(Fold { kind: FoldKind::Sum, value: e, dtype: stat });
    let v = total.post.param(0, stat);
    total.stores.push(Store::at(&sum, vec![], v));
    k.push(total);

    let mut quotient = Loop::default();
    let axes = k.axes(&mut quotient.parallel, inner);
    let e = exponential(&mut quotient.post, &axes);
    let s = quotient.post.load(&sum, vec![]);
    let q = quotient.post.binary(BinaryOp::Div, e, s);
    let q = quotient.post.cast(y.dtype, q);
    quotient.stores.push(Store::at(&yb, index(&axes), q));
    k.push(quotient);
    cx.launch(k)
}
