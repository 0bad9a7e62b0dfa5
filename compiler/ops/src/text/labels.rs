//! LabelEncoder of ai.onnx.ml. ONNX: "Maps each element in the input tensor to another value", by parallel lists
//! of keys and values; a key that is not listed gets the default. NaN is a key like any other.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::graph::Attribute;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, UnaryOp};
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands, Scalar};

use crate::text::NOT_COMPILED;

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static LABEL_ENCODER: OpDef =
    OpDef { name: "LabelEncoder", domain: "ai.onnx.ml", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };

fn list(cx: &impl ReadAttributes, what: &str) -> Result<Tensor> {
    let named = |suffix: &str| cx.attribute(&format!("{what}_{suffix}"));
    Ok(match (named("tensor"), named("floats"), named("int64s"), named("strings")) {
        (Some(Attribute::Tensor(t)), ..) => t.clone(),
        (_, Some(Attribute::Floats(v)), ..) => Tensor::from_f32s(vec![v.len()], v),
        (_, _, Some(Attribute::Ints(v)), _) => Tensor::from_i64s(DType::I64, vec![v.len()], v.iter().copied()),
        (.., Some(Attribute::Texts(v))) => Tensor::from_strings(vec![v.len()], v.clone()),
        _ => return Err(cx.fail(Code::ATTRIBUTE, format!("no attribute gives the {what}"))),
    })
}

/// Keys, values, and the default as a tensor of one element.
fn tables(cx: &impl ReadAttributes) -> Result<(Tensor, Tensor, Tensor)> {
    let (keys, values) = (list(cx, "keys")?, list(cx, "values")?);
    if keys.len() != values.len() {
        return Err(cx.fail(Code::ATTRIBUTE, format!("{} keys have {} values", keys.len(), values.len())));
    }
    let default = match (cx.tensor("default_tensor")?, values.dtype) {
        (Some(t), dtype) if t.dtype == dtype && t.len() == 1 => t.clone(),
        (_, DType::String) => Tensor::from_strings(vec![], vec![cx.text("default_string", "_Unused")?.into_bytes()]),
        (_, DType::F32) => Tensor::scalar(Scalar::from_f32(cx.float("default_float", -0.0)?)),
        (_, DType::I64) => Tensor::scalar(Scalar::from_i64(cx.int("default_int64", -1)?)),
        (_, dtype) => Tensor::scalar(Scalar::zero(dtype)),
    };
    Ok((keys, values, default))
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (keys, values, _) = tables(cx)?;
    if keys.dtype != cx.dtype(0)? {
        return Err(cx.fail(Code::TYPE, format!("keys are {}, the input is {}", keys.dtype, cx.dtype(0)?)));
    }
    let shape = cx.shape(0)?;
    cx.set(0, values.dtype, shape);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let (keys, values, default) = tables(cx)?;
    let is_key = |i: usize, k: usize| {
        if x.dtype == DType::String {
            return x.string_at(i) == keys.string_at(k);
        }
        let (a, b) = (x.get(i), keys.get(k));
        if x.dtype.is_float() { a.as_f64() == b.as_f64() || a.as_f64().is_nan() && b.as_f64().is_nan() } else { a == b }
    };
    // The last of equal keys wins, as in a table that is filled in order.
    let found: Vec<Option<usize>> = (0..x.len()).map(|i| (0..keys.len()).rev().find(|&k| is_key(i, k))).collect();
    if values.dtype == DType::String {
        let text = |f: Option<usize>| f.map_or(default.string_at(0), |k| values.string_at(k)).to_vec();
        return Ok(vec![Tensor::from_strings(x.dims.clone(), found.into_iter().map(text).collect()).into()]);
    }
    let value = |f: Option<usize>| f.map_or(default.get(0), |k| values.get(k));
    Ok(vec![Tensor::from_scalars(values.dtype, x.dims.clone(), found.into_iter().map(value)).into()])
}

/// Numbers to numbers: a chain of comparisons; the table is part of the kernel.
fn lower(cx: &mut LowerCx) -> Result<()> {
    let (keys, values, default) = tables(cx)?;
    if keys.dtype == DType::String || values.dtype == DType::String {
        return Err(cx.fail(Code::UNSUPPORTED, NOT_COMPILED));
    }
    if keys.len() > 1024 {
        return Err(cx.fail(Code::UNSUPPORTED, "tables of more than 1024 labels are not compiled yet"));
    }
    let (x, y) = (cx.arg(0)?, cx.result(0)?);
    cx.pointwise(std::slice::from_ref(&x), &y, |body, v| {
        let mut result = body.scalar(default.get(0));
        for (key, value) in keys.scalars().zip(values.scalars()) {
            let is_nan = key.dtype().is_float() && key.as_f64().is_nan();
            let key = body.scalar(key);
            let hit = if is_nan { body.unary(UnaryOp::IsNan, v[0]) } else { body.binary(BinaryOp::Eq, v[0], key) };
            let value = body.scalar(value);
            result = body.select(hit, value, result);
        }
        result
    })
}
