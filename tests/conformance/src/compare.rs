//! Compares what came back with what a case expects, as onnx's own runner does: floats within a
//! relative and an absolute tolerance, everything else exactly. NaN equals NaN.

use oaaxc_ir::{DType, Datum, Tensor};

/// Allowed: `|found − expected| ≤ absolute + relative · |expected|`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Tolerance {
    /// Share of the expected value.
    pub relative: f64,
    /// Whatever the value.
    pub absolute: f64,
}

/// The tolerance of onnx's backend tests.
pub const ONNX_TOLERANCE: Tolerance = Tolerance { relative: 1e-3, absolute: 1e-7 };

/// The largest absolute difference, or the first thing that is wrong.
pub fn compare(found: &Datum, expected: &Datum, tolerance: &Tolerance) -> Result<f64, String> {
    match (found, expected) {
        (Datum::Tensor(a), Datum::Tensor(b)) => tensors(a, b, tolerance),
        (Datum::Sequence(a), Datum::Sequence(b)) => {
            if a.len() != b.len() {
                return Err(format!("a sequence of {}, expected {}", a.len(), b.len()));
            }
            a.iter().zip(b).try_fold(0.0, |worst: f64, (a, b)| Ok(worst.max(compare(a, b, tolerance)?)))
        }
        (Datum::Optional(None), Datum::Optional(None)) => Ok(0.0),
        (Datum::Optional(Some(a)), Datum::Optional(Some(b))) => compare(a, b, tolerance),
        (Datum::Map(a), Datum::Map(b)) => {
            if a.iter().map(|e| &e.0).ne(b.iter().map(|e| &e.0)) {
                return Err("the keys of a map differ".to_string());
            }
            a.iter().zip(b).try_fold(0.0, |worst: f64, (a, b)| Ok(worst.max(compare(&a.1, &b.1, tolerance)?)))
        }
        _ => Err(format!("a {}, expected a {}", kind(found), kind(expected))),
    }
}

fn kind(datum: &Datum) -> &'static str {
    match datum {
        Datum::Tensor(_) => "tensor",
        Datum::Sequence(_) => "sequence",
        Datum::Optional(Some(_)) => "full optional",
        Datum::Optional(None) => "empty optional",
        Datum::Map(_) => "map",
    }
}

/// Two units in the last place of a narrow float, relative to the value: a sum in another order may round
/// an intermediate the other way, which onnx's own tolerance has no room for.
fn two_units(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => 2f64.powi(-9),
        DType::BF16 => 2f64.powi(-6),
        _ => 0.0,
    }
}

fn tensors(found: &Tensor, expected: &Tensor, tolerance: &Tolerance) -> Result<f64, String> {
    if (found.dtype, &found.dims) != (expected.dtype, &expected.dims) {
        return Err(format!("{}{:?}, expected {}{:?}", found.dtype, found.dims, expected.dtype, expected.dims));
    }
    let mut worst = 0.0f64;
    let relative = tolerance.relative.max(two_units(expected.dtype));
    for i in 0..expected.len() {
        if expected.dtype == DType::String {
            let (a, b) = (found.string_at(i), expected.string_at(i));
            if a != b {
                let (a, b) = (String::from_utf8_lossy(a), String::from_utf8_lossy(b));
                return Err(format!("element {i} is \"{a}\", expected \"{b}\""));
            }
        } else if expected.dtype.is_float() {
            let (a, b) = (found.f64_at(i), expected.f64_at(i));
            let within = (a - b).abs() <= tolerance.absolute + relative * b.abs();
            if !(a == b || a.is_nan() && b.is_nan() || a.is_finite() && b.is_finite() && within) {
                return Err(format!("element {i} is {a:?}, expected {b:?}"));
            }
            if a != b && a.is_finite() {
                worst = worst.max((a - b).abs());
            }
        } else if !expected.dtype.is_complex() && found.i64_at(i) != expected.i64_at(i) {
            return Err(format!("element {i} is {}, expected {}", found.i64_at(i), expected.i64_at(i)));
        }
    }
    if expected.dtype.is_complex() {
        let size = expected.dtype.size() / 2;
        let parts = |t: &Tensor| -> Vec<f64> {
            let part = |c: &[u8]| match c.try_into() {
                Ok(four) => f64::from(f32::from_le_bytes(four)),
                Err(_) => f64::from_le_bytes(c.try_into().expect("a double has eight bytes")),
            };
            t.to_bytes().chunks(size).map(part).collect()
        };
        for (i, (a, b)) in parts(found).into_iter().zip(parts(expected)).enumerate() {
            if (a - b).abs() > tolerance.absolute + tolerance.relative * b.abs() {
                return Err(format!("part {i} is {a:?}, expected {b:?}"));
            }
        }
    }
    Ok(worst)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn differs(a: &[f32], b: &[f32]) -> bool {
        let tensor = |v: &[f32]| Datum::from(Tensor::from_f32s(vec![v.len()], v));
        compare(&tensor(a), &tensor(b), &ONNX_TOLERANCE).is_err()
    }

    #[test]
    fn floats_compare_as_in_onnx_runner() {
        assert!(!differs(&[1.0005, f32::NAN, f32::INFINITY], &[1.0, f32::NAN, f32::INFINITY]));
        assert!(differs(&[1.01], &[1.0]));
        assert!(differs(&[f32::NAN], &[1.0]));
        assert!(differs(&[f32::INFINITY], &[f32::NEG_INFINITY]));
        assert!(differs(&[3.0e38], &[f32::INFINITY]));
        assert!(differs(&[1.0], &[1.0, 1.0]));
    }
}
