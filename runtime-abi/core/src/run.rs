//! The interpreter: executes a ready program over a context. Errors carry the node of the instruction.

use crate::{
    bind::{allocate_output, bind_inputs, finish_outputs},
    buffer::Buffer,
    code::{Op, Ready},
    context::{Context, Sample},
    element,
    error::{Result, fail},
    launch,
    pool::Pool,
    value::{Item, Output, Value},
};
use oaax_abi::{ExprId, Instruction, Program, Shape, SlotId, SlotKind};
use std::{sync::Arc, time::Instant};

/// One run.
pub fn run(ready: &Ready, context: &mut Context, pool: &Pool, inputs: &[Value<'_>], outputs: &mut [Output]) -> Result<()> {
    if outputs.len() != ready.program.outputs.len() {
        fail!(InvalidArgument, "the model gives {} outputs, {} are asked for", ready.program.outputs.len(), outputs.len());
    }
    context.reset(ready);
    bind_inputs(ready, context, inputs)?;
    if !ready.places {
        context.place(ready)?;
    }
    let mut run = Run { ready, program: &ready.program, context, pool, outputs };
    let mut at = 0usize;
    while let Some(op) = ready.ops.get(at) {
        match run.step(*op, at) {
            Ok(next) => at = next,
            Err(error) => {
                launch::clear(run.context);
                let node = ready.program.steps[at].node;
                return Err(error.at(node.map_or("", |node| ready.program.text(node))));
            }
        }
    }
    finish_outputs(ready, context, outputs)
}

struct Run<'a> {
    ready: &'a Ready,
    program: &'a Program,
    context: &'a mut Context,
    pool: &'a Pool,
    outputs: &'a mut [Output],
}

