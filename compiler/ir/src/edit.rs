//! The one door through which a graph changes: new nodes are inferred before they enter,
//! a replacement must have the same type, and origins are kept.

use oaaxc_base::{Code, Diagnostic, Origin};

use crate::attributes::fail;
use crate::dtype::DType;
use crate::eval::EvalCx;
use crate::graph::{Attributes, BlockId, Def, Graph, Node, NodeId, ValueId, constant_fact};
use crate::infer::InferCx;
use crate::op::OpDef;
use crate::tensor::{Datum, Tensor};
use crate::types::{Fact, MAX_KNOWN, Type};

/// A node that is about to enter a graph.
pub struct NewNode {
    /// Its operator.
    pub op: &'static OpDef,
    /// The model's opset version.
    pub opset: i64,
    /// Attributes in the internal operator's form.
    pub attributes: Attributes,
    /// Operands.
    pub inputs: Vec<Option<ValueId>>,
    /// Names of the results; `None` where not asked for.
    pub outputs: Vec<Option<String>>,
    /// Bodies, already in the graph.
    pub blocks: Vec<BlockId>,
    /// Where it came from.
    pub origin: Origin,
}

impl Graph {
    /// Infers a node and appends it to a block. Arithmetic on small integer constants is done at once and
    /// listed nowhere: sizes, pads and axes that exporters compute step by step are known to the nodes after it.
    pub fn append(&mut self, block: BlockId, new: NewNode) -> Result<NodeId, Diagnostic> {
        let node = self.infer(new)?;
        match self.small_results(node) {
            Some(tensors) => {
                for (value, tensor) in self.nodes[node].outputs.clone().into_iter().zip(tensors) {
                    let Some(value) = value else { continue };
                    self.refine(value, constant_fact(&tensor));
                    self.values[value].def = Def::Constant(tensor);
                }
            }
            None => self.blocks[block].nodes.push(node),
        }
        Ok(node)
    }

    /// The results of a node over small integer constants, one per output, where all are such themselves.
    fn small_results(&self, id: NodeId) -> Option<Vec<Tensor>> {
        let node = &self.nodes[id];
        let is_small = |dtype: DType, elements: usize| (dtype.is_integer() || dtype == DType::Bool) && elements <= MAX_KNOWN;
        if node.inputs.is_empty() || !node.blocks.is_empty() {
            return None;
        }
        let mut inputs = Vec::new();
        for input in &node.inputs {
            inputs.push(match input {
                Some(value) => Some(Datum::Tensor(self.constant(*value).filter(|t| is_small(t.dtype, t.len()))?.clone())),
                None => None,
            });
        }
        for output in node.outputs.iter().flatten() {
            let tensor = self.values[*output].fact.ty.as_tensor()?;
            let sizes: Option<Vec<i64>> = tensor.shape.as_ref()?.iter().map(|e| e.as_const()).collect();
            let elements = sizes?.iter().try_fold(1usize, |n, d| n.checked_mul(usize::try_from(*d).ok()?))?;
            if !is_small(tensor.dtype, elements) {
                return None;
            }
        }
        let run_block = |_, _| Err(Diagnostic::error(Code::INTERNAL, "nodes with bodies are not evaluated here"));
        let cx = EvalCx { graph: self, node, inputs, run_block: &run_block };
        // A fault is for the run to report.
        let results = (node.op.eval)(&cx).ok()?;
        let tensors: Option<Vec<Tensor>> = results.iter().map(|d| d.as_tensor().cloned()).collect();
        tensors.filter(|tensors| node.outputs.len() <= tensors.len())
    }

    /// Infers a node and puts it before another one of the same block.
    pub fn insert_before(&mut self, block: BlockId, before: NodeId, new: NewNode) -> Result<NodeId, Diagnostic> {
        let node = self.infer(new)?;
        let at = self.blocks[block].nodes.iter().position(|n| *n == before).unwrap_or(self.blocks[block].nodes.len());
        self.blocks[block].nodes.insert(at, node);
        Ok(node)
    }

    /// Infers a node and puts it right behind another one of the same block.
    pub fn insert_after(&mut self, block: BlockId, after: NodeId, new: NewNode) -> Result<NodeId, Diagnostic> {
        let node = self.infer(new)?;
        let nodes = &mut self.blocks[block].nodes;
        let at = nodes.iter().position(|n| *n == after).map_or(nodes.len(), |at| at + 1);
        nodes.insert(at, node);
        Ok(node)
    }

