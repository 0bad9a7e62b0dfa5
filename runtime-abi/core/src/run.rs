//! The interpreter: executes a ready program over a context. Errors carry the node of the instruction.

use crate::{
    bind::{allocate_output, bind_inputs, finish_outputs},
    code::{Function, Op, Ready, Val},
    context::{Context, Sample, on_device},
    device::Lane,
    element,
    error::{Result, fail},
    launch,
    pool::Pool,
    value::{Output, Value},
};
use oaax_abi::{DeviceFault, ExprId, Instruction, Program, Shape, SlotId, SlotKind, Space};
use std::time::Instant;

/// One run.
pub fn run(ready: &Ready, context: &mut Context, pool: &Pool, inputs: &[Value<'_>], outputs: &mut [Output]) -> Result<()> {
    if outputs.len() != ready.program.outputs.len() {
        fail!(InvalidArgument, "the model gives {} outputs, {} are asked for", ready.program.outputs.len(), outputs.len());
    }
    context.reset(ready);
    let entered = context.lane.as_mut().map(Lane::begin).transpose();
    let done = entered.and_then(|entered| execute(ready, context, pool, inputs, outputs).map(|()| drop(entered)));
    if let Some(lane) = &mut context.lane {
        match done {
            Ok(()) => lane.trim(),
            Err(_) => lane.recover(),
        }
    }
    done
}

/// The run itself; where there is a device, it is current, and its queue is empty after a success.
fn execute(ready: &Ready, context: &mut Context, pool: &Pool, inputs: &[Value<'_>], outputs: &mut [Output]) -> Result<()> {
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
    wait(ready, context)?;
    finish_outputs(ready, context, outputs)
}

/// Waits for the device, if there is one.
pub fn wait(ready: &Ready, context: &mut Context) -> Result<()> {
    match &mut context.lane {
        Some(lane) => check(ready, lane.wait()?),
        None => Ok(()),
    }
}

/// Turns a fault that the device recorded into the run's error.
fn check(ready: &Ready, fault: Option<DeviceFault>) -> Result<()> {
    fault.map_or(Ok(()), |fault| Err(launch::device_fault(ready, fault)))
}

/// A run in progress.
pub struct Run<'a> {
    pub ready: &'a Ready,
    pub program: &'a Program,
    pub context: &'a mut Context,
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
            Op::Launch { first, count, length } | Op::Mixed { first, count, length } if self.context.samples.is_some() => {
                for index in first..first + count {
                    self.timed_launch(index)?;
                }
                return Ok(at + length as usize);
            }
            Op::Launch { first, count, length } => {
                self.settle()?;
                for index in first..first + count {
                    while let Err(slot) = launch::prepare(self.ready, self.context, index)? {
                        self.bind_late(slot)?;
                    }
                }
                launch::run(self.ready, self.context, self.pool)?;
                launch::clear(self.context);
                return Ok(at + length as usize);
            }
            Op::Mixed { first, count, length } => {
                (first..first + count).try_for_each(|index| self.launch_alone(index))?;
                return Ok(at + length as usize);
            }
            Op::Slow => self.slow(&self.program.steps[at].instruction)?,
        }
        Ok(at + 1)
    }

    /// A launch by itself, on its own side.
    fn launch_alone(&mut self, index: u32) -> Result<()> {
        if let Function::Device { .. } = self.ready.launches[index as usize].function {
            while let Err(slot) = launch::enqueue(self.ready, self.context, index)? {
                self.bind_late(slot)?;
            }
            return Ok(());
        }
        self.settle()?;
        while let Err(slot) = launch::prepare(self.ready, self.context, index)? {
            self.bind_late(slot)?;
        }
        launch::run(self.ready, self.context, self.pool)?;
        launch::clear(self.context);
        Ok(())
    }

    /// A launch by itself, with its time.
    fn timed_launch(&mut self, index: u32) -> Result<()> {
        let launch = &self.ready.launches[index as usize];
        let dim = |dim: &Val| dim.get(self.program, &self.context.registers);
        let dims = launch.dims.iter().map(dim).collect::<std::result::Result<Vec<_>, _>>()?;
        wait(self.ready, self.context)?;
        let start = Instant::now();
        self.launch_alone(index)?;
        wait(self.ready, self.context)?;
        let nanoseconds = start.elapsed().as_nanos() as u64;
        let sample = Sample { kernel: launch.kernel, step: launch.step, dims, nanoseconds };
        self.context.samples.get_or_insert_default().push(sample);
        Ok(())
    }

    /// Waits for what the device may still do to host memory.
    pub fn settle(&mut self) -> Result<()> {
        match &mut self.context.lane {
            Some(lane) => check(self.ready, lane.settle()?),
            None => Ok(()),
        }
    }

    pub fn eval(&self, id: ExprId) -> Result<i64> {
        Ok(self.program.eval(id, &self.context.registers)?)
    }

    pub fn kind(&self, slot: SlotId) -> SlotKind {
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
    pub fn value(&mut self, slot: SlotId) -> Result<(*mut u8, u64)> {
        if self.context.bindings[slot.index()].address.is_null() {
            self.bind_late(slot)?;
        }
        let binding = &self.context.bindings[slot.index()];
        Ok((binding.address, binding.bytes))
    }

    fn slow(&mut self, instruction: &Instruction) -> Result<()> {
        use Instruction::*;
        if !matches!(instruction, Copy { .. } | Check { .. } | ReadDim { .. } | ReadRank { .. }) {
            self.settle()?;
        }
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
                    let old = self.context.bindings[slot.index()].block.take();
                    self.context.recycle_block(old);
                }
                self.context.cells[slot.index()].items.clear();
            }
            Alias { slot, source, offset } => self.alias(*slot, *source, *offset)?,
            Copy { to, from } => self.copy(*to, *from)?,
            ReadCell { to, slot, index } => {
                let (address, dtype) = self.element(*slot, *index)?;
                let (mut bytes, size) = ([0; 8], element::size(dtype).unwrap_or(0));
                match self.program.space(*slot) {
                    // SAFETY: `element` proved that the element lies inside the slot's value.
                    Space::Host => unsafe { address.copy_to_nonoverlapping(bytes.as_mut_ptr(), size) },
                    Space::Device => {
                        // SAFETY: as above.
                        let (found, fault) = unsafe { self.context.device()?.read_cell(address.addr() as u64, size) }?;
                        check(self.ready, fault)?;
                        bytes = found;
                    }
                }
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
                let size = element::size(dtype).unwrap_or(0);
                match self.program.space(*slot) {
                    // SAFETY: `element` proved that the element lies inside the slot's value; the validator
                    // refuses read-only slots here.
                    Space::Host => unsafe { bytes.as_ptr().copy_to_nonoverlapping(address, size) },
                    Space::Device => {
                        // SAFETY: as above.
                        let fault = unsafe { self.context.device()?.write_cell(address.addr() as u64, bytes, size) }?;
                        check(self.ready, fault)?;
                    }
                }
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

    /// Copies a value to another of the same size, between any spaces.
    fn copy(&mut self, to: SlotId, from: SlotId) -> Result<()> {
        let spaces = (self.program.space(to), self.program.space(from));
        if spaces != (Space::Device, Space::Device) && spaces != (Space::Host, Space::Device) {
            self.settle()?; // The host's bytes are read here, perhaps by the driver at once.
        }
        let constant = matches!(self.kind(from), SlotKind::Input(_) | SlotKind::Weight { .. });
        let ((to, to_bytes), (from, bytes)) = (self.value(to)?, self.value(from)?);
        if to_bytes != bytes {
            fail!(RunFailed, "copies {bytes} bytes to {to_bytes}");
        }
        let (to_address, from_address) = (to.addr() as u64, from.addr() as u64);
        match spaces {
            _ if bytes == 0 => Ok(()),
            (Space::Host, Space::Host) => {
                // SAFETY: both values have as many bytes; `copy_to` allows overlap.
                unsafe { from.copy_to(to, bytes as usize) };
                Ok(())
            }
            // SAFETY: both values have as many bytes; memory of the host is let go of only after `settle`.
            (Space::Device, Space::Host) => unsafe { self.context.device()?.upload(to_address, from, bytes, constant) },
            // SAFETY: as above.
            (Space::Host, Space::Device) => unsafe { self.context.device()?.download(to, from_address, bytes) },
            // SAFETY: as above.
            (Space::Device, Space::Device) => unsafe { self.context.device()?.copy(to_address, from_address, bytes) },
        }
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
        let source = &self.context.bindings[source.index()];
        let (owner, block) = (source.owner.clone(), source.block.clone());
        let binding = &mut self.context.bindings[slot.index()];
        binding.address = match self.program.space(slot) {
            // SAFETY: the offset was proved to lie inside the source's value.
            Space::Host => unsafe { address.add(offset as usize) },
            Space::Device => on_device(address.addr() as u64 + offset as u64),
        };
        binding.bytes = rest;
        let old = std::mem::replace(&mut binding.owner, owner);
        let old_block = std::mem::replace(&mut binding.block, block);
        self.context.recycle(old);
        self.context.recycle_block(old_block);
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
            Some(offset) => Ok((address.wrapping_add(offset), dtype)),
            None => fail!(RunFailed, "element {index} of a tensor of {} elements is asked for", bytes / size as u64),
        }
    }
}
