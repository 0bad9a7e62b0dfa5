//! What goes into a run and what comes out of it.

use crate::buffer::Buffer;
use oaax_abi::DType;
use std::sync::Arc;

/// A tensor of the caller: type, dims, and its bytes in row-major order, little endian.
#[derive(Clone, Copy, Debug)]
pub struct Tensor<'a> {
    /// Element type.
    pub dtype: DType,
    /// Dims.
    pub dims: &'a [i64],
    /// Exactly as many bytes as type and dims say.
    pub data: &'a [u8],
}

/// An input.
#[derive(Clone, Debug)]
pub enum Value<'a> {
    /// A tensor; also a present optional tensor.
    Tensor(Tensor<'a>),
    /// A sequence of tensors; also a present optional sequence.
    Sequence(Vec<Tensor<'a>>),
    /// An absent optional.
    Absent,
}

/// A tensor that the runtime owns and shares.
#[derive(Clone, Debug)]
pub struct Item {
    pub(crate) owner: Arc<Buffer>,
    pub(crate) address: *const u8,
    pub(crate) bytes: u64,
    /// Dims.
    pub dims: Vec<i64>,
}

// SAFETY: the address lies in the buffer that `owner` keeps; nobody writes a shared buffer.
unsafe impl Send for Item {}
// SAFETY: as above.
unsafe impl Sync for Item {}

impl Item {
    /// Its bytes.
    pub fn data(&self) -> &[u8] {
        // SAFETY: `bytes` bytes from `address` on lie inside the buffer that `owner` keeps, and were written.
        unsafe { std::slice::from_raw_parts(self.address, self.bytes as usize) }
    }
}

/// Where an output goes.
#[derive(Debug)]
pub enum Memory {
    /// Memory of the runtime; a block that is there is used again if it is large enough.
    Runtime(Option<Buffer>),
    /// Memory of the caller.
    Caller {
        /// Aligned to the element.
        start: *mut u8,
        /// Bytes that may be written.
        capacity: u64,
    },
}

/// An output of a run. Give the same one to the next run to use its memory again.
#[derive(Debug)]
pub struct Output {
    /// Where it goes; the tensor begins at its first byte.
    pub memory: Memory,
    /// Dims of the tensor.
    pub dims: Vec<i64>,
    /// Bytes of the tensor.
    pub bytes: u64,
    /// Elements of a sequence or of a present optional; `None` for a tensor and an absent optional.
    pub items: Option<Vec<Item>>,
}

impl Default for Output {
    fn default() -> Output {
        Output { memory: Memory::Runtime(None), dims: Vec::new(), bytes: 0, items: None }
    }
}

impl Output {
    /// An output in the caller's memory.
    ///
    /// # Safety
    /// `start` must be good for writes of `capacity` bytes until the run that gets it has ended, and
    /// must overlap no input and no other output.
    pub unsafe fn in_memory(start: *mut u8, capacity: u64) -> Output {
        Output { memory: Memory::Caller { start, capacity }, ..Output::default() }
    }

    /// First byte of the tensor (null before a run).
    pub fn address(&self) -> *const u8 {
        match &self.memory {
            Memory::Runtime(buffer) => buffer.as_ref().map_or(std::ptr::null(), |buffer| buffer.as_ptr()),
            Memory::Caller { start, .. } => *start,
        }
    }

    /// Bytes of the tensor that the last successful run wrote.
    pub fn data(&self) -> &[u8] {
        match self.address() {
            start if start.is_null() || self.bytes == 0 => &[],
            // SAFETY: a successful run set `bytes` and wrote them; `in_memory` promises the caller's part.
            start => unsafe { std::slice::from_raw_parts(start, self.bytes as usize) },
        }
    }
}
