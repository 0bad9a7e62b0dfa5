//! What each scalar operation means, one element at a time: the law that every target must follow.

use crate::dtype::DType;
use crate::kernel::{BinaryOp, FoldKind, UnaryOp};
use crate::scalar::Scalar;

/// One operand.
pub fn unary(op: UnaryOp, x: Scalar) -> Scalar {
    let dtype = x.dtype();
    match op {
        UnaryOp::IsNan => return Scalar::from_bool(dtype.is_float() && x.as_f64().is_nan()),
        UnaryOp::IsInf => return Scalar::from_bool(dtype.is_float() && x.as_f64().is_infinite()),
        _ => {}
    }
    if dtype.is_float() { float_unary(op, dtype, x) } else { integer_unary(op, x) }
}

fn float_unary(op: UnaryOp, dtype: DType, x: Scalar) -> Scalar {
    let v = x.as_f64();
    let result = match op {
        UnaryOp::Neg => -v,
        UnaryOp::Abs => v.abs(),
        UnaryOp::Sign if v == 0.0 || v.is_nan() => v,
        UnaryOp::Sign => v.signum(),
        UnaryOp::Floor => v.floor(),
        UnaryOp::Ceil => v.ceil(),
        UnaryOp::Round => v.round_ties_even(),
        UnaryOp::Trunc => v.trunc(),
        UnaryOp::Sqrt => v.sqrt(),
        UnaryOp::Exp => v.exp(),
        UnaryOp::Log => v.ln(),
        UnaryOp::Sin => v.sin(),
        UnaryOp::Cos => v.cos(),
        UnaryOp::Tan => v.tan(),
        UnaryOp::Asin => v.asin(),
        UnaryOp::Acos => v.acos(),
        UnaryOp::Atan => v.atan(),
        UnaryOp::Sinh => v.sinh(),
        UnaryOp::Cosh => v.cosh(),
        UnaryOp::Tanh => v.tanh(),
        UnaryOp::Asinh => v.asinh(),
        UnaryOp::Acosh => v.acosh(),
        UnaryOp::Atanh => v.atanh(),
        UnaryOp::Erf => erf(v),
        UnaryOp::Not => f64::from(u8::from(v == 0.0)),
        UnaryOp::IsNan | UnaryOp::IsInf => unreachable!("answered by the caller"),
    };
    Scalar::from_f64(result).cast(dtype)
}

fn integer_unary(op: UnaryOp, x: Scalar) -> Scalar {
    let (dtype, v) = (x.dtype(), x.as_integer());
    let result = match op {
        UnaryOp::Neg => -v,
        UnaryOp::Abs => v.abs(),
        UnaryOp::Sign => v.signum(),
        UnaryOp::Not if dtype == DType::Bool => 1 - v,
        UnaryOp::Not => !v,
        UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Round | UnaryOp::Trunc => v,
        _ => return Scalar::from_f64(float_unary(op, DType::F64, Scalar::from_f64(v as f64)).as_f64()).cast(dtype),
    };
    Scalar::from_integer(dtype, result)
}

/// The error function in double precision, to about 1e-15 relative.
///
/// Maclaurin series below 3, continued fraction of erfc (Lentz) above; Abramowitz & Stegun 7.1.5 and 7.1.14.
pub fn erf(x: f64) -> f64 {
    let a = x.abs();
    if x.is_nan() {
        return x;
    }
    if a > 6.0 {
        return 1f64.copysign(x);
    }
    if a < 3.0 {
        let (mut term, mut sum, mut n) = (a, a, 0.0);
        while term.abs() > 1e-17 * sum.abs() {
            n += 1.0;
            term *= -a * a / n;
            sum += term / (2.0 * n + 1.0);
        }
        return (sum * 2.0 / std::f64::consts::PI.sqrt()).copysign(x);
    }
    // erfc(a) = exp(-a²)/√π · 1/(a + (1/2)/(a + 1/(a + (3/2)/(a + …)))), evaluated from the tail.
    let mut fraction = a;
    for k in (1..=60).rev() {
        fraction = a + f64::from(k) / 2.0 / fraction;
    }
    (1.0 - (-a * a).exp() / (std::f64::consts::PI.sqrt() * fraction)).copysign(x)
}

