//! Fusion: elementwise work moves into the kernel that makes its operand (an epilogue) or into the
//! one that reads its result (inlining). Chains become one kernel; a tensor that only two kernels
//! knew is never stored.
//!
//! Legal where the tensor has one writer and, for work worth saving, one reader, and nothing between
//! the two kernels writes what moves. Profitable where no work is done twice: an element is computed
//! again only where computing it is as cheap as loading it (views, casts, single additions).

use std::collections::{BTreeMap, BTreeSet};

use oaaxc_ir::expr::{Atom, AxisId, Expr, SymId};
use oaaxc_ir::kernel::{Body, Bounds, BufferId, Index, Item, Kernel, Label, Loop, LoopAxis, Op, Role, Step, Store, UnaryOp};
use oaaxc_ir::program::{Instr, Launch, Program, SlotId, SlotKind};

use crate::kernel::inline::{Producer, replace_loads};
use crate::kernel::resolve::{drop_unused, visit_bodies};
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
    visit_bodies(&mut kernel.clone(), &mut |body| count += body.ops.len());
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
        Instr::Alias { to, from } => !mine(to) && !mine(from),
        Instr::Check { .. } => true,
        Instr::If { .. } | Instr::Loop { .. } => false,
    })
}

/// A loop without outer axes and reductions, over nothing else.
fn plain_loop(kernel: &Kernel) -> Option<&Loop> {
    match &kernel.body[..] {
        [Item::Step(Step::Loop(l))] if kernel.parallel.is_empty() && l.reduce.is_empty() => Some(l),
        _ => None,
    }
}

fn argument_of(launch: &Launch, slot: SlotId, written: bool) -> Option<BufferId> {
    let mut found = launch
        .slots
        .iter()
        .zip(launch.kernel.arguments())
        .filter(|(s, (_, b))| **s == slot && (b.role == Role::Out) == written && b.role != Role::InOut);
    let (_, (id, _)) = found.next()?;
    found.next().is_none().then_some(id)
}

/// Adds the buffers of `other` to `launch`; equal read-only arguments are joined. Returns their names there.
fn adopt(launch: &mut Launch, other: &Launch) -> BTreeMap<BufferId, BufferId> {
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

fn merged(a: &Launch, b: &Launch) -> (Label, Vec<oaaxc_base::Origin>) {
    let mut origins = a.origins.clone();
    for origin in &b.origins {
        if !origins.contains(origin) {
            origins.push(origin.clone());
        }
    }
    (Label(format!("{}+{}", a.kernel.name.0, b.kernel.name.0)), origins)
}

/// The consumer's work at the place where the producer stores.
fn epilogue(producer: &Launch, consumer: &Launch, slot: SlotId) -> Option<Launch> {
    let work = plain_loop(&consumer.kernel)?;
    let read = argument_of(consumer, slot, false)?;
    let written = argument_of(producer, slot, true)?;
    // Every load of the tensor is at a permutation of the loop's own axes, which span it.
    let dims = &consumer.kernel.buffer(read).dims;
    let mut place: Option<Vec<Expr>> = None;
    for op in &work.post.ops {
        let Op::Load { buffer, index, when, bounds, .. } = op else { continue };
        if *buffer != read {
            continue;
        }
        let index: Vec<Expr> =
            index.iter().map(|i| if let Index::Expr(e) = i { Some(e.clone()) } else { None }).collect::<Option<_>>()?;
        if when.is_some() || *bounds != Bounds::Inside || place.as_ref().is_some_and(|p| *p != index) {
            return None;
        }
        place = Some(index);
    }
    let axes = own_axes(&place?, dims, &work.parallel)?;
    let mut fused = producer.clone();
    let mut mentions = 0;
    fused.kernel.visit_buffer_uses(&mut |id| mentions += usize::from(id == written));
    if mentions != 1 {
        return None;
    }
    let names = adopt(&mut fused, consumer);
    (fused.kernel.name, fused.origins) = merged(producer, consumer);
    let epilogue = Epilogue { work, read, written, axes: &axes, names: &names };
    let body = std::mem::take(&mut fused.kernel.body);
    fused.kernel.body = epilogue.items(body)?;
    drop_unused(&mut fused);
    Some(fused)
}

/// The loop's axis of each dim, where the index is a permutation of the loop's axes that spans the dims.
/// A dim of size 1 may be read at 0, and an axis of extent 1 may be missing: it is 0.
fn own_axes(index: &[Expr], dims: &[Expr], parallel: &[LoopAxis]) -> Option<Vec<Option<AxisId>>> {
    let mut axes = Vec::new();
    for (at, dim) in index.iter().zip(dims) {
        if at.is(0) && dim.is(1) {
            axes.push(None);
            continue;
        }
        let axis = at.as_axis()?;
        let declared = parallel.iter().find(|a| a.axis == axis)?;
        if declared.extent != *dim || axes.contains(&Some(axis)) {
            return None;
        }
        axes.push(Some(axis));
    }
    parallel.iter().all(|a| a.extent.is(1) || axes.contains(&Some(a.axis))).then_some(axes)
}

struct Epilogue<'a> {
    work: &'a Loop,
    read: BufferId,
    written: BufferId,
    axes: &'a [Option<AxisId>],
    names: &'a BTreeMap<BufferId, BufferId>,
}

