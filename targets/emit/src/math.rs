//! Vector mathematics as MLIR text: one branch-free sequence for every element type and vector width.
//!
//! [`unary`] and [`power`] append SSA lines of the dialects `arith` and `math` (only operations that LLVM
//! expands inline on every CPU level) and return the name of the result. Nothing here calls a library,
//! branches, reads a table or rounds other than to nearest even; infinities, NaN, signed zeros and
//! subnormal numbers come out as C99 Annex F says. Measured errors: `docs/math.md`.

mod builder;
mod coefficients;
mod error_function;
mod exponential;
mod logarithm;
mod trigonometric;

use std::fmt::Write;

use builder::Cx;

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

impl Function {
    /// Every function, in the order of the documentation.
    #[rustfmt::skip] // A list.
    pub const ALL: [Function; 29] = [
        Function::Abs, Function::Sqrt, Function::Rsqrt, Function::Floor, Function::Ceil, Function::Trunc,
        Function::RoundEven, Function::Exp, Function::Exp2, Function::Expm1, Function::Log, Function::Log2,
        Function::Log1p, Function::Sin, Function::Cos, Function::Tan, Function::Asin, Function::Acos,
        Function::Atan, Function::Sinh, Function::Cosh, Function::Tanh, Function::Asinh, Function::Acosh,
        Function::Atanh, Function::Erf, Function::Erfc, Function::Sigmoid, Function::Softplus,
    ];
}

/// Appends `f(x)` for `x` of type `ty`; answers the result's name.
pub fn unary(b: &mut Body, f: Function, x: &str, ty: &FloatType) -> String {
    let native = match f {
        Function::Log2
        | Function::Sin
        | Function::Cos
        | Function::Tan
        | Function::Asin
        | Function::Acos
        | Function::Atan
        | Function::Sinh
        | Function::Cosh
        | Function::Asinh
        | Function::Acosh
        | Function::Atanh
        | Function::Erfc => false,
        Function::Abs
        | Function::Sqrt
        | Function::Rsqrt
        | Function::Floor
        | Function::Ceil
        | Function::Trunc
        | Function::RoundEven
        | Function::Exp
        | Function::Exp2
        | Function::Expm1
        | Function::Log
        | Function::Log1p
        | Function::Tanh
        | Function::Erf
        | Function::Sigmoid
        | Function::Softplus => true,
    };
    if ty.bits == 32 && !native {
        let wide = FloatType { bits: 64, width: ty.width };
        let x = convert(b, "arith.extf", x, ty, &wide);
        let y = in_type(b, f, &x, wide, true);
        return convert(b, "arith.truncf", &y, &wide, ty);
    }
    in_type(b, f, x, *ty, ty.bits == 32)
}

/// Appends `f(x)` in the type of `x`; `short` says that single accuracy is enough, and that x is a float.
fn in_type(b: &mut Body, f: Function, x: &str, ty: FloatType, short: bool) -> String {
    let c = &mut Cx::new(b, ty);
    let x = c.input(x);
    let y = match f {
        Function::Abs => c.abs(x),
        Function::Sqrt => c.sqrt(x),
        Function::Rsqrt => {
            let root = c.sqrt(x);
            let one = c.c(1.0);
            c.div(one, root)
        }
        Function::Floor => c.math("floor", x),
        Function::Ceil => c.math("ceil", x),
        Function::Trunc => c.math("trunc", x),
        Function::RoundEven => c.round(x),
        Function::Exp => exponential::exp(c, x),
        Function::Exp2 => exponential::exp2(c, x),
        Function::Expm1 => exponential::expm1(c, x),
        Function::Sigmoid => exponential::sigmoid(c, x),
        Function::Softplus => exponential::softplus(c, x),
        Function::Tanh => exponential::tanh(c, x),
        Function::Sinh | Function::Cosh => exponential::hyperbolic(c, f, x),
        Function::Log => logarithm::log(c, x),
        Function::Log2 => logarithm::log2(c, x),
        Function::Log1p => logarithm::log1p(c, x),
        Function::Asinh | Function::Acosh | Function::Atanh => logarithm::inverse_hyperbolic(c, f, x),
        Function::Sin | Function::Cos | Function::Tan => trigonometric::circular(c, f, x, short),
        Function::Asin | Function::Acos => trigonometric::arc(c, f, x, short),
        Function::Atan => trigonometric::atan(c, x, short),
        Function::Erf if ty.bits == 32 => error_function::erf_single(c, x),
        Function::Erf | Function::Erfc => error_function::erf_or_erfc(c, f, x, short),
    };
    c.name(y)
}

/// Appends `x` to the power `y`, both of type `ty`; answers the result's name.
///
/// C99's special cases: x⁰ = 1 and 1ʸ = 1 even for NaN, (±1)^±∞ = 1, negative x only to whole powers.
pub fn power(b: &mut Body, x: &str, y: &str, ty: &FloatType) -> String {
    let single = ty.bits == 32;
    let wide = FloatType { bits: 64, width: ty.width };
    let (x, y) = match single {
        true => (convert(b, "arith.extf", x, ty, &wide), convert(b, "arith.extf", y, ty, &wide)),
        false => (x.to_string(), y.to_string()),
    };
    let c = &mut Cx::new(b, wide);
    let (x, y) = (c.input(&x), c.input(&y));
    let r = logarithm::pow(c, x, y, !single);
    let r = c.name(r);
    match single {
        true => convert(b, "arith.truncf", &r, &wide, ty),
        false => r,
    }
}

fn convert(b: &mut Body, operation: &str, x: &str, from: &FloatType, to: &FloatType) -> String {
    let name = format!("%m{}", b.next);
    *b.next += 1;
    writeln!(b.out, "    {name} = {operation} {x} : {} to {}", from.text(), to.text()).expect("strings take text");
    name
}
