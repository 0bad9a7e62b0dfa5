//! The graph: values and nodes in arenas, blocks for the bodies of control flow.
//!
//! All blocks of a graph share one arena of values, so a body uses an outer value directly: a
//! capture is an ordinary operand. Nodes of a block stand in topological order.
//! Nodes are plain data: their operator is a row of the open operator table.

use std::collections::BTreeMap;

use oaaxc_base::{Origin, Table, id};

use crate::op::OpDef;
use crate::tensor::Tensor;
use crate::types::{Fact, Symbols, Type};

id!(
    /// A value: a graph input, a constant, or one result of a node.
    ValueId,
    "v"
);
id!(
    /// A node.
    NodeId,
    "n"
);
id!(
    /// A block of nodes: the graph itself, or a body of If, Loop or Scan.
    BlockId,
    "b"
);

/// A model.
#[derive(Clone, Debug)]
pub struct Graph {
    /// The graph's own name.
    pub name: String,
    /// Its symbolic sizes.
    pub symbols: Symbols,
    /// Every value of every block.
    pub values: Table<ValueId, Value>,
    /// Every node of every block; removed nodes stay behind, unlisted.
    pub nodes: Table<NodeId, Node>,
    /// The blocks.
    pub blocks: Table<BlockId, Block>,
    /// The outermost block.
    pub root: BlockId,
}

/// One value.
#[derive(Clone, Debug)]
pub struct Value {
    /// Its name in the model; unique, may be made up.
    pub name: String,
    /// What is known of it.
    pub fact: Fact,
    /// Where it comes from.
    pub def: Def,
}

/// Where a value comes from.
#[derive(Clone, Debug)]
pub enum Def {
    /// An input of this block.
    Input(BlockId),
    /// A constant.
    Constant(Tensor),
    /// Result number of a node.
    Node(NodeId, usize),
}

/// A list of nodes with inputs and outputs.
#[derive(Clone, Debug, Default)]
pub struct Block {
    /// Its inputs, in order.
    pub inputs: Vec<ValueId>,
    /// Its outputs, in order; may repeat and may be inputs or outer values.
    pub outputs: Vec<ValueId>,
    /// Its nodes in topological order.
    pub nodes: Vec<NodeId>,
}

/// One application of an operator.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its operator.
    pub op: &'static OpDef,
    /// The opset version that the model asked for, for messages; attributes already have the internal form.
    pub opset: i64,
    /// Its attributes, in the internal operator's form.
    pub attributes: Attributes,
    /// Operands in order; a hole where an optional one is left out.
    pub inputs: Vec<Option<ValueId>>,
    /// Results in order; a hole where an optional one is not asked for.
    pub outputs: Vec<Option<ValueId>>,
    /// Bodies, in the order that the operator's text names them (If: then, else; Loop, Scan: body).
    pub blocks: Vec<BlockId>,
    /// Where in the model it came from.
    pub origin: Origin,
    /// Pairs of sizes that must be equal when the model runs, with the sentence to say if not.
    pub checks: Vec<Check>,
}

/// A condition on sizes that only the run can check.
#[derive(Clone, PartialEq, Debug)]
pub struct Check {
    /// Must not be 0.
    pub holds: crate::expr::Expr,
    /// Said if it is: names both facts.
    pub message: String,
}

/// Attributes by name.
pub type Attributes = BTreeMap<String, Attribute>;

/// An attribute's value. Graph attributes are `Node::blocks`.
#[derive(Clone, PartialEq, Debug)]
#[allow(missing_docs)]
pub enum Attribute {
    Int(i64),
    Float(f32),
    Text(Vec<u8>),
    Tensor(Tensor),
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    Texts(Vec<Vec<u8>>),
    Type(Type),
}

impl Graph {
    /// An empty graph.
    pub fn new(name: impl Into<String>) -> Graph {
        let mut blocks = Table::new();
        let root = blocks.push(Block::default());
        Graph { name: name.into(), symbols: Symbols::default(), values: Table::new(), nodes: Table::new(), blocks, root }
    }
    /// Adds a value.
    pub fn add_value(&mut self, name: impl Into<String>, fact: Fact, def: Def) -> ValueId {
        self.values.push(Value { name: name.into(), fact, def })
    }
    /// Adds a constant; its fact is read off it.
    pub fn add_constant(&mut self, name: impl Into<String>, tensor: Tensor) -> ValueId {
        let fact = constant_fact(&tensor);
        self.add_value(name, fact, Def::Constant(tensor))
    }
    /// The constant behind a value, if it is one.
    pub fn constant(&self, value: ValueId) -> Option<&Tensor> {
        match &self.values[value].def {
            Def::Constant(tensor) => Some(tensor),
            _ => None,
        }
    }
    /// The outermost block.
    pub fn root(&self) -> &Block {
        &self.blocks[self.root]
    }
    /// All nodes that are still listed, block by block, each block in its order; bodies come after the node that holds them.
    pub fn listed_nodes(&self) -> Vec<NodeId> {
        let mut all = Vec::new();
        self.collect_nodes(self.root, &mut all);
        all
    }
    /// The outer values that the bodies of a node use, bodies within bodies included; may repeat.
    pub fn captures(&self, node: NodeId, out: &mut Vec<ValueId>) {
        let mut used = Vec::new();
        let mut own = std::collections::BTreeSet::new();
        for &block in &self.nodes[node].blocks {
            let block = &self.blocks[block];
            own.extend(block.inputs.iter().copied());
            for &inner in &block.nodes {
                used.extend(self.nodes[inner].inputs.iter().flatten().copied());
                own.extend(self.nodes[inner].outputs.iter().flatten().copied());
                self.captures(inner, &mut used);
            }
            used.extend(block.outputs.iter().copied());
        }
        out.extend(used.into_iter().filter(|v| !own.contains(v)));
    }
    fn collect_nodes(&self, block: BlockId, all: &mut Vec<NodeId>) {
        for &node in &self.blocks[block].nodes {
            all.push(node);
            for &body in &self.nodes[node].blocks {
                self.collect_nodes(body, all);
            }
        }
    }
}

/// What a constant tells: its type, and its elements where they may be sizes.
pub fn constant_fact(tensor: &Tensor) -> Fact {
    let shape = tensor.dims.iter().map(|&d| d.into()).collect();
    let small = tensor.rank() <= 1 && tensor.len() <= crate::types::MAX_KNOWN;
    let whole = tensor.dtype.is_integer() || tensor.dtype == crate::dtype::DType::Bool;
    let known = (small && whole).then(|| tensor.to_i64s().into_iter().map(Into::into).collect());
    Fact { ty: Type::tensor(tensor.dtype, shape), known }
}
