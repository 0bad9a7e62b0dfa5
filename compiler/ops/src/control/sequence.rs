//! Sequences of tensors: made, read, changed, joined, split, mapped. Elements may differ in shape, so
//! the sizes in an element's type are names only; whoever takes an element out gets sizes of its own.
//!
//! Positions may be negative and count from the end. Where lengths and positions are known when the
//! model is built, a sequence is a list of tensors and costs nothing; others are only evaluated.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::graph::Attribute;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::{Tensor, position};
use oaaxc_ir::types::Fact;
use oaaxc_ir::upgrade::UpgradeCx;
use oaaxc_ir::{DType, Datum, Node, ReadAttributes, ReadOperands, Scalar, TensorType, Type};

use super::Bodies;
use super::scan_output::stack;
use super::sequence_lowering as lowering;
use crate::tensor::concat::joined;

type Result<T> = std::result::Result<T, Diagnostic>;
type Infer = fn(&mut InferCx) -> Result<()>;
type Eval = fn(&EvalCx) -> Result<Vec<Datum>>;
type LowerFn = fn(&mut LowerCx) -> Result<()>;

const fn operator(name: &'static str, infer: Infer, eval: Eval, lower: LowerFn) -> OpDef {
    OpDef { name, domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Host(lower) }
}

/// A sequence of the operands.
pub static CONSTRUCT: OpDef = operator("SequenceConstruct", infer_construct, eval_construct, lowering::construct);
/// A sequence without elements.
pub static EMPTY: OpDef = operator("SequenceEmpty", infer_empty, |_| Ok(vec![Datum::Sequence(Vec::new())]), lowering::empty);
/// An element.
pub static AT: OpDef = operator("SequenceAt", infer_at, eval_at, lowering::at);
/// The sequence with one more element.
pub static INSERT: OpDef = operator("SequenceInsert", infer_insert, eval_insert, lowering::insert);
/// The sequence without one of its elements, the last one if not said.
pub static ERASE: OpDef = operator("SequenceErase", infer_erase, eval_erase, lowering::erase);
/// The number of elements.
pub static LENGTH: OpDef = operator("SequenceLength", infer_length, eval_length, lowering::length);
/// The elements joined along an axis, or stacked along a new one.
pub static JOIN: OpDef = operator("ConcatFromSequence", infer_join, eval_join, lowering::join);
/// A tensor split along an axis.
pub static SPLIT: OpDef = operator("SplitToSequence", infer_split, eval_split, lowering::split);
/// A body applied to each element.
pub static MAP: OpDef = operator("SequenceMap", infer_map, eval_map, lowering::refuse);
/// The body of `MAP`: an element of each sequence, other operands whole.
pub static MAP_BODIES: Bodies = Bodies { attributes: &["body"], inputs: map_inputs, decided: |_, _| None, carried: no_carried };

/// The element type of a sequence operand.
fn element(cx: &impl ReadOperands, index: usize) -> Result<Type> {
    match cx.ty(index)? {
        Type::Sequence(inner) => Ok((**inner).clone()),
        _ => Err(cx.fail(Code::TYPE, format!("input {index} must be a sequence"))),
    }
}

/// An element's type once it is taken out: sizes that are not numbers are its own.
pub(super) fn opened(ty: Type, fresh: &mut dyn FnMut() -> Expr) -> Type {
    match ty {
        Type::Tensor(mut tensor) => {
            for size in tensor.shape.iter_mut().flatten().filter(|s| s.as_const().is_none()) {
                *size = fresh();
            }
            Type::Tensor(tensor)
        }
        other => other,
    }
}

/// A type that covers two element types.
fn joined_type(cx: &mut InferCx, a: Type, b: Type) -> Result<Type> {
    match (a, b) {
        (Type::Tensor(a), Type::Tensor(b)) if a.dtype == b.dtype => {
            let shape = match (a.shape, b.shape) {
                (Some(a), Some(b)) if a.len() == b.len() => {
                    Some(a.into_iter().zip(b).map(|(a, b)| if a == b { a } else { cx.fresh("element") }).collect())
                }
                _ => None,
            };
            Ok(Type::Tensor(TensorType { dtype: a.dtype, shape }))
        }
        (a, b) if a == b => Ok(a),
        (a, b) => {
            let (a, b) = (cx.symbols.show_type(&a), cx.symbols.show_type(&b));
            Err(cx.fail(Code::TYPE, format!("a sequence holds elements of one type, not {a} and {b}")))
        }
    }
}

fn set_sequence(cx: &mut InferCx, index: usize, element: Type) {
    cx.set_fact(index, Fact::of(Type::Sequence(Box::new(element))));
}

fn infer_construct(cx: &mut InferCx) -> Result<()> {
    let mut all = cx.ty(0)?.clone();
    for i in 1..cx.input_count() {
        let other = cx.ty(i)?.clone();
        all = joined_type(cx, all, other)?;
    }
    set_sequence(cx, 0, all);
    Ok(())
}

