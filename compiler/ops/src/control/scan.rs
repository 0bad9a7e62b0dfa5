//! Scan: a body runs over slices of its inputs, carrying states, and its other outputs are stacked.

use oaaxc_base::{Code, Diagnostic, EntityId};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::graph::{Attribute, BlockId};
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef};
use oaaxc_ir::operands::ReadOperands;
use oaaxc_ir::program::Instr;
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::types::Fact;
use oaaxc_ir::upgrade::UpgradeCx;
use oaaxc_ir::{Datum, Node, ReadAttributes, Type};

use super::repeat::{State, outside};
use super::scan_output::{ScanOutput, stack};
use super::{Bodies, FIRST_INNER, is_outer};

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static SCAN: OpDef = OpDef { name: "Scan", domain: "", upgrade, infer, eval, lower: Lower::Host(lower) };

/// Its body: states, then slices.
pub static SCAN_BODIES: Bodies = Bodies { attributes: &["body"], inputs, decided: |_, _| None, carried };

fn upgrade(cx: &mut UpgradeCx) -> Result<()> {
    if cx.version < 9 {
        let message = "opset 8's form (with a batch dim and sequence lengths) is not supported";
        return Err(cx.fail(Code::UNSUPPORTED, message).help("convert the model to opset 9 or newer"));
    }
    Ok(())
}

/// Numbers of states and of scanned inputs.
fn counts(node: &Node) -> Result<(usize, usize)> {
    let scanned = usize::try_from(node.required_int("num_scan_inputs")?).unwrap_or(0);
    match node.inputs.len().checked_sub(scanned) {
        Some(states) if scanned > 0 => Ok((states, scanned)),
        _ => Err(node.fail(Code::ATTRIBUTE, format!("num_scan_inputs is {scanned} of {} inputs", node.inputs.len()))),
    }
}

/// Entry `i` of a list attribute; 0 where it is left out.
fn entry(node: &Node, name: &str, i: usize) -> Result<i64> {
    Ok(node.ints(name)?.and_then(|list| list.get(i).copied()).unwrap_or(0))
}

/// The axis that entry `i` of a list attribute names in a tensor of this rank.
fn axis(node: &Node, name: &str, i: usize, rank: usize) -> Result<usize> {
    oaaxc_ir::attributes::normalize_axis(node, entry(node, name, i)?, rank)
}

fn inputs(cx: &mut UpgradeCx) -> Result<Vec<Fact>> {
    let first = cx.graph.symbols.table.next_id().index() as i64;
    cx.set(FIRST_INNER, Attribute::Int(first));
    let (states, scanned) = counts(cx.node)?;
    let mut facts = Vec::new();
    for i in 0..states {
        facts.push(cx.fact(i)?.clone());
    }
    for i in 0..scanned {
        let (dtype, mut shape) = (cx.dtype(states + i)?, cx.shape(states + i)?);
        shape.remove(axis(cx.node, "scan_input_axes", i, shape.len())?);
        facts.push(Fact::of(Type::tensor(dtype, shape)));
    }
    Ok(facts)
}

fn carried(node: &Node) -> Vec<(usize, usize)> {
    counts(node).map_or(Vec::new(), |(states, _)| (0..states).map(|i| (i, i)).collect())
}

fn body(node: &Node, outputs: usize, graph: &oaaxc_ir::Graph) -> Result<BlockId> {
    let &[block] = &node.blocks[..] else { return Err(node.fail(Code::STRUCTURE, "a Scan has one body")) };
    let given = graph.blocks[block].outputs.len();
    if given != outputs || outputs < counts(node)?.0 {
        return Err(node.fail(Code::STRUCTURE, format!("the body gives {given} values, {outputs} are wanted")));
    }
    Ok(block)
}

