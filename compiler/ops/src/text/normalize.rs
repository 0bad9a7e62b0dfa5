//! StringNormalizer. ONNX: "performs string operations for basic cleaning": words in `stopwords` are removed,
//! the case is changed; strings that become empty are dropped, and if none is left one empty string remains.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands};

use crate::text::NOT_COMPILED;

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static STRING_NORMALIZER: OpDef =
    OpDef { name: "StringNormalizer", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Refused(NOT_COMPILED) };

fn infer(cx: &mut InferCx) -> Result<()> {
    let mut shape = cx.shape(0)?;
    let Some(last) = shape.last_mut() else { return Err(cx.fail(Code::RANK, "the input must be [C] or [1, C]")) };
    *last = cx.fresh("words");
    cx.set(0, DType::String, shape);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let change: fn(&str) -> String = match &cx.text("case_change_action", "NONE")?[..] {
        "LOWER" => |s| s.to_lowercase(),
        "UPPER" => |s| s.to_uppercase(),
        "NONE" => |s| s.to_string(),
        other => return Err(cx.fail(Code::ATTRIBUTE, format!("`case_change_action` \"{other}\" is not known"))),
    };
    let sensitive = cx.flag("is_case_sensitive", false)?;
    let stopwords: Vec<String> =
        cx.texts("stopwords")?.unwrap_or_default().iter().map(|w| String::from_utf8_lossy(w).into_owned()).collect();
    let is_stopword = |word: &str| match sensitive {
        true => stopwords.iter().any(|s| s == word),
        false => stopwords.iter().any(|s| s.to_lowercase() == word.to_lowercase()),
    };
    let clean = |i: usize| {
        let text = String::from_utf8_lossy(x.string_at(i)).into_owned();
        let kept: Vec<&str> = text.split(' ').filter(|word| !is_stopword(word)).collect();
        change(&kept.join(" ")).into_bytes()
    };
    let mut words: Vec<Vec<u8>> = (0..x.len()).map(clean).filter(|w| !w.is_empty()).collect();
    if words.is_empty() {
        words.push(Vec::new());
    }
    let mut dims = x.dims.clone();
    if let Some(last) = dims.last_mut() {
        *last = words.len();
    }
    if dims.iter().product::<usize>() != words.len() {
        return Err(cx.fail(Code::SHAPE, "the input must be [C] or [1, C]"));
    }
    Ok(vec![Tensor::from_strings(dims, words).into()])
}
