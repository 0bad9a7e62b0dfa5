//! One element of any type except strings, and the meaning of conversions.
//!
//! `Scalar::cast` is ONNX's Cast without saturation: integers wrap, floats round to nearest even,
//! float to integer truncates (out of range: saturates, NaN gives 0, a choice that ONNX leaves open),
//! anything to bool is `!= 0`.

use half::{bf16, f16};

use crate::dtype::DType;

/// A typed element. `bits` holds the little-endian encoding, zero-extended; complex types use both words.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Scalar {
    dtype: DType,
    bits: u64,
    high: u64,
}

impl Scalar {
    /// The element with this encoding, zero-extended.
    pub fn from_bits(dtype: DType, bits: u64) -> Scalar {
        Scalar { dtype, bits, high: 0 }
    }
    /// A double.
    pub fn from_f64(value: f64) -> Scalar {
        Scalar::from_bits(DType::F64, value.to_bits())
    }
    /// A float.
    pub fn from_f32(value: f32) -> Scalar {
        Scalar::from_bits(DType::F32, u64::from(value.to_bits()))
    }
    /// An int64.
    pub fn from_i64(value: i64) -> Scalar {
        Scalar::from_bits(DType::I64, value as u64)
    }
    /// A bool.
    pub fn from_bool(value: bool) -> Scalar {
        Scalar::from_bits(DType::Bool, u64::from(value))
    }
    /// A complex128.
    pub fn from_complex(re: f64, im: f64) -> Scalar {
        Scalar { dtype: DType::C128, bits: re.to_bits(), high: im.to_bits() }
    }
    /// Zero of this type.
    pub fn zero(dtype: DType) -> Scalar {
        Scalar::from_i64(0).cast(dtype)
    }
    /// One of this type.
    pub fn one(dtype: DType) -> Scalar {
        Scalar::from_i64(1).cast(dtype)
    }
    /// The smallest value: -inf for floats, the minimum for integers, false for bool.
    pub fn lowest(dtype: DType) -> Scalar {
        match dtype.integer_range() {
            Some((low, _)) => Scalar::from_integer(dtype, low),
            None if dtype == DType::Bool => Scalar::from_bool(false),
            None => Scalar::from_f64(f64::NEG_INFINITY).cast(dtype),
        }
    }
    /// The largest value: +inf for floats, the maximum for integers, true for bool.
    pub fn highest(dtype: DType) -> Scalar {
        match dtype.integer_range() {
            Some((_, high)) => Scalar::from_integer(dtype, high),
            None if dtype == DType::Bool => Scalar::from_bool(true),
            None => Scalar::from_f64(f64::INFINITY).cast(dtype),
        }
    }
    /// An integer wrapped to this integer type (or converted to this float type).
    pub fn from_integer(dtype: DType, value: i128) -> Scalar {
        if dtype == DType::Bool {
            return Scalar::from_bool(value != 0);
        }
        if !dtype.is_integer() {
            return Scalar::from_f64(value as f64).cast(dtype);
        }
        // The 4- and 2-bit types wrap at their own width and are stored sign- or zero-extended to a byte.
        let width = dtype.onnx_bits() as u32;
        let mut wrapped = value & ((1i128 << width) - 1);
        if dtype.is_signed() && wrapped >> (width - 1) & 1 == 1 {
            wrapped -= 1i128 << width;
        }
        let bytes = dtype.size() as u32 * 8;
        let mask = if bytes == 64 { u64::MAX } else { (1u64 << bytes) - 1 };
        Scalar::from_bits(dtype, wrapped as u64 & mask)
    }
    /// Its type.
    pub fn dtype(self) -> DType {
        self.dtype
    }
    /// Its encoding (the real part of a complex).
    pub fn bits(self) -> u64 {
        self.bits
    }
    /// Reads one element from its bytes.
    pub fn read(dtype: DType, bytes: &[u8]) -> Scalar {
        let word = |b: &[u8]| b.iter().rev().fold(0u64, |acc, &x| acc << 8 | u64::from(x));
        match dtype {
            DType::C64 => {
                let part = |b: &[u8]| f64::from(f32::from_bits(word(b) as u32)).to_bits();
                Scalar { dtype, bits: part(&bytes[..4]), high: part(&bytes[4..]) }
            }
            DType::C128 => Scalar { dtype, bits: word(&bytes[..8]), high: word(&bytes[8..]) },
            _ => Scalar::from_bits(dtype, word(bytes)),
        }
    }
    /// Appends its bytes.
    pub fn append_to(self, out: &mut Vec<u8>) {
        match self.dtype {
            DType::C64 => {
                for part in [self.bits, self.high] {
                    out.extend_from_slice(&(f64::from_bits(part) as f32).to_le_bytes());
                }
            }
            DType::C128 => {
                out.extend_from_slice(&self.bits.to_le_bytes());
                out.extend_from_slice(&self.high.to_le_bytes());
            }
            _ => out.extend_from_slice(&self.bits.to_le_bytes()[..self.dtype.size()]),
        }
    }
    /// Real and imaginary part.
    pub fn as_complex(self) -> (f64, f64) {
        if self.dtype.is_complex() { (f64::from_bits(self.bits), f64::from_bits(self.high)) } else { (self.as_f64(), 0.0) }
    }
    /// As a double: exact for floats and integers up to 2^53.
    pub fn as_f64(self) -> f64 {
        match self.dtype {
            DType::F32 => f64::from(f32::from_bits(self.bits as u32)),
            DType::F64 | DType::C64 | DType::C128 => f64::from_bits(self.bits),
            DType::F16 => f16::from_bits(self.bits as u16).to_f64(),
            DType::BF16 => bf16::from_bits(self.bits as u16).to_f64(),
            d if d.is_narrow_float() => crate::narrow::decode(d, self.bits as u8),
            _ => self.as_integer() as f64,
        }
    }
    /// As an integer: floats are truncated and saturated, NaN is 0.
    pub fn as_integer(self) -> i128 {
        let bytes = self.dtype.size() as u32 * 8;
        match self.dtype {
            DType::Bool => i128::from(self.bits != 0),
            d if d.is_unsigned() => i128::from(self.bits),
            d if d.is_signed() => i128::from((self.bits << (64 - bytes)) as i64 >> (64 - bytes)),
            _ => self.as_f64() as i128,
        }
    }
    /// As an int64, wrapped.
    pub fn as_i64(self) -> i64 {
        if self.dtype.is_float() { self.as_f64() as i64 } else { self.as_integer() as i64 }
    }
    /// Whether it is not zero (NaN is not).
    pub fn as_bool(self) -> bool {
        match self.dtype {
            DType::C64 | DType::C128 => self.as_complex() != (0.0, 0.0),
            d if d.is_float() => self.as_f64() != 0.0,
            _ => self.bits != 0,
        }
    }
    /// Converted to another type, see the module's text. Never through an intermediate rounding.
    pub fn cast(self, to: DType) -> Scalar {
        if self.dtype == to {
            return self;
        }
        match to {
            DType::Bool => Scalar::from_bool(self.as_bool()),
            DType::C64 | DType::C128 => {
                let (re, im) = self.as_complex();
                let narrow = |v: f64| if to == DType::C64 { f64::from(v as f32) } else { v };
                Scalar { dtype: to, bits: narrow(re).to_bits(), high: narrow(im).to_bits() }
            }
            _ if to.is_integer() => {
                if self.dtype.is_float() {
                    let (low, high) = to.integer_range().expect("to is an integer type");
                    Scalar::from_integer(to, (self.as_f64() as i128).clamp(low, high))
                } else {
                    Scalar::from_integer(to, self.as_integer())
                }
            }
            DType::F64 => Scalar::from_f64(self.as_f64()),
            DType::F32 if !self.dtype.is_float() => Scalar::from_f32(self.as_integer() as f32),
            DType::F32 => Scalar::from_f32(self.as_f64() as f32),
            DType::F16 => Scalar::from_bits(to, u64::from(f16::from_f32(to_odd(self.as_f64())).to_bits())),
            DType::BF16 => Scalar::from_bits(to, u64::from(bf16::from_f32(to_odd(self.as_f64())).to_bits())),
            _ => Scalar::from_bits(to, u64::from(crate::narrow::encode(to, self.as_f64(), true))),
        }
    }
}

