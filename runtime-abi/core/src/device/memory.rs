//! Memory on a device with one owner, and the weights of a model there.

use super::{Driver, Entered};
use crate::error::{Error, Result, Status};
use oaax_abi::{Program, SlotKind, Space};
use std::{collections::BTreeMap, sync::Arc};

/// Bytes between weights, so that each begins where vector loads like it.
const WEIGHT_ALIGN: u64 = 256;

/// An owned block of device memory, given back on drop; no queue may use it then.
pub struct Block {
    driver: Arc<dyn Driver>,
    address: u64,
    bytes: u64,
}

impl std::fmt::Debug for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Block({} bytes)", self.bytes)
    }
}

impl Block {
    /// A block of at least `bytes` bytes (never of none, so that the address is always good).
    pub fn new(driver: &Arc<dyn Driver>, bytes: u64) -> Result<Block> {
        let Some(bytes) = bytes.max(1).checked_next_multiple_of(WEIGHT_ALIGN) else {
            return Err(Error::new(Status::OutOfMemory, format!("{bytes} bytes do not fit any memory")));
        };
        Ok(Block { address: driver.allocate(bytes)?, driver: driver.clone(), bytes })
    }

    /// First byte, as the device counts.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Bytes that may be used.
    pub fn capacity(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        self.driver.free(self.address);
    }
}

/// The weights that a program wants on the device, uploaded once and shared by all sessions.
#[derive(Debug)]
pub struct Weights {
    block: Option<Block>,
    /// By slot: address, or 0 where the slot is no weight on the device.
    pub addresses: Vec<u64>,
}

impl Weights {
    /// Uploads. A constant that several slots name is stored once.
    pub fn upload(driver: &Arc<dyn Driver>, program: &Program, files: &[&[u8]]) -> Result<Weights> {
        let mut parts: BTreeMap<(u32, u64, u64), u64> = BTreeMap::new();
        let mut total = 0u64;
        let weights = || {
            program.slots.iter().enumerate().filter_map(|(index, slot)| match (slot.kind, slot.space) {
                (SlotKind::Weight { file, offset, length }, Space::Device) => Some((index, (file, offset, length))),
                _ => None,
            })
        };
        for (_, part) in weights() {
            parts.entry(part).or_insert_with(|| {
                let place = total;
                total = total.saturating_add(part.2.max(1)).next_multiple_of(WEIGHT_ALIGN);
                place
            });
        }
        let mut addresses = vec![0; program.slots.len()];
        if parts.is_empty() {
            return Ok(Weights { block: None, addresses });
        }
        let block = Block::new(driver, total)?;
        let _inside = Entered::new(driver)?;
        let queue = driver.open_queue()?;
        let upload = |(&(file, offset, length), place): (&(u32, u64, u64), &u64)| {
            let bytes = &files[file as usize][offset as usize..][..length as usize];
            match bytes.is_empty() {
                true => Ok(()),
                // SAFETY: the block has a place for each part; the files stay until the wait below.
                false => unsafe { driver.upload(queue, block.address() + place, bytes.as_ptr(), length) },
            }
        };
        let uploaded = parts.iter().try_for_each(upload);
        let waited = driver.wait(queue);
        driver.close_queue(queue);
        uploaded.and(waited)?;
        for (index, part) in weights() {
            addresses[index] = block.address() + parts[&part];
        }
        Ok(Weights { block: Some(block), addresses })
    }

    /// Bytes on the device.
    pub fn bytes(&self) -> u64 {
        self.block.as_ref().map_or(0, Block::capacity)
    }
}
