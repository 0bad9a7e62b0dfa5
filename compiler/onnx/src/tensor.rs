//! TensorProto ↔ Tensor: raw data is shared with the file, typed fields are gathered, 4- and 2-bit
//! elements are unpacked to one a byte, external data is mapped.

use bytes::Bytes;
use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::{DType, Tensor};

use crate::external::ExternalData;
use crate::limits;
use crate::messages::{SparseTensorProto, TensorProto};

type Result<T> = std::result::Result<T, Diagnostic>;

/// A name as text for messages; bytes that are not UTF-8 are replaced.
pub(crate) fn show(name: &[u8]) -> String {
    let shown = String::from_utf8_lossy(&name[..name.len().min(200)]).into_owned();
    if name.len() > 200 { format!("{shown}…") } else { shown }
}

fn malformed(name: &[u8], message: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::error(Code::TENSOR, format!("tensor \"{}\": {message}", show(name)))
}

/// The dims of a tensor in a file, and their product; refuses negative ones and products past all memory.
fn dims_of(name: &[u8], dims: &[i64], dtype: DType) -> Result<(Vec<usize>, usize)> {
    if dims.len() > limits::RANK {
        let message = format!("tensor \"{}\" has {} dims, more than {}", show(name), dims.len(), limits::RANK);
        return Err(Diagnostic::error(Code::LIMIT, message));
    }
    let mut out = Vec::with_capacity(dims.len());
    for &dim in dims {
        out.push(usize::try_from(dim).map_err(|_| malformed(name, format!("has the negative size {dim}")))?);
    }
    // A zero hides no overflow: the others must still be sizes that multiply.
    let product = out.iter().filter(|d| **d != 0).try_fold(1u128, |p, d| p.checked_mul(*d as u128));
    let bytes = product.and_then(|p| p.checked_mul(dtype.size().max(1) as u128)).filter(|b| *b <= limits::TENSOR_BYTES);
    if bytes.is_none() {
        return Err(Diagnostic::error(Code::LIMIT, format!("tensor \"{}\" of {dims:?} is larger than any memory", show(name))));
    }
    let len = out.iter().product();
    Ok((out, len))
}

/// The element type with this number; an error that names the tensor where there is none.
pub(crate) fn dtype_of(number: i32, what: &str) -> Result<DType> {
    DType::from_onnx(number).ok_or_else(|| {
        let known = "1 to 26 are known (float … int2)";
        Diagnostic::error(Code::TYPE, format!("{what} has the element type number {number}, {known}"))
    })
}

/// Reads a tensor.
pub(crate) fn read(proto: &TensorProto, external: &ExternalData) -> Result<Tensor> {
    let name = &proto.name;
    let dtype = dtype_of(proto.data_type, &format!("tensor \"{}\"", show(name)))?;
    let (dims, len) = dims_of(name, &proto.dims, dtype)?;
    if proto.segment.is_some() {
        return Err(malformed(name, "is stored in segments, which no exporter writes").help("save the model anew"));
    }
    if dtype == DType::String {
        if proto.string_data.len() != len {
            return Err(malformed(name, format!("has {} strings, its dims want {len}", proto.string_data.len())));
        }
        return Ok(Tensor::from_strings(dims, proto.string_data.iter().map(|s| s.to_vec()).collect()));
    }
    let packed_len = packed_bytes(dtype, len);
    if proto.data_location == 1 {
        let bytes = external.read(&proto.external_data, packed_len).map_err(|d| d.note(format!("tensor \"{}\"", show(name))))?;
        return Ok(Tensor::from_bytes(dtype, dims, unpack(dtype, len, bytes)));
    }
    if let Some(raw) = &proto.raw_data {
        if raw.len() != packed_len {
            return Err(malformed(name, format!("has {} bytes of data, {dtype}{dims:?} wants {packed_len}", raw.len())));
        }
        return Ok(Tensor::from_bytes(dtype, dims, unpack(dtype, len, raw.clone())));
    }
    let (bytes, count): (Vec<u8>, usize) = typed(proto, dtype);
    let wanted = match dtype {
        DType::C64 | DType::C128 => len * 2,
        _ if dtype.onnx_bits() < 8 => packed_len,
        _ => len,
    };
    if count != wanted {
        return Err(malformed(name, format!("has {count} values, {dtype}{dims:?} wants {wanted}")));
    }
    Ok(Tensor::from_bytes(dtype, dims, unpack(dtype, len, bytes.into())))
}

