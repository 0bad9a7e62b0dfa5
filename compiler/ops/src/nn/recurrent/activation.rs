//! The activation functions that RNN, GRU and LSTM name in their attributes.

use oaaxc_ir::kernel::{BinaryOp, Body, UnaryOp, V};

use crate::formula::Formula;

/// A function with its parameters.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Activation {
    kind: Kind,
    alpha: f64,
    beta: f64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Kind {
    Relu,
    Tanh,
    Sigmoid,
    Affine,
    LeakyRelu,
    ThresholdedRelu,
    ScaledTanh,
    HardSigmoid,
    Elu,
    Softsign,
    Softplus,
}

/// Names, and the defaults of `alpha` and `beta` where the function has them.
#[rustfmt::skip] // One row per function.
const TABLE: &[(&str, Kind, Option<f64>, Option<f64>)] = &[
    ("relu", Kind::Relu, None, None), ("tanh", Kind::Tanh, None, None), ("sigmoid", Kind::Sigmoid, None, None),
    ("affine", Kind::Affine, Some(1.0), Some(0.0)), ("leakyrelu", Kind::LeakyRelu, Some(0.01), None),
    ("thresholdedrelu", Kind::ThresholdedRelu, Some(1.0), None), ("scaledtanh", Kind::ScaledTanh, Some(1.0), Some(1.0)),
    ("hardsigmoid", Kind::HardSigmoid, Some(0.2), Some(0.5)), ("elu", Kind::Elu, Some(1.0), None),
    ("softsign", Kind::Softsign, None, None), ("softplus", Kind::Softplus, None, None),
];

impl Activation {
    /// The function with this name (in any case). `alphas` and `betas` give their next value to a function that has the parameter.
    pub fn named(
        name: &str,
        alphas: &mut impl Iterator<Item = f32>,
        betas: &mut impl Iterator<Item = f32>,
    ) -> Option<Activation> {
        let wanted = name.to_ascii_lowercase();
        let (_, kind, alpha, beta) = TABLE.iter().find(|row| row.0 == wanted)?;
        let pick = |default: &Option<f64>, next: &mut dyn Iterator<Item = f32>| match default {
            Some(default) => next.next().map_or(*default, f64::from),
            None => 0.0,
        };
        Some(Activation { kind: *kind, alpha: pick(alpha, alphas), beta: pick(beta, betas) })
    }
    /// The value at `x`.
    pub fn value(&self, x: f64) -> f64 {
        let (a, b) = (self.alpha, self.beta);
        match self.kind {
            Kind::Relu => x.max(0.0),
            Kind::Tanh => x.tanh(),
            Kind::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Kind::Affine => a * x + b,
            Kind::LeakyRelu => {
                if x < 0.0 {
                    a * x
                } else {
                    x
                }
            }
            Kind::ThresholdedRelu => {
                if x > a {
                    x
                } else {
                    0.0
                }
            }
            Kind::ScaledTanh => a * (b * x).tanh(),
            Kind::HardSigmoid => (a * x + b).clamp(0.0, 1.0),
            Kind::Elu => {
                if x < 0.0 {
                    a * (x.exp() - 1.0)
                } else {
                    x
                }
            }
            Kind::Softsign => x / (1.0 + x.abs()),
            Kind::Softplus => x.exp().ln_1p(),
        }
    }
    /// Writes the function into a body.
    pub fn emit(&self, body: &mut Body, x: V) -> V {
        let dtype = body.dtype(x);
        let mut f = Formula { body, dtype };
        match self.kind {
            Kind::Relu => {
                let zero = f.number(0.0);
                f.max(x, zero)
            }
            Kind::Tanh => f.unary(UnaryOp::Tanh, x),
            Kind::Sigmoid => {
                let n = f.unary(UnaryOp::Neg, x);
                let e = f.exp(n);
                let d = f.add_number(e, 1.0);
                let one = f.number(1.0);
                f.div(one, d)
            }
            Kind::Affine => {
                let v = f.scale(x, self.alpha);
                f.add_number(v, self.beta)
            }
            Kind::LeakyRelu => {
                let (low, below) = (f.scale(x, self.alpha), f.is_less(x, 0.0));
                f.select(below, low, x)
            }
            Kind::ThresholdedRelu => {
                let (above, zero) = (f.is_greater(x, self.alpha), f.number(0.0));
                f.select(above, x, zero)
            }
            Kind::ScaledTanh => {
                let v = f.scale(x, self.beta);
                let v = f.unary(UnaryOp::Tanh, v);
                f.scale(v, self.alpha)
            }
            Kind::HardSigmoid => {
                let v = f.scale(x, self.alpha);
                let v = f.add_number(v, self.beta);
                f.clamp(v, 0.0, 1.0)
            }
            Kind::Elu => {
                let e = f.exp(x);
                let e = f.add_number(e, -1.0);
                let (low, below) = (f.scale(e, self.alpha), f.is_less(x, 0.0));
                f.select(below, low, x)
            }
            Kind::Softsign => {
                let a = f.unary(UnaryOp::Abs, x);
                let d = f.add_number(a, 1.0);
                f.body.binary(BinaryOp::Div, x, d)
            }
            Kind::Softplus => {
                let e = f.exp(x);
                let e = f.add_number(e, 1.0);
                f.unary(UnaryOp::Log, e)
            }
        }
    }
}
