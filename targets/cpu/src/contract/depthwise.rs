//! Depthwise convolutions over NCHW: each output row is vectors of pixels, each tap of the window a
//! shifted row times one weight.
//!
//! A group is one channel of one image. The sums of a block of rows wait in scratch, contiguous, so that
//! the epilogue is one long loop. What a vector would read outside the input is masked. A plane of 16 bits is widened
//! to scratch first, for its rows are read once for each row of the window.

use oaaxc_emit::body::Emitter;
use oaaxc_emit::cast::stored;
use oaaxc_ir::expr::Expr;

use super::form::{Form, Weights};
use super::micro::Machine;
use super::{Group, Place, points, wide};

/// Pixels whose sums wait, at least one row.
const WAITING: i64 = 2048;
/// Vectors of a row that are summed at once.
const UNROLL: i64 = 2;

/// Number of groups.
pub fn groups(form: &Form) -> Expr {
    let outer: Vec<Expr> = form.outer.iter().map(|a| a.extent.clone()).collect();
    Expr::product(&outer)
}

/// Scratch of one worker in bytes: the waiting sums, and room for the last vector.
pub fn scratch(form: &Form, m: &Machine) -> Expr {
    let plane = form.plane.as_ref().map_or(Expr::constant(0), |(_, size)| size.clone());
    (waiting(form, m) + plane) * 4
}

/// Elements of the waiting sums.
fn waiting(form: &Form, m: &Machine) -> Expr {
    let row = &form.m.last().expect("there is an M axis").extent;
    row.maximum(&WAITING.into()) + UNROLL * m.lanes
}

/// Emits one group.
pub fn emit(em: &mut Emitter, form: &Form, g: &Group) {
    g.bind_outer(em, &form.outer, g.number);
    let (zero, one) = (em.w.int(0), em.w.int(1));
    em.scope.bind(form.n.axis, &zero);
    let plane = form.plane.as_ref().map(|(start, size)| {
        let at = em.expr(&waiting(form, &g.machine));
        let into = em.w.element(g.scratch, &at, "f32");
        let (start, size) = (em.expr(start), em.expr(size));
        let from = em.w.element(&em.pointers[form.a_buffer.0 as usize].clone(), &start, stored(form.a_type));
        wide::copy(&mut em.w, form.a_type, g.machine.lanes, &from, &into, &size);
        Plane { start, into }
    });
    let (last, leading) = form.m.split_last().expect("there is an M axis");
    let width = em.expr(&last.extent);
    let rows: Vec<Expr> = leading.iter().map(|a| a.extent.clone()).collect();
    let rows = em.expr(&Expr::product(&rows));
    // As many whole rows as may wait.
    let (waiting, wide) = (em.w.int(WAITING), em.w.int_op("maxsi", &width, &one));
    let fit = em.w.int_op("divui", &waiting, &wide);
    let fit = em.w.int_op("maxsi", &fit, &one);
    let block = em.w.open(&zero, &rows, &fit);
    let left = em.w.int_op("subi", &rows, &block.counter);
    let count = em.w.int_op("minsi", &left, &fit);
    let r = em.w.open(&zero, &count, &one);
    let mut rest = em.w.int_op("addi", &block.counter, &r.counter);
    let mut bound = Vec::new();
    for axis in leading.iter().rev() {
        let extent = em.expr(&axis.extent);
        let (up, at) = g.split(em, &rest, &extent);
        bound.push((axis.axis, at));
        rest = up;
    }
    for (axis, at) in bound.into_iter().rev() {
        em.scope.bind(axis, &at);
    }
    let skip = em.w.int_op("muli", &r.counter, &width);
    let into = em.w.element(g.scratch, &skip, "f32");
    row(em, form, g, plane.as_ref(), &width, &into);
    em.w.close(r);

    let column = em.w.int_op("muli", &block.counter, &width);
    let columns = em.w.int_op("muli", &count, &width);
    let place = Place { row: &zero, column: &column, kept: g.scratch, stride: 0, rows: &one };
    points(em, form, &place, &columns);
    em.w.close(block);
}

