//! The memory of one run: registers, bindings of slots, arena, scratch. A session keeps contexts and
//! uses them again, so that a run of known sizes allocates nothing.

use crate::{
    buffer::{Buffer, empty_address},
    code::Ready,
    device::{Block, Driver, Lane, Weights},
    error::{Error, Result, Status, fail},
    open::Bytes,
    value::Item,
};
use oaax_abi::{ALIGN, KernelFault, Placement, Program, Shape, Slot, SlotId, SlotKind, Space, check_placement, place};
use std::{ffi::c_void, sync::Arc};

/// Placements that a context remembers.
const REMEMBERED: usize = 4;

/// Blocks that a context keeps for heap values to come.
const SPARES: usize = 16;

/// What a slot is bound to; a null address is nothing.
#[derive(Debug)]
pub struct Binding {
    /// In the memory of the slot's space: one on the device is a number here, never to be followed.
    pub address: *mut u8,
    pub bytes: u64,
    /// Kept only where `Ready::wants_dims` says so (inputs and outputs: always).
    pub dims: Vec<i64>,
    /// Keeps heap memory alive.
    pub owner: Option<Arc<Buffer>>,
    /// The same on the device.
    pub block: Option<Arc<Block>>,
}

impl Default for Binding {
    fn default() -> Binding {
        Binding { address: std::ptr::null_mut(), bytes: 0, dims: Vec::new(), owner: None, block: None }
    }
}

/// A sequence or optional.
#[derive(Debug, Default)]
pub struct Cell {
    /// For an optional: whether there is a value. Sequences are always present.
    pub present: bool,
    pub items: Vec<Item>,
}

/// One part of a parallel region: a launch with its operands in the context's lists.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub launch: u32,
    pub buffers: u32,
    pub dims: u32,
    /// Groups before it in the region.
    pub first: u64,
    pub groups: u64,
}

/// A launch of a profiled run.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Index in the program's kernels.
    pub kernel: u32,
    /// Index in the program's steps.
    pub step: u32,
    /// The dims that the kernel got.
    pub dims: Vec<i64>,
    /// Wall time of the launch.
    pub nanoseconds: u64,
}

/// Memory of one run.
#[derive(Debug, Default)]
pub struct Context {
    /// The device side, where the variant has one. First, so that its queue is empty when blocks go.
    pub lane: Option<Lane>,
    pub registers: Vec<i64>,
    pub bindings: Vec<Binding>,
    pub cells: Vec<Cell>,
    pub parts: Vec<Part>,
    pub pointers: Vec<*mut c_void>,
    pub dims: Vec<i64>,
    pub scratch: Option<Buffer>,
    /// Bytes of scratch of each worker.
    pub stride: u64,
    pub faults: Vec<KernelFault>,
    /// Aligned copies of inputs that the caller gave unaligned.
    pub copies: Vec<Buffer>,
    /// What each launch took, where the run is to be profiled.
    pub samples: Option<Vec<Sample>>,
    /// Blocks of heap values that nobody holds.
    spares: Vec<Arc<Buffer>>,
    arena: Option<Buffer>,
    /// Most recent last: values of the plan's registers, sizes, placement.
    placements: Vec<(Vec<i64>, Vec<u64>, Placement)>,
    placed: bool,
}

// SAFETY: a context is used by one run at a time; its addresses point into memory that it or the run keeps.
unsafe impl Send for Context {}

impl Context {
    /// A context for `ready` on a pool of `workers`; weights are bound for good.
    pub fn new(
        ready: &Ready,
        weights: &[Bytes],
        workers: usize,
        device: Option<(&Arc<dyn Driver>, &Weights)>,
    ) -> Result<Context> {
        let program = &ready.program;
        let mut context = Context { faults: vec![KernelFault::default(); workers], ..Context::default() };
        context.registers.resize(program.registers as usize, 0);
        context.bindings.resize_with(program.slots.len(), Binding::default);
        context.cells.resize_with(program.slots.len(), Cell::default);
        if let Some((driver, _)) = device {
            context.lane = Some(Lane::new(driver, ready.most_arguments)?);
        }
        for (index, (slot, binding)) in program.slots.iter().zip(&mut context.bindings).enumerate() {
            if let SlotKind::Weight { file, offset, length } = slot.kind {
                binding.address = match (slot.space, device) {
                    (Space::Device, Some((_, weights))) => on_device(weights.addresses[index]),
                    (Space::Device, None) => fail!(Internal, "a weight is wanted on a device, and there is none"),
                    (Space::Host, _) => weights[file as usize][offset as usize..].as_ptr().cast_mut(),
                };
                binding.bytes = length;
            }
        }
        Ok(context)
    }

