//! Scan outputs of Loop and Scan: one slice per iteration, stacked along a new axis.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::{Expr, SymId};
use oaaxc_ir::kernel::{Index, Loop, Store};
use oaaxc_ir::lower::{Arg, LowerCx};
use oaaxc_ir::program::{Instr, SlotId};
use oaaxc_ir::tensor::{Coordinates, Data, Tensor, position};
use oaaxc_ir::{DType, ReadAttributes, Type, ValueId};

use super::is_outer;

type Result<T> = std::result::Result<T, Diagnostic>;

/// Stacks slices of equal type along a new axis as result `index`. Without slices it has no elements.
pub(super) fn stack(cx: &EvalCx, index: usize, slices: Vec<Tensor>, axis: usize) -> Result<Tensor> {
    let Some(first) = slices.first() else {
        // No slice tells the type: the inferred one does. Sizes that only an iteration would tell are 0.
        let value = cx.node.outputs.get(index).copied().flatten();
        let ty = value.and_then(|v| cx.graph.values[v].fact.ty.as_tensor());
        let Some((dtype, Some(shape))) = ty.map(|t| (t.dtype, &t.shape)) else {
            return Ok(Tensor::from_f32s(vec![0], &[]));
        };
        let mut dims: Vec<usize> =
            shape.iter().map(|s| s.as_const().and_then(|s| usize::try_from(s).ok()).unwrap_or(0)).collect();
        if let Some(count) = dims.get_mut(axis) {
            *count = 0;
        }
        return Ok(if dtype == DType::String {
            Tensor::from_strings(dims, Vec::new())
        } else {
            Tensor::from_bytes(dtype, dims, Vec::new())
        });
    };
    if slices.iter().any(|s| (s.dtype, &s.dims) != (first.dtype, &first.dims)) || axis > first.rank() {
        return Err(cx.fail(Code::SHAPE, format!("the slices of result {index} differ in shape")));
    }
    let (slice_dims, dtype) = (first.dims.clone(), first.dtype);
    let mut dims = slice_dims.clone();
    dims.insert(axis, slices.len());
    let place = |c: &[usize]| {
        let mut inner = c.to_vec();
        let slice = inner.remove(axis);
        (slice, position(&inner, &slice_dims))
    };
    if dtype == DType::String {
        let all = Coordinates::new(&dims).map(|c| {
            let (slice, at) = place(&c);
            slices[slice].string_at(at).to_vec()
        });
        let all = all.collect();
        return Ok(Tensor::from_strings(dims, all));
    }
    let size = dtype.size();
    let bytes: Vec<_> = slices.iter().map(Tensor::to_bytes).collect();
    let mut out = Vec::new();
    for c in Coordinates::new(&dims) {
        let (slice, at) = place(&c);
        out.extend_from_slice(&bytes[slice][at * size..(at + 1) * size]);
    }
    Ok(Tensor { dtype, dims, data: Data::Bytes(out.into()) })
}

/// A scan output while its loop is lowered.
pub(super) struct ScanOutput {
    result: usize,
    wanted: bool,
    axis: usize,
    /// Sizes of a slice: outer sizes, and symbols that the iterations set.
    slice: Vec<Expr>,
    /// Where the slices go; a view of `memory` where it grows.
    buffer: Arg,
    growth: Option<Growth>,
}

struct Growth {
    /// Room for so many slices.
    capacity: Expr,
    /// The next, larger memory.
    larger: Arg,
    larger_capacity: Expr,
    /// The room that all iterations need, where it is known.
    enough: Option<Expr>,
}

impl ScanOutput {
    /// Before the loop. `trips` is the number of iterations where it is known.
    pub fn before(cx: &mut LowerCx, result: usize, output: ValueId, axis: usize, trips: Option<&Expr>) -> Result<ScanOutput> {
        let Type::Tensor(tensor) = cx.graph.values[output].fact.ty.clone() else {
            return Err(cx.fail(Code::TYPE, "a scan output must be a tensor"));
        };
        let sizes = tensor.shape.ok_or_else(|| cx.fail(Code::RANK, format!("the rank of result {result} is not known")))?;
        let mut open = false;
        let mut slice = Vec::new();
        for size in sizes {
            slice.push(if is_outer(cx, &size) {
                size
            } else {
                open = true;
                let own = Expr::sym(cx.fresh("slice"));
                cx.define(&own, 0.into())?;
                own
            });
        }
        let with = |count: &Expr| {
            let mut dims = slice.clone();
            dims.insert(axis, count.clone());
            dims
        };
        let wanted = cx.node.outputs.get(result).is_some_and(Option::is_some);
        if let (Some(trips), false) = (trips, open) {
            let buffer = cx.heap(tensor.dtype, with(trips));
            cx.emit(Instr::Alloc { slot: buffer.slot });
            return Ok(ScanOutput { result, wanted, axis, slice, buffer, growth: None });
        }
        let (capacity, larger_capacity) = (Expr::sym(cx.fresh("capacity")), Expr::sym(cx.fresh("capacity")));
        let (buffer, larger) = (cx.view(tensor.dtype, with(&capacity)), cx.heap(tensor.dtype, with(&larger_capacity)));
        cx.define(&larger_capacity, 0.into())?;
        cx.define(&capacity, 0.into())?;
        cx.emit(Instr::Alloc { slot: larger.slot });
        cx.emit(Instr::Alias { to: buffer.slot, from: larger.slot });
        Ok(ScanOutput {
            result,
            wanted,
            axis,
            slice,
            buffer,
            growth: Some(Growth { capacity, larger, larger_capacity, enough: trips.cloned() }),
        })
    }

