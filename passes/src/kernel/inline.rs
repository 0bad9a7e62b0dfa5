//! Puts the body of a producing loop in the place of a load: the mechanics under `fuse`.

use std::collections::BTreeMap;

use oaaxc_ir::expr::{Atom, AxisId, Expr};
use oaaxc_ir::kernel::{BinaryOp, Body, Bounds, BufferId, Index, Loop, Op, V};
use oaaxc_ir::{DType, Scalar};

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
        // The fault would have to be raised by the producer's loads: leave it where it is.
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
            Op::Load { buffer, dtype, index, when, bounds, otherwise } => {
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
