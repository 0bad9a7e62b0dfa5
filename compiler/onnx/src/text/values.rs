//! Types, tensors and attributes in ONNX text.

use bytes::Bytes;
use oaaxc_ir::DType;
use oaaxc_ir::text::cursor::{Cursor, Number, Result};

use super::parse;
use crate::messages::{
    AttributeProto, DimensionProto, ElementTypeProto, MapTypeProto, TensorProto, TensorShapeProto, TensorTypeProto, TypeProto,
    attribute_kind as kind,
};

/// A type, if one comes next: `float[N,3]`, `seq(float[N])`, `optional(…)`, `map(int64,float)`.
pub(super) fn type_if_any(c: &mut Cursor) -> Result<Option<TypeProto>> {
    let start = c.position();
    if c.peek() == Some('"') {
        return Ok(None);
    }
    let Some(word) = c.name_if_any()? else { return Ok(None) };
    let word = String::from_utf8_lossy(&word).into_owned();
    let element = |c: &mut Cursor| -> Result<Option<Box<ElementTypeProto>>> {
        let inner = type_if_any(c)?.ok_or_else(|| c.error("a type is expected"))?;
        c.expect(")")?;
        Ok(Some(Box::new(ElementTypeProto { elem_type: Some(Box::new(inner)) })))
    };
    if let Some(dtype) = DType::from_name(&word) {
        let tensor = TensorTypeProto { elem_type: dtype.onnx(), shape: shape(c)? };
        return Ok(Some(TypeProto { tensor_type: Some(tensor), ..TypeProto::default() }));
    }
    if word == "seq" && c.take("(") {
        return Ok(Some(TypeProto { sequence_type: element(c)?, ..TypeProto::default() }));
    }
    if word == "optional" && c.take("(") {
        return Ok(Some(TypeProto { optional_type: element(c)?, ..TypeProto::default() }));
    }
    if word == "map" && c.take("(") {
        let key = dtype(c)?;
        c.expect(",")?;
        let value = type_if_any(c)?.ok_or_else(|| c.error("a type is expected"))?;
        c.expect(")")?;
        let map = MapTypeProto { key_type: key.onnx(), value_type: Some(Box::new(value)) };
        return Ok(Some(TypeProto { map_type: Some(Box::new(map)), ..TypeProto::default() }));
    }
    c.back_to(start);
    Ok(None)
}

fn dtype(c: &mut Cursor) -> Result<DType> {
    let word = c.name()?;
    DType::from_name(&String::from_utf8_lossy(&word)).ok_or_else(|| c.error("an element type is expected"))
}

/// `[N,3,?]`; nothing is a scalar, as ONNX has it; `[]` is a tensor of unknown rank.
fn shape(c: &mut Cursor) -> Result<Option<TensorShapeProto>> {
    if !c.take("[") {
        return Ok(Some(TensorShapeProto::default()));
    }
    if c.take("]") {
        return Ok(None);
    }
    let dim = c.list("]", |c| {
        if c.take("?") {
            return Ok(DimensionProto::default());
        }
        Ok(match c.name_if_any()? {
            Some(name) => DimensionProto { dim_param: Some(name), dim_value: None },
            None => DimensionProto { dim_value: Some(c.int()?), dim_param: None },
        })
    })?;
    Ok(Some(TensorShapeProto { dim }))
}

/// A tensor: element type, dims and elements, or elements alone of a type said before.
pub(super) fn tensor(c: &mut Cursor, dtype: DType, dims: Option<Vec<i64>>, name: Bytes) -> Result<TensorProto> {
    c.expect("{")?;
    let mut out = TensorProto { data_type: dtype.onnx(), name, ..TensorProto::default() };
    let count = match dtype {
        DType::String => {
            out.string_data = c.list("}", Cursor::string)?;
            out.string_data.len()
        }
        DType::F32 | DType::C64 => {
            out.float_data = c.list("}", |c| Ok(float(c.number()?) as f32))?;
            out.float_data.len()
        }
        DType::F64 | DType::C128 => {
            out.double_data = c.list("}", |c| Ok(float(c.number()?)))?;
            out.double_data.len()
        }
        DType::I64 => {
            out.int64_data = c.list("}", Cursor::int)?;
            out.int64_data.len()
        }
        DType::U64 | DType::U32 => {
            out.uint64_data = c.list("}", |c| Ok(c.int()? as u64))?;
            out.uint64_data.len()
        }
        _ => {
            // Elements of the other types stand as ints; floats of 16 bits and fewer as their values.
            let scalars = c.list("}", |c| {
                Ok(match c.number()? {
                    Number::Int(v) if !dtype.is_float() => oaaxc_ir::Scalar::from_i64(v),
                    number => oaaxc_ir::Scalar::from_f64(float(number)),
                })
            })?;
            let count = scalars.len();
            let whole = oaaxc_ir::Tensor::from_scalars(dtype, vec![count], scalars);
            out.raw_data = crate::tensor::write(&whole, "").raw_data;
            count
        }
    };
    out.dims = dims.unwrap_or_else(|| if count == 1 { Vec::new() } else { vec![count as i64] });
    Ok(out)
}