impl Run<'_> {
    /// Executes an instruction, gives the next one.
    #[inline]
    fn step(&mut self, op: Op, at: usize) -> Result<usize> {
        match op {
            Op::Eval(to, value) => self.context.registers[to as usize] = value.get(self.program, &self.context.registers)?,
            Op::Branch(condition, target) => {
                if condition.get(self.program, &self.context.registers)? == 0 {
                    return Ok(target as usize);
                }
            }
            Op::Jump(target) => return Ok(target as usize),
            Op::Launch { first, count, length } if self.context.samples.is_some() => {
                for index in first..first + count {
                    self.timed_launch(index)?;
                }
                return Ok(at + length as usize);
            }
            Op::Launch { first, count, length } => {
                for index in first..first + count {
                    while let Err(slot) = launch::prepare(self.ready, self.context, index)? {
                        self.bind_late(slot)?;
                    }
                }
                launch::run(self.ready, self.context, self.pool)?;
                launch::clear(self.context);
                return Ok(at + length as usize);
            }
            Op::Slow => self.slow(&self.program.steps[at].instruction)?,
        }
        Ok(at + 1)
    }

    /// A launch by itself, with its time.
    fn timed_launch(&mut self, index: u32) -> Result<()> {
        while let Err(slot) = launch::prepare(self.ready, self.context, index)? {
            self.bind_late(slot)?;
        }
        let dims = self.context.dims.clone();
        let start = Instant::now();
        launch::run(self.ready, self.context, self.pool)?;
        let nanoseconds = start.elapsed().as_nanos() as u64;
        launch::clear(self.context);
        let launch = &self.ready.launches[index as usize];
        let sample = Sample { kernel: launch.kernel, step: launch.step, dims, nanoseconds };
        self.context.samples.get_or_insert_default().push(sample);
        Ok(())
    }

    fn eval(&self, id: ExprId) -> Result<i64> {
        Ok(self.program.eval(id, &self.context.registers)?)
    }

    fn kind(&self, slot: SlotId) -> SlotKind {
        self.program.slots[slot.index()].kind
    }

    /// A slot that is used but bound to nothing: an output gets its memory now, else it is a fault.
    fn bind_late(&mut self, slot: SlotId) -> Result<()> {
        match self.kind(slot) {
            SlotKind::Output(port) => {
                self.context.evaluate_dims(self.program, slot)?;
                let output = &mut self.outputs[port as usize];
                allocate_output(self.program, self.context, slot, port as usize, output)
            }
            kind => fail!(Internal, "slot {} of kind {kind:?} is used before it is bound", slot.0),
        }
    }

    /// Address and size of a slot's value.
    fn value(&mut self, slot: SlotId) -> Result<(*mut u8, u64)> {
        if self.context.bindings[slot.index()].address.is_null() {
            self.bind_late(slot)?;
        }
        let binding = &self.context.bindings[slot.index()];
        Ok((binding.address, binding.bytes))
    }

    fn slow(&mut self, instruction: &Instruction) -> Result<()> {
        use Instruction::*;
        match instruction {
            Check { condition, message } if self.eval(*condition)? == 0 => {
                fail!(RunFailed, "{}", self.program.text(*message))
            }
            Check { .. } | Parallel { .. } => {}
            Fail { message } => fail!(RunFailed, "{}", self.program.text(*message)),
            Place => self.context.place(self.ready)?,
            Alloc { slot, like } => self.alloc(*slot, *like)?,
            Free { slot } => {
                self.context.unbind(*slot);
                if self.kind(*slot) == SlotKind::Alias {
                    let old = self.context.bindings[slot.index()].owner.take();
                    self.context.recycle(old);
                }
                self.context.cells[slot.index()].items.clear();
            }
            Alias { slot, source, offset } => self.alias(*slot, *source, *offset)?,
            Copy { to, from } => {
                let ((to, to_bytes), (from, from_bytes)) = (self.value(*to)?, self.value(*from)?);
                if to_bytes != from_bytes {
                    fail!(RunFailed, "copies {from_bytes} bytes to {to_bytes}");
                }
                // SAFETY: both values have as many bytes; `copy_to` allows overlap.
                unsafe { from.copy_to(to, to_bytes as usize) };
            }
            ReadCell { to, slot, index } => {
                let (address, dtype) = self.element(*slot, *index)?;
                let mut bytes = [0; 8];
                // SAFETY: `element` proved that the element lies inside the slot's value.
                unsafe { address.copy_to_nonoverlapping(bytes.as_mut_ptr(), element::size(dtype).unwrap_or(0)) };
                match element::read(dtype, bytes) {
                    Some(value) => self.context.registers[to.index()] = value,
                    None => fail!(RunFailed, "a value of type {} does not fit 64 signed bits", dtype.name()),
                }
            }
            WriteCell { slot, index, value } => {
                let value = self.eval(*value)?;
                let (address, dtype) = self.element(*slot, *index)?;
                let Some(bytes) = element::write(dtype, value) else {
                    fail!(RunFailed, "the value {value} does not fit type {}", dtype.name());
                };
                // SAFETY: `element` proved that the element lies inside the slot's value; the validator
                // refuses read-only slots here.
                unsafe { bytes.as_ptr().copy_to_nonoverlapping(address, element::size(dtype).unwrap_or(0)) };
            }
            ReadDim { to, slot, axis } => {
                let axis = self.eval(*axis)?;
                let dims = self.context.dims_of(self.program, *slot)?;
                let Some(dim) = usize::try_from(axis).ok().and_then(|axis| dims.get(axis)) else {
                    fail!(RunFailed, "dim {axis} of a tensor of rank {} is asked for", dims.len());
                };
                self.context.registers[to.index()] = *dim;
            }
            ReadRank { to, slot } => {
                let rank = self.context.dims_of(self.program, *slot)?.len();
                self.context.registers[to.index()] = rank as i64;
            }
            _ => self.cell(instruction)?,
        }
        Ok(())
    }

    fn alloc(&mut self, slot: SlotId, like: Option<SlotId>) -> Result<()> {
        match like {
            Some(like) => {
                let dims = self.context.dims_of(self.program, like)?.to_vec();
                self.context.bindings[slot.index()].dims = dims;
            }
            None => self.context.evaluate_dims(self.program, slot)?,
        }
        match self.kind(slot) {
            SlotKind::Output(port) => {
                let output = &mut self.outputs[port as usize];
                allocate_output(self.program, self.context, slot, port as usize, output)
            }
            _ => self.context.allocate_heap(self.program, slot),
        }
    }

    fn alias(&mut self, slot: SlotId, source: SlotId, offset: Option<ExprId>) -> Result<()> {
        let offset = offset.map_or(Ok(0), |offset| self.eval(offset))?;
        let (address, bytes) = self.value(source)?;
        let Some(rest) = u64::try_from(offset).ok().and_then(|offset| bytes.checked_sub(offset)) else {
            fail!(RunFailed, "a view begins at byte {offset} of {bytes}");
        };
        if self.ready.wants_dims[slot.index()] {
            match self.program.slots[slot.index()].shape {
                Shape::Dims(_) => self.context.evaluate_dims(self.program, slot)?,
                Shape::Runtime => {
                    let dims = self.context.dims_of(self.program, source)?.to_vec();
                    self.context.bindings[slot.index()].dims = dims;
                }
            }
        }
        let owner = self.context.bindings[source.index()].owner.clone();
        let binding = &mut self.context.bindings[slot.index()];
        // SAFETY: the offset was proved to lie inside the source's value.
        binding.address = unsafe { address.add(offset as usize) };
        binding.bytes = rest;
        let old = std::mem::replace(&mut binding.owner, owner);
        self.context.recycle(old);
        Ok(())
    }

    /// Address and type of an element, proved to lie inside the slot's value.
    fn element(&mut self, slot: SlotId, index: ExprId) -> Result<(*mut u8, oaax_abi::DType)> {
        let index = self.eval(index)?;
        let dtype = self.program.slots[slot.index()].dtype;
        let (address, bytes) = self.value(slot)?;
        let Some(size) = element::size(dtype) else {
            fail!(Unsupported, "a single element of type {} is asked for", dtype.name());
        };
        let offset = usize::try_from(index).ok().and_then(|index| index.checked_mul(size));
        match offset.filter(|offset| (*offset as u64).checked_add(size as u64).is_some_and(|end| end <= bytes)) {
            // SAFETY: just proved.
            Some(offset) => Ok((unsafe { address.add(offset) }, dtype)),
            None => fail!(RunFailed, "element {index} of a tensor of {} elements is asked for", bytes / size as u64),
        }
    }

    /// A slot's value as an element of a cell: heap memory is shared, other memory copied.
    fn item(&mut self, slot: SlotId) -> Result<Item> {
        let dims = self.context.dims_of(self.program, slot)?.to_vec();
        let (address, bytes) = self.value(slot)?;
        if let Some(owner) = self.context.bindings[slot.index()].owner.clone() {
            return Ok(Item { owner, address, bytes, dims });
        }
        // SAFETY: the slot's value has `bytes` bytes at `address`.
        let owner = Arc::new(Buffer::copy_of(unsafe { std::slice::from_raw_parts(address, bytes as usize) })?);
        Ok(Item { address: owner.as_ptr(), owner, bytes, dims })
    }

    /// Binds an alias slot to an element of a cell.
    fn bind_item(&mut self, slot: SlotId, item: Item) {
        let binding = &mut self.context.bindings[slot.index()];
        binding.address = item.address.cast_mut();
        binding.bytes = item.bytes;
        binding.dims = item.dims;
        let old = binding.owner.replace(item.owner);
        self.context.recycle(old);
    }

    /// An index into a cell, counted from the end if negative, at most `limit`.
    fn position(&self, cell: SlotId, index: ExprId, limit: usize) -> Result<usize> {
        let (index, count) = (self.eval(index)?, self.context.cells[cell.index()].items.len());
        let place = if index < 0 { index.checked_add(count as i64) } else { Some(index) };
        match place.and_then(|place| usize::try_from(place).ok()).filter(|place| *place < limit) {
            Some(place) => Ok(place),
            None => fail!(RunFailed, "position {index} of a sequence of {count} is asked for"),
        }
    }

    /// Instructions on sequences and optionals.
    fn cell(&mut self, instruction: &Instruction) -> Result<()> {
        use Instruction::*;
        match instruction {
            SequenceNew { cell } => self.context.cells[cell.index()].items.clear(),
            SequencePush { cell, item } => {
                let item = self.item(*item)?;
                self.context.cells[cell.index()].items.push(item);
            }
            SequenceGet { to, cell, index } => {
                let place = self.position(*cell, *index, self.context.cells[cell.index()].items.len())?;
                let item = self.context.cells[cell.index()].items[place].clone();
                self.bind_item(*to, item);
            }
            SequenceLength { to, cell } => {
                self.context.registers[to.index()] = self.context.cells[cell.index()].items.len() as i64;
            }
            SequenceInsert { cell, index, item } => {
                let item = self.item(*item)?;
                let place = self.position(*cell, *index, self.context.cells[cell.index()].items.len() + 1)?;
                self.context.cells[cell.index()].items.insert(place, item);
            }
            SequenceErase { cell, index } => {
                let place = self.position(*cell, *index, self.context.cells[cell.index()].items.len())?;
                self.context.cells[cell.index()].items.remove(place);
            }
            CellAssign { to, from } => self.assign(*to, *from),
            OptionalNone { cell } => {
                let cell = &mut self.context.cells[cell.index()];
                cell.present = false;
                cell.items.clear();
            }
            OptionalSet { cell, item } if self.kind(*item).is_cell() => {
                self.assign(*cell, *item);
            }
            OptionalSet { cell, item } => {
                let item = self.item(*item)?;
                let cell = &mut self.context.cells[cell.index()];
                cell.present = true;
                cell.items.clear();
                cell.items.push(item);
            }
            OptionalGet { cell, .. } if !self.context.cells[cell.index()].present => {
                fail!(RunFailed, "an optional holds nothing")
            }
            OptionalGet { to, cell } if self.kind(*to).is_cell() => self.assign(*to, *cell),
            OptionalGet { to, cell } => match self.context.cells[cell.index()].items.first().cloned() {
                Some(item) => self.bind_item(*to, item),
                None => fail!(RunFailed, "an optional holds no tensor"),
            },
            OptionalHas { to, cell } => {
                self.context.registers[to.index()] = self.context.cells[cell.index()].present as i64;
            }
            other => fail!(Internal, "instruction {other:?} is not executed here"),
        }
        Ok(())
    }

    fn assign(&mut self, to: SlotId, from: SlotId) {
        let source = &self.context.cells[from.index()];
        let (present, items) = (source.present, source.items.clone());
        let cell = &mut self.context.cells[to.index()];
        (cell.present, cell.items) = (present, items);
    }
}
