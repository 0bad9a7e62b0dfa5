//! If: one of two bodies runs; its outputs are the results.
//!
//! A size that differs between the branches is known during the run only, after the branch.
//! Where the condition is a constant only the branch that it chooses is lowered.
//! Where the branches give results of different ranks, as exporters write `squeeze` of a size that
//! may be 1, the first branch is compiled, and a run for which the condition does not hold fails with
//! a sentence that says so: what follows can be typed for one rank only.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::graph::BlockId;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::program::Instr;
use oaaxc_ir::types::Fact;
use oaaxc_ir::{DType, Datum, Graph, Node, ReadAttributes, ReadOperands, TensorType, Type};

use super::Bodies;

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static IF: OpDef = OpDef { name: "If", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Host(lower) };

/// Its bodies: they have no inputs.
pub static IF_BODIES: Bodies =
    Bodies { attributes: &["then_branch", "else_branch"], inputs: |_| Ok(Vec::new()), decided, carried: |_| Vec::new() };

/// The branch of a condition that is a constant.
fn decided(graph: &Graph, node: &Node) -> Option<usize> {
    let condition = (*node.inputs.first()?)?;
    let known = graph.values[condition].fact.known.as_ref()?;
    Some(usize::from(known.first()?.is(0))).filter(|_| known.iter().all(|e| e.as_const().is_some()))
}

fn infer(cx: &mut InferCx) -> Result<()> {
    if cx.dtype(0)? != DType::Bool {
        return Err(cx.fail(Code::TYPE, "the condition must be bool"));
    }
    let [yes, no] = branches(cx.node)?;
    let facts = |block: BlockId| -> Vec<Fact> {
        cx.graph.blocks[block].outputs.iter().map(|v| cx.graph.values[*v].fact.clone()).collect()
    };
    let (yes, no) = (facts(yes), facts(no));
    if yes.len() != cx.output_count() || no.len() != cx.output_count() {
        let message = format!("the branches give {} and {} results, {} are wanted", yes.len(), no.len(), cx.output_count());
        return Err(cx.fail(Code::STRUCTURE, message));
    }
    let mut chosen = cx.known_ints(0).and_then(|c| c.first().copied());
    if chosen.is_none() && yes.iter().zip(&no).any(|(yes, no)| ranks_differ(&yes.ty, &no.ty)) {
        chosen = Some(1);
    }
    for (i, (yes, no)) in yes.into_iter().zip(no).enumerate() {
        let fact = match chosen {
            Some(0) => no,
            Some(_) => yes,
            None => join(cx, i, yes, no)?,
        };
        cx.set_fact(i, fact);
    }
    Ok(())
}

fn ranks_differ(a: &Type, b: &Type) -> bool {
    match (a, b) {
        (Type::Tensor(TensorType { shape: Some(a), .. }), Type::Tensor(TensorType { shape: Some(b), .. })) => a.len() != b.len(),
        _ => false,
    }
}

fn branches(node: &Node) -> Result<[BlockId; 2]> {
    node.blocks.clone().try_into().map_err(|_| node.fail(Code::STRUCTURE, "an If has two bodies"))
}

/// What is true of a result whichever branch runs.
fn join(cx: &mut InferCx, index: usize, a: Fact, b: Fact) -> Result<Fact> {
    let known = match (a.known, b.known) {
        (Some(a), Some(b)) if a.len() == b.len() => {
            Some(a.into_iter().zip(b).map(|(a, b)| if a == b { a } else { cx.fresh("chosen") }).collect())
        }
        _ => None,
    };
    Ok(Fact { ty: join_types(cx, index, a.ty, b.ty)?, known })
}

fn join_types(cx: &mut InferCx, index: usize, a: Type, b: Type) -> Result<Type> {
    match (a, b) {
        (Type::Tensor(a), Type::Tensor(b)) if a.dtype == b.dtype => {
            let shape = match (a.shape, b.shape) {
                (Some(a), Some(b)) if a.len() == b.len() => {
                    Some(a.into_iter().zip(b).map(|(a, b)| if a == b { a } else { cx.fresh("if") }).collect())
                }
                _ => None,
            };
            Ok(Type::Tensor(TensorType { dtype: a.dtype, shape }))
        }
        (Type::Sequence(a), Type::Sequence(b)) => Ok(Type::Sequence(Box::new(join_types(cx, index, *a, *b)?))),
        (Type::Optional(a), Type::Optional(b)) => Ok(Type::Optional(Box::new(join_types(cx, index, *a, *b)?))),
        (a, b) if a == b => Ok(a),
        (a, b) => {
            let (a, b) = (cx.symbols.show_type(&a), cx.symbols.show_type(&b));
            Err(cx.fail(Code::TYPE, format!("result {index} is {a} in one branch and {b} in the other")))
        }
    }
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let [yes, no] = branches(cx.node)?;
    (cx.run_block)(if condition(cx)? { yes } else { no }, Vec::new())
}

/// The first operand: a bool tensor of one element.
fn condition(cx: &EvalCx) -> Result<bool> {
    let tensor = cx.input(0)?;
    if tensor.len() != 1 {
        return Err(cx.fail(Code::VALUE, format!("the condition must have one element, it has {}", tensor.len())));
    }
    Ok(tensor.i64_at(0) != 0)
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let [yes, no] = branches(cx.node)?;
    let count = Expr::product(&cx.shape(0)?);
    cx.check(count.equal(&1.into()), "If: the condition must have one element".to_string());
    let condition = match cx.known(0) {
        Some(known) => known.first().cloned().unwrap_or(0.into()),
        None => {
            let arg = cx.arg(0)?;
            cx.read_cell(&arg, 0)
        }
    };
    let views = super::result_views(cx, 0)?;
    let outputs = |block: BlockId| cx.graph.blocks[block].outputs.iter().map(|v| &cx.graph.values[*v].fact.ty);
    if condition.as_const().is_none() && outputs(yes).zip(outputs(no)).any(|(yes, no)| ranks_differ(yes, no)) {
        let message = "If: the branches give results of different ranks; the model was compiled for the first one, whose \
                       condition does not hold for these sizes";
        cx.check(condition, message.to_string());
        return bind_results(cx, yes, &views);
    }
    match condition.as_const() {
        Some(chosen) => bind_results(cx, if chosen != 0 { yes } else { no }, &views),
        None => {
            let (then, ()) = cx.collect(|cx| bind_results(cx, yes, &views))?;
            let (otherwise, ()) = cx.collect(|cx| bind_results(cx, no, &views))?;
            cx.emit(Instr::If { condition, then, otherwise });
            Ok(())
        }
    }
}

/// Lowers a branch and makes its outputs the results.
fn bind_results(cx: &mut LowerCx, block: BlockId, views: &[Option<oaaxc_ir::lower::Arg>]) -> Result<()> {
    let slots = cx.lower_block(block)?;
    for (i, &output) in cx.graph.blocks[block].outputs.iter().enumerate() {
        let Some(value) = cx.node.outputs.get(i).copied().flatten() else { continue };
        super::define_fact(cx, value, output)?;
        if let Some(view) = &views[i] {
            cx.emit(Instr::Alias { to: view.slot, from: slots[i] });
        }
    }
    Ok(())
}