fn eval_construct(cx: &EvalCx) -> Result<Vec<Datum>> {
    let all = (0..cx.inputs.len()).map(|i| cx.datum(i).cloned()).collect::<Result<_>>()?;
    Ok(vec![Datum::Sequence(all)])
}

fn infer_empty(cx: &mut InferCx) -> Result<()> {
    let number = cx.int("dtype", 1)?;
    let dtype = i32::try_from(number).ok().and_then(DType::from_onnx);
    let dtype = dtype.ok_or_else(|| cx.fail(Code::ATTRIBUTE, format!("dtype {number} is no element type")))?;
    set_sequence(cx, 0, Type::Tensor(TensorType { dtype, shape: None }));
    Ok(())
}

fn elements<'a>(cx: &'a EvalCx, index: usize) -> Result<&'a [Datum]> {
    match cx.datum(index)? {
        Datum::Sequence(all) => Ok(all),
        _ => Err(cx.fail(Code::TYPE, format!("input {index} must be a sequence"))),
    }
}

/// The position that an operand names among `count` (plus one where inserting), or the default.
fn place(cx: &EvalCx, index: usize, count: usize, default: Option<usize>) -> Result<usize> {
    let Some(tensor) = cx.optional(index)? else {
        return default.ok_or_else(|| cx.fail(Code::VALUE, "the sequence is empty"));
    };
    let given = if tensor.len() == 1 { tensor.i64_at(0) } else { i64::MAX };
    let at = if given < 0 { given + count as i64 } else { given };
    usize::try_from(at)
        .ok()
        .filter(|at| *at < count || default == Some(*at))
        .ok_or_else(|| cx.fail(Code::VALUE, format!("position {given} is outside a sequence of {count} elements")))
}

fn infer_at(cx: &mut InferCx) -> Result<()> {
    let inner = element(cx, 0)?;
    let ty = opened(inner, &mut || cx.fresh("element"));
    cx.set_fact(0, Fact::of(ty));
    Ok(())
}

fn eval_at(cx: &EvalCx) -> Result<Vec<Datum>> {
    let all = elements(cx, 0)?;
    Ok(vec![all[place(cx, 1, all.len(), None)?].clone()])
}

fn infer_insert(cx: &mut InferCx) -> Result<()> {
    let (held, new) = (element(cx, 0)?, cx.ty(1)?.clone());
    let all = joined_type(cx, held, new)?;
    set_sequence(cx, 0, all);
    Ok(())
}

fn eval_insert(cx: &EvalCx) -> Result<Vec<Datum>> {
    let mut all = elements(cx, 0)?.to_vec();
    let at = place(cx, 2, all.len(), Some(all.len()))?;
    all.insert(at, cx.datum(1)?.clone());
    Ok(vec![Datum::Sequence(all)])
}

fn infer_erase(cx: &mut InferCx) -> Result<()> {
    let inner = element(cx, 0)?;
    set_sequence(cx, 0, inner);
    Ok(())
}

fn eval_erase(cx: &EvalCx) -> Result<Vec<Datum>> {
    let mut all = elements(cx, 0)?.to_vec();
    // The default is a position inside, so the end itself is none.
    let at = if cx.has_input(1) { place(cx, 1, all.len(), None)? } else { place(cx, 1, all.len(), all.len().checked_sub(1))? };
    all.remove(at);
    Ok(vec![Datum::Sequence(all)])
}

fn infer_length(cx: &mut InferCx) -> Result<()> {
    element(cx, 0)?;
    cx.set(0, DType::I64, vec![]);
    Ok(())
}

fn eval_length(cx: &EvalCx) -> Result<Vec<Datum>> {
    Ok(vec![Tensor::scalar(Scalar::from_i64(elements(cx, 0)?.len() as i64)).into()])
}

fn infer_join(cx: &mut InferCx) -> Result<()> {
    let Type::Tensor(TensorType { dtype, shape: Some(mut shape) }) = element(cx, 0)? else {
        return Err(cx.fail(Code::RANK, "the rank of the sequence's elements is not known"));
    };
    let new = cx.flag("new_axis", false)?;
    let rank = shape.len() + usize::from(new);
    let axis = oaaxc_ir::attributes::normalize_axis(cx.node, cx.required_int("axis")?, rank)?;
    for (d, size) in shape.iter_mut().enumerate() {
        if size.as_const().is_none() || (d == axis && !new) {
            *size = cx.fresh("joined");
        }
    }
    if new {
        shape.insert(axis, cx.fresh("joined"));
    }
    cx.set(0, dtype, shape);
    Ok(())
}

fn eval_join(cx: &EvalCx) -> Result<Vec<Datum>> {
    let tensors: Option<Vec<&Tensor>> = elements(cx, 0)?.iter().map(Datum::as_tensor).collect();
    let tensors = tensors.filter(|t| !t.is_empty()).ok_or_else(|| cx.fail(Code::VALUE, "the sequence holds no tensor"))?;
    let new = cx.flag("new_axis", false)?;
    let rank = tensors[0].rank() + usize::from(new);
    let axis = oaaxc_ir::attributes::normalize_axis(cx.node, cx.required_int("axis")?, rank)?;
    if new {
        return Ok(vec![stack(cx, 0, tensors.into_iter().cloned().collect(), axis)?.into()]);
    }
    let same = tensors.iter().all(|t| t.rank() == rank && t.dtype == tensors[0].dtype);
    let whole = same.then(|| joined(&tensors, axis)).flatten();
    Ok(vec![whole.ok_or_else(|| cx.fail(Code::SHAPE, "the elements' other sizes differ"))?.into()])
}

