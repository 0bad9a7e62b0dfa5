//! The walk over a model: versions, inputs, initialisers, nodes, outputs.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use oaaxc_base::{Code, Diagnostic, Diagnostics, Origin, Severity};
use oaaxc_ir::edit::NewNode;
use oaaxc_ir::graph::{BlockId, Def};
use oaaxc_ir::types::Fact;
use oaaxc_ir::{Graph, Tensor, Type, ValueId};

use crate::external::ExternalData;
use crate::messages::{AttributeProto, FunctionProto, GraphProto, ModelProto, OperatorSetIdProto, ValueInfoProto};
use crate::scope::{Entry, Scopes};
use crate::tensor::{self, show};
use crate::types::{self, Sizes};
use crate::{IR_VERSIONS, ImportOptions, Imported, limits};

type Result<T> = std::result::Result<T, Diagnostic>;

/// Operator sets by domain; `""` is ai.onnx.
pub(crate) type Opsets = BTreeMap<String, i64>;

/// Domain, name and overload of a function.
pub(crate) type FunctionKey = (Vec<u8>, Vec<u8>, Vec<u8>);

/// The state of an import.
pub(crate) struct Importer<'a> {
    pub graph: Graph,
    pub options: &'a ImportOptions,
    pub external: &'a ExternalData,
    pub file: Arc<str>,
    pub scopes: Scopes,
    pub functions: HashMap<FunctionKey, Rc<FunctionProto>>,
    /// The functions that are being inlined, outermost first.
    pub calls: Vec<FunctionKey>,
    pub diagnostics: Diagnostics,
    pub errors: usize,
    /// Names of values that are taken.
    pub names: HashSet<String>,
    /// Nodes imported inside functions and retyped bodies so far.
    pub inlined: u64,
    /// How many bodies around are being typed again.
    pub retyping: usize,
    pub out_of_budget: bool,
    /// Symbols that inputs name.
    pub dims: RefCell<BTreeSet<String>>,
    /// The nodes have the internal form already: attributes that no schema knows, nothing to upgrade.
    pub internal: bool,
}

/// What holds for the nodes at hand.
#[derive(Clone)]
pub(crate) struct Env {
    /// Operator sets.
    pub opsets: Rc<Opsets>,
    /// The graph's name in messages: `main`, `main/node/then_branch`.
    pub path: Arc<str>,
    /// What `ref_attr_name` refers to; `None` outside functions.
    pub attributes: Option<Rc<BTreeMap<Bytes, AttributeProto>>>,
    /// Goes before the names of values.
    pub prefix: String,
}

/// Imports a decoded model.
pub(crate) fn model(
    model: &ModelProto,
    file: &str,
    external: &ExternalData,
    options: &ImportOptions,
) -> std::result::Result<Imported, Diagnostics> {
    let mut importer = Importer {
        graph: Graph::new(""),
        options,
        external,
        file: file.into(),
        scopes: Scopes::default(),
        functions: HashMap::new(),
        calls: Vec::new(),
        diagnostics: Diagnostics::new(),
        errors: 0,
        names: HashSet::new(),
        inlined: 0,
        retyping: 0,
        out_of_budget: false,
        dims: Default::default(),
        internal: model.metadata_props.iter().any(|p| &p.key[..] == b"oaaxc.form" && &p.value[..] == b"internal"),
    };
    match importer.run(model) {
        Ok(imported) if importer.errors == 0 => {
            let warnings = std::mem::take(&mut importer.diagnostics.items);
            Ok(Imported { graph: importer.graph, warnings, ..imported })
        }
        Ok(_) => Err(importer.diagnostics),
        Err(fatal) => {
            importer.diagnostics.push(fatal);
            Err(importer.diagnostics)
        }
    }
}

