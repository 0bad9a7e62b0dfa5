//! Program → sections. The exact converse of `decode.rs`; offsets stand in both as numbers, and the
//! round-trip test holds them together.

use crate::{
    expr::Code,
    program::{DimBind, InputShape, Instruction, Program, Shape, SlotKind},
    wire::{NONE, SectionWriter, section},
};
use alloc::vec::Vec;

/// Little-endian bytes.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Bytes {
    fn u32s(&mut self, values: &[u32]) {
        values.iter().for_each(|value| self.0.extend_from_slice(&value.to_le_bytes()));
    }

    fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }
}

/// Shared operands of records.
#[derive(Default)]
struct Pool(Vec<u32>);

impl Pool {
    /// Stores operands, gives start and count.
    fn add(&mut self, operands: impl Iterator<Item = u32>) -> (u32, u32) {
        let start = self.0.len();
        self.0.extend(operands);
        (start as u32, (self.0.len() - start) as u32)
    }
}

/// The whole file.
pub(crate) fn encode(p: &Program) -> Vec<u8> {
    let mut file = SectionWriter::new();
    let mut pool = Pool::default();
    write_strings(p, &mut file);
    write_expressions(p, &mut file);
    write_slots(p, &mut pool, &mut file);
    write_ports(p, &mut file);
    write_kernels(p, &mut pool, &mut file);
    let mut steps = Bytes::default();
    for step in &p.steps {
        let (opcode, [a, b, c], first, second) = fields(&step.instruction);
        let (start, n) = pool.add(first.into_iter());
        let (_, m) = pool.add(second.into_iter());
        steps.u32s(&[opcode, step.node.map_or(NONE, |id| id.0), a, b, c, start, n, m]);
    }
    file.add(section::STEPS, steps.0);
    let mut operands = Bytes::default();
    operands.u32s(&pool.0);
    file.add(section::POOL, operands.0);
    file.finish()
}

/// Name and producer are the two strings after the interned ones.
fn write_strings(p: &Program, file: &mut SectionWriter) {
    let (mut table, mut text, mut meta) = (Bytes::default(), Vec::new(), Bytes::default());
    for string in p.strings.iter().chain([&p.name, &p.producer]) {
        table.u32s(&[text.len() as u32, string.len() as u32]);
        text.extend_from_slice(string.as_bytes());
    }
    let count = p.strings.len() as u32;
    meta.u32s(&[p.registers, count, count + 1, 0]);
    file.add(section::META, meta.0);
    file.add(section::STRINGS, table.0);
    file.add(section::STRING_BYTES, text);
}

fn write_expressions(p: &Program, file: &mut SectionWriter) {
    let (mut code, mut table) = (Bytes::default(), Bytes::default());
    for word in &p.code {
        let (opcode, reg, value) = match *word {
            Code::Const(value) => (0, 0, value),
            Code::Reg(reg) => (1, reg.0, 0),
            Code::Op(op) => (op as u32, 0, 0),
        };
        code.u32s(&[opcode, reg]);
        code.u64(value as u64);
    }
    p.expressions.iter().for_each(|&(start, length)| table.u32s(&[start, length]));
    file.add(section::CODE, code.0);
    file.add(section::EXPRESSIONS, table.0);
}

fn write_slots(p: &Program, pool: &mut Pool, file: &mut SectionWriter) {
    let mut slots = Bytes::default();
    for slot in &p.slots {
        let (start, count) = match &slot.shape {
            Shape::Dims(dims) => pool.add(dims.iter().map(|id| id.0)),
            Shape::Runtime => (0, NONE),
        };
        let (kind, index, offset, length) = match slot.kind {
            SlotKind::Input(index) => (0, index, 0, 0),
            SlotKind::Output(index) => (1, index, 0, 0),
            SlotKind::Weight { file, offset, length } => (2, file, offset, length),
            SlotKind::Arena(index) => (3, index, 0, 0),
            SlotKind::Heap => (4, 0, 0, 0),
            SlotKind::Alias => (5, 0, 0, 0),
            SlotKind::Sequence => (6, 0, 0, 0),
            SlotKind::Optional => (7, 0, 0, 0),
        };
        slots.u32s(&[slot.dtype.onnx(), kind, index, slot.bytes.map_or(NONE, |id| id.0), start, count]);
        slots.u64(offset);
        slots.u64(length);
        slots.u32s(&[slot.space as u32, 0]);
    }
    file.add(section::SLOTS, slots.0);
}

