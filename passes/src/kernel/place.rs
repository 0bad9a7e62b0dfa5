//! Placement: every launch runs on the device if the device can, else on the host; slots follow their
//! producers, and a value that both spaces need has an instance in each and copies between them.
//!
//! Promises: a launch's slots lie in its own space; a copy stands before the first use that needs it, and no
//! second one where the first still holds; constants are stored once and bound in both spaces; inputs,
//! outputs and what the host program reads and writes itself stay on the host; what one memory can be reached
//! by (views, buffers that grow in a loop, parts written by several launches) has one home.
//! `place_check` proves the result by other means. Why on the program and not on the graph: ADR 0003.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use oaaxc_base::{EntityId, Origin, SideTable};
use oaaxc_ir::kernel::{Kernel, Role, canonical};
use oaaxc_ir::program::{Instr, Launch, Program, SlotId, SlotKind, Space};

use crate::kernel::resolve::visit_launches;

/// Why a device cannot run a kernel, as its target says it.
pub type Claims<'a> = dyn Fn(&Kernel) -> Result<(), String> + 'a;

/// What was placed where.
#[derive(Clone, Debug, Default)]
pub struct Placed {
    /// Launches that the host runs, in order.
    pub on_host: Vec<OnHost>,
    /// Tensors that a run copies to the device, as the program stands (an iteration counts once).
    pub to_device: Vec<SlotId>,
    /// Tensors that it copies back.
    pub to_host: Vec<SlotId>,
}

/// A launch on the host, and why.
#[derive(Clone, Debug)]
pub struct OnHost {
    /// The kernel's label.
    pub kernel: String,
    /// The nodes that it computes.
    pub origins: Vec<Origin>,
    /// A sentence.
    pub reason: String,
}

/// Places a lowered program that so far is on the host altogether.
pub fn place(program: &mut Program, claims: &Claims) -> Placed {
    let mut list = std::mem::take(&mut program.body);
    let memory = Memory::of(&list, program.slots.len(), &|_, _| true);
    let on_host = choose(&mut list, program, &memory, claims);
    let homes = homes(&list, program, &memory);
    let mut placer =
        Placer { program, homes, memory, instances: BTreeMap::new(), placed: Placed { on_host, ..Placed::default() } };
    let mut state = State::default();
    for &slot in &placer.program.inputs {
        state.valid.insert(slot, Spaces::of(Space::Host));
    }
    let mut body = placer.list(&list, &mut state);
    for slot in placer.program.outputs.clone() {
        placer.need(slot, Space::Host, &mut state, &mut body);
    }
    placer.settle();
    let Placer { program, mut placed, .. } = placer;
    program.body = body;
    program.visit(&mut |instr| {
        if let Instr::Copy { to, .. } = instr {
            match program.slots[*to].space {
                Space::Device => placed.to_device.push(*to),
                Space::Host => placed.to_host.push(*to),
            }
        }
    });
    placed
}

/// Slots that may stand for the same memory: those that aliases join.
struct Memory {
    root: Vec<SlotId>,
    members: BTreeMap<SlotId, Vec<SlotId>>,
}

impl Memory {
    /// Joins slots over the aliases that `counts`.
    fn of(list: &[Instr], slots: usize, counts: &dyn Fn(SlotId, SlotId) -> bool) -> Memory {
        let mut parent: Vec<usize> = (0..slots).collect();
        fn find(parent: &[usize], mut at: usize) -> usize {
            while parent[at] != at {
                at = parent[at];
            }
            at
        }
        visit(list, &mut |instr| {
            if let Instr::Alias { to, from } = instr
                && counts(*to, *from)
            {
                let (a, b) = (find(&parent, to.index()), find(&parent, from.index()));
                parent[a] = b;
            }
        });
        let root: Vec<SlotId> = (0..slots).map(|slot| SlotId::from_index(find(&parent, slot))).collect();
        let mut members: BTreeMap<SlotId, Vec<SlotId>> = BTreeMap::new();
        for (slot, root) in root.iter().enumerate() {
            members.entry(*root).or_default().push(SlotId::from_index(slot));
        }
        Memory { root, members }
    }
    fn root(&self, slot: SlotId) -> SlotId {
        self.root[slot.index()]
    }
    fn shared(&self, slot: SlotId) -> &[SlotId] {
        self.members.get(&self.root(slot)).map_or(&[], Vec::as_slice)
    }
    /// What stands for the memory where its writers must agree: all of it where one of them writes through a view.
    fn written_as(&self, through_views: &BTreeSet<SlotId>, slot: SlotId) -> SlotId {
        let root = self.root(slot);
        if through_views.contains(&root) { root } else { slot }
    }
}

