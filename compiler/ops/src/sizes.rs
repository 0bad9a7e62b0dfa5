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

/// `lower(x)` brought between two expressions.
pub fn clamp(x: &Expr, low: &Expr, high: &Expr) -> Expr {
    x.maximum(low).minimum(high)
}

/// An i64 as a dim of an evaluated tensor; negative ones are 0.
pub fn dim(value: i64) -> usize {
    usize::try_from(value).unwrap_or(0)
}
