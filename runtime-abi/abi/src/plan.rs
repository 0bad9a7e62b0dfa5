//! Placement of the memory plan, and the checker that does not trust it.
//!
//! Each space has an arena of its own: entries of different spaces never meet.
//! [`place`] is the one deterministic rule of the runtime: larger buffers first (ties: earlier
//! entries first), each at the lowest 64-byte aligned offset where it meets no buffer that lives at
//! the same time; a buffer that may take over another's bytes is first tried exactly there.
//! [`check_placement`] and [`check_ranges`] share nothing with it.

use crate::{
    ids::SlotId,
    program::{ALIGN, Instruction, PlanEntry, Program, SlotKind, Space, Step},
    wire::{ParseError, refuse},
};
use alloc::{vec, vec::Vec};

/// Where each plan entry lies in the arena.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Placement {
    /// Byte offset of each entry in the arena of its space.
    pub offsets: Vec<u64>,
    /// Sizes of the arenas in bytes, by [`Space::index`].
    pub totals: [u64; Space::COUNT],
}

/// Whether both must exist at one instruction in one arena.
fn live_together(a: &PlanEntry, b: &PlanEntry) -> bool {
    a.space == b.space && a.first <= b.last && b.first <= a.last
}

/// Places entries of `bytes[i]` bytes; `None` if an arena would pass 2^62 bytes.
pub fn place(plan: &[PlanEntry], bytes: &[u64]) -> Option<Placement> {
    let mut order: Vec<usize> = (0..plan.len()).collect();
    order.sort_by_key(|&index| (core::cmp::Reverse(bytes[index]), index));
    let mut offsets = vec![0u64; plan.len()];
    let mut placed: Vec<usize> = Vec::new();
    let mut totals = [0; Space::COUNT];
    let mut busy: Vec<(u64, u64)> = Vec::new();
    for &index in &order {
        let size = bytes[index].checked_next_multiple_of(ALIGN).filter(|size| *size < 1 << 62)?;
        busy.clear();
        busy.extend(
            placed
                .iter()
                .filter(|&&other| live_together(&plan[index], &plan[other]))
                .map(|&other| (offsets[other], offsets[other] + bytes[other].next_multiple_of(ALIGN))),
        );
        busy.sort_unstable();
        let partner = placed.iter().copied().find(|&other| {
            let related = plan[index].may_alias == Some(other as u32) || plan[other].may_alias == Some(index as u32);
            let related = related && plan[other].space == plan[index].space;
            related && bytes[other] == bytes[index] && free_beside(plan, &placed, &offsets, bytes, index, other)
        });
        let offset = match partner {
            Some(other) => offsets[other],
            None => first_fit(&busy, size),
        };
        offsets[index] = offset;
        let total = &mut totals[plan[index].space.index()];
        *total = (*total).max(offset.checked_add(size).filter(|end| *end < 1 << 62)?);
        placed.push(index);
    }
    Some(Placement { offsets, totals })
}

/// Whether `index` meets only `partner` at the partner's place.
fn free_beside(plan: &[PlanEntry], placed: &[usize], offsets: &[u64], bytes: &[u64], index: usize, partner: usize) -> bool {
    let (start, end) = (offsets[partner], offsets[partner] + bytes[partner].next_multiple_of(ALIGN));
    placed.iter().all(|&other| {
        let apart = offsets[other] + bytes[other] <= start || end <= offsets[other];
        other == partner || apart || !live_together(&plan[index], &plan[other])
    })
}

/// The lowest gap of `size` bytes between sorted busy ranges.
fn first_fit(busy: &[(u64, u64)], size: u64) -> u64 {
    let mut offset = 0;
    for &(start, end) in busy {
        if offset + size <= start {
            break;
        }
        offset = offset.max(end);
    }
    offset
}

/// Re-proves a placement: aligned, inside its arena, and no two entries of a space that live at one
/// time share a byte, save a pair related by `may_alias` that has equal offset and size.
pub fn check_placement(plan: &[PlanEntry], bytes: &[u64], placement: &Placement) -> Result<(), ParseError> {
    if placement.offsets.len() != plan.len() || bytes.len() != plan.len() {
        refuse!("{} offsets and {} sizes for {} plan entries", placement.offsets.len(), bytes.len(), plan.len());
    }
    for a in 0..plan.len() {
        let begin = placement.offsets[a];
        let Some(end) = begin.checked_add(bytes[a]) else { refuse!("plan entry {a} is too large") };
        let total = placement.totals[plan[a].space as usize];
        if !begin.is_multiple_of(ALIGN) || end > total {
            refuse!("plan entry {a} at {begin} is not aligned or leaves the arena of {total}");
        }
        for b in a + 1..plan.len() {
            let other = placement.offsets[b];
            let meet = begin < other.saturating_add(bytes[b]) && other < end;
            let together = plan[a].space as u32 == plan[b].space as u32;
            let together = together && plan[a].last >= plan[b].first && plan[b].last >= plan[a].first;
            let related = plan[b].may_alias == Some(a as u32) || plan[a].may_alias == Some(b as u32);
            if meet && together && !(related && begin == other && bytes[a] == bytes[b]) {
                refuse!("plan entries {a} and {b} share bytes at {} while both live", begin.max(other));
            }
        }
    }
    Ok(())
}

