//! Calls of functions: the model's own and those that ONNX defines for its operators. A call is
//! inlined: the body sees its formal inputs and attributes only, and its values get names of their own.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use oaaxc_base::{Code, Diagnostic, EntityId, Origin};
use oaaxc_ir::ValueId;
use oaaxc_ir::graph::BlockId;
use oaaxc_ops::schema_types::{self, DefaultValue};

use crate::import::{Env, FunctionKey, Importer};
use crate::limits;
use crate::messages::{AttributeProto, FunctionProto, NodeProto};
use crate::node::{path_part, resolve};
use crate::scope::Entry;
use crate::tensor::show;

impl Importer<'_> {
    /// Inlines a call; the entries of the node's outputs.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn call(
        &mut self,
        block: BlockId,
        proto: &NodeProto,
        function: &Rc<FunctionProto>,
        key: FunctionKey,
        inputs: Vec<Option<ValueId>>,
        env: &Env,
        origin: &Origin,
    ) -> Result<Vec<Entry>, Option<Diagnostic>> {
        let name = show(&function.name);
        if self.calls.contains(&key) {
            let message = format!("the function \"{name}\" calls itself, directly or through others");
            return Err(Some(Diagnostic::error(Code::STRUCTURE, message)));
        }
        if self.calls.len() >= limits::FUNCTION_DEPTH {
            let message = format!("functions call each other deeper than {}", limits::FUNCTION_DEPTH);
            return Err(Some(Diagnostic::error(Code::LIMIT, message)));
        }
        if inputs.len() > function.input.len() || proto.output.len() > function.output.len() {
            let message = format!(
                "the function \"{name}\" has {} inputs and {} outputs, the call gives {} and wants {}",
                function.input.len(),
                function.output.len(),
                inputs.len(),
                proto.output.len()
            );
            return Err(Some(Diagnostic::error(Code::OPERAND, message)));
        }
        let mut attributes: BTreeMap<Bytes, _> = function.attribute_proto.iter().map(|a| (a.name.clone(), a.clone())).collect();
        attributes.extend(resolve(proto, env).into_iter().map(|a| (a.name.clone(), a.into_owned())));
        let opsets = self.opsets(&function.opset_import)?;
        let place = if proto.name.is_empty() { format!("{}", origin.index) } else { show(&proto.name) };
        let inner = Env {
            opsets: Rc::new(if opsets.is_empty() { (*env.opsets).clone() } else { opsets }),
            path: format!("{}/{place}/{}", env.path, path_part(&function.name, "function")).into(),
            attributes: Some(Rc::new(attributes)),
            prefix: format!("{}{place}/", env.prefix),
        };
        let first = self.graph.values.next_id().index();
        self.scopes.open(true);
        for (i, formal) in function.input.iter().enumerate() {
            let entry = inputs.get(i).copied().flatten().map_or(Entry::Hole, Entry::Value);
            self.scopes.define(formal, entry);
        }
        self.calls.push(key);
        self.nodes(block, &function.node, &inner);
        self.calls.pop();
        let find = |formal: &Bytes| self.scopes.find(formal);
        let found: Vec<Option<Entry>> = function.output.iter().take(proto.output.len()).map(find).collect();
        self.scopes.close();
        if self.out_of_budget {
            return Err(None);
        }
        let mut results = Vec::new();
        for (entry, formal) in found.into_iter().zip(&function.output) {
            results.push(entry.ok_or_else(|| {
                let message = format!("the function \"{name}\" does not compute its output \"{}\"", show(formal));
                Diagnostic::error(Code::STRUCTURE, message)
            })?);
        }
        self.take_names(&results, &proto.output, env, first);
        Ok(results)
    }
}

/// ONNX's own body of an operator; its attributes have the defaults of the schema.
pub(crate) fn of_schema(domain: &str, name: &str, opset: i64) -> Result<Rc<FunctionProto>, Diagnostic> {
    let lacking = || Diagnostic::error(Code::UNSUPPORTED, format!("{name} has no function body that holds for every node"));
    let body = schema_types::function_body(domain, name, opset).ok_or_else(lacking)?;
    let mut function = crate::text::function(body.text)?;
    let schema = schema_types::lookup(domain, name, opset).ok_or_else(lacking)?;
    for attribute in schema.attributes {
        let Some(default) = attribute.default else { continue };
        let mut proto = AttributeProto {
            name: Bytes::from_static(attribute.name.as_bytes()),
            kind: crate::attribute::schema_kind(attribute.kind),
            ..AttributeProto::default()
        };
        match default {
            DefaultValue::Int(v) => proto.i = Some(v),
            DefaultValue::Float(v) => proto.f = Some(v),
            DefaultValue::Text(v) => proto.s = Some(Bytes::from_static(v.as_bytes())),
            DefaultValue::Ints(v) => proto.ints = v.to_vec(),
            DefaultValue::Floats(v) => proto.floats = v.to_vec(),
            DefaultValue::Texts(v) => proto.strings = v.iter().map(|t| Bytes::from_static(t.as_bytes())).collect(),
        }
        function.attribute_proto.push(proto);
    }
    Ok(Rc::new(function))
}
