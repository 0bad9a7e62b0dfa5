//! Matrix products of com.microsoft: FusedMatMul, MatMulIntegerToFloat, DynamicQuantizeMatMul, MatMulNBits.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Index, Loop, Step, Store};
use oaaxc_ir::lower::{Arg, Buf, LowerCx};
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::{Coordinates, Tensor};
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands, Scalar, ix};

use crate::math::gemm::scaled;
use crate::math::matmul::{self, Product};
use crate::nn::conv::accumulator;
use crate::quantization::dynamic;
use crate::quantization::products::{centred, launch, parameter_index, parameter_position};
use crate::quantization::scheme::{f32_at, load_f32, quantize};

type Result<T> = std::result::Result<T, Diagnostic>;

macro_rules! row {
    ($name:literal, $infer:ident, $eval:ident, $lower:ident) => {
        OpDef {
            name: $name,
            domain: "com.microsoft",
            upgrade: no_upgrade,
            infer: $infer,
            eval: $eval,
            lower: Lower::Kernels($lower),
        }
    };
}
/// `alpha · A' · B'`, each perhaps transposed in its last two dims.
pub static FUSED_MATMUL: OpDef = row!("FusedMatMul", infer_fused, eval_fused, lower_fused);
/// `(A − a_zero) · (B − b_zero) · a_scale · b_scale + bias` of integers.
pub static MATMUL_INTEGER_TO_FLOAT: OpDef = row!("MatMulIntegerToFloat", infer_integer, eval_integer, lower_integer);
/// The same with A quantised on the way.
pub static DYNAMIC_QUANTIZE_MATMUL: OpDef = row!("DynamicQuantizeMatMul", infer_integer, eval_integer, lower_integer);
/// `A · Bᵀ` with B in 4 or 8 bits, a scale and a zero point per block of a row.
pub static MATMUL_N_BITS: OpDef = row!("MatMulNBits", infer_bits, eval_bits, lower_bits);

fn turns(cx: &impl ReadAttributes) -> Result<(bool, bool)> {
    if cx.flag("transBatchA", false)? || cx.flag("transBatchB", false)? {
        return Err(cx.fail(Code::UNSUPPORTED, "`transBatchA` and `transBatchB` are not supported"));
    }
    Ok((cx.flag("transA", false)?, cx.flag("transB", false)?))
}

fn turned_shape(mut shape: Vec<Expr>, turn: bool) -> Vec<Expr> {
    if let (true, n @ 2..) = (turn, shape.len()) {
        shape.swap(n - 2, n - 1);
    }
    shape
}

fn infer_fused(cx: &mut InferCx) -> Result<()> {
    let (ta, tb) = turns(cx)?;
    let (a, b) = (turned_shape(cx.shape(0)?, ta), turned_shape(cx.shape(1)?, tb));
    let shape = matmul::infer_shape(cx, &a, &b)?;
    cx.set(0, cx.dtype(0)?, shape);
    Ok(())
}

fn eval_fused(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (ta, tb) = turns(cx)?;
    let straight = |t: &Tensor, turn: bool| {
        let n = t.rank();
        if !turn || n < 2 {
            return t.clone();
        }
        let mut dims = t.dims.clone();
        dims.swap(n - 2, n - 1);
        t.gathered(dims, |c| {
            let mut c = c.to_vec();
            c.swap(n - 2, n - 1);
            oaaxc_ir::tensor::position(&c, &t.dims)
        })
    };
    let (a, b) = (straight(cx.input(0)?, ta), straight(cx.input(1)?, tb));
    let (out, dims) = matmul::evaluate((&a.to_f64s(), &a.dims), (&b.to_f64s(), &b.dims), 0.0);
    let alpha = f64::from(cx.float("alpha", 1.0)?);
    Ok(vec![Tensor::from_f64s(a.dtype, dims, out.into_iter().map(|v| v * alpha)).into()])
}