/// Memories that a launch writes through a view.
fn through_views(list: &[Instr], program: &Program, memory: &Memory) -> BTreeSet<SlotId> {
    let mut found = BTreeSet::new();
    visit(list, &mut |instr| {
        if let Instr::Launch(launch) = instr {
            let views = written(launch).filter(|(slot, _)| matches!(program.slots[*slot].kind, SlotKind::View));
            found.extend(views.map(|(slot, _)| memory.root(slot)));
        }
    });
    found
}

fn visit(list: &[Instr], f: &mut dyn FnMut(&Instr)) {
    for instr in list {
        f(instr);
        match instr {
            Instr::If { then, otherwise, .. } => {
                visit(then, f);
                visit(otherwise, f);
            }
            Instr::Loop { body, .. } => visit(body, f),
            _ => {}
        }
    }
}

/// Written slots of a launch, and whether it also reads them.
fn written(launch: &Launch) -> impl Iterator<Item = (SlotId, Role)> + '_ {
    launch.slots.iter().zip(launch.kernel.arguments()).filter(|(_, (_, b))| b.role != Role::In).map(|(s, (_, b))| (*s, b.role))
}

/// Decides who runs each launch. Launches that write parts of one memory run together.
fn choose(list: &mut [Instr], program: &Program, memory: &Memory, claims: &Claims) -> Vec<OnHost> {
    let through = through_views(list, program, memory);
    let mut known: HashMap<Kernel, Result<(), String>> = HashMap::new();
    let mut refused: Vec<Option<String>> = Vec::new();
    let mut writers: BTreeMap<SlotId, Vec<usize>> = BTreeMap::new();
    visit_launches(list, &mut |launch| {
        let answer = known.entry(canonical(&launch.kernel).0).or_insert_with_key(|kernel| claims(kernel));
        for (slot, _) in written(launch) {
            writers.entry(memory.written_as(&through, slot)).or_default().push(refused.len());
        }
        refused.push(answer.clone().err());
    });
    let mut changed = true;
    while changed {
        changed = false;
        for (slot, group) in &writers {
            let Some(why) = group.iter().find_map(|launch| refused[*launch].clone()) else { continue };
            let name = &program.slots[*slot].name;
            for other in group {
                if refused[*other].is_none() {
                    refused[*other] = Some(format!("it writes a part of \"{name}\"; of another part: {why}"));
                    changed = true;
                }
            }
        }
    }
    let mut on_host = Vec::new();
    let mut reasons = refused.into_iter();
    visit_launches(list, &mut |launch| {
        launch.space = Space::Device;
        if let Some(Some(reason)) = reasons.next() {
            launch.space = Space::Host;
            on_host.push(OnHost { kernel: launch.kernel.name.0.clone(), origins: launch.origins.clone(), reason });
        }
    });
    on_host
}

/// Where each slot's producers leave it.
fn homes(list: &[Instr], program: &Program, memory: &Memory) -> SideTable<SlotId, Space> {
    let through = through_views(list, program, memory);
    let is_view = |slot: SlotId| matches!(program.slots[slot].kind, SlotKind::View);
    let views = Memory::of(list, program.slots.len(), &|to, from| is_view(to) && is_view(from));
    let mut by_writer: BTreeMap<SlotId, Space> = BTreeMap::new();
    let mut read_on_device: BTreeSet<SlotId> = BTreeSet::new();
    let mut aliases: Vec<(SlotId, SlotId)> = Vec::new();
    visit(list, &mut |instr| match instr {
        Instr::Launch(launch) => {
            by_writer.extend(written(launch).map(|(slot, _)| (memory.written_as(&through, slot), launch.space)));
            if launch.space == Space::Device {
                read_on_device.extend(launch.slots.iter().map(|slot| views.root(*slot)));
            }
        }
        Instr::Alias { to, from } => aliases.push((*to, *from)),
        _ => {}
    });
    let written_in = |slot: SlotId| by_writer.get(&memory.written_as(&through, slot)).copied();
    // A view that nobody writes follows its sources, and where nobody writes those either, its readers.
    let mut by_source: BTreeMap<SlotId, Space> = BTreeMap::new();
    for (to, from) in &aliases {
        if let Some(space) = written_in(*from).filter(|_| !is_view(*from)) {
            let known = by_source.entry(views.root(*to)).or_insert(space);
            *known = space.max(*known);
        }
    }
    let by_reader = |slot: SlotId| match read_on_device.contains(&views.root(slot)) {
        true => Space::Device,
        false => Space::Host,
    };
    let mut homes = SideTable::new(Space::Host);
    for (id, slot) in program.slots.iter() {
        let home = match slot.kind {
            SlotKind::Input | SlotKind::Output | SlotKind::Constant(_) => Space::Host,
            SlotKind::Temp => written_in(id).unwrap_or_default(),
            SlotKind::Heap => written_in(id).unwrap_or_else(|| by_reader(id)),
            SlotKind::View => written_in(id).or(by_source.get(&views.root(id)).copied()).unwrap_or_else(|| by_reader(id)),
        };
        homes.set(id, home);
    }
    homes
}

