//! Puts a rule's other side in the place of what its pattern found, or leaves all as it was.
//!
//! A rewrite happens only where the new result has the very type of the old one, the graph becomes
//! cheaper, nothing that the run must check or compute is lost, and outputs keep their names.

use std::collections::{BTreeMap, BTreeSet};

use oaaxc_ir::edit::NewNode;
use oaaxc_ir::expr::SymId;
use oaaxc_ir::graph::{Attributes, BlockId, Check, Def, constant_fact};
use oaaxc_ir::op::OpDef;
use oaaxc_ir::{Datum, Fact, Graph, NodeId, Tensor, Type, ValueId};

use super::functions::{Worth, element, worth};
use super::matching::{Match, Uses};
use super::text::{Book, COST, Replacement, Rule, TextAttribute, TextConstant, TextNode};
use crate::graph::fold;

/// Finds an operator by domain and name.
pub type Lookup<'a> = dyn Fn(&str, &str) -> Option<&'static OpDef> + 'a;

/// Rewrites; whether it did.
pub fn rewrite(graph: &mut Graph, uses: &Uses, book: &Book, rule: &Rule, found: &Match, lookup: &Lookup) -> bool {
    let old = found.values[&rule.result];
    let root = found.nodes[0];
    let Some(block) = uses.block[root] else { return false };
    if loses_a_size(graph, rule, found) {
        return false;
    }
    let mut new = Building { graph, block, root, found, lookup, values: BTreeMap::new(), listed: Vec::new() };
    let Some(result) = new.build(rule) else {
        new.give_up();
        return false;
    };
    let listed = new.listed.clone();
    let cost = |graph: &Graph, nodes: &[NodeId]| -> usize {
        nodes.iter().map(|n| book.costs.get(graph.nodes[*n].op.name).copied().unwrap_or(COST)).sum()
    };
    let is_same = graph.values[result].fact.ty == graph.values[old].fact.ty;
    let is_cheaper = cost(graph, &listed) < cost(graph, &found.nodes);
    let checks = checks(graph, &found.nodes);
    let has_place = checks.is_empty() || !listed.is_empty();
    if !is_same || !is_cheaper || !has_place || !take_name(graph, uses, block, old, result) {
        unlist(graph, block, &listed);
        return false;
    }
    if let Some(last) = listed.last() {
        let own = &mut graph.nodes[*last].checks;
        for check in checks {
            if !own.contains(&check) {
                own.push(check);
            }
        }
    }
    if graph.values[result].fact.known.is_none() {
        let fact = Fact { known: graph.values[old].fact.known.clone(), ..graph.values[result].fact.clone() };
        graph.refine(result, fact);
    }
    graph.replace_uses(old, result).expect("the types were compared above");
    unlist(graph, block, &found.nodes);
    true
}

/// Whether a size would lose the node that computes it: one that the removed results name and that neither an
/// input of the model nor a parameter of the rule tells.
fn loses_a_size(graph: &Graph, rule: &Rule, found: &Match) -> bool {
    let mut kept = BTreeSet::new();
    for name in &rule.parameters {
        if let Some(value) = found.values.get(name) {
            kept.extend(symbols(&graph.values[*value].fact));
        }
    }
    let results = found.nodes.iter().flat_map(|n| graph.nodes[*n].outputs.iter().flatten());
    let named: Vec<SymId> = results.flat_map(|v| symbols(&graph.values[*v].fact)).collect();
    named.into_iter().any(|s| !graph.symbols.table[s].input && !kept.contains(&s))
}

fn symbols(fact: &Fact) -> Vec<SymId> {
    let mut all: Vec<SymId> = fact.known.iter().flatten().flat_map(|e| e.symbols()).collect();
    if let Type::Tensor(tensor) = &fact.ty {
        all.extend(tensor.shape.iter().flatten().flat_map(|e| e.symbols()));
    }
    all
}

/// What the run would check at these nodes.
fn checks(graph: &Graph, nodes: &[NodeId]) -> Vec<Check> {
    let all = nodes.iter().rev().flat_map(|n| graph.nodes[*n].checks.iter().cloned());
    all.filter(|check| check.holds.as_const().is_none_or(|holds| holds == 0)).collect()
}

