//! OAAX tensors ↔ the core's: inputs are checked and borrowed, outputs allocated block by block from
//! the C heap, as the host frees them.

use crate::{
    config::text,
    types::{TensorDescriptor, Tensors},
};
use oaax_core::{Output, PortInfo, Tensor, Value, abi::DType};
use oaax_service::{Failure, Outcome, Status, block};
use std::ffi::{c_char, c_int, c_void};

/// Whether OAAX 2.0 has a form for such an input or output.
pub fn admit(port: &PortInfo) -> Outcome<()> {
    let refuse = |why: String| Err(Failure::new(Status::NotImplemented, format!("{:?} {why}", port.name)));
    if port.dtype == DType::String {
        return refuse("is of strings, for which OAAX has no layout".to_owned());
    }
    match port.dims.iter().flatten().find(|dim| dim.size > i64::from(c_int::MAX)) {
        Some(dim) => refuse(format!("has the size {}, and OAAX has 32 bits for one", dim.size)),
        None => Ok(()),
    }
}

/// An input that the runtime has taken over; freed on drop.
pub struct Request {
    raw: *mut Tensors,
    id: i32,
    dims: Vec<Vec<i64>>,
    /// For each input of the model, which tensor it is.
    order: Vec<usize>,
}

// SAFETY: by the interface, an accepted input belongs to the runtime alone.
unsafe impl Send for Request {}

impl Request {
    /// Looks through the caller's tensors and matches them with the model's inputs: by name, or by
    /// order if no tensor has a name. Takes nothing over yet: `disown` before dropping on failure.
    ///
    /// # Safety
    /// `raw` points to `Tensors` as the header says.
    pub unsafe fn read(raw: *mut Tensors, inputs: &[PortInfo]) -> Outcome<Request> {
        // SAFETY: by this function's contract.
        let given = unsafe { &*raw };
        if given.num_tensors != inputs.len() as i32 || (given.tensors.is_null() && !inputs.is_empty()) {
            let message = format!("{} tensors are given, the model takes {}", given.num_tensors, inputs.len());
            return Err(invalid(message));
        }
        let mut request = Request { raw, id: given.id, dims: Vec::new(), order: Vec::new() };
        // SAFETY: as above.
        let outcome = unsafe { request.fill(inputs) };
        match outcome {
            Ok(()) => Ok(request),
            Err(failure) => {
                request.disown();
                Err(failure)
            }
        }
    }

    unsafe fn fill(&mut self, inputs: &[PortInfo]) -> Outcome<()> {
        let (mut names, mut shapes) = (Vec::new(), Vec::new());
        for descriptor in self.descriptors() {
            // SAFETY: names are strings or null.
            names.push(unsafe { text(descriptor.name) }.unwrap_or_default());
            let rank = usize::try_from(descriptor.rank).ok().filter(|rank| *rank <= 64);
            let Some(rank) = rank.filter(|rank| *rank == 0 || !descriptor.shape.is_null()) else {
                return Err(invalid("a tensor has no shape or an impossible rank".to_owned()));
            };
            // SAFETY: the shape has `rank` entries.
            let shape = if rank == 0 { &[][..] } else { unsafe { std::slice::from_raw_parts(descriptor.shape, rank) } };
            if shape.iter().any(|dim| *dim < 0) || (descriptor.data.is_null() && descriptor.data_size > 0) {
                return Err(invalid("a tensor has a negative dim or no data".to_owned()));
            }
            let dims = shape.iter().map(|dim| *dim as i64).collect();
            if descriptor.data_size > isize::MAX as usize {
                return Err(invalid("a tensor's data_size is impossible".to_owned()));
            }
            shapes.push(dims);
        }
        self.dims = shapes;
        if names.iter().all(String::is_empty) {
            self.order = (0..inputs.len()).collect();
            return Ok(());
        }
        for input in inputs {
            let mut found = (0..names.len()).filter(|index| names[*index] == input.name);
            match (found.next(), found.next()) {
                (Some(index), None) => self.order.push(index),
                (None, _) => return Err(invalid(format!("input {:?} is not given", input.name))),
                _ => return Err(invalid(format!("input {:?} is given twice", input.name))),
            }
        }
        Ok(())
    }

    fn descriptors(&self) -> &[TensorDescriptor] {
        // SAFETY: `raw` has as many tensors, checked not to be null, until it is freed.
        unsafe {
            match (*self.raw).num_tensors {
                0 => &[],
                count => std::slice::from_raw_parts((*self.raw).tensors, count as usize),
            }
        }
    }

