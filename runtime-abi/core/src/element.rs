//! Single elements of tensors as registers: integers and bools by value, floats as the bits of an f64.

use oaax_abi::DType;

/// Size of an element that can be read or written alone.
pub fn size(dtype: DType) -> Option<usize> {
    use DType::*;
    match dtype {
        U8 | I8 | Bool => Some(1),
        U16 | I16 | F16 | BF16 => Some(2),
        F32 | I32 | U32 => Some(4),
        F64 | I64 | U64 => Some(8),
        _ => None,
    }
}

/// The register value of an element; `None` if a u64 does not fit.
pub fn read(dtype: DType, bytes: [u8; 8]) -> Option<i64> {
    use DType::*;
    let whole = u64::from_le_bytes(bytes);
    let float = |value: f64| Some(value.to_bits() as i64);
    match dtype {
        U8 => Some(whole as u8 as i64),
        Bool => Some((whole as u8 != 0) as i64),
        I8 => Some(whole as i8 as i64),
        U16 => Some(whole as u16 as i64),
        I16 => Some(whole as i16 as i64),
        U32 => Some(whole as u32 as i64),
        I32 => Some(whole as i32 as i64),
        I64 => Some(whole as i64),
        U64 => i64::try_from(whole).ok(),
        F32 => float(f32::from_bits(whole as u32) as f64),
        F64 => Some(whole as i64),
        F16 => float(half(whole as u16)),
        BF16 => float(f32::from_bits((whole as u32 & 0xffff) << 16) as f64),
        _ => None,
    }
}

/// The bytes of an element; `None` if the value does not fit or the type cannot be written alone.
pub fn write(dtype: DType, value: i64) -> Option<[u8; 8]> {
    use DType::*;
    let float = || f64::from_bits(value as u64);
    let whole = match dtype {
        U8 => u8::try_from(value).ok()? as u64,
        Bool => (value != 0) as u64,
        I8 => i8::try_from(value).ok()? as u64,
        U16 => u16::try_from(value).ok()? as u64,
        I16 => i16::try_from(value).ok()? as u64,
        U32 => u32::try_from(value).ok()? as u64,
        I32 => i32::try_from(value).ok()? as u64,
        I64 => value as u64,
        U64 => u64::try_from(value).ok()?,
        F32 => (float() as f32).to_bits() as u64,
        F64 => value as u64,
        _ => return None,
    };
    Some(whole.to_le_bytes())
}

/// An IEEE half as f64, exactly.
fn half(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, fraction) = (bits >> 10 & 31, (bits & 1023) as f64);
    sign * match exponent {
        0 => fraction * (-24f64).exp2(),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        exponent => (1024.0 + fraction) * (exponent as f64 - 25.0).exp2(),
    }
}

#[cfg(test)]
mod tests {
    use super::{half, read, write};
    use oaax_abi::DType;

    #[test]
    fn integers_survive_and_what_does_not_fit_is_refused() {
        for dtype in [DType::I8, DType::I16, DType::I32, DType::I64] {
            assert_eq!(write(dtype, -5).and_then(|bytes| read(dtype, bytes)), Some(-5));
        }
        assert_eq!(write(DType::U8, 256), None);
        assert_eq!(write(DType::U64, -1), None);
        assert_eq!(read(DType::U64, [255; 8]), None);
        assert_eq!(read(DType::Bool, [7; 8]), Some(1));
    }

    #[test]
    fn floats_arrive_as_f64_bits() {
        let bits = write(DType::F32, 0.5f64.to_bits() as i64).expect("writable");
        assert_eq!(read(DType::F32, bits), Some(0.5f64.to_bits() as i64));
        assert_eq!((half(0x3c00), half(0xc000), half(1), half(0x7bff)), (1.0, -2.0, (-24f64).exp2(), 65504.0));
        assert_eq!(half(0x7c00), f64::INFINITY);
    }
}
