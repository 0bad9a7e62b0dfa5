//! Kernels that read only constants run now, in the interpreter: the scale and shift of a batch
//! normalisation, a rearranged bias. What they write becomes a constant.
//!
//! Within a budget of elements, so that a build never computes what a run would do faster.

use std::collections::BTreeMap;

use oaaxc_ir::Tensor;
use oaaxc_ir::interpret::{kernel::run, store};
use oaaxc_ir::kernel::{Item, Kernel, Layout, Role, Step};
use oaaxc_ir::program::{Instr, Launch, Program, SlotId, SlotKind};

use crate::kernel::uses::{Uses, uses};

/// Most scalar operations that one kernel may take at build time.
const BUDGET: i64 = 1 << 20;

/// Runs them; returns how many kernels became constants.
pub fn precompute(program: &mut Program) -> usize {
    let uses = uses(program);
    let list = std::mem::take(&mut program.body);
    let mut kept = Vec::new();
    let mut done = 0;
    for instr in list {
        match &instr {
            Instr::Launch(launch) if become_constant(program, launch, &uses) => done += 1,
            _ => kept.push(instr),
        }
    }
    program.body = kept;
    done
}

fn become_constant(program: &mut Program, launch: &Launch, uses: &BTreeMap<SlotId, Uses>) -> bool {
    let mut memory = Vec::new();
    let mut results: Vec<(usize, SlotId)> = Vec::new();
    for (i, (slot, (_, buffer))) in launch.slots.iter().zip(launch.kernel.arguments()).enumerate() {
        let dims: Option<Vec<i64>> = buffer.dims.iter().map(|d| d.as_const()).collect();
        let Some(dims) = dims else { return false };
        match (&program.slots[*slot].kind, buffer.role) {
            (SlotKind::Constant(tensor), Role::In) => memory.push(store(tensor, &buffer.layout).to_vec()),
            (SlotKind::Temp, Role::Out) if buffer.layout.is_plain() => {
                let only_writer = uses.get(slot).is_some_and(|u| u.writers.len() == 1 && u.other == 0);
                if !only_writer {
                    return false;
                }
                let elements: i64 = dims.iter().product();
                memory.push(vec![0; usize::try_from(elements).unwrap_or(0) * buffer.dtype.size()]);
                results.push((i, *slot));
            }
            _ => return false,
        }
    }
    if widens(launch) {
        return false;
    }
    if results.is_empty() || work(&launch.kernel).is_none_or(|w| w > BUDGET) {
        return false;
    }
    // A fault is for the run to report.
    if run(&launch.kernel, &mut memory, &|_| None).is_err() {
        return false;
    }
    for (i, slot) in results {
        let (dtype, dims) = program.tensor(slot);
        let dims = dims.iter().map(|d| d.as_const().and_then(|d| usize::try_from(d).ok()).unwrap_or(0)).collect();
        let tensor = Tensor::from_bytes(dtype, dims, std::mem::take(&mut memory[i]));
        program.slots[slot].kind = SlotKind::Constant(tensor);
        program.slots[slot].layout = Layout::default();
    }
    true
}

/// Bytes of a constant that may grow.
const SMALL: i64 = 4096;

/// Whether the constants that a kernel reads are stored narrow and what it writes is not: then it stays, so that the
/// artefact holds the narrow ones alone.
fn widens(launch: &Launch) -> bool {
    let bytes = |role: Role| {
        let buffers = launch.kernel.arguments().filter(move |(_, b)| b.role == role);
        buffers.map(|(_, b)| b.dims.iter().filter_map(|d| d.as_const()).product::<i64>() * b.dtype.size() as i64).sum::<i64>()
    };
    let is_narrow = launch.kernel.arguments().any(|(_, b)| b.role == Role::In && b.dtype.size() < 4);
    is_narrow && bytes(Role::Out) > SMALL.max(bytes(Role::In))
}

/// Scalar operations of a kernel, where every extent is a number.
fn work(kernel: &Kernel) -> Option<i64> {
    let product =
        |axes: &[oaaxc_ir::kernel::LoopAxis]| axes.iter().try_fold(1i64, |p, a| p.checked_mul(a.extent.as_const()?.max(1)));
    fn items(list: &[Item], product: &dyn Fn(&[oaaxc_ir::kernel::LoopAxis]) -> Option<i64>) -> Option<i64> {
        let mut sum = 0i64;
        for item in list {
            let part = match item {
                Item::Sequential { axis, body } => items(body, product)?.checked_mul(product(std::slice::from_ref(axis))?)?,
                Item::Step(Step::Loop(l)) => {
                    let ops = (l.body.ops.len() + l.post.ops.len()) as i64;
                    product(&l.parallel)?.checked_mul(product(&l.reduce)?)?.checked_mul(ops)?
                }
                Item::Step(Step::Contract(c)) => {
                    [&c.batch, &c.m, &c.n, &c.k].into_iter().try_fold(4i64, |p, axes| p.checked_mul(product(axes)?))?
                }
                Item::Step(Step::Sort(_) | Step::Compact(_)) => return None,
            };
            sum = sum.checked_add(part)?;
        }
        Some(sum)
    }
    product(&kernel.parallel)?.checked_mul(items(&kernel.body, &product)?)
}
