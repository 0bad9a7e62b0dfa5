//! Launches: operands gathered, group counts and scratch evaluated, groups shared among workers.
//! A single group, or a pool of one, runs on the calling thread without any other cost.

use crate::{
    code::{Function, Launch, Ready},
    context::{Context, Part},
    device::Work,
    error::{Error, Result, Status, fail},
    pool::Pool,
};
use oaax_abi::{DeviceFault, FAULT_DIVISION, FAULT_INDEX, KERNEL_VERSION, KernelEnv, KernelFault, SlotId};
use std::{
    ffi::c_void,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};

/// Parts of a region for each worker: small enough to balance, large enough to be cheap.
const SHARES: u64 = 4;

/// Gathers the operands of launch `index` into the context; the slot that is bound to nothing, if any, is given back.
pub fn prepare(ready: &Ready, context: &mut Context, index: u32) -> Result<std::result::Result<(), SlotId>> {
    let launch = &ready.launches[index as usize];
    let (buffers, dims) = (context.pointers.len(), context.dims.len());
    for slot in &launch.buffers {
        let address = context.bindings[slot.index()].address;
        if address.is_null() {
            context.pointers.truncate(buffers);
            return Ok(Err(*slot));
        }
        context.pointers.push(address.cast());
    }
    for dim in &launch.dims {
        context.dims.push(dim.get(&ready.program, &context.registers)?);
    }
    let values = &context.dims[dims..];
    let groups = launch.groups.get(&ready.program, values)?;
    let scratch = launch.scratch.get(&ready.program, values)?;
    if groups < 0 || scratch < 0 {
        fail!(RunFailed, "a launch of {groups} groups with {scratch} bytes of scratch");
    }
    context.reserve_scratch(scratch as u64)?;
    let first = context.parts.last().map_or(0, |part| part.first + part.groups);
    let (buffers, dims, groups) = (buffers as u32, dims as u32, groups as u64);
    context.parts.push(Part { launch: index, buffers, dims, first, groups });
    Ok(Ok(()))
}

/// Forgets prepared launches.
pub fn clear(context: &mut Context) {
    context.parts.clear();
    context.pointers.clear();
    context.dims.clear();
}

/// The context's lists as workers see them.
struct Region<'a> {
    launches: &'a [Launch],
    parts: &'a [Part],
    pointers: &'a [*mut c_void],
    dims: &'a [i64],
    scratch: *mut u8,
    stride: u64,
    faults: *mut KernelFault,
    workers: u32,
}

// SAFETY: the lists are only read; each worker touches its own scratch and fault slot.
unsafe impl Sync for Region<'_> {}

impl Region<'_> {
    fn env(&self, worker: usize) -> KernelEnv {
        KernelEnv {
            struct_size: size_of::<KernelEnv>() as u32,
            version: KERNEL_VERSION,
            worker: worker as u32,
            workers: self.workers,
            scratch: self.scratch.wrapping_add(worker * self.stride as usize).cast(),
            scratch_size: self.stride,
            fault: self.faults.wrapping_add(worker),
        }
    }

    /// Runs groups begin..end of a part.
    fn call(&self, env: &KernelEnv, part: &Part, begin: u64, end: u64) -> i32 {
        let buffers = self.pointers[part.buffers as usize..].as_ptr();
        let dims = self.dims[part.dims as usize..].as_ptr();
        match self.launches[part.launch as usize].function {
            // SAFETY: the kernel gets as many buffers and dims as its table says (validated), each bound;
            // that it stays inside them is the compiler's contract, bound by the artefact's digests.
            Function::Host(function) => unsafe { function(env, buffers, dims, begin, end) },
            Function::Device { .. } => unreachable!("regions hold launches for the host alone"),
        }
    }

    /// Takes groups of all parts from `next` until there are none; a fault ends the region.
    fn work(&self, worker: usize, next: &AtomicU64, chunk: u64, total: u64, failed: &AtomicUsize) {
        let env = self.env(worker);
        loop {
            let begin = next.fetch_add(chunk, Ordering::Relaxed);
            if begin >= total {
                return;
            }
            let end = total.min(begin + chunk);
            let start = self.parts.partition_point(|part| part.first + part.groups <= begin);
            for (index, part) in self.parts.iter().enumerate().skip(start) {
                if end <= part.first {
                    break;
                }
                let (from, to) = (begin.max(part.first) - part.first, (end - part.first).min(part.groups));
                if from < to && self.call(&env, part, from, to) != 0 {
                    // The first part in order is blamed, so that the message does not depend on threads.
                    failed.fetch_min(index << 16 | worker, Ordering::Relaxed);
                    next.store(total, Ordering::Relaxed);
                }
            }
        }
    }
}

