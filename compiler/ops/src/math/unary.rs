//! Elementwise operators of one tensor: a table of scalar operations and a table of formulas.
//!
//! Each formula stands twice: in double precision for `eval`, and as operations for kernels, which
//! compute in f32 (f64 for double and integers) and round once at the end.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_PI};

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::interpret::arithmetic;
use oaaxc_ir::kernel::{UnaryOp, V};
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::{DType, Datum, Expr, Node, ReadAttributes, ReadOperands};

use crate::formula::{Formula, compute_type};

type Result<T> = std::result::Result<T, Diagnostic>;

/// Operators that are one scalar operation.
#[rustfmt::skip] // A table of one-liners reads best as a table.
const OPERATIONS: &[(&str, UnaryOp)] = &[
    ("Abs", UnaryOp::Abs), ("Neg", UnaryOp::Neg), ("Sign", UnaryOp::Sign), ("Floor", UnaryOp::Floor),
    ("Ceil", UnaryOp::Ceil), ("Round", UnaryOp::Round), ("Sqrt", UnaryOp::Sqrt), ("Exp", UnaryOp::Exp),
    ("Log", UnaryOp::Log), ("Sin", UnaryOp::Sin), ("Cos", UnaryOp::Cos), ("Tan", UnaryOp::Tan),
    ("Asin", UnaryOp::Asin), ("Acos", UnaryOp::Acos), ("Atan", UnaryOp::Atan), ("Sinh", UnaryOp::Sinh),
    ("Cosh", UnaryOp::Cosh), ("Tanh", UnaryOp::Tanh), ("Asinh", UnaryOp::Asinh), ("Acosh", UnaryOp::Acosh),
    ("Atanh", UnaryOp::Atanh), ("Erf", UnaryOp::Erf), ("IsNaN", UnaryOp::IsNan), ("Not", UnaryOp::Not),
    ("BitwiseNot", UnaryOp::Not),
];

