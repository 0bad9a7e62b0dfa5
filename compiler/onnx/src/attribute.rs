//! AttributeProto → Attribute: the kind is checked, strings and tensors are shared or read.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::Attribute;
use oaaxc_ops::schema_types::AttributeKind;

use crate::external::ExternalData;
use crate::messages::{AttributeProto, GraphProto, attribute_kind as kind};
use crate::tensor::{self, show};
use crate::types;

type Result<T> = std::result::Result<T, Diagnostic>;

/// What an attribute holds.
pub(crate) enum Held<'a> {
    /// Plain data.
    Data(Attribute),
    /// A body.
    Graph(&'a GraphProto),
}

/// The attribute's kind; old files leave it out, then the field that is set tells.
pub(crate) fn kind_of(proto: &AttributeProto) -> i32 {
    match proto {
        _ if proto.kind != 0 => proto.kind,
        AttributeProto { f: Some(_), .. } => kind::FLOAT,
        AttributeProto { i: Some(_), .. } => kind::INT,
        AttributeProto { s: Some(_), .. } => kind::STRING,
        AttributeProto { t: Some(_), .. } => kind::TENSOR,
        AttributeProto { g: Some(_), .. } => kind::GRAPH,
        AttributeProto { tp: Some(_), .. } => kind::TYPE_PROTO,
        AttributeProto { sparse_tensor: Some(_), .. } => kind::SPARSE_TENSOR,
        _ if !proto.floats.is_empty() => kind::FLOATS,
        _ if !proto.ints.is_empty() => kind::INTS,
        _ if !proto.strings.is_empty() => kind::STRINGS,
        _ => 0,
    }
}

/// Reads one attribute.
pub(crate) fn read<'a>(proto: &'a AttributeProto, external: &ExternalData) -> Result<Held<'a>> {
    let name = show(&proto.name);
    let missing = || Diagnostic::error(Code::ATTRIBUTE, format!("attribute `{name}` has a kind but no value"));
    Ok(Held::Data(match kind_of(proto) {
        kind::FLOAT => Attribute::Float(proto.f.unwrap_or(0.0)),
        kind::INT => Attribute::Int(proto.i.unwrap_or(0)),
        kind::STRING => Attribute::Text(proto.s.as_ref().map(|s| s.to_vec()).unwrap_or_default()),
        kind::TENSOR => Attribute::Tensor(tensor::read(proto.t.as_ref().ok_or_else(missing)?, external)?),
        kind::SPARSE_TENSOR => {
            Attribute::Tensor(tensor::read_sparse(proto.sparse_tensor.as_ref().ok_or_else(missing)?, external)?)
        }
        kind::FLOATS => Attribute::Floats(proto.floats.clone()),
        kind::INTS => Attribute::Ints(proto.ints.clone()),
        kind::STRINGS => Attribute::Texts(proto.strings.iter().map(|s| s.to_vec()).collect()),
        kind::TYPE_PROTO => Attribute::Type(types::claimed_type(proto.tp.as_ref().ok_or_else(missing)?, &name)?),
        kind::GRAPH => return Ok(Held::Graph(proto.g.as_deref().ok_or_else(missing)?)),
        other => {
            let message = format!("attribute `{name}` is of kind {}, which no operator uses", kind_name(other));
            return Err(Diagnostic::error(Code::UNSUPPORTED, message));
        }
    }))
}

/// ONNX's number of a kind of the schema.
pub(crate) fn schema_kind(of: AttributeKind) -> i32 {
    match of {
        AttributeKind::Float => kind::FLOAT,
        AttributeKind::Int => kind::INT,
        AttributeKind::Text => kind::STRING,
        AttributeKind::Tensor => kind::TENSOR,
        AttributeKind::Graph => kind::GRAPH,
        AttributeKind::Floats => kind::FLOATS,
        AttributeKind::Ints => kind::INTS,
        AttributeKind::Texts => kind::STRINGS,
        AttributeKind::Tensors => kind::TENSORS,
        AttributeKind::Graphs => kind::GRAPHS,
        AttributeKind::SparseTensor => kind::SPARSE_TENSOR,
        AttributeKind::SparseTensors => kind::SPARSE_TENSORS,
        AttributeKind::TypeProto => kind::TYPE_PROTO,
        AttributeKind::TypeProtos => kind::TYPE_PROTOS,
    }
}

/// A kind in ONNX's words.
pub(crate) fn kind_name(kind: i32) -> String {
    const NAMES: [&str; 15] = [
        "UNDEFINED",
        "FLOAT",
        "INT",
        "STRING",
        "TENSOR",
        "GRAPH",
        "FLOATS",
        "INTS",
        "STRINGS",
        "TENSORS",
        "GRAPHS",
        "SPARSE_TENSOR",
        "SPARSE_TENSORS",
        "TYPE_PROTO",
        "TYPE_PROTOS",
    ];
    let name = usize::try_from(kind).ok().and_then(|k| NAMES.get(k));
    name.map_or_else(|| format!("number {kind}"), ToString::to_string)
}
