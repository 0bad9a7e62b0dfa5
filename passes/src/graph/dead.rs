//! Dead code: nodes none of whose results are used are unlisted.

use oaaxc_base::SideTable;
use oaaxc_ir::{BlockId, Graph, ValueId};

/// Unlists dead nodes; returns how many.
pub fn dead(graph: &mut Graph) -> usize {
    let mut used: SideTable<ValueId, bool> = SideTable::new(false);
    let mut removed = 0;
    for &value in &graph.root().outputs {
        used.set(value, true);
    }
    sweep(graph, graph.root, &mut used, &mut removed);
    removed
}

/// Walks a block from its end; its outputs are already marked.
fn sweep(graph: &mut Graph, block: BlockId, used: &mut SideTable<ValueId, bool>, removed: &mut usize) {
    let mut kept = Vec::new();
    for &id in graph.blocks[block].nodes.clone().iter().rev() {
        let node = &graph.nodes[id];
        if !node.outputs.iter().flatten().any(|v| used[*v]) {
            *removed += 1;
            continue;
        }
        kept.push(id);
        for value in node.inputs.iter().flatten() {
            used.set(*value, true);
        }
        for body in node.blocks.clone() {
            for value in graph.blocks[body].outputs.clone() {
                used.set(value, true);
            }
            sweep(graph, body, used, removed);
        }
    }
    kept.reverse();
    graph.blocks[block].nodes = kept;
}
