//! The lowered program as the records that the runtime interprets, and the bytes of its weights.
//!
//! Buffers whose sizes the inputs decide are in the memory plan; what is known only during the run
//! is on the heap. Structured branches and loops become jumps. Equal constants are stored once.

use std::collections::BTreeMap;
use std::collections::hash_map::{DefaultHasher, HashMap};
use std::hash::{Hash, Hasher};

use bytes::Bytes;
use oaax_abi::{Dim, EntrySpec, Instruction, KernelId, KernelSpec, Operator, ParseError, ProgramBuilder, Reg};
use oaaxc_base::{Origin, SideTable};
use oaaxc_ir::expr::{Atom, Expr, SymId};
use oaaxc_ir::interpret::store;
use oaaxc_ir::kernel::{Role, cost};
use oaaxc_ir::program::{Instr, Program, SlotId, SlotKind, Space};
use oaaxc_ir::{DType, Type};

use crate::kernel::intern::Interned;

/// One instruction-set level of the emitted code.
pub struct LevelSpec<'a> {
    /// `x86-64-v3`, `gfx942`.
    pub name: &'a str,
    /// What its file is called.
    pub object: String,
    /// Which kernels it holds.
    pub space: Space,
    /// One per interned kernel of its space, in order.
    pub entries: Vec<LevelEntry>,
}

/// A kernel at one level.
#[derive(Clone, Debug)]
pub struct LevelEntry {
    /// The symbol in the object.
    pub symbol: String,
    /// Number of groups, over the kernel's symbols.
    pub groups: Expr,
    /// Bytes of scratch of a worker or launched work group, likewise.
    pub scratch: Expr,
    /// Threads of a work group; 0 on the host.
    pub threads: u32,
    /// Whether the generic path made it.
    pub generic: bool,
}

/// The constants of all programs of a package, each once, as one file: plain ones still share the model's mapped bytes.
#[derive(Clone, Debug, Default)]
pub struct Weights {
    /// Offset (a multiple of 64, rising) and bytes of each constant.
    pub parts: Vec<(u64, Bytes)>,
    /// Size of the file.
    pub len: u64,
    /// Parts by content hash.
    known: HashMap<u64, Vec<usize>>,
}

impl Weights {
    /// Adds a constant, or finds an equal one; returns its offset.
    pub fn add(&mut self, bytes: Bytes) -> u64 {
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let same = self.known.entry(hasher.finish()).or_default();
        if let Some(&at) = same.iter().find(|&&at| self.parts[at].1 == bytes) {
            return self.parts[at].0;
        }
        same.push(self.parts.len());
        let offset = self.len.next_multiple_of(64);
        self.len = offset + bytes.len() as u64;
        self.parts.push((offset, bytes));
        offset
    }
}

/// Why a program cannot be encoded: a slot that the runtime has no form for, or broken records.
#[derive(Debug)]
pub struct EncodeError(pub String);

impl From<ParseError> for EncodeError {
    fn from(error: ParseError) -> EncodeError {
        EncodeError(format!("the host program breaks a rule of its form: {}", error.0))
    }
}

/// Encodes. `levels` are from lowest to highest; object number i belongs to level i. Constants go to `weights`.
pub fn encode(
    program: &Program,
    interned: &Interned,
    levels: &[LevelSpec],
    producer: &str,
    weights: &mut Weights,
) -> Result<oaax_abi::Program, EncodeError> {
    let mut encoder = Encoder {
        program,
        interned,
        builder: ProgramBuilder::new(&program.name, producer),
        registers: BTreeMap::new(),
        slots: SideTable::new(None),
        kernels: Vec::new(),
        next_launch: 0,
        weights,
    };
    encoder.kernels(levels);
    encoder.inputs()?;
    encoder.outputs()?;
    encoder.list(&program.body, true)?;
    Ok(encoder.builder.finish()?)
}

struct Encoder<'a> {
    program: &'a Program,
    interned: &'a Interned,
    builder: ProgramBuilder,
    registers: BTreeMap<SymId, Reg>,
    slots: SideTable<SlotId, Option<oaax_abi::SlotId>>,
    kernels: Vec<KernelId>,
    next_launch: usize,
    weights: &'a mut Weights,
}

