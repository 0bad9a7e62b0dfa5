//! Runs one kernel as it is written: one element after the other, no cleverness.
//!
//! Every index is checked; `Inside` bounds that are broken are reported as a fault of the compiler.

use crate::dtype::DType;
use crate::expr::{AxisId, Expr, SymId};
use crate::interpret::arithmetic::{binary, compare, join, neutral, unary};
use crate::kernel::{
    Body, Bounds, Buffer, BufferId, Compact, FoldKind, Index, Item, Kernel, Layout, Loop, LoopAxis, Op, Role, Sort, Step, Store,
    V,
};
use crate::scalar::Scalar;

/// Elements of a buffer, in its layout's physical order.
pub type Memory = Vec<u8>;

/// Why a kernel stopped.
pub type Fault = String;

/// Runs a kernel over its whole iteration space. `memory` has one entry per argument, in order.
pub fn run(kernel: &Kernel, memory: &mut [Memory], symbols: &dyn Fn(SymId) -> Option<i64>) -> Result<(), Fault> {
    let mut run = Run { kernel, memory: Vec::new(), symbols, axes: vec![0; kernel.axes as usize], dims: Vec::new() };
    let mut arguments = memory.iter_mut();
    for buffer in &kernel.buffers {
        let dims = run.sizes(&buffer.dims)?;
        run.memory.push(match buffer.role {
            Role::Local => vec![0; storage_len(&buffer.layout, &dims, buffer.dtype)],
            _ => std::mem::take(arguments.next().ok_or("too few arguments")?),
        });
        run.dims.push(dims);
    }
    let result = run.nest(&kernel.parallel, &mut |run| run.items(&kernel.body));
    let mut back = memory.iter_mut();
    for (buffer, bytes) in kernel.buffers.iter().zip(run.memory) {
        if buffer.role != Role::Local {
            *back.next().expect("counted above") = bytes;
        }
    }
    result
}

/// Bytes that a buffer of these sizes takes in this layout.
pub fn storage_len(layout: &Layout, dims: &[i64], dtype: DType) -> usize {
    let dims: Vec<Expr> = dims.iter().map(|&d| d.into()).collect();
    layout.elements(&dims).as_const().and_then(|n| usize::try_from(n).ok()).unwrap_or(0) * dtype.size()
}

/// The physical position of a logical index, where it lies inside the sizes.
pub fn place(layout: &Layout, dims: &[i64], index: &[i64]) -> Option<usize> {
    if index.iter().zip(dims).any(|(i, d)| *i < 0 || i >= d) {
        return None;
    }
    if layout.is_plain() {
        return usize::try_from(index.iter().zip(dims).fold(0i64, |at, (i, d)| at * d + i)).ok();
    }
    let exprs = |v: &[i64]| v.iter().map(|&x| Expr::constant(x)).collect::<Vec<_>>();
    usize::try_from(layout.offset(&exprs(dims), &exprs(index)).as_const()?).ok()
}

struct Run<'a> {
    kernel: &'a Kernel,
    memory: Vec<Memory>,
    symbols: &'a dyn Fn(SymId) -> Option<i64>,
    axes: Vec<i64>,
    dims: Vec<Vec<i64>>,
}

type Do<'x, 'a> = &'x mut dyn FnMut(&mut Run<'a>) -> Result<(), Fault>;

