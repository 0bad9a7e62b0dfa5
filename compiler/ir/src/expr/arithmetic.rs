//! Arithmetic on expressions: every result is in the canonical form again.

use std::collections::BTreeMap;

use super::{Atom, Expr};

impl Expr {
    /// `self · factor + other · other_factor`.
    fn combine(&self, factor: i64, other: &Expr, other_factor: i64) -> Expr {
        let mut map: BTreeMap<Vec<Atom>, i64> = BTreeMap::new();
        for (expr, factor) in [(self, factor), (other, other_factor)] {
            for term in expr.terms.iter() {
                let entry = map.entry(term.atoms.clone()).or_insert(0);
                *entry = entry.saturating_add(term.coefficient.saturating_mul(factor));
            }
        }
        let constant = self.constant.saturating_mul(factor).saturating_add(other.constant.saturating_mul(other_factor));
        Expr::from_map(map, constant)
    }

    /// Division rounding towards minus infinity; exact divisions cancel.
    pub fn floor_div(&self, divisor: &Expr) -> Expr {
        match (self.as_const(), divisor.as_const()) {
            (_, Some(1)) => return self.clone(),
            (Some(a), Some(b)) if b != 0 => {
                return Expr::constant(a.wrapping_div_euclid(b) - i64::from(b < 0 && a.wrapping_rem_euclid(b) != 0));
            }
            (Some(0), _) => return Expr::constant(0),
            _ => {}
        }
        if let Some(quotient) = self.exact_quotient(divisor) {
            return quotient;
        }
        // (q·d + r) / d = q + r / d for the terms that d divides.
        if let Some(d) = divisor.as_const().filter(|d| *d > 1) {
            let mut whole = BTreeMap::new();
            let mut rest = BTreeMap::new();
            for term in self.terms.iter() {
                if term.coefficient % d == 0 {
                    whole.insert(term.atoms.clone(), term.coefficient / d);
                } else {
                    rest.insert(term.atoms.clone(), term.coefficient);
                }
            }
            let whole_constant = self.constant.div_euclid(d);
            if !whole.is_empty() || whole_constant != 0 {
                let rest = Expr::from_map(rest, self.constant.rem_euclid(d));
                let whole = Expr::from_map(whole, whole_constant);
                return whole + rest.floor_div(divisor);
            }
            // ((x / a) / b) = x / (a·b) for positive divisors.
            if let Some(Atom::FloorDiv(inner, by)) = self.as_atom()
                && let Some(a) = by.as_const().filter(|a| *a > 0)
            {
                return inner.floor_div(&Expr::constant(a.saturating_mul(d)));
            }
        }
        Expr::atom(Atom::FloorDiv(self.clone(), divisor.clone()))
    }
    /// Division rounding towards plus infinity.
    pub fn ceil_div(&self, divisor: &Expr) -> Expr {
        if let Some(quotient) = self.exact_quotient(divisor) {
            return quotient;
        }
        match (self.as_const(), divisor.as_const()) {
            (Some(a), Some(b)) if b != 0 => {
                Expr::constant(-Expr::constant(a.saturating_neg()).floor_div(&Expr::constant(b)).constant)
            }
            (_, Some(d)) if d > 0 => (self.clone() + (d - 1)).floor_div(divisor),
            _ => Expr::atom(Atom::CeilDiv(self.clone(), divisor.clone())),
        }
    }
    /// The remainder of `floor_div`.
    pub fn modulo(&self, divisor: &Expr) -> Expr {
        if divisor.is(1) || self.exact_quotient(divisor).is_some() {
            return Expr::constant(0);
        }
        match (self.as_const(), divisor.as_const()) {
            (Some(a), Some(b)) if b != 0 => Expr::constant(a) - Expr::constant(a).floor_div(divisor) * b,
            (_, Some(d)) if d > 1 => {
                let rest: BTreeMap<_, _> =
                    self.terms.iter().filter(|t| t.coefficient % d != 0).map(|t| (t.atoms.clone(), t.coefficient)).collect();
                let rest = Expr::from_map(rest, self.constant.rem_euclid(d));
                if rest.as_const().is_some() { rest } else { Expr::atom(Atom::Mod(rest, divisor.clone())) }
            }
            _ => Expr::atom(Atom::Mod(self.clone(), divisor.clone())),
        }
    }
    /// The quotient where the divisor is a single product that divides every term.
    fn exact_quotient(&self, divisor: &Expr) -> Option<Expr> {
        let (atoms, coefficient) = match (&*divisor.terms, divisor.constant) {
            ([], c) if c != 0 => (&[][..], c),
            ([term], 0) => (&term.atoms[..], term.coefficient),
            _ => return (self == divisor).then(|| Expr::constant(1)),
        };
        if self.constant % coefficient != 0 || (self.constant != 0 && !atoms.is_empty()) {
            return None;
        }
        let mut map = BTreeMap::new();
        for term in self.terms.iter() {
            let mut left = term.atoms.clone();
            for atom in atoms {
                left.remove(left.iter().position(|a| a == atom)?);
            }
            if term.coefficient % coefficient != 0 {
                return None;
            }
            if left.is_empty() {
                map.entry(Vec::new()).or_insert(term.coefficient / coefficient);
            } else {
                map.insert(left, term.coefficient / coefficient);
            }
        }
        let constant = map.remove(&Vec::new()).unwrap_or(0) + if atoms.is_empty() { self.constant / coefficient } else { 0 };
        Some(Expr::from_map(map, constant))
    }
    /// The smaller one.
    pub fn minimum(&self, other: &Expr) -> Expr {
        match (self.clone() - other.clone()).as_const() {
            Some(d) if d <= 0 => self.clone(),
            Some(_) => other.clone(),
            // min(max(a, b), a) = a, min(min(a, b), a) = min(a, b).
            None if self.is_extreme_of(other, false) || other.is_extreme_of(self, true) => other.clone(),
            None if other.is_extreme_of(self, false) || self.is_extreme_of(other, true) => self.clone(),
            None => Expr::atom(Atom::Min(self.clone().min_by_order(other), self.clone().max_by_order(other))),
        }
    }
    /// The larger one.
    pub fn maximum(&self, other: &Expr) -> Expr {
        match (self.clone() - other.clone()).as_const() {
            Some(d) if d >= 0 => self.clone(),
            Some(_) => other.clone(),
            // max(min(a, b), a) = a, max(max(a, b), a) = max(a, b).
            None if self.is_extreme_of(other, true) || other.is_extreme_of(self, false) => other.clone(),
            None if other.is_extreme_of(self, true) || self.is_extreme_of(other, false) => self.clone(),
            None => Expr::atom(Atom::Max(self.clone().min_by_order(other), self.clone().max_by_order(other))),
        }
    }
    /// Whether it is written as the minimum (or the maximum) of `size` and something else.
    pub(crate) fn is_extreme_of(&self, size: &Expr, minimum: bool) -> bool {
        match self.as_atom() {
            Some(Atom::Min(a, b)) => minimum && (a == size || b == size),
            Some(Atom::Max(a, b)) => !minimum && (a == size || b == size),
            _ => false,
        }
    }
    fn min_by_order(self, other: &Expr) -> Expr {
        std::cmp::min(&self, other).clone()
    }
    fn max_by_order(self, other: &Expr) -> Expr {
        std::cmp::max(&self, other).clone()
    }
    /// 1 where `self < other`, else 0.
    pub fn less(&self, other: &Expr) -> Expr {
        match (self.clone() - other.clone()).as_const() {
            Some(d) => Expr::constant(i64::from(d < 0)),
            None => Expr::atom(Atom::Less(self.clone(), other.clone())),
        }
    }
    /// 1 where both are equal, else 0.
    pub fn equal(&self, other: &Expr) -> Expr {
        match (self.clone() - other.clone()).as_const() {
            Some(d) => Expr::constant(i64::from(d == 0)),
            None => Expr::atom(Atom::Equal(self.clone().min_by_order(other), self.clone().max_by_order(other))),
        }
    }
    /// `yes` where `self` is not 0, else `no`.
    pub fn select(&self, yes: &Expr, no: &Expr) -> Expr {
        match self.as_const() {
            Some(0) => return no.clone(),
            Some(_) => return yes.clone(),
            None => {}
        }
        // Inside, the condition is decided.
        let yes = match yes.as_atom() {
            Some(Atom::Select(c, inner, _)) if c == self => inner,
            _ => yes,
        };
        let no = match no.as_atom() {
            Some(Atom::Select(c, _, inner)) if c == self => inner,
            _ => no,
        };
        // Where a = b, a is b: a choice between the two is always the second.
        let names_both = |a: &Expr, b: &Expr| (a == yes && b == no) || (a == no && b == yes);
        match self.as_atom() {
            _ if yes == no => no.clone(),
            Some(Atom::Equal(a, b)) if names_both(a, b) => no.clone(),
            _ => Expr::atom(Atom::Select(self.clone(), yes.clone(), no.clone())),
        }
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident |$a:ident, $b:ident| $body:expr;)*) => {$(
        impl std::ops::$trait<&Expr> for &Expr {
            type Output = Expr;
            fn $method(self, other: &Expr) -> Expr { let ($a, $b) = (self, other); $body }
        }
        impl std::ops::$trait<Expr> for Expr {
            type Output = Expr;
            fn $method(self, other: Expr) -> Expr { std::ops::$trait::$method(&self, &other) }
        }
        impl std::ops::$trait<&Expr> for Expr {
            type Output = Expr;
            fn $method(self, other: &Expr) -> Expr { std::ops::$trait::$method(&self, other) }
        }
        impl std::ops::$trait<Expr> for &Expr {
            type Output = Expr;
            fn $method(self, other: Expr) -> Expr { std::ops::$trait::$method(self, &other) }
        }
        impl std::ops::$trait<i64> for Expr {
            type Output = Expr;
            fn $method(self, other: i64) -> Expr { std::ops::$trait::$method(&self, &Expr::constant(other)) }
        }
        impl std::ops::$trait<i64> for &Expr {
            type Output = Expr;
            fn $method(self, other: i64) -> Expr { std::ops::$trait::$method(self, &Expr::constant(other)) }
        }
    )*};
}
operators! {
    Add add |a, b| a.combine(1, b, 1);
    Sub sub |a, b| a.combine(1, b, -1);
    Mul mul |a, b| {
        let mut sum = Expr::constant(0);
        for left in a.monomials() {
            for right in b.monomials() {
                let mut atoms: Vec<Atom> = left.0.iter().chain(right.0).cloned().collect();
                atoms.sort();
                let coefficient = left.1.saturating_mul(right.1);
                let product = if atoms.is_empty() { Expr::constant(coefficient) } else { Expr::from_map(BTreeMap::from([(atoms, coefficient)]), 0) };
                sum = sum.combine(1, &product, 1);
            }
        }
        sum
    };
}

impl Expr {
    fn monomials(&self) -> Vec<(&[Atom], i64)> {
        let mut all: Vec<(&[Atom], i64)> = self.terms.iter().map(|t| (&t.atoms[..], t.coefficient)).collect();
        if self.constant != 0 {
            all.push((&[], self.constant));
        }
        all
    }
    /// The product of many.
    pub fn product<'a>(factors: impl IntoIterator<Item = &'a Expr>) -> Expr {
        factors.into_iter().fold(Expr::constant(1), |a, b| a * b)
    }
}
