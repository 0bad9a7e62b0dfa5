//! What an operator sees while its results' types are inferred.
//!
//! Sizes are expressions; two sizes that cannot be proved equal get a check at run time that names
//! the node, sizes that are provably different are an error now.

use oaaxc_base::{Code, Diagnostic};

use crate::attributes::ReadAttributes;
use crate::dtype::DType;
use crate::expr::{Atom, Expr};
use crate::graph::{Check, Graph, Node};
use crate::operands::ReadOperands;
use crate::types::{Fact, Symbols, Type};

type Result<T> = std::result::Result<T, Diagnostic>;

/// One node whose results are being inferred.
pub struct InferCx<'a> {
    /// The graph's symbols, to which fresh sizes are added.
    pub symbols: &'a mut Symbols,
    /// The rest of the graph, read-only: operands, blocks.
    pub graph: &'a Graph,
    /// The node.
    pub node: &'a Node,
    /// The results, one per output of the node, to be set.
    pub results: Vec<Option<Fact>>,
    /// Conditions for the run.
    pub checks: Vec<Check>,
}

impl ReadAttributes for InferCx<'_> {
    fn node(&self) -> &Node {
        self.node
    }
}

impl ReadOperands for InferCx<'_> {
    fn graph(&self) -> &Graph {
        self.graph
    }
}

impl InferCx<'_> {
    /// A new size, known during the run.
    pub fn fresh(&mut self, hint: &str) -> Expr {
        Expr::sym(self.symbols.fresh(hint))
    }
    /// Sets a result to a tensor. Results that nobody asked for are ignored.
    pub fn set(&mut self, index: usize, dtype: DType, shape: Vec<Expr>) {
        self.set_fact(index, Fact::of(Type::tensor(dtype, shape)));
    }
    /// Sets a result to a tensor whose elements are known.
    pub fn set_known(&mut self, index: usize, dtype: DType, shape: Vec<Expr>, known: Option<Vec<Expr>>) {
        let known = known.filter(|k| k.len() <= crate::types::MAX_KNOWN && shape.len() <= 1);
        self.set_fact(index, Fact { ty: Type::tensor(dtype, shape), known });
    }
    /// Sets a result.
    pub fn set_fact(&mut self, index: usize, fact: Fact) {
        if self.has_output(index) {
            self.results[index] = Some(fact);
        }
    }
    /// Both sizes must be equal: an error now if they cannot be, a check at run time if that is open.
    pub fn require_equal(&mut self, a: &Expr, b: &Expr, what: &str) -> Result<()> {
        let difference = a - b;
        match difference.as_const() {
            Some(0) => Ok(()),
            Some(_) => Err(self.fail(Code::SHAPE, format!("{what}: {} is not {}", self.symbols.show(a), self.symbols.show(b)))),
            None => {
                let message = format!("{what}: {} must equal {}", self.symbols.show(a), self.symbols.show(b));
                self.check(a.equal(b), message);
                Ok(())
            }
        }
    }
    /// A condition for the run; `holds` must not be 0.
    pub fn check(&mut self, holds: Expr, message: String) {
        if !self.checks.iter().any(|c| c.holds == holds) {
            self.checks.push(Check { holds, message });
        }
    }
    /// Numpy's broadcasting of several shapes. A size that may be 1 at run time is allowed and checked.
    pub fn broadcast(&mut self, shapes: &[Vec<Expr>]) -> Result<Vec<Expr>> {
        let rank = shapes.iter().map(Vec::len).max().unwrap_or(0);
        let mut out = Vec::with_capacity(rank);
        for d in 0..rank {
            let mut size = Expr::constant(1);
            for shape in shapes {
                let Some(at) = (d + shape.len()).checked_sub(rank) else { continue };
                size = self.broadcast_dim(&size, &shape[at])?;
            }
            out.push(size);
        }
        Ok(out)
    }
    fn broadcast_dim(&mut self, a: &Expr, b: &Expr) -> Result<Expr> {
        if a == b || b.is(1) {
            return Ok(a.clone());
        }
        if a.is(1) {
            return Ok(b.clone());
        }
        match (a.as_const(), b.as_const()) {
            (Some(x), Some(y)) => Err(self.fail(Code::SHAPE, format!("sizes {x} and {y} do not broadcast"))),
            // One is a number other than 1: the other is that, or 1.
            (Some(_), None) => self.may_be_one(b, a),
            (None, Some(_)) => self.may_be_one(a, b),
            // min(a, n) against a: equal, or 1; in either case `a` is the common size.
            (None, None) if is_minimum_of(b, a) => self.may_be_one(b, a),
            (None, None) if is_minimum_of(a, b) => self.may_be_one(a, b),
            // What has gone into a common size already is that size, or 1.
            (None, None) if is_common_of(a, b) => self.may_be_one(b, a),
            (None, None) if is_common_of(b, a) => self.may_be_one(a, b),
            (None, None) => {
                let one_of = a.equal(b) + a.equal(&1.into()) + b.equal(&1.into());
                let message =
                    format!("sizes {} and {} must be equal, or one of them 1", self.symbols.show(a), self.symbols.show(b));
                self.check(one_of, message);
                // With a 1 the other wins; otherwise both are equal.
                Ok(a.equal(&1.into()).select(b, a))
            }
        }
    }
    /// `open` is `size` or 1: the common size is `size`.
    fn may_be_one(&mut self, open: &Expr, number: &Expr) -> Result<Expr> {
        let message = format!("size {} must be {} or 1", self.symbols.show(open), self.symbols.show(number));
        self.check(open.equal(number) + open.equal(&1.into()), message);
        Ok(number.clone())
    }
}

/// Whether `x` is written as the smaller one of `size` and something else, as a slice to a fixed end is.
fn is_minimum_of(x: &Expr, size: &Expr) -> bool {
    x.is_extreme_of(size, true)
}

/// Whether `x` is written as the common size of several, `size` among them: `a = 1 ? b : a`, nested.
fn is_common_of(x: &Expr, size: &Expr) -> bool {
    let Some(Atom::Select(condition, b, a)) = x.as_atom() else { return false };
    *condition == a.equal(&1.into()) && [a, b].into_iter().any(|one| one == size || is_common_of(one, size))
}
