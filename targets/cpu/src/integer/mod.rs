//! Contractions of 8-bit integers: both sides packed as pairs of 16-bit factors, multiplied exactly in register tiles.
//!
//! A group packs its block of rows once and each tile of columns once, zero points already subtracted.

mod micro;
pub mod plan;

use oaaxc_emit::body::Emitter;
use oaaxc_emit::cast::value;
use oaaxc_ir::kernel::LoopAxis;
use oaaxc_ir::{AxisId, DType, Expr};

use crate::kernel::Generator;
use crate::partition;
use plan::{Plan, Side};

/// Emits the contraction; answers its groups.
pub fn contract(g: &mut Generator, plan: &Plan) -> Expr {
    let (rows, columns) = (g.resolver.new_axis(), g.resolver.new_axis());
    let mut axes = plan.batch.clone();
    axes.push(LoopAxis { axis: columns, extent: plan.columns.total.ceil_div(&plan.column_block.into()) });
    axes.push(LoopAxis { axis: rows, extent: plan.rows.total.ceil_div(&plan.row_block.into()) });
    let pairs = plan.k.ceil_div(&2.into());
    let room = (pairs.clone() * (plan.row_block * 4)).ceil_div(&64.into()) * 64;
    g.shared_scratch = room.clone() + pairs.clone() * (plan.tile.columns * 4);
    g.routines.push(micro::function(&plan.tile));
    let one: Expr = 1.into();
    partition::over(&mut g.em, &axes, &one, &mut |em| group(em, plan, (rows, columns), &room, &pairs));
    partition::groups(&axes, &one)
}

fn group(em: &mut Emitter, plan: &Plan, (rows, columns): (AxisId, AxisId), room: &Expr, pairs: &Expr) {
    let (row_low, row_high) = block(em, rows, plan.row_block, &plan.rows.total);
    let (column_low, column_high) = block(em, columns, plan.column_block, &plan.columns.total);
    let pairs = em.expr(pairs);
    let room = em.expr(room);
    let column_memory = em.w.element("%shared", &room, "i8");
    let (row_step, column_step) = (em.w.int(plan.tile.rows), em.w.int(plan.tile.columns));
    let tiles = em.w.open(&row_low, &row_high, &row_step);
    let at = em.w.int_op("subi", &tiles.counter, &row_low);
    let at = em.w.int_op("muli", &at, &pairs);
    let to = em.w.element("%shared", &at, "i32");
    let count = rest(em, &tiles.counter, &row_high, &row_step);
    pack(em, plan, &plan.rows, (&tiles.counter, &count), plan.tile.rows, &to, true);
    em.w.close(tiles);

    let sums = em.w.slot("i32", plan.tile.rows * plan.tile.columns);
    let over_columns = em.w.open(&column_low, &column_high, &column_step);
    let width = rest(em, &over_columns.counter, &column_high, &column_step);
    pack(em, plan, &plan.columns, (&over_columns.counter, &width), plan.tile.columns, &column_memory, false);
    let over_rows = em.w.open(&row_low, &row_high, &row_step);
    let height = rest(em, &over_rows.counter, &row_high, &row_step);
    let at = em.w.int_op("subi", &over_rows.counter, &row_low);
    let at = em.w.int_op("muli", &at, &pairs);
    let from = em.w.element("%shared", &at, "i32");
    em.w.line(format_args!(
        "func.call @micro({from}, {column_memory}, {sums}, {pairs}) : (!llvm.ptr, !llvm.ptr, !llvm.ptr, i64) -> ()"
    ));
    finish(em, plan, (&over_rows.counter, &height), (&over_columns.counter, &width), &sums);
    em.w.close(over_rows);
    em.w.close(over_columns);
}

fn block(em: &mut Emitter, axis: AxisId, size: i64, total: &Expr) -> (String, String) {
    let low = em.expr(&(Expr::axis(axis) * size));
    let size = em.w.int(size);
    let end = em.w.int_op("addi", &low, &size);
    let total = em.expr(total);
    (low, em.w.int_op("minsi", &end, &total))
}

/// How many of `size` elements from `at` on exist.
fn rest(em: &mut Emitter, at: &str, high: &str, size: &str) -> String {
    let left = em.w.int_op("subi", high, at);
    em.w.int_op("minsi", &left, size)
}

