//! Sections → program. Proves the form (sections, enum numbers, ranges of shared tables); what ids
//! mean is proved by `validate.rs` afterwards.

use crate::{
    dtype::DType,
    expr::{Code, Operator},
    ids::{ExprId, KernelId, Reg, SlotId, StringId},
    program::*,
    wire::{NONE, ParseError, Row, Rows, Sections, refuse, section},
};
use alloc::{string::String, vec::Vec};
use core::cell::Cell;

/// The program in a file's sections.
pub(crate) fn decode(file: &Sections<'_>) -> Result<Program, ParseError> {
    let meta = file.rows(section::META)?;
    if meta.count != 1 {
        refuse!("has {} meta records instead of one", meta.count);
    }
    let meta = meta.row(0);
    let pool = Pool { rows: file.rows(section::POOL)?, taken: Cell::new(0) };
    let strings = decode_strings(file)?;
    let text = |id: u32| match strings.get(id as usize) {
        Some(text) => Ok(text.clone()),
        None => refuse!("string {id} does not exist"),
    };
    let (name, producer) = (text(meta.u32(4))?, text(meta.u32(8))?);
    let level = |row: Row<'_>| Ok(Level { name: StringId(row.u32(0)), space: decode_space(row.u32(4))? });
    let levels: Vec<Level> = file.rows(section::LEVELS)?.iter().map(level).collect::<Result<_, _>>()?;
    let objects = file.rows(section::OBJECTS)?.iter();
    let objects = objects.map(|row| Object { level: row.u32(0), name: StringId(row.u32(4)) }).collect();
    let expressions = file.rows(section::EXPRESSIONS)?.iter().map(|row| (row.u32(0), row.u32(4))).collect();
    let kernels = decode_kernels(file, &pool, &levels)?;
    let mut strings = strings;
    if strings.len() >= 2 && meta.u32(4) as usize == strings.len() - 2 && meta.u32(8) as usize == strings.len() - 1 {
        strings.truncate(strings.len() - 2); // The writer keeps name and producer behind the interned strings.
    }
    Ok(Program {
        name,
        producer,
        strings,
        registers: meta.u32(0),
        code: file.rows(section::CODE)?.iter().map(decode_code).collect::<Result<_, _>>()?,
        expressions,
        slots: file.rows(section::SLOTS)?.iter().map(|row| decode_slot(row, &pool)).collect::<Result<_, _>>()?,
        inputs: decode_inputs(file)?,
        outputs: decode_outputs(file)?,
        plan: file.rows(section::PLAN)?.iter().map(decode_plan_entry).collect::<Result<_, _>>()?,
        levels,
        objects,
        kernels,
        steps: file.rows(section::STEPS)?.iter().map(|row| decode_step(row, &pool)).collect::<Result<_, _>>()?,
    })
}

/// Operands of all records. Records do not share operands, so that memory stays in proportion to the file.
struct Pool<'a> {
    rows: Rows<'a>,
    taken: Cell<usize>,
}

impl Pool<'_> {
    fn get(&self, start: u32, count: u32) -> Result<impl Iterator<Item = u32>, ParseError> {
        let (start, count) = (start as usize, count as usize);
        self.taken.set(self.taken.get().saturating_add(count));
        if start.checked_add(count).is_none_or(|end| end > self.rows.count) || self.taken.get() > self.rows.count {
            refuse!("operands {start}+{count} lie outside the pool of {} or are shared", self.rows.count);
        }
        Ok((start..start + count).map(|index| self.rows.row(index).u32(0)))
    }
}

fn decode_space(number: u32) -> Result<Space, ParseError> {
    match number {
        0 => Ok(Space::Host),
        1 => Ok(Space::Device),
        number => refuse!("space {number} does not exist"),
    }
}

fn dtype(number: u32) -> Result<DType, ParseError> {
    match DType::from_onnx(number) {
        Some(dtype) => Ok(dtype),
        None => refuse!("element type {number} does not exist"),
    }
}

fn decode_strings(file: &Sections<'_>) -> Result<Vec<String>, ParseError> {
    let bytes = file.rows(section::STRING_BYTES)?;
    let mut strings = Vec::new();
    let mut total = 0usize;
    for row in file.rows(section::STRINGS)?.iter() {
        let (start, length) = (row.u32(0) as usize, row.u32(4) as usize);
        total = total.saturating_add(length);
        if start.checked_add(length).is_none_or(|end| end > bytes.count) || total > bytes.count {
            refuse!("string {} lies outside the text or overlaps", strings.len());
        }
        match core::str::from_utf8(bytes.slice(start, length)) {
            Ok(text) => strings.push(String::from(text)),
            Err(_) => refuse!("string {} is not UTF-8", strings.len()),
        }
    }
    Ok(strings)
}

