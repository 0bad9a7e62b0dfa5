//! Integer expressions over symbols and loop axes, kept in one canonical form.
//!
//! Sizes, extents and indices are all `Expr`. The form is a sum of products of atoms in sorted
//! order, so equal polynomials are equal values: `h*w` from a Flatten equals `w*h` from a Reshape.
//! *Affine* is a property that passes ask for, not the language.
//! All arithmetic is on mathematical integers that fit i64; overflow is an error of the evaluation.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use oaaxc_base::id;

id!(
    /// A named size: a symbolic dimension of the model, or a size known only at run time.
    SymId,
    "s"
);
id!(
    /// A loop axis of a kernel; its value runs from 0 to the axis's extent.
    AxisId,
    "i"
);

/// An integer expression in canonical form: `constant + Σ coefficient · Π atoms`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Expr {
    terms: Arc<[Term]>,
    constant: i64,
}

/// One product of a sum.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Term {
    /// Sorted, never empty.
    pub atoms: Vec<Atom>,
    /// Never zero.
    pub coefficient: i64,
}

/// What cannot be split by `+` and `*`.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Atom {
    /// A symbol.
    Sym(SymId),
    /// A loop axis.
    Axis(AxisId),
    /// Division rounding towards minus infinity.
    FloorDiv(Expr, Expr),
    /// Division rounding towards plus infinity.
    CeilDiv(Expr, Expr),
    /// The remainder of `FloorDiv`: has the divisor's sign.
    Mod(Expr, Expr),
    /// The smaller one.
    Min(Expr, Expr),
    /// The larger one.
    Max(Expr, Expr),
    /// 1 where the first is smaller, else 0.
    Less(Expr, Expr),
    /// 1 where both are equal, else 0.
    Equal(Expr, Expr),
    /// The second where the first is not 0, else the third.
    Select(Expr, Expr, Expr),
}

impl Expr {
    /// A number.
    pub fn constant(value: i64) -> Expr {
        Expr { terms: Arc::from([]), constant: value }
    }
    /// A symbol.
    pub fn sym(sym: SymId) -> Expr {
        Expr::atom(Atom::Sym(sym))
    }
    /// A loop axis.
    pub fn axis(axis: AxisId) -> Expr {
        Expr::atom(Atom::Axis(axis))
    }
    fn atom(atom: Atom) -> Expr {
        Expr { terms: Arc::from([Term { atoms: vec![atom], coefficient: 1 }]), constant: 0 }
    }
    /// The products of the sum.
    pub fn terms(&self) -> &[Term] {
        &self.terms
    }
    /// The constant part of the sum.
    pub fn offset(&self) -> i64 {
        self.constant
    }
    /// The number, if it is one.
    pub fn as_const(&self) -> Option<i64> {
        self.terms.is_empty().then_some(self.constant)
    }
    /// Whether it is this number.
    pub fn is(&self, value: i64) -> bool {
        self.as_const() == Some(value)
    }
    /// The only atom, where the expression is nothing else.
    pub fn as_atom(&self) -> Option<&Atom> {
        match &*self.terms {
            [Term { atoms, coefficient: 1 }] if self.constant == 0 && atoms.len() == 1 => Some(&atoms[0]),
            _ => None,
        }
    }
    /// The symbol, if the expression is one bare symbol.
    pub fn as_sym(&self) -> Option<SymId> {
        match self.as_atom() {
            Some(Atom::Sym(sym)) => Some(*sym),
            _ => None,
        }
    }
    /// The axis, if the expression is one bare axis.
    pub fn as_axis(&self) -> Option<AxisId> {
        match self.as_atom() {
            Some(Atom::Axis(axis)) => Some(*axis),
            _ => None,
        }
    }

