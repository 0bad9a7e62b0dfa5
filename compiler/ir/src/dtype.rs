//! Element types: ONNX's own list and numbering (`TensorProto.DataType`).
//!
//! In memory every element takes whole bytes: the 4-bit and 2-bit types are unpacked to one
//! element a byte (sign-extended where signed) at import, and packed again at the border.

use std::fmt;

/// An ONNX element type.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
#[allow(missing_docs)]
pub enum DType {
    F32 = 1,
    U8 = 2,
    I8 = 3,
    U16 = 4,
    I16 = 5,
    I32 = 6,
    I64 = 7,
    String = 8,
    Bool = 9,
    F16 = 10,
    F64 = 11,
    U32 = 12,
    U64 = 13,
    C64 = 14,
    C128 = 15,
    BF16 = 16,
    F8E4M3FN = 17,
    F8E4M3FNUZ = 18,
    F8E5M2 = 19,
    F8E5M2FNUZ = 20,
    U4 = 21,
    I4 = 22,
    F4E2M1 = 23,
    F8E8M0 = 24,
    U2 = 25,
    I2 = 26,
}

use DType::*;

/// Every element type with its ONNX text name and its bytes in memory.
#[rustfmt::skip] // A table of one-liners reads best as a table.
const TABLE: &[(DType, &str, usize)] = &[
    (F32, "float", 4), (U8, "uint8", 1), (I8, "int8", 1), (U16, "uint16", 2), (I16, "int16", 2), (I32, "int32", 4),
    (I64, "int64", 8), (String, "string", 0), (Bool, "bool", 1), (F16, "float16", 2), (F64, "double", 8),
    (U32, "uint32", 4), (U64, "uint64", 8), (C64, "complex64", 8), (C128, "complex128", 16), (BF16, "bfloat16", 2),
    (F8E4M3FN, "float8e4m3fn", 1), (F8E4M3FNUZ, "float8e4m3fnuz", 1), (F8E5M2, "float8e5m2", 1),
    (F8E5M2FNUZ, "float8e5m2fnuz", 1), (U4, "uint4", 1), (I4, "int4", 1), (F4E2M1, "float4e2m1", 1),
    (F8E8M0, "float8e8m0", 1), (U2, "uint2", 1), (I2, "int2", 1),
];

impl DType {
    /// The type with this ONNX number.
    pub fn from_onnx(number: i32) -> Option<DType> {
        TABLE.iter().find(|row| row.0 as i32 == number).map(|row| row.0)
    }
    /// ONNX's number of this type.
    pub fn onnx(self) -> i32 {
        self as i32
    }
    /// The name in ONNX text: `float`, `int64`.
    pub fn name(self) -> &'static str {
        TABLE[self as usize - 1].1
    }
    /// The type with this ONNX text name.
    pub fn from_name(name: &str) -> Option<DType> {
        TABLE.iter().find(|row| row.1 == name).map(|row| row.0)
    }
    /// Bytes per element in memory; 0 for strings.
    pub fn size(self) -> usize {
        TABLE[self as usize - 1].2
    }
    /// Bits per element in ONNX's packed form; 0 for strings.
    pub fn onnx_bits(self) -> usize {
        match self {
            U4 | I4 | F4E2M1 => 4,
            U2 | I2 => 2,
            _ => self.size() * 8,
        }
    }
    /// float, double, float16, bfloat16 and the narrow floats.
    pub fn is_float(self) -> bool {
        matches!(self, F32 | F64 | F16 | BF16) || self.is_narrow_float()
    }
    /// The 8-bit and 4-bit floats, which are only stored and cast, never computed in.
    pub fn is_narrow_float(self) -> bool {
        matches!(self, F8E4M3FN | F8E4M3FNUZ | F8E5M2 | F8E5M2FNUZ | F4E2M1 | F8E8M0)
    }
    /// Signed and unsigned integers (bool is none).
    pub fn is_integer(self) -> bool {
        self.is_signed() || self.is_unsigned()
    }
    /// Signed integers.
    pub fn is_signed(self) -> bool {
        matches!(self, I8 | I16 | I32 | I64 | I4 | I2)
    }
    /// Unsigned integers.
    pub fn is_unsigned(self) -> bool {
        matches!(self, U8 | U16 | U32 | U64 | U4 | U2)
    }
    /// complex64 and complex128.
    pub fn is_complex(self) -> bool {
        matches!(self, C64 | C128)
    }
    /// The smallest and largest value of an integer type.
    pub fn integer_range(self) -> Option<(i128, i128)> {
        if !self.is_integer() {
            return None;
        }
        let bits = self.onnx_bits() as u32;
        Some(if self.is_signed() { (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1) } else { (0, (1i128 << bits) - 1) })
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_lies_in_the_order_of_onnx_numbers() {
        for (i, row) in TABLE.iter().enumerate() {
            assert_eq!(row.0 as usize, i + 1);
            assert_eq!(DType::from_name(row.1), Some(row.0));
        }
    }
}
