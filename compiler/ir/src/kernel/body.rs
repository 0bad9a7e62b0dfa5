//! Scalar bodies: straight-line code of about forty operations on typed scalars.
//!
//! Values are in definition order. Types: `Const`, `Param` and `Load` say theirs, `Index` is I64,
//! comparisons give Bool, everything else has the type of its first operand; operands of one
//! operation have equal types. Arithmetic on f16 and bf16 is done in f32 and rounded after each operation.

use crate::dtype::DType;
use crate::expr::Expr;
use crate::kernel::BufferId;
use crate::scalar::Scalar;

/// A value of a body: the position of its operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct V(pub u32);

/// Straight-line code.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Body {
    /// Operations; each may use the values before it.
    pub ops: Vec<Op>,
}

/// One operation.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// A number.
    Const(Scalar),
    /// An integer expression over axes and symbols, as I64.
    Index(Expr),
    /// What the fold or the contraction gives, or the element that a prologue transforms.
    Param(u32, DType),
    /// Reads an element.
    Load {
        /// From here.
        buffer: BufferId,
        /// The buffer's element type.
        dtype: DType,
        /// One index per dim.
        index: Vec<Index>,
        /// Only where this is true, else `otherwise`; a load that does not happen touches no memory.
        when: Option<V>,
        /// What an index outside the buffer means.
        bounds: Bounds,
        /// The value where the load does not happen.
        otherwise: Scalar,
    },
    /// One operand.
    Unary(UnaryOp, V),
    /// Two operands of equal type.
    Binary(BinaryOp, V, V),
    /// The second where the first (Bool) is true, else the third.
    Select(V, V, V),
    /// Conversion: see `Scalar::cast`.
    Cast(DType, V),
}

/// One index of a load or store.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Index {
    /// Known from axes and symbols alone.
    Expr(Expr),
    /// Computed, of type I64.
    Value(V),
}

impl From<Expr> for Index {
    fn from(expr: Expr) -> Index {
        Index::Expr(expr)
    }
}
impl From<&Expr> for Index {
    fn from(expr: &Expr) -> Index {
        Index::Expr(expr.clone())
    }
}
impl From<V> for Index {
    fn from(value: V) -> Index {
        Index::Value(value)
    }
}

/// Indices of mixed kinds: `ix![i, j + 1, value]`.
#[macro_export]
macro_rules! ix {
    ($($index:expr),* $(,)?) => { vec![$($crate::kernel::Index::from($index)),*] };
}

/// What an index outside the buffer means.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Bounds {
    /// It cannot happen.
    Inside,
    /// The load gives `otherwise`: padding.
    Otherwise,
    /// The model's data is wrong: the run fails and names the node.
    Fault,
}

/// Operations of one operand. Floats: IEEE, NaN in gives NaN out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[allow(missing_docs)]
pub enum UnaryOp {
    /// Integers wrap.
    Neg,
    Abs,
    /// −1, 0 or 1; NaN stays NaN.
    Sign,
    Floor,
    Ceil,
    /// To nearest, ties to even.
    Round,
    Trunc,
    Sqrt,
    Exp,
    Log,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Tanh,
    Asinh,
    Acosh,
    Atanh,
    Erf,
    /// Bits of integers inverted; of a Bool, the other one.
    Not,
    /// Gives Bool.
    IsNan,
    /// Gives Bool: either infinity.
    IsInf,
}

