//! Fusion backwards: the consumer's work moves to the place where the producer stores.

use std::collections::BTreeMap;

use oaaxc_ir::expr::{AxisId, Expr};
use oaaxc_ir::kernel::{Body, Bounds, BufferId, Index, Item, Loop, LoopAxis, Op, Step, Store};
use oaaxc_ir::program::{Launch, SlotId};

use crate::kernel::fuse::{adopt, argument_of, merged, plain_loop};
use crate::kernel::resolve::drop_unused;

/// The consumer's work at the place where the producer stores.
pub(super) fn epilogue(producer: &Launch, consumer: &Launch, slot: SlotId) -> Option<Launch> {
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
pub(super) fn own_axes(index: &[Expr], dims: &[Expr], parallel: &[LoopAxis]) -> Option<Vec<Option<AxisId>>> {
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
