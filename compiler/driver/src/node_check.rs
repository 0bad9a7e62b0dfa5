//! Every node's numbers beside `eval` on the operands of the same run: a node is judged by its own work,
//! not by what the nodes before it did.
//!
//! Promises: operands are the run's own tensors wherever the run kept them; between two kept tensors `eval`
//! computes what lies there. Integer results are equal, except that narrow ones which come from floats
//! (a requantisation) may be one quantum apart. Random results are taken as they are.

use std::collections::{BTreeMap, BTreeSet};

use oaaxc_base::{Diagnostic, Diagnostics};
use oaaxc_ir::eval::evaluate_replacing;
use oaaxc_ir::graph::{Def, NodeId};
use oaaxc_ir::kernel::Role;
use oaaxc_ir::program::{Instr, Program, SlotKind};
use oaaxc_ir::{DType, Datum, Graph, Tensor, Type, ValueId};
use oaaxc_passes::kernel::encode::Weights;
use oaaxc_target_api::Target;

use crate::data::{self, Comparison, Tolerance};
use crate::pipeline::{Clock, Options, Silent, finish, is_random, lower_for};
use crate::session::Opened;
use crate::{artefact, execute, targets};

/// Which tensors of the run are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// Those that the program stores in any case: its kernels, fused as they are, run unchanged.
    Stored,
    /// Every node's results, which leaves little to fuse: shows each node alone, accumulators too.
    Every,
}

/// One result of a node.
#[derive(Clone, Debug)]
pub struct Row {
    /// Graph, position and name of the node.
    pub node: String,
    /// `ai.onnx:Conv-11`.
    pub operator: String,
    /// The result's name.
    pub value: String,
    /// Element type.
    pub dtype: DType,
    /// Nodes that `eval` computed from kept tensors for it, itself included.
    pub nodes: usize,
    /// How far the run is from `eval`.
    pub comparison: Comparison,
    /// What is allowed.
    pub allowed: Allowed,
}

/// How far a result may be apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Allowed {
    /// Not at all: integers and bools.
    Equal,
    /// One step of a narrow integer that comes from floats.
    OneQuantum,
    /// Floats.
    Within(Tolerance),
}

/// What was run and how it compares.
pub struct Checked {
    /// One for each kept result, in the graph's order.
    pub rows: Vec<Row>,
    /// Code objects of the run, by level: with `Keep::Stored` those of the artefact.
    pub objects: Vec<Vec<u8>>,
}

/// Builds the graph for the target with the tensors kept, runs it on these inputs, evaluates every node.
pub fn check(
    graph: &Graph,
    target: &str,
    options: &Options,
    inputs: &[Tensor],
    keep: Keep,
    tolerance: Tolerance,
) -> Result<Checked, Diagnostics> {
    let target = targets::find(target).map_err(one)?;
    let (mut kept, objects) = run(graph, target.as_ref(), options, inputs, keep)?;
    let mut judge = Judge { graph, kept: &mut kept, pending: BTreeMap::new(), rows: Vec::new(), tolerance };
    let data = inputs.iter().cloned().map(Datum::from).collect();
    evaluate_replacing(graph, data, &mut |value, datum| judge.replace(value, datum)).map_err(one)?;
    Ok(Checked { rows: judge.rows, objects })
}

type Kept = BTreeMap<ValueId, Tensor>;

