//! `TensorProto`, `SequenceProto`, `OptionalProto` and `MapProto` ↔ `Datum`. A file does not say which
//! of them it holds: the type of the value does.

use bytes::Bytes;
use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::tensor::Key;
use oaaxc_ir::{DType, Datum, Type};
use prost::Message;

use crate::external::ExternalData;
use crate::messages::{MapProto, OptionalProto, SequenceProto, TensorProto};
use crate::{scan, tensor};

type Result<T> = std::result::Result<T, Diagnostic>;

/// Kinds of element of `SequenceProto` and `OptionalProto`.
const TENSOR: i32 = 1;
const SEQUENCE: i32 = 3;
const MAP: i32 = 4;
const OPTIONAL: i32 = 5;

/// Reads a value of this type.
pub fn read(bytes: Bytes, ty: &Type) -> Result<Datum> {
    let kind = if matches!(ty, Type::Tensor(_)) { scan::Kind::Tensor } else { scan::Kind::Data };
    scan::check(&bytes, kind)?;
    match ty {
        Type::Tensor(_) => Ok(tensor::read(&decode::<TensorProto>(bytes)?, &ExternalData::none())?.into()),
        Type::Sequence(_) => sequence(&decode(bytes)?, 0),
        Type::Map(..) => map(&decode(bytes)?, 0),
        // An optional input may be given as the value itself.
        Type::Optional(inner) => match decode::<OptionalProto>(bytes.clone()).and_then(|o| optional(&o, 0)) {
            Ok(datum) => Ok(datum),
            Err(error) => read(bytes, inner).map(|d| Datum::Optional(Some(Box::new(d)))).map_err(|_| error),
        },
    }
}

fn decode<M: Message + Default>(bytes: Bytes) -> Result<M> {
    M::decode(bytes).map_err(|e| Diagnostic::error(Code::NOT_ONNX, format!("the file holds no test data of this type: {e}")))
}

fn lacks(what: &str) -> Diagnostic {
    Diagnostic::error(Code::TENSOR, format!("the test data lacks {what}"))
}

fn check_depth(depth: usize) -> Result<()> {
    if depth > 16 { Err(Diagnostic::error(Code::LIMIT, "the test data is nested deeper than 16")) } else { Ok(()) }
}

fn sequence(proto: &SequenceProto, depth: usize) -> Result<Datum> {
    check_depth(depth)?;
    let mut out = Vec::new();
    for t in &proto.tensor_values {
        out.push(tensor::read(t, &ExternalData::none())?.into());
    }
    for t in &proto.sparse_tensor_values {
        out.push(tensor::read_sparse(t, &ExternalData::none())?.into());
    }
    for s in &proto.sequence_values {
        out.push(sequence(s, depth + 1)?);
    }
    for m in &proto.map_values {
        out.push(map(m, depth + 1)?);
    }
    for o in &proto.optional_values {
        out.push(optional(o, depth + 1)?);
    }
    Ok(Datum::Sequence(out))
}

fn optional(proto: &OptionalProto, depth: usize) -> Result<Datum> {
    check_depth(depth)?;
    let inner = match (proto.elem_type, proto) {
        (0, _) => None,
        (TENSOR, OptionalProto { tensor_value: Some(t), .. }) => Some(tensor::read(t, &ExternalData::none())?.into()),
        (SEQUENCE, OptionalProto { sequence_value: Some(s), .. }) => Some(sequence(s, depth + 1)?),
        (MAP, OptionalProto { map_value: Some(m), .. }) => Some(map(m, depth + 1)?),
        (OPTIONAL, OptionalProto { optional_value: Some(o), .. }) => Some(optional(o, depth + 1)?),
        _ => None,
    };
    Ok(Datum::Optional(inner.map(Box::new)))
}

fn map(proto: &MapProto, depth: usize) -> Result<Datum> {
    check_depth(depth)?;
    let ints = proto.keys.iter().map(|k| Key::Int(*k));
    let keys: Vec<Key> = ints.chain(proto.string_keys.iter().map(|k| Key::Text(k.to_vec()))).collect();
    let values = proto.values.as_ref().ok_or_else(|| lacks("the values of a map"))?;
    let Datum::Sequence(values) = sequence(values, depth + 1)? else { return Err(lacks("the values of a map")) };
    if keys.len() != values.len() {
        return Err(Diagnostic::error(Code::TENSOR, format!("a map has {} keys and {} values", keys.len(), values.len())));
    }
    let mut entries: Vec<_> = keys.into_iter().zip(values).collect();
    entries.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(Datum::Map(entries))
}

/// Writes a value under a name.
pub fn write(datum: &Datum, name: &str) -> Vec<u8> {
    match datum {
        Datum::Tensor(t) => tensor::write(t, name).encode_to_vec(),
        Datum::Sequence(items) => write_sequence(items, name).encode_to_vec(),
        Datum::Optional(inner) => write_optional(inner.as_deref(), name).encode_to_vec(),
        Datum::Map(entries) => write_map(entries, name).encode_to_vec(),
    }
}

fn write_sequence(items: &[Datum], name: &str) -> SequenceProto {
    let mut proto = SequenceProto { name: Bytes::copy_from_slice(name.as_bytes()), elem_type: TENSOR, ..Default::default() };
    for item in items {
        match item {
            Datum::Tensor(t) => proto.tensor_values.push(tensor::write(t, "")),
            Datum::Sequence(inner) => {
                proto.elem_type = SEQUENCE;
                proto.sequence_values.push(write_sequence(inner, ""));
            }
            Datum::Map(entries) => {
                proto.elem_type = MAP;
                proto.map_values.push(write_map(entries, ""));
            }
            Datum::Optional(inner) => {
                proto.elem_type = OPTIONAL;
                proto.optional_values.push(write_optional(inner.as_deref(), ""));
            }
        }
    }
    proto
}

fn write_optional(inner: Option<&Datum>, name: &str) -> OptionalProto {
    let mut proto = OptionalProto { name: Bytes::copy_from_slice(name.as_bytes()), ..Default::default() };
    match inner {
        None => {}
        Some(Datum::Tensor(t)) => (proto.elem_type, proto.tensor_value) = (TENSOR, Some(tensor::write(t, ""))),
        Some(Datum::Sequence(s)) => (proto.elem_type, proto.sequence_value) = (SEQUENCE, Some(write_sequence(s, ""))),
        Some(Datum::Map(m)) => (proto.elem_type, proto.map_value) = (MAP, Some(write_map(m, ""))),
        Some(Datum::Optional(o)) => {
            (proto.elem_type, proto.optional_value) = (OPTIONAL, Some(Box::new(write_optional(o.as_deref(), ""))));
        }
    }
    proto
}

fn write_map(entries: &[(Key, Datum)], name: &str) -> MapProto {
    let mut proto = MapProto { name: Bytes::copy_from_slice(name.as_bytes()), ..Default::default() };
    let mut values = Vec::new();
    for (key, value) in entries {
        match key {
            Key::Int(k) => proto.keys.push(*k),
            Key::Text(k) => proto.string_keys.push(Bytes::copy_from_slice(k)),
        }
        values.push(value.clone());
    }
    proto.key_type = if proto.string_keys.is_empty() { DType::I64.onnx() } else { DType::String.onnx() };
    proto.values = Some(write_sequence(&values, ""));
    proto
}
