//! Min, Max, Sum, Mean of any number of tensors with numpy's broadcasting (before opset 8: of equal shapes).

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::interpret::arithmetic;
use oaaxc_ir::kernel::BinaryOp;
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::{Datum, ReadAttributes, ReadOperands, Scalar};

use crate::broadcast::broadcast_map;
use crate::formula::compute_type;

type Result<T> = std::result::Result<T, Diagnostic>;

macro_rules! row {
    ($name:literal) => {
        OpDef { name: $name, domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) }
    };
}
/// ONNX Min.
pub static MIN: OpDef = row!("Min");
/// ONNX Max.
pub static MAX: OpDef = row!("Max");
/// ONNX Sum.
pub static SUM: OpDef = row!("Sum");
/// ONNX Mean.
pub static MEAN: OpDef = row!("Mean");

fn operation(name: &str) -> BinaryOp {
    match name {
        "Min" => BinaryOp::Min,
        "Max" => BinaryOp::Max,
        _ => BinaryOp::Add,
    }
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let dtype = cx.dtype(0)?;
    let mut shapes = Vec::new();
    for i in 0..cx.input_count() {
        if cx.dtype(i)? != dtype {
            return Err(cx.fail(Code::TYPE, format!("operand {i} is {}, the first is {dtype}", cx.dtype(i)?)));
        }
        shapes.push(cx.shape(i)?);
    }
    let out = cx.broadcast(&shapes)?;
    let known = known(cx);
    cx.set_known(0, dtype, out, known);
    Ok(())
}

fn known(cx: &InferCx) -> Option<Vec<Expr>> {
    let all: Vec<Vec<Expr>> = (0..cx.input_count()).map(|i| cx.known(i)).collect::<Option<_>>()?;
    let count = all.iter().map(Vec::len).max()?;
    if cx.node.op.name == "Mean" || all.iter().any(|k| k.len() != count && k.len() != 1) {
        return None;
    }
    let join = |a: Expr, b: Expr| match operation(cx.node.op.name) {
        BinaryOp::Min => a.minimum(&b),
        BinaryOp::Max => a.maximum(&b),
        _ => a + b,
    };
    let element = |i: usize| all.iter().map(|k| k[if k.len() == 1 { 0 } else { i }].clone()).reduce(join);
    (0..count).map(element).collect()
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let tensors: Vec<&Tensor> = (0..cx.inputs.len()).map(|i| cx.input(i)).collect::<Result<_>>()?;
    let dtype = cx.input(0)?.dtype;
    let name = cx.node.op.name;
    let op = operation(name);
    let join = |x: &[Scalar]| {
        if op == BinaryOp::Add && dtype.is_float() {
            let sum: f64 = x.iter().map(|s| s.as_f64()).sum();
            return Scalar::from_f64(if name == "Mean" { sum / x.len() as f64 } else { sum });
        }
        x.iter().copied().reduce(|a, b| arithmetic::binary(op, a, b)).expect("there is an operand")
    };
    let y = broadcast_map(&tensors, dtype, join).ok_or_else(|| cx.fail(Code::SHAPE, "the operands do not broadcast"))?;
    Ok(vec![y.into()])
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let args = (0..cx.input_count()).map(|i| cx.arg(i)).collect::<Result<Vec<_>>>()?;
    let y = cx.result(0)?;
    let name = cx.node.op.name;
    let op = operation(name);
    // Half sums are rounded once, not after each addition.
    let dtype = if op == BinaryOp::Add && y.dtype.is_float() { compute_type(y.dtype) } else { y.dtype };
    let count = args.len() as f64;
    cx.pointwise(&args, &y, |body, v| {
        let mut total = body.cast(dtype, v[0]);
        for &x in &v[1..] {
            let x = body.cast(dtype, x);
            total = body.binary(op, total, x);
        }
        if name == "Mean" {
            let by = body.float(dtype, count);
            total = body.binary(BinaryOp::Div, total, by);
        }
        total
    })
}
