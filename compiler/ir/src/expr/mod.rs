//! Integer expressions over symbols and loop axes, kept in one canonical form.
//!
//! Sizes, extents and indices are all `Expr`. The form is a sum of products of atoms in sorted
//! order, so equal polynomials are equal values: `h*w` from a Flatten equals `w*h` from a Reshape.
//! *Affine* is a property that passes ask for, not the language.
//! All arithmetic is on mathematical integers that fit i64; overflow is an error of the evaluation.

mod arithmetic;
mod print;

use std::collections::BTreeMap;
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
    fn choices_and_extremes_that_say_nothing_go() {
        let (a, b) = (s(0), s(1));
        let one = Expr::constant(1);
        assert_eq!(a.equal(&one).select(&one, &a), a);
        assert_eq!(a.equal(&b).select(&a, &b), b);
        let common = a.equal(&one).select(&b, &a);
        assert_eq!(a.equal(&one).select(&common, &a), common);
        assert_eq!(a.equal(&one).select(&b, &common), common);
        assert_eq!(a.minimum(&b).minimum(&a), a.minimum(&b));
        assert_eq!(b.maximum(&a.minimum(&b)), b);
        assert_eq!(a.maximum(&b).minimum(&a), a);
        // A broadcast with a size that turns out to be the other one is that size.
        assert_eq!(common.substitute(&|_| s(2), &Expr::axis), s(2));
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
