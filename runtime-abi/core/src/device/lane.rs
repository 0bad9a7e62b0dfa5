//! What one run needs of a device: a queue, the fault record, arena, scratch, blocks for heap values.
//!
//! Promises: everything of a run is on one queue, so nothing overtakes; host memory that the queue may still
//! touch is waited for before the host touches it (`settle`); no block is freed while the queue may use it;
//! a launch allocates nothing; a fault that a kernel recorded is found wherever the queue is waited for.

use super::{Arguments, Block, Driver, Entered, Handle, Module};
use crate::error::{Error, Result, Status};
use oaax_abi::{ALIGN, DeviceFault};
use std::{ffi::c_void, ptr::null_mut, sync::Arc};

/// Work groups of a launch at most; kernels loop over the groups that are left.
const MOST_GROUPS: u64 = 1 << 16;
/// Bytes of scratch that all groups of a launch share: with more for each, fewer are launched.
const SCRATCH: u64 = 256 << 20;
/// Blocks kept for heap values between runs.
const SPARES: usize = 16;

/// The device side of a context.
pub struct Lane {
    driver: Arc<dyn Driver>,
    queue: Handle,
    fault: Option<Block>,
    /// Where the fault record arrives; boxed, as the queue holds its address.
    record: Box<DeviceFault>,
    /// The record on the device is not all zero.
    is_stained: bool,
    /// A single element on its way.
    cell: Box<[u8; 8]>,
    arena: Option<Block>,
    scratch: Option<Block>,
    spares: Vec<Arc<Block>>,
    values: Vec<u64>,
    addresses: Vec<*mut c_void>,
    /// Something was put on the queue since it was last waited for.
    is_busy: bool,
    /// The queue may still read or write host memory that the run changes or reads.
    is_unsettled: bool,
}

impl std::fmt::Debug for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Lane on {}", self.driver.found().name)
    }
}

impl Lane {
    /// A lane for kernels of at most `arguments` arguments.
    pub fn new(driver: &Arc<dyn Driver>, arguments: usize) -> Result<Lane> {
        let mut lane = Lane {
            driver: driver.clone(),
            queue: driver.open_queue()?,
            fault: None,
            record: Box::default(),
            is_stained: true,
            cell: Box::default(),
            arena: None,
            scratch: None,
            spares: Vec::new(),
            values: Vec::with_capacity(arguments),
            addresses: vec![null_mut(); arguments],
            is_busy: false,
            is_unsettled: false,
        };
        lane.fault = Some(Block::new(driver, size_of::<DeviceFault>() as u64)?);
        Ok(lane)
    }

    /// Makes the device current on this thread, and the fault record clean.
    pub fn begin(&mut self) -> Result<Entered> {
        let entered = Entered::new(&self.driver)?;
        if self.is_stained {
            static CLEAN: DeviceFault = DeviceFault { state: 0, launch: 0, code: 0, place: 0, value: 0, limit: 0 };
            self.is_busy = true;
            // SAFETY: the record on the device is as large; the source is constant.
            unsafe {
                self.driver.upload(self.queue, self.fault_address(), (&raw const CLEAN).cast(), size_of::<DeviceFault>() as u64)
            }?;
            self.is_stained = false;
        }
        Ok(entered)
    }

    fn fault_address(&self) -> u64 {
        self.fault.as_ref().map_or(0, Block::address)
    }

    /// Waits for the queue if anything is on it; gives the fault that a kernel recorded.
    pub fn wait(&mut self) -> Result<Option<DeviceFault>> {
        if !self.is_busy {
            return Ok(None);
        }
        let (to, bytes) = ((&raw mut *self.record).cast(), size_of::<DeviceFault>() as u64);
        // SAFETY: the record here and on the device has that size; this waits for it.
        let read = unsafe { self.driver.download(self.queue, to, self.fault_address(), bytes) };
        let waited = self.driver.wait(self.queue);
        (self.is_busy, self.is_unsettled) = (false, false);
        waited.and(read)?;
        // SAFETY: the driver wrote the record before the wait ended.
        let record = unsafe { (&raw const *self.record).read_volatile() };
        self.is_stained = record.state != 0;
        Ok(self.is_stained.then_some(record))
    }

