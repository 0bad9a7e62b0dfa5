//! One node: found in the tables, checked against the schema in force, upgraded, inferred.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use oaaxc_base::{Code, Diagnostic, Origin};
use oaaxc_ir::edit::{NewNode, describe};
use oaaxc_ir::graph::{Attributes, BlockId};
use oaaxc_ir::op::{Lower, OpDef};
use oaaxc_ir::upgrade::UpgradeCx;
use oaaxc_ir::{Attribute, Graph, Node, ValueId};
use oaaxc_ops::schema_types::{self, ParameterOption, SchemaVersion, UNBOUNDED};

use crate::attribute::{self, Held};
use crate::import::{Env, Importer, domain_key, structure};
use crate::limits;
use crate::messages::{AttributeProto, GraphProto, NodeProto};
use crate::scope::Entry;
use crate::tensor::show;
use crate::types::schema_text;

type Result<T> = std::result::Result<T, Diagnostic>;

/// A node's attributes, bodies apart.
pub(crate) struct Split<'p> {
    pub data: Attributes,
    pub graphs: BTreeMap<String, &'p GraphProto>,
}

impl Importer<'_> {
    /// Imports the nodes of a graph or a function into a block.
    pub fn nodes(&mut self, block: BlockId, nodes: &[NodeProto], env: &Env) {
        for (index, node) in nodes.iter().enumerate() {
            self.inlined += u64::from(!self.calls.is_empty() || self.retyping > 0);
            if self.inlined > limits::INLINED_NODES {
                if !self.out_of_budget {
                    self.out_of_budget = true;
                    let message = format!("the model's functions and loops expand to more than {} nodes", limits::INLINED_NODES);
                    self.report(Diagnostic::error(Code::LIMIT, message).help("docs/limits.md lists the limits"));
                }
                return;
            }
            let origin = self.origin(node, index, env);
            let results = self.node(block, node, env, &origin).unwrap_or_else(|error| {
                if let Some(error) = error {
                    let error = self.point_at_later(error, nodes, index);
                    self.report(error.at(&origin));
                }
                vec![Entry::Poisoned; node.output.len()]
            });
            for (i, name) in node.output.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
                let entry = results.get(i).copied().unwrap_or(Entry::Poisoned);
                if !self.scopes.define(name, entry) {
                    self.report(structure(format!("\"{}\" is defined twice", show(name))).at(&origin));
                }
            }
        }
    }

    fn origin(&self, node: &NodeProto, index: usize, env: &Env) -> Origin {
        let domain = domain_key(&node.domain);
        let domain = if domain.is_empty() { "ai.onnx".to_string() } else { show(&domain) };
        let operator = show(&node.op_type);
        let version = schema_types::lookup(&domain, &operator, env.opset(&domain).unwrap_or(0)).map(|s| s.since_version);
        let version = version.or(env.opset(&domain)).map_or(String::new(), |v| format!("-{v}"));
        Origin {
            file: self.file.clone(),
            graph: env.path.clone(),
            index: u32::try_from(index).unwrap_or(u32::MAX),
            node: show(&node.name).into(),
            operator: format!("{domain}:{operator}{version}").into(),
        }
    }

    /// The node's results; `Err(None)` where an operand is poisoned, so that there is nothing new to say.
    fn node(
        &mut self,
        block: BlockId,
        proto: &NodeProto,
        env: &Env,
        origin: &Origin,
    ) -> std::result::Result<Vec<Entry>, Option<Diagnostic>> {
        for name in [&proto.op_type, &proto.domain].into_iter().chain(&proto.input).chain(&proto.output) {
            self.check_name(name)?;
        }
        let (domain, name) = (show(&domain_key(&proto.domain)), show(&proto.op_type));
        // An unknown operator is told even where its operands are poisoned.
        let key = (domain_key(&proto.domain), proto.op_type.to_vec(), proto.overload.to_vec());
        let function = self.functions.get(&key).cloned();
        let (op, schema) = if function.is_some() { (None, None) } else { self.find(&domain, &name, env)? };
        let inputs = self.operands(proto)?;
        if let Some(function) = function {
            return self.call(block, proto, &function, key, inputs, env, origin);
        }
        let resolved = resolve(proto, env);
        let split = self.attributes(&resolved, schema)?;
        if let Some(schema) = schema.filter(|_| !self.internal) {
            check_counts(&name, schema, &inputs, proto.output.len())?;
            self.check_types(&name, schema, &inputs)?;
        }
        let Some(op) = op.filter(|op| !matches!(op.lower, Lower::Function)) else {
            let function = crate::function::of_schema(&domain, &name, env.opset(&domain).unwrap_or(0))?;
            return self.call(block, proto, &function, key, inputs, env, origin);
        };
        if let Some(tensor) = oaaxc_ops::control::constant(op, &split.data) {
            let output = proto.output.first().cloned().unwrap_or_default();
            let shown = self.fresh_name(env, &output);
            return Ok(vec![Entry::Value(self.graph.add_constant(shown, tensor?))]);
        }
        self.append(block, proto, op, schema, split, inputs, env, origin)
    }

    #[allow(clippy::too_many_arguments)]
    fn append(
        &mut self,
        block: BlockId,
        proto: &NodeProto,
        op: &'static OpDef,
        schema: Option<&SchemaVersion>,
        split: Split,
        inputs: Vec<Option<ValueId>>,
        env: &Env,
        origin: &Origin,
    ) -> std::result::Result<Vec<Entry>, Option<Diagnostic>> {
        let opset = env.opset(op.domain).unwrap_or(1);
        let mut node = Node {
            op,
            opset,
            attributes: split.data,
            inputs,
            outputs: proto.output.iter().map(|o| (!o.is_empty()).then_some(ValueId(u32::MAX))).collect(),
            blocks: Vec::new(),
            origin: origin.clone(),
            checks: Vec::new(),
        };
        let version = schema.map_or(opset, |s| s.since_version);
        if !self.internal {
            guarded(|| (op.upgrade)(&mut UpgradeCx { graph: &mut self.graph, node: &mut node, version }), origin)
                .map_err(|d| describe(d, &self.graph, &node))?;
        }
        if let Some(rule) = oaaxc_ops::control::bodies(op) {
            if let Some(which) = (rule.decided)(&self.graph, &node)
                && let Some(body) = rule.attributes.get(which).and_then(|name| split.graphs.get(*name))
            {
                return self.only_body(block, body, proto, env, origin);
            }
            self.bodies(&mut node, rule, &split.graphs, env)?;
        } else if let Some(name) = split.graphs.keys().next() {
            let message = format!("{}: a graph as attribute `{name}` is not supported", op.name);
            return Err(Some(Diagnostic::error(Code::UNSUPPORTED, message)));
        }
        let outputs = proto.output.iter().map(|o| (!o.is_empty()).then(|| self.fresh_name(env, o))).collect();
        // An upgrade may rename: Upsample becomes Resize.
        let Node { op, attributes, inputs, blocks, origin, .. } = node;
        let place = origin.clone();
        let new = NewNode { op, opset, attributes, inputs, outputs, blocks, origin };
        let graph: &mut Graph = &mut self.graph;
        let id = guarded(|| graph.append(block, new), &place)?;
        let results = self.graph.nodes[id].outputs.iter();
        Ok(results.map(|v| v.map_or(Entry::Hole, Entry::Value)).collect())
    }

    /// The operator and the schema in force; an error where the node cannot be compiled whatever its operands are.
    fn find(&self, domain: &str, name: &str, env: &Env) -> Result<(Option<&'static OpDef>, Option<&'static SchemaVersion>)> {
        let shown = if domain.is_empty() { "ai.onnx" } else { domain };
        let op = oaaxc_ops::find(domain, name);
        let Some(opset) = env.opset(domain) else {
            let message = format!("{name}: no opset of \"{shown}\" is imported");
            return Err(Diagnostic::error(Code::OPSET, message));
        };
        let Some(versions) = schema_types::operator(domain, name) else {
            if op.is_some() {
                return Ok((op, None));
            }
            let known = oaaxc_ops::schema::SCHEMAS.iter().filter(|s| s.domain == domain).map(|s| s.name);
            let known = known.chain(oaaxc_ops::all().filter(|o| o.domain == domain).map(|o| o.name));
            let error = Diagnostic::error(Code::UNKNOWN_OPERATOR, format!("{shown} has no operator \"{name}\""));
            return Err(match crate::suggest::nearest(name, known) {
                Some(near) => error.help(format!("did you mean {near}?")),
                None => error.help("an operator of your own needs a function body in the model"),
            });
        };
        let Some(schema) = versions.version_at(opset) else {
            let first = versions.versions.first().map_or(0, |v| v.since_version);
            let message = format!("{name} came with opset {first} of {shown}, the model imports {opset}");
            return Err(Diagnostic::error(Code::UNKNOWN_OPERATOR, message).help("raise the opset of the model"));
        };
        if schema.deprecated && !self.internal {
            let message = format!("{name} is no longer an operator of {shown} since opset {}", schema.since_version);
            return Err(Diagnostic::error(Code::UNKNOWN_OPERATOR, message));
        }
        if op.is_none() && schema_types::function_body(domain, name, opset).is_none() {
            let message = format!("{name}-{} of {shown} is not supported yet", schema.since_version);
            return Err(Diagnostic::error(Code::UNSUPPORTED, message).help("`oaaxc ops` lists what is"));
        }
        Ok((op, Some(schema)))
    }

    fn operands(&self, proto: &NodeProto) -> std::result::Result<Vec<Option<ValueId>>, Option<Diagnostic>> {
        let mut inputs = Vec::with_capacity(proto.input.len());
        for name in &proto.input {
            inputs.push(match self.scopes.find(name) {
                _ if name.is_empty() => None,
                Some(Entry::Value(value)) => Some(value),
                Some(Entry::Hole) => None,
                Some(Entry::Poisoned) => return Err(None),
                None => return Err(Some(structure(format!("the operand \"{}\" is not defined", show(name))))),
            });
        }
        Ok(inputs)
    }

    /// Says of an undefined operand whether a later node defines it, or what may be meant.
    fn point_at_later(&self, error: Diagnostic, nodes: &[NodeProto], index: usize) -> Diagnostic {
        if error.code != Code::STRUCTURE || self.diagnostics.items.len() > limits::DIAGNOSTICS {
            return error;
        }
        let undefined = nodes[index].input.iter().find(|n| !n.is_empty() && self.scopes.find(n).is_none());
        let Some(name) = undefined else { return error };
        match nodes.iter().enumerate().skip(index).find(|(_, n)| n.output.contains(name)) {
            Some((later, _)) => error
                .note(format!("node {later} of this graph defines it, later or in a cycle"))
                .help("nodes must stand in topological order"),
            None => self.suggest(name).into_iter().fold(error, Diagnostic::help),
        }
    }

    /// Reads attributes and checks them against the schema.
    fn attributes<'p>(&self, protos: &'p [Cow<'_, AttributeProto>], schema: Option<&SchemaVersion>) -> Result<Split<'p>> {
        let mut split = Split { data: Attributes::new(), graphs: BTreeMap::new() };
        for proto in protos {
            self.check_name(&proto.name)?;
            let name = show(&proto.name);
            if let Some(schema) = schema {
                let Some(formal) = schema.attribute(&name) else {
                    if self.internal {
                        if let Held::Data(attribute) = attribute::read(proto, self.external)? {
                            split.data.insert(name, attribute);
                        }
                        continue;
                    }
                    let error = Diagnostic::error(Code::ATTRIBUTE, format!("the operator has no attribute `{name}`"));
                    let near = crate::suggest::nearest(&name, schema.attributes.iter().map(|a| a.name));
                    return Err(near.into_iter().fold(error, |e, near| e.help(format!("did you mean `{near}`?"))));
                };
                let (wanted, given) = (attribute::schema_kind(formal.kind), attribute::kind_of(proto));
                // An empty list that old exporters left without its kind.
                if wanted != given && given != 0 {
                    let (wanted, given) = (attribute::kind_name(wanted), attribute::kind_name(given));
                    return Err(Diagnostic::error(Code::ATTRIBUTE, format!("attribute `{name}` must be {wanted}, not {given}")));
                }
                if given == 0 {
                    if let Some(empty) = empty_list(wanted) {
                        split.data.insert(name, empty);
                    }
                    continue;
                }
            }
            let twice = match attribute::read(proto, self.external)? {
                Held::Data(attribute) => split.data.insert(name.clone(), attribute).is_some(),
                Held::Graph(graph) => split.graphs.insert(name.clone(), graph).is_some(),
            };
            if twice {
                return Err(Diagnostic::error(Code::ATTRIBUTE, format!("attribute `{name}` is given twice")));
            }
        }
        let given = |name: &str| split.data.contains_key(name) || split.graphs.contains_key(name);
        let missing = schema.and_then(|s| s.attributes.iter().find(|a| a.required && !given(a.name)));
        match missing {
            Some(formal) => Err(Diagnostic::error(Code::ATTRIBUTE, format!("attribute `{}` is required", formal.name))),
            None => Ok(split),
        }
    }

    /// Element types that the schema allows, and type parameters that must agree.
    fn check_types(&self, name: &str, schema: &SchemaVersion, inputs: &[Option<ValueId>]) -> Result<()> {
        let mut bound: BTreeMap<&str, (usize, String)> = BTreeMap::new();
        for (i, value) in inputs.iter().enumerate() {
            let (Some(value), Some(formal)) = (value, schema.input(i)) else { continue };
            let found = schema_text(&self.graph.values[*value].fact.ty);
            let operand = || format!("input {i} \"{}\" ({})", self.graph.values[*value].name, formal.name);
            if !formal.types.is_empty() && !formal.types.contains(&&*found) {
                let allowed = formal.types.join(", ");
                return Err(Diagnostic::error(Code::TYPE, format!("{name}-{} does not take {found} here", schema.since_version))
                    .operand(operand())
                    .note(format!("it takes {allowed}")));
            }
            if formal.option == ParameterOption::Variadic && !formal.homogeneous {
                continue;
            }
            match bound.get(formal.type_name) {
                Some((first, other)) if *other != found => {
                    let message = format!("{name}: inputs {first} and {i} must have one type, they are {other} and {found}");
                    return Err(Diagnostic::error(Code::TYPE, message).operand(operand()));
                }
                _ => {
                    bound.insert(formal.type_name, (i, found));
                }
            }
        }
        Ok(())
    }
}