    fn from_map(map: BTreeMap<Vec<Atom>, i64>, constant: i64) -> Expr {
        let terms: Vec<Term> =
            map.into_iter().filter(|(_, c)| *c != 0).map(|(atoms, coefficient)| Term { atoms, coefficient }).collect();
        Expr { terms: terms.into(), constant }
    }

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
            None => Expr::atom(Atom::Min(self.clone().min_by_order(other), self.clone().max_by_order(other))),
        }
    }
    /// The larger one.
    pub fn maximum(&self, other: &Expr) -> Expr {
        match (self.clone() - other.clone()).as_const() {
            Some(d) if d >= 0 => self.clone(),
            Some(_) => other.clone(),
            None => Expr::atom(Atom::Max(self.clone().min_by_order(other), self.clone().max_by_order(other))),
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
            Some(0) => no.clone(),
            Some(_) => yes.clone(),
            None if yes == no => yes.clone(),
            None => Expr::atom(Atom::Select(self.clone(), yes.clone(), no.clone())),
        }
    }

    /// The value for given symbols and axes; `None` on overflow, division by zero or an unknown name.
    pub fn eval(&self, sym: &dyn Fn(SymId) -> Option<i64>, axis: &dyn Fn(AxisId) -> Option<i64>) -> Option<i64> {
        let mut sum = self.constant;
        for term in self.terms.iter() {
            let mut product = term.coefficient;
            for atom in &term.atoms {
                product = product.checked_mul(atom.eval(sym, axis)?)?;
            }
            sum = sum.checked_add(product)?;
        }
        Some(sum)
    }

    /// The expression with every symbol and axis replaced.
    pub fn substitute(&self, sym: &dyn Fn(SymId) -> Expr, axis: &dyn Fn(AxisId) -> Expr) -> Expr {
        let mut sum = Expr::constant(self.constant);
        for term in self.terms.iter() {
            let mut product = Expr::constant(term.coefficient);
            for atom in &term.atoms {
                product = product * atom.substitute(sym, axis);
            }
            sum = sum + product;
        }
        sum
    }
    /// The expression with axes replaced.
    pub fn replace_axes(&self, axis: &dyn Fn(AxisId) -> Expr) -> Expr {
        self.substitute(&Expr::sym, axis)
    }

    /// Calls `f` on every atom, nested ones too.
    pub fn visit(&self, f: &mut dyn FnMut(&Atom)) {
        for atom in self.terms.iter().flat_map(|t| &t.atoms) {
            f(atom);
            for operand in atom.operands() {
                operand.visit(f);
            }
        }
    }
    /// Every symbol in it, sorted, once each.
    pub fn symbols(&self) -> Vec<SymId> {
        let mut out = Vec::new();
        self.visit(&mut |atom| {
            if let Atom::Sym(s) = atom {
                out.push(*s);
            }
        });
        out.sort();
        out.dedup();
        out
    }
    /// Whether an axis occurs anywhere in it.
    pub fn uses_axis(&self, axis: AxisId) -> bool {
        let mut used = false;
        self.visit(&mut |atom| used |= *atom == Atom::Axis(axis));
        used
    }
    /// The factor of an axis where the expression is affine in it (the factor itself is free of axes); 0 where it does not occur.
    pub fn axis_stride(&self, axis: AxisId) -> Option<Expr> {
        let mut map = BTreeMap::new();
        let mut constant = 0;
        for term in self.terms.iter() {
            let mut atoms = term.atoms.clone();
            let before = atoms.len();
            if let Some(at) = atoms.iter().position(|a| *a == Atom::Axis(axis)) {
                atoms.remove(at);
            }
            let rest = Expr::from_map(BTreeMap::from([(atoms.clone(), term.coefficient)]), 0);
            if atoms.len() == before {
                if rest.uses_axis(axis) {
                    return None;
                }
            } else if atoms.is_empty() {
                constant = term.coefficient;
            } else if rest.uses_axis(axis) {
                return None;
            } else {
                map.insert(atoms, term.coefficient);
            }
        }
        Some(Expr::from_map(map, constant))
    }
}

impl Atom {
    /// The expressions inside it.
    pub fn operands(&self) -> Vec<&Expr> {
        match self {
            Atom::Sym(_) | Atom::Axis(_) => vec![],
            Atom::FloorDiv(a, b) | Atom::CeilDiv(a, b) | Atom::Mod(a, b) | Atom::Min(a, b) => vec![a, b],
            Atom::Max(a, b) | Atom::Less(a, b) | Atom::Equal(a, b) => vec![a, b],
            Atom::Select(c, a, b) => vec![c, a, b],
        }
    }
    fn eval(&self, sym: &dyn Fn(SymId) -> Option<i64>, axis: &dyn Fn(AxisId) -> Option<i64>) -> Option<i64> {
        let value = |e: &Expr| e.eval(sym, axis);
        let floor = |a: i64, b: i64| -> Option<i64> {
            let q = a.checked_div(b)?;
            Some(if a % b != 0 && (a < 0) != (b < 0) { q - 1 } else { q })
        };
        match self {
            Atom::Sym(s) => sym(*s),
            Atom::Axis(a) => axis(*a),
            Atom::FloorDiv(a, b) => floor(value(a)?, value(b)?),
            Atom::CeilDiv(a, b) => floor(value(a)?.checked_neg()?, value(b)?)?.checked_neg(),
            Atom::Mod(a, b) => {
                let (a, b) = (value(a)?, value(b)?);
                a.checked_sub(floor(a, b)?.checked_mul(b)?)
            }
            Atom::Min(a, b) => Some(value(a)?.min(value(b)?)),
            Atom::Max(a, b) => Some(value(a)?.max(value(b)?)),
            Atom::Less(a, b) => Some(i64::from(value(a)? < value(b)?)),
            Atom::Equal(a, b) => Some(i64::from(value(a)? == value(b)?)),
            Atom::Select(c, a, b) => value(if value(c)? != 0 { a } else { b }),
        }
    }
    fn substitute(&self, sym: &dyn Fn(SymId) -> Expr, axis: &dyn Fn(AxisId) -> Expr) -> Expr {
        let s = |e: &Expr| e.substitute(sym, axis);
        match self {
            Atom::Sym(id) => sym(*id),
            Atom::Axis(id) => axis(*id),
            Atom::FloorDiv(a, b) => s(a).floor_div(&s(b)),
            Atom::CeilDiv(a, b) => s(a).ceil_div(&s(b)),
            Atom::Mod(a, b) => s(a).modulo(&s(b)),
            Atom::Min(a, b) => s(a).minimum(&s(b)),
            Atom::Max(a, b) => s(a).maximum(&s(b)),
            Atom::Less(a, b) => s(a).less(&s(b)),
            Atom::Equal(a, b) => s(a).equal(&s(b)),
            Atom::Select(c, a, b) => s(c).select(&s(a), &s(b)),
        }
    }
}