    /// Leaves the tensors to the caller.
    pub fn disown(&mut self) {
        self.raw = std::ptr::null_mut();
    }
}

impl oaax_service::Request for Request {
    type Response = Response;

    fn id(&self) -> i32 {
        self.id
    }

    fn values(&self) -> Outcome<Vec<Value<'_>>> {
        let descriptors = self.descriptors();
        let value = |index: &usize| {
            let descriptor = &descriptors[*index];
            let dtype = u32::try_from(descriptor.data_type).ok().and_then(DType::from_onnx);
            let Some(dtype) = dtype else {
                let message = format!("a tensor has the unknown type {}", descriptor.data_type);
                return Err(Failure::new(Status::TypeMismatch, message));
            };
            let data = match descriptor.data_size {
                0 => &[][..],
                // SAFETY: the data have `data_size` bytes, checked not to be null.
                size => unsafe { std::slice::from_raw_parts(descriptor.data.cast::<u8>(), size) },
            };
            Ok(Value::Tensor(Tensor { dtype, dims: &self.dims[*index], data }))
        };
        self.order.iter().map(value).collect()
    }

    fn respond(&self, outputs: Vec<Output>, ports: &[PortInfo]) -> Outcome<Response> {
        Response::new(self.id, outputs, ports)
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        // SAFETY: accepted tensors are ours; a disowned one is null.
        unsafe { free(self.raw) };
    }
}

/// Frees tensors block by block.
///
/// # Safety
/// `raw` is null or tensors whose every block came from `malloc` and belongs to us.
pub unsafe fn free(raw: *mut Tensors) {
    if raw.is_null() {
        return;
    }
    // SAFETY: by this function's contract; `free` takes null.
    unsafe {
        for index in 0..(*raw).num_tensors.max(0) as usize {
            if (*raw).tensors.is_null() {
                break;
            }
            let tensor = (*raw).tensors.add(index);
            libc::free((*tensor).name.cast());
            libc::free((*tensor).shape.cast());
            libc::free((*tensor).data);
        }
        libc::free((*raw).tensors.cast());
        libc::free(raw.cast());
    }
}

/// An output on its way to the host; freed on drop unless given away.
pub struct Response(*mut Tensors);

// SAFETY: the tensors belong to this value alone.
unsafe impl Send for Response {}

impl Response {
    /// Outputs of a run as OAAX tensors. The data blocks are handed over, not copied.
    pub fn new(id: i32, outputs: Vec<Output>, ports: &[PortInfo]) -> Outcome<Response> {
        // SAFETY: zeroed blocks of the right sizes are valid structs; each pointer is set to a block of its own.
        unsafe {
            let raw = block::<Tensors>(1)?;
            let response = Response(raw);
            (*raw).tensors = block::<TensorDescriptor>(outputs.len())?;
            (*raw).id = id;
            for (index, (output, port)) in outputs.into_iter().zip(ports).enumerate() {
                let tensor = (*raw).tensors.add(index);
                (*raw).num_tensors = index as c_int + 1;
                (*tensor).name = block::<c_char>(port.name.len() + 1)?;
                port.name.as_ptr().copy_to_nonoverlapping((*tensor).name.cast(), port.name.len());
                (*tensor).data_type = port.dtype.onnx() as c_int;
                (*tensor).rank = output.dims.len() as c_int;
                (*tensor).shape = block::<c_int>(output.dims.len())?;
                for (axis, dim) in output.dims.iter().enumerate() {
                    *(*tensor).shape.add(axis) = c_int::try_from(*dim).map_err(|_| {
                        Failure::new(Status::InferenceError, format!("a dim of output {:?} does not fit 32 bits", port.name))
                    })?;
                }
                (*tensor).data_size = output.bytes as usize;
                if let oaax_core::Memory::Runtime(Some(buffer)) = output.memory {
                    (*tensor).data = buffer.into_raw().cast::<c_void>();
                }
            }
            Ok(response)
        }
    }

    /// Gives the tensors to the host.
    pub fn give_away(self) -> *mut Tensors {
        let raw = self.0;
        std::mem::forget(self);
        raw
    }
}

impl Drop for Response {
    fn drop(&mut self) {
        // SAFETY: every block is ours and from the C heap.
        unsafe { free(self.0) };
    }
}

fn invalid(message: String) -> Failure {
    Failure::new(Status::InvalidTensor, message)
}