impl Env {
    /// The version in force of a domain. Domains other than ONNX's need no import: they are at version 1.
    pub fn opset(&self, domain: &str) -> Option<i64> {
        let domain = if domain == "ai.onnx" { "" } else { domain };
        let found = self.opsets.get(domain).copied();
        found.or_else(|| (!domain.is_empty()).then_some(1))
    }
}

/// The node's attributes with references to the function's attributes followed.
pub(crate) fn resolve<'p>(proto: &'p NodeProto, env: &Env) -> Vec<Cow<'p, AttributeProto>> {
    let follow = |a: &'p AttributeProto| {
        if a.ref_attr_name.is_empty() {
            return Some(Cow::Borrowed(a));
        }
        let target = env.attributes.as_ref()?.get(&a.ref_attr_name)?;
        Some(Cow::Owned(AttributeProto { name: a.name.clone(), ..target.clone() }))
    };
    proto.attribute.iter().filter_map(follow).collect()
}

fn empty_list(kind: i32) -> Option<Attribute> {
    use crate::messages::attribute_kind as k;
    Some(match kind {
        k::INTS => Attribute::Ints(Vec::new()),
        k::FLOATS => Attribute::Floats(Vec::new()),
        k::STRINGS => Attribute::Texts(Vec::new()),
        k::INT => Attribute::Int(0),
        k::FLOAT => Attribute::Float(0.0),
        k::STRING => Attribute::Text(Vec::new()),
        _ => return None,
    })
}

