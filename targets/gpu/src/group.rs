//! A work group: its loop over groups, its barrier, its shared memory, and points taken apart into axes.

use oaaxc_emit::body::Emitter;
use oaaxc_emit::text::OpenLoop;
use oaaxc_ir::Expr;
use oaaxc_ir::kernel::LoopAxis;

use crate::device::{Gpu, SHARED};

/// What the emitters of one kernel share.
pub(crate) struct Group<'g> {
    pub gpu: &'g Gpu,
    /// Threads of the group.
    pub threads: i64,
    /// Bytes of shared memory handed out for good.
    pub shared: i64,
    /// Bytes that some step uses for a while, behind those.
    pub borrowed: i64,
    /// Bytes of scratch behind the private buffers, likewise.
    pub room: Expr,
    /// Whether some part took the slow way.
    pub generic: bool,
}

impl Group<'_> {
    /// Every thread waits for all others and sees what they wrote.
    pub fn barrier(&self, em: &mut Emitter) {
        em.w.line(self.gpu.barrier);
    }
    /// The address of byte `at` of the shared memory that steps borrow; `bytes` are needed in all.
    pub fn borrow_shared(&mut self, em: &mut Emitter, at: i64, bytes: i64) -> String {
        self.borrowed = self.borrowed.max(bytes);
        let at = em.w.int(self.shared + at);
        em.w.element_in(SHARED, "%shared", &at, "i8")
    }
    /// Opens `for p = thread; p < total; p += threads`.
    pub fn strided(&self, em: &mut Emitter, total: &str) -> OpenLoop {
        let step = em.w.int(self.threads);
        em.w.open("%thread", total, &step)
    }
    /// Starts a block that only the first thread runs; `all` joins the threads again.
    pub fn first_thread(&self, em: &mut Emitter) -> String {
        let zero = em.w.int(0);
        let first = em.w.op(format_args!("arith.cmpi eq, %thread, {zero} : i64"));
        let (one, all) = (em.w.label(), em.w.label());
        em.w.branch(&first, &one, &all);
        em.w.block(&one, "");
        all
    }
    /// Ends what [`Group::first_thread`] started.
    pub fn all_threads(&self, em: &mut Emitter, all: &str) {
        em.w.jump(all);
        em.w.block(all, "");
    }
}

/// How many points axes have.
pub(crate) fn total(axes: &[LoopAxis]) -> Expr {
    axes.iter().fold(Expr::constant(1), |v, a| v * a.extent.clone())
}

/// Binds axes to the row-major position `at`.
pub(crate) fn bind(em: &mut Emitter, axes: &[LoopAxis], at: &str) {
    let mut rest = at.to_string();
    let mut names = vec![String::new(); axes.len()];
    for (i, axis) in axes.iter().enumerate().rev() {
        if i == 0 {
            names[0] = rest;
            break;
        }
        let mut extent = em.expr(&axis.extent);
        if axis.extent.as_const().is_none_or(|n| n < 1) {
            let one = em.w.int(1);
            extent = em.w.int_op("maxsi", &extent, &one);
        }
        names[i] = em.w.int_op("remui", &rest, &extent);
        rest = em.w.int_op("divui", &rest, &extent);
    }
    for (axis, name) in axes.iter().zip(&names) {
        em.scope.bind(axis.axis, name);
    }
}
