//! Reading attributes: present or default, of the right type or an error that says so.

use oaaxc_base::{Code, Diagnostic};

use crate::graph::{Attribute, Node};
use crate::tensor::Tensor;

type Result<T> = std::result::Result<T, Diagnostic>;

/// The attributes of a node, as operators read them.
pub trait ReadAttributes {
    /// The node.
    fn node(&self) -> &Node;

    /// The attribute as it stands.
    fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.node().attributes.get(name)
    }
    /// Whether the node has the attribute.
    fn has(&self, name: &str) -> bool {
        self.attribute(name).is_some()
    }
    /// An integer, or the default.
    fn int(&self, name: &str, default: i64) -> Result<i64> {
        Ok(self.int_if_any(name)?.unwrap_or(default))
    }
    /// An integer, where given.
    fn int_if_any(&self, name: &str) -> Result<Option<i64>> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Int(value)) => Ok(Some(*value)),
            Some(_) => Err(wrong(self.node(), name, "an integer")),
        }
    }
    /// An integer that must be given.
    fn required_int(&self, name: &str) -> Result<i64> {
        self.int_if_any(name)?.ok_or_else(|| missing(self.node(), name))
    }
    /// A flag: an integer that is not 0.
    fn flag(&self, name: &str, default: bool) -> Result<bool> {
        Ok(self.int(name, i64::from(default))? != 0)
    }
    /// A float, or the default.
    fn float(&self, name: &str, default: f32) -> Result<f32> {
        match self.attribute(name) {
            None => Ok(default),
            Some(Attribute::Float(value)) => Ok(*value),
            Some(_) => Err(wrong(self.node(), name, "a float")),
        }
    }
    /// A string, or the default.
    fn text(&self, name: &str, default: &str) -> Result<String> {
        match self.attribute(name) {
            None => Ok(default.to_string()),
            Some(Attribute::Text(value)) => String::from_utf8(value.clone()).map_err(|_| wrong(self.node(), name, "UTF-8 text")),
            Some(_) => Err(wrong(self.node(), name, "a string")),
        }
    }
    /// A list of integers, where given.
    fn ints(&self, name: &str) -> Result<Option<Vec<i64>>> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Ints(values)) => Ok(Some(values.clone())),
            Some(_) => Err(wrong(self.node(), name, "a list of integers")),
        }
    }
    /// A list of floats, where given.
    fn floats(&self, name: &str) -> Result<Option<Vec<f32>>> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Floats(values)) => Ok(Some(values.clone())),
            Some(_) => Err(wrong(self.node(), name, "a list of floats")),
        }
    }
    /// A list of strings, where given.
    fn texts(&self, name: &str) -> Result<Option<Vec<Vec<u8>>>> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Texts(values)) => Ok(Some(values.clone())),
            Some(_) => Err(wrong(self.node(), name, "a list of strings")),
        }
    }
    /// A tensor, where given.
    fn tensor(&self, name: &str) -> Result<Option<&Tensor>> {
        match self.attribute(name) {
            None => Ok(None),
            Some(Attribute::Tensor(value)) => Ok(Some(value)),
            Some(_) => Err(wrong(self.node(), name, "a tensor")),
        }
    }
    /// An axis attribute brought into `0..rank`.
    fn axis(&self, name: &str, default: i64, rank: usize) -> Result<usize> {
        normalize_axis(self.node(), self.int(name, default)?, rank)
    }
    /// An error of this node.
    fn fail(&self, code: Code, message: impl Into<String>) -> Diagnostic {
        fail(self.node(), code, message)
    }
}

impl ReadAttributes for Node {
    fn node(&self) -> &Node {
        self
    }
}

/// An axis brought into `0..rank`; negative axes count from the end.
pub fn normalize_axis(node: &Node, axis: i64, rank: usize) -> Result<usize> {
    let signed = i64::try_from(rank).expect("ranks fit i64");
    let at = if axis < 0 { axis.checked_add(signed).unwrap_or(-1) } else { axis };
    if 0 <= at && at < signed {
        return Ok(at as usize);
    }
    Err(fail(node, Code::ATTRIBUTE, format!("axis {axis} is outside [-{rank}, {rank}) of a tensor of rank {rank}")))
}

/// An error of a node, with its origin.
pub fn fail(node: &Node, code: Code, message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(code, format!("{}: {}", node.op.name, message.into())).at(&node.origin)
}

fn wrong(node: &Node, name: &str, wanted: &str) -> Diagnostic {
    fail(node, Code::ATTRIBUTE, format!("attribute `{name}` must be {wanted}"))
}

fn missing(node: &Node, name: &str) -> Diagnostic {
    fail(node, Code::ATTRIBUTE, format!("attribute `{name}` is required"))
}