fn dtype(dtype: DType) -> Result<oaax_abi::DType, EncodeError> {
    // The 4- and 2-bit types take a byte each in memory; the runtime sees that byte.
    let number = match dtype {
        DType::U4 | DType::U2 | DType::F4E2M1 => DType::U8.onnx(),
        DType::I4 | DType::I2 => DType::I8.onnx(),
        other => other.onnx(),
    };
    oaax_abi::DType::from_onnx(number as u32).ok_or_else(|| EncodeError(format!("the runtime has no type {dtype}")))
}

/// The expression over registers; `leaf` says what a symbol is.
fn expression(e: &Expr, leaf: &mut dyn FnMut(SymId) -> oaax_abi::Expr) -> oaax_abi::Expr {
    let mut sum: Option<oaax_abi::Expr> = None;
    for term in e.terms() {
        let mut product: Option<oaax_abi::Expr> = None;
        for atom in &term.atoms {
            let factor = atom_expression(atom, leaf);
            product = Some(match product {
                None => factor,
                Some(p) => p.times(factor),
            });
        }
        let mut product = product.expect("a term has atoms");
        if term.coefficient != 1 {
            product = product.times(term.coefficient);
        }
        sum = Some(match sum {
            None => product,
            Some(s) => s.plus(product),
        });
    }
    match sum {
        None => oaax_abi::Expr::Const(e.offset()),
        Some(s) if e.offset() == 0 => s,
        Some(s) => s.plus(e.offset()),
    }
}

fn atom_expression(atom: &Atom, leaf: &mut dyn FnMut(SymId) -> oaax_abi::Expr) -> oaax_abi::Expr {
    let op = match atom {
        Atom::Sym(s) => return leaf(*s),
        Atom::Axis(_) => unreachable!("host expressions have no axes"),
        Atom::FloorDiv(..) => Operator::FloorDiv,
        Atom::CeilDiv(..) => Operator::CeilDiv,
        Atom::Mod(..) => Operator::FloorMod,
        Atom::Min(..) => Operator::Min,
        Atom::Max(..) => Operator::Max,
        Atom::Less(..) => Operator::Lt,
        Atom::Equal(..) => Operator::Eq,
        Atom::Select(..) => Operator::Select,
    };
    let operands: Vec<_> = atom.operands().into_iter().map(|e| expression(e, leaf)).collect();
    oaax_abi::Expr::op(op, operands)
}

fn space(space: Space) -> oaax_abi::Space {
    match space {
        Space::Host => oaax_abi::Space::Host,
        Space::Device => oaax_abi::Space::Device,
    }
}

fn node_name(origin: &Origin) -> &str {
    if origin.node.is_empty() { &origin.operator } else { &origin.node }
}