/// An attribute that a formula reads.
enum Parameter {
    /// A float with its default.
    Float(&'static str, f32),
    /// 1 where the text attribute is this, else 0.
    Is(&'static str, &'static str),
}
use Parameter::{Float, Is};

/// An operator given by a formula.
struct Row {
    name: &'static str,
    parameters: &'static [Parameter],
    value: fn(&[f64], f64) -> f64,
    body: fn(&mut Formula, &[f64], V) -> V,
}

const FORMULAS: &[Row] = &[
    Row { name: "Reciprocal", parameters: &[], value: |_, x| 1.0 / x, body: |f, _, x| inverse(f, x) },
    Row { name: "Sigmoid", parameters: &[], value: |_, x| sigmoid(x), body: |f, _, x| sigmoid_body(f, x) },
    Row {
        name: "LeakyRelu",
        parameters: &[Float("alpha", 0.01)],
        value: |p, x| if x < 0.0 { p[0] * x } else { x },
        body: |f, p, x| {
            let (negative, scaled) = (f.is_less(x, 0.0), f.scale(x, p[0]));
            f.select(negative, scaled, x)
        },
    },
    Row {
        name: "Elu",
        parameters: &[Float("alpha", 1.0)],
        value: |p, x| if x < 0.0 { p[0] * x.exp_m1() } else { x },
        body: |f, p, x| {
            let (negative, curve) = (f.is_less(x, 0.0), exp_minus_one(f, x, p[0]));
            f.select(negative, curve, x)
        },
    },
    Row {
        name: "Selu",
        parameters: &[Float("alpha", 1.673_263_2), Float("gamma", 1.050_701)],
        value: |p, x| p[1] * if x <= 0.0 { p[0] * x.exp_m1() } else { x },
        body: |f, p, x| {
            let (negative, curve) = (f.is_less(x, 0.0), exp_minus_one(f, x, p[0]));
            let chosen = f.select(negative, curve, x);
            f.scale(chosen, p[1])
        },
    },
    Row {
        name: "Celu",
        parameters: &[Float("alpha", 1.0)],
        value: |p, x| if x < 0.0 { p[0] * (x / p[0]).exp_m1() } else { x },
        body: |f, p, x| {
            let (negative, scaled) = (f.is_less(x, 0.0), f.scale(x, 1.0 / p[0]));
            let curve = exp_minus_one(f, scaled, p[0]);
            f.select(negative, curve, x)
        },
    },
    Row { name: "Softplus", parameters: &[], value: |_, x| softplus(x), body: |f, _, x| softplus_body(f, x) },
    Row {
        name: "Softsign",
        parameters: &[],
        value: |_, x| x / (1.0 + x.abs()),
        body: |f, _, x| {
            let magnitude = f.unary(UnaryOp::Abs, x);
            let below = f.add_number(magnitude, 1.0);
            f.div(x, below)
        },
    },
    Row {
        name: "HardSigmoid",
        parameters: &[Float("alpha", 0.2), Float("beta", 0.5)],
        value: |p, x| (p[0] * x + p[1]).clamp(0.0, 1.0),
        body: |f, p, x| {
            let scaled = f.scale(x, p[0]);
            let line = f.add_number(scaled, p[1]);
            f.clamp(line, 0.0, 1.0)
        },
    },
    Row {
        name: "HardSwish",
        parameters: &[],
        value: |_, x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0),
        body: |f, _, x| {
            let scaled = f.scale(x, 1.0 / 6.0);
            let line = f.add_number(scaled, 0.5);
            let gate = f.clamp(line, 0.0, 1.0);
            f.mul(x, gate)
        },
    },
    Row {
        name: "Swish",
        parameters: &[Float("alpha", 1.0)],
        value: |p, x| x * sigmoid(p[0] * x),
        body: |f, p, x| {
            let scaled = f.scale(x, p[0]);
            let gate = sigmoid_body(f, scaled);
            f.mul(x, gate)
        },
    },
    Row {
        name: "Mish",
        parameters: &[],
        value: |_, x| x * softplus(x).tanh(),
        body: |f, _, x| {
            let soft = softplus_body(f, x);
            let gate = f.unary(UnaryOp::Tanh, soft);
            f.mul(x, gate)
        },
    },
    Row { name: "Gelu", parameters: &[Is("approximate", "tanh")], value: gelu, body: gelu_body },
    Row {
        name: "ThresholdedRelu",
        parameters: &[Float("alpha", 1.0)],
        value: |p, x| if x > p[0] { x } else { 0.0 },
        body: |f, p, x| {
            let (above, zero) = (f.is_greater(x, p[0]), f.number(0.0));
            f.select(above, x, zero)
        },
    },
    Row {
        name: "Shrink",
        parameters: &[Float("bias", 0.0), Float("lambd", 0.5)],
        value: |p, x| {
            if x < -p[1] {
                x + p[0]
            } else if x > p[1] {
                x - p[0]
            } else {
                0.0
            }
        },
        body: |f, p, x| {
            let (below, above) = (f.is_less(x, -p[1]), f.is_greater(x, p[1]));
            let (raised, lowered, zero) = (f.add_number(x, p[0]), f.add_number(x, -p[0]), f.number(0.0));
            let upper = f.select(above, lowered, zero);
            f.select(below, raised, upper)
        },
    },
];

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}
fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}
fn gelu(p: &[f64], x: f64) -> f64 {
    if p[0] != 0.0 {
        return 0.5 * x * (1.0 + (FRAC_2_PI.sqrt() * (x + 0.044715 * x * x * x)).tanh());
    }
    0.5 * x * (1.0 + arithmetic::erf(x * FRAC_1_SQRT_2))
}
fn inverse(f: &mut Formula, x: V) -> V {
    let one = f.number(1.0);
    f.div(one, x)
}
/// 1 / (1 + exp(−x)): exp overflows to infinity for very negative x, which gives the right 0.
fn sigmoid_body(f: &mut Formula, x: V) -> V {
    let negated = f.unary(UnaryOp::Neg, x);
    let e = f.exp(negated);
    let below = f.add_number(e, 1.0);
    inverse(f, below)
}
/// max(x, 0) + log(1 + exp(−|x|)): nothing overflows.
fn softplus_body(f: &mut Formula, x: V) -> V {
    let zero = f.number(0.0);
    let positive = f.max(x, zero);
    let magnitude = f.unary(UnaryOp::Abs, x);
    let negated = f.unary(UnaryOp::Neg, magnitude);
    let e = f.exp(negated);
    let sum = f.add_number(e, 1.0);
    let log = f.unary(UnaryOp::Log, sum);
    f.add(positive, log)
}
/// alpha · (exp(x) − 1).
fn exp_minus_one(f: &mut Formula, x: V, alpha: f64) -> V {
    let e = f.exp(x);
    let curve = f.add_number(e, -1.0);
    f.scale(curve, alpha)
}
fn gelu_body(f: &mut Formula, p: &[f64], x: V) -> V {
    let half = f.scale(x, 0.5);
    let gate = if p[0] != 0.0 {
        let square = f.mul(x, x);
        let cube = f.mul(square, x);
        let bent = f.scale(cube, 0.044715);
        let sum = f.add(x, bent);
        let inner = f.scale(sum, FRAC_2_PI.sqrt());
        f.unary(UnaryOp::Tanh, inner)
    } else {
        let inner = f.scale(x, FRAC_1_SQRT_2);
        f.unary(UnaryOp::Erf, inner)
    };
    let sum = f.add_number(gate, 1.0);
    f.mul(half, sum)
}

