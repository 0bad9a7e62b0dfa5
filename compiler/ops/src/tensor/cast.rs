//! Cast, CastLike and BitCast: the same numbers, or the same bits, in another element type.
//!
//! ONNX Cast: `saturate` "defines how the conversion behaves if an input value is out of range of the
//! destination type. It only applies for float 8 conversion". Strings are only evaluated.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, UnaryOp};
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::upgrade::UpgradeCx;
use oaaxc_ir::{Attribute, DType, Datum, ReadAttributes, ReadOperands, Scalar};

use crate::tensor::cast_rules;

type Result<T> = std::result::Result<T, Diagnostic>;

/// ONNX Cast.
pub static CAST: OpDef = OpDef { name: "Cast", domain: "", upgrade, infer, eval, lower: Lower::Kernels(lower) };
/// ONNX CastLike.
pub static CAST_LIKE: OpDef =
    OpDef { name: "CastLike", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };
/// ONNX BitCast.
pub static BIT_CAST: OpDef = OpDef {
    name: "BitCast",
    domain: "",
    upgrade: no_upgrade,
    infer: infer_bits,
    eval: eval_bits,
    lower: Lower::Kernels(lower_bits),
};

/// Before 6 the type was named in words.
fn upgrade(cx: &mut UpgradeCx) -> Result<()> {
    if let Some(Attribute::Text(name)) = cx.attribute("to").cloned() {
        let name = String::from_utf8_lossy(&name).to_lowercase();
        let to = DType::from_name(&name).ok_or_else(|| cx.fail(Code::ATTRIBUTE, format!("no element type is called {name}")))?;
        cx.set("to", Attribute::Int(i64::from(to.onnx())));
    }
    Ok(())
}

/// The type of attribute `to`.
pub fn named_type(cx: &impl ReadAttributes, name: &str) -> Result<DType> {
    let number = cx.required_int(name)?;
    i32::try_from(number)
        .ok()
        .and_then(DType::from_onnx)
        .ok_or_else(|| cx.fail(Code::ATTRIBUTE, format!("`{name}` is {number}, which is no element type")))
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let shape = cx.shape(0)?;
    let to = if cx.node.op.name == "Cast" { named_type(cx, "to")? } else { cx.dtype(1)? };
    let is_whole = |d: DType| matches!(d, DType::I64 | DType::I32 | DType::Bool);
    let known = if is_whole(cx.dtype(0)?) { cx.known(0) } else { None };
    let known = match to {
        DType::I64 | DType::I32 => known,
        DType::Bool => known.map(|k| k.iter().map(|e| Expr::constant(1) - e.equal(&0.into())).collect()),
        // Numbers are converted now, where that is exact arithmetic.
        d if d.is_integer() => known
            .and_then(|k| k.iter().map(|e| e.as_const().map(|c| Expr::constant(Scalar::from_i64(c).cast(d).as_i64()))).collect()),
        _ => None,
    };
    cx.set_known(0, to, shape, known);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let to = if cx.node.op.name == "Cast" { named_type(cx, "to")? } else { cx.input(1)?.dtype };
    let saturate = cx.flag("saturate", true)?;
    let mode = cx.text("round_mode", "up")?;
    let y = match (x.dtype, to) {
        (DType::String, DType::String) => x.clone(),
        (DType::String, _) => {
            let numbers = (0..x.len()).map(|i| cast_rules::parse(x.string_at(i))).collect::<Option<Vec<Scalar>>>();
            let numbers = numbers.ok_or_else(|| cx.fail(Code::VALUE, "a string is not a number"))?;
            Tensor::from_scalars(to, x.dims.clone(), numbers)
        }
        (_, DType::String) => Tensor::from_strings(x.dims.clone(), x.scalars().map(cast_rules::print).collect()),
        _ => Tensor::from_scalars(to, x.dims.clone(), x.scalars().map(|s| cast_rules::cast(s, to, saturate, &mode))),
    };
    Ok(vec![y.into()])
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let (x, y) = (cx.arg(0)?, cx.result(0)?);
    if x.dtype == DType::String || y.dtype == DType::String {
        return Err(cx.fail(Code::UNSUPPORTED, "casts from and to strings are not compiled"));
    }
    let saturate = cx.flag("saturate", true)?;
    let mode = cx.text("round_mode", "up")?;
    if y.dtype == DType::F8E8M0 && mode != "nearest" {
        return lower_to_e8m0(cx, &mode);
    }
    if y.dtype.is_integer() && y.dtype.onnx_bits() < 8 {
        return cx.pointwise(std::slice::from_ref(&x), &y, |body, v| body.cast(DType::I64, v[0]));
    }
    let Some(limit) = (!saturate).then(|| cast_rules::overflow(y.dtype)).flatten() else { return cx.convert(&x, &y) };
    cx.pointwise(std::slice::from_ref(&x), &y, |body, v| {
        let wide = body.cast(DType::F32, v[0]);
        let magnitude = body.unary(UnaryOp::Abs, wide);
        let bound = body.float(DType::F32, limit.bound);
        let above = body.binary(if limit.inclusive { BinaryOp::Ge } else { BinaryOp::Gt }, magnitude, bound);
        let zero = body.float(DType::F32, 0.0);
        let negative = body.binary(BinaryOp::Lt, wide, zero);
        let (plus, minus) = (body.scalar(limit.positive), body.scalar(limit.negative));
        let beyond = body.select(negative, minus, plus);
        let within = body.cast(y.dtype, v[0]);
        body.select(above, beyond, within)
    })
}