impl Epilogue<'_> {
    fn items(&self, items: Vec<Item>) -> Option<Vec<Item>> {
        items.into_iter().map(|item| self.item(item)).collect()
    }
    fn item(&self, item: Item) -> Option<Item> {
        Some(match item {
            Item::Sequential { axis, body } => Item::Sequential { axis, body: self.items(body)? },
            Item::Step(Step::Loop(mut l)) => {
                (l.post, l.stores) = self.stores(l.post, l.stores, false)?;
                Item::Step(Step::Loop(l))
            }
            Item::Step(Step::Contract(mut c)) => {
                (c.post, c.stores) = self.stores(c.post, c.stores, true)?;
                Item::Step(Step::Contract(c))
            }
            // A sort writes positions and a compaction at a running count: not at axes.
            step @ Item::Step(Step::Sort(_) | Step::Compact(_)) => step,
        })
    }
    fn stores(&self, mut post: Body, stores: Vec<Store>, contract: bool) -> Option<(Body, Vec<Store>)> {
        let mut out = Vec::new();
        for store in stores {
            if store.buffer != self.written {
                out.push(store);
                continue;
            }
            if store.when.is_some() || store.bounds != Bounds::Inside {
                return None;
            }
            let index: Vec<Expr> =
                store.index.iter().map(|i| if let Index::Expr(e) = i { Some(e.clone()) } else { None }).collect::<Option<_>>()?;
            // An axis that no dim names runs over one point.
            let bind =
                |axis: AxisId| self.axes.iter().position(|a| *a == Some(axis)).map_or(Expr::constant(0), |at| index[at].clone());
            let mut map = Vec::new();
            for op in &self.work.post.ops {
                let mut op = op.clone();
                op.map_values(&mut |v| map[v.0 as usize]);
                op.map_exprs(&mut |e| e.replace_axes(&bind));
                let value = match op {
                    Op::Load { buffer, .. } if buffer == self.read => store.value,
                    Op::Load { buffer, dtype, index, when, bounds, otherwise } => {
                        let buffer = self.names[&buffer];
                        post.push(Op::Load { buffer, dtype, index, when, bounds, otherwise })
                    }
                    op => post.push(op),
                };
                map.push(value);
            }
            for s in &self.work.stores {
                let mut s = s.clone();
                s.buffer = self.names[&s.buffer];
                s.value = map[s.value.0 as usize];
                s.when = s.when.map(|v| map[v.0 as usize]);
                for i in &mut s.index {
                    match i {
                        Index::Expr(e) => *e = e.replace_axes(&bind),
                        Index::Value(v) => *v = map[v.0 as usize],
                    }
                }
                // A contraction's tile is stored row by row: its fastest axis must stay the fastest.
                let last = |index: &[Index]| index.last().cloned();
                if contract && last(&s.index) != last(&store.index) {
                    return None;
                }
                out.push(s);
            }
        }
        Some((post, out))
    }
}

/// The producer's work at the place where the consumer loads.
fn inline(producer: &Launch, consumer: &Launch, slot: SlotId, only_reader: bool) -> Option<Launch> {
    let work = plain_loop(&producer.kernel)?;
    let read = argument_of(consumer, slot, false)?;
    let written = argument_of(producer, slot, true)?;
    let [store] = &work.stores[..] else { return None };
    if store.buffer != written || store.when.is_some() || store.bounds != Bounds::Inside {
        return None;
    }
    let index: Vec<Expr> =
        store.index.iter().map(|i| if let Index::Expr(e) = i { Some(e.clone()) } else { None }).collect::<Option<_>>()?;
    let axes = own_axes(&index, &producer.kernel.buffer(written).dims, &work.parallel)?;
    if !producer.kernel.buffer(written).layout.is_plain() {
        return None;
    }
    let cheap = is_cheap(&work.post);
    if !(cheap || only_reader && visits_once(&consumer.kernel, read)) {
        return None;
    }
    let mut fused = consumer.clone();
    let buffers = adopt(&mut fused, producer);
    (fused.kernel.name, fused.origins) = merged(producer, consumer);
    let dims = producer.kernel.buffer(written).dims.clone();
    let p = Producer { body: work, axes, value: store.value, dims, buffers };
    let keeps_rows = keeps_innermost(&p);
    let single = consumer.kernel.single_step().is_some();
    let body = std::mem::take(&mut fused.kernel.body);
    fused.kernel.body = inline_items(body, read, &p, single || keeps_rows)?;
    drop_unused(&mut fused);
    Some(fused)
}

