//! Finds a rule's pattern in a graph.
//!
//! A match never takes a value that anyone else needs: what lies inside the pattern is used by the pattern alone.

use std::collections::BTreeMap;

use oaaxc_base::SideTable;
use oaaxc_ir::graph::{Attributes, BlockId, Def};
use oaaxc_ir::{Attribute, Graph, Node, NodeId, ValueId};

use super::functions::holds;
use super::text::{Book, Rule, Term, TextAttribute, TextNode};

/// Who uses each value, and where each node stands.
pub struct Uses {
    /// Operands of listed nodes and outputs of listed blocks.
    pub count: SideTable<ValueId, usize>,
    /// Whether it is an output of a block.
    pub is_output: SideTable<ValueId, bool>,
    /// The block of each listed node.
    pub block: SideTable<NodeId, Option<BlockId>>,
}

impl Uses {
    /// Of all listed nodes.
    pub fn of(graph: &Graph) -> Uses {
        let mut uses = Uses { count: SideTable::new(0), is_output: SideTable::new(false), block: SideTable::new(None) };
        uses.visit(graph, graph.root);
        uses
    }
    fn visit(&mut self, graph: &Graph, block: BlockId) {
        for &value in &graph.blocks[block].outputs {
            self.count.set(value, self.count[value] + 1);
            self.is_output.set(value, true);
        }
        for &id in &graph.blocks[block].nodes {
            self.block.set(id, Some(block));
            for &value in graph.nodes[id].inputs.iter().flatten() {
                self.count.set(value, self.count[value] + 1);
            }
            for &body in &graph.nodes[id].blocks {
                self.visit(graph, body);
            }
        }
    }
}

/// What a pattern has bound.
#[derive(Clone, Debug, Default)]
pub struct Match {
    /// Values by the rule's names.
    pub values: BTreeMap<String, ValueId>,
    /// Attributes by the rule's names; `None` where absent.
    pub attributes: BTreeMap<String, Option<Attribute>>,
    /// All other attributes of a node.
    pub rests: BTreeMap<String, Attributes>,
    /// The nodes that the pattern covers, the root first.
    pub nodes: Vec<NodeId>,
}

/// The first way in which a rule's pattern ends at this node and its conditions hold.
pub fn find(graph: &Graph, uses: &Uses, book: &Book, rule: &Rule, root: NodeId) -> Option<Match> {
    let matcher = Matcher { graph, uses, book, rule, block: uses.block[root]? };
    let found = matcher.node(Match::default(), rule.pattern.len() - 1, root);
    found.into_iter().find(|found| rule.conditions.iter().all(|condition| holds(graph, found, condition)))
}

struct Matcher<'a> {
    graph: &'a Graph,
    uses: &'a Uses,
    book: &'a Book,
    rule: &'a Rule,
    block: BlockId,
}

impl Matcher<'_> {
    /// Every way in which a node is the pattern's node of this number.
    fn node(&self, mut so_far: Match, number: usize, id: NodeId) -> Vec<Match> {
        let (pattern, node) = (&self.rule.pattern[number], &self.graph.nodes[id]);
        if node.op.name != pattern.operator || node.op.domain != pattern.domain || !node.blocks.is_empty() {
            return Vec::new();
        }
        // The rule speaks of the first result only: nobody may ask for another one.
        let Some(Some(result)) = node.outputs.first().copied() else { return Vec::new() };
        if node.outputs.iter().skip(1).flatten().any(|v| self.uses.count[*v] > 0) {
            return Vec::new();
        }
        if bind(&mut so_far.values, &pattern.output, result).is_none() || attributes(&mut so_far, pattern, node).is_none() {
            return Vec::new();
        }
        so_far.nodes.push(id);
        let given = node.inputs.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        if given < pattern.inputs.iter().flatten().count() || (!pattern.open && pattern.inputs.len() < given) {
            return Vec::new();
        }
        let operands: Vec<Option<ValueId>> = (0..pattern.inputs.len()).map(|i| node.inputs.get(i).copied().flatten()).collect();
        let mut found = self.operands(so_far.clone(), &pattern.inputs, &operands);
        if operands.len() == 2 && self.book.commutative.contains(&pattern.operator) {
            let swapped = [operands[1], operands[0]];
            found.extend(self.operands(so_far, &pattern.inputs, &swapped));
        }
        found
    }

    fn operands(&self, so_far: Match, names: &[Option<String>], operands: &[Option<ValueId>]) -> Vec<Match> {
        let mut all = vec![so_far];
        for (name, operand) in names.iter().zip(operands) {
            all = all.into_iter().flat_map(|so_far| self.operand(so_far, name.as_deref(), *operand)).collect();
        }
        all
    }

    fn operand(&self, mut so_far: Match, name: Option<&str>, operand: Option<ValueId>) -> Vec<Match> {
        let (Some(name), Some(value)) = (name, operand) else {
            return if name.is_none() && operand.is_none() { vec![so_far] } else { Vec::new() };
        };
        if let Some(bound) = so_far.values.get(name) {
            return if *bound == value { vec![so_far] } else { Vec::new() };
        }
        let Some(number) = self.rule.pattern.iter().position(|node| node.output == name) else {
            so_far.values.insert(name.to_string(), value);
            return vec![so_far];
        };
        let mentions = self.rule.pattern.iter().flat_map(|node| &node.inputs).filter(|i| i.as_deref() == Some(name)).count();
        match &self.graph.values[value].def {
            Def::Node(id, 0) if self.uses.count[value] == mentions && self.uses.block[*id] == Some(self.block) => {
                self.node(so_far, number, *id)
            }
            _ => Vec::new(),
        }
    }
}

fn bind(values: &mut BTreeMap<String, ValueId>, name: &str, value: ValueId) -> Option<()> {
    (*values.entry(name.to_string()).or_insert(value) == value).then_some(())
}

/// Binds a node's attributes; `None` where one differs from the pattern's or is not named by it.
fn attributes(so_far: &mut Match, pattern: &TextNode, node: &Node) -> Option<()> {
    let mut others = node.attributes.clone();
    for (name, wanted) in &pattern.attributes {
        let given = others.remove(name);
        match wanted {
            TextAttribute::Literal(literal) => (given.as_ref() == Some(literal)).then_some(())?,
            TextAttribute::Term(Term::Attribute(bound), default) => {
                let given = given.or_else(|| default.clone());
                if *so_far.attributes.entry(bound.clone()).or_insert_with(|| given.clone()) != given {
                    return None;
                }
            }
            TextAttribute::Term(..) => return None,
        }
    }
    match &pattern.rest {
        Some(rest) => drop(so_far.rests.insert(rest.clone(), others)),
        None if others.is_empty() => {}
        None => return None,
    }
    Some(())
}
