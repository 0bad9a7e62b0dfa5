//! The scalar operations on SSA values, with exactly the interpreter's meaning.
//!
//! Nothing here traps, and nothing branches except the integer power.

use oaaxc_ir::kernel::{BinaryOp, UnaryOp};
use oaaxc_ir::{DType, Scalar};

use crate::cast::{self, Value, carried, cast, computed, round, value, wide, wrap};
use crate::math::{self, FloatType, Function};
use crate::remainder::remainder;
use crate::text::Writer;

fn float_type(dtype: DType) -> FloatType {
    if dtype == DType::F64 { FloatType::f64(1) } else { FloatType::f32(1) }
}

/// One operand.
pub fn unary(w: &mut Writer, op: UnaryOp, x: &Value) -> Value {
    match (x.dtype.is_float(), x.dtype) {
        (true, _) => float_unary(w, op, x),
        (false, DType::Bool) => bool_unary(w, op, x),
        (false, _) => integer_unary(w, op, x),
    }
}

/// The function of the mathematics that an operation is, where it is one.
fn function(op: UnaryOp) -> Option<Function> {
    Some(match op {
        UnaryOp::Abs => Function::Abs,
        UnaryOp::Floor => Function::Floor,
        UnaryOp::Ceil => Function::Ceil,
        UnaryOp::Round => Function::RoundEven,
        UnaryOp::Trunc => Function::Trunc,
        UnaryOp::Sqrt => Function::Sqrt,
        UnaryOp::Exp => Function::Exp,
        UnaryOp::Log => Function::Log,
        UnaryOp::Sin => Function::Sin,
        UnaryOp::Cos => Function::Cos,
        UnaryOp::Tan => Function::Tan,
        UnaryOp::Asin => Function::Asin,
        UnaryOp::Acos => Function::Acos,
        UnaryOp::Atan => Function::Atan,
        UnaryOp::Sinh => Function::Sinh,
        UnaryOp::Cosh => Function::Cosh,
        UnaryOp::Tanh => Function::Tanh,
        UnaryOp::Asinh => Function::Asinh,
        UnaryOp::Acosh => Function::Acosh,
        UnaryOp::Atanh => Function::Atanh,
        UnaryOp::Erf => Function::Erf,
        UnaryOp::Neg | UnaryOp::Sign | UnaryOp::Not | UnaryOp::IsNan | UnaryOp::IsInf => return None,
    })
}

fn float_unary(w: &mut Writer, op: UnaryOp, x: &Value) -> Value {
    let ty = computed(x.dtype);
    let v = wide(w, x);
    if let Some(f) = function(op) {
        let result = w.math(|b| math::unary(b, f, &v, &float_type(x.dtype)));
        return round(w, x.dtype, &result);
    }
    let zero = w.constant(format_args!("0.0 : {ty}"));
    let one = w.constant(format_args!("1.0 : {ty}"));
    match op {
        UnaryOp::Neg => {
            let name = w.op(format_args!("arith.negf {v} : {ty}"));
            round(w, x.dtype, &name)
        }
        UnaryOp::Sign => {
            let minus = w.constant(format_args!("-1.0 : {ty}"));
            let above = w.op(format_args!("arith.cmpf ogt, {v}, {zero} : {ty}"));
            let below = w.op(format_args!("arith.cmpf olt, {v}, {zero} : {ty}"));
            let result = w.op(format_args!("arith.select {above}, {one}, {v} : {ty}"));
            let result = w.op(format_args!("arith.select {below}, {minus}, {result} : {ty}"));
            round(w, x.dtype, &result)
        }
        UnaryOp::Not => {
            let is_zero = w.op(format_args!("arith.cmpf oeq, {v}, {zero} : {ty}"));
            let result = w.op(format_args!("arith.select {is_zero}, {one}, {zero} : {ty}"));
            round(w, x.dtype, &result)
        }
        UnaryOp::IsNan => {
            let name = w.op(format_args!("arith.cmpf uno, {v}, {v} : {ty}"));
            value(DType::Bool, name)
        }
        _ => {
            let infinite = infinity(w, x.dtype);
            let magnitude = w.math(|b| math::unary(b, Function::Abs, &v, &float_type(x.dtype)));
            let name = w.op(format_args!("arith.cmpf oeq, {magnitude}, {infinite} : {ty}"));
            value(DType::Bool, name)
        }
    }
}

