//! How loops are given to threads: pure functions of the kernel.

use oaaxc_emit::nest::{Nest, has_axes};
use oaaxc_ir::kernel::{BufferId, Kernel, Loop, LoopAxis, Op, Role, Step, Store};

/// Fewer folded elements are not worth two barriers.
const SHORT: i64 = 64;
/// So many points keep a device busy with one thread each.
const MANY: i64 = 16 * 1024;

/// Who computes a point of a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Owner {
    /// One thread.
    Thread,
    /// All threads of a group, which share its reduction.
    Group,
}

/// Who computes the points of a nest; `busy`: so many points are enough for one thread each.
pub(crate) fn owner(nest: &Nest, busy: i64) -> Owner {
    let Some(last) = nest.reduce.last() else { return Owner::Thread };
    let own = nest.reduce.iter().chain(&nest.parallel).all(|a| !nest.reduce.iter().any(|r| a.extent.uses_axis(r.axis)))
        && nest.reduce.iter().all(|r| !nest.parallel.iter().any(|p| r.extent.uses_axis(p.axis)));
    let long = constant(&nest.reduce).is_none_or(|n| n > SHORT);
    if !own || !long {
        return Owner::Thread;
    }
    let few = constant(&nest.parallel).is_some_and(|n| n < busy);
    let along = nest.walks_by_one(last.axis) && !nest.parallel.last().is_some_and(|p| nest.walks_by_one(p.axis));
    if few || along { Owner::Group } else { Owner::Thread }
}

/// The same for a nest whose points are the whole kernel.
pub(crate) fn owner_of_points(nest: &Nest) -> Owner {
    owner(nest, MANY)
}

/// The number of points, where it is known.
pub(crate) fn constant(axes: &[LoopAxis]) -> Option<i64> {
    axes.iter().try_fold(1i64, |p, a| Some(p.saturating_mul(a.extent.as_const()?)))
}

/// The axes before the first whose extent depends on another axis, and the rest.
pub(crate) fn split_free(axes: &[LoopAxis]) -> (&[LoopAxis], &[LoopAxis]) {
    let inner = |a: &LoopAxis| axes.iter().any(|b| a.extent.uses_axis(b.axis));
    axes.split_at(axes.iter().position(inner).unwrap_or(axes.len()))
}

/// The step of a kernel that is one loop without private memory: all of its points are independent.
pub(crate) fn single_loop(kernel: &Kernel) -> Option<Loop> {
    if kernel.buffers.iter().any(|b| b.role == Role::Local) {
        return None;
    }
    as_loop(kernel, kernel.single_step()?)
}

fn as_loop(kernel: &Kernel, step: &Step) -> Option<Loop> {
    match step {
        Step::Loop(l) => Some(l.clone()),
        Step::Contract(c) => Some(c.expand(&kernel.buffers)),
        Step::Sort(_) | Step::Compact(_) => None,
    }
}

/// The steps of a kernel without outer axes whose loops do not touch what another of them writes.
pub(crate) fn independent_loops(kernel: &Kernel) -> Option<Vec<Loop>> {
    if !kernel.parallel.is_empty() || kernel.buffers.iter().any(|b| b.role == Role::Local) || kernel.body.len() < 2 {
        return None;
    }
    let mut loops = Vec::new();
    for item in &kernel.body {
        let oaaxc_ir::kernel::Item::Step(step) = item else { return None };
        loops.push(as_loop(kernel, step)?);
    }
    let reads: Vec<Vec<BufferId>> = loops.iter().map(reads).collect();
    let writes: Vec<Vec<BufferId>> = loops.iter().map(|l| l.stores.iter().map(|s: &Store| s.buffer).collect()).collect();
    for (i, written) in writes.iter().enumerate() {
        let touched = |j: usize| written.iter().any(|b| reads[j].contains(b) || writes[j].contains(b));
        if (0..loops.len()).any(|j| j != i && touched(j)) {
            return None;
        }
    }
    loops.iter().all(|l| l.parallel.iter().all(|a| !has_axes(&a.extent)) && !l.parallel.is_empty()).then_some(loops)
}

fn reads(l: &Loop) -> Vec<BufferId> {
    let of = |op: &Op| if let Op::Load { buffer, .. } = op { Some(*buffer) } else { None };
    l.body.ops.iter().chain(&l.post.ops).filter_map(of).collect()
}
