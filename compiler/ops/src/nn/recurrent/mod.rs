//! RNN, GRU and LSTM: one or two directions over a batch of sequences.
//!
//! `layout` 0 has the time outermost, 1 the batch. `sequence_lens` end a sequence early: its state stays,
//! its outputs are 0, and the reverse direction starts at its own end. Gates lie as ONNX orders them:
//! LSTM i, o, f, c; GRU z, r, h.

mod activation;
mod eval;
mod lower;

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef};
use oaaxc_ir::upgrade::UpgradeCx;
use oaaxc_ir::{ReadAttributes, ReadOperands};

pub use activation::Activation;
pub use eval::{Operands, run};
pub use lower::{Cell, launch};

type Result<T> = std::result::Result<T, Diagnostic>;

macro_rules! row {
    ($name:literal) => {
        OpDef { name: $name, domain: "", upgrade, infer, eval: eval::eval, lower: Lower::Kernels(lower) }
    };
}
/// ONNX RNN.
pub static RNN: OpDef = row!("RNN");
/// ONNX GRU.
pub static GRU: OpDef = row!("GRU");
/// ONNX LSTM.
pub static LSTM: OpDef = row!("LSTM");

/// Which cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// h = f(Wx + Rh).
    Rnn,
    /// Gates z, r and the candidate h.
    Gru,
    /// Gates i, o, f and the candidate c.
    Lstm,
}

impl Kind {
    /// Number of gates, the candidate counted.
    pub fn gates(self) -> usize {
        match self {
            Kind::Rnn => 1,
            Kind::Gru => 3,
            Kind::Lstm => 4,
        }
    }
}

/// The attributes.
#[derive(Clone, Debug)]
pub struct Form {
    /// Which cell.
    pub kind: Kind,
    /// 1 or 2.
    pub directions: usize,
    /// The first direction runs backwards.
    pub backward: bool,
    /// Per direction, the functions f, g, h.
    pub activations: Vec<Vec<Activation>>,
    /// Gates' inputs are brought between ±clip.
    pub clip: Option<f64>,
    /// LSTM: the forget gate is 1 − the input gate.
    pub couple: bool,
    /// GRU: the reset gate applies after the recurrent product.
    pub linear_before_reset: bool,
    /// The batch is outermost.
    pub batch_first: bool,
}

fn upgrade(cx: &mut UpgradeCx) -> Result<()> {
    // Before 7, `output_sequence` said whether Y is wanted; an omitted result says so as well.
    cx.take("output_sequence");
    Ok(())
}

/// Reads the attributes of a node.
pub fn form(cx: &impl ReadAttributes) -> Result<Form> {
    let kind = match cx.node().op.name {
        "RNN" => Kind::Rnn,
        "GRU" => Kind::Gru,
        _ => Kind::Lstm,
    };
    let (directions, backward) = match &cx.text("direction", "forward")?[..] {
        "forward" => (1, false),
        "reverse" => (1, true),
        "bidirectional" => (2, false),
        other => return Err(cx.fail(Code::ATTRIBUTE, format!("`direction` \"{other}\" is not known"))),
    };
    let defaults: &[&str] = match kind {
        Kind::Rnn => &["Tanh"],
        Kind::Gru => &["Sigmoid", "Tanh"],
        Kind::Lstm => &["Sigmoid", "Tanh", "Tanh"],
    };
    let names: Vec<String> = match cx.texts("activations")? {
        Some(names) if !names.is_empty() => names.iter().map(|n| String::from_utf8_lossy(n).into_owned()).collect(),
        _ => defaults.iter().cycle().take(defaults.len() * directions).map(ToString::to_string).collect(),
    };
    if names.len() != defaults.len() * directions {
        let message = format!("{} activations are named, {} are needed", names.len(), defaults.len() * directions);
        return Err(cx.fail(Code::ATTRIBUTE, message));
    }
    let mut alphas = cx.floats("activation_alpha")?.unwrap_or_default().into_iter();
    let mut betas = cx.floats("activation_beta")?.unwrap_or_default().into_iter();
    let mut activations = Vec::new();
    for name in &names {
        let found = Activation::named(name, &mut alphas, &mut betas);
        activations.push(found.ok_or_else(|| cx.fail(Code::ATTRIBUTE, format!("activation \"{name}\" is not known")))?);
    }
    Ok(Form {
        kind,
        directions,
        backward,
        activations: activations.chunks(defaults.len()).map(<[Activation]>::to_vec).collect(),
        clip: if cx.has("clip") { Some(cx.float("clip", 0.0)?.into()) } else { None },
        couple: cx.flag("input_forget", false)?,
        linear_before_reset: cx.flag("linear_before_reset", false)?,
        batch_first: cx.flag("layout", false)?,
    })
}

/// Sets the types of Y, Y_h and Y_c for an input of these sizes.
pub fn set_results(cx: &mut InferCx, form: &Form, hidden: &Expr) -> Result<()> {
    let (dtype, x) = (cx.dtype(0)?, cx.shape(0)?);
    if x.len() != 3 {
        return Err(cx.fail(Code::SHAPE, format!("X must have rank 3, not {}", x.len())));
    }
    let d = Expr::from(form.directions);
    let (time, batch) = if form.batch_first { (&x[1], &x[0]) } else { (&x[0], &x[1]) };
    let (y, state) = if form.batch_first {
        (vec![batch.clone(), time.clone(), d.clone(), hidden.clone()], vec![batch.clone(), d, hidden.clone()])
    } else {
        (vec![time.clone(), d.clone(), batch.clone(), hidden.clone()], vec![d, batch.clone(), hidden.clone()])
    };
    cx.set(0, dtype, y);
    cx.set(1, dtype, state.clone());
    if form.kind == Kind::Lstm {
        cx.set(2, dtype, state);
    }
    Ok(())
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let form = form(cx)?;
    let (x, w, r) = (cx.shape(0)?, cx.shape(1)?, cx.shape(2)?);
    if x.len() != 3 || w.len() != 3 || r.len() != 3 {
        return Err(cx.fail(Code::SHAPE, "X, W and R must have rank 3"));
    }
    let gates = form.kind.gates() as i64;
    cx.require_equal(&w[0], &form.directions.into(), "the number of directions in W")?;
    cx.require_equal(&r[0], &form.directions.into(), "the number of directions in R")?;
    cx.require_equal(&w[2], &x[2], "the input size of W and of X")?;
    cx.require_equal(&w[1], &(&r[2] * gates), "the gates in W")?;
    cx.require_equal(&r[1], &(&r[2] * gates), "the gates in R")?;
    set_results(cx, &form, &r[2])
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let form = form(cx)?;
    let lstm = form.kind == Kind::Lstm;
    let cell = Cell {
        x: cx.arg(0)?,
        w: cx.arg(1)?,
        r: cx.arg(2)?,
        transposed: false,
        bias: cx.optional_arg(3)?,
        lengths: cx.optional_arg(4)?,
        h: cx.optional_arg(5)?,
        c: if lstm { cx.optional_arg(6)? } else { None },
        peephole: if lstm { cx.optional_arg(7)? } else { None },
    };
    launch(cx, &form, &cell)
}