    /// Waits if the queue may still touch host memory.
    pub fn settle(&mut self) -> Result<Option<DeviceFault>> {
        if self.is_unsettled { self.wait() } else { Ok(None) }
    }

    /// After a failed run: empties the queue whatever it says. The error of the run counts.
    pub fn recover(&mut self) {
        self.is_busy = false;
        self.is_unsettled = false;
        self.is_stained = true;
        if let Ok(_entered) = Entered::new(&self.driver) {
            let _ = self.driver.wait(self.queue);
        }
    }

    /// Puts a copy to the device on the queue. `constant`: the source stays as it is until the run ends.
    ///
    /// # Safety
    /// Both sides hold `bytes` bytes until the lane is settled (the end of the run, for a constant source).
    pub unsafe fn upload(&mut self, to: u64, from: *const u8, bytes: u64, constant: bool) -> Result<()> {
        self.is_busy = true;
        self.is_unsettled |= !constant;
        // SAFETY: by this function's contract.
        unsafe { self.driver.upload(self.queue, to, from, bytes) }
    }

    /// Puts a copy to the host on the queue.
    ///
    /// # Safety
    /// Both sides hold `bytes` bytes until the lane is settled.
    pub unsafe fn download(&mut self, to: *mut u8, from: u64, bytes: u64) -> Result<()> {
        self.is_busy = true;
        self.is_unsettled = true;
        // SAFETY: by this function's contract.
        unsafe { self.driver.download(self.queue, to, from, bytes) }
    }

    /// Puts a copy inside the device on the queue.
    ///
    /// # Safety
    /// Both sides hold `bytes` bytes until the run ends.
    pub unsafe fn copy(&mut self, to: u64, from: u64, bytes: u64) -> Result<()> {
        self.is_busy = true;
        // SAFETY: by this function's contract.
        unsafe { self.driver.copy(self.queue, to, from, bytes) }
    }

    /// Reads an element of `bytes` ≤ 8 bytes; waits.
    ///
    /// # Safety
    /// The device has them at `from`.
    pub unsafe fn read_cell(&mut self, from: u64, bytes: usize) -> Result<([u8; 8], Option<DeviceFault>)> {
        *self.cell = [0; 8];
        let to = self.cell.as_mut_ptr();
        // SAFETY: by this function's contract; the cell lives in a box and is waited for.
        let put = unsafe { self.download(to, from, bytes as u64) };
        let fault = self.wait()?;
        put?;
        Ok((*self.cell, fault))
    }

    /// Writes an element of `size` ≤ 8 bytes; waits.
    ///
    /// # Safety
    /// The device has room for them at `to`.
    pub unsafe fn write_cell(&mut self, to: u64, bytes: [u8; 8], size: usize) -> Result<Option<DeviceFault>> {
        *self.cell = bytes;
        let from = self.cell.as_ptr();
        // SAFETY: by this function's contract; the cell lives in a box and is waited for.
        let put = unsafe { self.upload(to, from, size as u64, false) };
        let fault = self.wait()?;
        put.map(|()| fault)
    }

    /// The arena, of at least `bytes` bytes: first address. What it held is lost if it grows.
    pub fn arena(&mut self, bytes: u64) -> Result<u64> {
        if self.arena.as_ref().is_none_or(|arena| arena.capacity() < bytes) {
            if self.arena.is_some() {
                self.drain()?;
                self.arena = None; // Before the larger one is asked for.
            }
            self.arena = Some(self.block(bytes)?);
        }
        Ok(self.arena.as_ref().map_or(0, Block::address))
    }

    /// Bytes of the arena.
    pub fn arena_bytes(&self) -> u64 {
        self.arena.as_ref().map_or(0, Block::capacity)
    }

    /// Empties the queue so that blocks may be freed; a fault stays on the device for the next wait.
    fn drain(&mut self) -> Result<()> {
        match self.is_busy {
            true => self.driver.wait(self.queue),
            false => Ok(()),
        }
    }