impl<'a> Run<'a> {
    fn value(&self, e: &Expr) -> Result<i64, Fault> {
        e.eval(self.symbols, &|a: AxisId| self.axes.get(a.0 as usize).copied()).ok_or_else(|| format!("cannot evaluate {e}"))
    }
    fn sizes(&self, dims: &[Expr]) -> Result<Vec<i64>, Fault> {
        dims.iter().map(|d| self.value(d)).collect()
    }
    fn nest(&mut self, axes: &[LoopAxis], f: Do<'_, 'a>) -> Result<(), Fault> {
        let Some((first, rest)) = axes.split_first() else { return f(self) };
        for i in 0..self.value(&first.extent)? {
            self.axes[first.axis.0 as usize] = i;
            self.nest(rest, f)?;
        }
        Ok(())
    }
    fn items(&mut self, items: &'a [Item]) -> Result<(), Fault> {
        for item in items {
            match item {
                Item::Sequential { axis, body } => {
                    self.nest(std::slice::from_ref(axis), &mut |run| run.items(body))?;
                }
                Item::Step(Step::Loop(l)) => self.run_loop(l)?,
                Item::Step(Step::Contract(c)) => self.run_loop(&c.expand(&self.kernel.buffers))?,
                Item::Step(Step::Sort(s)) => self.sort(s)?,
                Item::Step(Step::Compact(c)) => self.compact(c)?,
            }
        }
        Ok(())
    }
    fn run_loop(&mut self, l: &Loop) -> Result<(), Fault> {
        self.nest(&l.parallel, &mut |run| {
            let mut accumulators: Vec<Scalar> = l.folds.iter().map(|f| neutral(f.kind, f.dtype)).collect();
            let mut keys: Vec<Option<Scalar>> = vec![None; l.folds.len()];
            let mut position = 0i64;
            run.nest(&l.reduce, &mut |run| {
                if l.folds.is_empty() {
                    return Ok(());
                }
                let values = run.body(&l.body, &[])?;
                for (i, fold) in l.folds.iter().enumerate() {
                    let value = values[fold.value.0 as usize];
                    match fold.kind {
                        FoldKind::ArgMin { last } | FoldKind::ArgMax { last } => {
                            if beats(fold.kind, last, value, keys[i]) {
                                keys[i] = Some(value);
                                accumulators[i] = Scalar::from_i64(position);
                            }
                        }
                        kind => accumulators[i] = join(kind, accumulators[i], value.cast(fold.dtype)),
                    }
                }
                position += 1;
                Ok(())
            })?;
            let values = run.body(&l.post, &accumulators)?;
            run.stores(&l.stores, &values)
        })
    }
    fn sort(&mut self, s: &Sort) -> Result<(), Fault> {
        self.nest(&s.parallel, &mut |run| {
            let along = s.along.axis.0 as usize;
            let count = run.value(&s.along.extent)?;
            let mut keys = Vec::new();
            for i in 0..count {
                run.axes[along] = i;
                keys.push(run.body(&s.key, &[])?[s.value.0 as usize]);
            }
            let mut order: Vec<usize> = (0..keys.len()).collect();
            order.sort_by(|&x, &y| if s.descending { compare(keys[y], keys[x]) } else { compare(keys[x], keys[y]) });
            for (rank, &from) in order.iter().enumerate() {
                run.axes[along] = rank as i64;
                let index = run.sizes(&s.index)?;
                run.write(s.order, &index, Scalar::from_i64(from as i64), Bounds::Inside)?;
            }
            Ok(())
        })
    }
    fn compact(&mut self, c: &Compact) -> Result<(), Fault> {
        let position = c.position.0 as usize;
        self.axes[position] = 0;
        self.nest(&c.axes, &mut |run| {
            let values = run.body(&c.body, &[])?;
            if values[c.keep.0 as usize].as_bool() {
                run.stores(&c.stores, &values)?;
                run.axes[position] += 1;
            }
            Ok(())
        })?;
        match c.count {
            Some(count) => self.write(count, &[], Scalar::from_i64(self.axes[position]), Bounds::Inside),
            None => Ok(()),
        }
    }
    fn body(&self, body: &Body, params: &[Scalar]) -> Result<Vec<Scalar>, Fault> {
        let mut values: Vec<Scalar> = Vec::with_capacity(body.ops.len());
        for op in &body.ops {
            let get = |v: &V| values[v.0 as usize];
            let value = match op {
                Op::Const(scalar) => *scalar,
                Op::Index(e) => Scalar::from_i64(self.value(e)?),
                Op::Param(i, dtype) => params.get(*i as usize).ok_or("a parameter is missing")?.cast(*dtype),
                Op::Load { buffer, index, when, bounds, otherwise, .. } => {
                    if when.as_ref().is_none_or(|w| get(w).as_bool()) {
                        self.read(*buffer, &self.indices(index, &values)?, *bounds, *otherwise)?
                    } else {
                        *otherwise
                    }
                }
                Op::Unary(op, x) => unary(*op, get(x)),
                Op::Binary(op, x, y) => binary(*op, get(x), get(y)),
                Op::Select(c, x, y) => {
                    if get(c).as_bool() {
                        get(x)
                    } else {
                        get(y)
                    }
                }
                Op::Cast(dtype, x) => get(x).cast(*dtype),
            };
            values.push(value);
        }
        Ok(values)
    }
    fn indices(&self, index: &[Index], values: &[Scalar]) -> Result<Vec<i64>, Fault> {
        let one = |i: &Index| match i {
            Index::Expr(e) => self.value(e),
            Index::Value(v) => Ok(values[v.0 as usize].as_i64()),
        };
        index.iter().map(one).collect()
    }
    fn buffer(&self, id: BufferId) -> &'a Buffer {
        self.kernel.buffer(id)
    }
    fn outside(&self, id: BufferId, index: &[i64], bounds: Bounds) -> Fault {
        let dims = &self.dims[id.0 as usize];
        match bounds {
            Bounds::Fault => format!("an index is out of range: {index:?} of {dims:?}"),
            _ => format!("kernel \"{}\" touches {id} of {dims:?} at {index:?}", self.kernel.name.0),
        }
    }
    fn read(&self, id: BufferId, index: &[i64], bounds: Bounds, otherwise: Scalar) -> Result<Scalar, Fault> {
        let buffer = self.buffer(id);
        match place(&buffer.layout, &self.dims[id.0 as usize], index) {
            Some(at) => {
                let size = buffer.dtype.size();
                let bytes = self.memory[id.0 as usize].get(at * size..(at + 1) * size);
                bytes.map(|b| Scalar::read(buffer.dtype, b)).ok_or_else(|| self.outside(id, index, Bounds::Inside))
            }
            None if bounds == Bounds::Otherwise => Ok(otherwise),
            None => Err(self.outside(id, index, bounds)),
        }
    }
    fn write(&mut self, id: BufferId, index: &[i64], value: Scalar, bounds: Bounds) -> Result<(), Fault> {
        let buffer = self.buffer(id);
        match place(&buffer.layout, &self.dims[id.0 as usize], index) {
            Some(at) => {
                let mut bytes = Vec::with_capacity(16);
                value.cast(buffer.dtype).append_to(&mut bytes);
                let size = buffer.dtype.size();
                let outside = self.outside(id, index, Bounds::Inside);
                let to = self.memory[id.0 as usize].get_mut(at * size..(at + 1) * size).ok_or(outside)?;
                to.copy_from_slice(&bytes);
                Ok(())
            }
            None if bounds == Bounds::Otherwise => Ok(()),
            None => Err(self.outside(id, index, bounds)),
        }
    }
    fn stores(&mut self, stores: &[Store], values: &[Scalar]) -> Result<(), Fault> {
        for s in stores {
            if s.when.is_none_or(|w| values[w.0 as usize].as_bool()) {
                let index = self.indices(&s.index, values)?;
                self.write(s.buffer, &index, values[s.value.0 as usize], s.bounds)?;
            }
        }
        Ok(())
    }
}

/// Whether a value takes the place of the best so far in an arg fold. NaN is never beaten, as in numpy.
fn beats(kind: FoldKind, last: bool, value: Scalar, best: Option<Scalar>) -> bool {
    let Some(best) = best else { return true };
    let nan = |s: Scalar| s.dtype().is_float() && s.as_f64().is_nan();
    if nan(best) || nan(value) {
        return nan(value) && (!nan(best) || last);
    }
    let order = compare(value, best);
    match kind {
        FoldKind::ArgMin { .. } => order.is_lt() || last && order.is_eq(),
        _ => order.is_gt() || last && order.is_eq(),
    }
}