fn check_counts(name: &str, schema: &SchemaVersion, inputs: &[Option<ValueId>], outputs: usize) -> Result<()> {
    let show_range = |min: u32, max: u32| match max {
        UNBOUNDED => format!("{min} or more"),
        max if max == min => format!("{min}"),
        max => format!("{min} to {max}"),
    };
    let fits = |count: usize, min: u32, max: u32| count >= min as usize && (max == UNBOUNDED || count <= max as usize);
    let given = inputs.iter().rposition(Option::is_some).map_or(0, |i| i + 1);
    let version = schema.since_version;
    if !fits(inputs.len().max(given), schema.min_inputs, schema.max_inputs) {
        let wanted = show_range(schema.min_inputs, schema.max_inputs);
        return Err(Diagnostic::error(Code::OPERAND, format!("{name}-{version} has {} inputs, it wants {wanted}", inputs.len())));
    }
    if !fits(outputs, schema.min_outputs, schema.max_outputs) {
        let wanted = show_range(schema.min_outputs, schema.max_outputs);
        return Err(Diagnostic::error(Code::OPERAND, format!("{name}-{version} has {outputs} outputs, it gives {wanted}")));
    }
    for (i, value) in inputs.iter().enumerate() {
        if let Some(formal) = schema.input(i).filter(|f| f.option == ParameterOption::Single && value.is_none()) {
            return Err(Diagnostic::error(Code::OPERAND, format!("{name}-{version} lacks its input {i} ({})", formal.name)));
        }
    }
    Ok(())
}

/// Runs an operator's own code. A panic in it is a bug of the operator, told with the node that found it.
pub(crate) fn guarded<T>(f: impl FnOnce() -> Result<T>, origin: &Origin) -> Result<T> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        let message = format!("the operator's inference failed: {}", text.unwrap_or("without a message"));
        Err(Diagnostic::error(Code::INTERNAL, message).at(origin).help("this is a bug of oaaxc; please report it with the model"))
    })
}

/// Bytes of a name that goes into a path of graphs.
pub(crate) fn path_part(name: &Bytes, fallback: &str) -> String {
    if name.is_empty() { fallback.to_string() } else { show(name) }
}
