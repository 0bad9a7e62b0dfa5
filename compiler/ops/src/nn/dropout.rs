//! Dropout, for inference. ONNX: "If training_mode is false, the output is the input, and the mask is all true".
//!
//! Training with a ratio other than 0 draws random numbers that no two implementations share; it is refused.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::graph::Attribute;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::upgrade::UpgradeCx;
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands, Scalar};

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static DROPOUT: OpDef = OpDef { name: "Dropout", domain: "", upgrade, infer, eval, lower: Lower::Kernels(lower) };

fn upgrade(cx: &mut UpgradeCx) -> Result<()> {
    if cx.version < 7 && !cx.flag("is_test", false)? && cx.has("is_test") {
        return Err(cx.fail(Code::UNSUPPORTED, "training (`is_test` = 0) is not supported"));
    }
    if cx.version < 12 {
        for name in ["ratio", "is_test", "consumed_inputs"] {
            cx.take(name);
        }
    }
    if cx.version < 10 {
        // The mask had the type of the data.
        cx.set("typed_mask", Attribute::Int(1));
    }
    Ok(())
}

fn mask_type(cx: &impl ReadAttributes, dtype: DType) -> Result<DType> {
    Ok(if cx.flag("typed_mask", false)? { dtype } else { DType::Bool })
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (cx.dtype(0)?, cx.shape(0)?);
    let mask = mask_type(cx, dtype)?;
    cx.set(0, dtype, shape.clone());
    cx.set(1, mask, shape);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let training = cx.optional(2)?.is_some_and(|t| !t.is_empty() && t.get(0).as_bool());
    let ratio = cx.optional(1)?.map_or(0.5, |r| r.f64_at(0));
    if training && ratio != 0.0 {
        return Err(cx.fail(Code::UNSUPPORTED, "training draws random numbers; it is not supported"));
    }
    let mask = Tensor::splat(Scalar::one(mask_type(cx, x.dtype)?), x.dims.clone());
    let mut results = vec![x.clone().into(), mask.into()];
    results.truncate(cx.output_count());
    Ok(results)
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let x = cx.arg(0)?;
    if cx.has_input(2) {
        let constant = |i: usize| cx.constant(i).filter(|t| !t.is_empty()).map(|t| t.get(0));
        let idle =
            constant(2).is_some_and(|t| !t.as_bool()) || (cx.has_input(1) && constant(1).is_some_and(|r| r.as_f64() == 0.0));
        if !idle {
            return Err(cx
                .fail(Code::UNSUPPORTED, "`training_mode` must be the constant false")
                .help("export the model for inference"));
        }
    }
    cx.alias(0, &x)?;
    if cx.has_output(1) {
        let mask = cx.result(1)?;
        cx.pointwise(&[], &mask, |b, _| b.scalar(Scalar::one(mask.dtype)))?;
    }
    Ok(())
}
