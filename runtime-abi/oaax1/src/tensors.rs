//! The struct of arrays of OAAX 1.x ↔ the core's tensors: inputs are checked and borrowed, outputs
//! allocated block by block from the C heap, as the host frees them.

use oaax_core::{Memory, Output, PortInfo, Tensor, Value, abi::DType};
use oaax_service::{Failure, Outcome, Status, block};
use std::ffi::{CStr, c_char, c_int, c_void};

/// `tensors_struct`.
#[repr(C)]
pub struct Tensors {
    pub num_tensors: usize,
    pub names: *mut *mut c_char,
    pub data_types: *mut c_int,
    pub ranks: *mut usize,
    pub shapes: *mut *mut usize,
    pub data: *mut *mut c_void,
}

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Tensors>() == 48 && offset_of!(Tensors, names) == 8 && offset_of!(Tensors, data_types) == 16);
    assert!(offset_of!(Tensors, ranks) == 24 && offset_of!(Tensors, shapes) == 32 && offset_of!(Tensors, data) == 40);
};

/// The type of this number, if OAAX 1.x has it.
pub fn dtype(number: c_int) -> Option<DType> {
    let known = (1..=9).contains(&number) || (11..=13).contains(&number);
    DType::from_onnx(u32::try_from(number).ok().filter(|_| known)?)
}

/// What the model's tensor is called in messages, and whether OAAX 1.x has its type.
pub fn admit(port: &PortInfo) -> Outcome<()> {
    match dtype(port.dtype.onnx() as c_int) {
        Some(DType::String) | None => {
            let message = format!("{:?} is of type {}, for which OAAX 1.x has no form", port.name, port.dtype.name());
            Err(Failure::new(Status::NotImplemented, message))
        }
        Some(_) => Ok(()),
    }
}

/// One tensor of an input, looked through.
struct Part {
    name: String,
    dtype: DType,
    dims: Vec<i64>,
    data: *const u8,
    bytes: usize,
}

/// An input that the runtime has taken over; freed on drop.
pub struct Request {
    raw: *mut Tensors,
    number: i32,
    parts: Vec<Part>,
    /// For each input of the model, which part it is.
    order: Vec<usize>,
}

// SAFETY: by the interface, an accepted input belongs to the runtime alone.
unsafe impl Send for Request {}

impl Request {
    /// Looks through the caller's tensors and matches them with the model's inputs: by name, or by order
    /// if no tensor has a name. Takes nothing over yet: `disown` before dropping on failure.
    ///
    /// # Safety
    /// `raw` points to tensors as the header says.
    pub unsafe fn read(raw: *mut Tensors, number: i32, inputs: &[PortInfo]) -> Outcome<Request> {
        // SAFETY: by this function's contract.
        let given = unsafe { &*raw };
        if given.num_tensors != inputs.len() {
            let message = format!("{} tensors are given, the model takes {}", given.num_tensors, inputs.len());
            return Err(invalid(message));
        }
        let arrays = [given.data_types.is_null(), given.ranks.is_null(), given.shapes.is_null(), given.data.is_null()];
        if given.num_tensors > 0 && arrays.contains(&true) {
            return Err(invalid("one of the arrays data_types, ranks, shapes, data is NULL"));
        }
        // SAFETY: the arrays have `num_tensors` entries.
        let parts: Outcome<Vec<Part>> = (0..given.num_tensors).map(|index| unsafe { part(given, index) }).collect();
        let parts = parts?;
        let order = order(&parts, inputs)?;
        Ok(Request { raw, number, parts, order })
    }

    /// Leaves the tensors to the caller.
    pub fn disown(&mut self) {
        self.raw = std::ptr::null_mut();
    }
}

unsafe fn part(given: &Tensors, index: usize) -> Outcome<Part> {
    // SAFETY: arrays of `num_tensors` entries, `shapes[i]` of `ranks[i]`; names are strings or null.
    unsafe {
        let name = match given.names.is_null() || (*given.names.add(index)).is_null() {
            true => String::new(),
            false => CStr::from_ptr(*given.names.add(index)).to_string_lossy().into_owned(),
        };
        let number = *given.data_types.add(index);
        let dtype = dtype(number).filter(|dtype| *dtype != DType::String);
        let dtype = dtype.ok_or_else(|| {
            let message = format!("tensor {index} {name:?} has the type {number}, which this runtime does not take");
            Failure::new(Status::TypeMismatch, message)
        })?;
        let (rank, shape, data) = (*given.ranks.add(index), *given.shapes.add(index), *given.data.add(index));
        if rank > 64 || (rank > 0 && shape.is_null()) {
            return Err(invalid(format!("tensor {index} {name:?} has no shape or the impossible rank {rank}")));
        }
        let shape = if rank == 0 { &[][..] } else { std::slice::from_raw_parts(shape, rank) };
        let dims: Option<Vec<i64>> = shape.iter().map(|dim| i64::try_from(*dim).ok()).collect();
        let elements = shape.iter().try_fold(1u64, |product, dim| product.checked_mul(*dim as u64));
        let bytes = elements.and_then(|elements| dtype.bytes(elements)).filter(|bytes| *bytes <= isize::MAX as u64);
        let (Some(dims), Some(bytes)) = (dims, bytes) else {
            return Err(invalid(format!("tensor {index} {name:?} has the impossible shape {shape:?}")));
        };
        if data.is_null() && bytes > 0 {
            return Err(invalid(format!("tensor {index} {name:?} has no data")));
        }
        Ok(Part { name, dtype, dims, data: data.cast_const().cast(), bytes: bytes as usize })
    }
}