/// A plane of the input as floats in scratch.
struct Plane {
    /// The offset of its first element in the input.
    start: String,
    /// Where it lies.
    into: String,
}

/// One tap of the window: a pointer to the row's first element for it, its weight, and what may be read.
struct Tap {
    /// Pointer at pixel 0.
    from: String,
    /// The weight in every lane.
    weight: String,
    /// The index at pixel 0 and the size that it must stay below, 0 where the whole row is outside; an i32 each.
    guard: Option<(String, String)>,
    /// Whether the guard is about the pixel's own index, so that it also ends with the row.
    across: bool,
}

/// Sums one output row into scratch. All axes but the pixel's and the window's are bound.
fn row(em: &mut Emitter, form: &Form, g: &Group, plane: Option<&Plane>, width: &str, into: &str) {
    let m = &g.machine;
    let last = form.m.last().expect("there is an M axis").axis;
    let step = form.a.axis_stride(last).and_then(|s| s.as_const()).expect("analysed as a number");
    let zero = em.w.int(0);
    em.scope.bind(last, &zero);
    let taps = taps(em, form, m, plane);
    let (ty, lanes) = (m.vector(), em.w.int(m.lanes * UNROLL));
    let nothing = em.w.constant(format_args!("dense<0.0> : {ty}"));
    let x = em.w.open(&zero, width, &lanes);
    for u in 0..UNROLL {
        let skip = em.w.int(u * m.lanes);
        let pixel = em.w.int_op("addi", &x.counter, &skip);
        let left = em.w.int_op("subi", width, &pixel);
        let left = em.w.op(format_args!("arith.trunci {left} : i64 to i32"));
        let steps = em.w.int(step);
        let element = em.w.int_op("muli", &pixel, &steps);
        let mut sum = nothing.clone();
        for tap in &taps {
            let vector = load(em, form, m, tap, &element, &left, step);
            sum = if m.fma {
                em.w.op(format_args!("vector.fma {}, {vector}, {sum} : {ty}", tap.weight))
            } else {
                let product = em.w.op(format_args!("arith.mulf {}, {vector} : {ty}", tap.weight));
                em.w.op(format_args!("arith.addf {sum}, {product} : {ty}"))
            };
        }
        let to = em.w.element(into, &pixel, "f32");
        em.w.line(format_args!("llvm.store {sum}, {to} {{alignment = 4 : i64}} : {ty}, !llvm.ptr"));
    }
    em.w.close(x);
}

fn taps(em: &mut Emitter, form: &Form, m: &Machine, plane: Option<&Plane>) -> Vec<Tap> {
    let last = form.m.last().expect("there is an M axis").axis;
    let Weights::Plain { offset } = &form.b else { unreachable!("analysed as plain") };
    let extents: Vec<usize> = form.k.iter().map(|k| k.extent.as_const().expect("analysed as numbers") as usize).collect();
    let mut taps = Vec::new();
    for point in oaaxc_ir::tensor::Coordinates::new(&extents) {
        for (k, at) in form.k.iter().zip(point) {
            let at = em.w.int(at as i64);
            em.scope.bind(k.axis, &at);
        }
        let at = em.expr(&form.a);
        let from = match plane {
            Some(plane) => {
                let at = em.w.int_op("subi", &at, &plane.start);
                em.w.element(&plane.into, &at, "f32")
            }
            None => {
                let pointer = em.pointers[form.a_buffer.0 as usize].clone();
                em.w.element(&pointer, &at, "f32")
            }
        };
        let at = em.expr(offset);
        let pointer = em.pointers[form.b_buffer.0 as usize].clone();
        let at = em.w.element(&pointer, &at, stored(form.b_type));
        let weight = wide::scalar(&mut em.w, form.b_type, &at);
        let weight = em.w.op(format_args!("vector.broadcast {weight} : f32 to {}", m.vector()));
        let narrow = |em: &mut Emitter, v: &str| em.w.op(format_args!("arith.trunci {v} : i64 to i32"));
        let mut guard = None;
        let mut exists: Option<String> = None;
        for (index, size) in &form.a_guards {
            let (at, limit) = (em.expr(index), em.expr(size));
            if index.uses_axis(last) {
                guard = Some((narrow(em, &at), narrow(em, &limit)));
            } else {
                let holds = em.w.op(format_args!("arith.cmpi ult, {at}, {limit} : i64"));
                exists = Some(match exists {
                    None => holds,
                    Some(e) => em.w.op(format_args!("arith.andi {e}, {holds} : i1")),
                });
            }
        }
        if let Some(exists) = exists {
            let none = em.w.constant("0 : i32");
            let (at, limit) = guard.unwrap_or_else(|| (none.clone(), em.w.constant(format_args!("{} : i32", i32::MAX))));
            let limit = em.w.op(format_args!("arith.select {exists}, {limit}, {none} : i32"));
            guard = Some((at, limit));
        }
        let across = form.a_guards.iter().any(|(index, _)| index.uses_axis(last));
        taps.push(Tap { from, weight, guard, across });
    }
    taps
}

