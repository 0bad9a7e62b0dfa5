//! log, log2, log1p, the inverse hyperbolic functions, and pow.
//!
//! x = 2ᵉ·m with m in [√½, √2); log m by a polynomial in m − 1 (single) or in s = (m − 1)/(m + 1)
//! (double). pow keeps log x as a sum of two floats, because its error is multiplied by y·log x.

use super::{
    Function,
    builder::{Cx, V},
    coefficients::{LN2, LOG, LOG_DIRECT},
    exponential,
};

/// x = 2ᵉ·(1 + f): e as a float and as an integer, f exactly.
struct Split {
    e: V,
    e_bits: V,
    f: V,
}

fn split(c: &mut Cx, x: V) -> Split {
    let (smallest, lift, lift_exponent) = match c.single() {
        true => (f32::MIN_POSITIVE as f64, 33554432.0, 25.0),
        false => (f64::MIN_POSITIVE, 18014398509481984.0, 54.0),
    };
    let subnormal = c.test("olt", x, smallest);
    let lifted = c.scale(x, lift);
    let x = c.select(subnormal, lifted, x);
    let Split { e, e_bits, f } = split_normal(c, x);
    let corrected = c.plus(e, -lift_exponent);
    let e = c.select(subnormal, corrected, e);
    Split { e, e_bits, f }
}

/// The same for an x that is not subnormal.
fn split_normal(c: &mut Cx, x: V) -> Split {
    let (place, bias, root) = match c.single() {
        true => (23, 128_i64, 0x3f35_04f3_i64),
        false => (52, 1024, 0x3fe6_a09e_667f_3bcd),
    };
    // The exponent relative to √½, plus a bias that keeps it positive under a logical shift.
    let bits = c.bits(x);
    let relative = c.iplus(bits, (bias << place).wrapping_sub(root));
    let biased = c.shr(relative, place);
    let e_bits = c.iplus(biased, -bias);
    let field = c.shl(e_bits, place);
    let m_bits = c.isub(bits, field);
    let m = c.float_of_bits(m_bits);
    let f = c.plus(m, -1.0);
    let e = integer_to_float(c, e_bits);
    Split { e, e_bits, f }
}

/// A small integer as a float, through the low bits of 1.5·2ᵖ.
fn integer_to_float(c: &mut Cx, i: V) -> V {
    let (bits, magic) = match c.single() {
        true => (0x4b40_0000, 12582912.0),
        false => (0x4338_0000_0000_0000, 6755399441055744.0),
    };
    let t = c.iplus(i, bits);
    let t = c.float_of_bits(t);
    c.plus(t, -magic)
}

/// log(2ᵉ·(1 + f)).
fn log_of(c: &mut Cx, e: V, f: V) -> V {
    let [high, low] = LN2[!c.single() as usize];
    let (high, low) = (c.c(high), c.c(low));
    let tail = c.mul(e, low);
    let minus = if c.single() {
        // f²/2 − f³·p − e·low
        let p = c.polynomial(f, LOG_DIRECT.single);
        let z = c.mul(f, f);
        let cube = c.mul(z, f);
        let rest = c.fma(cube, p, tail);
        let half = c.c(0.5);
        let half_z = c.mul(z, half);
        c.sub(half_z, rest)
    } else {
        // log(1 + f) = f − s·(f − s²·p), as 2s = f − s·f.
        let two = c.c(2.0);
        let d = c.add(f, two);
        let s = c.div(f, d);
        let z = c.mul(s, s);
        let p = c.polynomial(z, LOG.double);
        let inner = c.fnma(z, p, f);
        let product = c.mul(s, inner);
        c.sub(product, tail)
    };
    let rest = c.sub(f, minus);
    c.fma(e, high, rest)
}

/// What log is where the formula does not hold: −∞ at zero, NaN below, +∞ and NaN pass.
fn special(c: &mut Cx, x: V, y: V) -> V {
    let infinite = c.test("oeq", x, f64::INFINITY);
    let y = c.select(infinite, x, y);
    let zero = c.test("oeq", x, 0.0);
    let y = c.replace(zero, f64::NEG_INFINITY, y);
    let bad = c.test("ult", x, 0.0);
    c.replace(bad, f64::NAN, y)
}

pub(super) fn log(c: &mut Cx, x: V) -> V {
    let Split { e, f, .. } = split(c, x);
    let y = log_of(c, e, f);
    special(c, x, y)
}

/// In double precision only: e + log(m)/ln 2.
pub(super) fn log2(c: &mut Cx, x: V) -> V {
    let Split { e, f, .. } = split(c, x);
    let zero = c.c(0.0);
    let m = log_of(c, zero, f);
    let scale = c.c(std::f64::consts::LOG2_E);
    let y = c.fma(m, scale, e);
    special(c, x, y)
}

/// The rounding error of 1 + x goes back into f.
pub(super) fn log1p(c: &mut Cx, x: V) -> V {
    let one = c.c(1.0);
    let u = c.add(x, one);
    let (_, error) = c.two_sum(one, x);
    let Split { e, e_bits, f } = split_normal(c, u);
    let (bias, place) = if c.single() { (127, 23) } else { (1023, 52) };
    let bias = c.i(bias);
    let inverse = c.isub(bias, e_bits);
    let inverse = c.shl(inverse, place);
    let inverse = c.float_of_bits(inverse);
    // Far out the error is nothing and 2^−e not a number.
    let corrected = c.fma(error, inverse, f);
    let near = c.test("olt", u, 1e18);
    let f = c.select(near, corrected, f);
    let y = log_of(c, e, f);
    let y = special(c, u, y);
    let a = c.abs(x);
    let tiny = c.test("olt", a, if c.single() { 2e-8 } else { 5e-17 });
    c.select(tiny, x, y)
}

