//! Loop: a body with carried values runs a number of times, or while a condition holds.
//!
//! Each iteration leaves its carried values in memory of their own, to which the inputs of the next
//! one are bound. Carried integers that are sizes stay sizes. Scan outputs are written into a buffer
//! that is allocated whole where the number of iterations is known before, and grows by doubling where not.

use oaaxc_base::{Code, Diagnostic, EntityId};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::{Expr, SymId};
use oaaxc_ir::graph::{Attribute, BlockId};
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::lower::{Arg, LowerCx};
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::program::Instr;
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::types::Fact;
use oaaxc_ir::upgrade::UpgradeCx;
use oaaxc_ir::{DType, Datum, Node, ReadAttributes, ReadOperands, Scalar, Type};

use super::scan_output::{ScanOutput, stack};
use super::{Bodies, FIRST_INNER, is_outer};

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static LOOP: OpDef = OpDef { name: "Loop", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Host(lower) };

/// Its body: iteration number, condition, carried values.
pub static LOOP_BODIES: Bodies = Bodies { attributes: &["body"], inputs, decided: |_, _| None, carried };

fn inputs(cx: &mut UpgradeCx) -> Result<Vec<Fact>> {
    let counter = cx.graph.symbols.fresh("iteration");
    cx.set(FIRST_INNER, Attribute::Int(counter.index() as i64));
    let number = Fact { ty: Type::tensor(DType::I64, vec![]), known: Some(vec![Expr::sym(counter)]) };
    let mut facts = vec![number, Fact::of(Type::tensor(DType::Bool, vec![]))];
    for i in 2..cx.node.inputs.len() {
        facts.push(cx.fact(i)?.clone());
    }
    Ok(facts)
}

fn carried(node: &Node) -> Vec<(usize, usize)> {
    (2..node.inputs.len()).map(|i| (i, i - 1)).collect()
}

/// The body; its numbers of inputs and outputs are those that the node wants.
fn body(node: &Node, outputs: usize, graph: &oaaxc_ir::Graph) -> Result<BlockId> {
    let &[block] = &node.blocks[..] else { return Err(node.fail(Code::STRUCTURE, "a Loop has one body")) };
    let (given, wanted) = (graph.blocks[block].outputs.len(), outputs + 1);
    let carried = node.inputs.len().saturating_sub(2);
    if given != wanted || outputs < carried {
        let message = format!("the body gives {given} values (the condition first), {wanted} are wanted");
        return Err(node.fail(Code::STRUCTURE, message));
    }
    Ok(block)
}

/// Whether the body says itself that it never ends the loop.
fn never_ends(graph: &oaaxc_ir::Graph, block: BlockId) -> bool {
    let condition = graph.blocks[block].outputs[0];
    // The condition that came in, passed on.
    let passed = graph.blocks[block].inputs.get(1) == Some(&condition);
    passed || graph.values[condition].fact.known.as_ref().is_some_and(|k| k.iter().all(|c| c.as_const().is_some_and(|c| c != 0)))
}

/// The number of iterations where it is decided before the loop.
fn known_trips(cx: &impl ReadOperands, block: BlockId) -> Option<Expr> {
    if !never_ends(cx.graph(), block) || !cx.has_input(0) {
        return None;
    }
    let trips = cx.known(0)?.first()?.maximum(&0.into());
    if !cx.has_input(1) {
        return Some(trips);
    }
    match cx.known_ints(1)?.first()? {
        0 => Some(0.into()),
        _ => Some(trips),
    }
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let block = body(cx.node, cx.output_count(), cx.graph)?;
    let carried = cx.node.inputs.len() - 2;
    let trips = known_trips(cx, block);
    let block = &cx.graph.blocks[block];
    for i in 0..cx.output_count() {
        let given = cx.graph.values[block.outputs[i + 1]].fact.clone();
        if i < carried {
            let held = cx.graph.values[block.inputs[i + 2]].fact.clone();
            // A loop may start with an optional and carry what it holds from then on.
            let became = !matches!(given.ty, Type::Optional(_)) && matches!(held.ty, Type::Optional(_));
            let fact = outside(cx, if became { Fact::of(given.ty) } else { held }, "carried")?;
            cx.set_fact(i, fact);
            continue;
        }
        let Type::Tensor(tensor) = given.ty else {
            return Err(cx.fail(Code::TYPE, format!("the scan output {i} must be a tensor")));
        };
        let Some(shape) = tensor.shape else {
            return Err(cx.fail(Code::RANK, format!("the rank of the scan output {i} is not known")));
        };
        let mut dims = vec![trips.clone().unwrap_or_else(|| cx.fresh("trips"))];
        for size in shape {
            dims.push(if is_outer(cx, &size) { size } else { cx.fresh("scanned") });
        }
        cx.set(i, tensor.dtype, dims);
    }
    Ok(())
}

