//! Scaler and Binarizer of ai.onnx.ml. ONNX: "(x - offset) * scale"; "values less than or equal to the threshold are
//! replaced by 0, others by 1".

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::BinaryOp;
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands, Scalar};

type Result<T> = std::result::Result<T, Diagnostic>;

/// ai.onnx.ml Scaler.
pub static SCALER: OpDef =
    OpDef { name: "Scaler", domain: "ai.onnx.ml", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };
/// ai.onnx.ml Binarizer.
pub static BINARIZER: OpDef =
    OpDef { name: "Binarizer", domain: "ai.onnx.ml", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };

/// Offsets and scales: one for all features, or one per feature.
fn parameters(cx: &impl ReadAttributes) -> Result<(Vec<f32>, Vec<f32>)> {
    let list = |name: &str, default: f32| -> Result<Vec<f32>> {
        Ok(cx.floats(name)?.filter(|v| !v.is_empty()).unwrap_or(vec![default]))
    };
    Ok((list("offset", 0.0)?, list("scale", 1.0)?))
}

fn binarizes(cx: &impl ReadAttributes) -> bool {
    cx.node().op.name == "Binarizer"
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (cx.dtype(0)?, cx.shape(0)?);
    let (offset, scale) = parameters(cx)?;
    for list in [offset, scale] {
        if list.len() > 1 {
            let Some(last) = shape.last() else { return Err(cx.fail(Code::SHAPE, "the input must have features")) };
            cx.require_equal(last, &list.len().into(), "the number of features")?;
        }
    }
    cx.set(0, if binarizes(cx) { dtype } else { DType::F32 }, shape);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    if binarizes(cx) {
        let threshold = f64::from(cx.float("threshold", 0.0)?);
        let y = x.to_f64s().into_iter().map(|v| f64::from(u8::from(v > threshold)));
        return Ok(vec![Tensor::from_f64s(x.dtype, x.dims.clone(), y).into()]);
    }
    let (offset, scale) = parameters(cx)?;
    let at = |list: &[f32], i: usize| f64::from(list[i % list.len()]);
    let y = x.to_f64s().into_iter().enumerate().map(|(i, v)| (v - at(&offset, i)) * at(&scale, i));
    Ok(vec![Tensor::from_f64s(DType::F32, x.dims.clone(), y).into()])
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let (x, y) = (cx.arg(0)?, cx.result(0)?);
    if binarizes(cx) {
        let threshold = Scalar::from_f32(cx.float("threshold", 0.0)?).cast(x.dtype);
        return cx.pointwise(&[x], &y, |b, v| {
            let t = b.scalar(threshold);
            b.binary(BinaryOp::Gt, v[0], t)
        });
    }
    let (offset, scale) = parameters(cx)?;
    let offset = cx.constant_arg(Tensor::from_f32s(vec![offset.len()], &offset));
    let scale = cx.constant_arg(Tensor::from_f32s(vec![scale.len()], &scale));
    cx.pointwise(&[x, offset, scale], &y, |b, v| {
        let x = b.cast(DType::F32, v[0]);
        let d = b.binary(BinaryOp::Sub, x, v[1]);
        b.binary(BinaryOp::Mul, d, v[2])
    })
}
