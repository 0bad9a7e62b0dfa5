//! Range. ONNX: "number_of_elements = max( ceil( (limit - start) / delta ), 0 )", element i is start + i·delta.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Index, Loop, Store, UnaryOp};
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands, Scalar, Type};

use crate::formula::compute_type;

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static RANGE: OpDef = OpDef { name: "Range", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };

/// How many elements; for numbers.
fn count(start: Scalar, limit: Scalar, delta: Scalar) -> Option<usize> {
    if start.dtype().is_float() {
        let n = ((limit.as_f64() - start.as_f64()) / delta.as_f64()).ceil();
        return Some(if n > 0.0 { n as usize } else { 0 });
    }
    let (distance, delta) = (limit.as_integer() - start.as_integer(), delta.as_integer());
    if delta == 0 {
        return None;
    }
    let n = distance.div_euclid(delta) + i128::from(distance.rem_euclid(delta) != 0 && delta > 0);
    // Euclidean division by a negative delta rounds up already.
    usize::try_from(n.max(0)).ok()
}

/// How many elements; for expressions. The sign of delta may be open.
fn symbolic_count(start: &Expr, limit: &Expr, delta: &Expr) -> Expr {
    let distance = limit - start;
    let up = distance.ceil_div(&delta.maximum(&1.into())).maximum(&0.into());
    let back = Expr::constant(0) - &distance;
    let down = back.ceil_div(&(Expr::constant(0) - delta).maximum(&1.into())).maximum(&0.into());
    delta.less(&0.into()).select(&down, &up)
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let dtype = cx.dtype(0)?;
    let numbers: Option<Vec<Scalar>> =
        (0..3).map(|i| cx.constant(i).filter(|t| t.len() == 1 && t.dtype != DType::String).map(|t| t.get(0))).collect();
    let exprs: Option<Vec<Expr>> = (0..3).map(|i| cx.known(i).and_then(|k| k.first().cloned())).collect();
    let size = match (&numbers, &exprs) {
        (Some(n), _) => count(n[0], n[1], n[2]).map(Expr::from).ok_or_else(|| cx.fail(Code::VALUE, "the step is 0"))?,
        (None, Some(e)) => {
            let size = symbolic_count(&e[0], &e[1], &e[2]);
            // 0, n, 1: n elements.
            if e[0].is(0) && e[2].is(1) && crate::sizes::is_size(&e[1]) { e[1].clone() } else { size }
        }
        (None, None) => cx.fresh("range"),
    };
    let known = exprs.zip(size.as_const()).filter(|(_, n)| *n <= oaaxc_ir::types::MAX_KNOWN as i64);
    let known = known.map(|(e, n)| (0..n).map(|i| &e[0] + &e[2] * &Expr::constant(i)).collect());
    cx.set_known(0, dtype, vec![size], known);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (start, limit, delta) = (cx.input(0)?.get(0), cx.input(1)?.get(0), cx.input(2)?.get(0));
    let n = count(start, limit, delta).ok_or_else(|| cx.fail(Code::VALUE, "the step is 0"))?;
    let element = |i: usize| match start.dtype().is_float() {
        true => Scalar::from_f64(start.as_f64() + i as f64 * delta.as_f64()),
        false => Scalar::from_integer(start.dtype(), start.as_integer() + i as i128 * delta.as_integer()),
    };
    Ok(vec![Tensor::from_scalars(start.dtype(), vec![n], (0..n).map(element)).into()])
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let (start, limit, delta) = (cx.arg(0)?, cx.arg(1)?, cx.arg(2)?);
    let Some(Type::Tensor(ty)) = cx.output_type(0).cloned() else { return Ok(()) };
    let size = ty.shape.unwrap_or_default()[0].clone();
    let all_known = (0..3).all(|i| cx.known(i).is_some() || cx.constant(i).is_some());
    if !all_known && start.dtype.is_float() {
        let cell = cx.temp(DType::I64, vec![]);
        cx.pointwise(&[start.clone(), limit, delta.clone()], &cell, |body, v| {
            let v: Vec<_> = v.iter().map(|&v| body.cast(DType::F64, v)).collect();
            let distance = body.binary(BinaryOp::Sub, v[1], v[0]);
            let steps = body.binary(BinaryOp::Div, distance, v[2]);
            let steps = body.unary(UnaryOp::Ceil, steps);
            let zero = body.float(DType::F64, 0.0);
            body.binary(BinaryOp::Max, steps, zero)
        })?;
        let n = cx.read_cell(&cell, 0);
        cx.define(&size, n)?;
    } else if !all_known {
        let (s, l, d) = (cx.sizes(0)?, cx.sizes(1)?, cx.sizes(2)?);
        cx.check(Expr::constant(1) - d[0].equal(&0.into()), "Range: the step is 0".into());
        cx.define(&size, symbolic_count(&s[0], &l[0], &d[0]))?;
    }
    let y = cx.result(0)?;
    let dtype = if y.dtype.is_float() { compute_type(y.dtype) } else { y.dtype };
    let mut k = cx.kernel();
    let (sb, db, yb) = (k.read(&start), k.read(&delta), k.write(&y));
    let mut l = Loop::default();
    let i = k.axis(&mut l.parallel, y.dims[0].clone());
    // One-element tensors of rank 1 are met in models: read their only element.
    let only = |rank: usize| vec![Index::Expr(0.into()); rank];
    let s = l.post.load(&sb, only(start.dims.len()));
    let d = l.post.load(&db, only(delta.dims.len()));
    let (s, d) = (l.post.cast(dtype, s), l.post.cast(dtype, d));
    let n = l.post.index(i.clone());
    let n = l.post.cast(dtype, n);
    let far = l.post.binary(BinaryOp::Mul, n, d);
    let v = l.post.binary(BinaryOp::Add, s, far);
    let v = l.post.cast(y.dtype, v);
    l.stores.push(Store::at(&yb, vec![Index::Expr(i)], v));
    k.push(l);
    cx.launch(k)
}