/// asinh, acosh and atanh by log1p of what their argument adds to one; in double precision only.
pub(super) fn inverse_hyperbolic(c: &mut Cx, f: Function, x: V) -> V {
    let a = c.abs(x);
    let ln2 = c.c(std::f64::consts::LN_2);
    let zero = c.c(0.0);
    match f {
        Function::Asinh => {
            // log(a + √(a² + 1)); where a² would overflow that is log a + log 2.
            let z = c.mul(a, a);
            let d = c.plus(z, 1.0);
            let d = c.sqrt(d);
            let d = c.plus(d, 1.0);
            let q = c.div(z, d);
            let t = c.add(a, q);
            let big = c.test("ogt", a, 1e150);
            let t = c.select(big, a, t);
            let extra = c.select(big, ln2, zero);
            let l = log1p(c, t);
            let l = c.add(l, extra);
            c.copysign(l, x)
        }
        Function::Acosh => {
            let t = c.plus(x, -1.0);
            let square = c.mul(t, t);
            let two = c.c(2.0);
            let z = c.fma(two, t, square);
            let root = c.sqrt(z);
            let s = c.add(t, root);
            let big = c.test("ogt", x, 1e150);
            let s = c.select(big, x, s);
            let extra = c.select(big, ln2, zero);
            let l = log1p(c, s);
            let y = c.add(l, extra);
            let below = c.test("olt", x, 1.0);
            c.replace(below, f64::NAN, y)
        }
        _ => {
            let one = c.c(1.0);
            let d = c.sub(one, a);
            let twice = c.add(a, a);
            let q = c.div(twice, d);
            let l = log1p(c, q);
            let l = c.scale(l, 0.5);
            let above = c.test("ogt", a, 1.0);
            let l = c.replace(above, f64::NAN, l);
            c.copysign(l, x)
        }
    }
}

/// log a as high + low with about 2⁻⁶⁰ relative error, for a > 0 finite; in double precision only.
fn log_pair(c: &mut Cx, a: V) -> (V, V) {
    let Split { e, f, .. } = split(c, a);
    // s = f/(2 + f) as a pair: the remainder of the division, over the divisor.
    let two = c.c(2.0);
    let (d, d_low) = c.quick_two_sum(two, f);
    let s = c.div(f, d);
    let (p, p_low) = c.two_product(s, d);
    let r = c.sub(f, p);
    let r = c.sub(r, p_low);
    let r = c.fnma(s, d_low, r);
    let s_low = c.div(r, d);
    let z = c.mul(s, s);
    let tail = c.polynomial(z, LOG.double);
    let cube = c.mul(s, z);
    let twice_low = c.add(s_low, s_low);
    let low = c.fma(cube, tail, twice_low);
    let high = c.add(s, s);
    let (high, low) = c.quick_two_sum(high, low);
    let [ln2_high, ln2_low] = LN2[1];
    let whole = c.scale(e, ln2_high);
    let (sum, error) = c.two_sum(whole, high);
    let low = c.add(low, error);
    let ln2_low = c.c(ln2_low);
    let low = c.fma(e, ln2_low, low);
    c.quick_two_sum(sum, low)
}

/// |x|^y by exp(y·log|x|), then C99's signs and special cases; in double precision only.
///
/// `exact_log` asks for the pair; a result in single precision does not need it.
pub(super) fn pow(c: &mut Cx, x: V, y: V, exact_log: bool) -> V {
    let a = c.abs(x);
    let (high, low) = match exact_log {
        true => log_pair(c, a),
        false => {
            let Split { e, f, .. } = split(c, a);
            (log_of(c, e, f), c.c(0.0))
        }
    };
    let high = special(c, a, high);
    let (p, error) = match exact_log {
        true => c.two_product(y, high),
        false => (c.mul(y, high), low),
    };
    let error = if exact_log { c.fma(y, low, error) } else { error };
    // Where the result is 0, infinite or NaN the error term is meaningless.
    let size = c.abs(p);
    let meaningful = c.test("olt", size, 800.0);
    let zero = c.c(0.0);
    let error = c.select(meaningful, error, zero);
    let r = exponential::exp_pair(c, p, error);

    let whole = c.round(y);
    let y_whole = c.cmp("oeq", whole, y);
    let half = c.scale(y, 0.5);
    let half_whole = c.round(half);
    let half_fraction = c.cmp("one", half_whole, half);
    let odd = c.and(y_whole, half_fraction);
    let signed = c.copysign(r, x);
    let r = c.select(odd, signed, r);

    let y_fraction = c.cmp("une", whole, y);
    let negative = c.test("olt", x, 0.0);
    let finite = c.test("one", a, f64::INFINITY);
    let bad = c.and(negative, finite);
    let bad = c.and(bad, y_fraction);
    let r = c.replace(bad, f64::NAN, r);

    let y_size = c.abs(y);
    let y_infinite = c.test("oeq", y_size, f64::INFINITY);
    let unit = c.test("oeq", a, 1.0);
    let unit_infinite = c.and(unit, y_infinite);
    let y_zero = c.test("oeq", y, 0.0);
    let x_one = c.test("oeq", x, 1.0);
    let one = c.or(y_zero, x_one);
    let one = c.or(one, unit_infinite);
    c.replace(one, 1.0, r)
}