/// Two operands of equal type.
pub fn binary(op: BinaryOp, x: Scalar, y: Scalar) -> Scalar {
    let dtype = x.dtype();
    debug_assert_eq!(dtype, y.dtype(), "operands of one operation have equal types");
    if dtype.is_complex() {
        return complex_binary(op, dtype, x, y);
    }
    if dtype.is_float() {
        float_binary(op, dtype, x.as_f64(), y.as_f64())
    } else {
        integer_binary(op, dtype, x.as_integer(), y.as_integer())
    }
}

fn float_binary(op: BinaryOp, dtype: DType, x: f64, y: f64) -> Scalar {
    let result = match op {
        BinaryOp::Add => x + y,
        BinaryOp::Sub => x - y,
        BinaryOp::Mul => x * y,
        BinaryOp::Div => x / y,
        BinaryOp::Rem => x % y,
        BinaryOp::Mod => {
            let r = x % y;
            if r != 0.0 && (r < 0.0) != (y < 0.0) { r + y } else { r }
        }
        BinaryOp::Min if x.is_nan() || y.is_nan() => f64::NAN,
        BinaryOp::Max if x.is_nan() || y.is_nan() => f64::NAN,
        BinaryOp::Min => x.min(y),
        BinaryOp::Max => x.max(y),
        BinaryOp::Pow => x.powf(y),
        BinaryOp::Eq => return Scalar::from_bool(x == y),
        BinaryOp::Ne => return Scalar::from_bool(x != y),
        BinaryOp::Lt => return Scalar::from_bool(x < y),
        BinaryOp::Le => return Scalar::from_bool(x <= y),
        BinaryOp::Gt => return Scalar::from_bool(x > y),
        BinaryOp::Ge => return Scalar::from_bool(x >= y),
        BinaryOp::And | BinaryOp::Or | BinaryOp::Xor | BinaryOp::Shl | BinaryOp::Shr => f64::NAN, // no bits on floats; `verify` refuses it
    };
    Scalar::from_f64(result).cast(dtype)
}

fn integer_binary(op: BinaryOp, dtype: DType, x: i128, y: i128) -> Scalar {
    let width = dtype.size() as i128 * 8;
    let result = match op {
        BinaryOp::Add => x + y,
        BinaryOp::Sub => x - y,
        BinaryOp::Mul => x.wrapping_mul(y),
        BinaryOp::Div | BinaryOp::Rem | BinaryOp::Mod if y == 0 => 0,
        BinaryOp::Div => x / y,
        BinaryOp::Rem => x % y,
        BinaryOp::Mod => {
            let r = x % y;
            if r != 0 && (r < 0) != (y < 0) { r + y } else { r }
        }
        BinaryOp::Min => x.min(y),
        BinaryOp::Max => x.max(y),
        BinaryOp::Pow => integer_power(dtype, x, y),
        BinaryOp::And => x & y,
        BinaryOp::Or => x | y,
        BinaryOp::Xor => x ^ y,
        BinaryOp::Shl if y < 0 || y >= width => 0,
        BinaryOp::Shl => x << y,
        BinaryOp::Shr if y < 0 || y >= width => {
            if x < 0 {
                -1
            } else {
                0
            }
        }
        BinaryOp::Shr => x >> y,
        BinaryOp::Eq => return Scalar::from_bool(x == y),
        BinaryOp::Ne => return Scalar::from_bool(x != y),
        BinaryOp::Lt => return Scalar::from_bool(x < y),
        BinaryOp::Le => return Scalar::from_bool(x <= y),
        BinaryOp::Gt => return Scalar::from_bool(x > y),
        BinaryOp::Ge => return Scalar::from_bool(x >= y),
    };
    Scalar::from_integer(dtype, result)
}

fn integer_power(dtype: DType, base: i128, exponent: i128) -> i128 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 => {
                if exponent % 2 == 0 {
                    1
                } else {
                    -1
                }
            }
            _ => 0,
        };
    }
    let wrap = |v: i128| Scalar::from_integer(dtype, v).as_integer();
    let (mut result, mut square, mut left) = (1i128, base, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result = wrap(result.wrapping_mul(square));
        }
        square = wrap(square.wrapping_mul(square));
        left >>= 1;
    }
    result
}

