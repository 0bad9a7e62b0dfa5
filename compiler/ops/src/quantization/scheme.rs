//! How scales and zero points lie beside a tensor, and the arithmetic of quantising that all operators share.
//!
//! ONNX: "y = saturate((x / y_scale) + y_zero_point)", rounding "to the nearest even integer value" before the
//! zero point is added. Everything is computed in f32, by evaluation and kernels alike.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::expr::Expr;
use oaaxc_ir::kernel::{BinaryOp, Body, Index, UnaryOp, V};
use oaaxc_ir::lower::Buf;
use oaaxc_ir::tensor::{Tensor, position};
use oaaxc_ir::{DType, ReadAttributes, Scalar};

type Result<T> = std::result::Result<T, Diagnostic>;

/// Which element of the parameters belongs to an element of the tensor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grain {
    /// One for all.
    Tensor,
    /// One per index of this dim.
    Axis(usize),
    /// One per run of so many indices of this dim; the parameters have the tensor's rank.
    Block(usize, i64),
}

impl Grain {
    /// The grain of parameters with these sizes beside a tensor of this rank, by `axis` and `block_size`.
    pub fn read(cx: &impl ReadAttributes, rank: usize, parameters: &[Option<i64>]) -> Result<Grain> {
        let block = cx.int("block_size", 0)?;
        match parameters.len() {
            0 => Ok(Grain::Tensor),
            1 if parameters[0] == Some(1) && block == 0 => Ok(Grain::Tensor),
            1 if block == 0 || rank == 1 => {
                let axis = cx.axis("axis", 1, rank)?;
                Ok(if block == 0 { Grain::Axis(axis) } else { Grain::Block(axis, block) })
            }
            n if n == rank && block > 0 => Ok(Grain::Block(cx.axis("axis", 1, rank)?, block)),
            n => {
                let message = format!("scales of rank {n} with block_size {block} do not fit a tensor of rank {rank}");
                Err(cx.fail(Code::SHAPE, message))
            }
        }
    }
    /// The index into parameters of this rank.
    pub fn index(self, parameter_rank: usize, axes: &[Expr]) -> Vec<Index> {
        match self {
            Grain::Tensor => vec![Index::Expr(0.into()); parameter_rank],
            Grain::Axis(axis) => vec![(&axes[axis]).into()],
            Grain::Block(axis, size) => {
                let at = |(d, a): (usize, &Expr)| if d == axis { a.floor_div(&size.into()) } else { a.clone() };
                axes.iter().enumerate().map(at).map(Index::Expr).collect()
            }
        }
    }
    /// The row-major position in parameters of these dims.
    pub fn position(self, dims: &[usize], c: &[usize]) -> usize {
        match self {
            Grain::Tensor => 0,
            Grain::Axis(axis) => c[axis],
            Grain::Block(axis, size) => {
                let own: Vec<usize> =
                    c.iter().enumerate().map(|(d, i)| if d == axis { i / size.max(1) as usize } else { *i }).collect();
                position(&own, dims)
            }
        }
    }
}

/// The element of a type nearest to `value + zero`: rounded half to even before the zero point is added, saturated.
pub fn quantize(value: f32, zero: f32, dtype: DType) -> Scalar {
    match dtype.integer_range() {
        None => Scalar::from_f32(value + zero).cast(dtype),
        Some((low, high)) if dtype.size() < 4 => {
            let v = (value.round_ties_even() + zero).max(low as f32).min(high as f32);
            // f32::max ignores NaN, which a cast makes 0.
            Scalar::from_f32(if value.is_nan() { value } else { v }).cast(dtype)
        }
        Some((low, high)) => {
            let v = (f64::from(value).round_ties_even() + f64::from(zero)).max(low as f64).min(high as f64);
            Scalar::from_f64(v).cast(dtype)
        }
    }
}

/// `quantize` in a body; `value` and `zero` are floats.
pub fn quantized(body: &mut Body, value: V, zero: Option<V>, dtype: DType) -> V {
    let Some((low, high)) = dtype.integer_range() else {
        let v = zero.map_or(value, |z| body.binary(BinaryOp::Add, value, z));
        return body.cast(dtype, v);
    };
    let stat = if dtype.size() < 4 { DType::F32 } else { DType::F64 };
    let value = body.cast(stat, value);
    let mut v = body.unary(UnaryOp::Round, value);
    if let Some(zero) = zero {
        let zero = body.cast(stat, zero);
        v = body.binary(BinaryOp::Add, v, zero);
    }
    let (low, high) = (body.float(stat, low as f64), body.float(stat, high as f64));
    let v = body.binary(BinaryOp::Max, v, low);
    let v = body.binary(BinaryOp::Min, v, high);
    body.cast(dtype, v)
}

/// Loads a parameter as f32.
pub fn load_f32(body: &mut Body, buffer: &Buf, index: Vec<Index>) -> V {
    let v = body.load(buffer, index);
    body.cast(DType::F32, v)
}

/// `(x − zero) · scale` in f32; integers are subtracted exactly.
pub fn dequantized(body: &mut Body, x: V, zero: Option<V>, scale: V) -> V {
    let exact = if body.dtype(x).is_float() { DType::F32 } else { DType::I32 };
    let mut v = body.cast(exact, x);
    if let Some(zero) = zero {
        let zero = body.cast(exact, zero);
        v = body.binary(BinaryOp::Sub, v, zero);
    }
    let v = body.cast(DType::F32, v);
    body.binary(BinaryOp::Mul, v, scale)
}

/// `dequantized` of one element.
pub fn dequantize(x: Scalar, zero: Option<Scalar>, scale: f32) -> f32 {
    if x.dtype().is_float() {
        return (x.as_f64() as f32 - zero.map_or(0.0, |z| z.as_f64() as f32)) * scale;
    }
    (x.as_i64().wrapping_sub(zero.map_or(0, Scalar::as_i64)) as i32) as f32 * scale
}

/// A scale or zero point as f32.
pub fn f32_at(tensor: &Tensor, index: usize) -> f32 {
    tensor.get(index).cast(DType::F32).as_f64() as f32
}