fn float(number: Number) -> f64 {
    match number {
        Number::Int(v) => v as f64,
        Number::Float(v) => v,
    }
}

/// `float[2,3] {…}`, where the type is optional if given before.
pub(super) fn typed_tensor(c: &mut Cursor) -> Result<TensorProto> {
    let dtype = dtype(c)?;
    let dims = if c.take("[") { Some(c.list("]", Cursor::int)?) } else { None };
    let name = if c.peek() == Some('{') { Bytes::new() } else { c.name()? };
    c.take("=");
    tensor(c, dtype, dims, name)
}

const KINDS: [(&str, i32); 12] = [
    ("int", kind::INT),
    ("float", kind::FLOAT),
    ("string", kind::STRING),
    ("tensor", kind::TENSOR),
    ("graph", kind::GRAPH),
    ("ints", kind::INTS),
    ("floats", kind::FLOATS),
    ("strings", kind::STRINGS),
    ("tensors", kind::TENSORS),
    ("graphs", kind::GRAPHS),
    ("type_proto", kind::TYPE_PROTO),
    ("type_protos", kind::TYPE_PROTOS),
];

/// An attribute: `name = value`, `name: kind = value`, `name: kind = @other`, or (of functions) a bare name.
pub(super) fn attribute(c: &mut Cursor, depth: usize) -> Result<AttributeProto> {
    let mut out = AttributeProto { name: c.name()?, ..AttributeProto::default() };
    if c.take(":") {
        let word = c.name()?;
        let found = KINDS.iter().find(|(name, _)| name.as_bytes() == &word[..]);
        out.kind = found.ok_or_else(|| c.error("a kind of attribute is expected"))?.1;
    }
    if !c.take("=") {
        return Ok(out);
    }
    if c.take("@") {
        out.ref_attr_name = c.name()?;
        return Ok(out);
    }
    value(c, &mut out, depth)?;
    Ok(out)
}

fn value(c: &mut Cursor, out: &mut AttributeProto, depth: usize) -> Result<()> {
    match c.peek() {
        Some('[') => {
            c.expect("[")?;
            if c.peek() == Some('"') {
                out.strings = c.list("]", Cursor::string)?;
                return set_kind(c, out, kind::STRINGS);
            }
            let numbers = c.list("]", Cursor::number)?;
            let floats = out.kind == kind::FLOATS || numbers.iter().any(|n| matches!(n, Number::Float(_)));
            if floats {
                out.floats = numbers.into_iter().map(|n| float(n) as f32).collect();
                return set_kind(c, out, kind::FLOATS);
            }
            out.ints = numbers.into_iter().map(float_or_int).collect();
            // An empty list may be of any kind that was said.
            let listed = if out.ints.is_empty() && out.kind != 0 { out.kind } else { kind::INTS };
            set_kind(c, out, listed)
        }
        Some('"') => {
            out.s = Some(c.string()?);
            set_kind(c, out, kind::STRING)
        }
        Some(first) if first.is_ascii_digit() || matches!(first, '-' | '+' | '.') || starts_float_word(c) => match c.number()? {
            Number::Int(v) if out.kind != kind::FLOAT => {
                out.i = Some(v);
                set_kind(c, out, kind::INT)
            }
            number => {
                out.f = Some(float(number) as f32);
                set_kind(c, out, kind::FLOAT)
            }
        },
        _ if out.kind == kind::TYPE_PROTO => {
            out.tp = type_if_any(c)?;
            if out.tp.is_none() { Err(c.error("a type is expected")) } else { Ok(()) }
        }
        _ => {
            let start = c.position();
            let word = c.name()?;
            c.back_to(start);
            if DType::from_name(&String::from_utf8_lossy(&word)).is_some() && out.kind != kind::GRAPH {
                out.t = Some(typed_tensor(c)?);
                set_kind(c, out, kind::TENSOR)
            } else {
                out.g = Some(Box::new(parse::graph(c, depth + 1)?));
                set_kind(c, out, kind::GRAPH)
            }
        }
    }
}

fn float_or_int(number: Number) -> i64 {
    match number {
        Number::Int(v) => v,
        Number::Float(v) => v as i64,
    }
}

fn starts_float_word(c: &mut Cursor) -> bool {
    let start = c.position();
    let is_word = matches!(c.number(), Ok(Number::Float(v)) if !v.is_finite());
    let next = c.peek();
    c.back_to(start);
    is_word && next.is_none_or(|n| matches!(n, ',' | '>' | ']'))
}

fn set_kind(c: &mut Cursor, out: &mut AttributeProto, found: i32) -> Result<()> {
    if out.kind == 0 {
        out.kind = found;
    }
    if out.kind != found {
        return Err(c.error("the value before is not of the kind that was said"));
    }
    Ok(())
}
