//! A loop step with its accesses resolved, and its axes merged where they walk memory as one.

use oaaxc_ir::kernel::{Fold, Loop, LoopAxis};
use oaaxc_ir::{AxisId, Expr};

use crate::access::{Code, Put, Resolver};

/// A loop step; see `oaaxc_ir::kernel::Loop`.
#[derive(Clone, Debug, Default)]
pub struct Nest {
    /// Independent axes; the last should be the one that walks memory by ones.
    pub parallel: Vec<LoopAxis>,
    /// Folded axes.
    pub reduce: Vec<LoopAxis>,
    /// Computed at each point.
    pub body: Code,
    /// What is folded.
    pub folds: Vec<Fold>,
    /// Computed at each point of the parallel axes.
    pub post: Code,
    /// What is written.
    pub puts: Vec<Put>,
}

impl Nest {
    /// Resolves a loop and merges its axes. `outer`: parallel axes around it that may be merged with its own.
    pub fn of(resolver: &mut Resolver, outer: &[LoopAxis], step: &Loop) -> Nest {
        let body = resolver.code(&step.body);
        let mut post = resolver.code(&step.post);
        let puts = resolver.puts(&step.stores, &mut post);
        let mut nest = Nest {
            parallel: outer.iter().chain(&step.parallel).cloned().collect(),
            reduce: step.reduce.clone(),
            body,
            folds: step.folds.clone(),
            post,
            puts,
        };
        nest.drop_unit_axes();
        nest.bring_contiguous_axis_inside();
        let mut parallel = std::mem::take(&mut nest.parallel);
        let mut reduce = std::mem::take(&mut nest.reduce);
        nest.merge(&mut parallel);
        nest.merge(&mut reduce);
        resolver.ranges.add_axes(&parallel);
        resolver.ranges.add_axes(&reduce);
        (nest.parallel, nest.reduce) = (parallel, reduce);
        nest
    }

    /// Rewrites every expression except the extents of parallel axes.
    pub fn map_exprs(&mut self, f: &mut dyn FnMut(&Expr) -> Expr) {
        self.body.map_exprs(f);
        self.post.map_exprs(f);
        self.puts.iter_mut().for_each(|p| p.access.map_exprs(f));
        self.reduce.iter_mut().for_each(|a| a.extent = f(&a.extent));
    }
    fn all_exprs(&self) -> Vec<Expr> {
        let mut all = Vec::new();
        self.clone().map_exprs(&mut |e| {
            all.push(e.clone());
            e.clone()
        });
        all
    }
    /// An axis of extent 1 is 0.
    fn drop_unit_axes(&mut self) {
        let unit: Vec<AxisId> = self.parallel.iter().chain(&self.reduce).filter(|a| a.extent.is(1)).map(|a| a.axis).collect();
        if unit.is_empty() {
            return;
        }
        let zero = |e: &Expr| e.replace_axes(&|a| if unit.contains(&a) { Expr::constant(0) } else { Expr::axis(a) });
        self.map_exprs(&mut |e| zero(e));
        self.parallel.iter_mut().for_each(|a| a.extent = zero(&a.extent));
        self.parallel.retain(|a| !unit.contains(&a.axis));
        // At least one reduce axis stays: a fold needs its loop.
        let keep = self.reduce.last().map(|a| a.axis);
        let last_unit = self.reduce.iter().all(|a| unit.contains(&a.axis));
        self.reduce.retain(|a| !unit.contains(&a.axis) || last_unit && Some(a.axis) == keep);
    }
    /// Independent axes may stand in any order: the one by which stores advance by one goes last.
    fn bring_contiguous_axis_inside(&mut self) {
        let ids: Vec<AxisId> = self.parallel.iter().map(|a| a.axis).collect();
        if self.parallel.iter().any(|a| ids.iter().any(|i| a.extent.uses_axis(*i))) {
            return;
        }
        let Some(put) = self.puts.first() else { return };
        let by_one = |a: &LoopAxis| put.access.offset.axis_stride(a.axis).is_some_and(|s| s.is(1));
        if let Some(at) = self.parallel.iter().rposition(by_one) {
            let axis = self.parallel.remove(at);
            self.parallel.push(axis);
        }
    }
    /// Merges neighbours `(i, j)` wherever every expression uses them as `i·J + j`.
    pub fn merge(&mut self, axes: &mut Vec<LoopAxis>) {
        let mut at = axes.len();
        while at >= 2 {
            at -= 1;
            let (outer, inner) = (axes[at - 1].clone(), axes[at].clone());
            let used_by_extent = axes.iter().any(|a| a.extent.uses_axis(outer.axis) || a.extent.uses_axis(inner.axis));
            let dependent = has_axes(&outer.extent) || has_axes(&inner.extent) || used_by_extent;
            let as_one = |e: &Expr| match (e.axis_stride(outer.axis), e.axis_stride(inner.axis)) {
                (Some(i), Some(j)) => i == j * inner.extent.clone(),
                _ => false,
            };
            if dependent || !self.all_exprs().iter().all(as_one) {
                continue;
            }
            let gone = outer.axis;
            self.map_exprs(&mut |e| e.replace_axes(&|a| if a == gone { Expr::constant(0) } else { Expr::axis(a) }));
            axes[at - 1] = LoopAxis { axis: inner.axis, extent: outer.extent * inner.extent };
            axes.remove(at);
        }
    }

    /// How many elements every load of the folded body advances when `axis` does: true where all are 0 or 1.
    pub fn walks_by_one(&self, axis: AxisId) -> bool {
        let mut some = false;
        let all = self.body.accesses.iter().flatten().all(|a| match a.offset.axis_stride(axis) {
            Some(stride) if stride.is(1) => {
                some = true;
                true
            }
            Some(stride) => stride.is(0),
            None => false,
        });
        all && some
    }
}

/// Whether any axis occurs.
pub fn has_axes(e: &Expr) -> bool {
    let mut some = false;
    e.visit(&mut |atom| some |= matches!(atom, oaaxc_ir::expr::Atom::Axis(_)));
    some
}
