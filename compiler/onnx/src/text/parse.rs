//! Reads models, functions and graphs in ONNX text.

use bytes::Bytes;
use oaaxc_base::{Code, Diagnostic};

use super::values::{attribute, tensor, type_if_any};
use crate::limits;
use crate::messages::{
    FunctionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto, ValueInfoProto,
};
use oaaxc_ir::text::cursor::{Cursor, Result};

/// Reads a model: `<ir_version: 10, opset_import: ["": 18]> graph (…) => (…) { … }`, then functions.
pub fn model(text: &str) -> Result<ModelProto> {
    let mut c = Cursor::new(text);
    let mut out = ModelProto::default();
    if c.take("<") {
        c.list(">", |c| {
            let key = c.name()?;
            c.expect(":")?;
            match &key[..] {
                b"ir_version" => out.ir_version = Some(c.int()?),
                b"opset_import" => out.opset_import = opsets(c)?,
                b"producer_name" => out.producer_name = c.string()?,
                b"producer_version" => out.producer_version = c.string()?,
                b"domain" | b"doc_string" => drop(c.string()?),
                b"model_version" => drop(c.int()?),
                b"metadata_props" => out.metadata_props = pairs(c)?,
                _ => return Err(c.error("this key of a model is not known")),
            }
            Ok(())
        })?;
    }
    out.graph = Some(graph(&mut c, 0)?);
    while !c.is_done() {
        out.functions.push(function_at(&mut c)?);
    }
    Ok(out)
}

/// Reads one function: `<domain: "d", opset_import: ["": 18]> Name <attributes> (a, b) => (c) { … }`.
pub fn function(text: &str) -> Result<FunctionProto> {
    let mut c = Cursor::new(text);
    let function = function_at(&mut c)?;
    if c.is_done() { Ok(function) } else { Err(c.error("the end is expected")) }
}

fn function_at(c: &mut Cursor) -> Result<FunctionProto> {
    let mut out = FunctionProto::default();
    c.expect("<")?;
    c.list(">", |c| {
        let key = c.name()?;
        c.expect(":")?;
        match &key[..] {
            b"domain" => out.domain = c.string()?,
            b"opset_import" => out.opset_import = opsets(c)?,
            b"overload" => out.overload = c.string()?,
            b"doc_string" => drop(c.string()?),
            _ => return Err(c.error("this key of a function is not known")),
        }
        Ok(())
    })?;
    out.name = c.name()?;
    if c.take("<") {
        for formal in c.list(">", |c| attribute(c, 0))? {
            if formal.kind == 0 {
                out.attribute.push(formal.name);
            } else {
                out.attribute_proto.push(formal);
            }
        }
    }
    let formal = |c: &mut Cursor| -> Result<Bytes> { Ok(value_info(c)?.name) };
    c.expect("(")?;
    out.input = c.list(")", formal)?;
    c.expect("=>")?;
    c.expect("(")?;
    out.output = c.list(")", formal)?;
    if c.take("<") {
        c.list(">", value_info)?;
    }
    out.node = nodes(c, 0)?;
    Ok(out)
}

fn opsets(c: &mut Cursor) -> Result<Vec<OperatorSetIdProto>> {
    c.expect("[")?;
    c.list("]", |c| {
        let domain = c.string()?;
        c.expect(":")?;
        Ok(OperatorSetIdProto { domain, version: c.int()? })
    })
}

fn pairs(c: &mut Cursor) -> Result<Vec<StringStringEntryProto>> {
    c.expect("[")?;
    c.list("]", |c| {
        let key = c.string()?;
        c.expect(":")?;
        Ok(StringStringEntryProto { key, value: c.string()? })
    })
}

/// A name with its type, where given.
fn value_info(c: &mut Cursor) -> Result<ValueInfoProto> {
    let start = c.position();
    if let Some(ty) = type_if_any(c)? {
        if let Some(name) = c.name_if_any()? {
            return Ok(ValueInfoProto { name, ty: Some(ty) });
        }
        // The name of a value may be the name of a type.
        c.back_to(start);
    }
    Ok(ValueInfoProto { name: c.name()?, ty: None })
}

/// A graph: `name (inputs) => (outputs) <initialisers and types> { nodes }`.
pub(super) fn graph(c: &mut Cursor, depth: usize) -> Result<GraphProto> {
    if depth > limits::DEPTH {
        let message = format!("subgraphs are nested deeper than {}", limits::DEPTH);
        return Err(Diagnostic::error(Code::LIMIT, message));
    }
    let mut out = GraphProto { name: c.name()?, ..GraphProto::default() };
    c.expect("(")?;
    out.input = c.list(")", |c| {
        let info = value_info(c)?;
        if c.take("=") {
            let constant = initialiser(c, &info)?;
            out.initializer.push(constant);
        }
        Ok(info)
    })?;
    c.expect("=>")?;
    c.expect("(")?;
    out.output = c.list(")", value_info)?;
    if c.take("<") {
        c.list(">", |c| {
            let info = value_info(c)?;
            if c.take("=") {
                let constant = initialiser(c, &info)?;
                out.initializer.push(constant);
            } else {
                out.value_info.push(info);
            }
            Ok(())
        })?;
    }
    out.node = nodes(c, depth)?;
    Ok(out)
}

fn initialiser(c: &mut Cursor, info: &ValueInfoProto) -> Result<crate::messages::TensorProto> {
    let ty = info.ty.as_ref().and_then(|t| t.tensor_type.as_ref());
    let Some(ty) = ty else { return Err(c.error("a constant wants a tensor type before its name")) };
    let dtype = crate::tensor::dtype_of(ty.elem_type, "the constant")?;
    let dims = ty.shape.as_ref().map(|s| s.dim.iter().map(|d| d.dim_value.unwrap_or(0)).collect::<Vec<i64>>());
    tensor(c, dtype, dims, info.name.clone())
}

fn nodes(c: &mut Cursor, depth: usize) -> Result<Vec<NodeProto>> {
    c.expect("{")?;
    let mut out = Vec::new();
    while !c.take("}") {
        out.push(node(c, depth)?);
    }
    Ok(out)
}

/// `["node name"] a, b = domain.Operator <attributes> (x, y)`.
fn node(c: &mut Cursor, depth: usize) -> Result<NodeProto> {
    let mut out = NodeProto::default();
    if c.take("[") {
        out.name = c.name()?;
        c.expect("]")?;
    }
    loop {
        out.output.push(c.name()?);
        if !c.take(",") {
            break;
        }
    }
    c.expect("=")?;
    let mut path = c.name()?.to_vec();
    let mut operator = 0;
    while c.take(".") {
        path.push(b'.');
        operator = path.len();
        path.extend_from_slice(&c.name()?);
    }
    let path = Bytes::from(path);
    out.domain = path.slice(..operator.saturating_sub(1));
    out.op_type = path.slice(operator..);
    if c.take(":") {
        out.overload = c.name()?;
    }
    let attributes = |c: &mut Cursor, out: &mut NodeProto| -> Result<()> {
        if c.take("<") {
            out.attribute.extend(c.list(">", |c| attribute(c, depth))?);
        }
        Ok(())
    };
    attributes(c, &mut out)?;
    c.expect("(")?;
    // A left-out operand is an empty place, or an empty string.
    while !c.take(")") {
        if c.peek() == Some(',') {
            out.input.push(Bytes::new());
        } else {
            out.input.push(c.name()?);
        }
        if !c.take(",") {
            c.expect(")")?;
            break;
        }
    }
    attributes(c, &mut out)?;
    Ok(out)
}
