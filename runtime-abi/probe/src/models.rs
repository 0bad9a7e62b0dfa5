//! The two smallest models that the checks need, as ONNX bytes: written field by field, so that no
//! library and no file is needed. A runtime that loads ONNX takes them as they are; a vendor's
//! toolchain turns them into what its runtime loads.

use crate::subject::{Port, Use};
use std::path::Path;

/// `y = x + x` over four floats.
pub fn double() -> Vec<u8> {
    let ports = [value("x", 1, &[1, 4]), value("y", 1, &[1, 4])];
    model("double", &node("Add", &["x", "x"], "y"), &ports[..1], &ports[1..])
}

/// `z = x[index]` over three floats and two indices: an index outside fails when the model runs.
pub fn pick() -> Vec<u8> {
    let inputs = [value("x", 1, &[3]), value("index", 7, &[2])];
    model("pick", &node("Gather", &["x", "index"], "z"), &inputs, &[value("z", 1, &[2])])
}

/// `y = NoSuchOperator(x)`, which no toolchain converts.
pub fn unknown() -> Vec<u8> {
    let ports = [value("x", 1, &[1, 4]), value("y", 1, &[1, 4])];
    model("unknown", &node("NoSuchOperator", &["x"], "y"), &ports[..1], &ports[1..])
}

/// How [`double`] is used when it, or what came of it, lies at `path`.
pub fn use_double(path: &Path) -> Use {
    let x = Port { name: "x".to_owned(), dtype: 1, shape: vec![1, 4] };
    Use { path: path.to_owned(), inputs: vec![x], doubles: true }
}

/// How [`pick`] is used when it, or what came of it, lies at `path`.
pub fn use_pick(path: &Path) -> Use {
    let x = Port { name: "x".to_owned(), dtype: 1, shape: vec![3] };
    let index = Port { name: "index".to_owned(), dtype: 7, shape: vec![2] };
    Use { path: path.to_owned(), inputs: vec![x, index], doubles: false }
}

fn varint(mut value: u64, to: &mut Vec<u8>) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

/// A field that holds a number.
fn number(field: u64, value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint(field << 3, &mut bytes);
    varint(value, &mut bytes);
    bytes
}

/// A field that holds bytes: a string or a message.
fn bytes(field: u64, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint(field << 3 | 2, &mut bytes);
    varint(content.len() as u64, &mut bytes);
    bytes.extend(content);
    bytes
}

/// NodeProto: input 1, output 2, name 3, op_type 4.
fn node(operator: &str, inputs: &[&str], output: &str) -> Vec<u8> {
    let mut node: Vec<u8> = inputs.iter().flat_map(|input| bytes(1, input.as_bytes())).collect();
    node.extend(bytes(2, output.as_bytes()));
    node.extend(bytes(3, b"only"));
    node.extend(bytes(4, operator.as_bytes()));
    node
}

/// ValueInfoProto: name 1, type 2 { tensor 1 { element type 1, shape 2 { dim 1 { value 1 } } } }.
fn value(name: &str, dtype: u64, shape: &[u64]) -> Vec<u8> {
    let dims: Vec<u8> = shape.iter().flat_map(|dim| bytes(1, &number(1, *dim))).collect();
    let tensor = [number(1, dtype), bytes(2, &dims)].concat();
    [bytes(1, name.as_bytes()), bytes(2, &bytes(1, &tensor))].concat()
}

/// ModelProto: ir_version 1, graph 7 { node 1, name 2, input 11, output 12 }, opset_import 8 { version 2 }.
fn model(name: &str, node: &[u8], inputs: &[Vec<u8>], outputs: &[Vec<u8>]) -> Vec<u8> {
    let mut graph = [bytes(1, node), bytes(2, name.as_bytes())].concat();
    inputs.iter().for_each(|input| graph.extend(bytes(11, input)));
    outputs.iter().for_each(|output| graph.extend(bytes(12, output)));
    [number(1, 8), bytes(7, &graph), bytes(8, &number(2, 13))].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_written_as_protobuf_says() {
        assert_eq!(number(1, 300), [0x08, 0xac, 0x02]);
        assert_eq!(bytes(2, b"ab"), [0x12, 2, b'a', b'b']);
        assert_eq!(double()[..2], [0x08, 8]);
        assert!(pick().windows(6).any(|window| window == b"Gather"));
    }
}