fn infer_split(cx: &mut InferCx) -> Result<()> {
    let (dtype, mut shape) = (cx.dtype(0)?, cx.shape(0)?);
    let axis = cx.axis("axis", 0, shape.len())?;
    if cx.has_input(1) {
        shape[axis] = cx.fresh("part");
    } else if cx.flag("keepdims", true)? {
        shape[axis] = 1.into();
    } else {
        shape.remove(axis);
    }
    set_sequence(cx, 0, Type::tensor(dtype, shape));
    Ok(())
}

fn eval_split(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let axis = cx.axis("axis", 0, x.rank())?;
    let size = x.dims[axis];
    let wrong = |what: &str| cx.fail(Code::VALUE, format!("the sizes of the parts {what}"));
    let (parts, keep): (Vec<usize>, bool) = match cx.optional(1)? {
        None => (vec![1; size], cx.flag("keepdims", true)?),
        Some(split) if split.rank() == 0 => {
            let part = usize::try_from(split.i64_at(0)).ok().filter(|p| *p > 0).ok_or_else(|| wrong("must be positive"))?;
            ((0..size).step_by(part).map(|start| part.min(size - start)).collect(), true)
        }
        Some(split) => {
            let parts: Option<Vec<usize>> = split.to_i64s().into_iter().map(|p| usize::try_from(p).ok()).collect();
            let parts = parts.ok_or_else(|| wrong("must not be negative"))?;
            if parts.iter().try_fold(0usize, |sum, p| sum.checked_add(*p)) != Some(size) {
                return Err(wrong(&format!("must add up to {size}")));
            }
            (parts, true)
        }
    };
    let mut start = 0;
    let mut all = Vec::new();
    for part in parts {
        let mut dims = x.dims.clone();
        dims[axis] = part;
        let piece = x.gathered(dims.clone(), |c| {
            let mut at = c.to_vec();
            at[axis] += start;
            position(&at, &x.dims)
        });
        start += part;
        if !keep {
            dims.remove(axis);
        }
        all.push(piece.reshaped(dims).into());
    }
    Ok(vec![Datum::Sequence(all)])
}

fn no_carried(_: &Node) -> Vec<(usize, usize)> {
    Vec::new()
}

fn map_inputs(cx: &mut UpgradeCx) -> Result<Vec<Fact>> {
    let first = oaaxc_base::EntityId::index(cx.graph.symbols.table.next_id()) as i64;
    cx.set(super::FIRST_INNER, Attribute::Int(first));
    let mut facts = Vec::new();
    for i in 0..cx.node.inputs.len() {
        let fact = match cx.ty(i)?.clone() {
            Type::Sequence(inner) => Fact::of(opened(*inner, &mut || Expr::sym(cx.graph.symbols.fresh("element")))),
            _ => cx.fact(i)?.clone(),
        };
        facts.push(fact);
    }
    Ok(facts)
}

fn infer_map(cx: &mut InferCx) -> Result<()> {
    element(cx, 0)?;
    let &[block] = &cx.node.blocks[..] else { return Err(cx.fail(Code::STRUCTURE, "a SequenceMap has one body")) };
    let outputs = &cx.graph.blocks[block].outputs;
    if outputs.len() != cx.output_count() {
        return Err(
            cx.fail(Code::STRUCTURE, format!("the body gives {} values, {} are wanted", outputs.len(), cx.output_count()))
        );
    }
    for (i, value) in outputs.iter().enumerate() {
        let ty = cx.graph.values[*value].fact.ty.clone();
        set_sequence(cx, i, ty);
    }
    Ok(())
}

fn eval_map(cx: &EvalCx) -> Result<Vec<Datum>> {
    let block = *cx.node.blocks.first().ok_or_else(|| cx.fail(Code::STRUCTURE, "a SequenceMap has one body"))?;
    let count = elements(cx, 0)?.len();
    let mut results: Vec<Vec<Datum>> = vec![Vec::new(); cx.output_count()];
    for number in 0..count {
        let pick = |i: usize| match cx.datum(i)? {
            Datum::Sequence(all) => {
                all.get(number).cloned().ok_or_else(|| cx.fail(Code::VALUE, "the sequences differ in length"))
            }
            other => Ok(other.clone()),
        };
        let inputs = (0..cx.inputs.len()).map(pick).collect::<Result<_>>()?;
        for (list, datum) in results.iter_mut().zip((cx.run_block)(block, inputs)?) {
            list.push(datum);
        }
    }
    Ok(results.into_iter().map(Datum::Sequence).collect())
}