impl From<i64> for Expr {
    fn from(value: i64) -> Expr {
        Expr::constant(value)
    }
}
impl From<i32> for Expr {
    fn from(value: i32) -> Expr {
        Expr::constant(i64::from(value))
    }
}
impl From<usize> for Expr {
    fn from(value: usize) -> Expr {
        Expr::constant(i64::try_from(value).expect("sizes fit i64"))
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

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.terms.is_empty() {
            return write!(f, "{}", self.constant);
        }
        for (i, term) in self.terms.iter().enumerate() {
            let sign = if term.coefficient < 0 {
                "-"
            } else if i > 0 {
                "+"
            } else {
                ""
            };
            write!(f, "{sign}")?;
            let magnitude = term.coefficient.unsigned_abs();
            if magnitude != 1 {
                write!(f, "{magnitude}*")?;
            }
            for (j, atom) in term.atoms.iter().enumerate() {
                write!(f, "{}{atom}", if j > 0 { "*" } else { "" })?;
            }
        }
        if self.constant != 0 {
            write!(f, "{:+}", self.constant)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Atom::Sym(s) => write!(f, "{s}"),
            Atom::Axis(a) => write!(f, "{a}"),
            Atom::FloorDiv(a, b) => write!(f, "floordiv({a},{b})"),
            Atom::CeilDiv(a, b) => write!(f, "ceildiv({a},{b})"),
            Atom::Mod(a, b) => write!(f, "mod({a},{b})"),
            Atom::Min(a, b) => write!(f, "min({a},{b})"),
            Atom::Max(a, b) => write!(f, "max({a},{b})"),
            Atom::Less(a, b) => write!(f, "less({a},{b})"),
            Atom::Equal(a, b) => write!(f, "equal({a},{b})"),
            Atom::Select(c, a, b) => write!(f, "select({c},{a},{b})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(i: u32) -> Expr {
        Expr::sym(SymId(i))
    }

    #[test]
    fn equal_polynomials_are_equal_values() {
        assert_eq!(s(0) * s(1) + 3, 3 + s(1) * s(0));
        assert_eq!((s(0) + 1) * (s(0) - 1), s(0) * s(0) - 1);
        assert!((s(0) - s(0)).is(0));
    }
    impl std::ops::Add<Expr> for i64 {
        type Output = Expr;
        fn add(self, other: Expr) -> Expr {
            other + self
        }
    }

    #[test]
    fn division_cancels_what_divides() {
        assert_eq!((s(0) * s(1) * 6).floor_div(&(s(1) * 2)), s(0) * 3);
        assert_eq!((s(0) * 4 + 7).floor_div(&4.into()), s(0) + 1);
        assert!((s(0) * 4 + 7).modulo(&4.into()).is(3));
        assert!(Expr::constant(-7).floor_div(&2.into()).is(-4));
        assert!(Expr::constant(7).floor_div(&(-2).into()).is(-4));
        assert!(Expr::constant(-7).ceil_div(&2.into()).is(-3));
        assert!((s(0) * 3).floor_div(&s(0)).is(3));
    }

    #[test]
    fn values_agree_with_the_symbolic_form() {
        let e = (s(0) + 5).floor_div(&3.into()) * s(1) - s(0).modulo(&s(1)).maximum(&2.into());
        for (a, b) in [(7, 3), (-4, 5), (0, 1), (100, -7)] {
            let value = e.eval(&|x| Some(if x.0 == 0 { a } else { b }), &|_| None).expect("no overflow");
            let floor = |x: i64, y: i64| (x as f64 / y as f64).floor() as i64;
            assert_eq!(value, floor(a + 5, 3) * b - std::cmp::max(a - floor(a, b) * b, 2));
        }
    }

    #[test]
    fn strides_are_read_off_affine_forms() {
        let i = AxisId(0);
        let e = Expr::axis(i) * s(0) * 2 + Expr::axis(AxisId(1)) + 3;
        assert_eq!(e.axis_stride(i), Some(s(0) * 2));
        assert_eq!(e.axis_stride(AxisId(1)), Some(Expr::constant(1)));
        assert_eq!(e.axis_stride(AxisId(2)), Some(Expr::constant(0)));
        assert_eq!(Expr::axis(i).floor_div(&2.into()).axis_stride(i), None);
    }
}