    /// Forgets the last run.
    pub fn reset(&mut self, ready: &Ready) {
        self.registers.fill(0);
        self.copies.clear();
        for slot in &ready.volatile {
            self.unbind(*slot);
            let cell = &mut self.cells[slot.index()];
            cell.present = ready.program.slots[slot.index()].kind == SlotKind::Sequence;
            cell.items.clear();
        }
    }

    /// Drops a slot's hold; a block that nobody else holds stays for the next `alloc`.
    pub fn unbind(&mut self, slot: SlotId) {
        let binding = &mut self.bindings[slot.index()];
        binding.address = std::ptr::null_mut();
        binding.bytes = 0;
        if binding.owner.as_mut().is_some_and(|owner| Arc::get_mut(owner).is_none()) {
            binding.owner = None;
        }
        if binding.block.as_mut().is_some_and(|block| Arc::get_mut(block).is_none()) {
            binding.block = None;
        }
    }

    /// As `recycle`, for a block on the device.
    pub fn recycle_block(&mut self, block: Option<Arc<Block>>) {
        if let Some(lane) = &mut self.lane {
            lane.recycle(block);
        }
    }

    /// The device side; a bug if there is none.
    pub fn device(&mut self) -> Result<&mut Lane> {
        self.lane.as_mut().ok_or_else(|| Error::new(Status::Internal, "a slot on a device is used, and there is no device"))
    }

    /// Keeps a block that nobody holds any more for a later `alloc`, so that loops do not go to the C heap.
    pub fn recycle(&mut self, owner: Option<Arc<Buffer>>) {
        if let Some(mut owner) = owner
            && Arc::get_mut(&mut owner).is_some()
            && self.spares.len() < SPARES
        {
            self.spares.push(owner);
        }
    }

    /// Evaluates the dims of a slot into its binding.
    pub fn evaluate_dims(&mut self, program: &Program, slot: SlotId) -> Result<()> {
        let Shape::Dims(dims) = &program.slots[slot.index()].shape else { return Ok(()) };
        let kept = &mut self.bindings[slot.index()].dims;
        kept.clear();
        for dim in dims {
            let value = program.eval(*dim, &self.registers)?;
            if value < 0 {
                fail!(RunFailed, "a dim comes out as {value}");
            }
            kept.push(value);
        }
        Ok(())
    }

    /// The dims of the value that a slot holds now.
    pub fn dims_of(&mut self, program: &Program, slot: SlotId) -> Result<&[i64]> {
        if matches!(program.slots[slot.index()].kind, SlotKind::Weight { .. } | SlotKind::Arena(_)) {
            self.evaluate_dims(program, slot)?;
        }
        Ok(&self.bindings[slot.index()].dims)
    }

    /// Bytes of a slot with the dims of its binding.
    pub fn size_of(&self, program: &Program, slot: SlotId) -> Result<u64> {
        let Slot { bytes, dtype, .. } = &program.slots[slot.index()];
        let size = match bytes {
            Some(bytes) => u64::try_from(program.eval(*bytes, &self.registers)?).ok(),
            None => elements(&self.bindings[slot.index()].dims).and_then(|elements| dtype.bytes(elements)),
        };
        size.ok_or_else(|| Error::new(Status::RunFailed, "a tensor's size does not fit 64 bits"))
    }

    /// Gives a heap slot fresh memory for the dims of its binding.
    pub fn allocate_heap(&mut self, program: &Program, slot: SlotId) -> Result<()> {
        let bytes = self.size_of(program, slot)?;
        if program.space(slot) == Space::Device {
            return self.allocate_block(slot, bytes);
        }
        let own = self.bindings[slot.index()].owner.as_mut().and_then(Arc::get_mut);
        if own.is_none_or(|own| own.capacity() < bytes) {
            let old = self.bindings[slot.index()].owner.take();
            self.recycle(old);
            let fits = |spare: &Arc<Buffer>| (bytes..=bytes.saturating_mul(2).saturating_add(4096)).contains(&spare.capacity());
            let fresh = match self.spares.iter().position(fits) {
                Some(index) => self.spares.swap_remove(index),
                None => Arc::new(Buffer::new(bytes)?),
            };
            self.bindings[slot.index()].owner = Some(fresh);
        }
        let binding = &mut self.bindings[slot.index()];
        binding.address = binding.owner.as_ref().map_or(std::ptr::null_mut(), |owner| owner.as_ptr());
        binding.bytes = bytes;
        Ok(())
    }

    /// Gives a heap slot on the device fresh memory.
    fn allocate_block(&mut self, slot: SlotId, bytes: u64) -> Result<()> {
        let own = self.bindings[slot.index()].block.as_mut().and_then(Arc::get_mut);
        if own.is_none_or(|own| own.capacity() < bytes) {
            let old = self.bindings[slot.index()].block.take();
            let lane = self.device()?;
            lane.recycle(old);
            let fresh = lane.heap(bytes)?;
            self.bindings[slot.index()].block = Some(fresh);
        }
        let binding = &mut self.bindings[slot.index()];
        binding.address = on_device(binding.block.as_ref().map_or(0, |block| block.address()));
        binding.bytes = bytes;
        Ok(())
    }