fn infinity(w: &mut Writer, dtype: DType) -> String {
    let compute = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    cast::constant(w, Scalar::from_f64(f64::INFINITY).cast(compute)).name
}

fn bool_unary(w: &mut Writer, op: UnaryOp, x: &Value) -> Value {
    match op {
        UnaryOp::Not => {
            let one = w.constant("true");
            let name = w.op(format_args!("arith.xori {}, {one} : i1", x.name));
            value(DType::Bool, name)
        }
        UnaryOp::IsNan | UnaryOp::IsInf => cast::constant(w, Scalar::from_bool(false)),
        _ if is_identity_on_bool(op) => x.clone(),
        _ => through_double(w, op, x),
    }
}

fn is_identity_on_bool(op: UnaryOp) -> bool {
    use UnaryOp::*;
    matches!(op, Neg | Abs | Sign | Floor | Ceil | Round | Trunc)
}

fn through_double(w: &mut Writer, op: UnaryOp, x: &Value) -> Value {
    let double = cast(w, DType::F64, x);
    let result = float_unary(w, op, &double);
    cast(w, x.dtype, &result)
}

fn integer_unary(w: &mut Writer, op: UnaryOp, x: &Value) -> Value {
    let (dtype, ty, v) = (x.dtype, carried(x.dtype), &x.name);
    let zero = w.constant(format_args!("0 : {ty}"));
    let name = match op {
        UnaryOp::Neg => w.op(format_args!("arith.subi {zero}, {v} : {ty}")),
        UnaryOp::Abs if dtype.is_unsigned() => v.clone(),
        UnaryOp::Abs => {
            let minus = w.op(format_args!("arith.subi {zero}, {v} : {ty}"));
            w.op(format_args!("arith.maxsi {v}, {minus} : {ty}"))
        }
        UnaryOp::Sign => {
            let one = w.constant(format_args!("1 : {ty}"));
            let smaller = if dtype.is_unsigned() { "minui" } else { "minsi" };
            let at_most = w.op(format_args!("arith.{smaller} {v}, {one} : {ty}"));
            if dtype.is_unsigned() {
                at_most
            } else {
                let minus = w.constant(format_args!("-1 : {ty}"));
                w.op(format_args!("arith.maxsi {at_most}, {minus} : {ty}"))
            }
        }
        UnaryOp::Not => {
            let ones = w.constant(format_args!("-1 : {ty}"));
            w.op(format_args!("arith.xori {v}, {ones} : {ty}"))
        }
        UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Round | UnaryOp::Trunc => return x.clone(),
        UnaryOp::IsNan | UnaryOp::IsInf => return cast::constant(w, Scalar::from_bool(false)),
        _ => return through_double(w, op, x),
    };
    wrap(w, dtype, name)
}

/// Two operands of equal type.
pub fn binary(w: &mut Writer, op: BinaryOp, x: &Value, y: &Value) -> Value {
    match (x.dtype.is_float(), x.dtype) {
        (true, _) => float_binary(w, op, x, y),
        (false, DType::Bool) => bool_binary(w, op, x, y),
        (false, _) => integer_binary(w, op, x, y),
    }
}

