//! StringConcat and StringSplit.
//!
//! ONNX StringSplit: "If delimiter is not specified or is an empty string, split on consecutive whitespace";
//! "the last dimension … is the maximum number of substrings", shorter lists are padded with empty strings.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands};

use crate::broadcast::{broadcast_dims, expand};
use crate::text::NOT_COMPILED;

type Result<T> = std::result::Result<T, Diagnostic>;

/// ONNX StringConcat.
pub static STRING_CONCAT: OpDef = OpDef {
    name: "StringConcat",
    domain: "",
    upgrade: no_upgrade,
    infer: infer_concat,
    eval: eval_concat,
    lower: Lower::Refused(NOT_COMPILED),
};
/// ONNX StringSplit.
pub static STRING_SPLIT: OpDef = OpDef {
    name: "StringSplit",
    domain: "",
    upgrade: no_upgrade,
    infer: infer_split,
    eval: eval_split,
    lower: Lower::Refused(NOT_COMPILED),
};

fn infer_concat(cx: &mut InferCx) -> Result<()> {
    let shapes = [cx.shape(0)?, cx.shape(1)?];
    let out = cx.broadcast(&shapes)?;
    cx.set(0, DType::String, out);
    Ok(())
}

fn eval_concat(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (a, b) = (cx.input(0)?, cx.input(1)?);
    let dims = broadcast_dims(&[&a.dims, &b.dims]).ok_or_else(|| cx.fail(Code::SHAPE, "the operands do not broadcast"))?;
    let (a, b) = (expand(a, &dims), expand(b, &dims));
    let joined = (0..a.len()).map(|i| [a.string_at(i), b.string_at(i)].concat()).collect();
    Ok(vec![Tensor::from_strings(dims, joined).into()])
}

fn infer_split(cx: &mut InferCx) -> Result<()> {
    let shape = cx.shape(0)?;
    let most = cx.fresh("pieces");
    cx.set(0, DType::String, [&shape[..], &[most]].concat());
    cx.set(1, DType::I64, shape);
    Ok(())
}

/// The pieces of one string: at most `most` cuts.
fn pieces(text: &str, delimiter: &str, most: Option<usize>) -> Vec<Vec<u8>> {
    let own = |s: &str| s.as_bytes().to_vec();
    if !delimiter.is_empty() {
        return match most {
            Some(most) => text.splitn(most + 1, delimiter).map(own).collect(),
            None => text.split(delimiter).map(own).collect(),
        };
    }
    let (mut out, mut rest) = (Vec::new(), text.trim_start());
    while !rest.is_empty() {
        if most == Some(out.len()) {
            out.push(own(rest.trim_end()));
            break;
        }
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        out.push(own(&rest[..end]));
        rest = rest[end..].trim_start();
    }
    out
}

fn eval_split(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let delimiter = cx.text("delimiter", "")?;
    let most = cx.int_if_any("maxsplit")?.and_then(|m| usize::try_from(m).ok());
    let lists: Vec<Vec<Vec<u8>>> =
        (0..x.len()).map(|i| pieces(&String::from_utf8_lossy(x.string_at(i)), &delimiter, most)).collect();
    let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
    let counts = lists.iter().map(|l| l.len() as i64).collect::<Vec<_>>();
    let padded = lists.into_iter().flat_map(|mut list| {
        list.resize(longest, Vec::new());
        list
    });
    let dims = [&x.dims[..], &[longest]].concat();
    let y = Tensor::from_strings(dims, padded.collect());
    Ok(vec![y.into(), Tensor::from_i64s(DType::I64, x.dims.clone(), counts).into()])
}
