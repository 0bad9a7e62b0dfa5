//! QuantizeLinear and DequantizeLinear: one scale for all, one per index of an axis, or one per block.
//!
//! Before 13 there was one scale for all. `precision` and `saturate` = 0 (8-bit floats beyond their range become
//! NaN or infinity) are refused where they would change a result.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Index, Loop, Store};
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::{Coordinates, Tensor};
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands};

use super::scheme::{Grain, dequantize, dequantized, f32_at, load_f32, quantize, quantized};

type Result<T> = std::result::Result<T, Diagnostic>;

macro_rules! row {
    ($name:literal, $domain:literal) => {
        OpDef { name: $name, domain: $domain, upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) }
    };
}
/// ONNX QuantizeLinear.
pub static QUANTIZE: OpDef = row!("QuantizeLinear", "");
/// ONNX DequantizeLinear.
pub static DEQUANTIZE: OpDef = row!("DequantizeLinear", "");
/// ONNX Runtime's QuantizeLinear for 16-bit types.
pub static QUANTIZE_MICROSOFT: OpDef = row!("QuantizeLinear", "com.microsoft");
/// ONNX Runtime's DequantizeLinear for 16-bit types.
pub static DEQUANTIZE_MICROSOFT: OpDef = row!("DequantizeLinear", "com.microsoft");

fn quantizes(cx: &impl ReadAttributes) -> bool {
    cx.node().op.name.starts_with('Q')
}

/// The attribute `output_dtype`, where set.
fn output_dtype(cx: &impl ReadAttributes) -> Result<Option<DType>> {
    match cx.int("output_dtype", 0)? {
        0 => Ok(None),
        n => match i32::try_from(n).ok().and_then(DType::from_onnx) {
            Some(dtype) => Ok(Some(dtype)),
            None => Err(cx.fail(Code::ATTRIBUTE, format!("`output_dtype` {n} is no element type"))),
        },
    }
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (shape, scale) = (cx.shape(0)?, cx.shape(1)?);
    let asked = output_dtype(cx)?;
    let dtype = match (quantizes(cx), asked) {
        (true, _) if cx.has_input(2) => cx.dtype(2)?,
        (true, asked) => asked.unwrap_or(DType::U8),
        (false, asked) => asked.unwrap_or(cx.dtype(1)?),
    };
    if quantizes(cx) && asked.is_some_and(|a| a != dtype) {
        return Err(cx.fail(Code::TYPE, format!("`output_dtype` contradicts the zero point, which is {dtype}")));
    }
    if quantizes(cx) && dtype.is_narrow_float() && !cx.flag("saturate", true)? {
        return Err(cx.fail(Code::UNSUPPORTED, "`saturate` = 0 is not supported"));
    }
    let sizes: Vec<Option<i64>> = scale.iter().map(Expr::as_const).collect();
    match Grain::read(cx, shape.len(), &sizes)? {
        Grain::Axis(axis) => cx.require_equal(&scale[0], &shape[axis], "the number of scales and the size of `axis`")?,
        Grain::Block(axis, block) => {
            for (d, (s, x)) in scale.iter().zip(&shape).enumerate() {
                let wanted = if d == axis { x.ceil_div(&block.into()) } else { x.clone() };
                cx.require_equal(s, &wanted, "the sizes of the scales and the blocks of the tensor")?;
            }
        }
        Grain::Tensor => {}
    }
    cx.set(0, dtype, shape);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (x, scale, zero) = (cx.input(0)?, cx.input(1)?, cx.optional(2)?);
    let sizes: Vec<Option<i64>> = scale.dims.iter().map(|d| Some(*d as i64)).collect();
    let grain = Grain::read(cx, x.rank(), &sizes)?;
    let places = Coordinates::new(&x.dims).map(|c| grain.position(&scale.dims, &c));
    let quantizes = quantizes(cx);
    let asked = output_dtype(cx)?;
    let dtype = match zero {
        Some(zero) if quantizes => zero.dtype,
        _ => asked.unwrap_or(if quantizes { DType::U8 } else { scale.dtype }),
    };
    let elements = places.enumerate().map(|(i, p)| {
        let s = f32_at(scale, p);
        if quantizes {
            quantize(f32_at(x, i) / s, zero.map_or(0.0, |z| f32_at(z, p)), dtype)
        } else {
            oaaxc_ir::Scalar::from_f32(dequantize(x.get(i), zero.map(|z| z.get(p)), s)).cast(dtype)
        }
    });
    Ok(vec![Tensor::from_scalars(dtype, x.dims.clone(), elements.collect::<Vec<_>>()).into()])
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let (x, scale, zero, y) = (cx.arg(0)?, cx.arg(1)?, cx.optional_arg(2)?, cx.result(0)?);
    let sizes: Vec<Option<i64>> = scale.dims.iter().map(Expr::as_const).collect();
    let grain = Grain::read(cx, x.dims.len(), &sizes)?;
    let mut k = cx.kernel();
    let (xb, sb) = (k.read(&x), k.read(&scale));
    let zb = zero.map(|z| k.read(&z));
    let yb = k.write(&y);
    let mut l = Loop::default();
    let axes = k.axes(&mut l.parallel, &y.dims);
    let index: Vec<Index> = axes.iter().map(Into::into).collect();
    let b = &mut l.post;
    let v = b.load(&xb, index.clone());
    let s = load_f32(b, &sb, grain.index(scale.dims.len(), &axes));
    let z = zb.map(|zb| b.load(&zb, grain.index(zb.dims.len(), &axes)));
    let v = if quantizes(cx) {
        let v = b.cast(DType::F32, v);
        let q = b.binary(BinaryOp::Div, v, s);
        let z = z.map(|z| b.cast(DType::F32, z));
        quantized(b, q, z, y.dtype)
    } else {
        let v = dequantized(b, v, z, s);
        b.cast(y.dtype, v)
    };
    l.stores.push(Store::at(&yb, index, v));
    k.push(l);
    cx.launch(k)
}