/// The fact after the loop of what a body's input holds: sizes of an iteration become sizes of the result.
pub(super) fn outside(cx: &mut InferCx, fact: Fact, hint: &str) -> Result<Fact> {
    let mut open = |sizes: Vec<Expr>| -> Vec<Expr> {
        sizes.into_iter().map(|size| if is_outer(cx, &size) { size } else { cx.fresh(hint) }).collect()
    };
    let known = fact.known.map(&mut open);
    let ty = match fact.ty {
        Type::Tensor(mut tensor) => {
            tensor.shape = tensor.shape.map(&mut open);
            Type::Tensor(tensor)
        }
        other => other,
    };
    Ok(Fact { ty, known })
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let block = *cx.node.blocks.first().ok_or_else(|| cx.fail(Code::STRUCTURE, "a Loop has one body"))?;
    let trips = match cx.optional(0)? {
        Some(t) if t.len() == 1 => t.i64_at(0),
        Some(_) => return Err(cx.fail(Code::VALUE, "the trip count must have one element")),
        None => i64::MAX,
    };
    let mut going = match cx.optional(1)? {
        Some(t) if t.len() == 1 => t.i64_at(0) != 0,
        Some(_) => return Err(cx.fail(Code::VALUE, "the condition must have one element")),
        None => true,
    };
    let mut carried = (2..cx.inputs.len()).map(|i| cx.datum(i).cloned()).collect::<Result<Vec<_>>>()?;
    let count = carried.len();
    let mut scanned: Vec<Vec<Tensor>> = vec![Vec::new(); cx.output_count().saturating_sub(count)];
    let mut number = 0;
    while going && number < trips {
        let mut inputs: Vec<Datum> =
            vec![Tensor::scalar(Scalar::from_i64(number)).into(), Tensor::from_i64s(DType::Bool, vec![], [1]).into()];
        inputs.extend(carried);
        let mut outputs = (cx.run_block)(block, inputs)?.into_iter();
        let ended = outputs.next();
        going = ended.as_ref().and_then(Datum::as_tensor).is_some_and(|t| t.len() == 1 && t.i64_at(0) != 0);
        carried = outputs.by_ref().take(count).collect();
        for (list, datum) in scanned.iter_mut().zip(outputs) {
            let Datum::Tensor(tensor) = datum else { return Err(cx.fail(Code::TYPE, "a scan output must be a tensor")) };
            list.push(tensor);
        }
        number += 1;
    }
    for (i, list) in scanned.into_iter().enumerate() {
        // Without an iteration only the declared type tells the element type; there are no elements either way.
        carried.push(stack(cx, i + count, list, 0)?.into());
    }
    Ok(carried)
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let block = body(cx.node, cx.output_count(), cx.graph)?;
    let carried = cx.node.inputs.len() - 2;
    let body = cx.graph.blocks[block].clone();
    let counter = cx.graph.values[body.inputs[0]].fact.known.as_ref().and_then(|k| k.first()?.as_sym());
    let counter = counter.ok_or_else(|| cx.fail(Code::INTERNAL, "the iteration has no number"))?;
    let trips = if cx.has_input(0) { one_size(cx, 0)? } else { i64::MAX.into() };
    let going = if cx.has_input(1) { one_size(cx, 1)? } else { 1.into() };
    let bounded = known_trips(cx, block);

    let mut state = State::before(cx, &body.inputs[2..], 2)?;
    let mut scanned = Vec::new();
    for i in carried..cx.output_count() {
        scanned.push(ScanOutput::before(cx, i, body.outputs[i + 1], 0, bounded.as_ref())?);
    }
    let condition = if bounded.is_some() {
        None
    } else {
        let symbol = cx.fresh("going");
        cx.emit(Instr::Let { symbol, value: going });
        Some(symbol)
    };
    let (list, ()) = cx.collect(|cx| {
        let flag = bind_numbers(cx, &body.inputs[..2], counter)?;
        let _ = flag;
        state.bind(cx)?;
        let slots = cx.lower_block(block)?;
        for (output, i) in scanned.iter_mut().zip(carried..) {
            output.write(cx, slots[i + 1], body.outputs[i + 1], counter, &Expr::sym(counter))?;
        }
        if let Some(symbol) = condition {
            let value = match cx.graph.values[body.outputs[0]].fact.known.as_ref().and_then(|k| k.first()) {
                Some(known) => known.clone(),
                None if never_ends(cx.graph, block) => 1.into(),
                None => {
                    let arg = cx.arg_of(slots[0]);
                    cx.read_cell(&arg, 0)
                }
            };
            cx.emit(Instr::Let { symbol, value });
        }
        state.advance(cx, &body.outputs[1..1 + carried], &slots[1..1 + carried])
    })?;
    let trips = bounded.unwrap_or(trips);
    cx.emit(Instr::Loop { counter, trips, condition, body: list });
    state.after(cx, 0)?;
    for output in scanned {
        output.after(cx, &Expr::sym(counter))?;
    }
    Ok(())
}