/// Runs the program with more outputs; they by the graph's values.
fn run(
    graph: &Graph,
    target: &dyn Target,
    options: &Options,
    inputs: &[Tensor],
    keep: Keep,
) -> Result<(Kept, Vec<Vec<u8>>), Diagnostics> {
    let mut graph = graph.clone();
    if keep == Keep::Every {
        let root = graph.root;
        let more: Vec<ValueId> = results(&graph).into_iter().filter(|v| !graph.blocks[root].outputs.contains(v)).collect();
        graph.blocks[root].outputs.extend(more);
    }
    let mut clock = Clock { times: Vec::new(), progress: &mut Silent };
    let (mut program, fused) = lower_for(&graph, target.device(), options, &mut clock, &mut |_, _| Ok(()))?;
    if keep == Keep::Stored {
        keep_stored(&mut program);
    }
    let names: Vec<String> = program.outputs.iter().map(|slot| program.slots[*slot].name.clone()).collect();
    let mut weights = Weights::default();
    let share = finish(program, fused, target, options, &mut weights, clock)?;
    let objects = share.code.levels.iter().map(|level| level.object.clone()).collect();
    let opened = Opened::package(&artefact::package(vec![share], weights, options.fallback), options.jobs).map_err(one)?;
    let outputs = execute::run(&opened.loaded, inputs).map_err(one)?;
    let values = by_name(&graph);
    let found = names.iter().zip(outputs).filter_map(|(name, tensor)| Some((*values.get(name.as_str())?.as_ref()?, tensor)));
    // A name could be another thing's: type and rank decide.
    Ok((found.filter(|(value, tensor)| is_like(&graph, *value, tensor)).collect(), objects))
}

/// Temporaries that a kernel of the main list writes and that have a name of their own become outputs.
fn keep_stored(program: &mut Program) {
    let mut count: BTreeMap<String, usize> = BTreeMap::new();
    program.slots.iter().for_each(|(_, slot)| *count.entry(slot.name.clone()).or_default() += 1);
    let mut written = BTreeSet::new();
    for instr in &program.body {
        let Instr::Launch(launch) = instr else { continue };
        for (slot, (_, buffer)) in launch.slots.iter().zip(launch.kernel.arguments()) {
            if buffer.role != Role::In {
                written.insert(*slot);
            }
        }
    }
    for slot in written {
        let is_plain = program.slots[slot].layout == Default::default();
        if matches!(program.slots[slot].kind, SlotKind::Temp) && is_plain && count[&program.slots[slot].name] == 1 {
            program.slots[slot].kind = SlotKind::Output;
            program.outputs.push(slot);
        }
    }
}

/// Tensors of known rank that nodes of the main graph give, in order.
pub fn results(graph: &Graph) -> Vec<ValueId> {
    let outputs = graph.root().nodes.iter().flat_map(|node| graph.nodes[*node].outputs.iter().flatten().copied());
    outputs.filter(|v| matches!(&graph.values[*v].fact.ty, Type::Tensor(t) if t.shape.is_some())).collect()
}

/// Results by name; `None` where two have the same.
fn by_name(graph: &Graph) -> BTreeMap<&str, Option<ValueId>> {
    let mut names = BTreeMap::new();
    for value in results(graph) {
        names.entry(graph.values[value].name.as_str()).and_modify(|known| *known = None).or_insert(Some(value));
    }
    names
}

fn is_like(graph: &Graph, value: ValueId, tensor: &Tensor) -> bool {
    let Type::Tensor(ty) = &graph.values[value].fact.ty else { return false };
    ty.dtype == tensor.dtype && ty.shape.as_ref().is_some_and(|shape| shape.len() == tensor.dims.len())
}

/// Compares values as `eval` computes them, and hands it the run's own.
struct Judge<'a> {
    graph: &'a Graph,
    kept: &'a mut Kept,
    /// Of values that only `eval` computed: how many nodes that took, and whether a narrow integer made of
    /// floats is among them.
    pending: BTreeMap<ValueId, (usize, bool)>,
    rows: Vec<Row>,
    tolerance: Tolerance,
}

