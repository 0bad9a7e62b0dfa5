//! erf and erfc: an odd polynomial up to 1; above, erfc x = e^−x²·R(x)/(1 + 2x), where R is a polynomial in
//! (x − 3)/(x + 3) (Shepherd and Laframboise, Mathematics of Computation 36, 1981, with our coefficients).
//! erf in single precision takes 1 − 2^−p(x) there, one polynomial and one power.

use super::{
    Function,
    builder::{Cx, V},
    coefficients::{ERF, ERFC_LOG, ERFCX},
    exponential::{exp_pair, exp2},
};

pub(super) fn erf_single(c: &mut Cx, x: V) -> V {
    let a = c.abs(x);
    let small = near_zero(c, x, ERF.single);
    let limited = c.clamp(a, 0.0, 4.0);
    let h = c.polynomial(limited, ERFC_LOG.single);
    let h = c.neg(h);
    let rest = exp2(c, h);
    let one = c.c(1.0);
    let large = c.sub(one, rest);
    let large = c.copysign(large, x);
    let is_small = c.test("olt", a, 0.9375);
    c.select(is_small, small, large)
}

/// erf x = x + x·p(x²) for |x| ≤ 1.
fn near_zero(c: &mut Cx, x: V, p: &[f64]) -> V {
    let z = c.mul(x, x);
    let p = c.polynomial(z, p);
    c.fma(x, p, x)
}

/// erf or erfc in double precision; `short` asks for single accuracy.
pub(super) fn erf_or_erfc(c: &mut Cx, f: Function, x: V, short: bool) -> V {
    let a = c.abs(x);
    let small = near_zero(c, x, if short { ERF.single } else { ERF.double });
    let limited = c.clamp(a, 0.5, 28.0);
    let below = c.plus(limited, -3.0);
    let above = c.plus(limited, 3.0);
    let t = c.div(below, above);
    let r = c.polynomial(t, if short { ERFCX.single } else { ERFCX.double });
    let twice = c.add(limited, limited);
    let d = c.plus(twice, 1.0);
    let q = c.div(r, d);
    let (square, square_low) = c.two_product(limited, limited);
    let minus = c.neg(square);
    let minus_low = c.neg(square_low);
    let e = exp_pair(c, minus, minus_low);
    let tail = c.mul(q, e);
    let one = c.c(1.0);
    let is_small = c.test("olt", a, 1.0);
    if f == Function::Erf {
        let large = c.sub(one, tail);
        let large = c.copysign(large, x);
        return c.select(is_small, small, large);
    }
    let two = c.c(2.0);
    let mirrored = c.sub(two, tail);
    let negative = c.test("olt", x, 0.0);
    let large = c.select(negative, mirrored, tail);
    let near = c.sub(one, small);
    c.select(is_small, near, large)
}
