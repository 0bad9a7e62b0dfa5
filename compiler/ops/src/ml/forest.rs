//! The trees of an ensemble, flattened: every node of every tree in one list, leaves pointing at themselves.

use std::collections::BTreeMap;

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::ReadAttributes;

type Result<T> = std::result::Result<T, Diagnostic>;

/// How a node compares a feature with its value.
pub const MODES: [&str; 6] = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"];

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Which feature is compared.
    pub feature: usize,
    /// With what.
    pub value: f32,
    /// An index into `MODES`; anything behind is a leaf.
    pub mode: usize,
    /// A missing feature (NaN) counts as true.
    pub missing: bool,
    /// The node for true and the node for false.
    pub next: [usize; 2],
}

/// All trees.
#[derive(Clone, Debug)]
pub struct Forest {
    /// Every node.
    pub nodes: Vec<Node>,
    /// The root of each tree.
    pub roots: Vec<usize>,
    /// Most steps from a root to a leaf.
    pub depth: usize,
    /// What each leaf adds: `nodes.len() × outputs`, row-major.
    pub weights: Vec<f32>,
    /// Number of scores.
    pub outputs: usize,
    /// What the scores begin with; one per score.
    pub base: Vec<f32>,
}

impl Forest {
    /// Reads the `nodes_*` attributes and the weights, whose attributes begin with `prefix` ("class" or "target").
    pub fn read(cx: &impl ReadAttributes, prefix: &str, outputs: usize) -> Result<Forest> {
        let ints = |name: &str| -> Result<Vec<i64>> { Ok(cx.ints(name)?.unwrap_or_default()) };
        let (trees, ids) = (ints("nodes_treeids")?, ints("nodes_nodeids")?);
        let (yes, no, features) = (ints("nodes_truenodeids")?, ints("nodes_falsenodeids")?, ints("nodes_featureids")?);
        let values = cx.floats("nodes_values")?.unwrap_or_default();
        let modes = cx.texts("nodes_modes")?.unwrap_or_default();
        let missing = ints("nodes_missing_value_tracks_true")?;
        let n = trees.len();
        if [ids.len(), yes.len(), no.len(), features.len(), values.len(), modes.len()].iter().any(|l| *l != n) {
            return Err(cx.fail(Code::ATTRIBUTE, "the `nodes_…` attributes must have equal lengths"));
        }
        let place: BTreeMap<(i64, i64), usize> = (0..n).map(|i| ((trees[i], ids[i]), i)).collect();
        let find = |tree: i64, node: i64| {
            let message = || cx.fail(Code::ATTRIBUTE, format!("tree {tree} has no node {node}"));
            place.get(&(tree, node)).copied().ok_or_else(message)
        };
        let mut nodes = Vec::with_capacity(n);
        let mut is_child = vec![false; n];
        for i in 0..n {
            let mode = MODES.iter().position(|m| m.as_bytes() == modes[i]).unwrap_or(MODES.len());
            if mode == MODES.len() && modes[i] != b"LEAF" {
                return Err(cx.fail(Code::ATTRIBUTE, format!("mode {} is not known", String::from_utf8_lossy(&modes[i]))));
            }
            let next = if mode == MODES.len() { [i, i] } else { [find(trees[i], yes[i])?, find(trees[i], no[i])?] };
            if mode < MODES.len() {
                next.iter().for_each(|c| is_child[*c] = true);
            }
            let feature = usize::try_from(features[i]).map_err(|_| cx.fail(Code::ATTRIBUTE, "a feature is negative"))?;
            nodes.push(Node { feature, value: values[i], mode, missing: missing.get(i) == Some(&1), next });
        }
        let roots: Vec<usize> = (0..n).filter(|i| !is_child[*i]).collect();
        let depth = depth(&nodes, &roots).ok_or_else(|| cx.fail(Code::ATTRIBUTE, "a tree leads back to itself"))?;
        let mut weights = vec![0.0; n * outputs];
        let (tree, node, to) =
            (ints(&format!("{prefix}_treeids"))?, ints(&format!("{prefix}_nodeids"))?, ints(&format!("{prefix}_ids"))?);
        let w = cx.floats(&format!("{prefix}_weights"))?.unwrap_or_default();
        for (((t, i), o), w) in tree.iter().zip(&node).zip(&to).zip(&w) {
            let o = usize::try_from(*o).ok().filter(|o| *o < outputs);
            let o = o.ok_or_else(|| cx.fail(Code::ATTRIBUTE, format!("`{prefix}_ids` names none of {outputs} scores")))?;
            weights[find(*t, *i)? * outputs + o] += w;
        }
        let mut base = cx.floats("base_values")?.unwrap_or_default();
        base.resize(outputs, 0.0);
        Ok(Forest { nodes, roots, depth, weights, outputs, base })
    }
    /// The leaf that a row of features reaches from a root.
    pub fn leaf(&self, root: usize, x: &[f64]) -> usize {
        let mut at = root;
        for _ in 0..self.depth {
            let node = &self.nodes[at];
            let (v, t) = (x.get(node.feature).copied().unwrap_or(f64::NAN) as f32, node.value);
            let holds = [v <= t, v < t, v >= t, v > t, v == t, v != t].get(node.mode).copied().unwrap_or(true);
            at = node.next[usize::from(!(holds || node.missing && v.is_nan()))];
        }
        at
    }
}

/// The longest path; `None` where there is a cycle.
fn depth(nodes: &[Node], roots: &[usize]) -> Option<usize> {
    let (mut level, mut steps) = (roots.to_vec(), 0);
    loop {
        level = level.iter().filter(|i| nodes[**i].mode < MODES.len()).flat_map(|i| nodes[*i].next).collect();
        if level.is_empty() {
            return Some(steps);
        }
        steps += 1;
        if steps > nodes.len() || level.len() > nodes.len() {
            return None;
        }
    }
}
