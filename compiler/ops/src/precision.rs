//! What each operator allows when a model is computed in fewer bits: a table, since only this crate knows operators.
//!
//! Never decides anything: `passes/src/precision` does, by these facts. An operator that no table names stays in f32.

use oaaxc_ir::graph::{Attribute, Node};
use oaaxc_ir::op::OpDef;

/// How an operator takes narrower operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Sums of products: where narrow operands pay. The sum is in f32, or in int32 for 8-bit operands.
    Contraction(Contraction),
    /// Follows its neighbours: these operands and the results are narrow between two contractions.
    Follows(Operands),
    /// Stays in f32, for this reason.
    Wide(&'static str),
}

/// Which operands of an operator have the type of its results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operands {
    /// Every operand of floats.
    All,
    /// Those at these positions; the others keep their types.
    At(&'static [usize]),
}

/// A sum of products: operand 0 by operand 1, and a bias at 2 that is added to the sum in f32.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Contraction {
    /// Weights `[M, C/group, …]`, one scale for each M; an integer form exists.
    Convolution,
    /// `numpy.matmul`, one scale for each column; an integer form exists.
    Product,
    /// `alpha · A' · B' + beta · C`; an integer form exists.
    Gemm,
    /// One that has no integer form.
    Other,
}

const CONTRACTIONS: &[(&str, Contraction)] = &[
    ("Conv", Contraction::Convolution),
    ("MatMul", Contraction::Product),
    ("Gemm", Contraction::Gemm),
    ("ConvTranspose", Contraction::Other),
    ("FusedMatMul", Contraction::Other),
];

/// Elementwise operators without powers, logarithms and quotients, whose range a half may not hold; movement; pools;
/// and what keeps its statistics in f32 whatever its operands are.
const FOLLOWERS: &[&str] = &[
    "Add",
    "Sub",
    "Mul",
    "Relu",
    "LeakyRelu",
    "PRelu",
    "Sigmoid",
    "HardSigmoid",
    "HardSwish",
    "Swish",
    "Tanh",
    "Clip",
    "Elu",
    "Selu",
    "Celu",
    "Gelu",
    "BiasGelu",
    "FastGelu",
    "QuickGelu",
    "Mish",
    "Softplus",
    "Softsign",
    "ThresholdedRelu",
    "Erf",
    "Neg",
    "Abs",
    "Min",
    "Max",
    "Identity",
    "Reshape",
    "Flatten",
    "Squeeze",
    "Unsqueeze",
    "Transpose",
    "Concat",
    "Split",
    "Slice",
    "Expand",
    "Tile",
    "DepthToSpace",
    "SpaceToDepth",
    "MaxPool",
    "AveragePool",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "Softmax",
    "LayerNormalization",
    "InstanceNormalization",
    "GroupNormalization",
];

/// Followers some of whose float operands keep their types.
const PARTLY: &[(&str, &[usize])] = &[
    ("BatchNormalization", &[0]),
    ("Resize", &[0]),
    ("Upsample", &[0]),
    ("Gather", &[0]),
    ("Pad", &[0, 2]),
    ("Where", &[1, 2]),
    ("Dropout", &[0]),
];

/// What this operator allows.
pub fn kind(op: &OpDef) -> Kind {
    if !["", "com.microsoft"].contains(&op.domain) {
        return Kind::Wide("only standard operators are narrowed");
    }
    if let Some((_, contraction)) = CONTRACTIONS.iter().find(|(name, _)| *name == op.name) {
        return Kind::Contraction(*contraction);
    }
    if FOLLOWERS.contains(&op.name) {
        return Kind::Follows(Operands::All);
    }
    if let Some((_, at)) = PARTLY.iter().find(|(name, _)| *name == op.name) {
        return Kind::Follows(Operands::At(at));
    }
    Kind::Wide(match op.name {
        name if name.starts_with("Reduce") => "a sum over many elements",
        "Div" | "Pow" | "Sqrt" | "Exp" | "Log" | "Reciprocal" => "its range is wider than its operands'",
        "LSTM" | "GRU" | "RNN" => "the state of a recurrence adds up its errors",
        _ => "not between two contractions of floats",
    })
}

/// Whether the operator gives `(x − zero) · scale` of integers.
pub fn dequantizes(op: &OpDef) -> bool {
    op.name == "DequantizeLinear"
}

/// `Gemm`'s attributes: alpha, beta, whether A and B are turned.
pub fn gemm(node: &Node) -> (f32, f32, bool, bool) {
    let float = |name: &str| match node.attributes.get(name) {
        Some(Attribute::Float(v)) => *v,
        _ => 1.0,
    };
    let flag = |name: &str| matches!(node.attributes.get(name), Some(Attribute::Int(n)) if *n != 0);
    (float("alpha"), float("beta"), flag("transA"), flag("transB"))
}

/// A convolution's groups.
pub fn groups(node: &Node) -> i64 {
    match node.attributes.get("group") {
        Some(Attribute::Int(n)) => (*n).max(1),
        _ => 1,
    }
}
