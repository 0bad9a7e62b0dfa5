//! Bodies of control flow: blocks that share the arena of values and see outer names.
//!
//! A body's inputs are typed by the operator's rule before the body is imported. Where a carried
//! value comes back with other sizes, the input is made more general and the body imported anew.

use std::collections::BTreeMap;

use bytes::Bytes;
use oaaxc_base::{Code, Diagnostic, EntityId, Origin};
use oaaxc_ir::graph::{BlockId, Def};
use oaaxc_ir::types::Fact;
use oaaxc_ir::upgrade::UpgradeCx;
use oaaxc_ir::{Expr, Node, Type};
use oaaxc_ops::control::Bodies;

use crate::import::{Env, Importer, structure};
use crate::messages::{GraphProto, NodeProto};
use crate::node::{guarded, path_part};
use crate::scope::Entry;
use crate::tensor::show;

/// Most times that a body is imported with ever more general inputs.
const ATTEMPTS: usize = 4;

impl Importer<'_> {
    /// Imports the bodies of a node; `Err(None)` where errors inside were reported.
    pub(crate) fn bodies(
        &mut self,
        node: &mut Node,
        rule: &Bodies,
        graphs: &BTreeMap<String, &GraphProto>,
        env: &Env,
    ) -> Result<(), Option<Diagnostic>> {
        for &attribute in rule.attributes {
            let Some(proto) = graphs.get(attribute) else {
                let message = format!("{}: the body `{attribute}` is missing", node.op.name);
                return Err(Some(Diagnostic::error(Code::ATTRIBUTE, message)));
            };
            let version = node.opset;
            let own = self.graph.symbols.table.next_id().index();
            let origin = node.origin.clone();
            let mut cx = UpgradeCx { graph: &mut self.graph, node, version };
            let mut facts = guarded(|| (rule.inputs)(&mut cx), &origin)?;
            let env = body_env(env, &origin, proto, attribute);
            let carried = (rule.carried)(node);
            let mut block = None;
            for attempt in 0..ATTEMPTS {
                let mark = (self.diagnostics.items.len(), self.errors);
                let names = self.names.clone();
                self.retyping += usize::from(attempt > 0);
                let imported = self.body(proto, &facts, &env, attribute);
                self.retyping -= usize::from(attempt > 0);
                let imported = imported?;
                if self.errors > mark.1 || self.out_of_budget {
                    return Err(None);
                }
                if !self.generalise(&mut facts, imported, &carried, own, attempt >= 2) {
                    block = Some(imported);
                    break;
                }
                self.diagnostics.items.truncate(mark.0);
                self.names = names;
            }
            let Some(block) = block else {
                let message = format!("{}: a carried value changes its type in every iteration", node.op.name);
                return Err(Some(Diagnostic::error(Code::TYPE, message)));
            };
            node.blocks.push(block);
        }
        Ok(())
    }

    /// Imports the only body that will run in the node's place; the entries of the node's outputs.
    pub(crate) fn only_body(
        &mut self,
        block: BlockId,
        body: &GraphProto,
        node: &NodeProto,
        env: &Env,
        origin: &Origin,
    ) -> Result<Vec<Entry>, Option<Diagnostic>> {
        if body.output.len() != node.output.len() || !body.input.is_empty() {
            let message = format!("the body gives {} results, {} are wanted", body.output.len(), node.output.len());
            return Err(Some(structure(message)));
        }
        let errors = self.errors;
        let first = self.graph.values.next_id().index();
        let inner = body_env(env, origin, body, "body");
        self.scopes.open(false);
        for (name, tensor) in self.initialisers(body) {
            let shown = self.fresh_name(&inner, &name);
            self.define_constant(&name, tensor, shown);
        }
        self.nodes(block, &body.node, &inner);
        let find = |output: &crate::messages::ValueInfoProto| self.scopes.find(&output.name);
        let found: Vec<Option<Entry>> = body.output.iter().map(find).collect();
        self.scopes.close();
        if self.errors > errors || self.out_of_budget {
            return Err(None);
        }
        let missing = || Some(structure(format!("an output of {} is not computed by any node", inner.path)));
        let entries = found.into_iter().map(|entry| entry.ok_or_else(missing)).collect::<Result<Vec<_>, _>>()?;
        self.take_names(&entries, &node.output, env, first);
        Ok(entries)
    }

    /// Results that were computed in a node's place take the names that the outermost graph gives them.
    pub(crate) fn take_names(&mut self, entries: &[Entry], wanted: &[Bytes], env: &Env, first: usize) {
        if !env.prefix.is_empty() || &*env.path != "main" {
            return;
        }
        for (entry, wanted) in entries.iter().zip(wanted).filter(|(_, wanted)| !wanted.is_empty()) {
            if let Entry::Value(value) = entry
                && value.index() >= first
                && matches!(self.graph.values[*value].def, Def::Node(..))
            {
                self.graph.values[*value].name = show(wanted);
            }
        }
    }

    fn body(&mut self, proto: &GraphProto, facts: &[Fact], env: &Env, attribute: &str) -> Result<BlockId, Option<Diagnostic>> {
        if proto.input.len() != facts.len() {
            let message = format!("the body `{attribute}` has {} inputs, the node gives it {}", proto.input.len(), facts.len());
            return Err(Some(structure(message)));
        }
        let block = self.new_block();
        self.scopes.open(false);
        for (input, fact) in proto.input.iter().zip(facts) {
            if let Err(error) = self.check_name(&input.name) {
                self.report(error);
            }
            let name = self.fresh_name(env, &input.name);
            let value = self.graph.add_value(name, fact.clone(), Def::Input(block));
            self.graph.blocks[block].inputs.push(value);
            if !self.scopes.define(&input.name, Entry::Value(value)) {
                self.report(structure(format!("the input \"{}\" of {} is defined twice", show(&input.name), env.path)));
            }
        }
        for (name, tensor) in self.initialisers(proto) {
            let shown = self.fresh_name(env, &name);
            self.define_constant(&name, tensor, shown);
        }
        self.nodes(block, &proto.node, env);
        for output in &proto.output {
            match self.scopes.find(&output.name) {
                Some(Entry::Value(value)) => self.graph.blocks[block].outputs.push(value),
                Some(Entry::Poisoned | Entry::Hole) => {
                    self.scopes.close();
                    return Err(None);
                }
                None if self.out_of_budget => {}
                None => {
                    let message = format!("the output \"{}\" of {} is not computed by any node", show(&output.name), env.path);
                    self.report(structure(message));
                }
            }
        }
        self.scopes.close();
        Ok(block)
    }

    /// Makes input facts cover what the body gives back; whether any had to change. Sizes (and elements that are
    /// sizes) that differ from one iteration to the next become symbols made for this body, those from `own` on.
    /// With `all`, every size becomes one.
    fn generalise(&mut self, facts: &mut [Fact], block: BlockId, carried: &[(usize, usize)], own: usize, all: bool) -> bool {
        let mut changed = false;
        for &(input, output) in carried {
            let (Some(&value), Some(fact)) = (self.graph.blocks[block].outputs.get(output), facts.get_mut(input)) else {
                continue;
            };
            let given = self.graph.values[value].fact.clone();
            let before = fact.clone();
            fact.known = match (fact.known.take(), &given.known) {
                (Some(mut wide), Some(given)) if wide.len() == given.len() => {
                    self.cover_sizes(&mut wide, given, own, all);
                    Some(wide)
                }
                _ => None,
            };
            self.cover(&mut fact.ty, &given.ty, own, all);
            changed |= *fact != before;
        }
        changed
    }

    fn cover(&mut self, wide: &mut Type, given: &Type, own: usize, all: bool) {
        match (wide, given) {
            (Type::Tensor(wide), Type::Tensor(given)) if wide.dtype == given.dtype => match (&mut wide.shape, &given.shape) {
                (Some(a), Some(b)) if a.len() == b.len() => self.cover_sizes(a, b, own, all),
                (shape, _) => *shape = None,
            },
            (Type::Sequence(wide), Type::Sequence(given)) | (Type::Optional(wide), Type::Optional(given)) => {
                self.cover(wide, given, own, all);
            }
            _ => {}
        }
    }

    fn cover_sizes(&mut self, wide: &mut [Expr], given: &[Expr], own: usize, all: bool) {
        for (x, y) in wide.iter_mut().zip(given) {
            let is_own = x.as_sym().is_some_and(|s| s.index() >= own);
            if !is_own && (all || x != y) {
                *x = Expr::sym(self.graph.symbols.fresh("carried"));
            }
        }
    }
}

/// What holds inside a body.
fn body_env(env: &Env, origin: &Origin, body: &GraphProto, attribute: &str) -> Env {
    let part = if origin.node.is_empty() { format!("{}", origin.index) } else { origin.node.to_string() };
    Env { path: format!("{}/{part}/{}", env.path, path_part(&body.name, attribute)).into(), ..env.clone() }
}