/// A double as a float, rounded to odd: rounding that again to a narrower type is as if rounded once.
///
/// Source: Boldo and Melquiond, "When double rounding is odd" (2005).
fn to_odd(value: f64) -> f32 {
    let near = value as f32;
    if f64::from(near) == value || near.is_nan() || near.to_bits() & 1 == 1 {
        return near;
    }
    if near.is_infinite() {
        return f32::MAX.copysign(near);
    }
    // `near` is even and not exact: its neighbour on the other side of the value is odd.
    let towards_zero = f64::from(near).abs() > value.abs();
    f32::from_bits(if towards_zero { near.to_bits() - 1 } else { near.to_bits() + 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn casts_wrap_round_and_truncate() {
        assert_eq!(Scalar::from_i64(300).cast(DType::U8).as_i64(), 44);
        assert_eq!(Scalar::from_i64(9).cast(DType::I4).as_i64(), -7);
        assert_eq!(Scalar::from_f64(-2.9).cast(DType::I32).as_i64(), -2);
        assert_eq!(Scalar::from_f64(f64::NAN).cast(DType::I32).as_i64(), 0);
        assert_eq!(Scalar::from_f64(1e30).cast(DType::I16).as_i64(), 32767);
        assert_eq!(Scalar::from_f64(2049.0).cast(DType::F16).as_f64(), 2048.0);
        // One bit beyond the middle of two halves rounds up, at the middle to even, whatever comes between.
        let middle = 1.0 + 2f64.powi(-11);
        assert_eq!(Scalar::from_f64(middle).cast(DType::F16).as_f64(), 1.0);
        assert_eq!(Scalar::from_f64(middle + 2f64.powi(-50)).cast(DType::F16).as_f64(), 1.0 + 2f64.powi(-10));
        assert_eq!(Scalar::from_f64(1.0 + 2f64.powi(-8) + 2f64.powi(-50)).cast(DType::BF16).as_f64(), 1.0 + 2f64.powi(-7));
        assert_eq!(Scalar::from_integer(DType::U64, u64::MAX.into()).as_integer(), u64::MAX.into());
        assert!(Scalar::from_f64(f64::NAN).cast(DType::Bool).as_bool());
    }

    #[test]
    fn elements_survive_their_bytes() {
        for scalar in
            [Scalar::from_f32(-0.5), Scalar::from_i64(-3).cast(DType::I16), Scalar::from_complex(1.5, -2.0).cast(DType::C64)]
        {
            let mut bytes = Vec::new();
            scalar.append_to(&mut bytes);
            assert_eq!(Scalar::read(scalar.dtype(), &bytes), scalar);
        }
    }
}
