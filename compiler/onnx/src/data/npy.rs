//! NumPy's .npy files: one tensor of plain numbers, version 1 to 3, C or Fortran order read, C order written.
//!
//! Promises: any bytes give a tensor or a diagnostic. Types that NumPy has no name for (bfloat16, the
//! 8- and 4-bit floats, strings) are refused with the advice to use .pb.

use bytes::Bytes;
use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::tensor::position;
use oaaxc_ir::{DType, Tensor};

type Result<T> = std::result::Result<T, Diagnostic>;

const MAGIC: &[u8] = b"\x93NUMPY";

/// NumPy's letter and size of each type.
#[rustfmt::skip] // One type a line.
const TYPES: &[(&str, DType)] = &[
    ("b1", DType::Bool),
    ("i1", DType::I8), ("i2", DType::I16), ("i4", DType::I32), ("i8", DType::I64),
    ("u1", DType::U8), ("u2", DType::U16), ("u4", DType::U32), ("u8", DType::U64),
    ("f2", DType::F16), ("f4", DType::F32), ("f8", DType::F64),
    ("c8", DType::C64), ("c16", DType::C128),
];

fn wrong(what: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::error(Code::TENSOR, format!("the .npy file {what}"))
}

/// Reads a tensor.
pub fn read(bytes: Bytes) -> Result<Tensor> {
    let cut = || wrong("is cut off in its header");
    let head = bytes.get(..8).filter(|head| head.starts_with(MAGIC)).ok_or_else(|| wrong("does not begin as one"))?;
    let (start, length) = match head[6] {
        1 => (10, bytes.get(8..10).map(|b| usize::from(u16::from_le_bytes([b[0], b[1]])))),
        2 | 3 => (12, bytes.get(8..12).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) as usize)),
        version => return Err(wrong(format!("is of version {version}, and 1 to 3 are known"))),
    };
    let end = length.and_then(|length| length.checked_add(start)).filter(|end| *end <= bytes.len()).ok_or_else(cut)?;
    let header = String::from_utf8_lossy(&bytes[start..end]).into_owned();
    let descr = text_field(&header, "descr").ok_or_else(|| wrong("has no element type that is a plain number"))?;
    let (order, name) = descr.split_at(descr.chars().next().map_or(0, char::len_utf8));
    let Some((_, dtype)) = TYPES.iter().find(|(known, _)| *known == name) else {
        return Err(wrong(format!("has elements of type {descr}, for which ONNX has none")));
    };
    let dims = shape(&header).ok_or_else(|| wrong("has no shape"))?;
    let count = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
    let size = count.and_then(|n| n.checked_mul(dtype.size())).ok_or_else(|| wrong("has a shape beyond all memory"))?;
    let data = bytes.slice(end..);
    if data.len() != size {
        return Err(wrong(format!("holds {} bytes of elements, and its shape needs {size}", data.len())));
    }
    let data = if order == ">" { swapped(&data, dtype.size() / if dtype.is_complex() { 2 } else { 1 }) } else { data };
    let tensor = Tensor::from_bytes(*dtype, dims, data);
    Ok(if flag(&header, "fortran_order") { from_fortran(&tensor) } else { tensor })
}

/// Writes a tensor, version 1.
pub fn write(tensor: &Tensor) -> Result<Vec<u8>> {
    let Some((name, _)) = TYPES.iter().find(|(_, dtype)| *dtype == tensor.dtype) else {
        let message = format!("NumPy's files hold no elements of type {}", tensor.dtype);
        return Err(Diagnostic::error(Code::REQUEST, message).help("write .pb files: --output-format pb"));
    };
    let order = if tensor.dtype.size() == 1 { '|' } else { '<' };
    let dims: String = tensor.dims.iter().map(|d| format!("{d}, ")).collect();
    let dims = if tensor.rank() == 1 { dims.trim_end().to_string() } else { dims.trim_end_matches(", ").to_string() };
    let mut header = format!("{{'descr': '{order}{name}', 'fortran_order': False, 'shape': ({dims}), }}");
    // The elements begin at a multiple of 64.
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let length = u16::try_from(header.len()).map_err(|_| wrong("would need a header beyond version 1"))?;
    let mut out = MAGIC.to_vec();
    out.extend([1, 0]);
    out.extend(length.to_le_bytes());
    out.extend(header.as_bytes());
    out.extend_from_slice(&tensor.to_bytes());
    Ok(out)
}

/// What stands after `'name':`.
fn field<'a>(header: &'a str, name: &str) -> Option<&'a str> {
    let at = header.find(&format!("'{name}'")).or_else(|| header.find(&format!("\"{name}\"")))?;
    Some(header[at + name.len() + 2..].trim_start().strip_prefix(':')?.trim_start())
}

fn text_field<'a>(header: &'a str, name: &str) -> Option<&'a str> {
    let rest = field(header, name)?;
    let quote = rest.chars().next().filter(|c| *c == '\'' || *c == '"')?;
    rest[1..].split(quote).next()
}

fn flag(header: &str, name: &str) -> bool {
    field(header, name).is_some_and(|rest| rest.starts_with("True"))
}

fn shape(header: &str) -> Option<Vec<usize>> {
    let inside = field(header, "shape")?.strip_prefix('(')?.split(')').next()?;
    inside.split(',').map(|d| d.trim().trim_end_matches('L')).filter(|d| !d.is_empty()).map(|d| d.parse().ok()).collect()
}

fn swapped(data: &Bytes, size: usize) -> Bytes {
    data.chunks(size.max(1)).flat_map(|element| element.iter().rev().copied()).collect::<Vec<u8>>().into()
}

/// Elements in Fortran order, of this shape, in C order.
fn from_fortran(tensor: &Tensor) -> Tensor {
    let reversed: Vec<usize> = tensor.dims.iter().rev().copied().collect();
    tensor.gathered(tensor.dims.clone(), |at| {
        let back: Vec<usize> = at.iter().rev().copied().collect();
        position(&back, &reversed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for dims in [vec![], vec![3], vec![2, 3], vec![0, 4]] {
            let n: usize = dims.iter().product();
            let tensor = Tensor::from_i64s(DType::I32, dims, 0..n as i64);
            let bytes = write(&tensor).expect("int32 has a name");
            assert_eq!((bytes.len() - tensor.byte_len()) % 64, 0);
            assert_eq!(read(bytes.into()).expect("own file"), tensor);
        }
        assert!(write(&Tensor::from_f64s(DType::BF16, vec![1], [1.0])).is_err());
    }

    fn file(header: &str, data: &[u8]) -> Bytes {
        let mut out = MAGIC.to_vec();
        out.extend([1, 0]);
        out.extend((header.len() as u16).to_le_bytes());
        out.extend(header.as_bytes());
        out.extend(data);
        out.into()
    }

    #[test]
    fn fortran_order_and_the_other_byte_order_are_read() {
        let tensor = read(file("{'descr': '>i2', 'fortran_order': True, 'shape': (2, 2), }", &[0, 1, 0, 2, 0, 3, 0, 4]));
        assert_eq!(tensor.expect("valid").to_i64s(), [1, 3, 2, 4]);
    }

    #[test]
    fn broken_files_are_told() {
        for bytes in [
            Bytes::new(),
            Bytes::from_static(b"\x93NUMPY\x01\0\xff\xff{"),
            file("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", &[0; 7]),
            file("{'descr': '<U3', 'fortran_order': False, 'shape': (1,), }", &[0; 12]),
            file("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999999, 99999999999999), }", &[]),
            file("{}", &[]),
        ] {
            assert!(read(bytes).is_err());
        }
    }
}