fn float_binary(w: &mut Writer, op: BinaryOp, x: &Value, y: &Value) -> Value {
    let (dtype, ty) = (x.dtype, computed(x.dtype));
    let (a, b) = (wide(w, x), wide(w, y));
    let compare = |w: &mut Writer, predicate: &str| {
        let name = w.op(format_args!("arith.cmpf {predicate}, {a}, {b} : {ty}"));
        value(DType::Bool, name)
    };
    let simple = match op {
        BinaryOp::Add => "addf",
        BinaryOp::Sub => "subf",
        BinaryOp::Mul => "mulf",
        BinaryOp::Div => "divf",
        BinaryOp::Rem => {
            let result = float_remainder(w, ty, &a, &b);
            return round(w, dtype, &result);
        }
        BinaryOp::Eq => return compare(w, "oeq"),
        BinaryOp::Ne => return compare(w, "une"),
        BinaryOp::Lt => return compare(w, "olt"),
        BinaryOp::Le => return compare(w, "ole"),
        BinaryOp::Gt => return compare(w, "ogt"),
        BinaryOp::Ge => return compare(w, "oge"),
        BinaryOp::Min | BinaryOp::Max => return extreme(w, op, x, y),
        BinaryOp::Pow => {
            let result = w.math(|m| math::power(m, &a, &b, &float_type(dtype)));
            return round(w, dtype, &result);
        }
        BinaryOp::Mod => {
            let zero = w.constant(format_args!("0.0 : {ty}"));
            let r = float_remainder(w, ty, &a, &b);
            let some = w.op(format_args!("arith.cmpf une, {r}, {zero} : {ty}"));
            let below = w.op(format_args!("arith.cmpf olt, {r}, {zero} : {ty}"));
            let divisor_below = w.op(format_args!("arith.cmpf olt, {b}, {zero} : {ty}"));
            let differ = w.op(format_args!("arith.xori {below}, {divisor_below} : i1"));
            let adjust = w.op(format_args!("arith.andi {some}, {differ} : i1"));
            let sum = w.op(format_args!("arith.addf {r}, {b} : {ty}"));
            let result = w.op(format_args!("arith.select {adjust}, {sum}, {r} : {ty}"));
            return round(w, dtype, &result);
        }
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor | BinaryOp::Shl | BinaryOp::Shr => {
            return cast::constant(w, Scalar::from_f64(f64::NAN).cast(dtype));
        }
    };
    let result = w.op(format_args!("arith.{simple} {a}, {b} : {ty}"));
    round(w, dtype, &result)
}

fn float_remainder(w: &mut Writer, ty: &str, a: &str, b: &str) -> String {
    if w.portable { remainder(w, ty, a, b) } else { w.op(format_args!("arith.remf {a}, {b} : {ty}")) }
}

/// The smaller or larger one; NaN wins. With a constant operand this is one instruction on x86.
fn extreme(w: &mut Writer, op: BinaryOp, x: &Value, y: &Value) -> Value {
    let ty = computed(x.dtype);
    let predicate = if op == BinaryOp::Min { "olt" } else { "ogt" };
    let number = |v: &Value| v.constant.is_some_and(|c| !c.as_f64().is_nan());
    // The second operand of the comparison is what a NaN on either side chooses.
    let (first, second) = if number(y) { (y, x) } else { (x, y) };
    let (a, b) = (wide(w, first), wide(w, second));
    let first_wins = w.op(format_args!("arith.cmpf {predicate}, {a}, {b} : {ty}"));
    let mut result = w.op(format_args!("arith.select {first_wins}, {a}, {b} : {ty}"));
    if !number(first) {
        let is_nan = w.op(format_args!("arith.cmpf uno, {a}, {a} : {ty}"));
        result = w.op(format_args!("arith.select {is_nan}, {a}, {result} : {ty}"));
    }
    round(w, x.dtype, &result)
}

fn bool_binary(w: &mut Writer, op: BinaryOp, x: &Value, y: &Value) -> Value {
    let (a, b) = (&x.name, &y.name);
    let not = |w: &mut Writer, v: &str| {
        let one = w.constant("true");
        w.op(format_args!("arith.xori {v}, {one} : i1"))
    };
    let name = match op {
        BinaryOp::Add | BinaryOp::Or | BinaryOp::Max => w.op(format_args!("arith.ori {a}, {b} : i1")),
        BinaryOp::Sub | BinaryOp::Xor | BinaryOp::Ne => w.op(format_args!("arith.xori {a}, {b} : i1")),
        BinaryOp::Mul | BinaryOp::Div | BinaryOp::And | BinaryOp::Min => w.op(format_args!("arith.andi {a}, {b} : i1")),
        BinaryOp::Rem | BinaryOp::Mod => w.constant("false"),
        BinaryOp::Pow | BinaryOp::Ge => {
            let n = not(w, b);
            w.op(format_args!("arith.ori {a}, {n} : i1"))
        }
        BinaryOp::Shl => a.clone(),
        BinaryOp::Shr | BinaryOp::Gt => {
            let n = not(w, b);
            w.op(format_args!("arith.andi {a}, {n} : i1"))
        }
        BinaryOp::Eq => {
            let differ = w.op(format_args!("arith.xori {a}, {b} : i1"));
            not(w, &differ)
        }
        BinaryOp::Lt => {
            let n = not(w, a);
            w.op(format_args!("arith.andi {n}, {b} : i1"))
        }
        BinaryOp::Le => {
            let n = not(w, a);
            w.op(format_args!("arith.ori {n}, {b} : i1"))
        }
    };
    value(DType::Bool, name)
}

