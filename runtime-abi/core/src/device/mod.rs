//! Accelerators: what a driver is, which are there, and how one is opened.
//!
//! Promises: nothing of a vendor is linked, libraries are opened when a variant asks for a device and
//! stay in the process (their threads outlive any handle); all memory, queues and modules are given back
//! when their owners are dropped; an error names the call, the driver's own name for it, and its code.
//! Never: chooses among variants (`choose.rs`), knows a host program (`lane.rs` is the only bridge).

mod archive;
mod cuda;
mod hip;
mod lane;
mod library;
mod memory;
mod opencl;
mod opencl_calls;
mod streams;
#[cfg(test)]
mod tests;

pub use lane::{Lane, Work};
pub use memory::{Block, Weights};

use crate::error::Result;
use std::{ffi::c_void, sync::Arc};

/// A way to reach devices.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// AMD, through `libamdhip64`.
    Hip,
    /// NVIDIA, through `libcuda`.
    Cuda,
    /// Anything with an OpenCL driver that takes SPIR-V, through `libOpenCL`.
    OpenCl,
}

impl Kind {
    /// All kinds by their names in manifests and on command lines.
    pub const ALL: [(&'static str, Kind); 3] = [("hip", Kind::Hip), ("cuda", Kind::Cuda), ("opencl", Kind::OpenCl)];

    /// The kind of a name.
    pub fn named(name: &str) -> Option<Kind> {
        Kind::ALL.iter().find(|row| row.0 == name).map(|row| row.1)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        Kind::ALL[self as usize].0
    }
}

/// A device that a driver found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// Its number among the devices of its kind, as `--device` takes it.
    pub index: u32,
    /// As the driver calls it.
    pub name: String,
    /// `gfx942`, `sm_90`; empty for OpenCL.
    pub architecture: String,
    /// Bytes of its memory.
    pub memory: u64,
}

/// A queue, or another opaque thing of a driver.
pub type Handle = *mut c_void;

/// Arguments of a launch: `buffers` addresses, then dims, scratch, fault, launched groups, and the launch's
/// number in the low half of the last value.
pub struct Arguments<'a> {
    /// One word each.
    pub values: &'a [u64],
    /// A place for the address of each value.
    pub addresses: &'a mut [*mut c_void],
    /// How many of the values are buffers.
    pub buffers: usize,
}

/// A loaded code object. Functions have the numbers of the symbols that it was loaded for.
pub trait Module: Send + Sync {
    /// Puts a launch of `groups` groups of `threads` threads on the queue.
    ///
    /// # Safety
    /// Inside `enter`. The arguments are what the kernel takes, and their memory lives until the queue is waited for.
    unsafe fn launch(
        &self,
        queue: Handle,
        function: usize,
        groups: u32,
        threads: u32,
        arguments: &mut Arguments<'_>,
    ) -> Result<()>;
}

/// One device, opened. May be used from many threads at once; a queue by one at a time.
pub trait Driver: Send + Sync {
    /// What it is.
    fn found(&self) -> &Found;
    /// Makes the device the current one of this thread; gives what `leave` wants.
    fn enter(&self) -> Result<i32>;
    /// Restores what was current before.
    fn leave(&self, before: i32);
    /// Bytes on the device, aligned to 256 at least.
    fn allocate(&self, bytes: u64) -> Result<u64>;
    /// Gives them back. Nothing on a queue may use them any more.
    fn free(&self, address: u64);
    /// A new queue; what is put on it happens in order.
    fn open_queue(&self) -> Result<Handle>;
    /// Gives a queue back.
    fn close_queue(&self, queue: Handle);
    /// Puts a copy from host memory on the queue.
    ///
    /// # Safety
    /// Inside `enter`; both sides hold `bytes` bytes until the queue is waited for.
    unsafe fn upload(&self, queue: Handle, to: u64, from: *const u8, bytes: u64) -> Result<()>;
    /// Puts a copy to host memory on the queue.
    ///
    /// # Safety
    /// As for `upload`.
    unsafe fn download(&self, queue: Handle, to: *mut u8, from: u64, bytes: u64) -> Result<()>;
    /// Puts a copy inside the device on the queue.
    ///
    /// # Safety
    /// As for `upload`.
    unsafe fn copy(&self, queue: Handle, to: u64, from: u64, bytes: u64) -> Result<()>;
    /// Waits until the queue is empty.
    fn wait(&self, queue: Handle) -> Result<()>;
    /// Loads a code object that must hold all of `symbols`.
    fn load(&self, object: &[u8], symbols: &[&str]) -> Result<Box<dyn Module>>;
}

/// The devices of a kind, or why there are none: what was looked for and what came of it.
pub fn probe(kind: Kind) -> std::result::Result<Vec<Found>, String> {
    match kind {
        Kind::Hip => hip::probe(),
        Kind::Cuda => cuda::probe(),
        Kind::OpenCl => opencl::probe(),
    }
}

/// Opens a device that `probe` found.
pub fn open(kind: Kind, found: &Found) -> Result<Arc<dyn Driver>> {
    Ok(match kind {
        Kind::Hip => Arc::new(hip::open(found)?),
        Kind::Cuda => Arc::new(cuda::open(found)?),
        Kind::OpenCl => Arc::new(opencl::OpenCl::open(found, true)?),
    })
}

/// Holds a device current on this thread.
pub struct Entered {
    driver: Arc<dyn Driver>,
    before: i32,
}

impl Entered {
    /// Enters.
    pub fn new(driver: &Arc<dyn Driver>) -> Result<Entered> {
        let before = driver.enter()?;
        Ok(Entered { driver: driver.clone(), before })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        self.driver.leave(self.before);
    }
}