/// The only element of an integer operand.
fn one_size(cx: &mut LowerCx, index: usize) -> Result<Expr> {
    let count = Expr::product(&cx.shape(index)?);
    cx.check(count.equal(&1.into()), format!("Loop: input {index} must have one element"));
    if let Some(known) = cx.known(index) {
        return known.first().cloned().ok_or_else(|| cx.fail(Code::VALUE, format!("input {index} must have one element")));
    }
    let arg = cx.arg(index)?;
    Ok(cx.read_cell(&arg, 0))
}

/// Iteration number and condition as tensors, for kernels of the body that read them.
fn bind_numbers(cx: &mut LowerCx, values: &[oaaxc_ir::ValueId], counter: SymId) -> Result<Arg> {
    let number = cx.temp(DType::I64, vec![]);
    cx.emit(Instr::Write { slot: number.slot, values: vec![Expr::sym(counter)] });
    cx.bind(values[0], number.slot);
    let flag = cx.temp(DType::Bool, vec![]);
    cx.emit(Instr::Write { slot: flag.slot, values: vec![1.into()] });
    cx.bind(values[1], flag.slot);
    Ok(flag)
}

/// The carried values of a loop while it is lowered.
pub(super) struct State {
    values: Vec<Carried>,
}

struct Carried {
    /// The body's input.
    input: oaaxc_ir::ValueId,
    /// Its sizes, and its elements where they are sizes, inside the body.
    sizes: Vec<Expr>,
    known: Option<Vec<Expr>>,
    /// What the body reads: a view of the last iteration's memory.
    view: Option<Arg>,
    /// Where an iteration leaves the value.
    next: Option<Arg>,
}