fn complex_binary(op: BinaryOp, dtype: DType, x: Scalar, y: Scalar) -> Scalar {
    let ((a, b), (c, d)) = (x.as_complex(), y.as_complex());
    let (re, im) = match op {
        BinaryOp::Add => (a + c, b + d),
        BinaryOp::Sub => (a - c, b - d),
        BinaryOp::Mul => (a * c - b * d, a * d + b * c),
        BinaryOp::Div => {
            let n = c * c + d * d;
            ((a * c + b * d) / n, (b * c - a * d) / n)
        }
        BinaryOp::Eq => return Scalar::from_bool((a, b) == (c, d)),
        BinaryOp::Ne => return Scalar::from_bool((a, b) != (c, d)),
        _ => (f64::NAN, f64::NAN),
    };
    Scalar::from_complex(re, im).cast(dtype)
}

/// The value of an empty fold.
pub fn neutral(kind: FoldKind, dtype: DType) -> Scalar {
    match kind {
        FoldKind::Sum => Scalar::zero(dtype),
        FoldKind::Product => Scalar::one(dtype),
        FoldKind::Min => Scalar::highest(dtype),
        FoldKind::Max => Scalar::lowest(dtype),
        FoldKind::And => Scalar::from_bool(true),
        FoldKind::Or => Scalar::from_bool(false),
        FoldKind::ArgMin { .. } | FoldKind::ArgMax { .. } => Scalar::from_i64(0),
    }
}

/// Joins a value to an accumulator. Not for the arg folds, which compare keys.
pub fn join(kind: FoldKind, acc: Scalar, value: Scalar) -> Scalar {
    match kind {
        FoldKind::Sum => binary(BinaryOp::Add, acc, value),
        FoldKind::Product => binary(BinaryOp::Mul, acc, value),
        FoldKind::Min => binary(BinaryOp::Min, acc, value),
        FoldKind::Max => binary(BinaryOp::Max, acc, value),
        FoldKind::And => Scalar::from_bool(acc.as_bool() && value.as_bool()),
        FoldKind::Or => Scalar::from_bool(acc.as_bool() || value.as_bool()),
        FoldKind::ArgMin { .. } | FoldKind::ArgMax { .. } => unreachable!("arg folds compare keys"),
    }
}

/// The total order of sorting: NaN is the largest.
pub fn compare(x: Scalar, y: Scalar) -> std::cmp::Ordering {
    if x.dtype().is_float() {
        let (a, b) = (x.as_f64(), y.as_f64());
        a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
    } else {
        x.as_integer().cmp(&y.as_integer())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integer_division_has_no_traps() {
        let i = |v: i64| Scalar::from_i64(v).cast(DType::I32);
        assert_eq!(binary(BinaryOp::Div, i(7), i(0)).as_i64(), 0);
        assert_eq!(binary(BinaryOp::Div, i(i64::from(i32::MIN)), i(-1)).as_i64(), i64::from(i32::MIN));
        assert_eq!(binary(BinaryOp::Mod, i(-7), i(3)).as_i64(), 2);
        assert_eq!(binary(BinaryOp::Rem, i(-7), i(3)).as_i64(), -1);
        assert_eq!(binary(BinaryOp::Pow, i(3), i(4)).as_i64(), 81);
    }

    #[test]
    fn nan_wins_minimum_and_maximum() {
        let f = |v: f64| Scalar::from_f64(v).cast(DType::F32);
        assert!(binary(BinaryOp::Max, f(f64::NAN), f(1.0)).as_f64().is_nan());
        assert!(binary(BinaryOp::Min, f(1.0), f(f64::NAN)).as_f64().is_nan());
    }

    #[test]
    fn erf_agrees_with_tables() {
        for (x, y) in [(0.5, 0.520_499_877_813_046_5), (2.0, 0.995_322_265_018_952_7), (3.5, 0.999_999_256_901_627_7)] {
            assert!((erf(x) - y).abs() < 1e-15, "erf({x}) = {}", erf(x));
            assert_eq!(erf(-x), -erf(x));
        }
    }
}
