//! Contractions of floats by packed, register-tiled micro-kernels.
//!
//! [`form`] says what a contraction looks like, [`rows`] computes matrix products, [`pixels`]
//! convolutions over NCHW, [`depthwise`] those with one channel each, [`micro`] is the register tile of both. What none of them takes is left to
//! the generic path. All are after Goto and van de Geijn, "Anatomy of High-Performance Matrix
//! Multiplication" (2008), with the packing of weights moved to build time.

mod depthwise;
pub mod form;
pub mod micro;
mod pixels;
mod rows;
mod weights;
mod wide;

use oaaxc_emit::body::Emitter;
use oaaxc_emit::cast::value;
use oaaxc_emit::text::OpenLoop;
use oaaxc_ir::DType;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::kernel::{Kernel, LoopAxis};

use form::{Form, Side};
use micro::Machine;

/// A contraction that has a schedule of its own.
pub struct Planned {
    form: Form,
    machine: Machine,
    /// Number of groups, over the kernel's symbols.
    pub groups: Expr,
    /// Bytes of scratch of one worker.
    pub scratch: Expr,
}

/// The schedule of a kernel for such a machine, where the micro-kernels compute it.
pub fn plan(kernel: &Kernel, mut machine: Machine) -> Option<Planned> {
    let form = form::analyse(kernel)?;
    if let (Side::Pixels, Some(pixels)) = (form.side, form.result_m().extent.as_const()) {
        machine = machine.for_pixels(pixels);
    }
    // Without masked loads the generic path, which has no masks in the middle of a row, is faster.
    if form.side == Side::Depthwise && machine.lanes < 8 {
        return None;
    }
    let (groups, scratch) = match form.side {
        Side::Rows => (rows::groups(&form), rows::scratch(&form, &machine)),
        Side::Pixels => (pixels::groups(&form, &machine), pixels::scratch(&form, &machine)),
        Side::Depthwise => (depthwise::groups(&form), depthwise::scratch(&form, &machine)),
    };
    Some(Planned { form, machine, groups, scratch })
}

impl Planned {
    /// Emits group `number` (an i64); `scratch` is the worker's.
    pub fn emit(&self, em: &mut Emitter, number: &str, scratch: &str) {
        let group = Group { machine: self.machine, number, scratch };
        match self.form.side {
            Side::Rows => rows::emit(em, &self.form, &group),
            Side::Pixels => pixels::emit(em, &self.form, &group),
            Side::Depthwise => depthwise::emit(em, &self.form, &group),
        }
    }
}

/// A group that is being emitted.
struct Group<'a> {
    machine: Machine,
    /// Its number, an i64.
    number: &'a str,
    /// The worker's scratch.
    scratch: &'a str,
}

impl Group<'_> {
    /// `(number / count, number % count)`.
    fn split(&self, em: &mut Emitter, number: &str, count: &str) -> (String, String) {
        (em.w.int_op("divui", number, count), em.w.int_op("remui", number, count))
    }
    /// Binds the outer axes to what is left of the number, the last axis fastest.
    fn bind_outer(&self, em: &mut Emitter, outer: &[LoopAxis], number: &str) {
        let mut rest = number.to_string();
        let mut bound = Vec::new();
        for axis in outer.iter().rev() {
            let extent = em.expr(&axis.extent);
            let (up, at) = self.split(em, &rest, &extent);
            bound.push((axis.axis, at));
            rest = up;
        }
        for (axis, at) in bound.into_iter().rev() {
            em.scope.bind(axis, &at);
        }
    }
    /// First index and number of elements of a block.
    fn block(&self, em: &mut Emitter, block: &str, size: i64, total: &str) -> (String, String) {
        let size = em.w.int(size);
        let first = em.w.int_op("muli", block, &size);
        let left = em.w.int_op("subi", total, &first);
        let count = em.w.int_op("minsi", &left, &size);
        (first, count)
    }
    /// `⌈x / size⌉` of a number that is not negative.
    fn ceil_div(&self, em: &mut Emitter, x: &str, size: i64) -> String {
        let (more, size) = (em.w.int(size - 1), em.w.int(size));
        let sum = em.w.int_op("addi", x, &more);
        em.w.int_op("divui", &sum, &size)
    }
}

/// Opens one loop for each axis and binds them; gives the loops, outermost first, and the row-major position.
fn open_flattened(em: &mut Emitter, axes: &[LoopAxis]) -> (Vec<OpenLoop>, String) {
    let (zero, one) = (em.w.int(0), em.w.int(1));
    let mut opened = Vec::new();
    let mut row = zero.clone();
    for axis in axes {
        let extent = em.expr(&axis.extent);
        let l = em.w.open(&zero, &extent, &one);
        em.scope.bind(axis.axis, &l.counter);
        row = em.w.int_op("muli", &row, &extent);
        row = em.w.int_op("addi", &row, &l.counter);
        opened.push(l);
    }
    (opened, row)
}

/// Where a finished tile belongs.
struct Place<'a> {
    /// First row: along M for a matrix product, along N for a convolution.
    row: &'a str,
    /// First column, along the axis that is contiguous in the result.
    column: &'a str,
    /// The kept tile.
    kept: &'a str,
    /// Columns between its rows.
    stride: i64,
    /// How many rows count.
    rows: &'a str,
}

/// Runs the epilogue over a kept tile: all columns at once where the tile is full, so that the loop has a
/// number as its end; else the columns that exist.
fn epilogue(em: &mut Emitter, form: &Form, place: &Place, columns: i64, (is_full, left): (&str, &str)) {
    let (full, part, end) = (em.w.label(), em.w.label(), em.w.label());
    em.w.branch(is_full, &full, &part);
    em.w.block(&full, "");
    let all = em.w.int(columns);
    points(em, form, place, &all);
    em.w.jump(&end);
    em.w.block(&part, "");
    points(em, form, place, left);
    em.w.jump(&end);
    em.w.block(&end, "");
}

fn points(em: &mut Emitter, form: &Form, place: &Place, columns: &str) {
    let (zero, one) = (em.w.int(0), em.w.int(1));
    let (row_axis, column_axis) = match form.side {
        Side::Rows => (form.m[0].axis, form.n.axis),
        Side::Pixels | Side::Depthwise => (form.n.axis, form.result_m().axis),
    };
    let i = em.w.open(&zero, place.rows, &one);
    let row = em.w.int_op("addi", place.row, &i.counter);
    em.scope.bind(row_axis, &row);
    let stride = em.w.int(place.stride);
    let skip = em.w.int_op("muli", &i.counter, &stride);
    let kept = em.w.element(place.kept, &skip, "f32");
    let j = em.w.open(&zero, columns, &one);
    let column = em.w.int_op("addi", place.column, &j.counter);
    em.scope.bind(column_axis, &column);
    let from = em.w.element(&kept, &j.counter, "f32");
    let sum = em.w.op(format_args!("llvm.load {from} : !llvm.ptr -> f32"));
    let values = em.code(&form.post, &[value(DType::F32, sum)]);
    em.puts(&form.puts, &values);
    em.w.close(j);
    em.w.close(i);
}
