//! What the readers of ONNX text share: models and functions (`compiler/onnx`), rewrite rules (`passes`).

pub mod cursor;