fn decode_code(row: Row<'_>) -> Result<Code, ParseError> {
    Ok(match row.u32(0) {
        0 => Code::Const(row.i64(8)),
        1 => Code::Reg(Reg(row.u32(4))),
        number => match Operator::from_number(number) {
            Some(op) => Code::Op(op),
            None => refuse!("operator {number} does not exist"),
        },
    })
}

fn decode_slot(row: Row<'_>, pool: &Pool<'_>) -> Result<Slot, ParseError> {
    let index = row.u32(8);
    let kind = match row.u32(4) {
        0 => SlotKind::Input(index),
        1 => SlotKind::Output(index),
        2 => SlotKind::Weight { file: index, offset: row.u64(24), length: row.u64(32) },
        3 => SlotKind::Arena(index),
        4 => SlotKind::Heap,
        5 => SlotKind::Alias,
        6 => SlotKind::Sequence,
        7 => SlotKind::Optional,
        number => refuse!("slot kind {number} does not exist"),
    };
    let shape = match row.u32(20) {
        NONE => Shape::Runtime,
        count if count as usize > MAX_RANK => {
            refuse!("a slot has {count} dims, at most {MAX_RANK} are allowed")
        }
        count => Shape::Dims(pool.get(row.u32(16), count)?.map(ExprId).collect()),
    };
    let space = decode_space(row.u32(40))?;
    Ok(Slot { dtype: dtype(row.u32(0))?, shape, kind, space, bytes: row.option(12).map(ExprId) })
}

/// `count` rows of `rows` from `start` on.
fn range<'a>(rows: Rows<'a>, start: u32, count: u32) -> Result<impl Iterator<Item = Row<'a>>, ParseError> {
    let (start, count) = (start as usize, count as usize);
    if count > MAX_RANK || start.checked_add(count).is_none_or(|end| end > rows.count) {
        refuse!("dims {start}+{count} lie outside their table of {}", rows.count);
    }
    Ok((start..start + count).map(move |index| rows.row(index)))
}

fn decode_inputs(file: &Sections<'_>) -> Result<Vec<Input>, ParseError> {
    let rules = file.rows(section::DIM_RULES)?;
    let mut inputs = Vec::new();
    for row in file.rows(section::INPUTS)?.iter() {
        let (a, b) = (row.u32(16), row.u32(20));
        let shape = match row.u32(12) {
            0 => InputShape::Ranked(range(rules, a, b)?.map(decode_rule).collect::<Result<_, _>>()?),
            1 => InputShape::Unranked { rank: Reg(a), first: Reg(b) },
            2 => InputShape::Cell,
            number => refuse!("input form {number} does not exist"),
        };
        let (name, slot) = (StringId(row.u32(0)), SlotId(row.u32(4)));
        inputs.push(Input { name, slot, dtype: dtype(row.u32(8))?, shape });
    }
    Ok(inputs)
}

fn decode_rule(row: Row<'_>) -> Result<DimRule, ParseError> {
    let bind = match row.u32(0) {
        0 => DimBind::Bind(Reg(row.u32(4))),
        1 => DimBind::Expect(ExprId(row.u32(4))),
        number => refuse!("dim rule {number} does not exist"),
    };
    Ok(DimRule { bind, symbol: StringId(row.u32(8)), min: row.i64(16), max: row.i64(24), multiple: row.i64(32) })
}

fn decode_outputs(file: &Sections<'_>) -> Result<Vec<Output>, ParseError> {
    let table = file.rows(section::OUTPUT_DIMS)?;
    let mut outputs = Vec::new();
    for row in file.rows(section::OUTPUTS)?.iter() {
        let dim = |row: Row<'_>| OutputDim { size: row.i64(0), symbol: StringId(row.u32(8)) };
        let dims = match row.u32(16) {
            NONE => None,
            count => Some(range(table, row.u32(12), count)?.map(dim).collect()),
        };
        let (name, slot) = (StringId(row.u32(0)), SlotId(row.u32(4)));
        outputs.push(Output { name, slot, dtype: dtype(row.u32(8))?, dims });
    }
    Ok(outputs)
}

fn decode_plan_entry(row: Row<'_>) -> Result<PlanEntry, ParseError> {
    Ok(PlanEntry {
        slot: SlotId(row.u32(0)),
        space: decode_space(row.u32(20))?,
        bytes: ExprId(row.u32(4)),
        first: row.u32(8),
        last: row.u32(12),
        may_alias: row.option(16),
    })
}