fn lower_fused(cx: &mut LowerCx) -> Result<()> {
    let (a, b, y) = (cx.arg(0)?, cx.arg(1)?, cx.result(0)?);
    let (turned, alpha) = (turns(cx)?, cx.float("alpha", 1.0)?);
    let mut k = cx.kernel();
    let (ab, bb, yb) = (k.read(&a), k.read(&b), k.write(&y));
    let acc = accumulator(a.dtype);
    let Product { mut contract, output, .. } = matmul::contract(&mut k, &ab, &bb, &y.dims, turned, acc);
    let sum = contract.post.param(0, acc);
    let v = scaled(&mut contract.post, sum, alpha);
    let v = contract.post.cast(y.dtype, v);
    contract.stores.push(Store::at(&yb, output.iter().map(Into::into).collect(), v));
    k.step(Step::Contract(contract));
    cx.launch(k)
}

/// Where the scales, zero points and the bias of an integer product stand; no scale of A: it is quantised on the way.
struct Places {
    a_scale: Option<usize>,
    b_scale: usize,
    a_zero: Option<usize>,
    b_zero: usize,
    bias: usize,
}

fn places(cx: &impl ReadAttributes) -> Places {
    if cx.node().op.name.starts_with('D') {
        Places { a_scale: None, b_scale: 2, a_zero: None, b_zero: 3, bias: 4 }
    } else {
        Places { a_scale: Some(2), b_scale: 3, a_zero: Some(4), b_zero: 5, bias: 6 }
    }
}

fn infer_integer(cx: &mut InferCx) -> Result<()> {
    let shape = matmul::infer_shape(cx, &cx.shape(0)?, &cx.shape(1)?)?;
    let dtype = cx.dtype(places(cx).b_scale)?;
    cx.set(0, dtype, shape);
    Ok(())
}

fn eval_integer(cx: &EvalCx) -> Result<Vec<Datum>> {
    let p = places(cx);
    let (mut a, b) = (cx.input(0)?.clone(), cx.input(1)?);
    let (a_scale, a_zero) = match p.a_scale {
        Some(scale) => (
            f32_at(cx.input(scale)?, 0),
            match p.a_zero {
                Some(zero) => cx.optional(zero)?.cloned(),
                None => None,
            },
        ),
        None => {
            let (scale, zero) = dynamic::parameters(&a);
            let elements: Vec<Scalar> = (0..a.len()).map(|i| quantize(f32_at(&a, i) / scale, zero, DType::U8)).collect();
            a = Tensor::from_scalars(DType::U8, a.dims.clone(), elements);
            (scale, Some(Tensor::scalar(Scalar::from_f32(zero).cast(DType::U8))))
        }
    };
    let (av, bv) = (centred(&a, a_zero.as_ref(), false), centred(b, cx.optional(p.b_zero)?, true));
    let (sums, dims) = matmul::evaluate((&av, &a.dims), (&bv, &b.dims), 0);
    let (b_scale, bias) = (cx.input(p.b_scale)?, cx.optional(p.bias)?);
    let out = Coordinates::new(&dims).zip(sums).map(|(c, sum)| {
        let scale = a_scale * f32_at(b_scale, parameter_position(b_scale, &c, true));
        f64::from(sum as i32 as f32 * scale + bias.map_or(0.0, |t| f32_at(t, parameter_position(t, &c, true))))
    });
    Ok(vec![Tensor::from_f64s(b_scale.dtype, dims.clone(), out.collect::<Vec<_>>()).into()])
}

