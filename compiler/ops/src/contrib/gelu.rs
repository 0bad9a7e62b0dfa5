//! Gelu, BiasGelu, FastGelu and QuickGelu of com.microsoft.
//!
//! Gelu(x) = x · (1 + erf(x / √2)) / 2; FastGelu uses the hyperbolic tangent; QuickGelu is x · sigmoid(alpha · x).
//! BiasGelu and FastGelu add their second operand first.

use oaaxc_base::Diagnostic;
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::interpret::arithmetic::erf;
use oaaxc_ir::kernel::UnaryOp;
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::{Datum, ReadAttributes, ReadOperands};

use crate::broadcast::expand;
use crate::formula::{Formula, compute_type};

type Result<T> = std::result::Result<T, Diagnostic>;

macro_rules! row {
    ($name:literal) => {
        OpDef { name: $name, domain: "com.microsoft", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) }
    };
}
/// Gelu by the error function.
pub static GELU: OpDef = row!("Gelu");
/// Gelu of a sum.
pub static BIAS_GELU: OpDef = row!("BiasGelu");
/// Gelu by the hyperbolic tangent.
pub static FAST_GELU: OpDef = row!("FastGelu");
/// x · sigmoid(alpha · x).
pub static QUICK_GELU: OpDef = row!("QuickGelu");

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (cx.dtype(0)?, cx.shape(0)?);
    cx.set(0, dtype, shape);
    Ok(())
}

/// √(2/π) and the cubic factor of the approximation.
const TANH: (f64, f64) = (0.797_884_560_802_865_4, 0.044_715);

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let bias = cx.optional(1)?.map(|b| expand(b, &x.dims).to_f64s());
    let alpha = f64::from(cx.float("alpha", 1.702)?);
    let one = |(i, v): (usize, f64)| {
        let v = v + bias.as_ref().map_or(0.0, |b| b[i]);
        match cx.node.op.name {
            "QuickGelu" => v / (1.0 + (-alpha * v).exp()),
            "FastGelu" => v * 0.5 * (1.0 + (TANH.0 * (v + TANH.1 * v * v * v)).tanh()),
            _ => v * 0.5 * (1.0 + erf(v / std::f64::consts::SQRT_2)),
        }
    };
    let out: Vec<f64> = x.to_f64s().into_iter().enumerate().map(one).collect();
    Ok(vec![Tensor::from_f64s(x.dtype, x.dims.clone(), out).into()])
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let (x, bias, y) = (cx.arg(0)?, cx.optional_arg(1)?, cx.result(0)?);
    let alpha = f64::from(cx.float("alpha", 1.702)?);
    let (name, dtype) = (cx.node.op.name, compute_type(x.dtype));
    let args: Vec<_> = std::iter::once(x).chain(bias).collect();
    cx.pointwise(&args, &y, |body, v| {
        let v: Vec<_> = v.iter().map(|v| body.cast(dtype, *v)).collect();
        let mut f = Formula { body, dtype };
        let x = if v.len() > 1 { f.add(v[0], v[1]) } else { v[0] };
        if name == "QuickGelu" {
            let e = f.scale(x, -alpha);
            let e = f.exp(e);
            let d = f.add_number(e, 1.0);
            return f.div(x, d);
        }
        let inner = if name == "FastGelu" {
            let square = f.mul(x, x);
            let cubic = f.scale(square, TANH.1);
            let cubic = f.add_number(cubic, 1.0);
            let t = f.mul(x, cubic);
            let t = f.scale(t, TANH.0);
            f.unary(UnaryOp::Tanh, t)
        } else {
            let t = f.scale(x, std::f64::consts::FRAC_1_SQRT_2);
            f.unary(UnaryOp::Erf, t)
        };
        let half = f.scale(x, 0.5);
        let sum = f.add_number(inner, 1.0);
        f.mul(half, sum)
    })
}
