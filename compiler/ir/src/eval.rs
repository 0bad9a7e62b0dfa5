//! What an operator sees while it is evaluated: the slow, obvious oracle.

use std::cell::RefCell;

use oaaxc_base::{Code, Diagnostic, SideTable};

use crate::attributes::ReadAttributes;
use crate::graph::{BlockId, Graph, Node, ValueId};
use crate::tensor::{Datum, Tensor};

type Result<T> = std::result::Result<T, Diagnostic>;

/// Evaluates a body with these inputs and returns its outputs.
pub type RunBlock<'a> = dyn Fn(BlockId, Vec<Datum>) -> Result<Vec<Datum>> + 'a;

/// One node with its operands.
pub struct EvalCx<'a> {
    /// The graph, for the types of results that nothing else tells (a loop without an iteration).
    pub graph: &'a Graph,
    /// The node.
    pub node: &'a Node,
    /// The operands; a hole where left out.
    pub inputs: Vec<Option<Datum>>,
    /// Runs one of the node's bodies (outer values are found by themselves).
    pub run_block: &'a RunBlock<'a>,
}

impl ReadAttributes for EvalCx<'_> {
    fn node(&self) -> &Node {
        self.node
    }
}

impl EvalCx<'_> {
    /// Whether the operand is given.
    pub fn has_input(&self, index: usize) -> bool {
        self.inputs.get(index).is_some_and(Option::is_some)
    }
    /// The operand; an error where it is missing.
    pub fn datum(&self, index: usize) -> Result<&Datum> {
        self.inputs
            .get(index)
            .and_then(Option::as_ref)
            .ok_or_else(|| self.fail(Code::OPERAND, format!("input {index} is missing")))
    }
    /// The operand as a tensor.
    pub fn input(&self, index: usize) -> Result<&Tensor> {
        self.datum(index)?.as_tensor().ok_or_else(|| self.fail(Code::TYPE, format!("input {index} must be a tensor")))
    }
    /// The operand as a tensor, where given.
    pub fn optional(&self, index: usize) -> Result<Option<&Tensor>> {
        if self.has_input(index) { self.input(index).map(Some) } else { Ok(None) }
    }
    /// Number of results that the node lists.
    pub fn output_count(&self) -> usize {
        self.node.outputs.len()
    }
}

/// Evaluates a whole graph on one datum per input, in order: the first oracle.
pub fn evaluate(graph: &Graph, inputs: Vec<Datum>) -> Result<Vec<Datum>> {
    evaluate_observed(graph, inputs, &mut |_, _| {})
}

/// As `evaluate`, telling `observe` every value as it is computed.
pub fn evaluate_observed(graph: &Graph, inputs: Vec<Datum>, observe: &mut dyn FnMut(ValueId, &Datum)) -> Result<Vec<Datum>> {
    evaluate_replacing(graph, inputs, &mut |value, datum| {
        observe(value, &datum);
        datum
    })
}

/// As `evaluate`, going on with what `replace` makes of every value as it is computed: each node can so be
/// evaluated on the operands of another run.
pub fn evaluate_replacing(
    graph: &Graph,
    inputs: Vec<Datum>,
    replace: &mut dyn FnMut(ValueId, Datum) -> Datum,
) -> Result<Vec<Datum>> {
    let state = Evaluation { graph, values: RefCell::new(SideTable::new(None)), replace: RefCell::new(replace) };
    state.block(graph.root, inputs)
}

/// Makes something of every value as it is computed.
type Replace<'o> = dyn FnMut(ValueId, Datum) -> Datum + 'o;

struct Evaluation<'a, 'o> {
    graph: &'a Graph,
    values: RefCell<SideTable<ValueId, Option<Datum>>>,
    replace: RefCell<&'o mut Replace<'o>>,
}

impl Evaluation<'_, '_> {
    fn set(&self, value: ValueId, datum: Datum) {
        let datum = (self.replace.borrow_mut())(value, datum);
        self.values.borrow_mut().set(value, Some(datum));
    }
    fn get(&self, value: ValueId) -> Result<Datum> {
        if let Some(tensor) = self.graph.constant(value) {
            return Ok(tensor.clone().into());
        }
        let name = || format!("\"{}\" is used before it is computed", self.graph.values[value].name);
        self.values.borrow()[value].clone().ok_or_else(|| Diagnostic::error(Code::INTERNAL, name()))
    }
    fn block(&self, block: BlockId, inputs: Vec<Datum>) -> Result<Vec<Datum>> {
        let block = &self.graph.blocks[block];
        if inputs.len() != block.inputs.len() {
            let message = format!("{} inputs are given, {} are wanted", inputs.len(), block.inputs.len());
            return Err(Diagnostic::error(Code::REQUEST, message));
        }
        for (&value, datum) in block.inputs.iter().zip(inputs) {
            self.set(value, datum);
        }
        for &id in &block.nodes {
            let node = &self.graph.nodes[id];
            let inputs = node.inputs.iter().map(|v| v.map(|v| self.get(v)).transpose()).collect::<Result<_>>()?;
            let run_block = |block: BlockId, inputs: Vec<Datum>| self.block(block, inputs);
            let cx = EvalCx { graph: self.graph, node, inputs, run_block: &run_block };
            let results = (node.op.eval)(&cx).map_err(|d| d.at(&node.origin))?;
            for (output, datum) in node.outputs.iter().zip(results) {
                if let Some(value) = output {
                    self.set(*value, datum);
                }
            }
        }
        block.outputs.iter().map(|&v| self.get(v)).collect()
    }
}