impl Encoder<'_> {
    fn kernels(&mut self, levels: &[LevelSpec]) {
        let objects: Vec<u32> = levels
            .iter()
            .map(|level| {
                let number = self.builder.level_in(level.name, space(level.space));
                self.builder.object(number, &level.object)
            })
            .collect();
        let mut origins: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for (launch, run) in self.program.launches().iter().zip(&self.interned.launches) {
            let names = origins.entry(run.kernel).or_default();
            for origin in &launch.origins {
                let name = node_name(origin).to_string();
                if !names.contains(&name) && names.len() < 64 {
                    names.push(name);
                }
            }
        }
        let mut dims = vec![0; self.interned.kernels.len()];
        for run in &self.interned.launches {
            dims[run.kernel] = run.dims.len() as u32;
        }
        let mut dim = |s: SymId| oaax_abi::Expr::dim(s.0);
        let mut before = [0; Space::ALL.len()];
        for (i, (kernel, place)) in self.interned.kernels.iter().zip(&self.interned.spaces).enumerate() {
            let names = origins.remove(&i).unwrap_or_default();
            let within = before[*place as usize];
            before[*place as usize] += 1;
            let own = || levels.iter().zip(&objects).filter(|(level, _)| level.space == *place);
            let entries = own().map(|(level, object)| {
                let entry = &level.entries[within];
                EntrySpec {
                    object: *object,
                    symbol: entry.symbol.clone(),
                    groups: expression(&entry.groups, &mut dim),
                    scratch: expression(&entry.scratch, &mut dim),
                    threads: entry.threads,
                }
            });
            let entries = entries.collect();
            let generic = own().next_back().is_some_and(|(level, _)| level.entries[within].generic);
            let cost = cost(kernel);
            let spec = KernelSpec {
                name: kernel.name.0.clone(),
                origin: names.join(" "),
                places: names.clone(),
                buffers: kernel.arguments().count() as u32,
                dims: dims[i],
                operations: expression(&cost.operations, &mut dim),
                bytes: expression(&cost.bytes, &mut dim),
                generic,
                space: space(*place),
                entries,
            };
            self.kernels.push(self.builder.kernel(&spec));
        }
    }
    fn register(&mut self, symbol: SymId) -> Reg {
        let builder = &mut self.builder;
        *self.registers.entry(symbol).or_insert_with(|| builder.register())
    }
    fn expr(&mut self, e: &Expr) -> oaax_abi::Expr {
        for symbol in e.symbols() {
            self.register(symbol);
        }
        expression(e, &mut |s| self.registers[&s].into())
    }
    fn exprs(&mut self, list: &[Expr]) -> Vec<oaax_abi::Expr> {
        list.iter().map(|e| self.expr(e)).collect()
    }
    fn tensor(&self, slot: SlotId) -> Result<(DType, Vec<Expr>), EncodeError> {
        match &self.program.slots[slot].ty {
            Type::Tensor(t) if t.dtype != DType::String => Ok((t.dtype, t.shape.clone().unwrap_or_default())),
            ty => {
                let ty = self.program.symbols.show_type(ty);
                Err(EncodeError(format!(
                    "\"{}\" is {ty}, which the host program does not hold yet",
                    self.program.slots[slot].name
                )))
            }
        }
    }
    fn inputs(&mut self) -> Result<(), EncodeError> {
        for &slot in &self.program.inputs {
            let (ty, dims) = self.tensor(slot)?;
            let mut rules = Vec::new();
            for e in &dims {
                let text = if e.as_const().is_some() { String::new() } else { self.program.symbols.show(e) };
                rules.push(match e.as_sym() {
                    Some(symbol) if !self.registers.contains_key(&symbol) => {
                        let s = &self.program.symbols.table[symbol];
                        Dim::bind(self.register(symbol), &text).within(s.min, s.max, 1)
                    }
                    _ => Dim::expect(self.expr(e), &text),
                });
            }
            let name = self.program.slots[slot].name.clone();
            let to = self.builder.input(&name, dtype(ty)?, &rules);
            self.slots.set(slot, Some(to));
        }
        Ok(())
    }
    fn outputs(&mut self) -> Result<(), EncodeError> {
        for &slot in &self.program.outputs {
            let (ty, dims) = self.tensor(slot)?;
            let name = self.program.slots[slot].name.clone();
            let texts: Vec<String> =
                dims.iter().map(|e| if e.as_const().is_some() { String::new() } else { self.program.symbols.show(e) }).collect();
            let exprs = self.exprs(&dims);
            let dims: Vec<(oaax_abi::Expr, &str)> = exprs.into_iter().zip(texts.iter().map(String::as_str)).collect();
            let to = self.builder.output(&name, dtype(ty)?, &dims);
            self.slots.set(slot, Some(to));
        }
        Ok(())
    }
    /// Whether the inputs alone decide these sizes.
    fn is_planned(&self, dims: &[Expr]) -> bool {
        dims.iter().all(|e| e.symbols().iter().all(|s| self.program.symbols.table[*s].input))
    }
    fn slot(&mut self, slot: SlotId) -> Result<oaax_abi::SlotId, EncodeError> {
        if let Some(to) = self.slots[slot] {
            return Ok(to);
        }
        let (ty, dims) = self.tensor(slot)?;
        let ty = dtype(ty)?;
        let exprs = self.exprs(&dims);
        let to = match &self.program.slots[slot].kind {
            SlotKind::Constant(tensor) => {
                let bytes = store(tensor, &self.program.slots[slot].layout);
                let length = bytes.len() as u64;
                let offset = self.weights.add(bytes);
                self.builder.weight(ty, &exprs, 0, offset, length)
            }
            SlotKind::View => self.builder.alias(ty, Some(&exprs)),
            SlotKind::Temp if self.is_planned(&dims) => self.builder.arena(ty, &exprs, None),
            SlotKind::Temp | SlotKind::Heap => self.builder.heap(ty, Some(&exprs), None),
            SlotKind::Input | SlotKind::Output => unreachable!("inputs and outputs were made first"),
        };
        let to = match self.program.slots[slot].space {
            Space::Host => to,
            Space::Device => self.builder.on_device(to),
        };
        self.slots.set(slot, Some(to));
        Ok(to)
    }
    fn list(&mut self, list: &[Instr], root: bool) -> Result<(), EncodeError> {
        let last_use = if root { last_uses(list) } else { BTreeMap::new() };
        for (at, instr) in list.iter().enumerate() {
            self.instr(instr)?;
            for (slot, _) in last_use.iter().filter(|(_, last)| **last == at) {
                let heap = matches!(self.program.slots[*slot].kind, SlotKind::Temp | SlotKind::Heap | SlotKind::View);
                let planned = matches!(self.program.slots[*slot].kind, SlotKind::Temp) && self.is_planned(&self.tensor(*slot)?.1);
                if let (Some(to), true, false) = (self.slots[*slot], heap, planned) {
                    self.builder.push(Instruction::Free { slot: to });
                }
            }
        }
        Ok(())
    }
    fn instr(&mut self, instr: &Instr) -> Result<(), EncodeError> {
        match instr {
            Instr::Launch(launch) => self.launch(launch)?,
            Instr::Let { symbol, value } => {
                let value = self.expr(value);
                let to = self.register(*symbol);
                self.builder.eval(to, value);
            }
            Instr::Read { symbol, slot, index } => {
                let (slot, index) = (self.slot(*slot)?, self.expr(index));
                let (to, index) = (self.register(*symbol), self.builder.expr(index));
                self.builder.push(Instruction::ReadCell { to, slot, index });
            }
            Instr::Write { slot, values } => {
                let to = self.slot(*slot)?;
                self.allocate_unplanned(*slot, to)?;
                for (i, value) in values.iter().enumerate() {
                    let value = self.expr(value);
                    let (index, value) = (self.builder.expr(i as i64), self.builder.expr(value));
                    self.builder.push(Instruction::WriteCell { slot: to, index, value });
                }
            }
            Instr::Check { holds, message, origin } => {
                let holds = self.expr(holds);
                self.builder.node(node_name(origin));
                self.builder.check(holds, message);
            }
            Instr::Alias { to, from } => {
                let (slot, source) = (self.slot(*to)?, self.slot(*from)?);
                self.builder.push(Instruction::Alias { slot, source, offset: None });
            }
            Instr::Copy { to, from } => {
                let (target, source) = (self.slot(*to)?, self.slot(*from)?);
                self.allocate_unplanned(*to, target)?;
                self.builder.push(Instruction::Copy { to: target, from: source });
            }
            Instr::Alloc { slot } => {
                let slot = self.slot(*slot)?;
                self.builder.push(Instruction::Alloc { slot, like: None });
            }
            Instr::If { condition, then, otherwise } => {
                let condition = self.expr(condition);
                let (no, end) = (self.builder.label(), self.builder.label());
                self.builder.branch_if_zero(condition, no);
                self.list(then, false)?;
                self.builder.jump(end);
                self.builder.place_label(no);
                self.list(otherwise, false)?;
                self.builder.place_label(end);
            }
            Instr::Loop { counter, trips, condition, body } => {
                let trips = self.expr(trips);
                let counter = self.register(*counter);
                let limit = self.builder.register();
                self.builder.eval(limit, trips);
                self.builder.eval(counter, 0);
                let (top, end) = (self.builder.label(), self.builder.label());
                self.builder.place_label(top);
                self.builder.branch_if_zero(oaax_abi::Expr::from(counter).less(limit), end);
                if let Some(condition) = condition {
                    let condition = self.register(*condition);
                    self.builder.branch_if_zero(condition, end);
                }
                self.list(body, false)?;
                self.builder.eval(counter, oaax_abi::Expr::from(counter).plus(1));
                self.builder.jump(top);
                self.builder.place_label(end);
            }
        }
        Ok(())
    }
    /// A temporary whose size is known only now gets its memory where it is first written.
    fn allocate_unplanned(&mut self, slot: SlotId, to: oaax_abi::SlotId) -> Result<(), EncodeError> {
        if matches!(self.program.slots[slot].kind, SlotKind::Temp) && !self.is_planned(&self.tensor(slot)?.1) {
            self.builder.push(Instruction::Alloc { slot: to, like: None });
        }
        Ok(())
    }
    fn launch(&mut self, launch: &oaaxc_ir::program::Launch) -> Result<(), EncodeError> {
        let run = &self.interned.launches[self.next_launch];
        self.next_launch += 1;
        let mut slots = Vec::new();
        for (slot, (_, buffer)) in launch.slots.iter().zip(launch.kernel.arguments()) {
            let to = self.slot(*slot)?;
            let unplanned = buffer.role == Role::Out && matches!(self.program.slots[*slot].kind, SlotKind::Temp);
            if unplanned && !self.is_planned(&self.tensor(*slot)?.1) && self.is_first_writer(*slot) {
                self.allocate_unplanned(*slot, to)?;
            }
            slots.push(to);
        }
        let dims: Vec<Expr> = run.dims.iter().map(|s| Expr::sym(*s)).collect();
        let dims = self.exprs(&dims);
        self.builder.node(launch.origins.first().map_or("", node_name));
        self.builder.launch(self.kernels[run.kernel], &slots, &dims);
        Ok(())
    }
    /// Whether the launch just counted is the first that writes the slot (several may write parts of it).
    fn is_first_writer(&self, slot: SlotId) -> bool {
        let writes = |launch: &&oaaxc_ir::program::Launch| {
            launch.slots.iter().zip(launch.kernel.arguments()).any(|(s, (_, b))| *s == slot && b.role != Role::In)
        };
        self.program.launches().iter().position(writes) == Some(self.next_launch - 1)
    }
}