    /// A block; where memory is short, spare blocks are given back first.
    fn block(&mut self, bytes: u64) -> Result<Block> {
        match Block::new(&self.driver, bytes) {
            Err(error) if error.status == Status::OutOfMemory && !self.spares.is_empty() => {
                self.drain()?;
                self.spares.clear();
                Block::new(&self.driver, bytes)
            }
            made => made,
        }
    }

    /// A block for a heap value: a spare one if one fits. The queue's order makes it safe to use again at once.
    pub fn heap(&mut self, bytes: u64) -> Result<Arc<Block>> {
        let fits = |spare: &Arc<Block>| (bytes..=bytes.saturating_mul(2).saturating_add(4096)).contains(&spare.capacity());
        match self.spares.iter().position(fits) {
            Some(index) => Ok(self.spares.swap_remove(index)),
            None => self.block(bytes).map(Arc::new),
        }
    }

    /// Takes a hold on a block back: one that nobody else holds is kept, as the queue may still use it.
    pub fn recycle(&mut self, owner: Option<Arc<Block>>) {
        if let Some(mut owner) = owner
            && Arc::get_mut(&mut owner).is_some()
        {
            self.spares.push(owner);
            // A loop over ever other sizes must not gather blocks without end.
            if self.spares.len() > 4 * SPARES && self.drain().is_ok() {
                self.spares.clear();
            }
        }
    }

    /// Frees spare blocks beyond the usual number; the queue is empty.
    pub fn trim(&mut self) {
        if !self.is_busy {
            self.spares.truncate(SPARES);
        }
    }

    /// Begins the arguments of a launch: its buffers follow one by one, then `launch`.
    pub fn arguments(&mut self) -> &mut Vec<u64> {
        self.values.clear();
        &mut self.values
    }

    /// Puts a launch on the queue: `groups` groups with `scratch` bytes each. Buffers are in `arguments`, which this completes.
    ///
    /// # Safety
    /// The buffers and dims are what function `function` of `module` takes, and live until the run ends.
    pub unsafe fn launch(&mut self, module: &dyn Module, function: usize, number: u32, dims: &[i64], work: Work) -> Result<()> {
        let Work { groups, threads, scratch } = work;
        let Some(scratch) = scratch.checked_next_multiple_of(ALIGN) else {
            return Err(Error::new(Status::OutOfMemory, format!("scratch of {scratch} bytes")));
        };
        let limit = SCRATCH.checked_div(scratch).unwrap_or(MOST_GROUPS).clamp(1, MOST_GROUPS);
        let launched = groups.min(limit);
        let needed = scratch.saturating_mul(launched);
        if needed > 0 && self.scratch.as_ref().is_none_or(|block| block.capacity() < needed) {
            if self.scratch.is_some() {
                self.drain()?;
                self.scratch = None;
            }
            self.scratch = Some(self.block(needed)?);
        }
        let buffers = self.values.len();
        let fault = self.fault_address();
        self.values.extend(dims.iter().map(|dim| *dim as u64));
        // Without scratch the pointer is still a good one: some drivers refuse others.
        self.values.push(self.scratch.as_ref().map_or(fault, Block::address));
        self.values.extend([fault, launched, number as u64]);
        if self.addresses.len() < self.values.len() {
            self.addresses.resize(self.values.len(), null_mut());
        }
        let addresses = &mut self.addresses[..self.values.len()];
        let mut arguments = Arguments { values: &self.values, addresses, buffers };
        self.is_busy = true;
        // SAFETY: by this function's contract; scratch and fault record live as long as the lane.
        unsafe { module.launch(self.queue, function, launched as u32, threads, &mut arguments) }
    }
}

/// The size of a launch.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Groups, at least one.
    pub groups: u64,
    /// Threads of each.
    pub threads: u32,
    /// Bytes of scratch of each.
    pub scratch: u64,
}

// SAFETY: a lane is used by one run at a time; its addresses point into itself.
unsafe impl Send for Lane {}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Ok(_entered) = Entered::new(&self.driver) {
            let _ = self.driver.wait(self.queue); // Nothing is freed under the queue's feet.
        }
        self.driver.close_queue(self.queue);
    }
}
