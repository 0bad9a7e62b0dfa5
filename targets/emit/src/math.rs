//! Vector mathematics as MLIR text: one branch-free sequence for every element type and vector width.
//!
//! [`unary`] and [`power`] append SSA lines of the dialects `arith` and `math` (only operations that LLVM
//! expands inline on every CPU level) and return the name of the result. Nothing here calls a library,
//! branches, reads a table or rounds other than to nearest even; infinities, NaN, signed zeros and
//! subnormal numbers come out as C99 Annex F says. Measured errors: `docs/math.md`.

use std::fmt::Write;

/// A float element type and a vector width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FloatType {
    /// 32 or 64.
    pub bits: u32,
    /// Lanes; 1 is the scalar type.
    pub width: u32,
}

impl FloatType {
    /// `f32` or `vector<WxF32>`.
    pub fn f32(width: u32) -> FloatType {
        FloatType { bits: 32, width }
    }

    /// `f64` or `vector<Wxf64>`.
    pub fn f64(width: u32) -> FloatType {
        FloatType { bits: 64, width }
    }

    /// The MLIR spelling: `f32`, `vector<8xf64>`.
    pub fn text(self) -> String {
        self.of(&format!("f{}", self.bits))
    }

    /// The integer type of equal shape and size.
    pub(crate) fn integer(self) -> String {
        self.of(&format!("i{}", self.bits))
    }

    /// The type of a comparison.
    pub(crate) fn truth(self) -> String {
        self.of("i1")
    }

    fn of(self, element: &str) -> String {
        match self.width {
            1 => element.to_string(),
            width => format!("vector<{width}x{element}>"),
        }
    }
}

/// Where lines go: the text of a function body and the counter that keeps SSA names apart.
///
/// New names are `%m0`, `%m1`, … from `next` on; whoever shares the body must not use the prefix `%m`.
pub struct Body<'a> {
    /// Receives one line per operation.
    pub out: &'a mut String,
    /// The next free number.
    pub next: &'a mut u32,
    /// Whether the machine has a fused multiply-add; without it a product is rounded before its sum.
    pub fma: bool,
}

/// A function of one float.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // Each is the mathematical function of its name.
pub enum Function {
    Abs,
    Sqrt,
    /// 1/√x.
    Rsqrt,
    Floor,
    Ceil,
    Trunc,
    /// To the nearest integer, ties to even.
    RoundEven,
    Exp,
    Exp2,
    Expm1,
    Log,
    Log2,
    Log1p,
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
    /// 1 − erf x, accurate where that is small.
    Erfc,
    /// 1/(1 + e⁻ˣ).
    Sigmoid,
    /// log(1 + eˣ).
    Softplus,
}

/// Appends `f(x)` for `x` of type `ty`; answers the result's name.
pub fn unary(b: &mut Body, f: Function, x: &str, ty: &FloatType) -> String {
    let name = match f {
        Function::Abs => "absf",
        Function::Sqrt => "sqrt",
        Function::Floor => "floor",
        Function::Ceil => "ceil",
        Function::Trunc => "trunc",
        Function::RoundEven => "roundeven",
        Function::Exp => "exp",
        Function::Exp2 => "exp2",
        Function::Expm1 => "expm1",
        Function::Log => "log",
        Function::Log2 => "log2",
        Function::Log1p => "log1p",
        Function::Sin => "sin",
        Function::Cos => "cos",
        Function::Tan => "tan",
        Function::Asin => "asin",
        Function::Acos => "acos",
        Function::Atan => "atan",
        Function::Sinh => "sinh",
        Function::Cosh => "cosh",
        Function::Tanh => "tanh",
        Function::Asinh => "asinh",
        Function::Acosh => "acosh",
        Function::Atanh => "atanh",
        Function::Erf => "erf",
        Function::Erfc => "erfc",
        Function::Rsqrt => "rsqrt",
        Function::Sigmoid => {
            let n = op(b, &format!("arith.negf {x}"), &ty.text());
            let e = unary(b, Function::Exp, &n, ty);
            let one = constant(b, 1.0, ty);
            let d = op(b, &format!("arith.addf {one}, {e}"), &ty.text());
            return op(b, &format!("arith.divf {one}, {d}"), &ty.text());
        }
        Function::Softplus => {
            let e = unary(b, Function::Exp, x, ty);
            return unary(b, Function::Log1p, &e, ty);
        }
    };
    op(b, &format!("math.{name} {x}"), &ty.text())
}

/// Appends `x` to the power `y`, both of type `ty`; answers the result's name.
pub fn power(b: &mut Body, x: &str, y: &str, ty: &FloatType) -> String {
    op(b, &format!("math.powf {x}, {y}"), &ty.text())
}

fn op(b: &mut Body, operation: &str, ty: &str) -> String {
    let name = format!("%m{}", b.next);
    *b.next += 1;
    writeln!(b.out, "    {name} = {operation} : {ty}").expect("strings take text");
    name
}

fn constant(b: &mut Body, value: f64, ty: &FloatType) -> String {
    let value = match ty.width {
        1 => format!("{value:e}"),
        _ => format!("dense<{value:e}>"),
    };
    op(b, &format!("arith.constant {value}"), &ty.text())
}
