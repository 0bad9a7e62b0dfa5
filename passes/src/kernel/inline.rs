//! Fusion forwards: the body of a producing loop moves to the place of a load in the consumer.

use std::collections::BTreeMap;

use oaaxc_ir::expr::{Atom, AxisId, Expr};
use oaaxc_ir::kernel::{
    BinaryOp, Body, Bounds, BufferId, Index, Item, Kernel, Label, Loop, Op, Operand, Step, Store, UnaryOp, V,
};
use oaaxc_ir::program::{Launch, SlotId};
use oaaxc_ir::{DType, Scalar};

use crate::kernel::epilogue::own_axes;
use crate::kernel::fuse::{adopt, argument_of, merged, plain_loop};
use crate::kernel::resolve::drop_unused;

/// A loop without reduction that writes one buffer at its own axes.
pub struct Producer<'a> {
    /// The loop.
    pub body: &'a Loop,
    /// Its axes in the order of the buffer's dims; a dim of size 1 may have none. Its other axes run over one point.
    pub axes: Vec<Option<AxisId>>,
    /// The value that it stores.
    pub value: V,
    /// The buffer's sizes.
    pub dims: Vec<Expr>,
    /// Its buffers' names in the consumer.
    pub buffers: BTreeMap<BufferId, BufferId>,
    /// Its kernel, for the sizes of its buffers.
    pub kernel: &'a Kernel,
}

/// The body with every load of `buffer` replaced by the producer's value there.
/// Returns it with the new place of each old value; `None` where an index cannot be expressed.
pub fn replace_loads(body: &Body, buffer: BufferId, producer: &Producer) -> Option<(Body, Vec<V>)> {
    let mut out = Body::default();
    let mut map: Vec<V> = Vec::with_capacity(body.ops.len());
    for op in &body.ops {
        let mut op = op.clone();
        op.map_values(&mut |v| map[v.0 as usize]);
        let value = match op {
            Op::Load { buffer: from, index, when, bounds, otherwise, .. } if from == buffer => {
                inline_one(&mut out, producer, &index, when, bounds, otherwise)?
            }
            op => out.push(op),
        };
        map.push(value);
    }
    Some((out, map))
}

fn inline_one(out: &mut Body, p: &Producer, index: &[Index], when: Option<V>, bounds: Bounds, otherwise: Scalar) -> Option<V> {
    let mut guard = when;
    match bounds {
        Bounds::Inside => {}
        // The fault is then raised by the producer's loads, so each must ask the same of the same indices.
        Bounds::Fault if asks_the_same(p) => {}
        Bounds::Fault => return None,
        Bounds::Otherwise => {
            for (i, size) in index.iter().zip(&p.dims) {
                let inside = is_inside(out, i, size);
                guard = Some(guard.map_or(inside, |g| out.binary(BinaryOp::And, g, inside)));
            }
        }
    }
    let mut bind: BTreeMap<AxisId, Index> = p.body.parallel.iter().map(|a| (a.axis, Index::Expr(0.into()))).collect();
    bind.extend(p.axes.iter().zip(index).filter_map(|(axis, i)| Some(((*axis)?, i.clone()))));
    let mut map: Vec<V> = Vec::new();
    for op in &p.body.post.ops {
        let mut op = op.clone();
        op.map_values(&mut |v| map[v.0 as usize]);
        let value = match op {
            Op::Index(e) => expression(out, &e, &bind)?,
            Op::Load { buffer, dtype, index, when, bounds: bounds_of_load, otherwise } => {
                let mut moved = Vec::new();
                for i in index {
                    moved.push(match i {
                        Index::Value(v) => Index::Value(v),
                        Index::Expr(e) => rebind(out, &e, &bind)?,
                    });
                }
                let when = match (guard, when) {
                    (Some(g), Some(w)) => Some(out.binary(BinaryOp::And, g, w)),
                    (g, w) => g.or(w),
                };
                // A checked load under a guard of the consumer keeps its check: it happens only where guarded.
                let inherits = bounds == Bounds::Fault && !moved.is_empty();
                let bounds = if inherits { Bounds::Fault } else { bounds_of_load };
                out.push(Op::Load { buffer: *p.buffers.get(&buffer)?, dtype, index: moved, when, bounds, otherwise })
            }
            op => out.push(op),
        };
        map.push(value);
    }
    let value = map[p.value.0 as usize];
    Some(match guard {
        None => value,
        Some(guard) => {
            let no = out.scalar(otherwise);
            out.select(guard, value, no)
        }
    })
}