    /// Writes the slice of one iteration at `place` along the axis.
    pub fn write(&mut self, cx: &mut LowerCx, from: SlotId, output: ValueId, counter: SymId, place: &Expr) -> Result<()> {
        if !self.wanted {
            return Ok(());
        }
        let from = cx.arg_of(from);
        let _ = output;
        let first = Expr::sym(counter).equal(&0.into());
        for (size, given) in self.slice.clone().iter().zip(&from.dims) {
            if size == given {
                continue;
            }
            let op = cx.node.op.name;
            if is_outer(cx, size) {
                cx.check(size.equal(given), format!("{op}: the slices of a scan output must have one size"));
                continue;
            }
            cx.check(first.clone() + size.equal(given), format!("{op}: the slices of a scan output must have one size"));
            cx.define(size, given.clone())?;
        }
        if let Some(growth) = &self.growth {
            let (growing, ()) = cx.collect(|cx| {
                let doubled = (growth.capacity.clone() * 2).maximum(&4.into());
                cx.define(&growth.larger_capacity, growth.enough.clone().unwrap_or(doubled))?;
                cx.emit(Instr::Alloc { slot: growth.larger.slot });
                copy_part(cx, &self.buffer, &growth.larger, self.buffer.dims.clone(), Place::Start)?;
                cx.define(&growth.capacity, growth.larger_capacity.clone())?;
                cx.emit(Instr::Alias { to: self.buffer.slot, from: growth.larger.slot });
                Ok(())
            })?;
            let full = Expr::sym(counter).equal(&growth.capacity);
            cx.emit(Instr::If { condition: full, then: growing, otherwise: Vec::new() });
        }
        copy_part(cx, &from, &self.buffer, from.dims.clone(), Place::Slice(self.axis, place.clone()))
    }

    /// After the loop, which ran `trips` times.
    pub fn after(self, cx: &mut LowerCx, trips: &Expr) -> Result<()> {
        let Some(value) = cx.node.outputs.get(self.result).copied().flatten() else { return Ok(()) };
        let dims = cx.graph.values[value].fact.ty.as_tensor().and_then(|t| t.shape.clone()).unwrap_or_default();
        let mut own = self.slice.clone();
        own.insert(self.axis, trips.clone());
        for (d, (to, from)) in dims.iter().zip(&own).enumerate() {
            let is_known_count = d == self.axis && to.as_sym().is_none_or(|s| is_outer(cx, &Expr::sym(s)));
            if to != from && !is_known_count {
                cx.define(to, from.clone())?;
            }
        }
        if self.growth.is_none() {
            if let Some(to) = cx.result_view(self.result)? {
                cx.emit(Instr::Alias { to: to.slot, from: self.buffer.slot });
            }
            return Ok(());
        }
        let to = cx.result(self.result)?;
        copy_part(cx, &self.buffer, &to, to.dims.clone(), Place::Whole)
    }
}

/// Which part of a tensor is written.
enum Place {
    /// All of it.
    Whole,
    /// The elements at the same coordinates; the rest stays.
    Start,
    /// The slice at a position along an axis; the rest stays.
    Slice(usize, Expr),
}

/// Copies the elements of `extents` from one tensor to a part of another.
fn copy_part(cx: &mut LowerCx, from: &Arg, to: &Arg, extents: Vec<Expr>, part: Place) -> Result<()> {
    let mut k = cx.kernel();
    let x = k.read(from);
    let y = if matches!(part, Place::Whole) { k.write(to) } else { k.read_write(to) };
    let mut l = Loop::default();
    let axes = k.axes(&mut l.parallel, &extents);
    let value = l.post.load(&x, axes.iter().map(Index::from).collect());
    let mut place: Vec<Index> = axes.iter().map(Index::from).collect();
    if let Place::Slice(axis, at) = part {
        place.insert(axis, Index::Expr(at));
    }
    l.stores.push(Store::at(&y, place, value));
    k.push(l);
    cx.launch(k)
}
