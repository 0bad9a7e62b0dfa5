//! Writes a formula over floats into a kernel's body: arithmetic, choice, and constants in one element type.
//!
//! Formulas are computed in f32 (f64 for double and for integers) and rounded once at the end.

use oaaxc_ir::DType;
use oaaxc_ir::kernel::{BinaryOp, Body, UnaryOp, V};

/// The element type in which a formula on elements of `dtype` is computed.
pub fn compute_type(dtype: DType) -> DType {
    match dtype {
        DType::F32 | DType::F16 | DType::BF16 => DType::F32,
        d if d.is_narrow_float() => DType::F32,
        _ => DType::F64,
    }
}

/// A body and the element type of the formula that is written into it.
pub struct Formula<'a> {
    /// Where operations go.
    pub body: &'a mut Body,
    /// The type of every float in the formula.
    pub dtype: DType,
}

impl Formula<'_> {
    /// A constant.
    pub fn number(&mut self, value: f64) -> V {
        self.body.float(self.dtype, value)
    }
    /// One operand.
    pub fn unary(&mut self, op: UnaryOp, x: V) -> V {
        self.body.unary(op, x)
    }
    /// e to the x.
    pub fn exp(&mut self, x: V) -> V {
        self.body.unary(UnaryOp::Exp, x)
    }
    /// x + y.
    pub fn add(&mut self, x: V, y: V) -> V {
        self.body.binary(BinaryOp::Add, x, y)
    }
    /// x − y.
    pub fn sub(&mut self, x: V, y: V) -> V {
        self.body.binary(BinaryOp::Sub, x, y)
    }
    /// x · y.
    pub fn mul(&mut self, x: V, y: V) -> V {
        self.body.binary(BinaryOp::Mul, x, y)
    }
    /// x / y.
    pub fn div(&mut self, x: V, y: V) -> V {
        self.body.binary(BinaryOp::Div, x, y)
    }
    /// The smaller one; NaN wins.
    pub fn min(&mut self, x: V, y: V) -> V {
        self.body.binary(BinaryOp::Min, x, y)
    }
    /// The larger one; NaN wins.
    pub fn max(&mut self, x: V, y: V) -> V {
        self.body.binary(BinaryOp::Max, x, y)
    }
    /// x + c.
    pub fn add_number(&mut self, x: V, c: f64) -> V {
        let c = self.number(c);
        self.add(x, c)
    }
    /// c · x.
    pub fn scale(&mut self, x: V, c: f64) -> V {
        let c = self.number(c);
        self.mul(x, c)
    }
    /// Whether x < c.
    pub fn is_less(&mut self, x: V, c: f64) -> V {
        let c = self.number(c);
        self.body.binary(BinaryOp::Lt, x, c)
    }
    /// Whether x > c.
    pub fn is_greater(&mut self, x: V, c: f64) -> V {
        let c = self.number(c);
        self.body.binary(BinaryOp::Gt, x, c)
    }
    /// A choice.
    pub fn select(&mut self, condition: V, yes: V, no: V) -> V {
        self.body.select(condition, yes, no)
    }
    /// x brought between two numbers.
    pub fn clamp(&mut self, x: V, low: f64, high: f64) -> V {
        let (low, high) = (self.number(low), self.number(high));
        let x = self.max(x, low);
        self.min(x, high)
    }
}