/// Bytes of `len` elements in ONNX's packed form.
fn packed_bytes(dtype: DType, len: usize) -> usize {
    if dtype.onnx_bits() < 8 { (len * dtype.onnx_bits()).div_ceil(8) } else { len * dtype.size() }
}

/// The values of the typed field that belongs to the element type, little-endian, and how many they are.
fn typed(proto: &TensorProto, dtype: DType) -> (Vec<u8>, usize) {
    match dtype {
        DType::F32 | DType::C64 => (proto.float_data.iter().flat_map(|v| v.to_le_bytes()).collect(), proto.float_data.len()),
        DType::F64 | DType::C128 => (proto.double_data.iter().flat_map(|v| v.to_le_bytes()).collect(), proto.double_data.len()),
        DType::I64 => (proto.int64_data.iter().flat_map(|v| v.to_le_bytes()).collect(), proto.int64_data.len()),
        DType::U64 | DType::U32 => {
            let size = dtype.size();
            let bytes = proto.uint64_data.iter().flat_map(|v| v.to_le_bytes()[..size].to_vec()).collect();
            (bytes, proto.uint64_data.len())
        }
        _ => {
            let size = dtype.size();
            let bytes = proto.int32_data.iter().flat_map(|v| v.to_le_bytes()[..size].to_vec()).collect();
            (bytes, proto.int32_data.len())
        }
    }
}

/// One element a byte; bools become 0 or 1. Shares the bytes where nothing changes.
fn unpack(dtype: DType, len: usize, bytes: Bytes) -> Bytes {
    let bits = dtype.onnx_bits();
    if bits < 8 {
        let per_byte = 8 / bits;
        let element = |i: usize| {
            let value = (bytes[i / per_byte] >> (bits * (i % per_byte))) & ((1 << bits) - 1);
            let shift = 8 - bits;
            if dtype.is_signed() { (((value << shift) as i8) >> shift) as u8 } else { value }
        };
        return (0..len).map(element).collect::<Vec<u8>>().into();
    }
    if dtype == DType::Bool && bytes.iter().any(|b| *b > 1) {
        return bytes.iter().map(|b| u8::from(*b != 0)).collect::<Vec<u8>>().into();
    }
    bytes
}

/// Reads a sparse tensor into a dense one.
pub(crate) fn read_sparse(proto: &SparseTensorProto, external: &ExternalData) -> Result<Tensor> {
    let (Some(values), Some(indices)) = (&proto.values, &proto.indices) else {
        return Err(malformed(b"", "is sparse and lacks values or indices"));
    };
    let name = &values.name;
    let (values, indices) = (read(values, external)?, read(indices, external)?);
    let (dims, len) = dims_of(name, &proto.dims, values.dtype)?;
    if len as u128 * values.dtype.size() as u128 > limits::DENSE_BYTES {
        return Err(Diagnostic::error(
            Code::LIMIT,
            format!("sparse tensor \"{}\" of {dims:?} is too large when dense", show(name)),
        ));
    }
    let count = values.len();
    let linear = match indices.dims[..] {
        [n] if n == count => true,
        [n, rank] if n == count && rank == dims.len() => false,
        _ => return Err(malformed(name, format!("has {count} values and indices of {:?}", indices.dims))),
    };
    if indices.dtype != DType::I64 || values.rank() != 1 || values.dtype == DType::String {
        return Err(malformed(name, "is sparse and its values or indices have a wrong type"));
    }
    let size = values.dtype.size();
    let (mut out, source) = (vec![0u8; len * size], values.to_bytes());
    for i in 0..count {
        let at = if linear {
            usize::try_from(indices.i64_at(i)).ok().filter(|at| *at < len)
        } else {
            let coordinates = (0..dims.len()).map(|d| indices.i64_at(i * dims.len() + d));
            coordinates.zip(&dims).try_fold(0, |at, (c, dim)| Some(at * dim + usize::try_from(c).ok().filter(|c| c < dim)?))
        };
        let at = at.ok_or_else(|| malformed(name, format!("has an index outside {dims:?}")))?;
        out[at * size..(at + 1) * size].copy_from_slice(&source[i * size..(i + 1) * size]);
    }
    Ok(Tensor::from_bytes(values.dtype, dims, out))
}

