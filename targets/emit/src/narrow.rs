//! The 8- and 4-bit floats as integer code on f32: decode, and encode with saturation.
//!
//! The law is `oaaxc_ir::narrow`; every value of these types is exact in f32.

use oaaxc_ir::DType;

use crate::text::Writer;

struct Form {
    exponent_bits: u32,
    mantissa_bits: u32,
    bias: i32,
    max: f32,
    infinity: Option<u8>,
    nan: Option<u8>,
    signed_zero: bool,
}

fn form(dtype: DType) -> Form {
    #[rustfmt::skip] // One row per type.
    let (e, m, bias, max, infinity, nan, signed_zero) = match dtype {
        DType::F8E4M3FN => (4, 3, 7, 448.0, None, Some(0x7f), true),
        DType::F8E4M3FNUZ => (4, 3, 8, 240.0, None, Some(0x80), false),
        DType::F8E5M2 => (5, 2, 15, 57344.0, Some(0x7c), Some(0x7f), true),
        DType::F8E5M2FNUZ => (5, 2, 16, 57344.0, None, Some(0x80), false),
        _ => (2, 1, 1, 6.0, None, None, true), // F4E2M1; E8M0 is handled apart
    };
    Form { exponent_bits: e, mantissa_bits: m, bias, max, infinity, nan, signed_zero }
}

fn float(w: &mut Writer, value: f32) -> String {
    w.constant(format_args!("0x{:08X} : f32", value.to_bits()))
}

fn int(w: &mut Writer, value: i32) -> String {
    w.constant(format_args!("{value} : i32"))
}

fn i32_op(w: &mut Writer, op: &str, x: &str, y: &str) -> String {
    w.op(format_args!("arith.{op} {x}, {y} : i32"))
}

fn choose(w: &mut Writer, condition: &str, yes: &str, no: &str, ty: &str) -> String {
    w.op(format_args!("arith.select {condition}, {yes}, {no} : {ty}"))
}

fn as_float(w: &mut Writer, bits: &str) -> String {
    w.op(format_args!("arith.bitcast {bits} : i32 to f32"))
}

/// The f32 of an i8 pattern.
pub fn decode(w: &mut Writer, dtype: DType, code: &str) -> String {
    let code = w.op(format_args!("arith.extui {code} : i8 to i32"));
    let nan = float(w, f32::NAN);
    if dtype == DType::F8E8M0 {
        let (shift, zero, smallest, all) = (int(w, 23), int(w, 0), int(w, 0x0040_0000), int(w, 255));
        let bits = i32_op(w, "shli", &code, &shift);
        let is_zero = i32_op(w, "cmpi eq,", &code, &zero);
        let bits = choose(w, &is_zero, &smallest, &bits, "i32");
        let value = as_float(w, &bits);
        let is_nan = i32_op(w, "cmpi eq,", &code, &all);
        return choose(w, &is_nan, &nan, &value, "f32");
    }
    let f = form(dtype);
    let width = f.exponent_bits + f.mantissa_bits;
    let mask = int(w, (1 << width) - 1);
    let magnitude = i32_op(w, "andi", &code, &mask);
    let (shift, rebias) = (int(w, 23 - f.mantissa_bits as i32), int(w, (127 - f.bias) << 23));
    let bits = i32_op(w, "shli", &magnitude, &shift);
    let bits = i32_op(w, "addi", &bits, &rebias);
    let normal = as_float(w, &bits);
    let scale = float(w, 2f32.powi(1 - f.bias - f.mantissa_bits as i32));
    let small = w.op(format_args!("arith.uitofp {magnitude} : i32 to f32"));
    let small = w.op(format_args!("arith.mulf {small}, {scale} : f32"));
    let first_normal = int(w, 1 << f.mantissa_bits);
    let is_small = i32_op(w, "cmpi ult,", &magnitude, &first_normal);
    let mut value = choose(w, &is_small, &small, &normal, "f32");
    if let Some(infinity) = f.infinity {
        let pattern = int(w, i32::from(infinity));
        let infinite = float(w, f32::INFINITY);
        let is = i32_op(w, "cmpi eq,", &magnitude, &pattern);
        value = choose(w, &is, &infinite, &value, "f32");
        let is = i32_op(w, "cmpi ugt,", &magnitude, &pattern);
        value = choose(w, &is, &nan, &value, "f32");
    }
    let sign_bit = int(w, 1 << width);
    let sign = i32_op(w, "andi", &code, &sign_bit);
    let zero = int(w, 0);
    let negative = i32_op(w, "cmpi ne,", &sign, &zero);
    let opposite = w.op(format_args!("arith.negf {value} : f32"));
    value = choose(w, &negative, &opposite, &value, "f32");
    if let (Some(pattern), None) = (f.nan, f.infinity) {
        let pattern = int(w, i32::from(pattern));
        let against = if f.signed_zero { &magnitude } else { &code };
        let is = i32_op(w, "cmpi eq,", against, &pattern);
        value = choose(w, &is, &nan, &value, "f32");
    }
    value
}