fn integer_binary(w: &mut Writer, op: BinaryOp, x: &Value, y: &Value) -> Value {
    let (dtype, ty, a, b) = (x.dtype, carried(x.dtype), &x.name, &y.name);
    let kind = if dtype.is_signed() { "s" } else { "u" };
    let compare = |w: &mut Writer, predicate: &str| {
        let name = w.op(format_args!("arith.cmpi {predicate}, {a}, {b} : {ty}"));
        value(DType::Bool, name)
    };
    let name = match op {
        BinaryOp::Add => w.op(format_args!("arith.addi {a}, {b} : {ty}")),
        BinaryOp::Sub => w.op(format_args!("arith.subi {a}, {b} : {ty}")),
        BinaryOp::Mul => w.op(format_args!("arith.muli {a}, {b} : {ty}")),
        BinaryOp::Min => w.op(format_args!("arith.min{kind}i {a}, {b} : {ty}")),
        BinaryOp::Max => w.op(format_args!("arith.max{kind}i {a}, {b} : {ty}")),
        BinaryOp::And => w.op(format_args!("arith.andi {a}, {b} : {ty}")),
        BinaryOp::Or => w.op(format_args!("arith.ori {a}, {b} : {ty}")),
        BinaryOp::Xor => w.op(format_args!("arith.xori {a}, {b} : {ty}")),
        BinaryOp::Div | BinaryOp::Rem | BinaryOp::Mod => divide(w, op, x, y),
        BinaryOp::Shl | BinaryOp::Shr => shift(w, op, x, y),
        BinaryOp::Pow => power(w, x, y),
        BinaryOp::Eq => return compare(w, "eq"),
        BinaryOp::Ne => return compare(w, "ne"),
        BinaryOp::Lt => return compare(w, &format!("{kind}lt")),
        BinaryOp::Le => return compare(w, &format!("{kind}le")),
        BinaryOp::Gt => return compare(w, &format!("{kind}gt")),
        BinaryOp::Ge => return compare(w, &format!("{kind}ge")),
    };
    wrap(w, dtype, name)
}

/// Division without traps: by 0 gives 0, the lowest by −1 wraps.
fn divide(w: &mut Writer, op: BinaryOp, x: &Value, y: &Value) -> String {
    let (dtype, ty, a, b) = (x.dtype, carried(x.dtype), &x.name, &y.name);
    let signed = dtype.is_signed();
    let kind = if signed { "s" } else { "u" };
    let (zero, one) = (w.constant(format_args!("0 : {ty}")), w.constant(format_args!("1 : {ty}")));
    let is_zero = w.op(format_args!("arith.cmpi eq, {b}, {zero} : {ty}"));
    let safe_constant = y.constant.is_some_and(|c| c.as_integer() != 0 && c.as_integer() != -1);
    let mut divisor = b.clone();
    if !safe_constant {
        let mut unsafe_ = is_zero.clone();
        if signed {
            let minus = w.constant(format_args!("-1 : {ty}"));
            let low = w.constant(format_args!("{} : {ty}", -(1i128 << (dtype.size() * 8 - 1))));
            let by_minus = w.op(format_args!("arith.cmpi eq, {b}, {minus} : {ty}"));
            let lowest = w.op(format_args!("arith.cmpi eq, {a}, {low} : {ty}"));
            let overflow = w.op(format_args!("arith.andi {by_minus}, {lowest} : i1"));
            unsafe_ = w.op(format_args!("arith.ori {is_zero}, {overflow} : i1"));
        }
        divisor = w.op(format_args!("arith.select {unsafe_}, {one}, {b} : {ty}"));
    }
    if op == BinaryOp::Div {
        let quotient = w.op(format_args!("arith.div{kind}i {a}, {divisor} : {ty}"));
        return w.op(format_args!("arith.select {is_zero}, {zero}, {quotient} : {ty}"));
    }
    let r = w.op(format_args!("arith.rem{kind}i {a}, {divisor} : {ty}"));
    if op == BinaryOp::Rem || !signed {
        return r;
    }
    let some = w.op(format_args!("arith.cmpi ne, {r}, {zero} : {ty}"));
    let signs = w.op(format_args!("arith.xori {r}, {divisor} : {ty}"));
    let differ = w.op(format_args!("arith.cmpi slt, {signs}, {zero} : {ty}"));
    let adjust = w.op(format_args!("arith.andi {some}, {differ} : i1"));
    let sum = w.op(format_args!("arith.addi {r}, {divisor} : {ty}"));
    w.op(format_args!("arith.select {adjust}, {sum}, {r} : {ty}"))
}