fn decode_kernels(file: &Sections<'_>, pool: &Pool<'_>, levels: &[Level]) -> Result<Vec<Kernel>, ParseError> {
    let (rows, entries) = (file.rows(section::KERNELS)?, file.rows(section::ENTRIES)?);
    let mut next = 0;
    let entry = |row: Row<'_>| KernelEntry {
        object: row.u32(0),
        symbol: StringId(row.u32(4)),
        groups: ExprId(row.u32(8)),
        scratch: ExprId(row.u32(12)),
        threads: row.u32(16),
    };
    let mut kernels = Vec::new();
    for row in rows.iter() {
        let space = decode_space(row.u32(36))?;
        let first = next;
        next += levels.iter().filter(|level| level.space == space).count();
        if next > entries.count {
            refuse!("{} kernels have only {} entries", rows.count, entries.count);
        }
        kernels.push(Kernel {
            name: StringId(row.u32(0)),
            origin: StringId(row.u32(4)),
            places: pool.get(row.u32(16), row.u32(20))?.map(StringId).collect(),
            buffers: row.u32(8),
            dims: row.u32(12),
            operations: ExprId(row.u32(24)),
            bytes: ExprId(row.u32(28)),
            generic: row.u32(32) != 0,
            space,
            entries: (first..next).map(|index| entry(entries.row(index))).collect(),
        });
    }
    match next == entries.count {
        true => Ok(kernels),
        false => refuse!("{} kernels have {} entries instead of {next}", rows.count, entries.count),
    }
}

#[rustfmt::skip] // a table of one-liners
fn decode_step(row: Row<'_>, pool: &Pool<'_>) -> Result<Step, ParseError> {
    use Instruction::*;
    let (a, b, c) = (row.u32(8), row.u32(12), row.u32(16));
    let (start, first, second) = (row.u32(20), row.u32(24), row.u32(28));
    let optional = |value: u32| Some(value).filter(|value| *value != NONE);
    let lists = || -> Result<(Vec<SlotId>, Vec<ExprId>), ParseError> {
        let slots: Vec<SlotId> = pool.get(start, first)?.map(SlotId).collect();
        let Some(middle) = start.checked_add(first) else { refuse!("an operand list is too long") };
        Ok((slots, pool.get(middle, second)?.map(ExprId).collect()))
    };
    let instruction = match row.u32(0) {
        1 => Eval { to: Reg(a), value: ExprId(b) },
        2 => Check { condition: ExprId(a), message: StringId(b) },
        3 => Place,
        4 => Alloc { slot: SlotId(a), like: optional(b).map(SlotId) },
        5 => Free { slot: SlotId(a) },
        6 => Alias { slot: SlotId(a), source: SlotId(b), offset: optional(c).map(ExprId) },
        7 => { let (buffers, dims) = lists()?; Launch { kernel: KernelId(a), buffers, dims } }
        8 => Parallel { count: a },
        9 => Copy { to: SlotId(a), from: SlotId(b) },
        10 => ReadCell { to: Reg(a), slot: SlotId(b), index: ExprId(c) },
        11 => WriteCell { slot: SlotId(a), index: ExprId(b), value: ExprId(c) },
        12 => ReadDim { to: Reg(a), slot: SlotId(b), axis: ExprId(c) },
        13 => ReadRank { to: Reg(a), slot: SlotId(b) },
        14 => Branch { condition: ExprId(a), target: b },
        15 => Jump { target: a },
        16 => { let (slots, arguments) = lists()?; Call { routine: StringId(a), slots, arguments } }
        17 => SequenceNew { cell: SlotId(a) },
        18 => SequencePush { cell: SlotId(a), item: SlotId(b) },
        19 => SequenceGet { to: SlotId(a), cell: SlotId(b), index: ExprId(c) },
        20 => SequenceLength { to: Reg(a), cell: SlotId(b) },
        21 => SequenceInsert { cell: SlotId(a), index: ExprId(b), item: SlotId(c) },
        22 => SequenceErase { cell: SlotId(a), index: ExprId(b) },
        23 => CellAssign { to: SlotId(a), from: SlotId(b) },
        24 => OptionalNone { cell: SlotId(a) },
        25 => OptionalSet { cell: SlotId(a), item: SlotId(b) },
        26 => OptionalGet { to: SlotId(a), cell: SlotId(b) },
        27 => OptionalHas { to: Reg(a), cell: SlotId(b) },
        28 => Fail { message: StringId(a) },
        number => refuse!("instruction {number} does not exist"),
    };
    Ok(Step { instruction, node: row.option(4).map(StringId) })
}
