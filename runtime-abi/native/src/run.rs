//! A run across the border: C's values in, C's outputs out.

use crate::{
    Outcome, invalid,
    objects::Session,
    types::{ABSENT, Output, SEQUENCE, TENSOR, Tensor, Value},
};
use oaax_core::{
    Memory, Status,
    abi::{DType, SlotKind},
};

/// What an output keeps between runs: memory, dims, items.
struct Keep {
    output: oaax_core::Output,
    items: Vec<Tensor>,
}

/// Runs; outputs are filled also on an error, as far as `bytes` goes.
///
/// # Safety
/// Values and outputs as the header says.
pub unsafe fn run(session: &Session, inputs: &[Value], outputs: &mut [Output]) -> Outcome<()> {
    let mut values = Vec::with_capacity(inputs.len());
    for input in inputs {
        // SAFETY: by this function's contract.
        values.push(unsafe { value(input) }?);
    }
    let mut places = Vec::with_capacity(outputs.len());
    for output in &mut *outputs {
        if (output.struct_size as usize) < size_of::<Output>() {
            return Err(invalid("an output's struct_size is too small"));
        }
        // SAFETY: `keep` is null or what the last run left.
        places.push(unsafe { place(output) });
    }
    let outcome = session.0.run(&values, &mut places);
    let program = session.0.model().program();
    for (index, (output, place)) in outputs.iter_mut().zip(places).enumerate() {
        let Some(row) = program.outputs.get(index) else { continue };
        let is_cell = matches!(program.slots[row.slot.index()].kind, SlotKind::Sequence | SlotKind::Optional);
        // SAFETY: as above.
        unsafe { fill(output, place, row.dtype, is_cell, outcome.is_ok()) };
    }
    outcome
}

/// # Safety
/// A value as the header says.
unsafe fn value<'a>(given: &Value) -> Outcome<oaax_core::Value<'a>> {
    if (given.struct_size as usize) < size_of::<Value>() {
        return Err(invalid("a value's struct_size is too small"));
    }
    if given.kind == ABSENT {
        return Ok(oaax_core::Value::Absent);
    }
    if given.count > 0 && given.tensors.is_null() {
        return Err(invalid("a value's tensors are NULL"));
    }
    let count = usize::try_from(given.count).map_err(|_| invalid("a value has too many tensors"))?;
    // SAFETY: by this function's contract; a null pointer goes with no tensors.
    let tensors = if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(given.tensors, count) } };
    // SAFETY: by this function's contract.
    let mut list = tensors.iter().map(|given| unsafe { tensor(given) }).collect::<Outcome<Vec<_>>>()?;
    match (given.kind, list.len()) {
        (TENSOR, 1) => Ok(oaax_core::Value::Tensor(list.remove(0))),
        (SEQUENCE, _) => Ok(oaax_core::Value::Sequence(list)),
        _ => Err(invalid("a value is neither one tensor nor a sequence nor absent")),
    }
}

/// # Safety
/// A tensor as the header says.
unsafe fn tensor<'a>(given: &Tensor) -> Outcome<oaax_core::Tensor<'a>> {
    if (given.struct_size as usize) < size_of::<Tensor>() {
        return Err(invalid("a tensor's struct_size is too small"));
    }
    let Some(dtype) = DType::from_onnx(given.dtype) else { return Err(invalid("a tensor's dtype is unknown")) };
    let missing = (given.dims.is_null() && given.rank > 0) || (given.data.is_null() && given.bytes > 0);
    if missing || given.rank > 64 || given.bytes > isize::MAX as u64 {
        return Err(invalid("a tensor's dims or data are NULL or impossible"));
    }
    // SAFETY: by this function's contract; null pointers go with nothing.
    unsafe {
        let dims = if given.rank == 0 { &[] } else { std::slice::from_raw_parts(given.dims, given.rank as usize) };
        let data = if given.bytes == 0 { &[] } else { std::slice::from_raw_parts(given.data.cast(), given.bytes as usize) };
        Ok(oaax_core::Tensor { dtype, dims, data })
    }
}

/// The core's output for a C output: its memory of the last run, or the caller's.
///
/// # Safety
/// `keep` is null or what the last run left.
unsafe fn place(output: &mut Output) -> oaax_core::Output {
    let mut kept = match output.keep.is_null() {
        true => oaax_core::Output::default(),
        // SAFETY: by this function's contract; it is taken once, as the pointer is cleared.
        false => unsafe { Box::from_raw(std::mem::replace(&mut output.keep, std::ptr::null_mut()).cast::<Keep>()) }.output,
    };
    match (&kept.memory, output.own_data.is_null()) {
        (_, false) => {
            kept.memory = Memory::Caller { start: output.own_data.cast(), capacity: output.capacity };
        }
        (Memory::Caller { .. }, true) => kept.memory = Memory::Runtime(None),
        (Memory::Runtime(_), true) => {}
    }
    kept
}

/// Tells the caller what an output holds.
unsafe fn fill(output: &mut Output, place: oaax_core::Output, dtype: DType, is_cell: bool, good: bool) {
    output.bytes = place.bytes;
    output.dtype = dtype.onnx();
    let tensor = |item: &oaax_core::Item| Tensor {
        struct_size: size_of::<Tensor>() as u32,
        dtype: dtype.onnx(),
        rank: item.dims.len() as u32,
        reserved: 0,
        dims: item.dims.as_ptr(),
        data: item.data().as_ptr().cast(),
        bytes: item.data().len() as u64,
    };
    // The items' own blocks do not move when `place` moves into the box.
    let items: Vec<Tensor> = place.items.iter().flatten().map(tensor).collect();
    let keep = Box::new(Keep { output: place, items });
    output.kind = match (&keep.output.items, is_cell) {
        (Some(_), _) => SEQUENCE,
        (None, true) => ABSENT,
        (None, false) => TENSOR,
    };
    let shown = good && !is_cell;
    output.data = if shown { keep.output.address().cast() } else { std::ptr::null() };
    output.rank = if shown { keep.output.dims.len() as u32 } else { 0 };
    output.dims = if shown { keep.output.dims.as_ptr() } else { std::ptr::null() };
    output.count = keep.items.len() as u64;
    output.items = keep.items.as_ptr();
    output.keep = Box::into_raw(keep).cast();
}

/// Frees what a run left.
///
/// # Safety
/// `keep` is null or what the last run left.
pub unsafe fn release(output: &mut Output) {
    let keep = std::mem::replace(&mut output.keep, std::ptr::null_mut());
    if !keep.is_null() {
        // SAFETY: by this function's contract; cleared, so freed once.
        drop(unsafe { Box::from_raw(keep.cast::<Keep>()) });
    }
    (output.data, output.dims, output.items) = (std::ptr::null(), std::ptr::null(), std::ptr::null());
    (output.bytes, output.count, output.rank) = (0, 0, 0);
}

/// Keeps the status that the header gives for too small outputs in step.
const _: () = assert!(Status::OutputTooSmall as i32 == 10);