fn inline_items(items: Vec<Item>, read: BufferId, p: &Producer, allowed: bool) -> Option<Vec<Item>> {
    let one = |item: Item| {
        Some(match item {
            Item::Sequential { axis, body } => Item::Sequential { axis, body: inline_items(body, read, p, allowed)? },
            Item::Step(Step::Loop(mut l)) if allowed => {
                let (body, map) = replace_loads(&l.body, read, p)?;
                l.body = body;
                for fold in &mut l.folds {
                    fold.value = map[fold.value.0 as usize];
                }
                let (post, map) = replace_loads(&l.post, read, p)?;
                l.post = post;
                for s in &mut l.stores {
                    remap_store(s, &map);
                }
                Item::Step(Step::Loop(l))
            }
            Item::Step(Step::Contract(mut c)) => {
                for operand in [&mut c.a, &mut c.b] {
                    if operand.buffer == read {
                        view_operand(operand, p)?;
                    }
                    let mentions =
                        |body: &Body| body.ops.iter().any(|op| matches!(op, Op::Load { buffer, .. } if *buffer == read));
                    if operand.zero.as_ref().is_some_and(|z| z.0 == read)
                        || operand.prologue.as_ref().is_some_and(|b| mentions(&b.0))
                    {
                        return None;
                    }
                }
                let (post, map) = replace_loads(&c.post, read, p)?;
                c.post = post;
                for s in &mut c.stores {
                    remap_store(s, &map);
                }
                Item::Step(Step::Contract(c))
            }
            Item::Step(step) => {
                let mut mentioned = false;
                let alone = Kernel {
                    name: Label::default(),
                    buffers: Vec::new(),
                    axes: 0,
                    parallel: Vec::new(),
                    body: vec![Item::Step(step.clone())],
                };
                alone.visit_buffer_uses(&mut |id| mentioned |= id == read);
                if mentioned {
                    return None;
                }
                Item::Step(step)
            }
        })
    };
    items.into_iter().map(one).collect()
}

fn remap_store(s: &mut Store, map: &[oaaxc_ir::kernel::V]) {
    s.value = map[s.value.0 as usize];
    s.when = s.when.map(|v| map[v.0 as usize]);
    for i in &mut s.index {
        if let Index::Value(v) = i {
            *v = map[v.0 as usize];
        }
    }
}

/// A contraction reads through a view: the operand's indices become the view's, where they stay affine.
fn view_operand(operand: &mut oaaxc_ir::kernel::Operand, p: &Producer) -> Option<()> {
    let [Op::Load { buffer, index, when: None, bounds, otherwise, .. }] = &p.body.post.ops[..] else { return None };
    if operand.otherwise.is_some() {
        return None;
    }
    let bind =
        |axis: AxisId| p.axes.iter().position(|a| *a == Some(axis)).map_or(Expr::constant(0), |at| operand.index[at].clone());
    let mut moved = Vec::new();
    for i in index {
        let Index::Expr(e) = i else { return None };
        let e = e.replace_axes(&bind);
        let mut affine = true;
        e.visit(&mut |atom| affine &= matches!(atom, Atom::Sym(_) | Atom::Axis(_)));
        if !affine {
            return None;
        }
        moved.push(e);
    }
    match bounds {
        Bounds::Inside => {}
        Bounds::Otherwise => operand.otherwise = Some(*otherwise),
        Bounds::Fault => return None,
    }
    operand.buffer = *p.buffers.get(buffer)?;
    operand.index = moved;
    Some(())
}

/// Whether computing the value again costs about as much as loading it.
fn is_cheap(body: &Body) -> bool {
    let mut loads = 0;
    let mut work = 0;
    for op in &body.ops {
        match op {
            Op::Load { .. } => loads += 1,
            Op::Const(_) | Op::Index(_) | Op::Param(..) => {}
            Op::Unary(UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Not, _) | Op::Select(..) | Op::Cast(..) => work += 1,
            Op::Binary(op, ..) if !matches!(op, oaaxc_ir::kernel::BinaryOp::Pow | oaaxc_ir::kernel::BinaryOp::Div) => work += 1,
            Op::Unary(..) | Op::Binary(..) => return false,
        }
    }
    loads <= 1 && work <= 2
}

/// Whether the kernel touches each element of the buffer at most once.
fn visits_once(kernel: &Kernel, buffer: BufferId) -> bool {
    let Some(Step::Loop(l)) = kernel.single_step() else { return false };
    let mut loads = 0;
    let mut covers = true;
    for op in l.body.ops.iter().chain(&l.post.ops) {
        if let Op::Load { buffer: from, index, .. } = op
            && *from == buffer
        {
            loads += 1;
            for axis in kernel.parallel.iter().chain(&l.parallel).chain(&l.reduce) {
                let used = index.iter().any(|i| matches!(i, Index::Expr(e) if e.uses_axis(axis.axis)));
                covers &= used || axis.extent.is(1);
            }
        }
    }
    loads == 1 && covers
}

/// Whether the fastest axis of the result is the fastest of what it reads.
fn keeps_innermost(p: &Producer) -> bool {
    let Some(Some(last)) = p.axes.last() else { return true };
    p.body.post.ops.iter().all(|op| match op {
        Op::Load { index, .. } => {
            let tail = index.last();
            index.iter().all(|i| !matches!(i, Index::Expr(e) if e.uses_axis(*last)) || Some(i) == tail)
        }
        _ => true,
    })
}
