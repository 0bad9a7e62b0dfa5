//! The interpreter: runs a program and its kernels as they are written. The second oracle.
//!
//! Slow by intent, and exact: every index is checked, every operation has the meaning of `arithmetic`.
//! Both spaces of a placed program are memory here, and touching a slot from the other space is a fault.

pub mod arithmetic;
pub mod kernel;

use std::collections::BTreeMap;

use bytes::Bytes;
use oaaxc_base::SideTable;

use crate::expr::{Expr, SymId};
use crate::interpret::kernel::{Memory, storage_len};
use crate::kernel::{Kernel, Layout};
use crate::program::{Instr, Program, SlotId, SlotKind, Space};
use crate::scalar::Scalar;
use crate::tensor::Tensor;

/// Why a run stopped.
#[derive(Clone, PartialEq, Debug)]
pub struct Fault {
    /// The sentence.
    pub message: String,
    /// The node, where known.
    pub origin: Option<oaaxc_base::Origin>,
}

impl From<String> for Fault {
    fn from(message: String) -> Fault {
        Fault { message, origin: None }
    }
}

/// Runs one kernel on the memory of its arguments, for these symbols.
pub type RunKernel<'a> = dyn Fn(&Kernel, &mut [Memory], &dyn Fn(SymId) -> Option<i64>) -> Result<(), String> + 'a;

/// Runs a program on tensors, one per input, in order; returns one per output.
pub fn run(program: &Program, inputs: &[Tensor]) -> Result<Vec<Tensor>, Fault> {
    run_with(program, inputs, &kernel::run)
}

/// The same with another way to run kernels: a target's code is tried on whole programs by this.
pub fn run_with(program: &Program, inputs: &[Tensor], run_kernel: &RunKernel) -> Result<Vec<Tensor>, Fault> {
    let (memory, dims) = (SideTable::new(None), SideTable::new(Vec::new()));
    let mut run = Run { program, run_kernel, symbols: BTreeMap::new(), memory, dims };
    if inputs.len() != program.inputs.len() {
        return Err(format!("{} inputs are given, {} are wanted", inputs.len(), program.inputs.len()).into());
    }
    for (&slot, tensor) in program.inputs.iter().zip(inputs) {
        run.bind_input(slot, tensor)?;
    }
    for (id, slot) in program.slots.iter() {
        if let SlotKind::Constant(tensor) = &slot.kind {
            run.memory.set(id, Some(store(tensor, &slot.layout).to_vec()));
            run.dims.set(id, tensor.dims.iter().map(|&d| d as i64).collect());
        }
    }
    run.list(&program.body)?;
    program.outputs.iter().map(|&slot| run.output(slot)).collect()
}

/// A constant's bytes in the order of a layout; padding is zero.
/// A plain layout shares the tensor's own bytes.
pub fn store(tensor: &Tensor, layout: &Layout) -> Bytes {
    if layout.is_plain() {
        return tensor.to_bytes();
    }
    let dims: Vec<i64> = tensor.dims.iter().map(|&d| d as i64).collect();
    let size = tensor.dtype.size();
    let mut out = vec![0; storage_len(layout, &dims, tensor.dtype)];
    let source = tensor.to_bytes();
    // The position is a sum of one part per dim, so a table per dim holds all there is to compute.
    let parts: Vec<Vec<usize>> = (0..dims.len()).map(|d| layout.parts(&dims, d)).collect();
    let mut elements = source.chunks_exact(size);
    scatter(&parts, 0, &mut elements, &mut out, size);
    out.into()
}

/// Writes the elements of row-major order to the sums of their dims' parts.
fn scatter(parts: &[Vec<usize>], base: usize, elements: &mut std::slice::ChunksExact<u8>, out: &mut [u8], size: usize) {
    match parts {
        [] => {
            if let Some(element) = elements.next() {
                out[base * size..(base + 1) * size].copy_from_slice(element);
            }
        }
        [last] => {
            for (part, element) in last.iter().zip(elements) {
                let at = (base + part) * size;
                out[at..at + size].copy_from_slice(element);
            }
        }
        [first, rest @ ..] => {
            for part in first {
                scatter(rest, base + part, elements, out, size);
            }
        }
    }
}

