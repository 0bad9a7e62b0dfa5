//! The operators: what ONNX says about each, and what we do with it.
//!
//! `schema` and `functions` are generated from the `onnx` package by `scripts/make-schema`.

#[rustfmt::skip]
pub mod functions;
#[rustfmt::skip]
pub mod schema;
pub mod schema_types;
