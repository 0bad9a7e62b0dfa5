//! Builds a [`Program`] piece by piece: interns strings and expressions, resolves labels, derives
//! live ranges, and proves the result valid.

use crate::{
    dtype::DType,
    expr::{Code, Expr},
    ids::{ExprId, KernelId, Reg, SlotId, StringId},
    plan::{Roots, carried, check_ranges, loops, moments, slots_of},
    program::*,
    wire::{ParseError, refuse},
};
use alloc::{
    borrow::ToOwned,
    collections::BTreeMap,
    string::{String, ToString},
    vec::Vec,
};

/// A place in the program that jumps may name before it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Label(u32);

/// A dim of an input, for [`ProgramBuilder::input`].
#[derive(Clone, Debug)]
pub struct Dim {
    /// What a run does with it.
    pub rule: DimOf,
    /// Its text: `N`, `2*H`, or empty.
    pub symbol: String,
    /// Smallest, largest size, and a divisor of it.
    pub limits: (i64, i64, i64),
}

/// See [`DimBind`].
#[derive(Clone, Debug)]
pub enum DimOf {
    /// Goes to a register.
    Bind(Reg),
    /// Must equal.
    Expect(Expr),
}

impl Dim {
    /// The first occurrence of a symbol.
    pub fn bind(reg: Reg, symbol: &str) -> Dim {
        Dim { rule: DimOf::Bind(reg), symbol: symbol.to_owned(), limits: (0, i64::MAX, 1) }
    }

    /// A size that must equal `expr` (a number, or an expression over bound registers).
    pub fn expect(expr: impl Into<Expr>, symbol: &str) -> Dim {
        Dim { rule: DimOf::Expect(expr.into()), symbol: symbol.to_owned(), limits: (0, i64::MAX, 1) }
    }

    /// Restricts the size to min ≤ size ≤ max, a multiple of `multiple`.
    pub fn within(self, min: i64, max: i64, multiple: i64) -> Dim {
        Dim { limits: (min, max, multiple), ..self }
    }
}

/// A kernel, for [`ProgramBuilder::kernel`]. In its expressions `Expr::dim(i)` is dim i of the launch.
#[derive(Clone, Debug, Default)]
pub struct KernelSpec {
    /// A name for profiles.
    pub name: String,
    /// The ONNX nodes that it came from.
    pub origin: String,
    /// ONNX nodes by the `place` of a fault slot.
    pub places: Vec<String>,
    /// Number of buffers.
    pub buffers: u32,
    /// Number of dims.
    pub dims: u32,
    /// Scalar operations of a launch, for profiles.
    pub operations: Expr,
    /// Bytes that a launch reads and writes, for profiles.
    pub bytes: Expr,
    /// Whether the target had no schedule of its own for it.
    pub generic: bool,
    /// Where it runs.
    pub space: Space,
    /// One for each level of its space, in the order in which levels were added.
    pub entries: Vec<EntrySpec>,
}

/// A kernel at one level.
#[derive(Clone, Debug)]
pub struct EntrySpec {
    /// From [`ProgramBuilder::object`].
    pub object: u32,
    /// Symbol of the function.
    pub symbol: String,
    /// Number of groups.
    pub groups: Expr,
    /// Bytes of scratch for each worker or launched work group.
    pub scratch: Expr,
    /// Threads of a work group; 0 on the host.
    pub threads: u32,
}

/// See the crate's documentation for an example.
#[derive(Debug, Default)]
pub struct ProgramBuilder {
    program: Program,
    strings: BTreeMap<String, StringId>,
    expressions: BTreeMap<Vec<Code>, ExprId>,
    labels: Vec<Option<u32>>,
    node: Option<StringId>,
    /// For each plan entry, whether its range was given.
    ranged: Vec<bool>,
}

impl ProgramBuilder {
    /// An empty program for the model `name`.
    pub fn new(name: &str, producer: &str) -> ProgramBuilder {
        let program = Program { name: name.to_owned(), producer: producer.to_owned(), ..Program::default() };
        ProgramBuilder { program, ..ProgramBuilder::default() }
    }