/// Loops over whose border an alias carries a plan entry: (entry, first, last instruction of the
/// loop). In such a loop a later turn reads through the alias what an earlier turn bound.
pub(crate) fn carried(program: &Program, roots: &Roots) -> Vec<(u32, u32, u32)> {
    let mut carried = Vec::new();
    for (from, to) in loops(program) {
        let body = to as usize..=from as usize;
        for at in body.clone() {
            let Instruction::Alias { slot, source, .. } = program.steps[at].instruction else { continue };
            let reads = |step: &Step| match &step.instruction {
                Instruction::Alias { slot: bound, source, .. } => *bound != slot && *source == slot,
                other => slots_of(other).contains(&slot),
            };
            if program.steps[to as usize..at].iter().any(reads) {
                carried.extend(roots.entries(source).iter().map(|entry| (*entry, to, from)));
            }
        }
    }
    carried
}

/// Proves the live ranges of a program: each use of an arena slot, also through aliases, lies in its
/// entry's range (a use in a parallel group counts for the whole group), and each range that meets a
/// loop (a jump backwards) lies inside it or spans it; what an alias carries from turn to turn spans it.
pub fn check_ranges(program: &Program) -> Result<(), ParseError> {
    let roots = Roots::new(program);
    let moments = moments(program);
    for (index, step) in program.steps.iter().enumerate() {
        let (begin, end) = moments[index];
        for slot in slots_of(&step.instruction) {
            for &entry in roots.entries(slot) {
                let range = &program.plan[entry as usize];
                if begin < range.first || range.last < end {
                    refuse!("instruction {index} uses plan entry {entry}, which lives from {} to {}", range.first, range.last);
                }
            }
        }
    }
    for (entry, to, from) in carried(program, &roots) {
        let range = &program.plan[entry as usize];
        if to < range.first || range.last < from {
            refuse!(
                "plan entry {entry} ({} to {}) is carried round the loop {to} to {from}, which it does not span",
                range.first,
                range.last
            );
        }
    }
    for (from, to) in loops(program) {
        for (entry, range) in program.plan.iter().enumerate() {
            let apart = range.last < to || from < range.first;
            let inside = to <= range.first && range.last <= from;
            let spans = range.first <= to && from <= range.last;
            if !(apart || inside || spans) {
                refuse!("plan entry {entry} ({} to {}) crosses the border of the loop {to} to {from}", range.first, range.last);
            }
        }
    }
    Ok(())
}

/// The instructions during which each instruction may run: itself, or its whole parallel group.
pub(crate) fn moments(program: &Program) -> Vec<(u32, u32)> {
    let mut moments: Vec<(u32, u32)> = (0..program.steps.len() as u32).map(|index| (index, index)).collect();
    for (index, step) in program.steps.iter().enumerate() {
        let Instruction::Parallel { count } = step.instruction else {
            continue;
        };
        let group = (index as u32, index as u32 + count);
        moments[index..=group.1 as usize].fill(group);
    }
    moments
}

/// Backward jumps as (from, to).
pub(crate) fn loops(program: &Program) -> impl Iterator<Item = (u32, u32)> + '_ {
    let jumps = program.steps.iter().enumerate();
    jumps.filter_map(|(from, step)| Some((from as u32, step.instruction.target()?))).filter(|(from, to)| to <= from)
}

/// The plan entries that each slot may stand for: its own, or those of what it is aliased to.
pub(crate) struct Roots(Vec<Vec<u32>>);

impl Roots {
    pub fn new(program: &Program) -> Roots {
        let mut roots: Vec<Vec<u32>> = vec![Vec::new(); program.slots.len()];
        for (index, slot) in program.slots.iter().enumerate() {
            if let SlotKind::Arena(entry) = slot.kind {
                roots[index].push(entry);
            }
        }
        let mut changed = true;
        while changed {
            changed = false;
            for step in &program.steps {
                let Instruction::Alias { slot, source, .. } = step.instruction else {
                    continue;
                };
                for entry in roots[source.index()].clone() {
                    if !roots[slot.index()].contains(&entry) {
                        roots[slot.index()].push(entry);
                        changed = true;
                    }
                }
            }
        }
        Roots(roots)
    }

    pub fn entries(&self, slot: SlotId) -> &[u32] {
        &self.0[slot.index()]
    }
}

/// Every slot that an instruction touches.
pub fn slots_of(instruction: &Instruction) -> Vec<SlotId> {
    use Instruction::*;
    match instruction {
        Launch { buffers, .. } => buffers.clone(),
        Call { slots, .. } => slots.clone(),
        Alloc { slot, like } => core::iter::once(*slot).chain(*like).collect(),
        Alias { slot, source, .. } => vec![*slot, *source],
        Copy { to, from } | CellAssign { to, from } => vec![*to, *from],
        Free { slot } | ReadCell { slot, .. } | WriteCell { slot, .. } | ReadDim { slot, .. } | ReadRank { slot, .. } => {
            vec![*slot]
        }
        SequencePush { cell, item } | SequenceInsert { cell, item, .. } | OptionalSet { cell, item } => vec![*cell, *item],
        SequenceGet { to, cell, .. } | OptionalGet { to, cell } => vec![*to, *cell],
        SequenceNew { cell }
        | SequenceLength { cell, .. }
        | SequenceErase { cell, .. }
        | OptionalNone { cell }
        | OptionalHas { cell, .. } => vec![*cell],
        Eval { .. } | Check { .. } | Place | Parallel { .. } | Branch { .. } | Jump { .. } | Fail { .. } => Vec::new(),
    }
}