/// A vector of pixels for one tap, `element` elements from the row's first; padding where it lies outside.
fn load(em: &mut Emitter, form: &Form, m: &Machine, tap: &Tap, element: &str, left: &str, step: i64) -> String {
    let (ty, ints, bits) = (m.vector(), format!("vector<{}xi32>", m.lanes), format!("vector<{}xi1>", m.lanes));
    let padding = em.w.constant(format_args!("dense<{:?}> : {ty}", form.a_otherwise as f32));
    let spread = |em: &mut Emitter, v: &str| em.w.op(format_args!("vector.broadcast {v} : i32 to {ints}"));
    let mut parts = Vec::new();
    for part in 0..step {
        let numbers: Vec<String> = (0..m.lanes).map(|i| (i + part * m.lanes).to_string()).collect();
        let iota = em.w.constant(format_args!("dense<[{}]> : {ints}", numbers.join(", ")));
        let mut masks = Vec::new();
        if let Some((at, limit)) = &tap.guard {
            let here = em.w.op(format_args!("arith.trunci {element} : i64 to i32"));
            let first = em.w.op(format_args!("arith.addi {at}, {here} : i32"));
            let (first, limit) = (spread(em, &first), spread(em, limit));
            let index = em.w.op(format_args!("arith.addi {first}, {iota} : {ints}"));
            masks.push(em.w.op(format_args!("arith.cmpi ult, {index}, {limit} : {ints}")));
        }
        if !tap.across {
            // Pixels beyond the row's end are not there.
            let left = spread(em, left);
            masks.push(em.w.op(format_args!("arith.cmpi slt, {iota}, {left} : {ints}")));
        }
        let mask = match &masks[..] {
            [one] => one.clone(),
            _ => em.w.op(format_args!("arith.andi {}, {} : {bits}", masks[0], masks[1])),
        };
        let skip = em.w.int(part * m.lanes);
        let at = em.w.int_op("addi", element, &skip);
        let from = em.w.element(&tap.from, &at, "f32");
        parts.push(em.w.op(format_args!(
            "llvm.intr.masked.load {from}, {mask}, {padding} {{alignment = 4 : i32}} : (!llvm.ptr, {bits}, {ty}) -> {ty}"
        )));
    }
    match &parts[..] {
        [one] => one.clone(),
        [low, high] => {
            let even: Vec<String> = (0..m.lanes).map(|i| (2 * i).to_string()).collect();
            em.w.op(format_args!("vector.shuffle {low}, {high} [{}] : {ty}, {ty}", even.join(", ")))
        }
        _ => unreachable!("steps are 1 or 2"),
    }
}