/// Inputs, outputs and the memory plan.
fn write_ports(p: &Program, file: &mut SectionWriter) {
    let (mut inputs, mut rules, mut rule_count) = (Bytes::default(), Bytes::default(), 0);
    for input in &p.inputs {
        let (mode, a, b) = match &input.shape {
            InputShape::Ranked(dims) => (0, rule_count, dims.len() as u32),
            InputShape::Unranked { rank, first } => (1, rank.0, first.0),
            InputShape::Cell => (2, 0, 0),
        };
        inputs.u32s(&[input.name.0, input.slot.0, input.dtype.onnx(), mode, a, b]);
        let InputShape::Ranked(dims) = &input.shape else {
            continue;
        };
        for rule in dims {
            rule_count += 1;
            let (mode, value) = match rule.bind {
                DimBind::Bind(reg) => (0, reg.0),
                DimBind::Expect(expr) => (1, expr.0),
            };
            rules.u32s(&[mode, value, rule.symbol.0, 0]);
            [rule.min, rule.max, rule.multiple].iter().for_each(|value| rules.u64(*value as u64));
        }
    }
    let (mut outputs, mut dims, mut dim_count) = (Bytes::default(), Bytes::default(), 0);
    for output in &p.outputs {
        let count = output.dims.as_ref().map_or(NONE, |dims| dims.len() as u32);
        outputs.u32s(&[output.name.0, output.slot.0, output.dtype.onnx(), dim_count, count, 0]);
        for dim in output.dims.iter().flatten() {
            dim_count += 1;
            dims.u64(dim.size as u64);
            dims.u32s(&[dim.symbol.0, 0]);
        }
    }
    let mut plan = Bytes::default();
    for entry in &p.plan {
        let alias = entry.may_alias.unwrap_or(NONE);
        plan.u32s(&[entry.slot.0, entry.bytes.0, entry.first, entry.last, alias, entry.space as u32]);
    }
    file.add(section::INPUTS, inputs.0);
    file.add(section::DIM_RULES, rules.0);
    file.add(section::OUTPUTS, outputs.0);
    file.add(section::OUTPUT_DIMS, dims.0);
    file.add(section::PLAN, plan.0);
}

fn write_kernels(p: &Program, pool: &mut Pool, file: &mut SectionWriter) {
    let (mut levels, mut objects) = (Bytes::default(), Bytes::default());
    p.levels.iter().for_each(|level| levels.u32s(&[level.name.0, level.space as u32]));
    p.objects.iter().for_each(|object| objects.u32s(&[object.level, object.name.0]));
    let (mut kernels, mut entries) = (Bytes::default(), Bytes::default());
    for kernel in &p.kernels {
        let (start, count) = pool.add(kernel.places.iter().map(|id| id.0));
        let (operations, bytes) = (kernel.operations.0, kernel.bytes.0);
        kernels.u32s(&[kernel.name.0, kernel.origin.0, kernel.buffers, kernel.dims, start, count]);
        kernels.u32s(&[operations, bytes, u32::from(kernel.generic), kernel.space as u32]);
        for entry in &kernel.entries {
            entries.u32s(&[entry.object, entry.symbol.0, entry.groups.0, entry.scratch.0, entry.threads, 0]);
        }
    }
    file.add(section::LEVELS, levels.0);
    file.add(section::OBJECTS, objects.0);
    file.add(section::KERNELS, kernels.0);
    file.add(section::ENTRIES, entries.0);
}

/// Opcode, three operands, and two lists of an instruction.
#[rustfmt::skip] // a table of one-liners
fn fields(instruction: &Instruction) -> (u32, [u32; 3], Vec<u32>, Vec<u32>) {
    use Instruction::*;
    let plain = |opcode, a, b, c| (opcode, [a, b, c], Vec::new(), Vec::new());
    match instruction {
        Eval { to, value } => plain(1, to.0, value.0, 0),
        Check { condition, message } => plain(2, condition.0, message.0, 0),
        Place => plain(3, 0, 0, 0),
        Alloc { slot, like } => plain(4, slot.0, like.map_or(NONE, |id| id.0), 0),
        Free { slot } => plain(5, slot.0, 0, 0),
        Alias { slot, source, offset } => plain(6, slot.0, source.0, offset.map_or(NONE, |id| id.0)),
        Launch { kernel, buffers, dims } => {
            (7, [kernel.0, 0, 0], buffers.iter().map(|id| id.0).collect(), dims.iter().map(|id| id.0).collect())
        }
        Parallel { count } => plain(8, *count, 0, 0),
        Copy { to, from } => plain(9, to.0, from.0, 0),
        ReadCell { to, slot, index } => plain(10, to.0, slot.0, index.0),
        WriteCell { slot, index, value } => plain(11, slot.0, index.0, value.0),
        ReadDim { to, slot, axis } => plain(12, to.0, slot.0, axis.0),
        ReadRank { to, slot } => plain(13, to.0, slot.0, 0),
        Branch { condition, target } => plain(14, condition.0, *target, 0),
        Jump { target } => plain(15, *target, 0, 0),
        Call { routine, slots, arguments } => {
            (16, [routine.0, 0, 0], slots.iter().map(|id| id.0).collect(), arguments.iter().map(|id| id.0).collect())
        }
        SequenceNew { cell } => plain(17, cell.0, 0, 0),
        SequencePush { cell, item } => plain(18, cell.0, item.0, 0),
        SequenceGet { to, cell, index } => plain(19, to.0, cell.0, index.0),
        SequenceLength { to, cell } => plain(20, to.0, cell.0, 0),
        SequenceInsert { cell, index, item } => plain(21, cell.0, index.0, item.0),
        SequenceErase { cell, index } => plain(22, cell.0, index.0, 0),
        CellAssign { to, from } => plain(23, to.0, from.0, 0),
        OptionalNone { cell } => plain(24, cell.0, 0, 0),
        OptionalSet { cell, item } => plain(25, cell.0, item.0, 0),
        OptionalGet { to, cell } => plain(26, to.0, cell.0, 0),
        OptionalHas { to, cell } => plain(27, to.0, cell.0, 0),
        Fail { message } => plain(28, message.0, 0, 0),
    }
}