fn order(parts: &[Part], inputs: &[PortInfo]) -> Outcome<Vec<usize>> {
    if parts.iter().all(|part| part.name.is_empty()) {
        return Ok((0..inputs.len()).collect());
    }
    let place = |input: &PortInfo| {
        let mut found = (0..parts.len()).filter(|index| parts[*index].name == input.name);
        match (found.next(), found.next()) {
            (Some(index), None) => Ok(index),
            (None, _) => Err(invalid(format!("input {:?} is not given", input.name))),
            _ => Err(invalid(format!("input {:?} is given twice", input.name))),
        }
    };
    inputs.iter().map(place).collect()
}

impl oaax_service::Request for Request {
    type Response = Response;

    fn id(&self) -> i32 {
        self.number
    }

    fn values(&self) -> Outcome<Vec<Value<'_>>> {
        let value = |index: &usize| {
            let part = &self.parts[*index];
            let data = match part.bytes {
                0 => &[][..],
                // SAFETY: the block has as many bytes, by the interface, and is ours or the caller's until the call returns.
                bytes => unsafe { std::slice::from_raw_parts(part.data, bytes) },
            };
            Value::Tensor(Tensor { dtype: part.dtype, dims: &part.dims, data })
        };
        Ok(self.order.iter().map(value).collect())
    }

    fn respond(&self, outputs: Vec<Output>, ports: &[PortInfo]) -> Outcome<Response> {
        Response::new(outputs, ports)
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        // SAFETY: accepted tensors are ours; a disowned one is null.
        unsafe { free(self.raw) };
    }
}

/// Frees tensors block by block; arrays may be null.
///
/// # Safety
/// `raw` is null or tensors whose every block came from `malloc` and belongs to us.
unsafe fn free(raw: *mut Tensors) {
    if raw.is_null() {
        return;
    }
    // SAFETY: by this function's contract; `free` takes null.
    unsafe {
        let tensors = &*raw;
        free_all(tensors.names.cast(), tensors.num_tensors);
        free_all(tensors.shapes.cast(), tensors.num_tensors);
        free_all(tensors.data, tensors.num_tensors);
        libc::free(tensors.data_types.cast());
        libc::free(tensors.ranks.cast());
        libc::free(raw.cast());
    }
}

unsafe fn free_all(array: *mut *mut c_void, count: usize) {
    if !array.is_null() {
        // SAFETY: as above.
        unsafe {
            (0..count).for_each(|index| libc::free(*array.add(index)));
            libc::free(array.cast());
        }
    }
}

/// An output on its way to the host; freed on drop unless given away.
pub struct Response(*mut Tensors);

// SAFETY: the tensors belong to this value alone.
unsafe impl Send for Response {}

impl Response {
    /// Outputs of a run as OAAX tensors. The data blocks are handed over, not copied.
    fn new(outputs: Vec<Output>, ports: &[PortInfo]) -> Outcome<Response> {
        let count = outputs.len();
        // SAFETY: zeroed blocks of the right sizes are valid; each pointer is set to a block of its own.
        unsafe {
            let raw = block::<Tensors>(1)?;
            let response = Response(raw);
            let tensors = &mut *raw;
            tensors.names = block(count)?;
            tensors.data_types = block(count)?;
            tensors.ranks = block(count)?;
            tensors.shapes = block(count)?;
            tensors.data = block(count)?;
            tensors.num_tensors = count;
            for (index, (output, port)) in outputs.into_iter().zip(ports).enumerate() {
                let name = block::<c_char>(port.name.len() + 1)?;
                *tensors.names.add(index) = name;
                port.name.as_ptr().copy_to_nonoverlapping(name.cast(), port.name.len());
                *tensors.data_types.add(index) = port.dtype.onnx() as c_int;
                *tensors.ranks.add(index) = output.dims.len();
                let shape = block::<usize>(output.dims.len())?;
                *tensors.shapes.add(index) = shape;
                output.dims.iter().enumerate().for_each(|(axis, dim)| *shape.add(axis) = *dim as usize);
                *tensors.data.add(index) = match output.memory {
                    Memory::Runtime(Some(buffer)) => buffer.into_raw().cast(),
                    _ => block::<u8>(1)?.cast(),
                };
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

fn invalid(message: impl Into<String>) -> Failure {
    Failure::new(Status::InvalidTensor, message)
}