/// The last instruction of the list that mentions each slot, in itself or in its lists. A view counts for what it views.
fn last_uses(list: &[Instr]) -> BTreeMap<SlotId, usize> {
    let mut last = BTreeMap::new();
    let mut views: Vec<(SlotId, SlotId)> = Vec::new();
    for (at, instr) in list.iter().enumerate() {
        mentions(instr, &mut |slot| {
            last.insert(slot, at);
        });
        if let Instr::Alias { to, from } = instr {
            views.push((*to, *from));
        }
    }
    for (to, from) in views.into_iter().rev() {
        let end = last[&to].max(last[&from]);
        last.insert(from, end);
    }
    last
}

fn mentions(instr: &Instr, f: &mut dyn FnMut(SlotId)) {
    match instr {
        Instr::Launch(launch) => launch.slots.iter().for_each(|s| f(*s)),
        Instr::Read { slot, .. } | Instr::Write { slot, .. } | Instr::Alloc { slot } => f(*slot),
        Instr::Alias { to, from } | Instr::Copy { to, from } => {
            f(*to);
            f(*from);
        }
        Instr::If { then, otherwise, .. } => then.iter().chain(otherwise).for_each(|i| mentions(i, f)),
        Instr::Loop { body, .. } => body.iter().for_each(|i| mentions(i, f)),
        Instr::Let { .. } | Instr::Check { .. } => {}
    }
}
