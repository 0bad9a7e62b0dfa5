//! Fusion: elementwise work moves into the kernel that makes its operand (an epilogue) or into the
//! one that reads its result (inlining). Chains become one kernel; a tensor that only two kernels
//! knew is never stored.
//!
//! Legal where the tensor has one writer and, for work worth saving, one reader, and nothing between
//! the two kernels writes what moves. Profitable where no work is done twice: an element is computed
//! again only where computing it is as cheap as loading it (views, casts, single additions).

use std::collections::{BTreeMap, BTreeSet};

use oaaxc_ir::expr::SymId;
use oaaxc_ir::kernel::{BufferId, Item, Kernel, Label, Loop, Role, Step};
use oaaxc_ir::program::{Instr, Launch, Program, SlotId, SlotKind};

use crate::kernel::epilogue::epilogue;
use crate::kernel::inline::inline;
use crate::kernel::uses::{Uses, uses};

/// Largest body after fusion, in operations.
const MAX_OPS: usize = 256;
/// Most arguments of a fused kernel.
const MAX_ARGUMENTS: usize = 24;

/// Fuses until nothing more fits; returns how many kernels were saved.
pub fn fuse(program: &mut Program) -> usize {
    let before = program.launches().len();
    loop {
        let uses = uses(program);
        let mut list = std::mem::take(&mut program.body);
        let mut round = Round { program, uses: &uses, changed: false };
        round.list(&mut list);
        let changed = round.changed;
        program.body = list;
        remove_dead(program);
        if !changed {
            break;
        }
    }
    before - program.launches().len()
}

/// Launches that write only temporaries that nobody reads are removed.
pub fn remove_dead(program: &mut Program) {
    loop {
        let uses = uses(program);
        let mut list = std::mem::take(&mut program.body);
        let dead = |launch: &Launch| {
            launch.slots.iter().zip(launch.kernel.arguments()).all(|(slot, (_, buffer))| {
                buffer.role == Role::In || uses.get(slot).is_some_and(|u| u.readers.is_empty() && u.other == 0)
            })
        };
        let mut removed = false;
        retain(&mut list, &mut |launch| {
            let dead = dead(launch);
            removed |= dead;
            !dead
        });
        program.body = list;
        if !removed {
            return;
        }
    }
}

fn retain(list: &mut Vec<Instr>, keep: &mut dyn FnMut(&Launch) -> bool) {
    for instr in list.iter_mut() {
        match instr {
            Instr::If { then, otherwise, .. } => {
                retain(then, keep);
                retain(otherwise, keep);
            }
            Instr::Loop { body, .. } => retain(body, keep),
            _ => {}
        }
    }
    list.retain(|instr| !matches!(instr, Instr::Launch(launch) if !keep(launch)));
}

struct Round<'a> {
    program: &'a Program,
    uses: &'a BTreeMap<SlotId, Uses>,
    changed: bool,
}

impl Round<'_> {
    fn list(&mut self, list: &mut Vec<Instr>) {
        // Where each slot is written in this list. A launch takes part in one fusion per round,
        // since `uses` is of the round's start.
        let mut writer: BTreeMap<SlotId, usize> = BTreeMap::new();
        let mut touched: BTreeSet<usize> = BTreeSet::new();
        let mut gone: BTreeSet<usize> = BTreeSet::new();
        for at in 0..list.len() {
            match &mut list[at] {
                Instr::If { then, otherwise, .. } => {
                    let (mut a, mut b) = (std::mem::take(then), std::mem::take(otherwise));
                    self.list(&mut a);
                    self.list(&mut b);
                    let Instr::If { then, otherwise, .. } = &mut list[at] else { unreachable!("matched above") };
                    (*then, *otherwise) = (a, b);
                    continue;
                }
                Instr::Loop { body, .. } => {
                    let mut inner = std::mem::take(body);
                    self.list(&mut inner);
                    let Instr::Loop { body, .. } = &mut list[at] else { unreachable!("matched above") };
                    *body = inner;
                    continue;
                }
                Instr::Launch(_) => {}
                _ => continue,
            }
            for slot in read_slots(&list[at]) {
                let Some(&from) = writer.get(&slot) else { continue };
                if touched.contains(&from) || touched.contains(&at) {
                    continue;
                }
                let (Instr::Launch(producer), Instr::Launch(consumer)) = (&list[from], &list[at]) else { continue };
                let Some((fused, only_reader)) = self.join(producer, consumer, slot) else { continue };
                if !may_move(&list[from + 1..at], producer) {
                    continue;
                }
                list[at] = Instr::Launch(Box::new(fused));
                touched.insert(at);
                if only_reader {
                    touched.insert(from);
                    gone.insert(from);
                }
                self.changed = true;
            }
            if let Instr::Launch(launch) = &list[at] {
                for (slot, (_, buffer)) in launch.slots.iter().zip(launch.kernel.arguments()) {
                    if buffer.role != Role::In {
                        writer.insert(*slot, at);
                    }
                }
            }
        }
        let mut at = 0;
        list.retain(|_| {
            at += 1;
            !gone.contains(&(at - 1))
        });
    }

    /// The fused launch, to stand in the consumer's place, and whether the producer is no longer needed.
    fn join(&self, producer: &Launch, consumer: &Launch, slot: SlotId) -> Option<(Launch, bool)> {
        let uses = self.uses.get(&slot)?;
        if !matches!(self.program.slots[slot].kind, SlotKind::Temp) || uses.other > 0 || uses.writers.len() != 1 {
            return None;
        }
        // One kernel must not read what it writes itself elsewhere: its pointers do not alias.
        let meet = |a: &Launch, b: &Launch| written_slots(a).any(|w| w != slot && b.slots.contains(&w));
        if meet(producer, consumer) || meet(consumer, producer) {
            return None;
        }
        let only_reader = uses.readers.len() == 1;
        let fused = if only_reader {
            epilogue(producer, consumer, slot).or_else(|| inline(producer, consumer, slot, true))
        } else {
            inline(producer, consumer, slot, false)
        }?;
        let fits = fused.slots.len() <= MAX_ARGUMENTS && ops(&fused.kernel) <= MAX_OPS;
        (fits && oaaxc_ir::kernel::verify(&fused.kernel).is_ok()).then_some((fused, only_reader))
    }
}

