//! Proves a placed program against the one that was placed, without trusting how it was placed.
//!
//! Promises: every launch, read and write is that of the program before, in order, in branches and loops;
//! each touches slots of its own space only; and on every path each slot that is read holds what the program
//! before would read there. The proof carries the set of pairs (slot before, slot after) that hold one value.

use std::collections::BTreeSet;

use oaaxc_base::EntityId;
use oaaxc_ir::kernel::Role;
use oaaxc_ir::program::{Instr, Launch, Program, SlotId, SlotKind, Space};

/// Pairs of slots, before and after, that hold one value.
type Pairs = BTreeSet<(SlotId, SlotId)>;

/// The first rule that the placed program breaks, as a sentence.
pub fn check(before: &Program, after: &Program) -> Result<(), String> {
    let checker = Checker { before, after, old: classes(before), new: classes(after) };
    for slot in after.inputs.iter().chain(&after.outputs) {
        checker.is_in(*slot, Space::Host)?;
    }
    if before.inputs != after.inputs || before.outputs != after.outputs {
        return Err("the inputs or outputs are not those of the program before".into());
    }
    let mut pairs: Pairs = before.inputs.iter().map(|slot| (*slot, *slot)).collect();
    checker.list(&before.body, &after.body, &mut pairs)?;
    for &slot in &before.outputs {
        let is_written = pairs.iter().any(|(old, _)| *old == slot);
        if is_written && !pairs.contains(&(slot, slot)) {
            return Err(format!("the output \"{}\" is not copied back", before.slots[slot].name));
        }
    }
    Ok(())
}

/// The memory class of each slot: slots that aliases join.
fn classes(program: &Program) -> Vec<usize> {
    let mut class: Vec<usize> = (0..program.slots.len()).collect();
    program.visit(&mut |instr| {
        if let Instr::Alias { to, from } = instr {
            let (a, b) = (class[to.index()], class[from.index()]);
            class.iter_mut().filter(|c| **c == a).for_each(|c| *c = b);
        }
    });
    class
}

struct Checker<'a> {
    before: &'a Program,
    after: &'a Program,
    old: Vec<usize>,
    new: Vec<usize>,
}