/// What an operator of these tables is.
enum Meaning {
    Operation(UnaryOp),
    Formula(&'static Row, Vec<f64>),
}

fn meaning(node: &Node) -> Result<Meaning> {
    let name = node.op.name;
    if let Some((_, op)) = OPERATIONS.iter().find(|row| row.0 == name) {
        return Ok(Meaning::Operation(*op));
    }
    let row = FORMULAS.iter().find(|row| row.name == name).expect("each operator of this file has a row");
    let mut values = Vec::new();
    for parameter in row.parameters {
        values.push(match parameter {
            Float(name, default) => f64::from(node.float(name, *default)?),
            Is(name, text) => f64::from(u8::from(node.text(name, "")? == *text)),
        });
    }
    Ok(Meaning::Formula(row, values))
}

macro_rules! operators {
    ($($constant:ident $name:literal;)*) => {
        $(#[doc = concat!("ONNX ", $name, ".")]
        pub static $constant: OpDef = OpDef { name: $name, domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };)*
        /// The operators of this file.
        pub static OPS: &[&OpDef] = &[$(&$constant),*];
    };
}
#[rustfmt::skip]
operators! {
    ABS "Abs"; NEG "Neg"; SIGN "Sign"; FLOOR "Floor"; CEIL "Ceil"; ROUND "Round"; SQRT "Sqrt"; EXP "Exp"; LOG "Log";
    SIN "Sin"; COS "Cos"; TAN "Tan"; ASIN "Asin"; ACOS "Acos"; ATAN "Atan"; SINH "Sinh"; COSH "Cosh"; TANH "Tanh";
    ASINH "Asinh"; ACOSH "Acosh"; ATANH "Atanh"; ERF "Erf"; IS_NAN "IsNaN"; NOT "Not"; BITWISE_NOT "BitwiseNot";
    RECIPROCAL "Reciprocal"; SIGMOID "Sigmoid"; LEAKY_RELU "LeakyRelu"; ELU "Elu"; SELU "Selu"; CELU "Celu";
    SOFTPLUS "Softplus"; SOFTSIGN "Softsign"; HARD_SIGMOID "HardSigmoid"; HARD_SWISH "HardSwish"; SWISH "Swish";
    MISH "Mish"; GELU "Gelu"; THRESHOLDED_RELU "ThresholdedRelu"; SHRINK "Shrink";
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (cx.dtype(0)?, cx.shape(0)?);
    if dtype == DType::String || dtype.is_complex() {
        return Err(cx.fail(Code::TYPE, format!("input 0 must be a tensor of numbers, not of {dtype}")));
    }
    meaning(cx.node)?;
    let known = match (cx.node.op.name, cx.known(0)) {
        ("Neg", Some(known)) => Some(known.iter().map(|k| Expr::constant(0) - k).collect()),
        ("Not", Some(known)) => Some(known.iter().map(|k| Expr::constant(1) - k).collect()),
        ("Abs", Some(known)) => Some(known.iter().map(|k| k.maximum(&(Expr::constant(0) - k))).collect()),
        _ => None,
    };
    let result = if cx.node.op.name == "IsNaN" { DType::Bool } else { dtype };
    cx.set_known(0, result, shape, known);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let y = match meaning(cx.node)? {
        Meaning::Operation(op) => {
            let dtype = if op == UnaryOp::IsNan { DType::Bool } else { x.dtype };
            Tensor::from_scalars(dtype, x.dims.clone(), x.scalars().map(|s| arithmetic::unary(op, s)))
        }
        Meaning::Formula(row, parameters) => {
            Tensor::from_f64s(x.dtype, x.dims.clone(), x.scalars().map(|s| (row.value)(&parameters, s.as_f64())))
        }
    };
    Ok(vec![y.into()])
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let (x, y) = (cx.arg(0)?, cx.result(0)?);
    match meaning(cx.node)? {
        Meaning::Operation(op) => cx.map_unary(op, &x, &y),
        Meaning::Formula(row, parameters) => {
            let dtype = compute_type(x.dtype);
            cx.pointwise(std::slice::from_ref(&x), &y, |body, v| {
                let v = body.cast(dtype, v[0]);
                (row.body)(&mut Formula { body, dtype }, &parameters, v)
            })
        }
    }
}
