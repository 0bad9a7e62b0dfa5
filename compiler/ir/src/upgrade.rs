//! What an operator sees while an old form becomes the internal one, at import.

use oaaxc_base::EntityId;

use crate::attributes::ReadAttributes;
use crate::graph::{Attribute, Graph, Node, ValueId};
use crate::operands::ReadOperands;
use crate::tensor::Tensor;

/// A node that is about to enter the graph. Its operands are already in the graph, with facts.
pub struct UpgradeCx<'a> {
    /// The graph so far; constants may be added.
    pub graph: &'a mut Graph,
    /// The node, to rewrite in place.
    pub node: &'a mut Node,
    /// The schema version in force (`since_version`) at the model's opset.
    pub version: i64,
}

impl ReadAttributes for UpgradeCx<'_> {
    fn node(&self) -> &Node {
        self.node
    }
}

impl ReadOperands for UpgradeCx<'_> {
    fn graph(&self) -> &Graph {
        self.graph
    }
}

impl UpgradeCx<'_> {
    /// Removes an attribute and returns it.
    pub fn take(&mut self, name: &str) -> Option<Attribute> {
        self.node.attributes.remove(name)
    }
    /// Sets an attribute.
    pub fn set(&mut self, name: &str, value: Attribute) {
        self.node.attributes.insert(name.to_string(), value);
    }
    /// Puts a constant at operand `index`, with holes before it where needed.
    pub fn set_input(&mut self, index: usize, tensor: Tensor) {
        let value = self.add_constant(tensor);
        if self.node.inputs.len() <= index {
            self.node.inputs.resize(index + 1, None);
        }
        self.node.inputs[index] = Some(value);
    }
    /// Adds a constant with a made-up name.
    pub fn add_constant(&mut self, tensor: Tensor) -> ValueId {
        let name = format!("{}.constant.{}", self.node.op.name, self.graph.values.next_id().index());
        self.graph.add_constant(name, tensor)
    }
    /// Turns an attribute of the old form (ints) into the int64 operand of the new form, if present.
    pub fn ints_to_input(&mut self, name: &str, index: usize) {
        if let Some(Attribute::Ints(values)) = self.take(name) {
            self.set_input(index, Tensor::from_i64s(crate::dtype::DType::I64, vec![values.len()], values));
        }
    }
}
