//! sin, cos, tan and their inverses, all evaluated in double precision.
//!
//! For single results x is reduced exactly: 1/(2π) stands in seven pieces of 29 bits whose product with a
//! float is exact in double, and whole turns drop out of each product by rounding (Payne and Hanek's idea,
//! 1983, without tables of bits). For double results π/2 stands in three doubles, with the products' errors
//! kept; right for |x| < 2⁴⁵, beyond which digits are lost.

use super::{
    Function,
    builder::{Cx, V},
    coefficients::{ASIN, ATAN, COS, HALF_PI, Polynomial, SIN, TURN_PIECES},
    exponential::odd,
};

/// x = quarters·π/2 + (r + low): quarters in −2 … 2 (modulo 4) as a float.
struct Angle {
    quarters: V,
    r: V,
    low: Option<V>,
}

fn pick(p: &'static Polynomial, short: bool) -> &'static [f64] {
    if short { p.single } else { p.double }
}

/// For an x that is a float: turns to the nearest quarter, piece by piece.
fn reduce_single(c: &mut Cx, x: V) -> Angle {
    let mut rest: Option<V> = None;
    let mut quarters: Option<V> = None;
    for (i, piece) in TURN_PIECES.into_iter().enumerate() {
        let u = c.scale(x, piece);
        let whole = c.round(u);
        let u = c.sub(u, whole);
        let s = match rest {
            Some(s) => c.add(s, u),
            None => u,
        };
        // The first two pieces add exactly; after that the quarter is taken off at once, so that what
        // cancels has cancelled before finer bits arrive.
        if i == 0 {
            rest = Some(s);
            continue;
        }
        let four = c.scale(s, 4.0);
        let q = c.round(four);
        let minus_quarter = c.c(-0.25);
        let t = c.mul(q, minus_quarter);
        rest = Some(c.add(s, t));
        quarters = Some(match quarters {
            Some(sum) => c.add(sum, q),
            None => q,
        });
    }
    let rest = rest.expect("there are pieces");
    let quarters = quarters.expect("there are pieces");
    let quarters = modulo_four(c, quarters);
    let r = c.scale(rest, std::f64::consts::TAU);
    Angle { quarters, r, low: None }
}

fn modulo_four(c: &mut Cx, n: V) -> V {
    let q = c.scale(n, 0.25);
    let q = c.round(q);
    let four = c.scale(q, 4.0);
    c.sub(n, four)
}

fn reduce_double(c: &mut Cx, x: V) -> Angle {
    let n = c.scale(x, std::f64::consts::FRAC_2_PI);
    let n = c.round(n);
    let [p0, p1, p2] = HALF_PI;
    let (p0, p1) = (c.c(p0), c.c(p1));
    let (a, a_low) = c.two_product(n, p0);
    let (b, b_low) = c.two_product(n, p1);
    let r = c.sub(x, a);
    let minus = c.neg(a_low);
    let (r, e0) = c.two_sum(r, minus);
    let minus = c.neg(b);
    let (r, e1) = c.two_sum(r, minus);
    let low = c.add(e0, e1);
    let low = c.sub(low, b_low);
    let p2 = c.c(p2);
    let low = c.fnma(n, p2, low);
    let (r, low) = c.two_sum(r, low);
    let quarters = modulo_four(c, n);
    Angle { quarters, r, low: Some(low) }
}

/// sin(r + low), cos(r + low) for |r| ≤ π/4.
fn kernels(c: &mut Cx, angle: &Angle, short: bool) -> (V, V) {
    let r = angle.r;
    let z = c.mul(r, r);
    let p = c.polynomial(z, pick(&SIN, short));
    let rz = c.mul(r, z);
    let tail = c.mul(rz, p);
    let half = c.c(0.5);
    let half_z = c.mul(z, half);
    let one = c.c(1.0);
    let tail = match angle.low {
        Some(low) => {
            // + low·cos r
            let slope = c.sub(one, half_z);
            c.fma(low, slope, tail)
        }
        None => tail,
    };
    let sin = c.add(r, tail);
    let q = c.polynomial(z, pick(&COS, short));
    let zz = c.mul(z, z);
    let tail = c.mul(zz, q);
    let tail = match angle.low {
        Some(low) => c.fnma(r, low, tail),
        None => tail,
    };
    let head = c.sub(one, half_z);
    // What 1 − z/2 lost comes back.
    let lost = c.sub(one, head);
    let lost = c.sub(lost, half_z);
    let tail = c.add(tail, lost);
    (sin, c.add(head, tail))
}

/// sin, cos or tan of x; `short` says that x is a float and the result will be one.
pub(super) fn circular(c: &mut Cx, f: Function, x: V, short: bool) -> V {
    let angle = if short { reduce_single(c, x) } else { reduce_double(c, x) };
    let (sin, cos) = kernels(c, &angle, short);
    let n = angle.quarters;
    let n_size = c.abs(n);
    let swapped = c.test("oeq", n_size, 1.0);
    let opposite = c.test("oeq", n_size, 2.0);
    let y = match f {
        Function::Cos => {
            let y = c.select(swapped, sin, cos);
            // cos is −sin after one quarter, +sin after minus one.
            let one = c.test("oeq", n, 1.0);
            let negative = c.or(opposite, one);
            return c.negate_if(negative, y);
        }
        Function::Sin => {
            let y = c.select(swapped, cos, sin);
            let minus_one = c.test("oeq", n, -1.0);
            let negative = c.or(opposite, minus_one);
            c.negate_if(negative, y)
        }
        _ => {
            let numerator = c.select(swapped, cos, sin);
            let denominator = c.select(swapped, sin, cos);
            let y = c.div(numerator, denominator);
            c.negate_if(swapped, y)
        }
    };
    // Near zero x itself, with its sign.
    let a = c.abs(x);
    let tiny = c.test("olt", a, 1e-8);
    c.select(tiny, x, y)
}

/// Up to ½ the series; above, through the half angle: acos x = 2·asin √((1 − x)/2).
pub(super) fn arc(c: &mut Cx, f: Function, x: V, short: bool) -> V {
    let a = c.abs(x);
    let p = pick(&ASIN, short);
    let one = c.c(1.0);
    let rest = c.sub(one, a);
    let z = c.scale(rest, 0.5);
    let root = c.sqrt(z);
    let large = c.test("ogt", a, 0.5);
    let t = c.select(large, root, a);
    let s = odd(c, t, p);
    let [half_pi, half_pi_low, _] = HALF_PI;
    let twice = c.add(s, s);
    if f == Function::Asin {
        let (high, low) = (c.c(half_pi), c.c(half_pi_low));
        let y = c.sub(low, twice);
        let y = c.add(high, y);
        let y = c.select(large, y, s);
        return c.copysign(y, x);
    }
    let negative = c.test("olt", x, 0.0);
    let pi = c.c(2.0 * half_pi);
    let pi_low = c.c(2.0 * half_pi_low);
    let t = c.sub(pi_low, twice);
    let mirrored = c.add(pi, t);
    let y_large = c.select(negative, mirrored, twice);
    let signed = c.negate_if(negative, s);
    let (high, low) = (c.c(half_pi), c.c(half_pi_low));
    let y_small = c.sub(low, signed);
    let y_small = c.add(high, y_small);
    c.select(large, y_large, y_small)
}

/// One division brings |x| below tan π/8: −1/x above tan 3π/8, (x − 1)/(x + 1) between.
pub(super) fn atan(c: &mut Cx, x: V, short: bool) -> V {
    let a = c.abs(x);
    let middle = c.test("ogt", a, 0.41421356237309503);
    let large = c.test("ogt", a, 2.414213562373095);
    let (one, minus_one, zero) = (c.c(1.0), c.c(-1.0), c.c(0.0));
    let less = c.add(a, minus_one);
    let more = c.add(a, one);
    let numerator = c.select(middle, less, a);
    let numerator = c.select(large, minus_one, numerator);
    let denominator = c.select(middle, more, one);
    let denominator = c.select(large, a, denominator);
    let t = c.div(numerator, denominator);
    let s = odd(c, t, pick(&ATAN, short));
    let [half_pi, half_pi_low, _] = HALF_PI;
    let offset = c.replace(middle, half_pi / 2.0, zero);
    let offset = c.replace(large, half_pi, offset);
    let low = c.replace(middle, half_pi_low / 2.0, zero);
    let low = c.replace(large, half_pi_low, low);
    let y = c.add(s, low);
    let y = c.add(offset, y);
    c.copysign(y, x)
}
