//! The counting pre-scan: walks the wire format before anything is decoded and refuses files that
//! name more than the limits allow. It allocates nothing and recurses no deeper than the limit.

use oaaxc_base::{Code, Diagnostic};

use crate::limits;

type Result<T> = std::result::Result<T, Diagnostic>;

/// What a length-delimited field holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// ModelProto.
    Model,
    /// FunctionProto.
    Function,
    /// GraphProto.
    Graph,
    /// NodeProto.
    Node,
    /// AttributeProto.
    Attribute,
    /// TensorProto.
    Tensor,
    /// SparseTensorProto.
    Sparse,
    /// ValueInfoProto, TypeProto and all below: `depth` of types is bounded by the decoder.
    Type,
    /// SequenceProto, MapProto, OptionalProto.
    Data,
    /// A message without messages inside.
    Leaf,
    /// A string or opaque bytes that the decoder shares with the file.
    Text,
    /// Numbers that are unpacked: this many bytes each in the file at least.
    Numbers(usize),
    /// Something that the decoder skips.
    Skip,
}

use Kind::*;

fn child(kind: Kind, field: u64) -> Kind {
    match (kind, field) {
        (Model, 7) => Graph,
        (Model, 8 | 14) | (Function, 9) => Leaf,
        (Model, 25) => Function,
        (Function, 4..=6) | (Node, 1..=4) | (Attribute, 9) | (Tensor, 6) => Text,
        (Function, 7) | (Graph, 1) => Node,
        (Function, 11) | (Node, 5) => Attribute,
        (Graph, 5) | (Attribute, 5 | 10) | (Sparse, 1 | 2) | (Data, 3) => Tensor,
        (Graph, 11..=13) => Type,
        (Graph, 15) | (Attribute, 22 | 23) => Sparse,
        (Attribute, 6 | 11) => Graph,
        (Attribute, 14 | 15) => Type,
        (Attribute, 7) | (Tensor, 4) => Numbers(4),
        (Attribute, 8) | (Tensor, 1 | 5 | 7 | 11) | (Sparse, 3) => Numbers(1),
        (Tensor, 10) => Numbers(8),
        (Tensor, 13) => Leaf,
        (Data, 5..=7) => Data,
        _ => Skip,
    }
}

#[derive(Default)]
struct Counts {
    nodes: u64,
    tensors: u64,
    attributes: u64,
    strings: u64,
    numbers: u64,
    messages: u64,
}

/// Checks a whole file, whose outermost message is `kind`.
pub fn check(bytes: &[u8], kind: Kind) -> Result<()> {
    Counts::default().message(bytes, kind, 0, 0)
}

impl Counts {
    fn count(&mut self, kind: Kind, length: usize) -> Result<()> {
        let over = |what: &str, limit: u64| {
            let message = format!("the file names more than {limit} {what}");
            Err(Diagnostic::error(Code::LIMIT, message).help("docs/limits.md lists the limits and their reasons"))
        };
        let (counter, by, limit, what) = match kind {
            Node => (&mut self.nodes, 1, limits::NODES, "nodes"),
            Tensor | Sparse => (&mut self.tensors, 1, limits::TENSORS, "tensors"),
            Attribute => (&mut self.attributes, 1, limits::ATTRIBUTES, "attributes"),
            Text => (&mut self.strings, 1, limits::STRINGS, "names and strings"),
            Numbers(size) => (&mut self.numbers, (length / size) as u64, limits::NUMBERS, "numbers outside raw data"),
            Skip => return Ok(()),
            _ => (&mut self.messages, 1, limits::MESSAGES, "messages"),
        };
        *counter += by;
        if *counter > limit { over(what, limit) } else { Ok(()) }
    }