fn lower_integer(cx: &mut LowerCx) -> Result<()> {
    let p = places(cx);
    let (mut a, b, y) = (cx.arg(0)?, cx.arg(1)?, cx.result(0)?);
    let (a_scale, a_zero) = match p.a_scale {
        Some(scale) => (cx.arg(scale)?, cx.optional_arg(p.a_zero.unwrap_or(usize::MAX))?),
        None => {
            let quantised = cx.temp(DType::U8, a.dims.clone());
            let (scale, zero) = (cx.temp(DType::F32, vec![]), cx.temp(DType::U8, vec![]));
            dynamic::launch(cx, &a, &quantised, &scale, &zero)?;
            a = quantised;
            (scale, Some(zero))
        }
    };
    let (b_scale, b_zero, bias) = (cx.arg(p.b_scale)?, cx.optional_arg(p.b_zero)?, cx.optional_arg(p.bias)?);
    let more: Vec<&Arg> = [&a_scale, &b_scale].into_iter().chain(bias.as_ref()).collect();
    launch(cx, (&a, a_zero.as_ref()), (&b, b_zero.as_ref()), &more, &y, |body, sum, out, more| {
        let place =
            |buffer: &Buf| -> Vec<Index> { parameter_index(&buffer.dims, out, true).into_iter().map(Index::Expr).collect() };
        let (s, t) = (load_f32(body, &more[0], place(&more[0])), load_f32(body, &more[1], place(&more[1])));
        let scale = body.binary(BinaryOp::Mul, s, t);
        let sum = body.cast(DType::F32, sum);
        let mut v = body.binary(BinaryOp::Mul, sum, scale);
        if let Some(bias) = more.get(2) {
            let t = load_f32(body, bias, place(bias));
            v = body.binary(BinaryOp::Add, v, t);
        }
        body.cast(y.dtype, v)
    })
}

/// K, N, bits, block size.
fn bits(cx: &impl ReadAttributes) -> Result<(i64, i64, i64, i64)> {
    let (k, n, block) = (cx.required_int("K")?, cx.required_int("N")?, cx.required_int("block_size")?);
    let bits = cx.int("bits", 4)?;
    if ![2, 4, 8].contains(&bits) || block < 8 / bits || k < 1 || n < 1 {
        return Err(cx.fail(Code::UNSUPPORTED, format!("{bits} bits in blocks of {block} are not supported")));
    }
    Ok((k, n, bits, block))
}

fn infer_bits(cx: &mut InferCx) -> Result<()> {
    let (k, n, _, _) = bits(cx)?;
    if cx.has_input(4) {
        return Err(cx.fail(Code::UNSUPPORTED, "`g_idx` is not supported"));
    }
    let mut shape = cx.shape(0)?;
    let Some(last) = shape.last_mut() else { return Err(cx.fail(Code::SHAPE, "A must not be a scalar")) };
    let inner = std::mem::replace(last, Expr::constant(n));
    cx.require_equal(&inner, &k.into(), "the inner sizes of a matrix product")?;
    cx.set(0, cx.dtype(0)?, shape);
    Ok(())
}

fn eval_bits(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (k, n, bits, block) = bits(cx)?;
    let (a, packed, scales, zeros, bias) = (cx.input(0)?, cx.input(1)?, cx.input(2)?, cx.optional(3)?, cx.optional(5)?);
    let (k, n, bits, block) = (k as usize, n as usize, bits as usize, block as usize);
    let (blocks, per_byte, mask) = (k.div_ceil(block), 8 / bits, (1i64 << bits) - 1);
    let unpack = |t: &Tensor, row_bytes: usize, row: usize, at: usize| {
        t.i64_at(row * row_bytes + at / per_byte) >> (at % per_byte * bits) & mask
    };
    let mut w = vec![0.0; k * n];
    for row in 0..n {
        for i in 0..k {
            let b = i / block;
            let zero = match zeros {
                None => (1i64 << (bits - 1)) as f64,
                Some(z) if z.dtype.is_float() => z.f64_at(row * blocks + b),
                Some(z) => unpack(z, blocks.div_ceil(per_byte), row, b) as f64,
            };
            let q = unpack(packed, blocks * block / per_byte, row, i) as f64;
            w[i * n + row] = (q - zero) * scales.f64_at(row * blocks + b);
        }
    }
    let (out, dims) = matmul::evaluate((&a.to_f64s(), &a.dims), (&w, &[k, n]), 0.0);
    let out = out.into_iter().enumerate().map(|(i, v)| v + bias.map_or(0.0, |b| b.f64_at(i % n)));
    Ok(vec![Tensor::from_f64s(a.dtype, dims, out.collect::<Vec<_>>()).into()])
}

