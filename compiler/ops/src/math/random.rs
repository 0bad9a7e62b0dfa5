//! Operators that draw random numbers. ONNX fixes neither the generator nor its order, so no two runtimes agree:
//! their types are inferred, their values are refused by name.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands};

type Result<T> = std::result::Result<T, Diagnostic>;

const REFUSED: &str = "random numbers are not reproducible between runtimes; draw them outside and make them an input";

macro_rules! operators {
    ($($constant:ident $name:literal $infer:ident;)*) => {
        $(#[doc = concat!("ONNX ", $name, ".")]
        pub static $constant: OpDef =
            OpDef { name: $name, domain: "", upgrade: no_upgrade, infer: $infer, eval, lower: Lower::Refused(REFUSED) };)*
        /// The operators of this file.
        pub static OPS: &[&OpDef] = &[$(&$constant),*];
    };
}
operators! {
    RANDOM_NORMAL "RandomNormal" infer_shape;
    RANDOM_UNIFORM "RandomUniform" infer_shape;
    RANDOM_NORMAL_LIKE "RandomNormalLike" infer_like;
    RANDOM_UNIFORM_LIKE "RandomUniformLike" infer_like;
    BERNOULLI "Bernoulli" infer_like;
    MULTINOMIAL "Multinomial" infer_samples;
}

fn dtype(cx: &InferCx, default: DType) -> Result<DType> {
    if cx.has("dtype") { crate::tensor::named_type(cx, "dtype") } else { Ok(default) }
}

fn infer_shape(cx: &mut InferCx) -> Result<()> {
    let shape = cx.ints("shape")?.ok_or_else(|| cx.fail(Code::ATTRIBUTE, "attribute `shape` is required"))?;
    let dtype = dtype(cx, DType::F32)?;
    cx.set(0, dtype, shape.into_iter().map(Expr::constant).collect());
    Ok(())
}

fn infer_like(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (dtype(cx, cx.dtype(0)?)?, cx.shape(0)?);
    cx.set(0, dtype, shape);
    Ok(())
}

fn infer_samples(cx: &mut InferCx) -> Result<()> {
    let shape = cx.shape(0)?;
    let [batch, _] = &shape[..] else { return Err(cx.fail(Code::RANK, "the input must have 2 dims")) };
    let dtype = dtype(cx, DType::I32)?;
    let count = cx.int("sample_size", 1)?;
    cx.set(0, dtype, vec![batch.clone(), count.into()]);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    Err(cx.fail(Code::UNSUPPORTED, REFUSED))
}
