//! Elementwise operators of two tensors with numpy's broadcasting: arithmetic, logic, bits, comparisons.
//!
//! ONNX: "performs element-wise binary … (with Numpy-style broadcasting support)".
//! Before opset 7 broadcasting was asked for by the attributes `broadcast` and `axis`: the second
//! operand's dims stand at `axis` of the first's. That form is kept as the internal attribute `axis`.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::graph::Attribute;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::interpret::arithmetic;
use oaaxc_ir::kernel::BinaryOp;
use oaaxc_ir::lower::{Arg, LowerCx};
use oaaxc_ir::op::{Lower, OpDef};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::upgrade::UpgradeCx;
use oaaxc_ir::{DType, Datum, Node, ReadAttributes, ReadOperands, Scalar};

use crate::broadcast::{broadcast_dims, broadcast_map, expand};
use crate::sizes::truncating_div;

type Result<T> = std::result::Result<T, Diagnostic>;

/// Operators that are one scalar operation; Mod and BitShift choose theirs by an attribute.
#[rustfmt::skip] // A table of one-liners reads best as a table.
const OPERATIONS: &[(&str, BinaryOp)] = &[
    ("Add", BinaryOp::Add), ("Sub", BinaryOp::Sub), ("Mul", BinaryOp::Mul), ("Div", BinaryOp::Div),
    ("Mod", BinaryOp::Mod), ("And", BinaryOp::And), ("Or", BinaryOp::Or), ("Xor", BinaryOp::Xor),
    ("BitwiseAnd", BinaryOp::And), ("BitwiseOr", BinaryOp::Or), ("BitwiseXor", BinaryOp::Xor), ("BitShift", BinaryOp::Shl),
    ("Equal", BinaryOp::Eq), ("Less", BinaryOp::Lt), ("LessOrEqual", BinaryOp::Le), ("Greater", BinaryOp::Gt),
    ("GreaterOrEqual", BinaryOp::Ge),
];

fn operation(node: &Node) -> Result<BinaryOp> {
    let row = OPERATIONS.iter().find(|row| row.0 == node.op.name).expect("each operator of this file has a row");
    match node.op.name {
        // ONNX: "`fmod=1` … C fmod"; "the sign of the remainder is the same as that of the dividend".
        "Mod" if node.flag("fmod", false)? => Ok(BinaryOp::Rem),
        "BitShift" => match &node.text("direction", "")?[..] {
            "LEFT" => Ok(BinaryOp::Shl),
            "RIGHT" => Ok(BinaryOp::Shr),
            other => Err(node.fail(Code::ATTRIBUTE, format!("`direction` is \"{other}\", but must be LEFT or RIGHT"))),
        },
        _ => Ok(row.1),
    }
}

macro_rules! operators {
    ($($constant:ident $name:literal;)*) => {
        $(#[doc = concat!("ONNX ", $name, ".")]
        pub static $constant: OpDef = OpDef { name: $name, domain: "", upgrade, infer, eval, lower: Lower::Kernels(lower) };)*
        /// The operators of this file.
        pub static OPS: &[&OpDef] = &[$(&$constant),*];
    };
}
#[rustfmt::skip]
operators! {
    ADD "Add"; SUB "Sub"; MUL "Mul"; DIV "Div"; MOD "Mod"; AND "And"; OR "Or"; XOR "Xor"; BITWISE_AND "BitwiseAnd";
    BITWISE_OR "BitwiseOr"; BITWISE_XOR "BitwiseXor"; BIT_SHIFT "BitShift"; EQUAL "Equal"; LESS "Less";
    LESS_OR_EQUAL "LessOrEqual"; GREATER "Greater"; GREATER_OR_EQUAL "GreaterOrEqual";
}

/// Before 7: `axis` says where the second operand's dims stand; without it they are the last ones, as ever after.
pub fn upgrade(cx: &mut UpgradeCx) -> Result<()> {
    let old = matches!(cx.node.op.name, "Mod" | "BitShift" | "LessOrEqual" | "GreaterOrEqual") || cx.version >= 7;
    if !old {
        cx.take("broadcast");
        cx.take("consumed_inputs");
        if let Some(Attribute::Int(axis)) = cx.take("axis") {
            let axis = if axis < 0 { axis + cx.rank(0)? as i64 } else { axis };
            cx.set("axis", Attribute::Int(axis));
        }
    }
    Ok(())
}