impl Judge<'_> {
    fn replace(&mut self, value: ValueId, datum: Datum) -> Datum {
        let Def::Node(node, _) = self.graph.values[value].def else { return datum };
        let operands = self.graph.nodes[node].inputs.iter().flatten();
        let before: Vec<_> = operands.filter_map(|v| self.pending.get(v)).copied().collect();
        let nodes = 1 + before.iter().map(|(nodes, _)| nodes).sum::<usize>();
        let requantises = before.iter().any(|(_, requantises)| *requantises);
        let Datum::Tensor(reference) = &datum else { return datum };
        let requantises = is_narrow(reference.dtype) && (requantises || self.reads_floats(node));
        let Some(found) = self.kept.remove(&value) else {
            self.pending.insert(value, (nodes, requantises));
            return datum;
        };
        if is_random(&self.graph.nodes[node]) {
            return found.into();
        }
        let allowed = if reference.dtype.is_float() || reference.dtype.is_complex() {
            Allowed::Within(self.tolerance)
        } else if requantises {
            Allowed::OneQuantum
        } else {
            Allowed::Equal
        };
        let tolerance = match allowed {
            Allowed::Within(tolerance) => tolerance,
            Allowed::OneQuantum => Tolerance { absolute: 1.0, relative: 0.0 },
            Allowed::Equal => Tolerance { absolute: 0.0, relative: 0.0 },
        };
        let name = &self.graph.values[value].name;
        let comparison = data::compare(name, reference, &found, tolerance);
        let origin = &self.graph.nodes[node].origin;
        let label = if origin.node.is_empty() { format!("node {}", origin.index) } else { origin.node.to_string() };
        self.rows.push(Row {
            node: label,
            operator: origin.operator.to_string(),
            value: name.clone(),
            dtype: reference.dtype,
            nodes,
            comparison,
            allowed,
        });
        found.into()
    }
    fn reads_floats(&self, node: NodeId) -> bool {
        let mut operands = self.graph.nodes[node].inputs.iter().flatten();
        operands.any(|v| matches!(&self.graph.values[*v].fact.ty, Type::Tensor(t) if t.dtype.is_float()))
    }
}

/// An integer type that holds quantised numbers.
fn is_narrow(dtype: DType) -> bool {
    dtype.is_integer() && dtype.onnx_bits() <= 16
}

impl Row {
    /// The share of what is allowed that is used: above 1 is a failure.
    pub fn used(&self) -> f64 {
        let Some(d) = self.comparison.difference else { return f64::INFINITY };
        let limit = match self.allowed {
            Allowed::Equal => 0.0,
            Allowed::OneQuantum => 1.0,
            Allowed::Within(t) => t.absolute + t.relative * d.scale,
        };
        if d.max_abs == 0.0 { 0.0 } else { d.max_abs / limit }
    }
}

fn one(diagnostic: Diagnostic) -> Diagnostics {
    Diagnostics { items: vec![diagnostic] }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oaaxc_onnx::{ImportOptions, import_text};

    const MODEL: &str = r#"<ir_version: 8, opset_import: ["": 17]>
m (float[2] x) => (int32[2] i)
<uint8 zero = {0}, float scale = {0.5}>
{
   q = QuantizeLinear (x, scale, zero)
   i = Cast <to = 6> (q)
}
"#;

    /// The rows where the run kept these tensors.
    fn judged(q: &[i64], i: Option<&[i64]>) -> Vec<(String, bool)> {
        let imported = import_text(MODEL, "m", &ImportOptions::default());
        let graph = imported.unwrap_or_else(|d| panic!("{:?}", d.items)).graph;
        let names = by_name(&graph);
        let value = |name: &str| names[name].expect("named once");
        let mut kept = BTreeMap::from([(value("q"), Tensor::from_i64s(DType::U8, vec![2], q.iter().copied()))]);
        if let Some(i) = i {
            kept.insert(value("i"), Tensor::from_i64s(DType::I32, vec![2], i.iter().copied()));
        }
        let mut judge =
            Judge { graph: &graph, kept: &mut kept, pending: BTreeMap::new(), rows: Vec::new(), tolerance: data::TOLERANCE };
        let inputs = vec![Tensor::from_f32s(vec![2], &[1.0, 2.0]).into()];
        evaluate_replacing(&graph, inputs, &mut |value, datum| judge.replace(value, datum)).expect("it evaluates");
        judge.rows.into_iter().map(|row| (row.value, row.comparison.within)).collect()
    }

    #[test]
    fn a_node_is_judged_on_the_operands_of_the_run() {
        // 1.0 is 2 quanta, 2.0 is 4: one quantum apart is allowed, and the cast goes on from there.
        assert_eq!(judged(&[3, 4], Some(&[3, 4])), [("q".to_string(), true), ("i".to_string(), true)]);
        assert_eq!(judged(&[2, 4], Some(&[3, 4])), [("q".to_string(), true), ("i".to_string(), false)]);
        assert_eq!(judged(&[2, 6], None), [("q".to_string(), false)]);
    }
}