/// Shifts by the width or more (a negative count is one) give 0, or the sign.
fn shift(w: &mut Writer, op: BinaryOp, x: &Value, y: &Value) -> String {
    let (dtype, ty, a, b) = (x.dtype, carried(x.dtype), &x.name, &y.name);
    let width = dtype.size() * 8;
    let last = w.constant(format_args!("{} : {ty}", width - 1));
    let count = w.op(format_args!("arith.minui {b}, {last} : {ty}"));
    if op == BinaryOp::Shr && dtype.is_signed() {
        return w.op(format_args!("arith.shrsi {a}, {count} : {ty}"));
    }
    let zero = w.constant(format_args!("0 : {ty}"));
    let inside = w.op(format_args!("arith.cmpi ule, {b}, {last} : {ty}"));
    let name = if op == BinaryOp::Shl { "shli" } else { "shrui" };
    let shifted = w.op(format_args!("arith.{name} {a}, {count} : {ty}"));
    w.op(format_args!("arith.select {inside}, {shifted}, {zero} : {ty}"))
}

/// By squaring, wrapping; a negative exponent gives the truncated rational: 0, or ±1 for bases ±1.
fn power(w: &mut Writer, x: &Value, y: &Value) -> String {
    let (dtype, ty) = (x.dtype, carried(x.dtype));
    let (zero, one) = (w.constant(format_args!("0 : {ty}")), w.constant(format_args!("1 : {ty}")));
    let (head, body, exit) = (w.label(), w.label(), w.label());
    let (square, left, result) = (w.name(), w.name(), w.name());
    w.line(format_args!("cf.br {head}({}, {}, {one} : {ty}, {ty}, {ty})", x.name, y.name));
    w.block(&head, &format!("{square}: {ty}, {left}: {ty}, {result}: {ty}"));
    let predicate = if dtype.is_signed() { "sgt" } else { "ugt" };
    let more = w.op(format_args!("arith.cmpi {predicate}, {left}, {zero} : {ty}"));
    w.branch(&more, &body, &exit);
    w.block(&body, "");
    let bit = w.op(format_args!("arith.andi {left}, {one} : {ty}"));
    let odd = w.op(format_args!("arith.cmpi ne, {bit}, {zero} : {ty}"));
    let product = w.op(format_args!("arith.muli {result}, {square} : {ty}"));
    let next_result = w.op(format_args!("arith.select {odd}, {product}, {result} : {ty}"));
    let next_square = w.op(format_args!("arith.muli {square}, {square} : {ty}"));
    let next_left = w.op(format_args!("arith.shrui {left}, {one} : {ty}"));
    w.line(format_args!("cf.br {head}({next_square}, {next_left}, {next_result} : {ty}, {ty}, {ty})"));
    w.block(&exit, "");
    if !dtype.is_signed() {
        return result;
    }
    let minus = w.constant(format_args!("-1 : {ty}"));
    let bit = w.op(format_args!("arith.andi {}, {one} : {ty}", y.name));
    let odd = w.op(format_args!("arith.cmpi ne, {bit}, {zero} : {ty}"));
    let sign = w.op(format_args!("arith.select {odd}, {minus}, {one} : {ty}"));
    let is_one = w.op(format_args!("arith.cmpi eq, {}, {one} : {ty}", x.name));
    let is_minus = w.op(format_args!("arith.cmpi eq, {}, {minus} : {ty}", x.name));
    let rational = w.op(format_args!("arith.select {is_minus}, {sign}, {zero} : {ty}"));
    let rational = w.op(format_args!("arith.select {is_one}, {one}, {rational} : {ty}"));
    let negative = w.op(format_args!("arith.cmpi slt, {}, {zero} : {ty}", y.name));
    w.op(format_args!("arith.select {negative}, {rational}, {result} : {ty}"))
}

/// The second where the first is true, else the third.
pub fn select(w: &mut Writer, condition: &Value, yes: &Value, no: &Value) -> Value {
    let ty = carried(yes.dtype);
    let name = w.op(format_args!("arith.select {}, {}, {} : {ty}", condition.name, yes.name, no.name));
    value(yes.dtype, name)
}
