//! Constant: a tensor as an attribute. The importer makes it a constant of the graph, so no node of it
//! is ever lowered; eval is there for graphs that are built by hand.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::graph::{Attribute, Attributes, constant_fact};
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::{DType, Datum, Tensor};

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static CONSTANT: OpDef = OpDef {
    name: "Constant",
    domain: "",
    upgrade: no_upgrade,
    infer,
    eval,
    lower: Lower::Refused("a constant must be a constant of the graph, not a node"),
};

/// The tensor that the attributes give: exactly one of them.
pub fn value(attributes: &Attributes) -> Result<Tensor> {
    let mut all = attributes.iter();
    let (Some((name, attribute)), None) = (all.next(), all.next()) else {
        let message = format!("Constant: exactly one attribute must be given, not {}", attributes.len());
        return Err(Diagnostic::error(Code::ATTRIBUTE, message));
    };
    Ok(match attribute {
        Attribute::Tensor(tensor) => tensor.clone(),
        Attribute::Int(v) => Tensor::from_i64s(DType::I64, vec![], [*v]),
        Attribute::Ints(v) => Tensor::from_i64s(DType::I64, vec![v.len()], v.iter().copied()),
        Attribute::Float(v) => Tensor::from_f32s(vec![], &[*v]),
        Attribute::Floats(v) => Tensor::from_f32s(vec![v.len()], v),
        Attribute::Text(v) => Tensor::from_strings(vec![], vec![v.clone()]),
        Attribute::Texts(v) => Tensor::from_strings(vec![v.len()], v.clone()),
        Attribute::Type(_) => {
            return Err(Diagnostic::error(Code::ATTRIBUTE, format!("Constant: `{name}` is a type, no value")));
        }
    })
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let fact = constant_fact(&value(&cx.node.attributes)?);
    cx.set_fact(0, fact);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    Ok(vec![value(&cx.node.attributes)?.into()])
}