/// Whether every load of the producer is of one element that is always there, or of a place that is inside its buffer
/// exactly where the result's is inside the result.
fn asks_the_same(p: &Producer) -> bool {
    p.body.post.ops.iter().all(|op| match op {
        Op::Load { buffer, index, when, bounds, .. } => {
            let same = |(index, size): (&Index, &Expr)| {
                let Index::Expr(index) = index else { return false };
                let fixed = index.as_const().zip(size.as_const()).is_some_and(|(i, n)| 0 <= i && i < n);
                let axis = index.as_axis();
                fixed || axis.is_some() && p.axes.iter().zip(&p.dims).any(|(a, dim)| *a == axis && dim == size)
            };
            when.is_none() && *bounds == Bounds::Inside && index.iter().zip(&p.kernel.buffer(*buffer).dims).all(same)
        }
        _ => true,
    })
}

fn is_inside(out: &mut Body, index: &Index, size: &Expr) -> V {
    let i = match index {
        Index::Expr(e) => out.index(e.clone()),
        Index::Value(v) => *v,
    };
    let (zero, size) = (out.int(DType::I64, 0), out.index(size.clone()));
    let low = out.binary(BinaryOp::Le, zero, i);
    let high = out.binary(BinaryOp::Lt, i, size);
    out.binary(BinaryOp::And, low, high)
}

/// An index expression with the producer's axes bound.
fn rebind(out: &mut Body, e: &Expr, bind: &BTreeMap<AxisId, Index>) -> Option<Index> {
    if let Some(axis) = e.as_axis() {
        return bind.get(&axis).cloned();
    }
    if computed_axes(e, bind) { expression(out, e, bind).map(Index::Value) } else { substituted(e, bind).map(Index::Expr) }
}

fn computed_axes(e: &Expr, bind: &BTreeMap<AxisId, Index>) -> bool {
    let mut found = false;
    e.visit(&mut |atom| {
        if let Atom::Axis(a) = atom {
            found |= matches!(bind.get(a), Some(Index::Value(_)));
        }
    });
    found
}

fn substituted(e: &Expr, bind: &BTreeMap<AxisId, Index>) -> Option<Expr> {
    let mut known = true;
    e.visit(&mut |atom| {
        if let Atom::Axis(a) = atom {
            known &= bind.contains_key(a);
        }
    });
    known.then(|| {
        e.replace_axes(&|a| match &bind[&a] {
            Index::Expr(e) => e.clone(),
            Index::Value(_) => unreachable!("the caller asked for computed axes first"),
        })
    })
}

/// The expression as a value of the body, computed where an axis is bound to a computed index.
fn expression(out: &mut Body, e: &Expr, bind: &BTreeMap<AxisId, Index>) -> Option<V> {
    if !computed_axes(e, bind) {
        let e = substituted(e, bind)?;
        return Some(out.index(e));
    }
    let mut sum: Option<V> = (e.offset() != 0).then(|| out.int(DType::I64, e.offset()));
    for term in e.terms() {
        let mut product: Option<V> = (term.coefficient != 1).then(|| out.int(DType::I64, term.coefficient));
        for atom in &term.atoms {
            let factor = atom_value(out, atom, bind)?;
            product = Some(product.map_or(factor, |p| out.binary(BinaryOp::Mul, p, factor)));
        }
        let product = product.expect("a term has atoms");
        sum = Some(sum.map_or(product, |s| out.binary(BinaryOp::Add, s, product)));
    }
    sum
}

fn atom_value(out: &mut Body, atom: &Atom, bind: &BTreeMap<AxisId, Index>) -> Option<V> {
    let two = |out: &mut Body, a: &Expr, b: &Expr| Some((expression(out, a, bind)?, expression(out, b, bind)?));
    Some(match atom {
        Atom::Sym(s) => out.index(Expr::sym(*s)),
        Atom::Axis(a) => match bind.get(a)? {
            Index::Value(v) => *v,
            Index::Expr(e) => out.index(e.clone()),
        },
        Atom::Min(a, b) => {
            let (a, b) = two(out, a, b)?;
            out.binary(BinaryOp::Min, a, b)
        }
        Atom::Max(a, b) => {
            let (a, b) = two(out, a, b)?;
            out.binary(BinaryOp::Max, a, b)
        }
        Atom::Mod(a, b) => {
            let (a, b) = two(out, a, b)?;
            out.binary(BinaryOp::Mod, a, b)
        }
        Atom::FloorDiv(a, b) => {
            // a − (a mod b) is a multiple of b, so the truncating division is exact.
            let (a, b) = two(out, a, b)?;
            let rest = out.binary(BinaryOp::Mod, a, b);
            let whole = out.binary(BinaryOp::Sub, a, rest);
            out.binary(BinaryOp::Div, whole, b)
        }
        Atom::CeilDiv(..) => return None,
        Atom::Less(a, b) => {
            let (a, b) = two(out, a, b)?;
            let c = out.binary(BinaryOp::Lt, a, b);
            out.cast(DType::I64, c)
        }
        Atom::Equal(a, b) => {
            let (a, b) = two(out, a, b)?;
            let c = out.binary(BinaryOp::Eq, a, b);
            out.cast(DType::I64, c)
        }
        Atom::Select(c, a, b) => {
            let c = expression(out, c, bind)?;
            let zero = out.int(DType::I64, 0);
            let c = out.binary(BinaryOp::Ne, c, zero);
            let (a, b) = two(out, a, b)?;
            out.select(c, a, b)
        }
    })
}

