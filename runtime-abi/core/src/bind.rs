//! The borders of a run: inputs are checked and bound, outputs get memory and are handed out.

use crate::{
    buffer::Buffer,
    code::Ready,
    context::{Context, address_or_empty, elements},
    error::{Error, Result, Status, fail},
    run::wait,
    value::{Item, Memory, Output, Tensor, Value},
};
use oaax_abi::{DType, DimBind, DimRule, Input, InputShape, MAX_RANK, Program, SlotId, SlotKind, Space, UNRANKED_DIMS};
use std::sync::Arc;

/// Checks all inputs against the program and sets the registers that their dims bind.
pub fn check_inputs(program: &Program, registers: &mut [i64], values: &[Value<'_>]) -> Result<()> {
    if values.len() != program.inputs.len() {
        fail!(InvalidArgument, "the model takes {} inputs, {} are given", program.inputs.len(), values.len());
    }
    for (input, value) in program.inputs.iter().zip(values) {
        let name = program.text(input.name);
        tensors(value).iter().try_for_each(|tensor| check_tensor(name, input.dtype, tensor))?;
        match (program.slots[input.slot.index()].kind, value) {
            (SlotKind::Input(_), Value::Tensor(tensor)) => bind_dims(program, registers, input, tensor)?,
            (SlotKind::Sequence, Value::Sequence(_)) | (SlotKind::Optional, _) => {}
            _ => fail!(TypeMismatch, "input {name:?} is not of the kind that the model takes (tensor, sequence, optional)"),
        }
    }
    for (input, value) in program.inputs.iter().zip(values) {
        let (InputShape::Ranked(rules), Value::Tensor(tensor)) = (&input.shape, value) else { continue };
        for (axis, rule) in rules.iter().enumerate() {
            check_dim(program, registers, input, axis, rule, tensor.dims[axis])?;
        }
    }
    Ok(())
}

/// Checks all inputs and binds them.
pub fn bind_inputs(ready: &Ready, context: &mut Context, values: &[Value<'_>]) -> Result<()> {
    check_inputs(&ready.program, &mut context.registers, values)?;
    for (input, value) in ready.program.inputs.iter().zip(values) {
        match (value, &input.shape) {
            (Value::Tensor(tensor), InputShape::Ranked(_) | InputShape::Unranked { .. }) => {
                bind_tensor(context, input, tensor)?;
            }
            _ => {
                let cell = &mut context.cells[input.slot.index()];
                cell.present = !matches!(value, Value::Absent);
                for tensor in tensors(value) {
                    let owner = Arc::new(Buffer::copy_of(tensor.data)?);
                    let (address, bytes) = (owner.as_ptr().cast_const(), tensor.data.len() as u64);
                    cell.items.push(Item { owner, address, bytes, dims: tensor.dims.to_vec() });
                }
            }
        }
    }
    Ok(())
}

/// The tensors of a value.
fn tensors<'a>(value: &'a Value<'_>) -> &'a [Tensor<'a>] {
    match value {
        Value::Tensor(tensor) => std::slice::from_ref(tensor),
        Value::Sequence(tensors) => tensors,
        Value::Absent => &[],
    }
}

/// Type, rank and byte count of a tensor.
fn check_tensor(name: &str, dtype: DType, tensor: &Tensor<'_>) -> Result<()> {
    if tensor.dtype != dtype {
        fail!(TypeMismatch, "input {name:?} is {}, the model takes {}", tensor.dtype.name(), dtype.name());
    }
    if tensor.dims.len() > MAX_RANK || tensor.dims.iter().any(|dim| *dim < 0) {
        fail!(ShapeMismatch, "input {name:?} has the impossible shape {:?}", tensor.dims);
    }
    let bytes = elements(tensor.dims).and_then(|elements| dtype.bytes(elements));
    match bytes == Some(tensor.data.len() as u64) {
        true => Ok(()),
        false => fail!(
            InvalidArgument,
            "input {name:?}: {} bytes do not fit the shape {:?} of {}",
            tensor.data.len(),
            tensor.dims,
            dtype.name()
        ),
    }
}

/// Checks the rank of a tensor and sets the registers that its dims bind.
fn bind_dims(program: &Program, registers: &mut [i64], input: &Input, tensor: &Tensor<'_>) -> Result<()> {
    let name = program.text(input.name);
    match &input.shape {
        InputShape::Ranked(rules) if rules.len() != tensor.dims.len() => {
            fail!(
                ShapeMismatch,
                "input {name:?} has rank {}, the model takes rank {}: {}",
                tensor.dims.len(),
                rules.len(),
                shape_text(program, rules)
            )
        }
        InputShape::Ranked(rules) => {
            for (rule, dim) in rules.iter().zip(tensor.dims) {
                if let DimBind::Bind(reg) = rule.bind {
                    registers[reg.index()] = *dim;
                }
            }
        }
        InputShape::Unranked { rank, first } => {
            let Some(padding) = (UNRANKED_DIMS as usize).checked_sub(tensor.dims.len()) else {
                fail!(ShapeMismatch, "input {name:?} has rank {}, at most {UNRANKED_DIMS} are taken", tensor.dims.len());
            };
            registers[rank.index()] = tensor.dims.len() as i64;
            let dims = &mut registers[first.index()..][..UNRANKED_DIMS as usize];
            dims[..padding].fill(1);
            dims[padding..].copy_from_slice(tensor.dims);
        }
        InputShape::Cell => fail!(Internal, "input {name:?} is a cell"),
    }
    Ok(())
}

/// Binds a checked tensor; one that is not aligned to its element is copied.
fn bind_tensor(context: &mut Context, input: &Input, tensor: &Tensor<'_>) -> Result<()> {
    let mut address = address_or_empty(tensor.data.as_ptr(), tensor.data.len());
    if !(address as u64).is_multiple_of(input.dtype.align()) {
        let copy = Buffer::copy_of(tensor.data)?;
        address = copy.as_ptr();
        context.copies.push(copy);
    }
    let binding = &mut context.bindings[input.slot.index()];
    binding.address = address;
    binding.bytes = tensor.data.len() as u64;
    binding.dims.clear();
    binding.dims.extend_from_slice(tensor.dims);
    Ok(())
}

fn check_dim(program: &Program, registers: &[i64], input: &Input, axis: usize, rule: &DimRule, found: i64) -> Result<()> {
    let (name, symbol) = (program.text(input.name), program.text(rule.symbol));
    let named = if symbol.is_empty() { String::new() } else { format!(" ({symbol})") };
    if let DimBind::Expect(expr) = rule.bind {
        let wanted = program.eval(expr, registers)?;
        if wanted != found {
            fail!(ShapeMismatch, "input {name:?}, dim {axis}{named}: wanted {wanted}, found {found}");
        }
    }
    if found < rule.min || rule.max < found {
        let max = if rule.max == i64::MAX { "any".to_owned() } else { rule.max.to_string() };
        fail!(ShapeMismatch, "input {name:?}, dim {axis}{named}: wanted {} to {max}, found {found}", rule.min);
    }
    if found % rule.multiple != 0 {
        fail!(ShapeMismatch, "input {name:?}, dim {axis}{named}: wanted a multiple of {}, found {found}", rule.multiple);
    }
    Ok(())
}

/// Dim rules as people read them: `[N, 3, 224, 224]`.
pub fn shape_text(program: &Program, rules: &[DimRule]) -> String {
    let dim = |rule: &DimRule| match (program.text(rule.symbol), rule.bind) {
        ("", DimBind::Expect(expr)) => program.eval(expr, &[]).map_or("?".to_owned(), |size| size.to_string()),
        ("", DimBind::Bind(_)) => "?".to_owned(),
        (symbol, _) => symbol.to_owned(),
    };
    format!("[{}]", rules.iter().map(dim).collect::<Vec<_>>().join(", "))
}

/// Gives output `port` memory for the dims in its slot's binding, and binds the slot to it.
pub fn allocate_output(program: &Program, context: &mut Context, slot: SlotId, port: usize, output: &mut Output) -> Result<()> {
    let bytes = context.size_of(program, slot)?;
    let address = output_memory(program, port, output, bytes)?;
    let binding = &mut context.bindings[slot.index()];
    binding.address = address;
    binding.bytes = bytes;
    output.dims.clear();
    output.dims.extend_from_slice(&binding.dims);
    Ok(())
}

/// Memory of `bytes` bytes for an output.
fn output_memory(program: &Program, port: usize, output: &mut Output, bytes: u64) -> Result<*mut u8> {
    let Some(row) = program.outputs.get(port) else { fail!(Internal, "output {port} does not exist") };
    output.bytes = bytes;
    match &mut output.memory {
        Memory::Runtime(Some(buffer)) if buffer.capacity() >= bytes => Ok(buffer.as_ptr()),
        Memory::Runtime(place) => Ok(place.insert(Buffer::new(bytes)?).as_ptr()),
        Memory::Caller { capacity, .. } if *capacity < bytes => {
            fail!(OutputTooSmall, "output {:?} needs {bytes} bytes, {capacity} are given", program.text(row.name))
        }
        Memory::Caller { start, .. } => {
            let start = address_or_empty(*start, bytes as usize);
            match (start as u64).is_multiple_of(row.dtype.align()) && !start.is_null() {
                true => Ok(start),
                false => {
                    fail!(InvalidArgument, "the memory for output {:?} is not aligned to its element", program.text(row.name))
                }
            }
        }
    }
}

/// After the last instruction: copies out what no kernel wrote in place.
pub fn finish_outputs(ready: &Ready, context: &mut Context, outputs: &mut [Output]) -> Result<()> {
    let program = &ready.program;
    for (port, (row, output)) in program.outputs.iter().zip(outputs).enumerate() {
        output.items = None;
        let slot = row.slot;
        let name = program.text(row.name);
        match program.slots[slot.index()].kind {
            SlotKind::Output(_) if context.bindings[slot.index()].address.is_null() => {
                context.evaluate_dims(program, slot)?;
                if context.size_of(program, slot)? != 0 {
                    fail!(Internal, "output {name:?} was never written");
                }
                allocate_output(program, context, slot, port, output)?;
            }
            SlotKind::Output(_) => {}
            SlotKind::Sequence | SlotKind::Optional => {
                let cell = &mut context.cells[slot.index()];
                output.items = cell.present.then(|| std::mem::take(&mut cell.items));
                (output.bytes, output.dims) = (0, Vec::new());
            }
            _ => {
                let dims = context.dims_of(program, slot)?;
                output.dims.clear();
                output.dims.extend_from_slice(dims);
                let binding = &context.bindings[slot.index()];
                if binding.address.is_null() {
                    return Err(Error::new(Status::Internal, format!("output {name:?} was never bound")));
                }
                let bytes = elements(&output.dims).and_then(|elements| row.dtype.bytes(elements));
                let Some(bytes) = bytes.filter(|bytes| *bytes <= binding.bytes) else {
                    fail!(Internal, "output {name:?} is larger than its value");
                };
                let (from, to) = (binding.address, output_memory(program, port, output, bytes)?);
                match program.space(slot) {
                    // SAFETY: both sides have `bytes` bytes; the caller promised that outputs overlap nothing.
                    Space::Host => unsafe { from.copy_to(to, bytes as usize) },
                    Space::Device if bytes == 0 => {}
                    // SAFETY: as above; the wait below comes before anyone reads them.
                    Space::Device => unsafe { context.device()?.download(to, from.addr() as u64, bytes) }?,
                }
            }
        }
    }
    wait(ready, context)
}
