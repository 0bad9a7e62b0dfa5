//! The 8-bit and 4-bit floats of ONNX: what each bit pattern means, and rounding to nearest even.
//!
//! Source: ONNX, "Float stored in 8 bits" and "Float stored in 4 bits" (tables of the Cast operator).

use crate::dtype::DType;

/// The layout of a narrow float.
struct Form {
    exponent_bits: u32,
    mantissa_bits: u32,
    bias: i32,
    /// Largest finite magnitude.
    max: f64,
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

/// The value of a bit pattern.
pub fn decode(dtype: DType, bits: u8) -> f64 {
    if dtype == DType::F8E8M0 {
        return if bits == 0xff { f64::NAN } else { 2f64.powi(i32::from(bits) - 127) };
    }
    let f = form(dtype);
    let width = f.exponent_bits + f.mantissa_bits;
    let sign = if bits >> width & 1 == 1 { -1.0 } else { 1.0 };
    let magnitude = bits & ((1u16 << width) - 1) as u8;
    if f.nan == Some(bits) || (f.nan == Some(magnitude) && f.signed_zero) {
        return f64::NAN;
    }
    match f.infinity {
        Some(infinity) if magnitude == infinity => return sign * f64::INFINITY,
        Some(infinity) if magnitude > infinity => return f64::NAN,
        _ => {}
    }
    let exponent = i32::from(magnitude >> f.mantissa_bits);
    let mantissa = f64::from(magnitude & ((1 << f.mantissa_bits) - 1)) / f64::from(1u32 << f.mantissa_bits);
    sign * if exponent == 0 { mantissa * 2f64.powi(1 - f.bias) } else { (1.0 + mantissa) * 2f64.powi(exponent - f.bias) }
}

/// The nearest bit pattern, ties to even. Beyond the largest finite value: that value where
/// `saturate`, else infinity or NaN as the type has it.
pub fn encode(dtype: DType, value: f64, saturate: bool) -> u8 {
    if dtype == DType::F8E8M0 {
        return encode_e8m0(value);
    }
    let f = form(dtype);
    let width = f.exponent_bits + f.mantissa_bits;
    let sign = if value.is_sign_negative() { 1u8 << width } else { 0 };
    let with_sign = |magnitude: u8| if magnitude == 0 && !f.signed_zero { 0 } else { sign | magnitude };
    let largest =
        (0..(1u16 << width)).map(|b| b as u8).rfind(|&b| decode(dtype, b) == f.max).expect("max is a value of the type");
    if value.is_nan() {
        return match f.nan {
            Some(nan) if f.signed_zero => sign | nan,
            Some(nan) => nan,
            // Without a NaN: minus zero, as ml_dtypes has it.
            None => 1 << width,
        };
    }
    let magnitude = value.abs();
    // Candidates are ordered by magnitude; pick the nearest, ties to the even pattern.
    let mut best = 0u8;
    for candidate in 0..=largest {
        let distance = |b: u8| (decode(dtype, b) - magnitude).abs();
        if distance(candidate) < distance(best) || (distance(candidate) == distance(best) && candidate % 2 == 0) {
            best = candidate;
        }
    }
    let step = f.max - decode(dtype, largest - 1);
    let overflows =
        magnitude.is_infinite() || magnitude >= f.max + step / 2.0 && !(magnitude == f.max + step / 2.0 && largest % 2 == 0);
    if !overflows || saturate || (f.infinity.is_none() && f.nan.is_none()) {
        return with_sign(if overflows { largest } else { best });
    }
    match (f.infinity, f.nan) {
        (Some(infinity), _) => sign | infinity,
        (None, Some(nan)) if f.signed_zero => sign | nan,
        (None, Some(nan)) => nan,
        (None, None) => unreachable!("returned above"),
    }
}

/// E8M0 holds powers of two only; rounds to the nearest exponent, up at the middle.
fn encode_e8m0(value: f64) -> u8 {
    if value.is_nan() || value < 0.0 {
        return 0xff;
    }
    let magnitude = value.clamp(2f64.powi(-127), 2f64.powi(127));
    let exponent = magnitude.log2().floor() as i32;
    let up = magnitude / 2f64.powi(exponent) >= 1.5;
    (exponent + i32::from(up) + 127).clamp(0, 254) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_survives_a_round_trip() {
        for dtype in [DType::F8E4M3FN, DType::F8E4M3FNUZ, DType::F8E5M2, DType::F8E5M2FNUZ, DType::F4E2M1, DType::F8E8M0] {
            let patterns = if dtype == DType::F4E2M1 { 16 } else { 256u16 };
            for bits in 0..patterns {
                let value = decode(dtype, bits as u8);
                if !value.is_nan() && !value.is_infinite() {
                    assert_eq!(decode(dtype, encode(dtype, value, true)), value, "{dtype} {bits:#x}");
                }
            }
        }
    }

    #[test]
    fn overflow_saturates_or_not() {
        assert_eq!(decode(DType::F8E4M3FN, encode(DType::F8E4M3FN, 1e6, true)), 448.0);
        assert!(decode(DType::F8E4M3FN, encode(DType::F8E4M3FN, 1e6, false)).is_nan());
        assert_eq!(decode(DType::F8E5M2, encode(DType::F8E5M2, -1e9, false)), f64::NEG_INFINITY);
    }
}
