//! Element types by their ONNX `TensorProto.DataType` numbers, and their sizes.
//! A number outside ONNX's table never becomes a [`DType`].

/// An element type; the number is ONNX's own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u32)]
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
    Complex64 = 14,
    Complex128 = 15,
    BF16 = 16,
    F8E4M3Fn = 17,
    F8E4M3FnUz = 18,
    F8E5M2 = 19,
    F8E5M2FnUz = 20,
    U4 = 21,
    I4 = 22,
    F4E2M1 = 23,
    F8E8M0 = 24,
    U2 = 25,
    I2 = 26,
}

/// Every type with its ONNX name and the bits of one element (0: no fixed layout).
#[rustfmt::skip] // a table of one-liners
const TABLE: [(DType, &str, u32); 26] = [
    (DType::F32, "float", 32), (DType::U8, "uint8", 8), (DType::I8, "int8", 8), (DType::U16, "uint16", 16),
    (DType::I16, "int16", 16), (DType::I32, "int32", 32), (DType::I64, "int64", 64), (DType::String, "string", 0),
    (DType::Bool, "bool", 8), (DType::F16, "float16", 16), (DType::F64, "double", 64), (DType::U32, "uint32", 32),
    (DType::U64, "uint64", 64), (DType::Complex64, "complex64", 64), (DType::Complex128, "complex128", 128),
    (DType::BF16, "bfloat16", 16), (DType::F8E4M3Fn, "float8e4m3fn", 8), (DType::F8E4M3FnUz, "float8e4m3fnuz", 8),
    (DType::F8E5M2, "float8e5m2", 8), (DType::F8E5M2FnUz, "float8e5m2fnuz", 8), (DType::U4, "uint4", 4),
    (DType::I4, "int4", 4), (DType::F4E2M1, "float4e2m1", 4), (DType::F8E8M0, "float8e8m0", 8),
    (DType::U2, "uint2", 2), (DType::I2, "int2", 2),
];

impl DType {
    /// The type with ONNX's number `number`, if there is one.
    pub fn from_onnx(number: u32) -> Option<DType> {
        let row = (number as usize).checked_sub(1)?;
        TABLE.get(row).map(|entry| entry.0)
    }

    /// ONNX's number of this type.
    pub fn onnx(self) -> u32 {
        self as u32
    }

    /// ONNX's name of this type in its text form (`float`, `int64`, …).
    pub fn name(self) -> &'static str {
        TABLE[self as usize - 1].1
    }

    /// Bits of one element; 0 for strings, which have no fixed layout.
    pub fn bits(self) -> u32 {
        TABLE[self as usize - 1].2
    }

    /// Bytes of `elements` elements; types below a byte are packed and the last byte is rounded up.
    /// `None` on overflow and for strings.
    pub fn bytes(self, elements: u64) -> Option<u64> {
        match self.bits() {
            0 => None,
            bits if bits < 8 => Some(elements.checked_mul(bits as u64)?.div_ceil(8)),
            bits => elements.checked_mul(bits as u64 / 8),
        }
    }

    /// Alignment in bytes that a caller's buffer must have.
    pub fn align(self) -> u64 {
        match self {
            DType::Complex64 => 4,
            DType::Complex128 => 8,
            _ => (self.bits() as u64 / 8).max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::DType;

    #[test]
    fn the_table_stands_in_the_order_of_onnx_numbers() {
        for number in 1..=26 {
            let dtype = DType::from_onnx(number).expect("26 types");
            assert_eq!(dtype.onnx(), number);
        }
        assert_eq!(DType::from_onnx(0), None);
        assert_eq!(DType::from_onnx(27), None);
    }

    #[test]
    fn packed_types_round_up_to_a_byte() {
        assert_eq!(DType::I4.bytes(3), Some(2));
        assert_eq!(DType::U2.bytes(5), Some(2));
        assert_eq!(DType::F64.bytes(u64::MAX), None);
        assert_eq!(DType::String.bytes(1), None);
    }
}