    /// Interns a string.
    pub fn string(&mut self, text: &str) -> StringId {
        if let Some(id) = self.strings.get(text) {
            return *id;
        }
        let id = StringId(self.program.strings.len() as u32);
        self.program.strings.push(text.to_owned());
        self.strings.insert(text.to_owned(), id);
        id
    }

    /// A new register; 0 until something is bound or evaluated to it.
    pub fn register(&mut self) -> Reg {
        self.registers(1)
    }

    /// `count` new registers in a row; gives the first.
    pub fn registers(&mut self, count: u32) -> Reg {
        let first = Reg(self.program.registers);
        self.program.registers += count;
        first
    }

    /// Interns an expression.
    pub fn expr(&mut self, expr: impl Into<Expr>) -> ExprId {
        self.code(expr.into().code())
    }

    /// Interns postfix code.
    pub fn code(&mut self, code: Vec<Code>) -> ExprId {
        if let Some(id) = self.expressions.get(&code) {
            return *id;
        }
        let p = &mut self.program;
        let id = ExprId(p.expressions.len() as u32);
        p.expressions.push((p.code.len() as u32, code.len() as u32));
        p.code.extend_from_slice(&code);
        self.expressions.insert(code, id);
        id
    }

    /// Interns several expressions.
    pub fn exprs(&mut self, exprs: &[Expr]) -> Vec<ExprId> {
        exprs.iter().map(|expr| self.expr(expr.clone())).collect()
    }

    fn slot(&mut self, dtype: DType, dims: Option<&[Expr]>, kind: SlotKind, bytes: Option<Expr>) -> SlotId {
        let shape = match dims {
            Some(dims) => Shape::Dims(self.exprs(dims)),
            None => Shape::Runtime,
        };
        let bytes = bytes.map(|bytes| self.expr(bytes));
        let id = SlotId(self.program.slots.len() as u32);
        self.program.slots.push(Slot { dtype, shape, kind, space: Space::Host, bytes });
        id
    }

    fn add_input(&mut self, name: &str, slot: SlotId, dtype: DType, shape: InputShape) -> SlotId {
        let name = self.string(name);
        self.program.inputs.push(Input { name, slot, dtype, shape });
        slot
    }

    /// The next tensor input of the model.
    pub fn input(&mut self, name: &str, dtype: DType, dims: &[Dim]) -> SlotId {
        let mut rules = Vec::new();
        let mut exprs = Vec::new();
        for dim in dims {
            let (bind, expr) = match &dim.rule {
                DimOf::Bind(reg) => (DimBind::Bind(*reg), Expr::Reg(*reg)),
                DimOf::Expect(expr) => (DimBind::Expect(self.expr(expr.clone())), expr.clone()),
            };
            let (min, max, multiple) = dim.limits;
            rules.push(DimRule { bind, symbol: self.string(&dim.symbol), min, max, multiple });
            exprs.push(expr);
        }
        let kind = SlotKind::Input(self.program.inputs.len() as u32);
        let slot = self.slot(dtype, Some(&exprs), kind, None);
        self.add_input(name, slot, dtype, InputShape::Ranked(rules))
    }

    /// The next tensor input, of any rank up to eight. Gives its slot, the register of its rank and
    /// the first of the eight registers of its dims (padded in front with ones).
    pub fn unranked_input(&mut self, name: &str, dtype: DType) -> (SlotId, Reg, Reg) {
        let (rank, first) = (self.register(), self.registers(UNRANKED_DIMS));
        let kind = SlotKind::Input(self.program.inputs.len() as u32);
        let slot = self.slot(dtype, None, kind, None);
        (self.add_input(name, slot, dtype, InputShape::Unranked { rank, first }), rank, first)
    }

    /// The next input, a sequence or optional (`cell` is such a slot).
    pub fn cell_input(&mut self, name: &str, cell: SlotId) -> SlotId {
        let dtype = self.program.slots[cell.index()].dtype;
        self.add_input(name, cell, dtype, InputShape::Cell)
    }