    fn message(&mut self, bytes: &[u8], kind: Kind, graphs: usize, depth: usize) -> Result<()> {
        if graphs > limits::DEPTH + 1 || depth > 4 * limits::DEPTH {
            let message = format!("subgraphs are nested deeper than {}", limits::DEPTH);
            return Err(Diagnostic::error(Code::LIMIT, message).help("docs/limits.md lists the limits and their reasons"));
        }
        let mut at = 0;
        while at < bytes.len() {
            let tag = varint(bytes, &mut at)?;
            let field = tag >> 3;
            if field == 0 {
                return Err(broken("a field has the number 0"));
            }
            let inner = child(kind, field);
            match tag & 7 {
                0 => {
                    varint(bytes, &mut at)?;
                    self.count(if matches!(inner, Numbers(_)) { Numbers(1) } else { Skip }, 1)?;
                }
                1 => skip(bytes, &mut at, 8)?,
                5 => skip(bytes, &mut at, 4)?,
                2 => {
                    let length = usize::try_from(varint(bytes, &mut at)?).unwrap_or(usize::MAX);
                    let start = at;
                    skip(bytes, &mut at, length)?;
                    let inside = &bytes[start..at];
                    self.count(inner, length)?;
                    match inner {
                        Leaf | Text | Numbers(_) | Skip => {}
                        Type => self.type_parts(inside)?,
                        Graph => self.message(inside, inner, graphs + 1, depth + 1)?,
                        _ => self.message(inside, inner, graphs, depth + 1)?,
                    }
                }
                _ => return Err(broken("a field has an unknown wire type")),
            }
        }
        Ok(())
    }

    /// A declared type: only its dims can be many. They are not walked but reckoned by bytes, which
    /// real models stay far below.
    fn type_parts(&mut self, bytes: &[u8]) -> Result<()> {
        self.messages += (bytes.len() / 16) as u64;
        if self.messages > limits::MESSAGES {
            return Err(Diagnostic::error(Code::LIMIT, format!("declared types name more than {} dims", limits::MESSAGES)));
        }
        Ok(())
    }
}

fn broken(what: &str) -> Diagnostic {
    Diagnostic::error(Code::NOT_ONNX, format!("the file is not an ONNX model: {what}"))
        .help("the file may be truncated, or only a pointer to the model (Git LFS)")
}

fn skip(bytes: &[u8], at: &mut usize, length: usize) -> Result<()> {
    let end = at.checked_add(length).filter(|end| *end <= bytes.len());
    *at = end.ok_or_else(|| broken("a field reaches past the end of its message"))?;
    Ok(())
}

fn varint(bytes: &[u8], at: &mut usize) -> Result<u64> {
    let mut value = 0u64;
    for shift in (0..70).step_by(7) {
        let byte = *bytes.get(*at).ok_or_else(|| broken("it ends inside a number"))?;
        *at += 1;
        value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(broken("a number has more than ten bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u64, inside: &[u8]) -> Vec<u8> {
        let mut out = vec![(number << 3 | 2) as u8];
        let mut length = inside.len();
        while length >= 0x80 {
            out.push(length as u8 | 0x80);
            length >>= 7;
        }
        out.push(length as u8);
        out.extend_from_slice(inside);
        out
    }

    #[test]
    fn a_file_of_empty_nodes_is_refused_before_it_is_decoded() {
        let nodes = [0x0a, 0x00].repeat(limits::NODES as usize + 1);
        let error = check(&[vec![0x3a, 0x82, 0x89, 0x7a], nodes].concat(), Model).expect_err("too many nodes");
        assert_eq!(error.code, Code::LIMIT);
    }

    #[test]
    fn deep_nesting_is_refused() {
        let nest = |depth: usize| {
            let mut graph = Vec::new();
            for _ in 0..depth {
                graph = field(1, &field(5, &field(6, &graph)));
            }
            check(&field(7, &graph), Model)
        };
        assert!(nest(limits::DEPTH).is_ok());
        assert_eq!(nest(limits::DEPTH + 1).expect_err("too deep").code, Code::LIMIT);
    }

    #[test]
    fn broken_wire_formats_are_refused() {
        for bytes in [&[0x3a][..], &[0x3a, 0x05, 0x00], &[0x00, 0x00], &[0x3b], &[0xff; 12]] {
            assert_eq!(check(bytes, Model).expect_err("broken").code, Code::NOT_ONNX);
        }
    }
}
