//! Size expressions as 64-bit arithmetic, and what is known of their ranges.
//!
//! Axes are never negative; symbols only where they are a size or an extent. What is not provable is
//! computed the careful way, so a missed proof costs time, never a wrong index.

use std::collections::{BTreeMap, BTreeSet};

use oaaxc_ir::expr::{Atom, Term};
use oaaxc_ir::kernel::{Item, Kernel, LoopAxis, Step};
use oaaxc_ir::{AxisId, Expr, SymId};

use crate::text::Writer;

/// What is known of axes and symbols.
#[derive(Clone, Debug, Default)]
pub struct Ranges {
    sizes: BTreeSet<SymId>,
    extents: BTreeMap<AxisId, Expr>,
    /// Axes that stand for computed indices: only trusted inside an access, after its checks.
    computed: BTreeSet<AxisId>,
}

impl Ranges {
    /// What a kernel's form says.
    pub fn of(kernel: &Kernel) -> Ranges {
        let mut ranges = Ranges::default();
        for dim in kernel.buffers.iter().flat_map(|b| &b.dims) {
            ranges.sizes.extend(dim.as_sym());
        }
        ranges.add_axes(&kernel.parallel);
        ranges.add_items(&kernel.body);
        ranges
    }
    fn add_items(&mut self, items: &[Item]) {
        for item in items {
            match item {
                Item::Sequential { axis, body } => {
                    self.add_axes(std::slice::from_ref(axis));
                    self.add_items(body);
                }
                Item::Step(Step::Loop(l)) => {
                    self.add_axes(&l.parallel);
                    self.add_axes(&l.reduce);
                }
                Item::Step(Step::Contract(c)) => {
                    for axes in [&c.batch, &c.m, &c.n, &c.k] {
                        self.add_axes(axes);
                    }
                }
                Item::Step(Step::Sort(s)) => {
                    self.add_axes(&s.parallel);
                    self.add_axes(std::slice::from_ref(&s.along));
                }
                Item::Step(Step::Compact(c)) => self.add_axes(&c.axes),
            }
        }
    }
    /// More axes with their extents.
    pub fn add_axes(&mut self, axes: &[LoopAxis]) {
        for a in axes {
            self.sizes.extend(a.extent.as_sym());
            self.extents.insert(a.axis, a.extent.clone());
        }
    }
    /// An axis that stands for a computed index.
    pub fn add_computed(&mut self, axis: AxisId) {
        self.computed.insert(axis);
    }

    /// Whether the expression is provably not negative; `trust` says that computed indices are not.
    pub fn is_nonnegative(&self, e: &Expr, trust: bool) -> bool {
        let mut low = e.clone();
        for _ in 0..16 {
            let Some(term) = low.terms().iter().find(|t| t.coefficient < 0).cloned() else { break };
            let Some((axis, extent)) = self.bounded_axis(&term, trust) else { return false };
            // The term is smallest where its axis is largest.
            let alone = product_of(&term);
            let at_most = extent.clone() - 1;
            low = low - alone.clone() + alone.replace_axes(&|a| if a == axis { at_most.clone() } else { Expr::axis(a) });
        }
        low.offset() >= 0 && low.terms().iter().all(|t| t.coefficient >= 0 && t.atoms.iter().all(|a| self.atom(a, trust)))
    }
    fn bounded_axis(&self, term: &Term, trust: bool) -> Option<(AxisId, &Expr)> {
        let found = term.atoms.iter().find_map(|a| match a {
            Atom::Axis(axis) => self.extents.get(axis).map(|e| (*axis, e)),
            _ => None,
        })?;
        term.atoms.iter().all(|a| self.atom(a, trust)).then_some(found)
    }
    fn atom(&self, atom: &Atom, trust: bool) -> bool {
        let ok = |e: &Expr| self.is_nonnegative(e, trust);
        match atom {
            Atom::Sym(s) => self.sizes.contains(s),
            Atom::Axis(a) => trust || !self.computed.contains(a),
            Atom::FloorDiv(a, b) | Atom::CeilDiv(a, b) => ok(a) && ok(b),
            Atom::Mod(_, b) => ok(b),
            Atom::Min(a, b) => ok(a) && ok(b),
            Atom::Max(a, b) => ok(a) || ok(b),
            Atom::Less(..) | Atom::Equal(..) => true,
            Atom::Select(_, a, b) => ok(a) && ok(b),
        }
    }
}

fn product_of(term: &Term) -> Expr {
    let atoms = term.atoms.iter().map(atom_expr).collect::<Vec<_>>();
    Expr::product(&atoms) * term.coefficient
}

/// An atom as an expression.
fn atom_expr(atom: &Atom) -> Expr {
    match atom {
        Atom::Sym(s) => Expr::sym(*s),
        Atom::Axis(a) => Expr::axis(*a),
        Atom::FloorDiv(a, b) => a.floor_div(b),
        Atom::CeilDiv(a, b) => a.ceil_div(b),
        Atom::Mod(a, b) => a.modulo(b),
        Atom::Min(a, b) => a.minimum(b),
        Atom::Max(a, b) => a.maximum(b),
        Atom::Less(a, b) => a.less(b),
        Atom::Equal(a, b) => a.equal(b),
        Atom::Select(c, a, b) => c.select(a, b),
    }
}

/// Names of the symbols and axes in scope.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// One per bound axis, with its loop depth: outer ones are smaller.
    pub axes: BTreeMap<AxisId, (String, usize)>,
    /// What is known.
    pub ranges: Ranges,
    /// Whether computed indices count as inside their dims.
    pub trust: bool,
}

