//! Arithmetic on sizes that symbolic inference needs: signs, truncating division, axes as flags.

use oaaxc_ir::expr::{Atom, Expr};

/// Whether the expression is provably not negative, taking every symbol as a size.
pub fn is_size(e: &Expr) -> bool {
    fn atom(a: &Atom) -> bool {
        match a {
            Atom::Sym(_) | Atom::Axis(_) | Atom::Less(..) | Atom::Equal(..) => true,
            Atom::FloorDiv(x, y) | Atom::CeilDiv(x, y) => is_size(x) && is_size(y),
            Atom::Mod(_, y) => is_size(y),
            Atom::Min(x, y) => is_size(x) && is_size(y),
            Atom::Max(x, y) => is_size(x) || is_size(y),
            Atom::Select(_, x, y) => is_size(x) && is_size(y),
        }
    }
    e.offset() >= 0 && e.terms().iter().all(|t| t.coefficient > 0 && t.atoms.iter().all(atom))
}

/// Division that truncates towards zero, as integers do in ONNX.
pub fn truncating_div(a: &Expr, b: &Expr) -> Option<Expr> {
    if let (Some(x), Some(y)) = (a.as_const(), b.as_const()) {
        return x.checked_div(y).map(Expr::constant);
    }
    if b.is(0) {
        return None;
    }
    if is_size(a) && is_size(b) {
        return Some(a.floor_div(b));
    }
    let magnitude = |e: &Expr| e.maximum(&(Expr::constant(0) - e));
    let quotient = magnitude(a).floor_div(&magnitude(b));
    let negative = a.less(&0.into()) + b.less(&0.into());
    Some(negative.equal(&1.into()).select(&(Expr::constant(0) - &quotient), &quotient))
}

/// One flag per dim: 1 where a list of axes (negative ones count from the end) names it, else 0.
pub fn axis_flags(axes: &[Expr], rank: usize) -> Vec<Expr> {
    let rank_expr = Expr::from(rank.max(1));
    let named = |d: usize| {
        let hits = axes.iter().map(|a| a.modulo(&rank_expr).equal(&d.into()));
        hits.fold(Expr::constant(0), |a, b| a.maximum(&b))
    };
    (0..rank).map(named).collect()
}

/// The sizes of the dims whose flag is 0, in order, for flags that only the run knows; there are `rank` of them.
pub fn without_flagged(shape: &[Expr], flags: &[Expr], rank: usize) -> Vec<Expr> {
    let size = |j: usize| {
        // Dim j of the result is the one before which j dims are kept, and which is kept itself.
        let (mut value, mut before) = (Expr::constant(0), Expr::constant(0));
        for (d, f) in shape.iter().zip(flags) {
            let kept = Expr::constant(1) - f;
            value = value + &kept * before.equal(&j.into()) * d;
            before = before + kept;
        }
        value
    };
    (0..rank).map(size).collect()
}

/// The inverse: sizes of 1 where the flag is 1, else the next one of `shape`.
pub fn with_ones(shape: &[Expr], flags: &[Expr]) -> Vec<Expr> {
    let mut before = Expr::constant(0);
    let mut out = Vec::new();
    for f in flags {
        let taken = shape.iter().enumerate().fold(Expr::constant(0), |sum, (i, d)| sum + before.equal(&i.into()) * d);
        out.push(f.select(&1.into(), &taken));
        before = before + (Expr::constant(1) - f);
    }
    out
}

/// `x` brought between two expressions.
pub fn clamp(x: &Expr, low: &Expr, high: &Expr) -> Expr {
    x.maximum(low).minimum(high)
}

/// An i64 as a dim of an evaluated tensor; negative ones are 0.
pub fn dim(value: i64) -> usize {
    usize::try_from(value).unwrap_or(0)
}
