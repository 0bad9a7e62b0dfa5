//! The exact remainder of floats by long division on their bits, for machines without one of their own.

use crate::text::Writer;

/// The widths of a float.
struct Format {
    bits: i64,
    mantissa: i64,
}

/// C's fmod of two values of type `ty`, `f32` or `f64`: branches, calls nothing.
pub fn remainder(w: &mut Writer, ty: &str, x: &str, y: &str) -> String {
    let format = if ty == "f64" { Format { bits: 64, mantissa: 52 } } else { Format { bits: 32, mantissa: 23 } };
    let Format { bits, mantissa } = format;
    let int = format!("i{bits}");
    let exponent_bits = bits - 1 - mantissa;
    let infinite = ((1i64 << exponent_bits) - 1) << mantissa;
    let number = |w: &mut Writer, v: i64| w.constant(format_args!("{v} : {int}"));
    let two = |w: &mut Writer, op: &str, a: &str, b: &str| w.op(format_args!("arith.{op} {a}, {b} : {int}"));
    let test = |w: &mut Writer, op: &str, a: &str, b: &str| w.op(format_args!("arith.cmpi {op}, {a}, {b} : {int}"));
    let choose = |w: &mut Writer, c: &str, a: &str, b: &str| w.op(format_args!("arith.select {c}, {a}, {b} : {int}"));
    let (zero, one) = (number(w, 0), number(w, 1));
    let low = number(w, if bits == 64 { i64::MAX } else { i64::from(i32::MAX) });
    let top = number(w, if bits == 64 { i64::MIN } else { i64::from(i32::MIN) });
    let infinity = number(w, infinite);
    let places = number(w, mantissa);
    let implied = number(w, 1 << mantissa);
    let fraction = number(w, (1 << mantissa) - 1);
    let lead = number(w, exponent_bits);
    let xb = w.op(format_args!("arith.bitcast {x} : {ty} to {int}"));
    let yb = w.op(format_args!("arith.bitcast {y} : {ty} to {int}"));
    let sign = two(w, "andi", &xb, &top);
    let (ax, ay) = (two(w, "andi", &xb, &low), two(w, "andi", &yb, &low));
    let by_zero = test(w, "eq", &ay, &zero);
    let no_number = test(w, "uge", &ax, &infinity);
    let nan_divisor = test(w, "ugt", &ay, &infinity);
    let invalid = w.op(format_args!("arith.ori {by_zero}, {no_number} : i1"));
    let invalid = w.op(format_args!("arith.ori {invalid}, {nan_divisor} : i1"));
    let small = test(w, "ult", &ax, &ay);
    let skip = w.op(format_args!("arith.ori {invalid}, {small} : i1"));
    // A significand with its leading one at the implied place, and its exponent.
    let parts = |w: &mut Writer, a: &str| {
        let e = two(w, "shrui", a, &places);
        let tiny = test(w, "eq", &e, &zero);
        let zeros = w.op(format_args!("math.ctlz {a} : {int}"));
        let shift = two(w, "subi", &zeros, &lead);
        let shift = choose(w, &tiny, &shift, &zero);
        let shifted = two(w, "shli", a, &shift);
        let whole = two(w, "andi", a, &fraction);
        let whole = two(w, "ori", &whole, &implied);
        let m = choose(w, &tiny, &shifted, &whole);
        let low_e = two(w, "subi", &one, &shift);
        let e = choose(w, &tiny, &low_e, &e);
        (m, e)
    };
    // Zero has no leading one; what is skipped is never used.
    let safe_x = choose(w, &skip, &implied, &ax);
    let safe_y = choose(w, &skip, &implied, &ay);
    let (mx, ex) = parts(w, &safe_x);
    let (my, ey) = parts(w, &safe_y);
    let count = two(w, "subi", &ex, &ey);
    let (head, more, done) = (w.label(), w.label(), w.label());
    let (m, left) = (w.name(), w.name());
    w.line(format_args!("cf.br {head}({mx}, {count} : {int}, {int})"));
    w.block(&head, &format!("{m}: {int}, {left}: {int}"));
    let fits = test(w, "uge", &m, &my);
    let less = two(w, "subi", &m, &my);
    let rest = choose(w, &fits, &less, &m);
    let again = test(w, "sgt", &left, &zero);
    w.branch(&again, &more, &done);
    w.block(&more, "");
    let doubled = two(w, "shli", &rest, &one);
    let fewer = two(w, "subi", &left, &one);
    w.line(format_args!("cf.br {head}({doubled}, {fewer} : {int}, {int})"));
    w.block(&done, "");
    let nothing = test(w, "eq", &rest, &zero);
    let some = choose(w, &nothing, &one, &rest);
    let zeros = w.op(format_args!("math.ctlz {some} : {int}"));
    let shift = two(w, "subi", &zeros, &lead);
    let significand = two(w, "shli", &some, &shift);
    let e = two(w, "subi", &ey, &shift);
    let normal = test(w, "sgt", &e, &zero);
    let biased = choose(w, &normal, &e, &one);
    let up = two(w, "shli", &biased, &places);
    let bits_normal = two(w, "andi", &significand, &fraction);
    let bits_normal = two(w, "ori", &bits_normal, &up);
    let down = two(w, "subi", &one, &e);
    let down = choose(w, &normal, &zero, &down);
    let bits_tiny = two(w, "shrui", &significand, &down);
    let result = choose(w, &normal, &bits_normal, &bits_tiny);
    let result = choose(w, &nothing, &zero, &result);
    let result = two(w, "ori", &result, &sign);
    let nan = number(w, infinite | (1 << (mantissa - 1)));
    let result = choose(w, &small, &xb, &result);
    let result = choose(w, &invalid, &nan, &result);
    w.op(format_args!("arith.bitcast {result} : {int} to {ty}"))
}
