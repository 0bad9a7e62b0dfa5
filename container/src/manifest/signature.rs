//! What a model takes and gives: inputs, outputs, their types and dims.
//!
//! Promises: ONNX's own words; a dim is a number or text in the grammar of `docs/artefact.md`.

use serde::{Deserialize, Serialize};

/// Least and greatest value of a named dim, both inclusive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SymbolRange {
    /// Least value.
    pub min: u64,
    /// Greatest value; none where unbounded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<u64>,
}

/// One input or output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueInfo {
    /// Its name in the model.
    pub name: String,
    /// Its type, in the same object.
    #[serde(flatten)]
    pub ty: ValueType,
    /// An input that has a default in the model and may be left out.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub overridable: bool,
}

/// ONNX's value types. `kind` in JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ValueType {
    /// A dense tensor.
    Tensor {
        /// ONNX's element type in its text form: `float`, `int64`, `bfloat16`, `string` …
        dtype: String,
        /// None where even the rank is unknown.
        dims: Option<Vec<Dim>>,
    },
    /// A sequence of one type.
    Sequence {
        /// Type of its elements.
        element: Box<ValueType>,
    },
    /// A value or nothing.
    Optional {
        /// Type of the value.
        element: Box<ValueType>,
    },
    /// A map.
    Map {
        /// ONNX's element type of the keys.
        key: String,
        /// Type of the values.
        value: Box<ValueType>,
    },
}

/// One dim: a number, a symbol's name, or an expression over symbols such as `2*N + 1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Dim {
    /// A fixed size.
    Size(u64),
    /// A symbol or an expression; the grammar is in `docs/artefact.md`.
    Named(String),
}