/// Gives the new result the old one's name; false where an output of the model would lose its own.
fn take_name(graph: &mut Graph, uses: &Uses, block: BlockId, old: ValueId, new: ValueId) -> bool {
    let is_fresh = uses.count[new] == 0;
    let is_model_output = block == graph.root && uses.is_output[old];
    if !is_fresh {
        if !is_model_output {
            return true;
        }
        let is_inner = matches!(graph.values[new].def, Def::Node(id, _) if uses.block[id] == Some(graph.root));
        if !is_inner || uses.is_output[new] {
            return false;
        }
    }
    let name = std::mem::take(&mut graph.values[old].name);
    graph.values[old].name = format!("{name}~");
    graph.values[new].name = name;
    true
}

fn unlist(graph: &mut Graph, block: BlockId, nodes: &[NodeId]) {
    graph.blocks[block].nodes.retain(|n| !nodes.contains(n));
}

struct Building<'a> {
    graph: &'a mut Graph,
    block: BlockId,
    root: NodeId,
    found: &'a Match,
    lookup: &'a Lookup<'a>,
    values: BTreeMap<String, ValueId>,
    listed: Vec<NodeId>,
}

impl Building<'_> {
    /// The new result; `None` where something does not fit.
    fn build(&mut self, rule: &Rule) -> Option<ValueId> {
        match &rule.becomes {
            Replacement::Value(name) => self.value(name),
            Replacement::Nodes { constants, nodes } => {
                for constant in constants {
                    self.constant(constant)?;
                }
                for node in nodes {
                    self.node(node)?;
                }
                self.values.get(&rule.result).copied()
            }
        }
    }

    fn value(&self, name: &str) -> Option<ValueId> {
        self.values.get(name).or_else(|| self.found.values.get(name)).copied()
    }

    /// A name for a new value, after the result that it helps to compute.
    fn name(&self, name: &str) -> String {
        let result = self.graph.nodes[self.root].outputs.iter().flatten().next();
        let result = result.map_or("", |v| self.graph.values[*v].name.as_str());
        format!("{result}/{name}.{}", self.graph.values.next_id().0)
    }

    fn constant(&mut self, constant: &TextConstant) -> Option<()> {
        let element = |term| element(&worth(self.graph, self.found, term)?);
        let elements: Vec<_> = constant.elements.iter().map(element).collect::<Option<_>>()?;
        let name = self.name(&constant.name);
        let value = self.graph.add_constant(name, Tensor::from_scalars(constant.dtype, constant.dims.clone(), elements));
        self.values.insert(constant.name.clone(), value);
        Some(())
    }

    fn node(&mut self, node: &TextNode) -> Option<()> {
        let mut inputs = Vec::new();
        for input in &node.inputs {
            inputs.push(match input {
                Some(name) => Some(self.value(name)?),
                None => None,
            });
        }
        let Node { opset, origin } = self.of_root();
        let new = NewNode {
            op: (self.lookup)(&node.domain, &node.operator)?,
            opset,
            attributes: self.attributes(node)?,
            inputs,
            outputs: vec![Some(self.name(&node.output))],
            blocks: Vec::new(),
            origin,
        };
        let id = self.graph.insert_before(self.block, self.root, new).ok()?;
        self.listed.push(id);
        let value = self.graph.nodes[id].outputs[0]?;
        self.values.insert(node.output.clone(), value);
        // Weights and sizes are computed now, so that the graph is as cheap as it says.
        if let Some(Datum::Tensor(tensor)) = fold::evaluate(self.graph, id).and_then(|r| r.into_iter().next()) {
            let fact = constant_fact(&tensor);
            self.graph.refine(value, fact);
            self.graph.values[value].def = Def::Constant(tensor);
            self.listed.pop();
            unlist(self.graph, self.block, &[id]);
        }
        Some(())
    }

    fn of_root(&self) -> Node {
        let root = &self.graph.nodes[self.root];
        Node { opset: root.opset, origin: root.origin.clone() }
    }

    fn attributes(&self, node: &TextNode) -> Option<Attributes> {
        let mut out = match &node.rest {
            Some(rest) => self.found.rests.get(rest)?.clone(),
            None => Attributes::new(),
        };
        for (name, attribute) in &node.attributes {
            let value = match attribute {
                TextAttribute::Literal(literal) => Some(literal.clone()),
                TextAttribute::Term(term, default) => match worth(self.graph, self.found, term)? {
                    Worth::Attribute(attribute) => attribute.or_else(|| default.clone()),
                    _ => return None,
                },
            };
            out.extend(value.map(|value| (name.clone(), value)));
        }
        Some(out)
    }

    fn give_up(&mut self) {
        unlist(self.graph, self.block, &std::mem::take(&mut self.listed));
    }
}

/// What new nodes have from the root of the match.
struct Node {
    opset: i64,
    origin: oaaxc_base::Origin,
}