impl Checker<'_> {
    fn is_in(&self, slot: SlotId, space: Space) -> Result<(), String> {
        let found = &self.after.slots[slot];
        match found.space == space {
            true => Ok(()),
            false => Err(format!("\"{}\" lies in {:?} and is used in {space:?}", found.name, found.space)),
        }
    }
    /// The slot after holds what the slot before holds.
    fn holds(&self, old: SlotId, new: SlotId, pairs: &Pairs) -> Result<(), String> {
        let (a, b) = (&self.before.slots[old], &self.after.slots[new]);
        let constant = matches!((&a.kind, &b.kind), (SlotKind::Constant(x), SlotKind::Constant(y))
            if x.dtype == y.dtype && x.dims == y.dims && a.layout == b.layout && a.name == b.name);
        match constant || pairs.contains(&(old, new)) {
            true => Ok(()),
            false => Err(format!("\"{}\" does not hold \"{}\" where it is read", b.name, a.name)),
        }
    }
    /// Both were written; whatever may share memory with only one of them no longer agrees.
    fn wrote(&self, old: SlotId, new: SlotId, pairs: &mut Pairs) {
        let (a, b) = (self.old[old.index()], self.new[new.index()]);
        pairs.retain(|(o, n)| (self.old[o.index()] == a) == (self.new[n.index()] == b) && (*o == old) == (*n == new));
        pairs.insert((old, new));
    }
    fn list(&self, before: &[Instr], after: &[Instr], pairs: &mut Pairs) -> Result<(), String> {
        let mut olds = before.iter();
        for new in after {
            if let Instr::Copy { to, from } = new {
                self.copy(*to, *from, pairs)?;
                continue;
            }
            let old = olds.next().ok_or("the placed program has an instruction too many")?;
            self.instr(old, new, pairs)?;
        }
        match olds.next() {
            None => Ok(()),
            Some(_) => Err("the placed program lacks an instruction".into()),
        }
    }
    fn copy(&self, to: SlotId, from: SlotId, pairs: &mut Pairs) -> Result<(), String> {
        let (a, b) = (&self.after.slots[to], &self.after.slots[from]);
        if a.ty != b.ty || a.layout != b.layout {
            return Err(format!("\"{}\" is copied to \"{}\" of another type", b.name, a.name));
        }
        if matches!(a.kind, SlotKind::Input | SlotKind::Constant(_) | SlotKind::View) {
            return Err(format!("\"{}\" cannot be copied to", a.name));
        }
        let held: Vec<SlotId> = pairs.iter().filter(|(_, new)| *new == from).map(|(old, _)| *old).collect();
        if held.is_empty() {
            return Err(format!("\"{}\" is copied before it is written", b.name));
        }
        let class = self.new[to.index()];
        // A tensor that is copied again because it is new takes its aliases along; others lose what they held.
        pairs.retain(|(old, new)| self.new[new.index()] != class || (*new != to && held.contains(old)));
        pairs.extend(held.into_iter().map(|old| (old, to)));
        Ok(())
    }
    fn instr(&self, old: &Instr, new: &Instr, pairs: &mut Pairs) -> Result<(), String> {
        match (old, new) {
            (Instr::Launch(old), Instr::Launch(new)) => self.launch(old, new, pairs),
            (Instr::Read { symbol: a, slot: s, index: i }, Instr::Read { symbol: b, slot: t, index: j }) if a == b && i == j => {
                self.is_in(*t, Space::Host)?;
                self.holds(*s, *t, pairs)
            }
            (Instr::Write { slot: s, values: a }, Instr::Write { slot: t, values: b }) if a == b => {
                self.is_in(*t, Space::Host)?;
                self.wrote(*s, *t, pairs);
                Ok(())
            }
            (Instr::Alias { to: a, from: s }, Instr::Alias { to: b, from: t }) => {
                self.is_in(*t, self.after.slots[*b].space)?;
                self.holds(*s, *t, pairs)?;
                pairs.retain(|(old, new)| old != a && new != b);
                let more: Vec<_> = pairs.iter().filter(|(old, new)| old == s || new == t).copied().collect();
                pairs.extend(more.into_iter().map(|(old, new)| if old == *s { (*a, new) } else { (old, *b) }));
                pairs.insert((*a, *b));
                Ok(())
            }
            (Instr::Alloc { slot: a }, Instr::Alloc { slot: b }) if a == b => {
                pairs.retain(|(old, new)| (old == a) == (new == b));
                pairs.insert((*a, *b));
                Ok(())
            }
            (Instr::Let { symbol: a, value: x }, Instr::Let { symbol: b, value: y }) if a == b && x == y => Ok(()),
            (Instr::Check { holds: a, .. }, Instr::Check { holds: b, .. }) if a == b => Ok(()),
            (Instr::If { condition: a, then: x, otherwise: u }, Instr::If { condition: b, then: y, otherwise: v }) if a == b => {
                let mut other = pairs.clone();
                self.list(x, y, pairs)?;
                self.list(u, v, &mut other)?;
                pairs.retain(|pair| other.contains(pair));
                Ok(())
            }
            (
                Instr::Loop { counter: a, trips: s, condition: c, body: x },
                Instr::Loop { counter: b, trips: t, condition: d, body: y },
            ) if a == b && s == t && c == d => self.repeat(x, y, pairs),
            _ => Err("an instruction is not that of the program before".into()),
        }
    }
    /// The pairs that hold before the loop and after every iteration, found from above.
    fn repeat(&self, old: &[Instr], new: &[Instr], pairs: &mut Pairs) -> Result<(), String> {
        loop {
            let mut end = pairs.clone();
            let result = self.list(old, new, &mut end);
            let size = pairs.len();
            pairs.retain(|pair| end.contains(pair));
            if pairs.len() == size {
                return result;
            }
            // Fewer pairs may hold at the top, and fewer still after an iteration.
            result?;
        }
    }
    fn launch(&self, old: &Launch, new: &Launch, pairs: &mut Pairs) -> Result<(), String> {
        if old.kernel != new.kernel || old.slots.len() != new.slots.len() {
            return Err(format!("the kernel {} is not that of the program before", new.kernel.name.0));
        }
        let arguments = || old.slots.iter().zip(&new.slots).zip(old.kernel.arguments());
        for ((before, after), (_, buffer)) in arguments() {
            self.is_in(*after, new.space)?;
            // A launch may write a part of what others wrote: the rest must be there.
            if buffer.role != Role::Out || pairs.iter().any(|(old, _)| old == before) {
                self.holds(*before, *after, pairs)?;
            }
        }
        for ((before, after), (_, buffer)) in arguments() {
            if buffer.role != Role::In {
                self.wrote(*before, *after, pairs);
            }
        }
        Ok(())
    }
}