    /// A node reads other operands of the same sizes; its results keep their sizes and take the element types that
    /// inference gives them now. Whoever reads them must be told.
    pub fn retype(&mut self, id: NodeId, inputs: Vec<Option<ValueId>>) -> Result<(), Diagnostic> {
        let node = Node { inputs, ..self.nodes[id].clone() };
        let mut symbols = self.symbols.clone();
        let results = vec![None; node.outputs.len()];
        let mut cx = InferCx { symbols: &mut symbols, graph: self, node: &node, results, checks: Vec::new() };
        (node.op.infer)(&mut cx).map_err(|d| describe(d, self, &node))?;
        let results = cx.results;
        for (value, fact) in node.outputs.iter().zip(results) {
            if let (Some(value), Some(Type::Tensor(new))) = (value, fact.map(|f| f.ty))
                && let Type::Tensor(old) = &mut self.values[*value].fact.ty
            {
                old.dtype = new.dtype;
            }
        }
        self.nodes[id] = node;
        Ok(())
    }

    /// A node reads other operands of the very types that its operands have had so far.
    pub fn rewire(&mut self, id: NodeId, inputs: Vec<Option<ValueId>>) {
        self.nodes[id].inputs = inputs;
    }

    /// A value gets another name; the caller sees to it that names stay unique.
    pub fn rename(&mut self, value: ValueId, name: String) {
        self.values[value].name = name;
    }

    fn infer(&mut self, new: NewNode) -> Result<NodeId, Diagnostic> {
        let node = Node {
            op: new.op,
            opset: new.opset,
            attributes: new.attributes,
            inputs: new.inputs,
            // Real ids follow; inference only asks which results are wanted.
            outputs: new.outputs.iter().map(|o| o.as_ref().map(|_| ValueId(u32::MAX))).collect(),
            blocks: new.blocks,
            origin: new.origin,
            checks: Vec::new(),
        };
        let mut symbols = self.symbols.clone();
        let mut cx = InferCx {
            symbols: &mut symbols,
            graph: self,
            node: &node,
            results: vec![None; new.outputs.len()],
            checks: Vec::new(),
        };
        (node.op.infer)(&mut cx).map_err(|d| describe(d, self, &node))?;
        let InferCx { results, checks, .. } = cx;
        for (i, (fact, name)) in results.iter().zip(&new.outputs).enumerate() {
            if name.is_some() && fact.is_none() {
                return Err(fail(&node, Code::OPERAND, format!("the operator has no result {i}")));
            }
        }
        self.symbols = symbols;
        let id = self.nodes.push(node);
        let mut outputs = Vec::new();
        for (i, (fact, name)) in results.into_iter().zip(new.outputs).enumerate() {
            outputs.push(match (fact, name) {
                (Some(fact), Some(name)) => Some(self.add_value(name, fact, Def::Node(id, i))),
                _ => None,
            });
        }
        self.nodes[id].outputs = outputs;
        self.nodes[id].checks = checks;
        Ok(id)
    }

    /// Every use of `old` becomes a use of `new`, which must have the same type.
    pub fn replace_uses(&mut self, old: ValueId, new: ValueId) -> Result<(), Diagnostic> {
        let (a, b) = (self.values[old].fact.ty.clone(), self.values[new].fact.ty.clone());
        if a != b {
            let (a, b) = (self.symbols.show_type(&a), self.symbols.show_type(&b));
            return Err(Diagnostic::error(Code::INTERNAL, format!("a rewrite replaces {a} by {b}")));
        }
        let swap = |v: &mut ValueId| {
            if *v == old {
                *v = new;
            }
        };
        for (_, node) in self.nodes.iter_mut() {
            node.inputs.iter_mut().flatten().for_each(swap);
        }
        for (_, block) in self.blocks.iter_mut() {
            block.outputs.iter_mut().for_each(swap);
        }
        Ok(())
    }

    /// Replaces what is known of a value by a fact that says more (a fold, a bound input).
    pub fn refine(&mut self, value: ValueId, fact: Fact) {
        self.values[value].fact = fact;
    }
}

/// Adds the node's text and the types of its operands to an error.
pub fn describe(mut diagnostic: Diagnostic, graph: &Graph, node: &Node) -> Diagnostic {
    let name = |v: &Option<ValueId>| v.map_or("\"\"".to_string(), |v| graph.values[v].name.clone());
    let inputs: Vec<String> = node.inputs.iter().map(name).collect();
    diagnostic.snippet.push(format!("{} ({})", node.op.full_name(), inputs.join(", ")));
    for value in node.inputs.iter().flatten() {
        let v = &graph.values[*value];
        diagnostic.snippet.push(format!("    {}: {}", v.name, graph.symbols.show_type(&v.fact.ty)));
    }
    diagnostic.at(&node.origin)
}