/// B is unpacked to `[N, K]` (at build time where it is constant), then a plain product.
fn lower_bits(cx: &mut LowerCx) -> Result<()> {
    let (kk, n, bits, block) = bits(cx)?;
    let (a, packed, scales) = (cx.arg(0)?, cx.arg(1)?, cx.arg(2)?);
    let (zeros, bias, y) = (cx.optional_arg(3)?, cx.optional_arg(5)?, cx.result(0)?);
    let acc = accumulator(a.dtype);
    let weights = cx.temp(acc, vec![n.into(), kk.into()]);
    let (blocks, per_byte) = ((kk + block - 1) / block, 8 / bits);
    // Row-major views under the sizes that the format says, whatever rank they were given in.
    let flat = |cx: &mut LowerCx, from: &Arg, dims: Vec<Expr>| {
        let view = cx.view(from.dtype, dims);
        cx.emit(oaaxc_ir::program::Instr::Alias { to: view.slot, from: from.slot });
        view
    };
    let packed = flat(cx, &packed, vec![n.into(), (blocks * block / per_byte).into()]);
    let scales = flat(cx, &scales, vec![n.into(), blocks.into()]);
    let zeros = zeros.map(|z| {
        let width = if z.dtype.is_float() { blocks } else { (blocks + per_byte - 1) / per_byte };
        flat(cx, &z, vec![n.into(), width.into()])
    });
    let mut k = cx.kernel();
    let (pb, sb) = (k.read(&packed), k.read(&scales));
    let zb = zeros.map(|z| k.read(&z));
    let wb = k.write(&weights);
    let mut l = Loop::default();
    let axes = k.axes(&mut l.parallel, &weights.dims);
    let b = &mut l.post;
    let number_of = |b: &mut oaaxc_ir::kernel::Body, buffer: &Buf, at: &Expr| {
        let byte = b.load(buffer, ix![&axes[0], at.floor_div(&per_byte.into())]);
        let byte = b.cast(DType::I32, byte);
        let shift = b.index(at.modulo(&per_byte.into()) * bits);
        let (shift, mask) = (b.cast(DType::I32, shift), b.int(DType::I32, (1 << bits) - 1));
        let v = b.binary(BinaryOp::Shr, byte, shift);
        let v = b.binary(BinaryOp::And, v, mask);
        b.cast(acc, v)
    };
    let run = axes[1].floor_div(&block.into());
    let q = number_of(b, &pb, &axes[1]);
    let zero = match &zb {
        None => b.float(acc, (1i64 << (bits - 1)) as f64),
        Some(z) if z.dtype.is_float() => {
            let v = b.load(z, ix![&axes[0], &run]);
            b.cast(acc, v)
        }
        Some(z) => number_of(b, z, &run),
    };
    let s = b.load(&sb, ix![&axes[0], run]);
    let s = b.cast(acc, s);
    let v = b.binary(BinaryOp::Sub, q, zero);
    let v = b.binary(BinaryOp::Mul, v, s);
    l.stores.push(Store::at(&wb, axes.iter().map(Into::into).collect(), v));
    k.push(l);
    cx.launch(k)?;

    let mut k = cx.kernel();
    let (ab, wb) = (k.read(&a), k.read(&weights));
    let bias = bias.map(|b| k.read(&b));
    let yb = k.write(&y);
    let Product { mut contract, output, column } = matmul::contract(&mut k, &ab, &wb, &y.dims, (false, true), acc);
    let mut v = contract.post.param(0, acc);
    if let Some(bias) = &bias {
        let t = contract.post.load(bias, ix![column]);
        let t = contract.post.cast(acc, t);
        v = contract.post.binary(BinaryOp::Add, v, t);
    }
    let v = contract.post.cast(y.dtype, v);
    contract.stores.push(Store::at(&yb, output.iter().map(Into::into).collect(), v));
    k.step(Step::Contract(contract));
    cx.launch(k)
}
