//! exp, exp2, expm1, sinh, cosh, tanh, sigmoid, softplus: x = n·ln 2 + r, a polynomial in r, and 2ⁿ by bits.
//!
//! The reduction is Cody and Waite's (Software Manual for the Elementary Functions, 1980): ln 2 in two
//! parts, the first short enough that n times it is exact.

use super::{
    Function,
    builder::{Cx, V},
    coefficients::{EXP, LN2, SINH, TANH},
    logarithm,
};

/// x = n·ln 2 + r: n as an integer, r, and eʳ − 1 − r.
pub(super) struct Reduced {
    pub n_bits: V,
    pub r: V,
    pub tail: V,
}

/// Rounds to an integer by adding 1.5·2ᵖ, whose low bits then hold it: the float and the integer.
pub(super) fn nearest(c: &mut Cx, x: V) -> (V, V) {
    let magic = if c.single() { 12582912.0 } else { 6755399441055744.0 };
    let t = c.plus(x, magic);
    let magic_bits = if c.single() { 0x4b40_0000 } else { 0x4338_0000_0000_0000 };
    let bits = c.bits(t);
    let bits = c.iplus(bits, -magic_bits);
    let minus = c.c(magic);
    (c.sub(t, minus), bits)
}

/// Reduces x (within the range of exponents) plus a small `low` part.
pub(super) fn reduce(c: &mut Cx, x: V, low: Option<V>) -> Reduced {
    let t = c.scale(x, std::f64::consts::LOG2_E);
    let (n, n_bits) = nearest(c, t);
    let [high, rest] = LN2[!c.single() as usize];
    let (high, rest) = (c.c(high), c.c(rest));
    let r = c.fnma(n, high, x);
    let r = c.fnma(n, rest, r);
    let r = match low {
        Some(low) => c.add(r, low),
        None => r,
    };
    let tail = tail(c, r);
    Reduced { n_bits, r, tail }
}

/// eʳ − 1 − r for |r| ≤ ln 2/2.
fn tail(c: &mut Cx, r: V) -> V {
    let p = if c.single() { EXP.single } else { EXP.double };
    let p = c.polynomial(r, p);
    let z = c.mul(r, r);
    c.mul(z, p)
}

/// 2ⁿ for a biased sum that stays a normal number.
fn power_of_two(c: &mut Cx, n_bits: V) -> V {
    let (bias, place) = if c.single() { (127, 23) } else { (1023, 52) };
    let e = c.iplus(n_bits, bias);
    let e = c.shl(e, place);
    c.float_of_bits(e)
}

/// x·2ⁿ with one rounding, for n beyond the exponents of normal numbers: 2ⁿ in two factors.
pub(super) fn scale_by(c: &mut Cx, x: V, n_bits: V) -> V {
    // Half of n by a logical shift of n + 4096.
    let half = c.iplus(n_bits, 4096);
    let half = c.shr(half, 1);
    let half = c.iplus(half, -2048);
    let rest = c.isub(n_bits, half);
    let a = power_of_two(c, half);
    let b = power_of_two(c, rest);
    let x = c.mul(x, a);
    c.mul(x, b)
}

/// Exponents outside of which exp is 0 or infinity.
fn clamped(c: &mut Cx, x: V) -> V {
    let (low, high) = if c.single() { (-105.0, 90.0) } else { (-747.0, 711.0) };
    c.clamp(x, low, high)
}

fn finish(c: &mut Cx, reduced: Reduced, shift: i64) -> V {
    let p = c.add(reduced.r, reduced.tail);
    let p = c.plus(p, 1.0);
    let n = if shift == 0 { reduced.n_bits } else { c.iplus(reduced.n_bits, shift) };
    scale_by(c, p, n)
}

/// eˣ·2^shift.
fn exp_shifted(c: &mut Cx, x: V, shift: i64) -> V {
    let x = clamped(c, x);
    let reduced = reduce(c, x, None);
    finish(c, reduced, shift)
}

pub(super) fn exp(c: &mut Cx, x: V) -> V {
    exp_shifted(c, x, 0)
}

/// e^(x + low), `low` small against x.
pub(super) fn exp_pair(c: &mut Cx, x: V, low: V) -> V {
    let x = clamped(c, x);
    let reduced = reduce(c, x, Some(low));
    finish(c, reduced, 0)
}

