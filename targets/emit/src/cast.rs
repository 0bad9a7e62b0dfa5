//! Values of element types as SSA values, and conversions between them: `Scalar::cast` as MLIR.
//!
//! Carried types: Bool is i1 (a byte in memory), integers and the 4- and 2-bit types are as wide as in
//! memory, bfloat16 is its pattern (i16), narrow floats are their pattern (i8), the rest are floats.
//! f16, bf16 and narrow floats are computed on as f32 (`wide`) and rounded after each operation.

use oaaxc_ir::{DType, Scalar};

use crate::narrow;
use crate::text::Writer;

/// A value.
#[derive(Clone, Debug)]
pub struct Value {
    /// Its element type.
    pub dtype: DType,
    /// Its SSA name, of type `carried(dtype)`.
    pub name: String,
    /// Where it is known.
    pub constant: Option<Scalar>,
}

/// The SSA type of a value.
pub fn carried(dtype: DType) -> &'static str {
    match dtype {
        DType::Bool => "i1",
        _ => stored(dtype),
    }
}

/// The type in memory.
pub fn stored(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "f32",
        DType::F64 => "f64",
        DType::F16 => "f16",
        DType::BF16 | DType::I16 | DType::U16 => "i16",
        DType::I32 | DType::U32 => "i32",
        DType::I64 | DType::U64 => "i64",
        _ => "i8",
    }
}

/// The float type in which operations on this float type are done.
pub fn computed(dtype: DType) -> &'static str {
    if dtype == DType::F64 { "f64" } else { "f32" }
}

/// Whether values of this type can be emitted at all.
pub fn is_emitted(dtype: DType) -> bool {
    !dtype.is_complex() && dtype != DType::String
}

fn bits(dtype: DType) -> u32 {
    if dtype == DType::Bool { 1 } else { dtype.size() as u32 * 8 }
}

/// A number.
pub fn constant(w: &mut Writer, scalar: Scalar) -> Value {
    let dtype = scalar.dtype();
    let name = match dtype {
        DType::F32 => w.constant(format_args!("0x{:08X} : f32", scalar.bits())),
        DType::F64 => w.constant(format_args!("0x{:016X} : f64", scalar.bits())),
        DType::F16 => w.constant(format_args!("0x{:04X} : f16", scalar.bits())),
        DType::Bool => w.constant(if scalar.as_bool() { "true" } else { "false" }),
        _ => {
            let shift = 64 - bits(dtype);
            let value = (scalar.bits() << shift) as i64 >> shift;
            w.constant(format_args!("{value} : {}", carried(dtype)))
        }
    };
    Value { dtype, name, constant: Some(scalar) }
}

/// A value that was computed.
pub fn value(dtype: DType, name: String) -> Value {
    Value { dtype, name, constant: None }
}

/// The float on which operations are done: `computed(dtype)`.
pub fn wide(w: &mut Writer, v: &Value) -> String {
    if let Some(c) = v.constant.filter(|_| v.dtype != DType::F64) {
        return constant(w, c.cast(DType::F32)).name;
    }
    match v.dtype {
        DType::F32 | DType::F64 => v.name.clone(),
        DType::F16 => w.op(format_args!("arith.extf {} : f16 to f32", v.name)),
        DType::BF16 => {
            let sixteen = w.constant("16 : i32");
            let bits = w.op(format_args!("arith.extui {} : i16 to i32", v.name));
            let bits = w.op(format_args!("arith.shli {bits}, {sixteen} : i32"));
            w.op(format_args!("arith.bitcast {bits} : i32 to f32"))
        }
        _ => narrow::decode(w, v.dtype, &v.name),
    }
}

/// Rounds a float of type `computed(dtype)` to a value.
pub fn round(w: &mut Writer, dtype: DType, wide: &str) -> Value {
    let name = match dtype {
        DType::F32 | DType::F64 => wide.to_string(),
        DType::F16 => w.op(format_args!("arith.truncf {wide} : f32 to f16")),
        DType::BF16 => round_bf16(w, wide),
        _ => narrow::encode(w, dtype, wide),
    };
    value(dtype, name)
}

