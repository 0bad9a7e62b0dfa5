//! Optionals: a value or nothing. From opset 18 on a tensor or a sequence may stand for a full optional.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::graph::Attribute;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::types::Fact;
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands, Type};

use super::sequence::opened;

type Result<T> = std::result::Result<T, Diagnostic>;
type Infer = fn(&mut InferCx) -> Result<()>;
type Eval = fn(&EvalCx) -> Result<Vec<Datum>>;

const fn operator(name: &'static str, infer: Infer, eval: Eval) -> OpDef {
    let lower = Lower::Refused("optionals are evaluated, not compiled yet");
    OpDef { name, domain: "", upgrade: no_upgrade, infer, eval, lower }
}

/// An optional that holds the operand, or nothing of the type that the attribute says.
pub static OPTIONAL: OpDef = operator("Optional", infer_optional, eval_optional);
/// What an optional holds.
pub static GET: OpDef = operator("OptionalGetElement", infer_get, eval_get);
/// Whether an optional holds something.
pub static HAS: OpDef = operator("OptionalHasElement", infer_has, eval_has);

fn infer_optional(cx: &mut InferCx) -> Result<()> {
    let inner = match (cx.has_input(0), cx.attribute("type")) {
        (true, _) => cx.ty(0)?.clone(),
        (false, Some(Attribute::Type(ty))) => ty.clone(),
        _ => return Err(cx.fail(Code::ATTRIBUTE, "without an operand the attribute `type` is required")),
    };
    cx.set_fact(0, Fact::of(Type::Optional(Box::new(inner))));
    Ok(())
}

fn eval_optional(cx: &EvalCx) -> Result<Vec<Datum>> {
    let inner = if cx.has_input(0) { Some(Box::new(cx.datum(0)?.clone())) } else { None };
    Ok(vec![Datum::Optional(inner)])
}

fn infer_get(cx: &mut InferCx) -> Result<()> {
    let fact = match cx.fact(0)?.clone() {
        Fact { ty: Type::Optional(inner), .. } => Fact::of(opened(*inner, &mut || cx.fresh("element"))),
        whole => whole,
    };
    cx.set_fact(0, fact);
    Ok(())
}

fn eval_get(cx: &EvalCx) -> Result<Vec<Datum>> {
    match cx.datum(0)? {
        Datum::Optional(Some(inner)) => Ok(vec![(**inner).clone()]),
        Datum::Optional(None) => Err(cx.fail(Code::RUN, "the optional is empty")),
        other => Ok(vec![other.clone()]),
    }
}

fn infer_has(cx: &mut InferCx) -> Result<()> {
    let known = match cx.has_input(0) {
        false => Some(vec![0.into()]),
        true if matches!(cx.ty(0)?, Type::Optional(_)) => None,
        true => Some(vec![1.into()]),
    };
    cx.set_known(0, DType::Bool, vec![], known);
    Ok(())
}

fn eval_has(cx: &EvalCx) -> Result<Vec<Datum>> {
    let has = cx.has_input(0) && !matches!(cx.datum(0)?, Datum::Optional(None));
    Ok(vec![Tensor::from_i64s(DType::Bool, vec![], [i64::from(has)]).into()])
}