pub(super) fn exp2(c: &mut Cx, x: V) -> V {
    let (low, high) = if c.single() { (-151.0, 129.0) } else { (-1077.0, 1025.0) };
    let x = c.clamp(x, low, high);
    let (n, n_bits) = nearest(c, x);
    let r = c.sub(x, n);
    let r = c.scale(r, std::f64::consts::LN_2);
    let tail = tail(c, r);
    finish(c, Reduced { n_bits, r, tail }, 0)
}

/// 2ⁿ·(eʳ − 1) + (2ⁿ − 1), computed at half its size so that 2ⁿ stays finite.
pub(super) fn expm1(c: &mut Cx, x: V) -> V {
    let (low, high) = if c.single() { (-18.0, 89.0) } else { (-40.0, 709.9) };
    let limited = c.clamp(x, low, high);
    let Reduced { n_bits, r, tail, .. } = reduce(c, limited, None);
    let n = c.iplus(n_bits, -1);
    let half_power = power_of_two(c, n);
    let q = c.add(r, tail);
    let offset = c.plus(half_power, -0.5);
    let y = c.fma(half_power, q, offset);
    let y = c.scale(y, 2.0);
    // Near zero x itself is the nearest float, and keeps its sign.
    let a = c.abs(x);
    let tiny = c.test("olt", a, if c.single() { 2e-8 } else { 5e-17 });
    c.select(tiny, x, y)
}

/// eˣ where it is a normal number: 2ⁿ in one factor, no limits.
fn exp_normal(c: &mut Cx, x: V) -> V {
    let Reduced { n_bits, r, tail } = reduce(c, x, None);
    let p = c.add(r, tail);
    let p = c.plus(p, 1.0);
    let power = power_of_two(c, n_bits);
    c.mul(p, power)
}

/// 1/(1 + e^−x) from e = e^−|x| and q = e/(1 + e): 1 − q above zero, e − e·q below, so that nothing
/// overflows, small values keep their digits, and the error of the sum hardly counts where e is small.
pub(super) fn sigmoid(c: &mut Cx, x: V) -> V {
    let a = c.abs(x);
    let a = c.neg(a);
    let e = exp(c, a);
    let one = c.c(1.0);
    let sum = c.add(e, one);
    let q = c.div(e, sum);
    let negative = c.test("olt", x, 0.0);
    let whole = c.select(negative, e, one);
    c.fnma(whole, q, whole)
}

/// max(x, 0) + log(1 + e^−|x|).
pub(super) fn softplus(c: &mut Cx, x: V) -> V {
    let a = c.abs(x);
    let a = c.neg(a);
    let e = exp(c, a);
    let l = logarithm::log1p(c, e);
    let negative = c.test("olt", x, 0.0);
    let positive = c.replace(negative, 0.0, x);
    c.add(positive, l)
}

/// An odd polynomial up to 0.625, then 1 − 2/(e²ˣ + 1).
pub(super) fn tanh(c: &mut Cx, x: V) -> V {
    let p = if c.single() { TANH.single } else { TANH.double };
    let small = odd(c, x, p);
    let a = c.abs(x);
    let limit = if c.single() { 10.0 } else { 20.0 };
    let limited = c.clamp(a, 0.0, limit);
    let twice = c.scale(limited, 2.0);
    let e = exp_normal(c, twice);
    let d = c.plus(e, 1.0);
    let two = c.c(2.0);
    let q = c.div(two, d);
    let one = c.c(1.0);
    let large = c.sub(one, q);
    let is_small = c.test("olt", a, 0.625);
    let y = c.select(is_small, small, large);
    c.copysign(y, x)
}

/// x + x³·p(x²).
pub(super) fn odd(c: &mut Cx, x: V, p: &[f64]) -> V {
    let z = c.mul(x, x);
    let p = c.polynomial(z, p);
    let xz = c.mul(x, z);
    c.fma(xz, p, x)
}

/// sinh and cosh from eˣ/2, which overflows where they do; sinh below 1 by its series.
pub(super) fn hyperbolic(c: &mut Cx, f: Function, x: V) -> V {
    let a = c.abs(x);
    let half = exp_shifted(c, a, -1);
    let quarter = c.c(0.25);
    let q = c.div(quarter, half);
    if f == Function::Cosh {
        return c.add(half, q);
    }
    let large = c.sub(half, q);
    let large = c.copysign(large, x);
    let p = if c.single() { SINH.single } else { SINH.double };
    let small = odd(c, x, p);
    let is_small = c.test("olt", a, 1.0);
    c.select(is_small, small, large)
}
