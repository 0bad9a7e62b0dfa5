//! NumPy's `.npy` files, versions 1 to 3, row major and little endian: read strictly, written as version 1.

use oaax_abi::DType;

const MAGIC: &[u8] = b"\x93NUMPY";

/// Type descriptions as NumPy writes them.
#[rustfmt::skip] // a table of one-liners
const TYPES: &[(&str, DType)] = &[
    ("<f4", DType::F32), ("|u1", DType::U8), ("|i1", DType::I8), ("<u2", DType::U16), ("<i2", DType::I16),
    ("<i4", DType::I32), ("<i8", DType::I64), ("|b1", DType::Bool), ("<f2", DType::F16), ("<f8", DType::F64),
    ("<u4", DType::U32), ("<u8", DType::U64), ("<c8", DType::Complex64), ("<c16", DType::Complex128),
];

/// A tensor read from a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Element type; types that NumPy lacks come as `|Vn` and get what the model wants.
    pub dtype: Option<DType>,
    /// Dims.
    pub dims: Vec<i64>,
    /// Elements.
    pub data: Vec<u8>,
}

/// Reads a file's bytes.
pub fn read(file: &[u8]) -> Result<Array, String> {
    let rest = file.strip_prefix(MAGIC).ok_or("is no .npy file")?;
    let (length, start) = match rest {
        [1, _, a, b, ..] => (u16::from_le_bytes([*a, *b]) as usize, 4),
        [2 | 3, _, a, b, c, d, ..] => (u32::from_le_bytes([*a, *b, *c, *d]) as usize, 6),
        _ => return Err("has an unknown .npy version".to_owned()),
    };
    let header = rest.get(start..).and_then(|rest| rest.get(..length)).ok_or("is cut off")?;
    let data = &rest[start + length..];
    let header = std::str::from_utf8(header).map_err(|_| "has a header that is not UTF-8")?;
    if !field(header, "fortran_order")?.starts_with("False") {
        return Err("is column major; save it with numpy.ascontiguousarray".to_owned());
    }
    let descr = field(header, "descr")?.strip_prefix('\'').and_then(|rest| rest.split('\'').next());
    let descr = descr.ok_or("has a structured type")?;
    let dtype = TYPES.iter().find(|row| row.0 == descr).map(|row| row.1);
    if dtype.is_none() && !descr.starts_with("|V") {
        return Err(format!("has type {descr}, which is not taken"));
    }
    let shape = field(header, "shape")?.strip_prefix('(').and_then(|rest| rest.split(')').next()).ok_or("has no shape")?;
    let dims = shape.split(',').map(str::trim).filter(|dim| !dim.is_empty());
    let dims = dims.map(|dim| dim.parse::<i64>().ok().filter(|dim| *dim >= 0)).collect::<Option<Vec<_>>>();
    Ok(Array { dtype, dims: dims.ok_or("has a malformed shape")?, data: data.to_vec() })
}

/// What follows a key of the header.
fn field<'a>(header: &'a str, key: &str) -> Result<&'a str, String> {
    let found = header.split_once(&format!("'{key}':")).map(|(_, rest)| rest.trim_start());
    found.ok_or_else(|| format!("has no {key}"))
}

/// The bytes of a file.
pub fn write(dtype: DType, dims: &[i64], data: &[u8]) -> Vec<u8> {
    let named = TYPES.iter().find(|row| row.1 == dtype).map(|row| row.0.to_owned());
    let descr = named.unwrap_or_else(|| format!("|V{}", (dtype.bits() / 8).max(1)));
    let list: String = dims.iter().map(|dim| format!("{dim},")).collect();
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({list}), }}");
    // Magic, version and length take ten bytes; the data begin at a multiple of 64.
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut file = MAGIC.to_vec();
    file.extend_from_slice(&[1, 0]);
    file.extend_from_slice(&(header.len() as u16).to_le_bytes());
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(data);
    file
}

#[cfg(test)]
mod tests {
    use super::{read, write};
    use oaax_abi::DType;

    #[test]
    fn arrays_round_trip() {
        for dims in [&[][..], &[3], &[2, 0, 5], &[1, 2]] {
            let bytes = 8 * dims.iter().product::<i64>() as usize;
            let file = write(DType::I64, dims, &vec![7; bytes]);
            assert_eq!((file.len() - bytes) % 64, 0);
            let array = read(&file).expect("just written");
            assert_eq!((array.dtype, &array.dims[..], array.data.len()), (Some(DType::I64), dims, bytes));
        }
    }

    #[test]
    fn what_is_not_taken_is_said() {
        assert!(read(b"PK").is_err());
        let file = write(DType::F32, &[1], &[0; 4]);
        let text = String::from_utf8_lossy(&file[10..]).into_owned();
        let changed = |from: &str, to: &str| {
            let mut bytes = file[..10].to_vec();
            bytes.extend_from_slice(text.replace(from, to).as_bytes());
            read(&bytes).expect_err(to)
        };
        assert!(changed("False", "True ").contains("column major"));
        assert!(changed("'<f4'", "'>f4'").contains(">f4"));
        assert!(read(&file[..30]).is_err());
    }
}