struct Run<'a> {
    program: &'a Program,
    run_kernel: &'a RunKernel<'a>,
    symbols: BTreeMap<SymId, i64>,
    memory: SideTable<SlotId, Option<Memory>>,
    /// Sizes of a slot when it was last written or bound.
    dims: SideTable<SlotId, Vec<i64>>,
}

impl Run<'_> {
    fn value(&self, e: &Expr) -> Result<i64, Fault> {
        e.eval(&|s| self.symbols.get(&s).copied(), &|_| None)
            .ok_or_else(|| Fault::from(format!("cannot evaluate the size {}", self.program.symbols.show(e))))
    }
    fn sizes(&self, slot: SlotId) -> Result<Vec<i64>, Fault> {
        self.program.tensor(slot).1.iter().map(|d| self.value(d)).collect()
    }
    fn bind_input(&mut self, slot: SlotId, tensor: &Tensor) -> Result<(), Fault> {
        let (dtype, dims) = self.program.tensor(slot);
        let name = &self.program.slots[slot].name;
        if tensor.dtype != dtype || tensor.rank() != dims.len() {
            return Err(format!(
                "input \"{name}\" must be {dtype} of rank {}, not {} of rank {}",
                dims.len(),
                tensor.dtype,
                tensor.rank()
            )
            .into());
        }
        for (dim, &size) in dims.iter().zip(&tensor.dims) {
            let size = size as i64;
            match dim.as_sym() {
                Some(s) if !self.symbols.contains_key(&s) => {
                    self.symbols.insert(s, size);
                }
                _ if self.value(dim)? == size => {}
                _ => return Err(format!("input \"{name}\": size {size} must be {}", self.program.symbols.show(dim)).into()),
            }
        }
        self.memory.set(slot, Some(tensor.to_bytes().to_vec()));
        self.dims.set(slot, tensor.dims.iter().map(|&d| d as i64).collect());
        Ok(())
    }
    fn output(&self, slot: SlotId) -> Result<Tensor, Fault> {
        let dims = self.sizes(slot)?;
        let dtype = self.program.tensor(slot).0;
        let bytes = self.memory[slot].clone().unwrap_or_default();
        let dims: Vec<usize> = dims.iter().map(|&d| usize::try_from(d).unwrap_or(0)).collect();
        if bytes.len() != dims.iter().product::<usize>() * dtype.size() {
            return Err(format!("output \"{}\" of {dims:?} was never written", self.program.slots[slot].name).into());
        }
        Ok(Tensor::from_bytes(dtype, dims, bytes))
    }
    fn list(&mut self, list: &[Instr]) -> Result<(), Fault> {
        for instr in list {
            self.instr(instr)?;
        }
        Ok(())
    }
    fn instr(&mut self, instr: &Instr) -> Result<(), Fault> {
        match instr {
            Instr::Launch(launch) => self.launch(launch),
            Instr::Let { symbol, value } => {
                let value = self.value(value)?;
                self.symbols.insert(*symbol, value);
                Ok(())
            }
            Instr::Read { symbol, slot, index } => {
                self.is_in(*slot, Space::Host)?;
                let at = usize::try_from(self.value(index)?).unwrap_or(usize::MAX);
                let dtype = self.program.tensor(*slot).0;
                let bytes = self.memory[*slot].as_ref().and_then(|m| m.chunks(dtype.size()).nth(at));
                let bytes = bytes
                    .ok_or_else(|| Fault::from(format!("cell {at} of \"{}\" does not exist", self.program.slots[*slot].name)))?;
                let value = Scalar::read(dtype, bytes).as_i64();
                self.symbols.insert(*symbol, value);
                Ok(())
            }
            Instr::Write { slot, values } => {
                self.is_in(*slot, Space::Host)?;
                let dtype = self.program.tensor(*slot).0;
                let mut bytes = Vec::new();
                for value in values {
                    Scalar::from_i64(self.value(value)?).cast(dtype).append_to(&mut bytes);
                }
                self.memory.set(*slot, Some(bytes));
                Ok(())
            }
            Instr::Check { holds, message, origin } => match self.value(holds)? {
                0 => Err(Fault { message: message.clone(), origin: Some(origin.clone()) }),
                _ => Ok(()),
            },
            Instr::Alias { to, from } => {
                self.is_in(*from, self.program.slots[*to].space)?;
                let memory = self.memory[*from].clone();
                self.memory.set(*to, memory);
                Ok(())
            }
            Instr::Copy { to, from } => {
                let (target, source) = (&self.program.slots[*to], &self.program.slots[*from]);
                let Some(memory) = self.memory[*from].clone() else {
                    return Err(format!("\"{}\" is copied before it is written", source.name).into());
                };
                let len = storage_len(&target.layout, &self.sizes(*to)?, self.program.tensor(*to).0);
                if memory.len() != len {
                    let message = format!("\"{}\" of {} bytes is copied to {len} bytes", source.name, memory.len());
                    return Err(message.into());
                }
                self.memory.set(*to, Some(memory));
                Ok(())
            }
            Instr::Alloc { slot } => {
                let dims = self.sizes(*slot)?;
                self.memory.set(*slot, Some(vec![0; storage_len(&Layout::default(), &dims, self.program.tensor(*slot).0)]));
                Ok(())
            }
            Instr::If { condition, then, otherwise } => {
                let list = if self.value(condition)? != 0 { then } else { otherwise };
                self.list(list)
            }
            Instr::Loop { counter, trips, condition, body } => {
                let trips = self.value(trips)?;
                self.symbols.insert(*counter, 0);
                while self.symbols[counter] < trips && condition.is_none_or(|c| self.symbols.get(&c).copied().unwrap_or(0) != 0) {
                    self.list(body)?;
                    *self.symbols.get_mut(counter).expect("set above") += 1;
                }
                Ok(())
            }
        }
    }
    /// Fails where a slot lies in the other space.
    fn is_in(&self, slot: SlotId, space: Space) -> Result<(), Fault> {
        let slot = &self.program.slots[slot];
        if slot.space == space {
            return Ok(());
        }
        Err(format!("\"{}\" lies in the memory of the {:?} and is used by the {space:?}", slot.name, slot.space).into())
    }
    fn launch(&mut self, launch: &crate::program::Launch) -> Result<(), Fault> {
        let fault = |message: String| Fault { message, origin: launch.origins.first().cloned() };
        launch.slots.iter().try_for_each(|slot| self.is_in(*slot, launch.space))?;
        let mut memory = Vec::new();
        for (slot, (_, buffer)) in launch.slots.iter().zip(launch.kernel.arguments()) {
            let mut dims = Vec::new();
            for d in &buffer.dims {
                dims.push(self.value(d)?);
            }
            let len = storage_len(&buffer.layout, &dims, buffer.dtype);
            // Several arguments may be the same slot where all only read it.
            let bytes = if buffer.role == crate::kernel::Role::In {
                self.memory[*slot].clone()
            } else {
                self.memory.get_mut(*slot).take()
            };
            match (bytes, buffer.role) {
                (Some(bytes), _) if bytes.len() == len => memory.push(bytes),
                (_, crate::kernel::Role::Out) => memory.push(vec![0; len]),
                (bytes, _) => {
                    let name = &self.program.slots[*slot].name;
                    let has = bytes.map_or("nothing".to_string(), |b| format!("{} bytes", b.len()));
                    return Err(fault(format!("\"{name}\" holds {has}, {len} bytes are read")));
                }
            }
        }
        let symbols = |s: SymId| self.symbols.get(&s).copied();
        (self.run_kernel)(&launch.kernel, &mut memory, &symbols).map_err(fault)?;
        for ((slot, (_, buffer)), bytes) in launch.slots.iter().zip(launch.kernel.arguments()).zip(memory) {
            if buffer.role != crate::kernel::Role::In {
                self.memory.set(*slot, Some(bytes));
            }
        }
        Ok(())
    }
}