/// Operations of two operands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[allow(missing_docs)]
pub enum BinaryOp {
    /// Integers wrap; so do Sub and Mul.
    Add,
    Sub,
    Mul,
    /// Integers truncate towards zero; x / 0 = 0, MIN / −1 = MIN.
    Div,
    /// The remainder of truncation: the dividend's sign (C's fmod); integer x % 0 = 0.
    Rem,
    /// The remainder of flooring: the divisor's sign (Python's %); integer x % 0 = 0.
    Mod,
    /// NaN wins.
    Min,
    /// NaN wins.
    Max,
    /// Floats: C's pow. Integers: by repeated multiplication, wrapping; negative exponents as of the exact rational, truncated.
    Pow,
    And,
    Or,
    Xor,
    /// By the second operand's value; by the width or more gives 0.
    Shl,
    /// Logical on unsigned, arithmetic on signed.
    Shr,
    /// Comparisons give Bool; a NaN is unequal, not less, not greater.
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl BinaryOp {
    /// Whether the result is Bool whatever the operands are.
    pub fn is_comparison(self) -> bool {
        use BinaryOp::*;
        match self {
            Eq | Ne | Lt | Le | Gt | Ge => true,
            Add | Sub | Mul | Div | Rem | Mod | Min | Max | Pow | And | Or | Xor | Shl | Shr => false,
        }
    }
}

impl Body {
    /// Appends an operation.
    pub fn push(&mut self, op: Op) -> V {
        self.ops.push(op);
        V(u32::try_from(self.ops.len() - 1).expect("bodies are short"))
    }
    /// A number.
    pub fn scalar(&mut self, value: Scalar) -> V {
        self.push(Op::Const(value))
    }
    /// A float constant of this type.
    pub fn float(&mut self, dtype: DType, value: f64) -> V {
        self.scalar(Scalar::from_f64(value).cast(dtype))
    }
    /// An integer constant of this type.
    pub fn int(&mut self, dtype: DType, value: i64) -> V {
        self.scalar(Scalar::from_i64(value).cast(dtype))
    }
    /// An expression as I64.
    pub fn index(&mut self, expr: impl Into<Expr>) -> V {
        self.push(Op::Index(expr.into()))
    }
    /// Fold number `number`.
    pub fn param(&mut self, number: u32, dtype: DType) -> V {
        self.push(Op::Param(number, dtype))
    }
    /// An element that is there.
    pub fn load(&mut self, buffer: &crate::lower::Buf, index: Vec<Index>) -> V {
        self.load_as(buffer, index, None, Bounds::Inside, Scalar::zero(buffer.dtype))
    }
    /// An element, or `otherwise` outside the buffer.
    pub fn load_or(&mut self, buffer: &crate::lower::Buf, index: Vec<Index>, otherwise: Scalar) -> V {
        self.load_as(buffer, index, None, Bounds::Otherwise, otherwise)
    }
    /// An element; outside the buffer the run fails.
    pub fn load_checked(&mut self, buffer: &crate::lower::Buf, index: Vec<Index>) -> V {
        self.load_as(buffer, index, None, Bounds::Fault, Scalar::zero(buffer.dtype))
    }
    /// An element where `when`, else `otherwise`.
    pub fn load_when(&mut self, buffer: &crate::lower::Buf, index: Vec<Index>, when: V, otherwise: Scalar) -> V {
        self.load_as(buffer, index, Some(when), Bounds::Inside, otherwise)
    }
    fn load_as(
        &mut self,
        buffer: &crate::lower::Buf,
        index: Vec<Index>,
        when: Option<V>,
        bounds: Bounds,
        otherwise: Scalar,
    ) -> V {
        assert_eq!(index.len(), buffer.dims.len(), "one index per dim");
        let otherwise = otherwise.cast(buffer.dtype);
        self.push(Op::Load { buffer: buffer.id, dtype: buffer.dtype, index, when, bounds, otherwise })
    }
    /// One operand.
    pub fn unary(&mut self, op: UnaryOp, x: V) -> V {
        self.push(Op::Unary(op, x))
    }
    /// Two operands.
    pub fn binary(&mut self, op: BinaryOp, x: V, y: V) -> V {
        self.push(Op::Binary(op, x, y))
    }
    /// A choice.
    pub fn select(&mut self, condition: V, yes: V, no: V) -> V {
        self.push(Op::Select(condition, yes, no))
    }
    /// A conversion; none where the type is right already.
    pub fn cast(&mut self, dtype: DType, x: V) -> V {
        if self.dtype(x) == dtype { x } else { self.push(Op::Cast(dtype, x)) }
    }
    /// The type of a value.
    pub fn dtype(&self, value: V) -> DType {
        match &self.ops[value.0 as usize] {
            Op::Const(scalar) => scalar.dtype(),
            Op::Index(_) => DType::I64,
            Op::Param(_, dtype) | Op::Load { dtype, .. } | Op::Cast(dtype, _) => *dtype,
            Op::Unary(UnaryOp::IsNan | UnaryOp::IsInf, _) => DType::Bool,
            Op::Unary(_, x) => self.dtype(*x),
            Op::Binary(op, _, _) if op.is_comparison() => DType::Bool,
            Op::Binary(_, x, _) | Op::Select(_, x, _) => self.dtype(*x),
        }
    }
    /// Appends another body with its parameters replaced by values of this one; returns where each of its values went.
    pub fn inline(&mut self, other: &Body, params: &[V]) -> Vec<V> {
        let mut map: Vec<V> = Vec::with_capacity(other.ops.len());
        for op in &other.ops {
            let at = match op {
                Op::Param(i, _) if (*i as usize) < params.len() => params[*i as usize],
                _ => {
                    let mut op = op.clone();
                    op.map_values(&mut |v| map[v.0 as usize]);
                    self.push(op)
                }
            };
            map.push(at);
        }
        map
    }
}

impl Op {
    /// Renames the values that it uses.
    pub fn map_values(&mut self, f: &mut dyn FnMut(V) -> V) {
        match self {
            Op::Const(_) | Op::Index(_) | Op::Param(..) => {}
            Op::Load { index, when, .. } => {
                for i in index {
                    if let Index::Value(v) = i {
                        *v = f(*v);
                    }
                }
                if let Some(v) = when {
                    *v = f(*v);
                }
            }
            Op::Unary(_, x) | Op::Cast(_, x) => *x = f(*x),
            Op::Binary(_, x, y) => {
                *x = f(*x);
                *y = f(*y);
            }
            Op::Select(c, x, y) => {
                *c = f(*c);
                *x = f(*x);
                *y = f(*y);
            }
        }
    }
    /// Rewrites the expressions in it.
    pub fn map_exprs(&mut self, f: &mut dyn FnMut(&Expr) -> Expr) {
        match self {
            Op::Index(e) => *e = f(e),
            Op::Load { index, .. } => {
                for i in index {
                    if let Index::Expr(e) = i {
                        *e = f(e);
                    }
                }
            }
            Op::Const(_) | Op::Param(..) | Op::Unary(..) | Op::Binary(..) | Op::Select(..) | Op::Cast(..) => {}
        }
    }
}