impl Importer<'_> {
    fn run(&mut self, model: &ModelProto) -> Result<Imported> {
        let graph = model.graph.as_ref().ok_or_else(|| {
            Diagnostic::error(Code::NOT_ONNX, "the file holds no graph: it is not an ONNX model")
                .note(format!("in {}", self.file))
        })?;
        let ir_version = model.ir_version.unwrap_or(0);
        if !IR_VERSIONS.contains(&ir_version) {
            let (oldest, newest) = IR_VERSIONS.into_inner();
            let message = format!("IR version {ir_version} is not known: {oldest} to {newest} are");
            return Err(
                Diagnostic::error(Code::OPSET, message).help("convert the model with onnx.version_converter, or update oaaxc")
            );
        }
        let opsets = self.opsets(&model.opset_import)?;
        for function in &model.functions {
            let key = (domain_key(&function.domain), function.name.to_vec(), function.overload.to_vec());
            if self.functions.insert(key, Rc::new(function.clone())).is_some() {
                let message =
                    format!("the function \"{}\" of \"{}\" is defined twice", show(&function.name), show(&function.domain));
                self.report(Diagnostic::error(Code::STRUCTURE, message));
            }
        }
        self.graph.name = show(&graph.name);
        let env = Env { opsets: Rc::new(opsets.clone()), path: "main".into(), attributes: None, prefix: String::new() };
        self.reserve_names(graph);
        self.scopes.open(true);
        let root = self.graph.root;
        let defaults = self.root_inputs(graph, ir_version);
        self.nodes(root, &graph.node, &env);
        self.root_outputs(graph, &env);
        self.scopes.close();
        for name in self.options.dims.keys().chain(self.options.ranges.keys()) {
            if !self.dims.borrow().contains(name) {
                let known = self.dims.borrow().iter().cloned().collect::<Vec<_>>();
                let error = Diagnostic::error(Code::USAGE, format!("no dim of the model is called \"{name}\""));
                let known = if known.is_empty() { "none".to_string() } else { known.join(", ") };
                self.report(error.note(format!("its dims are: {known}")));
            }
        }
        let (name, version) = (show(&model.producer_name), show(&model.producer_version));
        Ok(Imported {
            graph: Graph::new(""),
            ir_version,
            opsets,
            producer: format!("{name} {version}").trim().to_string(),
            defaults,
            warnings: Vec::new(),
        })
    }

    /// Operator sets of a model or a function. Repeated imports are fine while they say the same.
    pub fn opsets(&mut self, imports: &[OperatorSetIdProto]) -> Result<Opsets> {
        let mut opsets = Opsets::new();
        for import in imports {
            let domain = String::from_utf8(domain_key(&import.domain)).unwrap_or_else(|_| show(&import.domain));
            let newest = oaaxc_ops::schema::NEWEST_OPSET;
            if domain.is_empty() && !(1..=newest).contains(&import.version) {
                let message = format!("opset {} of ai.onnx is not known: 1 to {newest} are", import.version);
                let help = format!("convert the model down with onnx.version_converter to opset {newest}, or update oaaxc");
                return Err(Diagnostic::error(Code::OPSET, message).help(help));
            }
            if let Some(other) = opsets.insert(domain.clone(), import.version)
                && other != import.version
            {
                let message = format!("the model imports \"{domain}\" in versions {other} and {}", import.version);
                return Err(Diagnostic::error(Code::OPSET, message));
            }
        }
        Ok(opsets)
    }

    /// Adds a problem, unless there are already too many.
    pub fn report(&mut self, diagnostic: Diagnostic) {
        if diagnostic.severity == Severity::Error {
            self.errors += 1;
        }
        match self.diagnostics.items.len().cmp(&limits::DIAGNOSTICS) {
            std::cmp::Ordering::Less => self.diagnostics.push(diagnostic),
            std::cmp::Ordering::Equal => {
                let message = format!("more than {} problems: the rest is not shown", limits::DIAGNOSTICS);
                self.diagnostics.push(Diagnostic { severity: Severity::Note, ..Diagnostic::error(Code::LIMIT, message) });
            }
            std::cmp::Ordering::Greater => {}
        }
    }

    /// Values of the outermost graph keep their names; others give way.
    fn reserve_names(&mut self, graph: &GraphProto) {
        let names = graph.input.iter().map(|v| &v.name).chain(graph.node.iter().flat_map(|n| &n.output));
        let names: Vec<String> = names.map(|n| show(n)).collect();
        self.names.extend(names);
    }

    /// A name for a value, not yet taken.
    pub fn fresh_name(&mut self, env: &Env, name: &[u8]) -> String {
        let name = show(name);
        if env.prefix.is_empty() && &*env.path == "main" {
            return name;
        }
        let wanted = format!("{}{name}", env.prefix);
        let mut unique = wanted.clone();
        let mut number = 2;
        while !self.names.insert(unique.clone()) {
            unique = format!("{wanted}#{number}");
            number += 1;
        }
        unique
    }

    fn root_inputs(&mut self, graph: &GraphProto, ir_version: i64) -> Vec<(ValueId, Tensor)> {
        let inputs: HashSet<&[u8]> = graph.input.iter().map(|v| &v.name[..]).collect();
        let overridable = self.options.overridable && ir_version >= 4;
        let mut defaults: HashMap<Bytes, Tensor> = HashMap::new();
        let mut initialised = HashSet::new();
        for (name, tensor) in self.initialisers(graph) {
            initialised.insert(name.clone());
            match tensor {
                Some(tensor) if overridable && inputs.contains(&name[..]) => {
                    defaults.insert(name, tensor);
                }
                tensor => self.define_constant(&name, tensor, show(&name)),
            }
        }
        let mut with_default = Vec::new();
        let root = self.graph.root;
        for input in &graph.input {
            if self.scopes.find(&input.name).is_some() && !defaults.contains_key(&input.name) {
                if !initialised.contains(&input.name) {
                    self.report(structure(format!("the input \"{}\" is defined twice", show(&input.name))));
                }
                continue;
            }
            let entry = match self.input_type(input) {
                Ok(ty) => {
                    let value = self.graph.add_value(show(&input.name), Fact::of(ty), Def::Input(root));
                    self.graph.blocks[root].inputs.push(value);
                    if let Some(tensor) = defaults.remove(&input.name) {
                        with_default.push((value, tensor));
                    }
                    Entry::Value(value)
                }
                Err(error) => {
                    self.report(error);
                    Entry::Poisoned
                }
            };
            self.scopes.define(&input.name, entry);
        }
        with_default
    }

    fn input_type(&mut self, input: &ValueInfoProto) -> Result<Type> {
        self.check_name(&input.name)?;
        let name = show(&input.name);
        let lacking = || Diagnostic::error(Code::TYPE, format!("input \"{name}\" has no type"));
        let proto = input.ty.as_ref().ok_or_else(lacking)?;
        let sizes = Sizes { dims: &self.options.dims, ranges: &self.options.ranges, seen: &self.dims };
        let mut ty = types::input_type(proto, &name, &mut self.graph.symbols, &sizes)?;
        if let Type::Tensor(tensor) = &mut ty
            && tensor.shape.is_none()
        {
            let Some(rank) = self.options.ranks.get(&name).filter(|r| **r <= limits::RANK) else {
                let message = format!("the rank of input \"{name}\" is not known");
                return Err(Diagnostic::error(Code::RANK, message).help(format!("give it: --rank {name}=R")));
            };
            let dims = (0..*rank).map(|d| types::unnamed(&format!("{name}_d{d}"), &mut self.graph.symbols, &sizes));
            tensor.shape = Some(dims.collect());
        }
        Ok(ty)
    }

    /// Names must be UTF-8 and of sane length.
    pub fn check_name(&self, name: &[u8]) -> Result<()> {
        if name.len() > limits::NAME_BYTES {
            let message = format!("a name has {} bytes, more than {}", name.len(), limits::NAME_BYTES);
            return Err(Diagnostic::error(Code::LIMIT, message));
        }
        std::str::from_utf8(name).map(|_| ()).map_err(|_| structure(format!("the name \"{}\" is not UTF-8", show(name))))
    }

    /// The initialisers of a graph, dense and sparse; `None` where one is malformed (reported).
    pub fn initialisers(&mut self, graph: &GraphProto) -> Vec<(Bytes, Option<Tensor>)> {
        let dense = graph.initializer.iter().map(|t| (t.name.clone(), tensor::read(t, self.external)));
        let sparse = graph.sparse_initializer.iter().map(|t| {
            let name = t.values.as_ref().map(|v| v.name.clone()).unwrap_or_default();
            (name, tensor::read_sparse(t, self.external))
        });
        let all: Vec<_> = dense.chain(sparse).collect();
        let mut out = Vec::with_capacity(all.len());
        for (name, tensor) in all {
            if let Err(error) = self.check_name(&name) {
                self.report(error);
            }
            let tensor = tensor.map_err(|error| self.report(error)).ok();
            out.push((name, tensor));
        }
        out
    }

    /// Gives an initialiser's name its constant.
    pub fn define_constant(&mut self, name: &Bytes, tensor: Option<Tensor>, shown: String) {
        let entry = tensor.map_or(Entry::Poisoned, |tensor| Entry::Value(self.graph.add_constant(shown, tensor)));
        if !self.scopes.define(name, entry) {
            self.report(structure(format!("the initialiser \"{}\" is defined twice", show(name))));
        }
    }

    fn root_outputs(&mut self, graph: &GraphProto, env: &Env) {
        let root = self.graph.root;
        let mut seen = HashSet::new();
        if graph.output.is_empty() {
            self.report(structure("the graph has no outputs"));
        }
        for output in &graph.output {
            let name = show(&output.name);
            if !seen.insert(&output.name[..]) {
                self.report(structure(format!("the output \"{name}\" is listed twice")));
                continue;
            }
            match self.scopes.find(&output.name) {
                Some(Entry::Value(value)) => {
                    let value = self.named_output(value, &name, env);
                    self.compare_claim(output, value);
                    self.graph.blocks[root].outputs.push(value);
                }
                Some(Entry::Poisoned | Entry::Hole) => {}
                None if self.out_of_budget => {}
                None => {
                    let error = structure(format!("the output \"{name}\" is not computed by any node"));
                    let near = self.suggest(&output.name);
                    self.report(near.into_iter().fold(error, Diagnostic::help));
                }
            }
        }
    }

    /// The value as an output called `name`: results of nodes are renamed, anything else is passed through a node.
    fn named_output(&mut self, value: ValueId, name: &str, env: &Env) -> ValueId {
        if self.graph.values[value].name == name {
            return value;
        }
        let Some(op) = oaaxc_ops::find("", "Identity") else { return value };
        let opset = env.opsets.get("").copied().unwrap_or(1);
        let origin = Origin { file: self.file.clone(), graph: env.path.clone(), ..Origin::default() };
        let (inputs, outputs) = (vec![Some(value)], vec![Some(name.to_string())]);
        let new = NewNode { op, opset, attributes: Default::default(), inputs, outputs, blocks: Vec::new(), origin };
        let root = self.graph.root;
        match self.graph.append(root, new) {
            Ok(node) => self.graph.nodes[node].outputs[0].unwrap_or(value),
            Err(_) => value,
        }
    }

    /// Declared types of outputs are claims: what differs is told, and what was inferred holds.
    fn compare_claim(&mut self, output: &ValueInfoProto, value: ValueId) {
        let Some(Ok(claim)) = output.ty.as_ref().map(|ty| types::claimed_type(ty, &show(&output.name))) else { return };
        let inferred = &self.graph.values[value].fact.ty;
        let short = |ty: &Type| ty.as_tensor().map_or_else(|| types::schema_text(ty), |t| t.dtype.to_string());
        let (a, b) = (short(&claim), short(inferred));
        let declared = output.ty.as_ref().and_then(|ty| ty.tensor_type.as_ref()).and_then(|t| t.shape.as_ref());
        let mut differs = a != b;
        if let (Some(declared), Some(Some(shape))) = (declared, inferred.as_tensor().map(|t| &t.shape)) {
            let sizes = || declared.dim.iter().map(|d| d.dim_value.filter(|v| *v >= 0));
            differs |= declared.dim.len() != shape.len();
            differs |= sizes().zip(shape).any(|(d, s)| matches!((d, s.as_const()), (Some(d), Some(s)) if d != s));
        }
        if differs {
            let dims = declared.map_or(String::new(), |d| {
                let dim = |d: &crate::messages::DimensionProto| match (d.dim_value, &d.dim_param) {
                    (Some(value), _) => value.to_string(),
                    (_, Some(param)) => show(param),
                    _ => "?".to_string(),
                };
                format!("[{}]", d.dim.iter().take(limits::RANK).map(dim).collect::<Vec<_>>().join(","))
            });
            let inferred = self.graph.symbols.show_type(inferred);
            let message = format!("output \"{}\" is declared as {a}{dims}, it is {inferred}", show(&output.name));
            self.report(Diagnostic::warning(Code::SHAPE, message).note("declared types are claims; the inferred one holds"));
        }
    }

    /// Did you mean, among the visible names.
    pub fn suggest(&self, name: &[u8]) -> Option<String> {
        let wanted = show(name);
        let visible: Vec<&str> = self.scopes.visible().take(10_000).filter_map(|n| std::str::from_utf8(n).ok()).collect();
        crate::suggest::nearest(&wanted, visible.into_iter()).map(|near| format!("did you mean \"{near}\"?"))
    }

    /// An empty block for a body.
    pub fn new_block(&mut self) -> BlockId {
        self.graph.blocks.push(Default::default())
    }
}

/// An error of the graph's structure.
pub(crate) fn structure(message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(Code::STRUCTURE, message)
}

/// `ai.onnx` is the default domain.
pub(crate) fn domain_key(domain: &[u8]) -> Vec<u8> {
    if domain == b"ai.onnx" { Vec::new() } else { domain.to_vec() }
}
