//! Clip and Relu: elements brought between bounds, in the elements' own type.
//!
//! ONNX Clip: "Given an input X … limited within an interval [min, max]"; "when 'min' is greater than
//! 'max', the clip operator sets all the 'input' values to the value of 'max'". NaN stays NaN.

use oaaxc_base::Diagnostic;
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::graph::Attribute;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::interpret::arithmetic;
use oaaxc_ir::kernel::BinaryOp;
use oaaxc_ir::lower::{Arg, LowerCx};
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::upgrade::UpgradeCx;
use oaaxc_ir::{Datum, ReadOperands, Scalar};

type Result<T> = std::result::Result<T, Diagnostic>;

/// ONNX Clip.
pub static CLIP: OpDef = OpDef { name: "Clip", domain: "", upgrade, infer, eval, lower: Lower::Kernels(lower) };
/// ONNX Relu: "y = max(0, x)".
pub static RELU: OpDef =
    OpDef { name: "Relu", domain: "", upgrade: no_upgrade, infer, eval: eval_relu, lower: Lower::Kernels(lower_relu) };

/// Before 11 the bounds were attributes.
fn upgrade(cx: &mut UpgradeCx) -> Result<()> {
    if cx.version < 11 {
        let dtype = cx.dtype(0)?;
        for (name, index) in [("min", 1), ("max", 2)] {
            if let Some(Attribute::Float(bound)) = cx.take(name) {
                cx.set_input(index, Tensor::scalar(Scalar::from_f32(bound).cast(dtype)));
            }
        }
    }
    Ok(())
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (cx.dtype(0)?, cx.shape(0)?);
    let known = match (cx.known(0), cx.has_input(1), cx.has_input(2)) {
        (Some(x), low, high) if cx.node.op.name == "Clip" => {
            let bound = |given: bool, i: usize| if given { cx.known(i).map(|k| k.first().cloned()) } else { Some(None) };
            match (bound(low, 1), bound(high, 2)) {
                (Some(low), Some(high)) => Some(
                    x.into_iter()
                        .map(|e| {
                            let e = low.as_ref().map_or(e.clone(), |l| e.maximum(l));
                            high.as_ref().map_or(e.clone(), |h| e.minimum(h))
                        })
                        .collect(),
                ),
                _ => None,
            }
        }
        _ => None,
    };
    cx.set_known(0, dtype, shape, known);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let bound = |i: usize| -> Result<Option<Scalar>> { Ok(cx.optional(i)?.filter(|t| !t.is_empty()).map(|t| t.get(0))) };
    let (low, high) = (bound(1)?, bound(2)?);
    let clip = |mut v: Scalar| {
        if let Some(low) = low {
            v = arithmetic::binary(BinaryOp::Max, v, low.cast(v.dtype()));
        }
        if let Some(high) = high {
            v = arithmetic::binary(BinaryOp::Min, v, high.cast(v.dtype()));
        }
        v
    };
    Ok(vec![Tensor::from_scalars(x.dtype, x.dims.clone(), x.scalars().map(clip)).into()])
}

fn eval_relu(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let relu = |v: Scalar| arithmetic::binary(BinaryOp::Max, v, Scalar::zero(v.dtype()));
    Ok(vec![Tensor::from_scalars(x.dtype, x.dims.clone(), x.scalars().map(relu)).into()])
}

/// A bound as an operand: a constant becomes a number of the body, so that the kernel has no buffer for it.
enum BoundArg {
    Number(Scalar),
    Element(Arg),
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let (x, y) = (cx.arg(0)?, cx.result(0)?);
    let mut args = vec![x];
    let mut steps = Vec::new();
    for (index, op) in [(1, BinaryOp::Max), (2, BinaryOp::Min)] {
        if !cx.has_input(index) {
            continue;
        }
        let number = cx.constant(index).and_then(Tensor::as_splat);
        let bound = match number {
            Some(number) => BoundArg::Number(number),
            None => {
                let arg = cx.arg(index)?;
                BoundArg::Element(cx.reshaped(&arg, vec![]))
            }
        };
        if let BoundArg::Element(arg) = &bound {
            args.push(arg.clone());
        }
        steps.push((op, bound));
    }
    let dtype = y.dtype;
    cx.pointwise(&args, &y, |body, v| {
        let (mut value, mut next) = (v[0], 1);
        for (op, bound) in &steps {
            let bound = match bound {
                BoundArg::Number(number) => body.scalar(number.cast(dtype)),
                BoundArg::Element(_) => {
                    next += 1;
                    body.cast(dtype, v[next - 1])
                }
            };
            value = body.binary(*op, value, bound);
        }
        value
    })
}

fn lower_relu(cx: &mut LowerCx) -> Result<()> {
    let (x, y) = (cx.arg(0)?, cx.result(0)?);
    cx.pointwise(std::slice::from_ref(&x), &y, |body, v| {
        let zero = body.scalar(Scalar::zero(x.dtype));
        body.binary(BinaryOp::Max, v[0], zero)
    })
}