/// A set of spaces.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Spaces([bool; 2]);

impl Spaces {
    fn of(space: Space) -> Spaces {
        let mut all = Spaces::default();
        all.0[space as usize] = true;
        all
    }
    fn has(self, space: Space) -> bool {
        self.0[space as usize]
    }
    fn and(self, other: Spaces) -> Spaces {
        Spaces([self.0[0] && other.0[0], self.0[1] && other.0[1]])
    }
    fn is_empty(self) -> bool {
        self.0 == [false; 2]
    }
}

/// Which instances of each slot hold its present value at a point of the program.
#[derive(Clone, PartialEq, Default)]
struct State {
    valid: BTreeMap<SlotId, Spaces>,
}

impl State {
    /// What holds on both paths; a slot that only one knows is not used after it.
    fn meet(&self, other: &State) -> State {
        let both = self.valid.iter().filter_map(|(slot, a)| other.valid.get(slot).map(|b| (*slot, a.and(*b))));
        State { valid: both.collect() }
    }
    /// Slots that hold on both paths but in different spaces.
    fn torn(&self, other: &State) -> Vec<SlotId> {
        let both = self.valid.iter().filter_map(|(slot, a)| other.valid.get(slot).map(|b| (slot, a, b)));
        both.filter(|(_, a, b)| !a.is_empty() && !b.is_empty() && a.and(**b).is_empty()).map(|(slot, ..)| *slot).collect()
    }
}

struct Placer<'a> {
    program: &'a mut Program,
    homes: SideTable<SlotId, Space>,
    memory: Memory,
    /// The slots that stand for a slot in its other space.
    instances: BTreeMap<(SlotId, Space), SlotId>,
    placed: Placed,
}

