//! Types of values and what is known of them: element type, symbolic shape, known integer elements.

use std::collections::BTreeMap;

use crate::dtype::DType;
use crate::expr::{Expr, SymId};
use oaaxc_base::{EntityId, Table};

/// The type of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Type {
    /// A tensor.
    Tensor(TensorType),
    /// A sequence of values of one type.
    Sequence(Box<Type>),
    /// A value or nothing.
    Optional(Box<Type>),
    /// A map from keys (integer or string) to values.
    Map(DType, Box<Type>),
}

/// Element type and shape.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorType {
    /// Element type.
    pub dtype: DType,
    /// One size per dim, outermost first; `None` where not even the rank is known.
    pub shape: Option<Vec<Expr>>,
}

impl Type {
    /// A tensor of known rank.
    pub fn tensor(dtype: DType, shape: Vec<Expr>) -> Type {
        Type::Tensor(TensorType { dtype, shape: Some(shape) })
    }
    /// The tensor type, if it is one.
    pub fn as_tensor(&self) -> Option<&TensorType> {
        match self {
            Type::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }
}

/// All that is known of a value before it is computed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fact {
    /// Its type.
    pub ty: Type,
    /// The elements of an integer (or bool) tensor of rank ≤ 1 and ≤ 64 elements, where each is
    /// known as an expression: what shapes are made of.
    pub known: Option<Vec<Expr>>,
}

impl Fact {
    /// A fact of a type alone.
    pub fn of(ty: Type) -> Fact {
        Fact { ty, known: None }
    }
}

/// Most elements that `Fact::known` may have.
pub const MAX_KNOWN: usize = 64;

/// A symbol and the sizes it may take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Symbol {
    /// The model's own name, or a made-up one.
    pub name: String,
    /// Smallest allowed value.
    pub min: i64,
    /// Largest allowed value.
    pub max: i64,
    /// Whether it is a dim of an input (bound when a request comes) or computed during the run.
    pub input: bool,
}

/// The symbols of a graph.
#[derive(Clone, Debug, Default)]
pub struct Symbols {
    /// Every symbol.
    pub table: Table<SymId, Symbol>,
    by_name: BTreeMap<String, SymId>,
}

impl Symbols {
    /// The input symbol with this name; made if new. Equal names are equal sizes.
    pub fn named(&mut self, name: &str) -> SymId {
        if let Some(id) = self.by_name.get(name) {
            return *id;
        }
        let id = self.table.push(Symbol { name: name.to_string(), min: 0, max: i64::MAX, input: true });
        self.by_name.insert(name.to_string(), id);
        id
    }
    /// A new size that is known only during the run, named after what it is.
    pub fn fresh(&mut self, hint: &str) -> SymId {
        let mut name = format!("{hint}_{}", self.table.next_id().index());
        while self.by_name.contains_key(&name) {
            name.push('_');
        }
        let id = self.table.push(Symbol { name: name.clone(), min: 0, max: i64::MAX, input: false });
        self.by_name.insert(name, id);
        id
    }
    /// The symbol with this name, if there is one.
    pub fn find(&self, name: &str) -> Option<SymId> {
        self.by_name.get(name).copied()
    }
    /// An expression with the symbols' own names.
    pub fn show(&self, expr: &Expr) -> String {
        let mut text = expr.to_string();
        let mut symbols = expr.symbols();
        symbols.reverse(); // s12 before s1
        for s in symbols {
            text = text.replace(&s.to_string(), &self.table[s].name);
        }
        text
    }
    /// A type in ONNX text: `float[N,32,56,56]`.
    pub fn show_type(&self, ty: &Type) -> String {
        match ty {
            Type::Tensor(t) => match &t.shape {
                None => format!("{}", t.dtype),
                Some(dims) => format!("{}[{}]", t.dtype, dims.iter().map(|d| self.show(d)).collect::<Vec<_>>().join(",")),
            },
            Type::Sequence(inner) => format!("seq({})", self.show_type(inner)),
            Type::Optional(inner) => format!("optional({})", self.show_type(inner)),
            Type::Map(key, value) => format!("map({key},{})", self.show_type(value)),
        }
    }
}