fn read_slots(instr: &Instr) -> Vec<SlotId> {
    let Instr::Launch(launch) = instr else { return Vec::new() };
    let mut slots = Vec::new();
    for (slot, (_, buffer)) in launch.slots.iter().zip(launch.kernel.arguments()) {
        if buffer.role == Role::In && !slots.contains(slot) {
            slots.push(*slot);
        }
    }
    slots
}

fn written_slots(launch: &Launch) -> impl Iterator<Item = SlotId> + '_ {
    launch.slots.iter().zip(launch.kernel.arguments()).filter(|(_, (_, b))| b.role != Role::In).map(|(slot, _)| *slot)
}

fn ops(kernel: &Kernel) -> usize {
    let mut count = 0;
    kernel.visit_bodies(&mut |body| count += body.ops.len());
    count
}

/// Whether a launch may run after these instructions instead of before them.
fn may_move(between: &[Instr], launch: &Launch) -> bool {
    let mut symbols: BTreeSet<SymId> = BTreeSet::new();
    launch.kernel.clone().map_exprs(&mut |e| {
        symbols.extend(e.symbols());
        e.clone()
    });
    let mine = |slot: &SlotId| launch.slots.contains(slot);
    between.iter().all(|instr| match instr {
        Instr::Launch(other) => {
            !other.slots.iter().zip(other.kernel.arguments()).any(|(slot, (_, b))| b.role != Role::In && mine(slot))
        }
        Instr::Let { symbol, .. } => !symbols.contains(symbol),
        Instr::Read { symbol, slot, .. } => !symbols.contains(symbol) && !mine(slot),
        Instr::Write { slot, .. } | Instr::Alloc { slot } => !mine(slot),
        Instr::Alias { to, from } | Instr::Copy { to, from } => !mine(to) && !mine(from),
        Instr::Check { .. } => true,
        Instr::If { .. } | Instr::Loop { .. } => false,
    })
}

/// A loop without outer axes and reductions, over nothing else.
pub(super) fn plain_loop(kernel: &Kernel) -> Option<&Loop> {
    match &kernel.body[..] {
        [Item::Step(Step::Loop(l))] if kernel.parallel.is_empty() && l.reduce.is_empty() => Some(l),
        _ => None,
    }
}

pub(super) fn argument_of(launch: &Launch, slot: SlotId, written: bool) -> Option<BufferId> {
    let mut found = launch
        .slots
        .iter()
        .zip(launch.kernel.arguments())
        .filter(|(s, (_, b))| **s == slot && (b.role == Role::Out) == written && b.role != Role::InOut);
    let (_, (id, _)) = found.next()?;
    found.next().is_none().then_some(id)
}

/// Adds the buffers of `other` to `launch`; equal read-only arguments are joined. Returns their names there.
pub(super) fn adopt(launch: &mut Launch, other: &Launch) -> BTreeMap<BufferId, BufferId> {
    let mut map = BTreeMap::new();
    let mut slots = other.slots.iter();
    for (i, buffer) in other.kernel.buffers.iter().enumerate() {
        let id = BufferId(i as u32);
        let slot = (buffer.role != Role::Local).then(|| *slots.next().expect("one slot per argument"));
        let same = launch.slots.iter().zip(launch.kernel.arguments()).find(|(s, (_, b))| {
            Some(**s) == slot
                && buffer.role == Role::In
                && b.role == Role::In
                && b.layout == buffer.layout
                && b.dims == buffer.dims
        });
        let to = match same {
            Some((_, (id, _))) => id,
            None => {
                launch.kernel.buffers.push(buffer.clone());
                launch.slots.extend(slot);
                BufferId(launch.kernel.buffers.len() as u32 - 1)
            }
        };
        map.insert(id, to);
    }
    map
}

pub(super) fn merged(a: &Launch, b: &Launch) -> (Label, Vec<oaaxc_base::Origin>) {
    let mut origins = a.origins.clone();
    for origin in &b.origins {
        if !origins.contains(origin) {
            origins.push(origin.clone());
        }
    }
    (Label(format!("{}+{}", a.kernel.name.0, b.kernel.name.0)), origins)
}
