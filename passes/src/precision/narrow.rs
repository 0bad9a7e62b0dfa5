//! Half precision: contractions, and what lies between two of them, take float16 or bfloat16 operands.
//!
//! A contraction is narrow where its constants and its measured activations fit the type; where only the weights do,
//! they alone are narrow. A node that follows its neighbours is narrow where a narrow result comes in and a
//! contraction that takes narrow operands lies behind it: so nothing is rounded on the way to an output. Tables that
//! are looked up are narrow too. Everything else reads f32, through casts that fusion puts where the tensors are
//! stored.

use std::collections::{BTreeMap, BTreeSet};

use oaaxc_base::Diagnostic;
use oaaxc_ir::graph::Def;
use oaaxc_ir::{DType, Graph, NodeId, Tensor, ValueId};
use oaaxc_ops::precision::{Kind, Operands, kind};

use super::{
    Casts, Ranges, Role, Row, add_constant, cast_to, constant_error, dtype, fits, has_rank, label, most, name_of, new_node,
    only_result,
};

/// Constants of at least so many elements are worth a row in the table, and a lookup in so large a one a narrow table.
const WORTH: usize = 1024;

/// How a node is narrowed.
#[derive(Clone, PartialEq, Debug)]
enum Plan {
    /// Its operands and results.
    Whole,
    /// Its constants alone, for this reason.
    Weights(String),
    /// Not at all.
    Not(String),
}

struct Pass<'a> {
    graph: &'a mut Graph,
    to: DType,
    ranges: &'a Ranges,
    /// Activations stay in f32.
    weights_alone: bool,
    casts: Casts,
    constants: BTreeMap<ValueId, ValueId>,
    rows: Vec<Row>,
}

/// Narrows what may be. Returns the table.
/// With `weights_alone` activations stay in f32, and contractions widen their constants as they load them.
pub fn narrow(graph: &mut Graph, to: DType, ranges: &Ranges, weights_alone: bool) -> Result<Vec<Row>, Diagnostic> {
    let (casts, constants) = (Casts::default(), BTreeMap::new());
    let mut pass = Pass { graph, to, ranges, weights_alone, casts, constants, rows: Vec::new() };
    let plans = pass.plans();
    let narrowed = pass.rewrite(&plans)?;
    pass.restore(&plans, &narrowed)?;
    Ok(pass.rows)
}

