//! What Cast leaves open in `Scalar::cast`: unsaturated 8-bit floats, rounding to powers of two, text of numbers.

use oaaxc_ir::{DType, Scalar, narrow};

/// Where an unsaturated conversion to an 8-bit float leaves its range.
pub struct Overflow {
    /// The smallest magnitude that rounds beyond the largest finite value.
    pub bound: f64,
    /// Whether the bound itself does (ties go to the even pattern).
    pub inclusive: bool,
    /// What a positive number becomes.
    pub positive: Scalar,
    /// What a negative number becomes.
    pub negative: Scalar,
}

/// The rule of an 8-bit float type; `None` for types that always saturate.
pub fn overflow(dtype: DType) -> Option<Overflow> {
    let (bound, inclusive) = match dtype {
        DType::F8E4M3FN => (464.0, false),
        DType::F8E4M3FNUZ => (248.0, true),
        DType::F8E5M2 | DType::F8E5M2FNUZ => (61440.0, true),
        _ => return None,
    };
    let beyond = |v: f64| Scalar::from_bits(dtype, u64::from(narrow::encode(dtype, v, false)));
    Some(Overflow { bound, inclusive, positive: beyond(f64::INFINITY), negative: beyond(f64::NEG_INFINITY) })
}

/// One number, with `saturate` and `round_mode` as Cast has them.
pub fn cast(x: Scalar, to: DType, saturate: bool, mode: &str) -> Scalar {
    if to == DType::F8E8M0 && mode != "nearest" {
        let v = x.as_f64();
        if v.is_nan() || v <= 0.0 {
            return Scalar::from_f64(v).cast(to);
        }
        let mut power = 2f64.powi(v.log2().floor().clamp(-200.0, 200.0) as i32);
        if mode == "up" && power < v {
            power *= 2.0;
        }
        return Scalar::from_f64(power).cast(to);
    }
    if to.is_narrow_float() && to != DType::F8E8M0 && !saturate {
        return Scalar::from_bits(to, u64::from(narrow::encode(to, x.as_f64(), false)));
    }
    // ONNX leaves floats outside the range of the 4- and 2-bit integers open; like numpy's, ours wrap.
    if to.is_integer() && to.onnx_bits() < 8 {
        return x.cast(DType::I64).cast(to);
    }
    x.cast(to)
}

/// A number written as text; `None` where it is none.
pub fn parse(text: &[u8]) -> Option<Scalar> {
    let text = std::str::from_utf8(text).ok()?.trim();
    if let Ok(whole) = text.parse::<i64>() {
        return Some(Scalar::from_i64(whole));
    }
    text.parse::<f64>().ok().map(Scalar::from_f64)
}

/// A number as text: the shortest digits that give the number back, as numpy prints it.
pub fn print(x: Scalar) -> Vec<u8> {
    let text = match x.dtype() {
        DType::Bool => if x.as_bool() { "True" } else { "False" }.to_string(),
        DType::F64 => float(x.as_f64(), format!("{}", x.as_f64()), format!("{:e}", x.as_f64())),
        d if d.is_float() => {
            let v = x.as_f64() as f32;
            float(x.as_f64(), format!("{v}"), format!("{v:e}"))
        }
        _ => x.as_integer().to_string(),
    };
    text.into_bytes()
}

fn float(v: f64, plain: String, scientific: String) -> String {
    if v.is_nan() {
        return "NaN".into();
    }
    if v.is_infinite() {
        return if v > 0.0 { "INF" } else { "-INF" }.into();
    }
    if v != 0.0 && !(1e-4..1e16).contains(&v.abs()) {
        let (digits, exponent) = scientific.split_once('e').expect("the e format has an e");
        let exponent: i32 = exponent.parse().expect("the e format ends in a number");
        return format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs());
    }
    if plain.contains('.') { plain } else { format!("{plain}.0") }
}