    /// The next output of the model, a tensor written straight to the caller's buffer. Each dim with
    /// its text (`N`, or empty) for introspection.
    pub fn output(&mut self, name: &str, dtype: DType, dims: &[(Expr, &str)]) -> SlotId {
        let exprs: Vec<Expr> = dims.iter().map(|dim| dim.0.clone()).collect();
        let kind = SlotKind::Output(self.program.outputs.len() as u32);
        let slot = self.slot(dtype, Some(&exprs), kind, None);
        self.output_from(name, slot, Some(dims));
        slot
    }

    /// The next output of the model, copied at the end from any slot: an input, a weight, a heap or
    /// alias slot, a cell. `dims` for introspection; `None` where not even the rank is known.
    pub fn output_from(&mut self, name: &str, slot: SlotId, dims: Option<&[(Expr, &str)]>) {
        let name = self.string(name);
        let dtype = self.program.slots[slot.index()].dtype;
        let mut dim = |(expr, text): &(Expr, &str)| {
            let size = if let Expr::Const(size) = expr { *size } else { -1 };
            OutputDim { size, symbol: self.string(text) }
        };
        let dims = dims.map(|dims| dims.iter().map(&mut dim).collect());
        self.program.outputs.push(Output { name, slot, dtype, dims });
    }

    /// Bytes of weight file `file`; `offset` is a multiple of 64.
    pub fn weight(&mut self, dtype: DType, dims: &[Expr], file: u32, offset: u64, length: u64) -> SlotId {
        self.slot(dtype, Some(dims), SlotKind::Weight { file, offset, length }, Some(Expr::Const(length as i64)))
    }

    /// A buffer of the memory plan. `bytes` if it is not dims × element size. Its live range is
    /// derived by `finish` from the instructions unless `set_range` gives it.
    pub fn arena(&mut self, dtype: DType, dims: &[Expr], bytes: Option<Expr>) -> SlotId {
        let size = bytes.clone().unwrap_or_else(|| dims_bytes(dtype, dims));
        let slot = self.slot(dtype, Some(dims), SlotKind::Arena(self.program.plan.len() as u32), bytes);
        let bytes = self.expr(size);
        self.program.plan.push(PlanEntry { slot, space: Space::Host, bytes, first: 0, last: 0, may_alias: None });
        self.ranged.push(false);
        slot
    }

    fn entry(&mut self, slot: SlotId) -> u32 {
        match self.program.slots[slot.index()].kind {
            SlotKind::Arena(entry) => entry,
            kind => panic!("slot {} of kind {kind:?} is not in the memory plan", slot.0),
        }
    }

    /// `slot` may take over the bytes of `old` (both of the arena) in place. Dropped by `finish` if
    /// `old` does not die exactly where `slot` begins. The kernel that reads `old` and writes `slot` must then
    /// allow that both are one buffer (no `noalias` on them).
    pub fn may_alias(&mut self, slot: SlotId, old: SlotId) {
        let (entry, old) = (self.entry(slot), self.entry(old));
        self.program.plan[entry as usize].may_alias = Some(old);
    }

    /// Fixes the live range of an arena slot (instructions, inclusive).
    pub fn set_range(&mut self, slot: SlotId, first: u32, last: u32) {
        let entry = self.entry(slot) as usize;
        self.program.plan[entry].first = first;
        self.program.plan[entry].last = last;
        self.ranged[entry] = true;
    }

    /// A tensor that `Alloc` allocates; `None` dims: only by `Alloc { like }`.
    pub fn heap(&mut self, dtype: DType, dims: Option<&[Expr]>, bytes: Option<Expr>) -> SlotId {
        self.slot(dtype, dims, SlotKind::Heap, bytes)
    }

    /// A tensor bound at run time; `None` dims: those of what it is bound to.
    pub fn alias(&mut self, dtype: DType, dims: Option<&[Expr]>) -> SlotId {
        self.slot(dtype, dims, SlotKind::Alias, None)
    }

    /// A sequence of tensors of one element type.
    pub fn sequence(&mut self, dtype: DType) -> SlotId {
        self.slot(dtype, None, SlotKind::Sequence, None)
    }