impl State {
    /// Binds the body's inputs to the node's operands, from `first_operand` on.
    pub fn before(cx: &mut LowerCx, inputs: &[oaaxc_ir::ValueId], first_operand: usize) -> Result<State> {
        let mut values = Vec::new();
        for (i, &input) in inputs.iter().enumerate() {
            let operand = cx.input_value(first_operand + i)?;
            let fact = cx.graph.values[input].fact.clone();
            let Type::Tensor(tensor) = &fact.ty else {
                return Err(cx.fail(Code::UNSUPPORTED, "carried sequences and optionals are not compiled yet"));
            };
            let sizes = tensor.shape.clone().ok_or_else(|| {
                cx.fail(Code::RANK, format!("the rank of the carried value {i} changes from one iteration to the next"))
            })?;
            super::define_fact(cx, input, operand)?;
            let (view, next) = if fact.known.is_some() {
                (None, None)
            } else {
                let from = cx.slot_of(operand);
                let view = cx.view(tensor.dtype, sizes.clone());
                cx.emit(Instr::Alias { to: view.slot, from });
                let next_sizes =
                    sizes.iter().map(|s| if is_outer(cx, s) { s.clone() } else { Expr::sym(cx.fresh("next")) }).collect();
                (Some(view), Some(cx.heap(tensor.dtype, next_sizes)))
            };
            values.push(Carried { input, sizes, known: fact.known, view, next });
        }
        Ok(State { values })
    }

    /// At the top of the body.
    pub fn bind(&mut self, cx: &mut LowerCx) -> Result<()> {
        for value in &self.values {
            match (&value.view, &value.known) {
                (Some(view), _) => cx.bind(value.input, view.slot),
                (None, Some(known)) => {
                    let dtype = cx.graph.values[value.input].fact.ty.as_tensor().map_or(DType::I64, |t| t.dtype);
                    let written = cx.temp(dtype, value.sizes.clone());
                    cx.emit(Instr::Write { slot: written.slot, values: known.clone() });
                    cx.bind(value.input, written.slot);
                }
                (None, None) => {}
            }
        }
        Ok(())
    }

    /// At the end of the body: what it computed becomes what the next iteration reads.
    pub fn advance(
        &mut self,
        cx: &mut LowerCx,
        outputs: &[oaaxc_ir::ValueId],
        slots: &[oaaxc_ir::program::SlotId],
    ) -> Result<()> {
        // All new sizes and copies first, in terms of this iteration; then all rebinding.
        let mut lets: Vec<(Expr, Expr)> = Vec::new();
        for ((value, &output), &slot) in self.values.iter().zip(outputs).zip(slots) {
            let fact = cx.graph.values[output].fact.clone();
            if let (Some(known), Some(given)) = (&value.known, &fact.known) {
                for (old, new) in known.iter().zip(given).filter(|(old, new)| old != new) {
                    let next = Expr::sym(cx.fresh("next"));
                    cx.define(&next, new.clone())?;
                    lets.push((old.clone(), next));
                }
            }
            let Some(next) = &value.next else { continue };
            let from = cx.arg_of(slot);
            for ((old, new), next) in value.sizes.iter().zip(&from.dims).zip(&next.dims) {
                if !is_outer(cx, old) {
                    cx.define(next, new.clone())?;
                    lets.push((old.clone(), next.clone()));
                } else if old != new {
                    let (a, b) = (old.clone(), new.clone());
                    cx.check(a.equal(&b), format!("{}: a carried value must keep its size", cx.node.op.name));
                }
            }
            cx.emit(Instr::Alloc { slot: next.slot });
            cx.copy(&from, next)?;
        }
        for value in &self.values {
            if let (Some(view), Some(next)) = (&value.view, &value.next) {
                cx.emit(Instr::Alias { to: view.slot, from: next.slot });
            }
        }
        for (old, next) in lets {
            cx.define(&old, next)?;
        }
        Ok(())
    }

    /// After the loop: the results, from `first_result` on.
    pub fn after(&self, cx: &mut LowerCx, first_result: usize) -> Result<()> {
        for (i, value) in self.values.iter().enumerate() {
            let Some(result) = cx.node.outputs.get(first_result + i).copied().flatten() else { continue };
            super::define_fact(cx, result, value.input)?;
            if let Some(view) = &value.view
                && let Some(to) = cx.result_view(first_result + i)?
            {
                cx.emit(Instr::Alias { to: to.slot, from: view.slot });
            }
        }
        Ok(())
    }
}