/// To nearest even by integers, which every machine can do on vectors; a NaN becomes quiet.
fn round_bf16(w: &mut Writer, wide: &str) -> String {
    let (sixteen, one, bias, quiet) =
        (w.constant("16 : i32"), w.constant("1 : i32"), w.constant("32767 : i32"), w.constant("4194304 : i32"));
    let bits = w.op(format_args!("arith.bitcast {wide} : f32 to i32"));
    let last = w.op(format_args!("arith.shrui {bits}, {sixteen} : i32"));
    let last = w.op(format_args!("arith.andi {last}, {one} : i32"));
    let up = w.op(format_args!("arith.addi {bits}, {bias} : i32"));
    let up = w.op(format_args!("arith.addi {up}, {last} : i32"));
    let nan = w.op(format_args!("arith.ori {bits}, {quiet} : i32"));
    let is_nan = w.op(format_args!("arith.cmpf uno, {wide}, {wide} : f32"));
    let chosen = w.op(format_args!("arith.select {is_nan}, {nan}, {up} : i32"));
    let chosen = w.op(format_args!("arith.shrui {chosen}, {sixteen} : i32"));
    w.op(format_args!("arith.trunci {chosen} : i32 to i16"))
}

/// Wraps an integer of carried type to the width of a 4- or 2-bit type.
pub fn wrap(w: &mut Writer, dtype: DType, name: String) -> Value {
    let width = dtype.onnx_bits() as u32;
    if dtype == DType::Bool || width == bits(dtype) {
        return value(dtype, name);
    }
    let name = if dtype.is_signed() {
        let shift = w.constant(format_args!("{} : i8", 8 - width));
        let up = w.op(format_args!("arith.shli {name}, {shift} : i8"));
        w.op(format_args!("arith.shrsi {up}, {shift} : i8"))
    } else {
        let mask = w.constant(format_args!("{} : i8", (1 << width) - 1));
        w.op(format_args!("arith.andi {name}, {mask} : i8"))
    };
    value(dtype, name)
}

/// Converts a value.
pub fn cast(w: &mut Writer, to: DType, v: &Value) -> Value {
    if v.dtype == to {
        return v.clone();
    }
    if let Some(c) = v.constant {
        return constant(w, c.cast(to));
    }
    match (v.dtype.is_float(), to.is_float()) {
        (true, true) => float_to_float(w, to, v),
        (true, false) if to == DType::Bool => {
            let (x, ty) = (wide(w, v), computed(v.dtype));
            let zero = w.constant(format_args!("0.0 : {ty}"));
            let name = w.op(format_args!("arith.cmpf une, {x}, {zero} : {ty}"));
            value(to, name)
        }
        (true, false) => float_to_integer(w, to, v),
        (false, true) => integer_to_float(w, to, v),
        (false, false) if to == DType::Bool => {
            let ty = carried(v.dtype);
            let zero = w.constant(format_args!("0 : {ty}"));
            let name = w.op(format_args!("arith.cmpi ne, {}, {zero} : {ty}", v.name));
            value(to, name)
        }
        (false, false) => {
            let name = resize(w, v, to);
            wrap(w, to, name)
        }
    }
}

fn resize(w: &mut Writer, v: &Value, to: DType) -> String {
    let (from_bits, to_bits) = (bits(v.dtype), bits(to));
    let op = match from_bits.cmp(&to_bits) {
        std::cmp::Ordering::Equal => return v.name.clone(),
        std::cmp::Ordering::Greater => "trunci",
        std::cmp::Ordering::Less if v.dtype.is_signed() => "extsi",
        std::cmp::Ordering::Less => "extui",
    };
    w.op(format_args!("arith.{op} {} : i{from_bits} to i{to_bits}", v.name))
}

