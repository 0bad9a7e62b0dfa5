//! ONNX text: models and functions written as text, read into messages, and graphs printed as such.
//!
//! What `print` writes is valid ONNX text with the facts in `#` comments; `parse` reads it back.

mod parse;
mod print;
mod values;

pub use parse::{function, model};
pub use print::print;
