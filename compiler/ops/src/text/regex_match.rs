//! RegexFullMatch. ONNX: "performs a full regex match on each element of the input tensor"; the syntax is RE2's,
//! whose automata the regex crate has too.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands, Scalar};

use crate::text::NOT_COMPILED;

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static REGEX_FULL_MATCH: OpDef =
    OpDef { name: "RegexFullMatch", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Refused(NOT_COMPILED) };

fn pattern(cx: &impl ReadAttributes) -> Result<regex::Regex> {
    let pattern = cx.text("pattern", "")?;
    // The expression alone first, so that a parenthesis cannot close the group around it.
    let alone = regex::Regex::new(&pattern).and_then(|_| regex::Regex::new(&format!("^(?:{pattern})$")));
    alone.map_err(|e| cx.fail(Code::ATTRIBUTE, format!("`pattern`: {e}")))
}

fn infer(cx: &mut InferCx) -> Result<()> {
    pattern(cx)?;
    let shape = cx.shape(0)?;
    cx.set(0, DType::Bool, shape);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let pattern = pattern(cx)?;
    let matches = |i: usize| Scalar::from_bool(std::str::from_utf8(x.string_at(i)).is_ok_and(|s| pattern.is_match(s)));
    Ok(vec![Tensor::from_scalars(DType::Bool, x.dims.clone(), (0..x.len()).map(matches)).into()])
}
