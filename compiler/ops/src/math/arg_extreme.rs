//! ArgMax and ArgMin. ONNX: "Computes the indices of the max elements of the input tensor's element along
//! the provided axis"; `select_last_index` "the last occurrence is selected". NaN counts as the extreme, as in numpy.

use oaaxc_base::Diagnostic;
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{Fold, FoldKind, Index, Loop, Store};
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::{Coordinates, Tensor, position};
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands};

type Result<T> = std::result::Result<T, Diagnostic>;

/// ONNX ArgMax.
pub static ARG_MAX: OpDef = OpDef { name: "ArgMax", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };
/// ONNX ArgMin.
pub static ARG_MIN: OpDef = OpDef { name: "ArgMin", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };

fn infer(cx: &mut InferCx) -> Result<()> {
    let mut shape = cx.shape(0)?;
    let axis = cx.axis("axis", 0, shape.len())?;
    if cx.flag("keepdims", true)? {
        shape[axis] = 1.into();
    } else {
        shape.remove(axis);
    }
    cx.set(0, DType::I64, shape);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let axis = cx.axis("axis", 0, x.rank())?;
    let last = cx.flag("select_last_index", false)?;
    let largest = cx.node.op.name == "ArgMax";
    let mut dims = x.dims.clone();
    dims[axis] = 1;
    let mut best = Vec::new();
    for mut c in Coordinates::new(&dims) {
        let mut winner = 0usize;
        let mut at = |i: usize| {
            c[axis] = i;
            x.get(position(&c, &x.dims))
        };
        for i in 1..x.dims[axis] {
            let (new, old) = (at(i), at(winner));
            let nan = |s: oaaxc_ir::Scalar| s.dtype().is_float() && s.as_f64().is_nan();
            let order = oaaxc_ir::interpret::arithmetic::compare(new, old);
            let better = match (nan(new), nan(old)) {
                (true, false) => true,
                (false, true) => false,
                (true, true) => last,
                _ => (if largest { order.is_gt() } else { order.is_lt() }) || (last && order.is_eq()),
            };
            if better {
                winner = i;
            }
        }
        best.push(winner as i64);
    }
    if !cx.flag("keepdims", true)? {
        dims.remove(axis);
    }
    Ok(vec![Tensor::from_i64s(DType::I64, dims, best).into()])
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let (x, y) = (cx.arg(0)?, cx.result(0)?);
    let axis = cx.axis("axis", 0, x.dims.len())?;
    let last = cx.flag("select_last_index", false)?;
    let kind = if cx.node.op.name == "ArgMax" { FoldKind::ArgMax { last } } else { FoldKind::ArgMin { last } };
    let mut k = cx.kernel();
    let (xb, yb) = (k.read(&x), k.write(&y));
    let mut l = Loop::default();
    let mut outer = x.dims.clone();
    outer.remove(axis);
    let outer = k.axes(&mut l.parallel, &outer);
    let along = k.axis(&mut l.reduce, x.dims[axis].clone());
    let with = |at: &Expr| -> Vec<Index> {
        let (before, after) = outer.split_at(axis);
        before.iter().chain([at]).chain(after).map(Index::from).collect()
    };
    let v = l.body.load(&xb, with(&along));
    l.folds.push(Fold { kind, value: v, dtype: DType::I64 });
    let found = l.post.param(0, DType::I64);
    let to = if y.dims.len() == x.dims.len() { with(&0.into()) } else { outer.iter().map(Index::from).collect() };
    l.stores.push(Store::at(&yb, to, found));
    k.push(l);
    cx.launch(k)
}