/// Powers of two only: the number is first brought down (or up) to one, so that the conversion is exact.
fn lower_to_e8m0(cx: &mut LowerCx, mode: &str) -> Result<()> {
    let (x, y) = (cx.arg(0)?, cx.result(0)?);
    let up = mode == "up";
    cx.pointwise(std::slice::from_ref(&x), &y, |body, v| {
        let wide = body.cast(DType::F64, v[0]);
        let log = body.float(DType::F64, std::f64::consts::LOG2_E);
        let ln = body.unary(UnaryOp::Log, wide);
        let log2 = body.binary(BinaryOp::Mul, ln, log);
        // Logarithms of exact powers come out within one ulp of a whole number: take that.
        let near = body.unary(UnaryOp::Round, log2);
        let distance = body.binary(BinaryOp::Sub, log2, near);
        let distance = body.unary(UnaryOp::Abs, distance);
        let tiny = body.float(DType::F64, 1e-12);
        let exact = body.binary(BinaryOp::Lt, distance, tiny);
        let whole = body.unary(if up { UnaryOp::Ceil } else { UnaryOp::Floor }, log2);
        let exponent = body.select(exact, near, whole);
        let two = body.float(DType::F64, 2.0);
        let power = body.binary(BinaryOp::Pow, two, exponent);
        let zero = body.float(DType::F64, 0.0);
        let is_zero = body.binary(BinaryOp::Eq, wide, zero);
        let power = body.select(is_zero, zero, power);
        body.cast(DType::F8E8M0, power)
    })
}

fn infer_bits(cx: &mut InferCx) -> Result<()> {
    let (from, to, shape) = (cx.dtype(0)?, named_type(cx, "to")?, cx.shape(0)?);
    if from == DType::String || from.onnx_bits() != to.onnx_bits() || to == DType::String {
        return Err(cx.fail(Code::TYPE, format!("{from} and {to} do not have the same number of bits")));
    }
    cx.set(0, to, shape);
    Ok(())
}

fn eval_bits(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let to = named_type(cx, "to")?;
    // A signed 4- or 2-bit number is kept sign-extended, an unsigned one zero-extended.
    if x.dtype.onnx_bits() < 8 {
        let mask = (1u64 << x.dtype.onnx_bits()) - 1;
        let again = |s: Scalar| match to.is_integer() {
            true => Scalar::from_integer(to, i128::from(s.bits() & mask)),
            false => Scalar::from_bits(to, s.bits() & mask),
        };
        return Ok(vec![Tensor::from_scalars(to, x.dims.clone(), x.scalars().map(again)).into()]);
    }
    Ok(vec![Tensor::from_bytes(to, x.dims.clone(), x.to_bytes()).into()])
}

fn lower_bits(cx: &mut LowerCx) -> Result<()> {
    let x = cx.arg(0)?;
    if x.dtype.onnx_bits() < 8 {
        return Err(cx.fail(Code::UNSUPPORTED, "BitCast of 4- and 2-bit types is not compiled"));
    }
    cx.alias(0, &x)
}