/// The number of iterations: the size of the first scanned input along its axis.
fn trips(cx: &impl ReadOperands, i: usize) -> Result<Expr> {
    let (states, _) = counts(cx.node())?;
    let shape = cx.shape(states + i)?;
    Ok(shape[axis(cx.node(), "scan_input_axes", i, shape.len())?].clone())
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let block = body(cx.node, cx.output_count(), cx.graph)?;
    let (states, scanned) = counts(cx.node)?;
    let count = trips(cx, 0)?;
    for i in 1..scanned {
        let other = trips(cx, i)?;
        cx.require_equal(&count, &other, "the scanned inputs must have one length")?;
    }
    let block = &cx.graph.blocks[block];
    for i in 0..cx.output_count() {
        if i < states {
            let held = cx.graph.values[block.inputs[i]].fact.clone();
            let fact = outside(cx, held, "state")?;
            cx.set_fact(i, fact);
            continue;
        }
        let Type::Tensor(tensor) = cx.graph.values[block.outputs[i]].fact.ty.clone() else {
            return Err(cx.fail(Code::TYPE, format!("the scan output {i} must be a tensor")));
        };
        let Some(shape) = tensor.shape else {
            return Err(cx.fail(Code::RANK, format!("the rank of the scan output {i} is not known")));
        };
        let at = axis(cx.node, "scan_output_axes", i - states, shape.len() + 1)?;
        let mut dims = Vec::new();
        for size in shape {
            dims.push(if is_outer(cx, &size) { size } else { cx.fresh("scanned") });
        }
        dims.insert(at, count.clone());
        cx.set(i, tensor.dtype, dims);
    }
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let block = *cx.node.blocks.first().ok_or_else(|| cx.fail(Code::STRUCTURE, "a Scan has one body"))?;
    let (states, scanned) = counts(cx.node)?;
    let mut state = (0..states).map(|i| cx.datum(i).cloned()).collect::<Result<Vec<_>>>()?;
    let mut outputs: Vec<Vec<Tensor>> = vec![Vec::new(); cx.output_count().saturating_sub(states)];
    let first = cx.input(states)?;
    let trips = first.dims[axis(cx.node, "scan_input_axes", 0, first.rank())?];
    for number in 0..trips {
        let mut inputs = state;
        for i in 0..scanned {
            let tensor = cx.input(states + i)?;
            let at = axis(cx.node, "scan_input_axes", i, tensor.rank())?;
            if tensor.dims[at] != trips {
                return Err(cx.fail(Code::SHAPE, "the scanned inputs must have one length"));
            }
            let place = if entry(cx.node, "scan_input_directions", i)? == 0 { number } else { trips - 1 - number };
            let mut dims = tensor.dims.clone();
            dims.remove(at);
            let slice = tensor.gathered(dims, |c| {
                let mut full = c.to_vec();
                full.insert(at, place);
                oaaxc_ir::tensor::position(&full, &tensor.dims)
            });
            inputs.push(slice.into());
        }
        let mut results = (cx.run_block)(block, inputs)?.into_iter();
        state = results.by_ref().take(states).collect();
        for (list, datum) in outputs.iter_mut().zip(results) {
            let Datum::Tensor(tensor) = datum else { return Err(cx.fail(Code::TYPE, "a scan output must be a tensor")) };
            list.push(tensor);
        }
    }
    for (i, mut list) in outputs.into_iter().enumerate() {
        if entry(cx.node, "scan_output_directions", i)? != 0 {
            list.reverse();
        }
        let rank = list.first().map_or(0, Tensor::rank);
        let at = axis(cx.node, "scan_output_axes", i, rank + 1)?;
        state.push(stack(cx, states + i, list, at)?.into());
    }
    Ok(state)
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let block = body(cx.node, cx.output_count(), cx.graph)?;
    let (states, scanned) = counts(cx.node)?;
    let body = cx.graph.blocks[block].clone();
    let count = trips(cx, 0)?;
    let mut state = State::before(cx, &body.inputs[..states], 0)?;
    let mut outputs = Vec::new();
    for i in states..cx.output_count() {
        let rank = cx.graph.values[body.outputs[i]].fact.ty.as_tensor().and_then(|t| t.shape.as_ref()).map_or(0, Vec::len);
        let at = axis(cx.node, "scan_output_axes", i - states, rank + 1)?;
        outputs.push(ScanOutput::before(cx, i, body.outputs[i], at, Some(&count))?);
    }
    let counter = cx.fresh("iteration");
    let backward = |place: Expr| count.clone() - 1 - place;
    let (list, ()) = cx.collect(|cx| {
        state.bind(cx)?;
        for i in 0..scanned {
            let from = cx.arg(states + i)?;
            let at = axis(cx.node, "scan_input_axes", i, from.dims.len())?;
            let mut dims = from.dims.clone();
            dims.remove(at);
            let place = Expr::sym(counter);
            let place = if entry(cx.node, "scan_input_directions", i)? == 0 { place } else { backward(place) };
            let slice = cx.temp(from.dtype, dims);
            cx.gather_map(&from, &slice, |axes| {
                let mut index = axes.to_vec();
                index.insert(at, place);
                index
            })?;
            cx.bind(body.inputs[states + i], slice.slot);
        }
        let slots = cx.lower_block(block)?;
        for (i, output) in outputs.iter_mut().enumerate() {
            let place = Expr::sym(counter);
            let place = if entry(cx.node, "scan_output_directions", i)? == 0 { place } else { backward(place) };
            output.write(cx, slots[states + i], body.outputs[states + i], counter, &place)?;
        }
        state.advance(cx, &body.outputs[..states], &slots[..states])
    })?;
    cx.emit(Instr::Loop { counter, trips: count.clone(), condition: None, body: list });
    state.after(cx, 0)?;
    for output in outputs {
        output.after(cx, &count)?;
    }
    Ok(())
}