impl Scope {
    /// Binds an axis, deeper than all bound so far.
    pub fn bind(&mut self, axis: AxisId, name: &str) {
        let depth = self.axes.len();
        self.axes.insert(axis, (name.to_string(), depth));
    }
    fn depth(&self, term: &Term) -> usize {
        let mut deepest = 0;
        let mut look = |atom: &Atom| {
            if let Atom::Axis(a) = atom {
                deepest = deepest.max(self.axes.get(a).map_or(0, |x| x.1 + 1));
            }
        };
        for atom in &term.atoms {
            look(atom);
            atom.operands().iter().for_each(|e| e.visit(&mut look));
        }
        deepest
    }
    /// The value of an expression as i64. Symbols are `%s0`, `%s1`, …
    pub fn emit(&self, w: &mut Writer, e: &Expr) -> String {
        // Terms of outer loops first: their partial sums are invariant in inner ones.
        let mut terms: Vec<&Term> = e.terms().iter().collect();
        terms.sort_by_key(|t| self.depth(t));
        let mut sum: Option<String> = (e.offset() != 0 || terms.is_empty()).then(|| w.int(e.offset()));
        for term in terms {
            let mut atoms: Vec<&Atom> = term.atoms.iter().collect();
            atoms.sort_by_key(|a| self.depth(&Term { atoms: vec![(*a).clone()], coefficient: 1 }));
            let mut product: Option<String> = None;
            for atom in atoms {
                let factor = self.emit_atom(w, atom);
                product = Some(match product {
                    None => factor,
                    Some(p) => w.int_op("muli", &p, &factor),
                });
            }
            let mut product = product.expect("a term has atoms");
            if term.coefficient != 1 {
                let c = w.int(term.coefficient);
                product = w.int_op("muli", &product, &c);
            }
            sum = Some(match sum {
                None => product,
                Some(s) => w.int_op("addi", &s, &product),
            });
        }
        sum.expect("a sum has a term or a constant")
    }
    fn emit_atom(&self, w: &mut Writer, atom: &Atom) -> String {
        match atom {
            Atom::Sym(s) => format!("%s{}", s.0),
            Atom::Axis(a) => self.axes.get(a).map(|x| x.0.clone()).unwrap_or_else(|| unreachable!("axis {a} is not bound")),
            Atom::FloorDiv(a, b) => self.divide(w, a, b, false),
            Atom::Mod(a, b) => self.divide(w, a, b, true),
            Atom::CeilDiv(a, b) => {
                let minus = Expr::constant(0) - a.clone();
                let q = self.divide(w, &minus, b, false);
                let zero = w.int(0);
                w.int_op("subi", &zero, &q)
            }
            Atom::Min(a, b) => self.two(w, "minsi", a, b),
            Atom::Max(a, b) => self.two(w, "maxsi", a, b),
            Atom::Less(a, b) => self.compare(w, "slt", a, b),
            Atom::Equal(a, b) => self.compare(w, "eq", a, b),
            Atom::Select(c, a, b) => {
                let (c, a, b) = (self.emit(w, c), self.emit(w, a), self.emit(w, b));
                let zero = w.int(0);
                let holds = w.op(format_args!("arith.cmpi ne, {c}, {zero} : i64"));
                w.op(format_args!("arith.select {holds}, {a}, {b} : i64"))
            }
        }
    }
    fn two(&self, w: &mut Writer, op: &str, a: &Expr, b: &Expr) -> String {
        let (a, b) = (self.emit(w, a), self.emit(w, b));
        w.int_op(op, &a, &b)
    }
    fn compare(&self, w: &mut Writer, predicate: &str, a: &Expr, b: &Expr) -> String {
        let (a, b) = (self.emit(w, a), self.emit(w, b));
        let holds = w.op(format_args!("arith.cmpi {predicate}, {a}, {b} : i64"));
        w.op(format_args!("arith.extui {holds} : i1 to i64"))
    }
    /// Floored quotient or its remainder; a divisor of 0 (an empty dim) counts as 1.
    fn divide(&self, w: &mut Writer, a: &Expr, b: &Expr, remainder: bool) -> String {
        let (x, mut y) = (self.emit(w, a), self.emit(w, b));
        let one = w.int(1);
        let positive = match b.as_const() {
            Some(d) => d > 0,
            None => self.ranges.is_nonnegative(b, self.trust),
        };
        if b.as_const().is_none_or(|d| d == 0) {
            if positive {
                y = w.int_op("maxsi", &y, &one);
            } else {
                let zero = w.int(0);
                let is_zero = w.op(format_args!("arith.cmpi eq, {y}, {zero} : i64"));
                y = w.op(format_args!("arith.select {is_zero}, {one}, {y} : i64"));
            }
        }
        if positive && self.ranges.is_nonnegative(a, self.trust) {
            return w.int_op(if remainder { "remui" } else { "divui" }, &x, &y);
        }
        let zero = w.int(0);
        let r = w.int_op("remsi", &x, &y);
        let some = w.op(format_args!("arith.cmpi ne, {r}, {zero} : i64"));
        let signs = w.int_op("xori", &r, &y);
        let differ = w.op(format_args!("arith.cmpi slt, {signs}, {zero} : i64"));
        let adjust = w.op(format_args!("arith.andi {some}, {differ} : i1"));
        if remainder {
            let sum = w.int_op("addi", &r, &y);
            return w.op(format_args!("arith.select {adjust}, {sum}, {r} : i64"));
        }
        let q = w.int_op("divsi", &x, &y);
        let less = w.int_op("subi", &q, &one);
        w.op(format_args!("arith.select {adjust}, {less}, {q} : i64"))
    }
}
