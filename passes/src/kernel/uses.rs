//! Who reads and writes each slot of a program.

use std::collections::BTreeMap;

use oaaxc_ir::kernel::Role;
use oaaxc_ir::program::{Instr, Launch, Program, SlotId};

/// Uses of one slot.
#[derive(Clone, Debug, Default)]
pub struct Uses {
    /// Launches that read it, by number; a launch that reads it through two arguments counts once.
    pub readers: Vec<usize>,
    /// Launches that write it.
    pub writers: Vec<usize>,
    /// Anything else: model outputs, aliases, host reads and writes, allocation.
    pub other: usize,
}

/// Uses of every slot. Launches are numbered in the order of `Program::launches`.
pub fn uses(program: &Program) -> BTreeMap<SlotId, Uses> {
    let mut map: BTreeMap<SlotId, Uses> = BTreeMap::new();
    for &slot in program.inputs.iter().chain(&program.outputs) {
        map.entry(slot).or_default().other += 1;
    }
    let mut number = 0;
    program.visit(&mut |instr| {
        let mut other = |slot: SlotId| map.entry(slot).or_default().other += 1;
        match instr {
            Instr::Launch(launch) => {
                launch_uses(launch, number, &mut map);
                number += 1;
            }
            Instr::Read { slot, .. } | Instr::Write { slot, .. } | Instr::Alloc { slot } => other(*slot),
            Instr::Alias { to, from } | Instr::Copy { to, from } => {
                other(*to);
                other(*from);
            }
            Instr::Let { .. } | Instr::Check { .. } | Instr::If { .. } | Instr::Loop { .. } => {}
        }
    });
    map
}

fn launch_uses(launch: &Launch, number: usize, map: &mut BTreeMap<SlotId, Uses>) {
    for (slot, (_, buffer)) in launch.slots.iter().zip(launch.kernel.arguments()) {
        let uses = map.entry(*slot).or_default();
        if buffer.role != Role::Out && uses.readers.last() != Some(&number) {
            uses.readers.push(number);
        }
        if buffer.role != Role::In {
            uses.writers.push(number);
        }
    }
}