/// Puts launch `index` on the device's queue; the slot that is bound to nothing, if any, is given back.
pub fn enqueue(ready: &Ready, context: &mut Context, index: u32) -> Result<std::result::Result<(), SlotId>> {
    let launch = &ready.launches[index as usize];
    let Function::Device { object, function, threads } = launch.function else {
        fail!(Internal, "a launch for the host is put on a device's queue")
    };
    let (Some(lane), Some(Some(module))) = (&mut context.lane, ready.modules.get(object as usize)) else {
        fail!(Internal, "a launch for a device, and there is none")
    };
    let values = lane.arguments();
    for slot in &launch.buffers {
        let address = context.bindings[slot.index()].address;
        if address.is_null() {
            return Ok(Err(*slot));
        }
        values.push(address.addr() as u64);
    }
    context.dims.clear();
    for dim in &launch.dims {
        context.dims.push(dim.get(&ready.program, &context.registers)?);
    }
    let groups = launch.groups.get(&ready.program, &context.dims)?;
    let scratch = launch.scratch.get(&ready.program, &context.dims)?;
    if groups < 0 || scratch < 0 {
        fail!(RunFailed, "a launch of {groups} groups with {scratch} bytes of scratch");
    }
    if groups > 0 {
        let work = Work { groups: groups as u64, threads, scratch: scratch as u64 };
        // SAFETY: the kernel gets as many buffers and dims as its table says (validated), each bound on the device;
        // that it stays inside them is the compiler's contract, bound by the artefact's digests.
        unsafe { lane.launch(&**module, function as usize, index, &context.dims, work) }?;
    }
    context.dims.clear();
    Ok(Ok(()))
}

/// The error of a fault that a device's kernel recorded.
pub fn device_fault(ready: &Ready, record: DeviceFault) -> Error {
    let fault = KernelFault { code: record.code, place: record.place, value: record.value, limit: record.limit };
    match usize::try_from(record.launch).ok().filter(|launch| *launch < ready.launches.len()) {
        Some(launch) => blame(ready, launch as u32, fault),
        None => Error::new(Status::Internal, format!("a kernel recorded a fault of launch {}, which is none", record.launch)),
    }
}

/// Runs what was prepared.
pub fn run(ready: &Ready, context: &mut Context, pool: &Pool) -> Result<()> {
    let total = context.parts.last().map_or(0, |part| part.first + part.groups);
    let region = Region {
        launches: &ready.launches,
        parts: &context.parts,
        pointers: &context.pointers,
        dims: &context.dims,
        scratch: context.scratch.as_ref().map_or(std::ptr::null_mut(), |scratch| scratch.as_ptr()),
        stride: context.stride,
        faults: context.faults.as_mut_ptr(),
        workers: context.faults.len() as u32,
    };
    let failed = match total {
        0 => None,
        1 => {
            let part = region.parts.iter().position(|part| part.groups == 1).expect("one group is in one part");
            (region.call(&region.env(0), &region.parts[part], 0, 1) != 0).then_some((part, 0))
        }
        _ if pool.workers() == 1 => {
            let env = region.env(0);
            let bad = |part: &Part| part.groups > 0 && region.call(&env, part, 0, part.groups) != 0;
            region.parts.iter().position(bad).map(|part| (part, 0))
        }
        _ => {
            let (next, failed) = (AtomicU64::new(0), AtomicUsize::new(usize::MAX));
            let chunk = (total / (pool.workers() as u64 * SHARES)).max(1);
            pool.run(&|worker| region.work(worker, &next, chunk, total, &failed));
            Some(failed.into_inner()).filter(|failed| *failed != usize::MAX).map(|failed| (failed >> 16, failed & 0xffff))
        }
    };
    match failed {
        None => Ok(()),
        Some((part, worker)) => {
            let fault = std::mem::take(&mut context.faults[worker]);
            context.faults.fill(KernelFault::default());
            Err(blame(ready, context.parts[part].launch, fault))
        }
    }
}

/// The error of a kernel's fault, with the node that it came from.
fn blame(ready: &Ready, launch: u32, fault: KernelFault) -> Error {
    let launch = &ready.launches[launch as usize];
    let kernel = &ready.program.kernels[launch.kernel as usize];
    let message = match fault.code {
        FAULT_INDEX => format!("index {} lies outside -{1} to {1} (exclusive)", fault.value, fault.limit),
        FAULT_DIVISION => "an integer is divided by zero".to_owned(),
        _ => format!("kernel {} stopped: value {}, limit {}", ready.program.text(kernel.name), fault.value, fault.limit),
    };
    let step = ready.program.steps[launch.step as usize].node;
    // One kernel serves many launches: place 0 is the launch's own node.
    let place = kernel.places.get(fault.place as usize).copied();
    let node = if fault.place == 0 { step.or(place) } else { place.or(step) }.unwrap_or(kernel.origin);
    Error::new(Status::RunFailed, message).at(ready.program.text(node))
}
