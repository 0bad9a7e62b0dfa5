//! One form for equal kernels: symbols renamed in order of appearance, axes in order of use.
//!
//! Two launches with equal canonical kernels share one compiled kernel; what differs, the sizes,
//! are the launch's dims.

use crate::expr::{AxisId, Expr, SymId};
use crate::kernel::{Item, Kernel, LoopAxis, Step, Store};

/// The canonical kernel, and for each of its symbols (s0, s1, …) the symbol of the original.
pub fn canonical(kernel: &Kernel) -> (Kernel, Vec<SymId>) {
    let mut out = kernel.clone();
    let mut symbols: Vec<SymId> = Vec::new();
    let mut axes: Vec<AxisId> = Vec::new();
    collect_axes(&out, &mut axes);
    out.map_exprs(&mut |e| {
        for s in e.symbols() {
            if !symbols.contains(&s) {
                symbols.push(s);
            }
        }
        e.clone()
    });
    let sym = |s: SymId| Expr::sym(SymId(symbols.iter().position(|x| *x == s).expect("collected above") as u32));
    let rank = |a: AxisId| AxisId(axes.iter().position(|x| *x == a).expect("every used axis is declared") as u32);
    out.map_exprs(&mut |e| e.substitute(&sym, &|a| Expr::axis(rank(a))));
    out.map_axes(&mut |a| rank(a));
    out.axes = axes.len() as u32;
    (out, symbols)
}

fn collect_axes(kernel: &Kernel, axes: &mut Vec<AxisId>) {
    let mut copy = kernel.clone();
    copy.map_axes(&mut |a| {
        if !axes.contains(&a) {
            axes.push(a);
        }
        a
    });
}

impl Kernel {
    /// Rewrites every expression of the kernel, in a fixed order.
    pub fn map_exprs(&mut self, f: &mut dyn FnMut(&Expr) -> Expr) {
        for buffer in &mut self.buffers {
            for dim in &mut buffer.dims {
                *dim = f(dim);
            }
        }
        map_extents(&mut self.parallel, f);
        map_items(&mut self.body, f);
    }
    /// Renames the declared axes, in a fixed order (uses in expressions are `map_exprs`'s).
    pub fn map_axes(&mut self, f: &mut dyn FnMut(AxisId) -> AxisId) {
        rename(&mut self.parallel, f);
        rename_items(&mut self.body, f);
    }
}

fn rename(axes: &mut [LoopAxis], f: &mut dyn FnMut(AxisId) -> AxisId) {
    for axis in axes {
        axis.axis = f(axis.axis);
    }
}

fn rename_items(items: &mut [Item], f: &mut dyn FnMut(AxisId) -> AxisId) {
    for item in items {
        match item {
            Item::Sequential { axis, body } => {
                axis.axis = f(axis.axis);
                rename_items(body, f);
            }
            Item::Step(Step::Loop(l)) => {
                rename(&mut l.parallel, f);
                rename(&mut l.reduce, f);
            }
            Item::Step(Step::Contract(c)) => {
                for axes in [&mut c.batch, &mut c.m, &mut c.n, &mut c.k] {
                    rename(axes, f);
                }
            }
            Item::Step(Step::Sort(s)) => {
                rename(&mut s.parallel, f);
                s.along.axis = f(s.along.axis);
            }
            Item::Step(Step::Compact(c)) => {
                rename(&mut c.axes, f);
                c.position = f(c.position);
            }
        }
    }
}

fn map_extents(axes: &mut [LoopAxis], f: &mut dyn FnMut(&Expr) -> Expr) {
    for axis in axes {
        axis.extent = f(&axis.extent);
    }
}

fn map_body(body: &mut crate::kernel::Body, f: &mut dyn FnMut(&Expr) -> Expr) {
    for op in &mut body.ops {
        op.map_exprs(f);
    }
}

fn map_stores(stores: &mut [Store], f: &mut dyn FnMut(&Expr) -> Expr) {
    for index in stores.iter_mut().flat_map(|s| &mut s.index) {
        if let crate::kernel::Index::Expr(e) = index {
            *e = f(e);
        }
    }
}

fn map_items(items: &mut [Item], f: &mut dyn FnMut(&Expr) -> Expr) {
    for item in items {
        match item {
            Item::Sequential { axis, body } => {
                axis.extent = f(&axis.extent);
                map_items(body, f);
            }
            Item::Step(step) => step.map_exprs(f),
        }
    }
}

impl Step {
    /// Rewrites every expression of the step, in a fixed order.
    pub fn map_exprs(&mut self, f: &mut dyn FnMut(&Expr) -> Expr) {
        match self {
            Step::Loop(l) => {
                map_extents(&mut l.parallel, f);
                map_extents(&mut l.reduce, f);
                map_body(&mut l.body, f);
                map_body(&mut l.post, f);
                map_stores(&mut l.stores, f);
            }
            Step::Contract(c) => {
                for axes in [&mut c.batch, &mut c.m, &mut c.n, &mut c.k] {
                    map_extents(axes, f);
                }
                for operand in [&mut c.a, &mut c.b] {
                    operand.index.iter_mut().for_each(|e| *e = f(e));
                    if let Some((_, index)) = &mut operand.zero {
                        index.iter_mut().for_each(|e| *e = f(e));
                    }
                    if let Some((body, _)) = &mut operand.prologue {
                        map_body(body, f);
                    }
                }
                map_body(&mut c.post, f);
                map_stores(&mut c.stores, f);
            }
            Step::Sort(s) => {
                map_extents(&mut s.parallel, f);
                s.along.extent = f(&s.along.extent);
                map_body(&mut s.key, f);
                s.index.iter_mut().for_each(|e| *e = f(e));
            }
            Step::Compact(c) => {
                map_extents(&mut c.axes, f);
                map_body(&mut c.body, f);
                map_stores(&mut c.stores, f);
            }
        }
    }
}