/// The coordinates of a flattened position.
fn take_apart(em: &mut Emitter, axes: &[LoopAxis], at: &str) -> Vec<String> {
    let mut rest = at.to_string();
    let mut out = vec![String::new(); axes.len()];
    for (i, axis) in axes.iter().enumerate().rev() {
        if i == 0 {
            out[0] = rest;
            break;
        }
        let (extent, one) = (em.expr(&axis.extent), em.w.int(1));
        let extent = em.w.int_op("maxsi", &extent, &one);
        out[i] = em.w.int_op("remui", &rest, &extent);
        rest = em.w.int_op("divui", &rest, &extent);
    }
    out
}

fn bind(em: &mut Emitter, axes: &[LoopAxis], at: &str) {
    let names = take_apart(em, axes, at);
    axes.iter().zip(names).for_each(|(axis, name)| em.scope.bind(axis.axis, &name));
}

/// Packs `count` elements of a side from `first` on as `[k/2][size][2]`; what does not exist is zero.
///
/// `along_k`: the memory walks along k, so k is the inner loop.
fn pack(em: &mut Emitter, plan: &Plan, side: &Side, (first, count): (&str, &str), size: i64, to: &str, along_k: bool) {
    let (zero, one, all) = (em.w.int(0), em.w.int(1), em.w.int(size));
    let pairs = em.expr(&plan.k.ceil_div(&2.into()));
    clear(em, plan, &pairs, count, size, to);
    let k = side.code_k.iter().fold(Expr::constant(0), |at, a| at * a.extent.clone() + Expr::axis(a.axis));
    // The position of (k, j) in 16-bit elements: (k / 2 · size + j) · 2 + k mod 2.
    let place = |em: &mut Emitter, j: &str| {
        let row = em.expr(&k.floor_div(&2.into()));
        let row = em.w.int_op("muli", &row, &all);
        let at = em.w.int_op("addi", &row, j);
        let at = em.w.int_op("addi", &at, &at);
        let odd = em.expr(&k.modulo(&2.into()));
        em.w.int_op("addi", &at, &odd)
    };
    let store = |em: &mut Emitter, j: &str| {
        let values = em.code(&side.code, &[]);
        let factor = em.w.op(format_args!("arith.trunci {} : i32 to i16", values[side.value.0 as usize].name));
        let at = place(em, j);
        let address = em.w.element(to, &at, "i16");
        em.w.line(format_args!("llvm.store {factor}, {address} : i16, !llvm.ptr"));
    };
    if along_k {
        let l = em.w.open(&zero, count, &one);
        let at = em.w.int_op("addi", first, &l.counter);
        bind(em, &side.code_axes, &at);
        let open = em.open(&side.code_k);
        store(em, &l.counter);
        em.close(open);
        em.w.close(l);
        return;
    }
    // Coordinates of several axes are taken apart once, not once per k.
    let tables: Vec<String> = match side.code_axes.len() {
        0 | 1 => Vec::new(),
        n => (0..n).map(|_| em.w.slot("i64", size)).collect(),
    };
    if !tables.is_empty() {
        let l = em.w.open(&zero, count, &one);
        let at = em.w.int_op("addi", first, &l.counter);
        for (table, name) in tables.iter().zip(take_apart(em, &side.code_axes, &at)) {
            let address = em.w.element(table, &l.counter, "i64");
            em.w.line(format_args!("llvm.store {name}, {address} : i64, !llvm.ptr"));
        }
        em.w.close(l);
    }
    let mut open = Vec::new();
    if let [axis] = &side.code_k[..] {
        let whole = em.expr(&(plan.k.floor_div(&2.into())));
        whole_pairs(em, side, axis, (first, count, &whole), &tables, size, to);
        // What is left is at most one term.
        let (start, end) = (em.expr(&(plan.k.clone() - plan.k.modulo(&2.into()))), em.expr(&plan.k));
        let l = em.w.open(&start, &end, &one);
        em.scope.bind(axis.axis, &l.counter);
        open.push(l);
    } else {
        open.extend(em.open(&side.code_k));
    }
    let l = em.w.open(&zero, count, &one);
    place_column(em, side, (first, &l.counter), &tables);
    store(em, &l.counter);
    em.w.close(l);
    em.close(open);
}