    /// Places the arenas for the registers as they are now.
    pub fn place(&mut self, ready: &Ready) -> Result<()> {
        let program = &ready.program;
        let same = |key: &[i64]| ready.plan_registers.iter().zip(key).all(|(reg, value)| self.registers[*reg as usize] == *value);
        match self.placements.iter().rposition(|(key, _, _)| same(key)) {
            Some(index) if index + 1 == self.placements.len() && self.placed => return Ok(()),
            Some(index) => {
                let found = self.placements.remove(index);
                self.placements.push(found);
            }
            None => {
                let key = ready.plan_registers.iter().map(|reg| self.registers[*reg as usize]).collect();
                let sizes = self.plan_sizes(program)?;
                let Some(placement) = place(&program.plan, &sizes) else {
                    fail!(OutOfMemory, "the arena does not fit any memory");
                };
                debug_assert_eq!(check_placement(&program.plan, &sizes, &placement), Ok(()), "the checker proves each placement");
                if self.placements.len() == REMEMBERED {
                    self.placements.remove(0);
                }
                self.placements.push((key, sizes, placement));
            }
        }
        self.placed = false;
        let Some((_, sizes, placement)) = self.placements.last() else { return Ok(()) };
        let arena = match self.arena.take() {
            Some(arena) if arena.capacity() >= placement.totals[0] => arena,
            old => {
                drop(old); // Before the larger one is asked for.
                Buffer::new(placement.totals[0])?
            }
        };
        // A tensor without elements has an address too: one that is null is bound to nothing.
        let uses_device = program.plan.iter().any(|entry| entry.space == Space::Device);
        let base = match (uses_device, &mut self.lane) {
            (false, _) => 0,
            (true, Some(lane)) => lane.arena(placement.totals[1].max(1))?,
            (_, None) => fail!(Internal, "an arena is wanted on a device, and there is none"),
        };
        for (index, entry) in program.plan.iter().enumerate() {
            let binding = &mut self.bindings[entry.slot.index()];
            binding.address = match entry.space {
                // SAFETY: the placement keeps each entry inside its total, which the arena has.
                Space::Host => unsafe { arena.as_ptr().add(placement.offsets[index] as usize) },
                Space::Device => on_device(base + placement.offsets[index]),
            };
            binding.bytes = sizes[index];
        }
        self.arena = Some(arena);
        self.placed = true;
        Ok(())
    }

    fn plan_sizes(&self, program: &Program) -> Result<Vec<u64>> {
        let size = |entry: &oaax_abi::PlanEntry| match program.eval(entry.bytes, &self.registers)? {
            size @ 0.. => Ok(size as u64),
            size => fail!(RunFailed, "a buffer's size comes out as {size}"),
        };
        program.plan.iter().map(size).collect()
    }

    /// Bytes of the arenas, host and device.
    pub fn arena_bytes(&self) -> u64 {
        self.arena.as_ref().map_or(0, Buffer::capacity) + self.lane.as_ref().map_or(0, Lane::arena_bytes)
    }

    /// Makes sure that each worker has `bytes` of scratch.
    pub fn reserve_scratch(&mut self, bytes: u64) -> Result<()> {
        if bytes <= self.stride {
            return Ok(());
        }
        // One line more, so that workers do not share one.
        let stride = bytes.checked_next_multiple_of(ALIGN).and_then(|bytes| bytes.checked_add(ALIGN));
        let total = stride.and_then(|stride| stride.checked_mul(self.faults.len() as u64));
        let (Some(stride), Some(total)) = (stride, total) else { fail!(OutOfMemory, "scratch of {bytes} bytes") };
        self.scratch = None;
        self.stride = 0;
        self.scratch = Some(Buffer::new(total)?);
        self.stride = stride;
        Ok(())
    }
}

/// An address on the device as a binding holds it.
pub fn on_device(address: u64) -> *mut u8 {
    std::ptr::without_provenance_mut(address as usize)
}

/// Product of dims.
pub fn elements(dims: &[i64]) -> Option<u64> {
    dims.iter().try_fold(1u64, |product, dim| product.checked_mul(u64::try_from(*dim).ok()?))
}

/// An address that is good for no bytes where there are none.
pub fn address_or_empty(address: *const u8, bytes: usize) -> *mut u8 {
    if bytes == 0 { empty_address() } else { address.cast_mut() }
}

impl From<oaax_abi::Fault> for Error {
    fn from(fault: oaax_abi::Fault) -> Error {
        Error::new(Status::RunFailed, fault.to_string())
    }
}
