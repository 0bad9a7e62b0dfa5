//! Elementwise operators of two tensors with numpy's broadcasting: Add, Sub, Mul, Div, …
//!
//! ONNX: "performs element-wise binary … (with Numpy-style broadcasting support)".
//! Before opset 7 broadcasting was asked for by the attributes `broadcast` and `axis`.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::interpret::arithmetic;
use oaaxc_ir::kernel::BinaryOp;
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::{Tensor, position};
use oaaxc_ir::{Datum, ReadAttributes, ReadOperands, Scalar};

type Result<T> = std::result::Result<T, Diagnostic>;

/// The scalar operation behind a name.
fn operation(name: &str) -> BinaryOp {
    match name {
        "Add" => BinaryOp::Add,
        "Sub" => BinaryOp::Sub,
        _ => BinaryOp::Mul,
    }
}

macro_rules! row {
    ($name:literal) => {
        OpDef { name: $name, domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) }
    };
}
/// ONNX Add.
pub static ADD: OpDef = row!("Add");
/// ONNX Sub.
pub static SUB: OpDef = row!("Sub");
/// ONNX Mul.
pub static MUL: OpDef = row!("Mul");

fn infer(cx: &mut InferCx) -> Result<()> {
    let (a, b) = (cx.dtype(0)?, cx.dtype(1)?);
    if a != b {
        return Err(cx.fail(Code::TYPE, format!("operands are {a} and {b}, but must be equal")));
    }
    let shapes = [cx.shape(0)?, cx.shape(1)?];
    let out = cx.broadcast(&shapes)?;
    let known = known_sizes(cx);
    cx.set_known(0, a, out, known);
    Ok(())
}

/// Sizes computed from sizes: what makes `Shape → Mul → Reshape` static.
fn known_sizes(cx: &InferCx) -> Option<Vec<Expr>> {
    let (a, b) = (cx.known(0)?, cx.known(1)?);
    let count = if a.len() == 1 { b.len() } else { a.len() };
    if (a.len() != count && a.len() != 1) || (b.len() != count && b.len() != 1) {
        return None;
    }
    let at = |v: &[Expr], i: usize| v[if v.len() == 1 { 0 } else { i }].clone();
    let join = |i: usize| match operation(cx.node.op.name) {
        BinaryOp::Add => at(&a, i) + at(&b, i),
        BinaryOp::Sub => at(&a, i) - at(&b, i),
        _ => at(&a, i) * at(&b, i),
    };
    Some((0..count).map(join).collect())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (a, b) = (cx.input(0)?, cx.input(1)?);
    let op = operation(cx.node.op.name);
    Ok(vec![broadcast_map(&[a, b], |x| arithmetic::binary(op, x[0], x[1])).into()])
}

/// Applies `f` to corresponding elements under numpy's broadcasting. The result has the type that `f` gives
/// (the first operand's where there are no elements).
pub fn broadcast_map(tensors: &[&Tensor], f: impl Fn(&[Scalar]) -> Scalar) -> Tensor {
    let rank = tensors.iter().map(|t| t.rank()).max().unwrap_or(0);
    let size = |t: &Tensor, d: usize| (d + t.rank()).checked_sub(rank).map_or(1, |at| t.dims[at]);
    let dims: Vec<usize> = (0..rank).map(|d| tensors.iter().map(|t| size(t, d)).find(|&s| s != 1).unwrap_or(1)).collect();
    let mut scalars = Vec::new();
    for c in oaaxc_ir::tensor::Coordinates::new(&dims) {
        let pick = |t: &&Tensor| {
            let own: Vec<usize> = (0..t.rank()).map(|d| if t.dims[d] == 1 { 0 } else { c[d + rank - t.rank()] }).collect();
            t.get(position(&own, &t.dims))
        };
        scalars.push(f(&tensors.iter().map(pick).collect::<Vec<_>>()));
    }
    let dtype = scalars
        .first()
        .map_or_else(|| f(&tensors.iter().map(|t| Scalar::one(t.dtype)).collect::<Vec<_>>()).dtype(), |s| s.dtype());
    Tensor::from_scalars(dtype, dims, scalars)
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let (a, b, y) = (cx.arg(0)?, cx.arg(1)?, cx.result(0)?);
    cx.map_binary(operation(cx.node.op.name), &a, &b, &y)
}