/// Both factors of a pair at once, as one 32-bit store: neighbouring columns then lie side by side.
fn whole_pairs(
    em: &mut Emitter,
    side: &Side,
    axis: &LoopAxis,
    (first, count, pairs): (&str, &str, &str),
    tables: &[String],
    size: i64,
    to: &str,
) {
    let (zero, one, all) = (em.w.int(0), em.w.int(1), em.w.int(size));
    let (low_half, half) = (em.w.constant("65535 : i32"), em.w.constant("16 : i32"));
    let pair = em.w.open(&zero, pairs, &one);
    let even = em.w.int_op("addi", &pair.counter, &pair.counter);
    let odd = em.w.int_op("addi", &even, &one);
    let base = em.w.int_op("muli", &pair.counter, &all);
    let base = em.w.element(to, &base, "i32");
    let l = em.w.open(&zero, count, &one);
    place_column(em, side, (first, &l.counter), tables);
    let factor = |em: &mut Emitter, k: &str| {
        em.scope.bind(axis.axis, k);
        em.code(&side.code, &[])[side.value.0 as usize].name.clone()
    };
    let (x, y) = (factor(em, &even), factor(em, &odd));
    let x = em.w.op(format_args!("arith.andi {x}, {low_half} : i32"));
    let y = em.w.op(format_args!("arith.shli {y}, {half} : i32"));
    let both = em.w.op(format_args!("arith.ori {x}, {y} : i32"));
    let address = em.w.element(&base, &l.counter, "i32");
    em.w.line(format_args!("llvm.store {both}, {address} : i32, !llvm.ptr"));
    em.w.close(l);
    em.w.close(pair);
}

/// Binds a side's axes to column `first + at`, by the tables where there are some.
fn place_column(em: &mut Emitter, side: &Side, (first, at): (&str, &str), tables: &[String]) {
    if tables.is_empty() {
        let column = em.w.int_op("addi", first, at);
        bind(em, &side.code_axes, &column);
    }
    for (table, axis) in tables.iter().zip(&side.code_axes) {
        let address = em.w.element(table, at, "i64");
        let name = em.w.op(format_args!("llvm.load {address} : !llvm.ptr -> i64"));
        em.scope.bind(axis.axis, &name);
    }
}

/// Zeroes what packing leaves out: elements from `count` on, and the last half pair of an odd k.
fn clear(em: &mut Emitter, plan: &Plan, pairs: &str, count: &str, size: i64, to: &str) {
    let (zero, one, all) = (em.w.int(0), em.w.int(1), em.w.int(size));
    let nothing = em.w.constant("0 : i32");
    let rows = em.w.open(&zero, pairs, &one);
    let base = em.w.int_op("muli", &rows.counter, &all);
    let l = em.w.open(count, &all, &one);
    let at = em.w.int_op("addi", &base, &l.counter);
    let address = em.w.element(to, &at, "i32");
    em.w.line(format_args!("llvm.store {nothing}, {address} : i32, !llvm.ptr"));
    em.w.close(l);
    em.w.close(rows);
    // The last pair; of an even k its second half is written over.
    let odd = plan.k.modulo(&2.into());
    let start = em.expr(&(plan.k.ceil_div(&2.into()) - odd));
    let rows = em.w.open(&start, pairs, &one);
    let base = em.w.int_op("muli", &rows.counter, &all);
    let l = em.w.open(&zero, &all, &one);
    let at = em.w.int_op("addi", &base, &l.counter);
    let address = em.w.element(to, &at, "i32");
    em.w.line(format_args!("llvm.store {nothing}, {address} : i32, !llvm.ptr"));
    em.w.close(l);
    em.w.close(rows);
}

/// `post` and the stores over the part of a tile that exists.
fn finish(em: &mut Emitter, plan: &Plan, (row, height): (&str, &str), (column, width): (&str, &str), sums: &str) {
    let (zero, one, columns) = (em.w.int(0), em.w.int(1), em.w.int(plan.tile.columns));
    let over_rows = em.w.open(&zero, height, &one);
    let here = em.w.int_op("addi", row, &over_rows.counter);
    bind(em, &plan.rows.axes, &here);
    let at = em.w.int_op("muli", &over_rows.counter, &columns);
    let from = em.w.element(sums, &at, "i32");
    let over_columns = em.w.open(&zero, width, &one);
    let here = em.w.int_op("addi", column, &over_columns.counter);
    bind(em, &plan.columns.axes, &here);
    let from = em.w.element(&from, &over_columns.counter, "i32");
    let sum = em.w.op(format_args!("llvm.load {from} : !llvm.ptr -> i32"));
    let values = em.code(&plan.post, &[value(DType::I32, sum)]);
    em.puts(&plan.puts, &values);
    em.w.close(over_columns);
    em.w.close(over_rows);
}