/// Writes a tensor: raw data, strings as strings, 4- and 2-bit elements packed.
pub fn write(tensor: &Tensor, name: &str) -> TensorProto {
    let mut proto = TensorProto {
        dims: tensor.dims.iter().map(|&d| d as i64).collect(),
        data_type: tensor.dtype.onnx(),
        name: Bytes::copy_from_slice(name.as_bytes()),
        ..TensorProto::default()
    };
    if tensor.dtype == DType::String {
        proto.string_data = (0..tensor.len()).map(|i| Bytes::copy_from_slice(tensor.string_at(i))).collect();
        return proto;
    }
    let bytes = tensor.to_bytes();
    let bits = tensor.dtype.onnx_bits();
    proto.raw_data = Some(if bits < 8 {
        let pack =
            |group: &[u8]| group.iter().enumerate().fold(0u8, |byte, (i, v)| byte | ((v & ((1 << bits) - 1)) << (i * bits)));
        bytes.chunks(8 / bits).map(pack).collect::<Vec<u8>>().into()
    } else {
        bytes
    });
    proto
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proto(dtype: DType, dims: &[i64]) -> TensorProto {
        TensorProto { dims: dims.to_vec(), data_type: dtype.onnx(), ..TensorProto::default() }
    }

    fn read_alone(proto: &TensorProto) -> Result<Tensor> {
        read(proto, &ExternalData::none())
    }

    #[test]
    fn four_bit_elements_are_unpacked_with_their_signs_and_packed_again() {
        let packed = TensorProto { raw_data: Some(vec![0xf1, 0x08].into()), ..proto(DType::I4, &[3]) };
        let tensor = read_alone(&packed).expect("well-formed");
        assert_eq!(tensor.to_i64s(), [1, -1, -8]);
        assert_eq!(write(&tensor, "").raw_data, packed.raw_data);
        let typed = TensorProto { int32_data: vec![0xf1, 0x08], ..proto(DType::U4, &[3]) };
        assert_eq!(read_alone(&typed).expect("well-formed").to_i64s(), [1, 15, 8]);
    }

    #[test]
    fn raw_data_is_shared_not_copied() {
        let raw: Bytes = vec![0u8; 64].into();
        let tensor = read_alone(&TensorProto { raw_data: Some(raw.clone()), ..proto(DType::F32, &[16]) }).expect("fits");
        assert_eq!(tensor.to_bytes().as_ptr(), raw.as_ptr());
    }

    #[test]
    fn shapes_that_lie_are_refused() {
        let with = |dims: &[i64]| read_alone(&TensorProto { raw_data: Some(vec![0u8; 8].into()), ..proto(DType::F32, dims) });
        assert!(with(&[2]).is_ok());
        assert_eq!(with(&[3]).expect_err("too short").code, Code::TENSOR);
        assert_eq!(with(&[-1]).expect_err("negative").code, Code::TENSOR);
        assert_eq!(with(&[i64::MAX, i64::MAX]).expect_err("overflow").code, Code::LIMIT);
        assert_eq!(with(&[0, i64::MAX, i64::MAX]).expect_err("overflow behind a zero").code, Code::LIMIT);
        assert_eq!(with(&[1; 65]).expect_err("rank").code, Code::LIMIT);
        assert_eq!(read_alone(&proto(DType::F32, &[2])).expect_err("no data").code, Code::TENSOR);
    }

    #[test]
    fn sparse_tensors_become_dense() {
        let part = |dtype, dims: &[i64], raw: Vec<u8>| Some(TensorProto { raw_data: Some(raw.into()), ..proto(dtype, dims) });
        let index = |values: &[i64]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
        let mut sparse = SparseTensorProto {
            values: part(DType::U8, &[2], vec![7, 9]),
            indices: part(DType::I64, &[2, 2], index(&[0, 1, 1, 2])),
            dims: vec![2, 3],
        };
        assert_eq!(read_sparse(&sparse, &ExternalData::none()).expect("dense").to_i64s(), [0, 7, 0, 0, 0, 9]);
        sparse.indices = part(DType::I64, &[2], index(&[1, 6]));
        assert_eq!(read_sparse(&sparse, &ExternalData::none()).expect_err("outside").code, Code::TENSOR);
    }
}