impl Placer<'_> {
    /// Where the slot itself lies; the other space has a twin of it.
    fn own(&self, slot: SlotId) -> Space {
        self.homes[slot]
    }
    /// The slot that stands for it in this space.
    fn instance(&mut self, slot: SlotId, space: Space) -> SlotId {
        if self.own(slot) == space {
            return slot;
        }
        if let Some(&twin) = self.instances.get(&(slot, space)) {
            return twin;
        }
        let mut twin = self.program.slots[slot].clone();
        twin.space = space;
        if !matches!(twin.kind, SlotKind::Constant(_)) {
            let word = if space == Space::Device { "device" } else { "host" };
            twin.name = format!("{}@{word}", twin.name);
            twin.kind = SlotKind::Temp;
        }
        let twin = self.program.slots.push(twin);
        self.instances.insert((slot, space), twin);
        twin
    }
    /// The slot's instance in a space, holding its present value: copied there first where it does not.
    fn need(&mut self, slot: SlotId, space: Space, state: &mut State, out: &mut Vec<Instr>) -> SlotId {
        let to = self.instance(slot, space);
        if matches!(self.program.slots[slot].kind, SlotKind::Constant(_)) {
            return to;
        }
        let valid = state.valid.get(&slot).copied().unwrap_or_default();
        if !valid.has(space) && valid.has(space.other()) {
            let from = self.instance(slot, space.other());
            out.push(Instr::Copy { to, from });
            state.valid.insert(slot, Spaces([true; 2]));
        }
        to
    }
    /// The slot was written in this space: its other instance, and those of what shares its memory, are old.
    fn wrote(&self, slot: SlotId, space: Space, state: &mut State) {
        for other in self.memory.shared(slot) {
            if let Some(valid) = state.valid.get_mut(other)
                && valid.has(space)
            {
                *valid = Spaces::of(space);
            }
        }
        state.valid.insert(slot, Spaces::of(space));
    }
    fn list(&mut self, list: &[Instr], state: &mut State) -> Vec<Instr> {
        let mut out = Vec::with_capacity(list.len());
        for instr in list {
            self.instr(instr, state, &mut out);
        }
        out
    }
    fn instr(&mut self, instr: &Instr, state: &mut State, out: &mut Vec<Instr>) {
        match instr {
            Instr::Launch(launch) => self.launch(launch, state, out),
            Instr::Read { symbol, slot, index } => {
                let slot = self.need(*slot, Space::Host, state, out);
                out.push(Instr::Read { symbol: *symbol, slot, index: index.clone() });
            }
            Instr::Write { slot, values } => {
                let to = self.instance(*slot, Space::Host);
                out.push(Instr::Write { slot: to, values: values.clone() });
                self.wrote(*slot, Space::Host, state);
            }
            Instr::Alias { to, from } => {
                let home = self.own(*to);
                let from = self.need(*from, home, state, out);
                out.push(Instr::Alias { to: *to, from });
                state.valid.insert(*to, Spaces::of(home));
            }
            Instr::Copy { to, from } => {
                let home = self.own(*to);
                let from = self.need(*from, home, state, out);
                out.push(Instr::Copy { to: *to, from });
                self.wrote(*to, home, state);
            }
            Instr::Alloc { slot } => {
                out.push(Instr::Alloc { slot: *slot });
                state.valid.insert(*slot, Spaces::of(self.own(*slot)));
            }
            Instr::Let { .. } | Instr::Check { .. } => out.push(instr.clone()),
            Instr::If { condition, then, otherwise } => {
                let (mut a, mut b) = (state.clone(), state.clone());
                let (mut then, mut otherwise) = (self.list(then, &mut a), self.list(otherwise, &mut b));
                for slot in a.torn(&b) {
                    let home = self.own(slot);
                    self.need(slot, home, &mut a, &mut then);
                    self.need(slot, home, &mut b, &mut otherwise);
                }
                *state = a.meet(&b);
                out.push(Instr::If { condition: condition.clone(), then, otherwise });
            }
            Instr::Loop { counter, trips, condition, body } => {
                let (body, after) = self.repeat(body, state, out);
                *state = state.meet(&after);
                out.push(Instr::Loop { counter: *counter, trips: trips.clone(), condition: *condition, body });
            }
        }
    }
    /// A loop's body, for a state at its top that holds before the loop and after each iteration.
    fn repeat(&mut self, body: &[Instr], state: &mut State, out: &mut Vec<Instr>) -> (Vec<Instr>, State) {
        let mut changing = BTreeSet::new();
        visit(body, &mut |instr| match instr {
            Instr::Launch(launch) => written(launch).for_each(|(slot, _)| changing.extend(self.memory.shared(slot))),
            Instr::Write { slot, .. } | Instr::Alloc { slot } => changing.extend(self.memory.shared(*slot)),
            Instr::Alias { to, .. } | Instr::Copy { to, .. } => {
                changing.insert(*to);
            }
            _ => {}
        });
        // What must be at home at the end of each iteration, since it is so at the first one's start.
        let mut at_end: BTreeSet<SlotId> = BTreeSet::new();
        loop {
            let mut end = state.clone();
            let mut list = self.list(body, &mut end);
            for slot in &at_end {
                let home = self.own(*slot);
                self.need(*slot, home, &mut end, &mut list);
            }
            // What no iteration changes is copied once, before all of them.
            let mut before = Vec::new();
            visit(&list, &mut |instr| {
                if let Instr::Copy { to, .. } = instr
                    && let Some((slot, space)) = self.behind(*to)
                    && !changing.contains(&slot)
                    && state.valid.get(&slot).is_some_and(|valid| !valid.is_empty() && !valid.has(space))
                {
                    before.push((slot, space));
                }
            });
            for slot in state.torn(&end) {
                before.push((slot, self.own(slot)));
                at_end.insert(slot);
            }
            for (slot, space) in &before {
                self.need(*slot, *space, state, out);
            }
            // A copy that an iteration may have made old does not hold at the top.
            let mut top = state.clone();
            for (slot, valid) in &end.valid {
                if let Some(known) = top.valid.get_mut(slot).filter(|known| !known.and(*valid).is_empty()) {
                    *known = known.and(*valid);
                }
            }
            if before.is_empty() && top == *state {
                return (list, end);
            }
            *state = top;
        }
    }
    /// The slot that an instance stands for, and the instance's space.
    fn behind(&self, instance: SlotId) -> Option<(SlotId, Space)> {
        let twin = self.instances.iter().find(|(_, twin)| **twin == instance).map(|((slot, space), _)| (*slot, *space));
        twin.or_else(|| (instance.index() < self.memory.root.len()).then(|| (instance, self.own(instance))))
    }
    fn launch(&mut self, launch: &Launch, state: &mut State, out: &mut Vec<Instr>) {
        let mut placed = launch.clone();
        for (slot, (_, buffer)) in placed.slots.iter_mut().zip(launch.kernel.arguments()) {
            *slot = match buffer.role {
                Role::Out => self.instance(*slot, launch.space),
                _ => self.need(*slot, launch.space, state, out),
            };
        }
        for (slot, _) in written(launch) {
            self.wrote(slot, launch.space, state);
        }
        out.push(Instr::Launch(Box::new(placed)));
    }
    /// Gives every slot the space of its home.
    fn settle(&mut self) {
        for index in 0..self.memory.root.len() {
            let slot = SlotId::from_index(index);
            self.program.slots[slot].space = self.own(slot);
        }
    }
}