    /// An optional tensor or sequence.
    pub fn optional(&mut self, dtype: DType) -> SlotId {
        self.slot(dtype, None, SlotKind::Optional, None)
    }

    /// Puts a weight, arena, heap or alias slot, just made, into device memory; gives it back.
    pub fn on_device(&mut self, slot: SlotId) -> SlotId {
        self.program.slots[slot.index()].space = Space::Device;
        if let SlotKind::Arena(entry) = self.program.slots[slot.index()].kind {
            self.program.plan[entry as usize].space = Space::Device;
        }
        slot
    }

    /// The next CPU level, from lowest to highest. Gives its index.
    pub fn level(&mut self, name: &str) -> u32 {
        self.level_in(name, Space::Host)
    }

    /// The next level of a space. Gives its index.
    pub fn level_in(&mut self, name: &str, space: Space) -> u32 {
        let name = self.string(name);
        self.program.levels.push(Level { name, space });
        self.program.levels.len() as u32 - 1
    }

    /// The next kernel object; its index is its place in the list of objects of the manifest's variant.
    pub fn object(&mut self, level: u32, name: &str) -> u32 {
        let name = self.string(name);
        self.program.objects.push(Object { level, name });
        self.program.objects.len() as u32 - 1
    }

    /// A kernel.
    pub fn kernel(&mut self, spec: &KernelSpec) -> KernelId {
        let entry = |this: &mut Self, entry: &EntrySpec| KernelEntry {
            object: entry.object,
            symbol: this.string(&entry.symbol),
            groups: this.expr(entry.groups.clone()),
            scratch: this.expr(entry.scratch.clone()),
            threads: entry.threads,
        };
        let kernel = Kernel {
            name: self.string(&spec.name),
            origin: self.string(&spec.origin),
            places: spec.places.iter().map(|place| self.string(place)).collect(),
            buffers: spec.buffers,
            dims: spec.dims,
            operations: self.expr(spec.operations.clone()),
            bytes: self.expr(spec.bytes.clone()),
            generic: spec.generic,
            space: spec.space,
            entries: spec.entries.iter().map(|spec| entry(self, spec)).collect(),
        };
        self.program.kernels.push(kernel);
        KernelId(self.program.kernels.len() as u32 - 1)
    }

    /// Names the ONNX node of the instructions that follow; an empty name is none.
    pub fn node(&mut self, name: &str) {
        self.node = Some(name).filter(|name| !name.is_empty()).map(|name| self.string(name));
    }

    /// Index of the next instruction.
    pub fn position(&self) -> u32 {
        self.program.steps.len() as u32
    }

    /// Appends an instruction. Use `branch` and `jump` for those.
    pub fn push(&mut self, instruction: Instruction) {
        self.program.steps.push(Step { instruction, node: self.node });
    }

    /// to := value.
    pub fn eval(&mut self, to: Reg, value: impl Into<Expr>) {
        let value = self.expr(value);
        self.push(Instruction::Eval { to, value });
    }

    /// Fails with `message` if `condition` is 0.
    pub fn check(&mut self, condition: impl Into<Expr>, message: &str) {
        let (condition, message) = (self.expr(condition), self.string(message));
        self.push(Instruction::Check { condition, message });
    }

    /// Runs a kernel.
    pub fn launch(&mut self, kernel: KernelId, buffers: &[SlotId], dims: &[Expr]) {
        let dims = self.exprs(dims);
        self.push(Instruction::Launch { kernel, buffers: buffers.to_vec(), dims });
    }