/// The producer's work at the place where the consumer loads.
pub(super) fn inline(producer: &Launch, consumer: &Launch, slot: SlotId, only_reader: bool) -> Option<Launch> {
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
    // Of a table from which rows are picked, most is seldom wanted: a little more work for each pick pays.
    let cheap = if picks(&consumer.kernel, read) { is_within(&work.post, 3, 4) } else { is_within(&work.post, 1, 2) };
    if !(cheap || only_reader && visits_once(&consumer.kernel, read)) {
        return None;
    }
    let mut fused = consumer.clone();
    let buffers = adopt(&mut fused, producer);
    (fused.kernel.name, fused.origins) = merged(producer, consumer);
    if raises_faults(&consumer.kernel, read) {
        // A fault names the first node: the one whose data is wrong.
        fused.origins = merged(consumer, producer).1;
    }
    let dims = producer.kernel.buffer(written).dims.clone();
    let p = Producer { body: work, axes, value: store.value, dims, buffers, kernel: &producer.kernel };
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

fn remap_store(s: &mut Store, map: &[V]) {
    s.value = map[s.value.0 as usize];
    s.when = s.when.map(|v| map[v.0 as usize]);
    for i in &mut s.index {
        if let Index::Value(v) = i {
            *v = map[v.0 as usize];
        }
    }
}

/// A contraction reads through a view: the operand's indices become the view's, where they stay affine.
fn view_operand(operand: &mut Operand, p: &Producer) -> Option<()> {
    let (buffer, index, bounds, otherwise) = match &p.body.post.ops[..] {
        [Op::Load { buffer, index, when: None, bounds, otherwise, .. }] => (buffer, index, bounds, otherwise),
        // Halves are widened where they are loaded: the sum's type holds them exactly.
        [
            Op::Load { buffer, dtype: DType::F16 | DType::BF16, index, when: None, bounds, otherwise },
            Op::Cast(DType::F32, V(0)),
        ] if p.value == V(1) => (buffer, index, bounds, otherwise),
        _ => return None,
    };
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

/// Whether a load of the buffer is of such a kind.
fn some_load(kernel: &Kernel, read: BufferId, kind: impl Fn(&[Index], Bounds) -> bool) -> bool {
    let mut some = false;
    kernel.visit_bodies(&mut |body| {
        some |= body.ops.iter().any(|op| match op {
            Op::Load { buffer, index, bounds, .. } => *buffer == read && kind(index, *bounds),
            _ => false,
        });
    });
    some
}

/// Whether a load of the buffer checks the model's own data.
fn raises_faults(kernel: &Kernel, read: BufferId) -> bool {
    some_load(kernel, read, |_, bounds| bounds == Bounds::Fault)
}

/// Whether the kernel reads the buffer at places that it computes.
fn picks(kernel: &Kernel, read: BufferId) -> bool {
    some_load(kernel, read, |index, _| index.iter().any(|i| matches!(i, Index::Value(_))))
}

/// Whether computing the value takes at most so many loads and simple operations, one of each being about what it costs to load it.
fn is_within(body: &Body, most_loads: usize, most_work: usize) -> bool {
    let mut loads = 0;
    let mut work = 0;
    for op in &body.ops {
        match op {
            Op::Load { .. } => loads += 1,
            Op::Const(_) | Op::Index(_) | Op::Param(..) => {}
            Op::Unary(UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Not, _) | Op::Select(..) | Op::Cast(..) => work += 1,
            Op::Binary(op, ..) if !matches!(op, BinaryOp::Pow | BinaryOp::Div) => work += 1,
            Op::Unary(..) | Op::Binary(..) => return false,
        }
    }
    loads <= most_loads && work <= most_work
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
