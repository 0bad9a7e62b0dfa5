//! Precision: the typed graph of one target in fewer bits, and a table that says what became of every tensor.
//!
//! Promises: sums stay in f32 (int32 for 8-bit operands); statistics of normalisations and softmax stay in f32; inputs
//! and outputs keep their names and types; integers and sizes are never touched; what cannot be narrowed stays as it
//! is, with the reason. Runs on the simplified graph before lowering, changes it through `Edit` alone, and never runs
//! anything: ranges and errors are measured by whoever calls.

pub mod narrow;
pub mod observe;
pub mod qdq;
pub mod quantise;

use std::collections::BTreeMap;

use oaaxc_base::{Diagnostic, Origin};
use oaaxc_ir::edit::NewNode;
use oaaxc_ir::graph::{Attribute, Attributes, Def, constant_fact};
use oaaxc_ir::op::OpDef;
use oaaxc_ir::{BlockId, DType, Graph, NodeId, Tensor, Type, ValueId};

/// What a tensor is to its node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// A constant.
    Weight,
    /// Computed during the run.
    Activation,
}

impl Role {
    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            Role::Weight => "weight",
            Role::Activation => "activation",
        }
    }
}

/// What became of one tensor.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name in the model.
    pub tensor: String,
    /// The node that reads it (a weight) or gives it (an activation).
    pub node: String,
    /// What it is.
    pub role: Role,
    /// Element type before.
    pub from: DType,
    /// Element type after; the same where it was kept.
    pub to: DType,
    /// Why.
    pub reason: String,
    /// Largest difference from the reference over its largest magnitude, where measured.
    pub error: Option<f64>,
    /// The value before, and the one after that stands for it, where a run can compare both.
    pub values: Option<(ValueId, ValueId)>,
}

/// What is known of an activation's numbers.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Range {
    /// The smallest number.
    pub low: f32,
    /// The largest number.
    pub high: f32,
}

/// Ranges of the values that were measured.
pub type Ranges = BTreeMap<ValueId, Range>;

/// An operator of ONNX's own domain, which the table has.
fn standard(name: &str) -> &'static OpDef {
    oaaxc_ops::find("", name).expect("the table has the operators that this pass writes")
}

/// How people know a node.
fn label(graph: &Graph, node: NodeId) -> String {
    let origin = &graph.nodes[node].origin;
    match origin.node.is_empty() {
        true => format!("{} {}", graph.nodes[node].op.name, origin.index),
        false => origin.node.to_string(),
    }
}

/// The element type of a tensor.
fn dtype(graph: &Graph, value: ValueId) -> Option<DType> {
    graph.values[value].fact.ty.as_tensor().map(|t| t.dtype)
}

/// Whether a tensor's rank is known.
fn has_rank(graph: &Graph, value: ValueId) -> bool {
    matches!(&graph.values[value].fact.ty, Type::Tensor(t) if t.shape.is_some())
}

/// A node of the standard domain with one result.
fn new_node(graph: &Graph, like: NodeId, op: &str, inputs: &[Option<ValueId>], attributes: Attributes, name: String) -> NewNode {
    let node = &graph.nodes[like];
    let origin = node.origin.clone();
    NewNode {
        op: standard(op),
        opset: 28,
        attributes,
        inputs: inputs.to_vec(),
        outputs: vec![Some(name)],
        blocks: vec![],
        origin,
    }
}

/// The only result of a node that `new_node` described.
fn only_result(graph: &Graph, node: NodeId) -> ValueId {
    graph.nodes[node].outputs[0].expect("the new node has one result")
}

fn cast_to(dtype: DType) -> Attributes {
    Attributes::from([("to".to_string(), Attribute::Int(i64::from(dtype.onnx())))])
}

/// A name that says what a made-up value is.
fn name_of(graph: &Graph, value: ValueId, suffix: &str) -> String {
    format!("{}:{suffix}", graph.values[value].name)
}

/// Whether every magnitude of a constant fits a type, and the largest one.
fn fits(tensor: &Tensor, most: f64) -> Result<(), f64> {
    let largest = tensor.scalars().map(|s| s.as_f64().abs()).filter(|v| v.is_finite()).fold(0.0, f64::max);
    if largest <= most { Ok(()) } else { Err(largest) }
}

/// Largest finite number of a type that narrows floats.
pub fn most(dtype: DType) -> f64 {
    if dtype == DType::F16 { 65504.0 } else { f64::from(f32::MAX) }
}

/// A constant with other elements takes part from here on.
fn add_constant(graph: &mut Graph, name: String, tensor: Tensor) -> ValueId {
    let fact = constant_fact(&tensor);
    graph.add_value(name, fact, Def::Constant(tensor))
}

/// Largest difference of a narrowed constant from itself over its largest magnitude.
fn constant_error(before: &Tensor, after: impl Iterator<Item = f64>) -> f64 {
    let (mut gap, mut scale) = (0f64, 0f64);
    for (a, b) in before.scalars().map(|s| s.as_f64()).zip(after) {
        gap = gap.max((a - b).abs());
        scale = scale.max(a.abs());
    }
    if gap == 0.0 { 0.0 } else { gap / scale }
}

/// Casts of values, made once for each block that needs one.
#[derive(Default)]
struct Casts(BTreeMap<(ValueId, DType), ValueId>);

impl Casts {
    /// The value in another type: behind the node that gives it, or first in the root block.
    fn get(&mut self, graph: &mut Graph, root: BlockId, value: ValueId, to: DType, user: NodeId) -> Result<ValueId, Diagnostic> {
        if let Some(done) = self.0.get(&(value, to)) {
            return Ok(*done);
        }
        let suffix = to.name();
        let new = new_node(graph, user, "Cast", &[Some(value)], cast_to(to), name_of(graph, value, suffix));
        let node = match graph.values[value].def {
            Def::Node(giver, _) => graph.insert_after(root, giver, new)?,
            _ => match graph.blocks[root].nodes.first().copied() {
                Some(first) => graph.insert_before(root, first, new)?,
                None => graph.append(root, new)?,
            },
        };
        let result = only_result(graph, node);
        self.0.insert((value, to), result);
        Ok(result)
    }
}

/// An origin as a node's place in the table, for nodes without a name.
pub fn place(origin: &Origin) -> String {
    if origin.node.is_empty() { format!("node {}", origin.index) } else { origin.node.to_string() }
}
