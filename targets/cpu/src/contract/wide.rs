//! Operands of 16 bits, read as f32: every sum is in f32 whatever the operands are.
//!
//! One conversion instruction where the level has one (F16C, AVX-512, fcvtl), a shift for bfloat16, integer code else.

use oaaxc_emit::cast::{self, stored, value};
use oaaxc_emit::text::Writer;
use oaaxc_ir::DType;

/// Whether the micro-kernels read this type.
pub fn is_read(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
}

/// The element behind a pointer.
pub fn scalar(w: &mut Writer, dtype: DType, from: &str) -> String {
    let x = w.op(format_args!("llvm.load {from} : !llvm.ptr -> {}", stored(dtype)));
    cast::wide(w, &value(dtype, x))
}

/// The next `lanes` elements behind a pointer.
pub fn vector(w: &mut Writer, dtype: DType, lanes: i64, from: &str) -> String {
    let ty = format!("vector<{lanes}x{}>", stored(dtype));
    let x = w.op(format_args!("llvm.load {from} {{alignment = {} : i64}} : !llvm.ptr -> {ty}", dtype.size()));
    widened(w, dtype, lanes, &x)
}

/// A vector of stored elements as floats.
pub fn widened(w: &mut Writer, dtype: DType, lanes: i64, x: &str) -> String {
    let (floats, ints) = (format!("vector<{lanes}xf32>"), format!("vector<{lanes}xi32>"));
    match dtype {
        DType::F16 => w.op(format_args!("arith.extf {x} : vector<{lanes}xf16> to {floats}")),
        DType::BF16 => {
            let sixteen = w.constant(format_args!("dense<16> : {ints}"));
            let bits = w.op(format_args!("arith.extui {x} : vector<{lanes}xi16> to {ints}"));
            let bits = w.op(format_args!("arith.shli {bits}, {sixteen} : {ints}"));
            w.op(format_args!("arith.bitcast {bits} : {ints} to {floats}"))
        }
        _ => x.to_string(),
    }
}

/// Copies `count` neighbours as floats: by vectors, of which the last may copy again what the one before copied;
/// a short run by shorter vectors, the shortest one by one.
pub fn copy(w: &mut Writer, dtype: DType, lanes: i64, from: &str, into: &str, count: &str) {
    let end = w.label();
    for width in [lanes, 4] {
        let (fits, less) = (w.label(), w.label());
        let size = w.int(width);
        let enough = w.op(format_args!("arith.cmpi sge, {count}, {size} : i64"));
        w.branch(&enough, &fits, &less);
        w.block(&fits, "");
        let (zero, last) = (w.int(0), w.int_op("subi", count, &size));
        let j = w.open(&zero, count, &size);
        let at = w.int_op("minsi", &j.counter, &last);
        let source = w.element(from, &at, stored(dtype));
        let to = w.element(into, &at, "f32");
        let x = vector(w, dtype, width, &source);
        w.line(format_args!("llvm.store {x}, {to} {{alignment = 4 : i64}} : vector<{width}xf32>, !llvm.ptr"));
        w.close(j);
        w.jump(&end);
        w.block(&less, "");
        if lanes == 4 {
            break;
        }
    }
    let (zero, one) = (w.int(0), w.int(1));
    let j = w.open(&zero, count, &one);
    let source = w.element(from, &j.counter, stored(dtype));
    let to = w.element(into, &j.counter, "f32");
    let x = scalar(w, dtype, &source);
    w.line(format_args!("llvm.store {x}, {to} : f32, !llvm.ptr"));
    w.close(j);
    w.jump(&end);
    w.block(&end, "");
}
