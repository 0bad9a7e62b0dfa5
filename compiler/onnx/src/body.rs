//! Bodies of control flow: blocks that share the arena of values and see outer names.
//!
//! A body's inputs are typed by the operator's rule before the body is imported. Where a carried
//! value comes back with other sizes, the input is made more general and the body imported anew.

use std::collections::BTreeMap;

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::graph::{BlockId, Def};
use oaaxc_ir::types::Fact;
use oaaxc_ir::upgrade::UpgradeCx;
use oaaxc_ir::{Expr, Node, TensorType, Type};
use oaaxc_ops::control::Bodies;

use crate::import::{Env, Importer, structure};
use crate::messages::GraphProto;
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
            let origin = node.origin.clone();
            let mut cx = UpgradeCx { graph: &mut self.graph, node, version };
            let mut facts = guarded(|| (rule.inputs)(&mut cx), &origin)?;
            let part = if origin.node.is_empty() { format!("{}", origin.index) } else { origin.node.to_string() };
            let env = Env { path: format!("{}/{part}/{}", env.path, path_part(&proto.name, attribute)).into(), ..env.clone() };
            let carried = (rule.carried)(node);
            let mut block = None;
            for attempt in 0..ATTEMPTS {
                let mark = (self.diagnostics.items.len(), self.errors);
                let names = self.names.clone();
                let imported = self.body(proto, &facts, &env, attribute)?;
                if self.errors > mark.1 {
                    return Err(None);
                }
                let widest = attempt + 1 == ATTEMPTS - 1;
                if !self.generalise(&mut facts, imported, &carried, widest) {
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
                None => {
                    let message = format!("the output \"{}\" of {} is not computed by any node", show(&output.name), env.path);
                    self.report(structure(message));
                }
            }
        }
        self.scopes.close();
        Ok(block)
    }

    /// Makes input facts cover what the body gives back; whether any had to change.
    fn generalise(&mut self, facts: &mut [Fact], block: BlockId, carried: &[(usize, usize)], widest: bool) -> bool {
        let mut changed = false;
        for &(input, output) in carried {
            let Some(&value) = self.graph.blocks[block].outputs.get(output) else { continue };
            let given = self.graph.values[value].fact.clone();
            let Some(fact) = facts.get_mut(input) else { continue };
            let mut wider = self.graph.values[self.graph.blocks[block].inputs[input]].fact.clone();
            let before = wider.clone();
            if wider.known != given.known && wider.known.is_some() {
                // Elements that differ from one iteration to the next are read during the run.
                wider.known = None;
            }
            self.cover(&mut wider.ty, &given.ty, widest);
            if wider != before {
                changed = true;
                *fact = wider;
            }
        }
        changed
    }

    fn cover(&mut self, wide: &mut Type, given: &Type, widest: bool) {
        match (wide, given) {
            (Type::Tensor(wide), Type::Tensor(given)) if wide.dtype == given.dtype => self.cover_shape(wide, given, widest),
            (Type::Sequence(wide), Type::Sequence(given)) | (Type::Optional(wide), Type::Optional(given)) => {
                self.cover(wide, given, true)
            }
            _ => {}
        }
    }

    fn cover_shape(&mut self, wide: &mut TensorType, given: &TensorType, widest: bool) {
        let (Some(a), Some(b)) = (&mut wide.shape, &given.shape) else {
            wide.shape = None;
            return;
        };
        if a.len() != b.len() {
            wide.shape = None;
            return;
        }
        for (x, y) in a.iter_mut().zip(b) {
            let is_own = x.as_sym().is_some_and(|s| self.graph.symbols.table[s].name.starts_with("carried_"));
            if x != y && (!is_own || widest) && !is_own {
                *x = Expr::sym(self.graph.symbols.fresh("carried"));
            }
        }
    }
}