/// The i8 pattern nearest to an f32, ties to even, saturating.
pub fn encode(w: &mut Writer, dtype: DType, value: &str) -> String {
    let bits = w.op(format_args!("arith.bitcast {value} : f32 to i32"));
    let is_nan = w.op(format_args!("arith.cmpf uno, {value}, {value} : f32"));
    let code = if dtype == DType::F8E8M0 { encode_e8m0(w, value, &bits, &is_nan) } else { encode_form(w, dtype, &bits, &is_nan) };
    w.op(format_args!("arith.trunci {code} : i32 to i8"))
}

fn encode_form(w: &mut Writer, dtype: DType, bits: &str, is_nan: &str) -> String {
    let f = form(dtype);
    let m = f.mantissa_bits as i32;
    let magnitude_mask = int(w, 0x7fff_ffff);
    let magnitude = i32_op(w, "andi", bits, &magnitude_mask);
    // Patterns of non-negative floats are ordered as integers; NaN is replaced at the end.
    let max_bits = int(w, f.max.to_bits() as i32);
    let magnitude = i32_op(w, "minsi", &magnitude, &max_bits);
    // Adding 2^(23 + exponent − m) leaves m mantissa bits, rounded to nearest even.
    let exponent_mask = int(w, 0x7f80_0000);
    let exponent = i32_op(w, "andi", &magnitude, &exponent_mask);
    let first_normal = 2f32.powi(1 - f.bias);
    let least = int(w, first_normal.to_bits() as i32);
    let exponent = i32_op(w, "maxsi", &exponent, &least);
    let up = int(w, (23 - m) << 23);
    let magic = i32_op(w, "addi", &exponent, &up);
    let magic = as_float(w, &magic);
    let value = as_float(w, &magnitude);
    let sum = w.op(format_args!("arith.addf {value}, {magic} : f32"));
    let rounded = w.op(format_args!("arith.subf {sum}, {magic} : f32"));
    let rounded_bits = w.op(format_args!("arith.bitcast {rounded} : f32 to i32"));
    let (shift, rebias) = (int(w, 23 - m), int(w, (127 - f.bias) << m));
    let normal = i32_op(w, "shrui", &rounded_bits, &shift);
    let normal = i32_op(w, "subi", &normal, &rebias);
    let steps = float(w, 2f32.powi(m - (1 - f.bias)));
    let small = w.op(format_args!("arith.mulf {rounded}, {steps} : f32"));
    let small = w.op(format_args!("arith.fptosi {small} : f32 to i32"));
    let is_small = i32_op(w, "cmpi slt,", &rounded_bits, &least);
    let mut code = choose(w, &is_small, &small, &normal, "i32");
    let width = (f.exponent_bits + f.mantissa_bits) as i32;
    let (top, place) = (int(w, 31), int(w, width));
    let sign = i32_op(w, "shrui", bits, &top);
    let sign = i32_op(w, "shli", &sign, &place);
    let with_sign = i32_op(w, "ori", &code, &sign);
    if f.signed_zero {
        code = with_sign;
    } else {
        let zero = int(w, 0);
        let is_zero = i32_op(w, "cmpi eq,", &code, &zero);
        code = choose(w, &is_zero, &code, &with_sign, "i32");
    }
    let nan = match f.nan {
        Some(nan) if !f.signed_zero => int(w, i32::from(nan)),
        Some(nan) => {
            let pattern = int(w, i32::from(nan));
            i32_op(w, "ori", &pattern, &sign)
        }
        // Without a NaN: minus zero.
        None => int(w, 1 << width),
    };
    choose(w, is_nan, &nan, &code, "i32")
}

/// Powers of two only: to the nearest exponent, up at the middle.
fn encode_e8m0(w: &mut Writer, value: &str, bits: &str, is_nan: &str) -> String {
    let (half, shift, largest, all) = (int(w, 0x0040_0000), int(w, 23), int(w, 254), int(w, 255));
    let sum = i32_op(w, "addi", bits, &half);
    let code = i32_op(w, "shrui", &sum, &shift);
    let code = i32_op(w, "minsi", &code, &largest);
    let (first_normal, middle, one, zero) = (int(w, 0x0080_0000), int(w, 0x0060_0000), int(w, 1), int(w, 0));
    let above = i32_op(w, "cmpi sge,", bits, &middle);
    let small = choose(w, &above, &one, &zero, "i32");
    let is_small = i32_op(w, "cmpi slt,", bits, &first_normal);
    let code = choose(w, &is_small, &small, &code, "i32");
    let nought = float(w, 0.0);
    let negative = w.op(format_args!("arith.cmpf olt, {value}, {nought} : f32"));
    let bad = w.op(format_args!("arith.ori {negative}, {is_nan} : i1"));
    choose(w, &bad, &all, &code, "i32")
}
