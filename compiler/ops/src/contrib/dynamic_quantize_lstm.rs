//! DynamicQuantizeLSTM of com.microsoft: an LSTM whose weights are 8-bit integers, `[directions, input, 4·hidden]`.
//!
//! The weights are dequantised (at build time where they are constants) and the cell runs in floats.
//! ONNX Runtime also rounds the activations to 8 bits to save time; here they keep their precision.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{Index, Loop, Store};
use oaaxc_ir::lower::{Arg, Buf, LowerCx};
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::{DType, Datum, Expr, ReadAttributes, ReadOperands};

use crate::nn::recurrent::{self, Cell, Operands, form};
use crate::quantization::scheme::{dequantize, dequantized, f32_at, load_f32};

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static DYNAMIC_QUANTIZE_LSTM: OpDef = OpDef {
    name: "DynamicQuantizeLSTM",
    domain: "com.microsoft",
    upgrade: no_upgrade,
    infer,
    eval,
    lower: Lower::Kernels(lower),
};

fn infer(cx: &mut InferCx) -> Result<()> {
    let form = form(cx)?;
    let (x, w, r) = (cx.shape(0)?, cx.shape(1)?, cx.shape(2)?);
    if x.len() != 3 || w.len() != 3 || r.len() != 3 {
        return Err(cx.fail(Code::SHAPE, "X, W and R must have rank 3"));
    }
    cx.require_equal(&w[1], &x[2], "the input size of W and of X")?;
    cx.require_equal(&w[2], &(&r[1] * 4), "the gates in W")?;
    cx.require_equal(&r[2], &(&r[1] * 4), "the gates in R")?;
    recurrent::set_results(cx, &form, &r[1])
}

/// The weights as numbers, in the order `[directions, gates·hidden, input]`.
fn weights(w: &Tensor, scale: &Tensor, zero: Option<&Tensor>) -> Vec<f64> {
    let (rows, columns) = (w.dims[1], w.dims[2]);
    let turned = w.gathered(vec![w.dims[0], columns, rows], |c| (c[0] * rows + c[2]) * columns + c[1]);
    let at = |t: &Tensor, i: usize| match t.len() {
        1 => 0,
        n if n == w.dims[0] => i / (rows * columns),
        _ => i / rows,
    };
    let element = |i: usize| dequantize(turned.get(i), zero.map(|z| z.get(at(z, i))), f32_at(scale, at(scale, i)));
    (0..turned.len()).map(|i| f64::from(element(i))).collect()
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let form = form(cx)?;
    let numbers = |i: usize| -> Result<Option<Vec<f64>>> { Ok(cx.optional(i)?.map(Tensor::to_f64s)) };
    let operands = Operands {
        x: cx.input(0)?,
        w: weights(cx.input(1)?, cx.input(8)?, cx.optional(9)?),
        r: weights(cx.input(2)?, cx.input(10)?, cx.optional(11)?),
        hidden: cx.input(2)?.dims[1],
        bias: numbers(3)?,
        lengths: cx.optional(4)?.map(Tensor::to_i64s),
        h: numbers(5)?,
        c: numbers(6)?,
        peephole: numbers(7)?,
    };
    let mut results = recurrent::run(&form, &operands);
    results.truncate(cx.output_count());
    Ok(results)
}

/// The dequantised weights, in the same order.
fn dequantise(cx: &mut LowerCx, w: usize, scale: usize, zero: usize) -> Result<Arg> {
    let (w, scale, zero) = (cx.arg(w)?, cx.arg(scale)?, cx.optional_arg(zero)?);
    let out = cx.temp(DType::F32, w.dims.clone());
    let mut k = cx.kernel();
    let (wb, sb) = (k.read(&w), k.read(&scale));
    let zb = zero.map(|z| k.read(&z));
    let yb = k.write(&out);
    let mut l = Loop::default();
    let axes = k.axes(&mut l.parallel, &out.dims);
    // One per direction, or one per direction and row of gates.
    let place = |buffer: &Buf| -> Vec<Index> {
        let own = buffer.dims.iter().zip([&axes[0], &axes[2]]);
        own.map(|(d, a)| Index::Expr(if d.is(1) { Expr::constant(0) } else { a.clone() })).collect()
    };
    let b = &mut l.post;
    let index: Vec<Index> = axes.iter().map(Into::into).collect();
    let v = b.load(&wb, index.clone());
    let s = load_f32(b, &sb, place(&sb));
    let z = zb.map(|zb| b.load(&zb, place(&zb)));
    let v = dequantized(b, v, z, s);
    l.stores.push(Store::at(&yb, index, v));
    k.push(l);
    cx.launch(k)?;
    Ok(out)
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let form = form(cx)?;
    let cell = Cell {
        x: cx.arg(0)?,
        w: dequantise(cx, 1, 8, 9)?,
        r: dequantise(cx, 2, 10, 11)?,
        transposed: true,
        bias: cx.optional_arg(3)?,
        lengths: cx.optional_arg(4)?,
        h: cx.optional_arg(5)?,
        c: cx.optional_arg(6)?,
        peephole: cx.optional_arg(7)?,
    };
    recurrent::launch(cx, &form, &cell)
}