/// How many dims of size 1 follow the second operand's own, because of the old `axis`.
fn trailing_ones(cx: &impl ReadAttributes, a: usize, b: usize) -> Result<usize> {
    match cx.int_if_any("axis")? {
        None => Ok(0),
        Some(axis) => usize::try_from(axis)
            .ok()
            .and_then(|axis| a.checked_sub(axis + b))
            .ok_or_else(|| cx.fail(Code::ATTRIBUTE, format!("`axis` {axis} does not fit operands of rank {a} and {b}"))),
    }
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (a, b) = (cx.dtype(0)?, cx.dtype(1)?);
    if a != b {
        return Err(cx.fail(Code::TYPE, format!("operands are {a} and {b}, but must be equal")));
    }
    let op = operation(cx.node)?;
    if matches!(op, BinaryOp::And | BinaryOp::Or | BinaryOp::Xor | BinaryOp::Shl | BinaryOp::Shr) && a.is_float() {
        return Err(cx.fail(Code::TYPE, format!("operands are {a}, but must be bool or integers")));
    }
    let mut shapes = [cx.shape(0)?, cx.shape(1)?];
    let ones = trailing_ones(cx, shapes[0].len(), shapes[1].len())?;
    shapes[1].extend(vec![Expr::constant(1); ones]);
    let out = cx.broadcast(&shapes)?;
    let known = known_sizes(cx, op);
    let dtype = if op.is_comparison() { DType::Bool } else { a };
    cx.set_known(0, dtype, out, known);
    Ok(())
}

/// Sizes computed from sizes: what makes `Shape → Mul → Reshape` static.
fn known_sizes(cx: &InferCx, op: BinaryOp) -> Option<Vec<Expr>> {
    let (a, b) = (cx.known(0)?, cx.known(1)?);
    let count = if a.len() == 1 { b.len() } else { a.len() };
    if (a.len() != count && a.len() != 1) || (b.len() != count && b.len() != 1) {
        return None;
    }
    // Only types in which sizes cannot wrap.
    if !matches!(cx.dtype(0).ok()?, DType::I64 | DType::I32 | DType::Bool) {
        return None;
    }
    let at = |v: &[Expr], i: usize| v[if v.len() == 1 { 0 } else { i }].clone();
    (0..count).map(|i| join(op, &at(&a, i), &at(&b, i), cx.dtype(0).ok()?)).collect()
}

fn join(op: BinaryOp, a: &Expr, b: &Expr, dtype: DType) -> Option<Expr> {
    let not = |e: Expr| Expr::constant(1) - e;
    Some(match op {
        BinaryOp::Add => a + b,
        BinaryOp::Sub => a - b,
        BinaryOp::Mul => a * b,
        BinaryOp::Div => return truncating_div(a, b),
        BinaryOp::Mod if !b.is(0) => a.modulo(b),
        BinaryOp::Eq => a.equal(b),
        BinaryOp::Lt => a.less(b),
        BinaryOp::Gt => b.less(a),
        BinaryOp::Le => not(b.less(a)),
        BinaryOp::Ge => not(a.less(b)),
        BinaryOp::And if dtype == DType::Bool => a * b,
        BinaryOp::Or if dtype == DType::Bool => a.maximum(b),
        BinaryOp::Xor if dtype == DType::Bool => not(a.equal(b)),
        _ => return None,
    })
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (a, b) = (cx.input(0)?, cx.input(1)?);
    let mut dims = b.dims.clone();
    dims.extend(vec![1; trailing_ones(cx, a.rank(), b.rank())?]);
    let b = &b.reshaped(dims);
    let op = operation(cx.node)?;
    let dtype = if op.is_comparison() { DType::Bool } else { a.dtype };
    let result = if a.dtype == DType::String {
        equal_strings(a, b)
    } else {
        broadcast_map(&[a, b], dtype, |x| arithmetic::binary(op, x[0], x[1]))
    };
    let y = result.ok_or_else(|| cx.fail(Code::SHAPE, format!("{:?} and {:?} do not broadcast", a.dims, b.dims)))?;
    Ok(vec![y.into()])
}

fn equal_strings(a: &Tensor, b: &Tensor) -> Option<Tensor> {
    let dims = broadcast_dims(&[&a.dims, &b.dims])?;
    let (a, b) = (expand(a, &dims), expand(b, &dims));
    let equal = (0..a.len()).map(|i| Scalar::from_bool(a.string_at(i) == b.string_at(i)));
    Some(Tensor::from_scalars(DType::Bool, dims, equal))
}

/// The operands as they broadcast: the second with trailing dims of 1 where the old `axis` asks for them.
pub fn operands(cx: &mut LowerCx) -> Result<(Arg, Arg)> {
    let (a, mut b) = (cx.arg(0)?, cx.arg(1)?);
    let ones = trailing_ones(cx, a.dims.len(), b.dims.len())?;
    if ones > 0 {
        let mut dims = b.dims.clone();
        dims.extend(vec![Expr::constant(1); ones]);
        b = cx.reshaped(&b, dims);
    }
    Ok((a, b))
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let (a, b) = operands(cx)?;
    if a.dtype == DType::String {
        return Err(cx.fail(Code::UNSUPPORTED, "strings are not compiled"));
    }
    let y = cx.result(0)?;
    cx.map_binary(operation(cx.node)?, &a, &b, &y)
}