    /// A label to be placed later.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() as u32 - 1)
    }

    /// Places a label before the next instruction.
    pub fn place_label(&mut self, label: Label) {
        self.labels[label.0 as usize] = Some(self.program.steps.len() as u32);
    }

    /// Goes to `label` if `condition` is 0.
    pub fn branch_if_zero(&mut self, condition: impl Into<Expr>, label: Label) {
        let condition = self.expr(condition);
        self.push(Instruction::Branch { condition, target: label.0 });
    }

    /// Goes to `label`.
    pub fn jump(&mut self, label: Label) {
        self.push(Instruction::Jump { target: label.0 });
    }

    /// Resolves labels, derives live ranges, drops `may_alias` that cannot hold, validates, and has the
    /// ranges proved by the checker that did not derive them.
    pub fn finish(mut self) -> Result<Program, ParseError> {
        for step in &mut self.program.steps {
            if let Instruction::Branch { target, .. } | Instruction::Jump { target } = &mut step.instruction {
                match self.labels.get(*target as usize).copied().flatten() {
                    Some(place) => *target = place,
                    None => refuse!("a label was never placed"),
                }
            }
        }
        // Range derivation indexes by slot: prove first that all slots exist.
        let count = self.program.slots.len();
        let mut used = self.program.steps.iter().flat_map(|step| slots_of(&step.instruction));
        if let Some(slot) = used.find(|slot| slot.index() >= count) {
            refuse!("slot {} does not exist", slot.0);
        }
        self.derive_ranges()?;
        self.program.validate()?;
        check_ranges(&self.program)?;
        Ok(self.program)
    }

    fn derive_ranges(&mut self) -> Result<(), ParseError> {
        let p = &self.program;
        let (roots, moments) = (Roots::new(p), moments_checked(p)?);
        let mut ranges: Vec<Option<(u32, u32)>> = alloc::vec![None; p.plan.len()];
        for (index, step) in p.steps.iter().enumerate() {
            let (begin, end) = moments[index];
            for entry in slots_of(&step.instruction).iter().flat_map(|slot| roots.entries(*slot)) {
                let (first, last) = ranges[*entry as usize].unwrap_or((begin, end));
                ranges[*entry as usize] = Some((first.min(begin), last.max(end)));
            }
        }
        for (entry, first, last) in carried(p, &roots) {
            let range = ranges[entry as usize].get_or_insert((first, last));
            *range = (range.0.min(first), range.1.max(last));
        }
        // What leaves the program at its end lives to its last instruction.
        let last = p.steps.len().saturating_sub(1) as u32;
        for entry in p.outputs.iter().flat_map(|output| roots.entries(output.slot)) {
            ranges[*entry as usize] = ranges[*entry as usize].map(|(first, _)| (first, last));
        }
        let loops: Vec<(u32, u32)> = loops(p).collect();
        for range in ranges.iter_mut().flatten() {
            let mut before = None;
            while before != Some(*range) {
                before = Some(*range);
                for &(from, to) in &loops {
                    let apart = range.1 < to || from < range.0;
                    let inside = to <= range.0 && range.1 <= from;
                    if !apart && !inside {
                        *range = (range.0.min(to), range.1.max(from));
                    }
                }
            }
        }
        for (index, entry) in self.program.plan.iter_mut().enumerate() {
            if !self.ranged[index] {
                (entry.first, entry.last) = ranges[index].unwrap_or((0, 0));
            }
        }
        let last: Vec<(u32, Space)> = self.program.plan.iter().map(|entry| (entry.last, entry.space)).collect();
        for entry in &mut self.program.plan {
            entry.may_alias = entry.may_alias.filter(|old| last[*old as usize] == (entry.first, entry.space));
        }
        Ok(())
    }
}

/// `moments`, after proving that parallel groups end inside the program.
fn moments_checked(p: &Program) -> Result<Vec<(u32, u32)>, ParseError> {
    for (index, step) in p.steps.iter().enumerate() {
        if let Instruction::Parallel { count } = step.instruction
            && index + count as usize >= p.steps.len()
        {
            refuse!("{}", "a parallel group ends behind the program".to_string());
        }
    }
    Ok(moments(p))
}

/// Bytes of a dense tensor as an expression.
pub fn dims_bytes(dtype: DType, dims: &[Expr]) -> Expr {
    let elements = dims.iter().fold(Expr::Const(1), |product, dim| match product {
        Expr::Const(1) => dim.clone(),
        product => product.times(dim.clone()),
    });
    match dtype.bits() as i64 {
        8 => elements,
        bits if bits < 8 => elements.times(bits).ceil_div(8),
        bits => elements.times(bits / 8),
    }
}