fn float_to_float(w: &mut Writer, to: DType, v: &Value) -> Value {
    let x = wide(w, v);
    match (v.dtype, to) {
        (DType::F64, DType::F16) => {
            let name = w.op(format_args!("arith.truncf {x} : f64 to f16"));
            value(to, name)
        }
        (DType::F64, _) => {
            let narrowed = w.op(format_args!("arith.truncf {x} : f64 to f32"));
            round(w, to, &narrowed)
        }
        (_, DType::F64) => {
            let name = w.op(format_args!("arith.extf {x} : f32 to f64"));
            value(to, name)
        }
        _ => round(w, to, &x),
    }
}

/// Truncates and saturates; NaN gives 0.
fn float_to_integer(w: &mut Writer, to: DType, v: &Value) -> Value {
    let (x, from) = (wide(w, v), computed(v.dtype));
    let ty = carried(to);
    let name = if to.is_unsigned() && to != DType::U64 && to != DType::U32 {
        // Through a signed type that holds the range: one instruction on every machine.
        let wider = w.op(format_args!("llvm.call_intrinsic \"llvm.fptosi.sat.i32.{from}\"({x}) : ({from}) -> i32"));
        let zero = w.constant("0 : i32");
        let (_, high) = to.integer_range().expect("an integer type has a range");
        let high = w.constant(format_args!("{high} : i32"));
        let wider = w.op(format_args!("arith.maxsi {wider}, {zero} : i32"));
        let wider = w.op(format_args!("arith.minsi {wider}, {high} : i32"));
        w.op(format_args!("arith.trunci {wider} : i32 to {ty}"))
    } else if to.is_unsigned() {
        w.op(format_args!("llvm.call_intrinsic \"llvm.fptoui.sat.{ty}.{from}\"({x}) : ({from}) -> {ty}"))
    } else if matches!(to, DType::I32 | DType::I64) {
        w.op(format_args!("llvm.call_intrinsic \"llvm.fptosi.sat.{ty}.{from}\"({x}) : ({from}) -> {ty}"))
    } else {
        let wider = w.op(format_args!("llvm.call_intrinsic \"llvm.fptosi.sat.i32.{from}\"({x}) : ({from}) -> i32"));
        let (low, high) = to.integer_range().expect("an integer type has a range");
        let (low, high) = (w.constant(format_args!("{low} : i32")), w.constant(format_args!("{high} : i32")));
        let wider = w.op(format_args!("arith.maxsi {wider}, {low} : i32"));
        let wider = w.op(format_args!("arith.minsi {wider}, {high} : i32"));
        w.op(format_args!("arith.trunci {wider} : i32 to {ty}"))
    };
    if !w.portable {
        return value(to, name);
    }
    // Not every machine's conversion knows NaN.
    let zero = w.constant(format_args!("0 : {ty}"));
    let nan = w.op(format_args!("arith.cmpf uno, {x}, {x} : {from}"));
    let name = w.op(format_args!("arith.select {nan}, {zero}, {name} : {ty}"));
    value(to, name)
}

fn integer_to_float(w: &mut Writer, to: DType, v: &Value) -> Value {
    let from = carried(v.dtype);
    let op = if v.dtype.is_signed() { "sitofp" } else { "uitofp" };
    // Integers beyond 24 bits would be rounded twice on the way to a half through f32.
    let through_double = bits(v.dtype) > 16 && to != DType::F32;
    let middle = if through_double { "f64" } else { "f32" };
    let x = w.op(format_args!("arith.{op} {} : {from} to {middle}", v.name));
    match middle {
        "f64" => float_to_float_or_same(w, to, x),
        _ if to == DType::F64 => {
            let name = w.op(format_args!("arith.extf {x} : f32 to f64"));
            value(to, name)
        }
        _ => round(w, to, &x),
    }
}

fn float_to_float_or_same(w: &mut Writer, to: DType, x: String) -> Value {
    let double = value(DType::F64, x);
    if to == DType::F64 { double } else { float_to_float(w, to, &double) }
}
