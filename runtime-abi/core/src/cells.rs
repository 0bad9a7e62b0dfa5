//! The instructions on sequences and optionals. Cells hold tensors on the host: one on a device is copied.

use crate::{
    buffer::Buffer,
    error::{Result, fail},
    run::Run,
    value::Item,
};
use oaax_abi::{ExprId, Instruction, SlotId, Space};
use std::sync::Arc;

impl Run<'_> {
    /// A slot's value as an element of a cell: heap memory is shared, other memory copied.
    fn item(&mut self, slot: SlotId) -> Result<Item> {
        let dims = self.context.dims_of(self.program, slot)?.to_vec();
        let (address, bytes) = self.value(slot)?;
        if self.program.space(slot) == Space::Device {
            let owner = Arc::new(Buffer::new(bytes)?);
            if bytes > 0 {
                // SAFETY: the buffer is as large as the value and lives until `settle` has waited.
                unsafe { self.context.device()?.download(owner.as_ptr(), address.addr() as u64, bytes) }?;
                self.settle()?;
            }
            return Ok(Item { address: owner.as_ptr(), owner, bytes, dims });
        }
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
    pub(crate) fn cell(&mut self, instruction: &Instruction) -> Result<()> {
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