impl Pass<'_> {
    /// Positions of operands that are f32 and would be narrow.
    fn operands(&self, id: NodeId) -> Vec<usize> {
        let node = &self.graph.nodes[id];
        let is_float =
            |at: &usize| node.inputs.get(*at).copied().flatten().is_some_and(|v| dtype(self.graph, v) == Some(DType::F32));
        let wanted: Vec<usize> = match kind(node.op) {
            Kind::Contraction(_) => vec![0, 1],
            Kind::Follows(Operands::All) => (0..node.inputs.len()).collect(),
            Kind::Follows(Operands::At(at)) => at.to_vec(),
            Kind::Wide(_) => vec![],
        };
        wanted.into_iter().filter(is_float).collect()
    }
    fn operand(&self, id: NodeId, at: usize) -> ValueId {
        self.graph.nodes[id].inputs[at].expect("only given operands are listed")
    }
    /// Why a value does not fit the type, where it does not.
    fn too_large(&self, value: ValueId) -> Option<String> {
        let most = most(self.to);
        let found = match self.graph.constant(value) {
            Some(tensor) => fits(tensor, most).err(),
            None => {
                let range = self.ranges.get(&value)?;
                let largest = f64::from(range.low.abs().max(range.high.abs()));
                (largest > most).then_some(largest)
            }
        };
        found.map(|largest| format!("{:.3e} is beyond {}", largest, most))
    }
    /// What becomes of each node of the root block.
    fn plans(&mut self) -> BTreeMap<NodeId, Plan> {
        let mut plans = BTreeMap::new();
        // Values that a narrow node gives, if what lies behind wants it so.
        let mut comes: BTreeSet<ValueId> = BTreeSet::new();
        let nodes = self.graph.root().nodes.clone();
        for &id in &nodes {
            let plan = self.plan(id, &comes);
            if plan == Plan::Whole {
                comes.extend(self.graph.nodes[id].outputs.iter().flatten().copied());
            }
            plans.insert(id, plan);
        }
        let mut wanted: BTreeSet<ValueId> = BTreeSet::new();
        for &id in nodes.iter().rev() {
            if plans[&id] != Plan::Whole {
                continue;
            }
            let is_contraction = matches!(kind(self.graph.nodes[id].op), Kind::Contraction(_));
            let is_table = self.operands(id).iter().all(|at| self.graph.constant(self.operand(id, *at)).is_some());
            let is_wanted = self.graph.nodes[id].outputs.iter().flatten().any(|v| wanted.contains(v));
            if is_contraction || is_table || is_wanted {
                wanted.extend(self.operands(id).into_iter().map(|at| self.operand(id, at)));
            } else {
                plans.insert(id, Plan::Not(String::new()));
            }
        }
        plans
    }
    fn plan(&self, id: NodeId, comes: &BTreeSet<ValueId>) -> Plan {
        let node = &self.graph.nodes[id];
        let operands = self.operands(id);
        let results: Vec<ValueId> = node.outputs.iter().flatten().copied().collect();
        let kind = kind(node.op);
        if operands.is_empty() || !results.iter().all(|v| has_rank(self.graph, *v)) {
            return Plan::Not(String::new());
        }
        let (constants, computed): (Vec<_>, Vec<_>) =
            operands.iter().map(|at| self.operand(id, *at)).partition(|v| self.graph.constant(*v).is_some());
        match kind {
            Kind::Contraction(_) if operands.len() == 2 => {
                if let Some(why) = constants.iter().find_map(|v| self.too_large(*v)) {
                    return Plan::Not(format!("a weight of {why}"));
                }
                if self.weights_alone {
                    let plan = if constants.is_empty() { Plan::Not } else { Plan::Weights };
                    return plan("activations stay in f32".into());
                }
                match computed.iter().chain(&results).find_map(|v| self.too_large(*v)) {
                    Some(why) if constants.is_empty() => Plan::Not(format!("an activation of {why}")),
                    Some(why) => Plan::Weights(format!("an activation of {why}")),
                    None => Plan::Whole,
                }
            }
            Kind::Follows(_) => {
                let is_table =
                    computed.is_empty() && constants.iter().any(|v| self.graph.constant(*v).is_some_and(|t| t.len() >= WORTH));
                let follows = !self.weights_alone && computed.iter().any(|v| comes.contains(v));
                if !is_table && !follows {
                    return Plan::Not(String::new());
                }
                match constants.iter().chain(&computed).chain(&results).find_map(|v| self.too_large(*v)) {
                    Some(why) => Plan::Not(why),
                    None => Plan::Whole,
                }
            }
            _ => Plan::Not(String::new()),
        }
    }
    /// The constant in the narrow type.
    fn constant(&mut self, value: ValueId, tensor: &Tensor, node: NodeId, reason: &str) -> ValueId {
        if let Some(done) = self.constants.get(&value) {
            return *done;
        }
        let narrow = convert(tensor, self.to);
        if tensor.len() > 1 {
            self.rows.push(Row {
                tensor: self.graph.values[value].name.clone(),
                node: label(self.graph, node),
                role: Role::Weight,
                from: DType::F32,
                to: self.to,
                reason: reason.into(),
                error: Some(constant_error(tensor, narrow.scalars().map(|s| s.as_f64()))),
                values: None,
            });
        }
        let name = name_of(self.graph, value, self.to.name());
        let new = add_constant(self.graph, name, narrow);
        self.constants.insert(value, new);
        new
    }
    /// Gives the narrow nodes narrow operands; returns the values that are narrow now.
    fn rewrite(&mut self, plans: &BTreeMap<NodeId, Plan>) -> Result<BTreeSet<ValueId>, Diagnostic> {
        let mut narrowed = BTreeSet::new();
        for id in self.graph.root().nodes.clone() {
            match plans.get(&id) {
                Some(Plan::Whole) => self.whole(id, &mut narrowed)?,
                Some(Plan::Weights(why)) => self.weights(id, why)?,
                Some(Plan::Not(why)) => self.kept(id, why),
                None => {}
            }
        }
        Ok(narrowed)
    }
    fn whole(&mut self, id: NodeId, narrowed: &mut BTreeSet<ValueId>) -> Result<(), Diagnostic> {
        let root = self.graph.root;
        let mut inputs = self.graph.nodes[id].inputs.clone();
        // Operands that are narrow already keep their places.
        for at in self.operands(id) {
            let value = self.operand(id, at);
            inputs[at] = Some(match self.graph.constant(value).cloned() {
                Some(tensor) => self.constant(value, &tensor, id, "its products are summed in f32"),
                None => {
                    let known = self.casts.0.len();
                    let cast = self.casts.get(self.graph, root, value, self.to, id)?;
                    if known < self.casts.0.len() {
                        self.row(value, cast, id, "cast before a contraction");
                    }
                    cast
                }
            });
        }
        let before: Vec<ValueId> = self.graph.nodes[id].outputs.iter().flatten().copied().collect();
        let floats: Vec<ValueId> = before.into_iter().filter(|v| dtype(self.graph, *v) == Some(DType::F32)).collect();
        self.graph.retype(id, inputs)?;
        let is_contraction = matches!(kind(self.graph.nodes[id].op), Kind::Contraction(_));
        for value in floats.into_iter().filter(|v| dtype(self.graph, *v) == Some(self.to)).collect::<Vec<_>>() {
            narrowed.insert(value);
            self.row(value, value, id, if is_contraction { "summed in f32, rounded once" } else { "between contractions" });
        }
        Ok(())
    }
    fn row(&mut self, before: ValueId, after: ValueId, node: NodeId, reason: &str) {
        self.rows.push(Row {
            tensor: self.graph.values[before].name.clone(),
            node: label(self.graph, node),
            role: Role::Activation,
            from: DType::F32,
            to: self.to,
            reason: reason.into(),
            error: None,
            values: Some((before, after)),
        });
    }
    /// The node reads its weights through casts that its kernel does as it loads them.
    fn weights(&mut self, id: NodeId, why: &str) -> Result<(), Diagnostic> {
        let root = self.graph.root;
        let mut inputs = self.graph.nodes[id].inputs.clone();
        for at in self.operands(id) {
            let value = self.operand(id, at);
            let Some(tensor) = self.graph.constant(value).cloned() else {
                self.keep(value, id, Role::Activation, why);
                continue;
            };
            let narrow = self.constant(value, &tensor, id, &format!("weights alone: {why}"));
            let name = name_of(self.graph, value, "wide");
            let new = new_node(self.graph, id, "Cast", &[Some(narrow)], cast_to(DType::F32), name);
            let node = self.graph.insert_before(root, id, new)?;
            inputs[at] = Some(only_result(self.graph, node));
        }
        self.graph.rewire(id, inputs);
        Ok(())
    }
    /// Rows for what a node keeps in f32 although it is large or a contraction's.
    fn kept(&mut self, id: NodeId, why: &str) {
        let node = &self.graph.nodes[id];
        let reason = match kind(node.op) {
            Kind::Wide(reason) if why.is_empty() => reason.to_string(),
            _ if why.is_empty() => return,
            _ => why.to_string(),
        };
        for value in node.inputs.clone().into_iter().flatten() {
            let is_large = self.graph.constant(value).is_some_and(|t| t.dtype == DType::F32 && t.len() >= WORTH);
            if is_large {
                self.keep(value, id, Role::Weight, &reason);
            }
        }
        if !why.is_empty() {
            for value in self.graph.nodes[id].outputs.clone().into_iter().flatten() {
                self.keep(value, id, Role::Activation, why);
            }
        }
    }
    fn keep(&mut self, value: ValueId, node: NodeId, role: Role, reason: &str) {
        let tensor = self.graph.values[value].name.clone();
        if dtype(self.graph, value) != Some(DType::F32) || self.rows.iter().any(|r| r.tensor == tensor && r.role == role) {
            return;
        }
        let (node, reason) = (label(self.graph, node), reason.to_string());
        self.rows.push(Row { tensor, node, role, from: DType::F32, to: DType::F32, reason, error: None, values: None });
    }
    /// Whoever reads a narrow value and is not narrow itself reads it in f32 again; outputs keep their names.
    fn restore(&mut self, plans: &BTreeMap<NodeId, Plan>, narrowed: &BTreeSet<ValueId>) -> Result<(), Diagnostic> {
        let root = self.graph.root;
        for id in self.graph.listed_nodes() {
            let made_here = self.casts.0.values().any(|v| matches!(self.graph.values[*v].def, Def::Node(n, _) if n == id));
            if plans.get(&id) == Some(&Plan::Whole) || made_here {
                continue;
            }
            let mut inputs = self.graph.nodes[id].inputs.clone();
            let mut changed = false;
            for input in inputs.iter_mut().flatten() {
                if narrowed.contains(input) {
                    *input = self.casts.get(self.graph, root, *input, DType::F32, id)?;
                    changed = true;
                }
            }
            if changed {
                self.graph.rewire(id, inputs);
            }
        }
        for block in self.graph.blocks.ids().collect::<Vec<_>>() {
            for at in 0..self.graph.blocks[block].outputs.len() {
                let value = self.graph.blocks[block].outputs[at];
                let (true, Def::Node(giver, _)) = (narrowed.contains(&value), &self.graph.values[value].def) else { continue };
                let giver = *giver;
                let wide = self.casts.get(self.graph, root, value, DType::F32, giver)?;
                self.graph.blocks[block].outputs[at] = wide;
                if block == root {
                    let name = self.graph.values[value].name.clone();
                    let narrow = name_of(self.graph, value, self.to.name());
                    self.graph.rename(wide, name);
                    self.graph.rename(value, narrow);
                }
            }
        }
        Ok(())
    }
}

/// The tensor in another element type; a splat stays one.
fn convert(tensor: &Tensor, to: DType) -> Tensor {
    match tensor.as_splat() {
        Some(value) if tensor.len() > 1 => Tensor::splat(value.cast(to), tensor.dims.clone()),
        _ => Tensor::from_scalars(to, tensor.dims.clone(), tensor.scalars()),
    }
}
