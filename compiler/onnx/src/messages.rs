//! ONNX's protobuf messages, as far as the compiler reads them.
//!
//! Strings are declared as bytes, so that a bad one is reported where it stands; `bytes` fields share
//! the file that they were decoded from, so weights are never copied. Fields that the compiler does
//! not read (documentation, metadata of values, device configurations) are skipped by the decoder.
//! Numbers and names are those of `onnx.proto` and `onnx-data.proto` (onnx 1.23).

use bytes::Bytes;
use prost::Message;

macro_rules! message {
    ($(#[doc = $doc:literal] $name:ident { $($(#[$prost:meta])+ $field:ident: $ty:ty,)* })*) => {
        $(
            #[doc = $doc]
            #[derive(Clone, PartialEq, Message)]
            #[allow(missing_docs)]
            pub struct $name { $($(#[$prost])+ pub $field: $ty,)* }
        )*
    };
}

message! {
    #[doc = "A model."]
    ModelProto {
        #[prost(int64, optional, tag = "1")] ir_version: Option<i64>,
        #[prost(bytes = "bytes", tag = "2")] producer_name: Bytes,
        #[prost(bytes = "bytes", tag = "3")] producer_version: Bytes,
        #[prost(message, optional, tag = "7")] graph: Option<GraphProto>,
        #[prost(message, repeated, tag = "8")] opset_import: Vec<OperatorSetIdProto>,
        #[prost(message, repeated, tag = "14")] metadata_props: Vec<StringStringEntryProto>,
        #[prost(message, repeated, tag = "25")] functions: Vec<FunctionProto>,
    }
    #[doc = "An operator set and its version."]
    OperatorSetIdProto {
        #[prost(bytes = "bytes", tag = "1")] domain: Bytes,
        #[prost(int64, tag = "2")] version: i64,
    }
    #[doc = "A graph: the model's, or a body."]
    GraphProto {
        #[prost(message, repeated, tag = "1")] node: Vec<NodeProto>,
        #[prost(bytes = "bytes", tag = "2")] name: Bytes,
        #[prost(message, repeated, tag = "5")] initializer: Vec<TensorProto>,
        #[prost(message, repeated, tag = "11")] input: Vec<ValueInfoProto>,
        #[prost(message, repeated, tag = "12")] output: Vec<ValueInfoProto>,
        #[prost(message, repeated, tag = "13")] value_info: Vec<ValueInfoProto>,
        #[prost(message, repeated, tag = "15")] sparse_initializer: Vec<SparseTensorProto>,
    }
    #[doc = "A node."]
    NodeProto {
        #[prost(bytes = "bytes", repeated, tag = "1")] input: Vec<Bytes>,
        #[prost(bytes = "bytes", repeated, tag = "2")] output: Vec<Bytes>,
        #[prost(bytes = "bytes", tag = "3")] name: Bytes,
        #[prost(bytes = "bytes", tag = "4")] op_type: Bytes,
        #[prost(message, repeated, tag = "5")] attribute: Vec<AttributeProto>,
        #[prost(bytes = "bytes", tag = "7")] domain: Bytes,
        #[prost(bytes = "bytes", tag = "8")] overload: Bytes,
    }
    #[doc = "A node's attribute."]
    AttributeProto {
        #[prost(bytes = "bytes", tag = "1")] name: Bytes,
        #[prost(float, optional, tag = "2")] f: Option<f32>,
        #[prost(int64, optional, tag = "3")] i: Option<i64>,
        #[prost(bytes = "bytes", optional, tag = "4")] s: Option<Bytes>,
        #[prost(message, optional, tag = "5")] t: Option<TensorProto>,
        #[prost(message, optional, boxed, tag = "6")] g: Option<Box<GraphProto>>,
        #[prost(float, repeated, tag = "7")] floats: Vec<f32>,
        #[prost(int64, repeated, tag = "8")] ints: Vec<i64>,
        #[prost(bytes = "bytes", repeated, tag = "9")] strings: Vec<Bytes>,
        #[prost(message, repeated, tag = "10")] tensors: Vec<TensorProto>,
        #[prost(message, repeated, tag = "11")] graphs: Vec<GraphProto>,
        #[prost(message, optional, tag = "14")] tp: Option<TypeProto>,
        #[prost(message, repeated, tag = "15")] type_protos: Vec<TypeProto>,
        #[prost(int32, tag = "20")] kind: i32,
        #[prost(bytes = "bytes", tag = "21")] ref_attr_name: Bytes,
        #[prost(message, optional, tag = "22")] sparse_tensor: Option<SparseTensorProto>,
        #[prost(message, repeated, tag = "23")] sparse_tensors: Vec<SparseTensorProto>,
    }
    #[doc = "A value's name and declared type."]
    ValueInfoProto {
        #[prost(bytes = "bytes", tag = "1")] name: Bytes,
        #[prost(message, optional, tag = "2")] ty: Option<TypeProto>,
    }
    #[doc = "A tensor with its elements."]
    TensorProto {
        #[prost(int64, repeated, tag = "1")] dims: Vec<i64>,
        #[prost(int32, tag = "2")] data_type: i32,
        #[prost(bytes = "bytes", optional, tag = "3")] segment: Option<Bytes>,
        #[prost(float, repeated, tag = "4")] float_data: Vec<f32>,
        #[prost(int32, repeated, tag = "5")] int32_data: Vec<i32>,
        #[prost(bytes = "bytes", repeated, tag = "6")] string_data: Vec<Bytes>,
        #[prost(int64, repeated, tag = "7")] int64_data: Vec<i64>,
        #[prost(bytes = "bytes", tag = "8")] name: Bytes,
        #[prost(bytes = "bytes", optional, tag = "9")] raw_data: Option<Bytes>,
        #[prost(double, repeated, tag = "10")] double_data: Vec<f64>,
        #[prost(uint64, repeated, tag = "11")] uint64_data: Vec<u64>,
        #[prost(message, repeated, tag = "13")] external_data: Vec<StringStringEntryProto>,
        #[prost(int32, tag = "14")] data_location: i32,
    }
    #[doc = "A tensor of which only the elements that are not zero are listed."]
    SparseTensorProto {
        #[prost(message, optional, tag = "1")] values: Option<TensorProto>,
        #[prost(message, optional, tag = "2")] indices: Option<TensorProto>,
        #[prost(int64, repeated, tag = "3")] dims: Vec<i64>,
    }
    #[doc = "A pair of strings."]
    StringStringEntryProto {
        #[prost(bytes = "bytes", tag = "1")] key: Bytes,
        #[prost(bytes = "bytes", tag = "2")] value: Bytes,
    }
    #[doc = "A shape."]
    TensorShapeProto {
        #[prost(message, repeated, tag = "1")] dim: Vec<DimensionProto>,
    }
    #[doc = "One dim of a shape: a number, a name, or neither."]
    DimensionProto {
        #[prost(int64, optional, tag = "1")] dim_value: Option<i64>,
        #[prost(bytes = "bytes", optional, tag = "2")] dim_param: Option<Bytes>,
    }
    #[doc = "A type. At most one of the fields is set."]
    TypeProto {
        #[prost(message, optional, tag = "1")] tensor_type: Option<TensorTypeProto>,
        #[prost(message, optional, boxed, tag = "4")] sequence_type: Option<Box<ElementTypeProto>>,
        #[prost(message, optional, boxed, tag = "5")] map_type: Option<Box<MapTypeProto>>,
        #[prost(message, optional, tag = "8")] sparse_tensor_type: Option<TensorTypeProto>,
        #[prost(message, optional, boxed, tag = "9")] optional_type: Option<Box<ElementTypeProto>>,
    }
    #[doc = "Element type and shape of a tensor."]
    TensorTypeProto {
        #[prost(int32, tag = "1")] elem_type: i32,
        #[prost(message, optional, tag = "2")] shape: Option<TensorShapeProto>,
    }
    #[doc = "What a sequence or an optional holds."]
    ElementTypeProto {
        #[prost(message, optional, boxed, tag = "1")] elem_type: Option<Box<TypeProto>>,
    }
    #[doc = "Key and value of a map."]
    MapTypeProto {
        #[prost(int32, tag = "1")] key_type: i32,
        #[prost(message, optional, boxed, tag = "2")] value_type: Option<Box<TypeProto>>,
    }
    #[doc = "A function of the model's own."]
    FunctionProto {
        #[prost(bytes = "bytes", tag = "1")] name: Bytes,
        #[prost(bytes = "bytes", repeated, tag = "4")] input: Vec<Bytes>,
        #[prost(bytes = "bytes", repeated, tag = "5")] output: Vec<Bytes>,
        #[prost(bytes = "bytes", repeated, tag = "6")] attribute: Vec<Bytes>,
        #[prost(message, repeated, tag = "7")] node: Vec<NodeProto>,
        #[prost(message, repeated, tag = "9")] opset_import: Vec<OperatorSetIdProto>,
        #[prost(bytes = "bytes", tag = "10")] domain: Bytes,
        #[prost(message, repeated, tag = "11")] attribute_proto: Vec<AttributeProto>,
        #[prost(bytes = "bytes", tag = "13")] overload: Bytes,
    }
    #[doc = "A sequence with its elements, as test data."]
    SequenceProto {
        #[prost(bytes = "bytes", tag = "1")] name: Bytes,
        #[prost(int32, tag = "2")] elem_type: i32,
        #[prost(message, repeated, tag = "3")] tensor_values: Vec<TensorProto>,
        #[prost(message, repeated, tag = "4")] sparse_tensor_values: Vec<SparseTensorProto>,
        #[prost(message, repeated, tag = "5")] sequence_values: Vec<SequenceProto>,
        #[prost(message, repeated, tag = "6")] map_values: Vec<MapProto>,
        #[prost(message, repeated, tag = "7")] optional_values: Vec<OptionalProto>,
    }
    #[doc = "A map with its entries, as test data."]
    MapProto {
        #[prost(bytes = "bytes", tag = "1")] name: Bytes,
        #[prost(int32, tag = "2")] key_type: i32,
        #[prost(int64, repeated, packed = "false", tag = "3")] keys: Vec<i64>,
        #[prost(bytes = "bytes", repeated, tag = "4")] string_keys: Vec<Bytes>,
        #[prost(message, optional, tag = "5")] values: Option<SequenceProto>,
    }
    #[doc = "An optional with what it holds, as test data."]
    OptionalProto {
        #[prost(bytes = "bytes", tag = "1")] name: Bytes,
        #[prost(int32, tag = "2")] elem_type: i32,
        #[prost(message, optional, tag = "3")] tensor_value: Option<TensorProto>,
        #[prost(message, optional, tag = "4")] sparse_tensor_value: Option<SparseTensorProto>,
        #[prost(message, optional, tag = "5")] sequence_value: Option<SequenceProto>,
        #[prost(message, optional, tag = "6")] map_value: Option<MapProto>,
        #[prost(message, optional, boxed, tag = "7")] optional_value: Option<Box<OptionalProto>>,
    }
}

/// `AttributeProto.AttributeType`.
#[allow(missing_docs)]
pub mod attribute_kind {
    pub const FLOAT: i32 = 1;
    pub const INT: i32 = 2;
    pub const STRING: i32 = 3;
    pub const TENSOR: i32 = 4;
    pub const GRAPH: i32 = 5;
    pub const FLOATS: i32 = 6;
    pub const INTS: i32 = 7;
    pub const STRINGS: i32 = 8;
    pub const TENSORS: i32 = 9;
    pub const GRAPHS: i32 = 10;
    pub const SPARSE_TENSOR: i32 = 11;
    pub const SPARSE_TENSORS: i32 = 12;
    pub const TYPE_PROTO: i32 = 13;
    pub const TYPE_PROTOS: i32 = 14;
}
