//! Sort steps: a bitonic network over ordered 64-bit keys and positions, by all threads of the group.
//!
//! Equal keys are ordered by position, which makes the network stable; what fills up to a power of two
//! stands behind everything.

use oaaxc_emit::access::Resolver;
use oaaxc_emit::body::Emitter;
use oaaxc_emit::cast::value;
use oaaxc_emit::sort::ordered_key;
use oaaxc_ir::kernel::{Bounds, Index, Sort};
use oaaxc_ir::{DType, Expr};

use crate::device::GLOBAL;
use crate::group::Group;

/// Bytes of scratch: keys and positions, both up to the next power of two.
fn scratch(step: &Sort) -> Expr {
    step.along.extent.clone() * 32
}

/// Emits one sort step; ends with a barrier. Its memory is `%room`.
pub(crate) fn sort(g: &mut Group, em: &mut Emitter, resolver: &mut Resolver, step: &Sort) {
    g.room = g.room.maximum(&scratch(step));
    let key = resolver.code(&step.key);
    let index: Vec<Index> = step.index.iter().map(Index::from).collect();
    let order = resolver.access(step.order, &index, Bounds::Inside, &mut Vec::new());
    em.scope.ranges = resolver.ranges.clone();
    let outer = em.open(&step.parallel);
    let n = em.expr(&step.along.extent);
    let (zero, one, two) = (em.w.int(0), em.w.int(1), em.w.int(2));
    let padded = power_of_two(em, &n);
    let far = em.w.int_op("muli", &n, &two);
    let positions = em.w.element("%room", &far, "i64");
    // Keys and positions.
    let l = g.strided(em, &padded);
    let at = l.counter.clone();
    let (inside, outside, both) = (em.w.label(), em.w.label(), em.w.label());
    let real = em.w.op(format_args!("arith.cmpi slt, {at}, {n} : i64"));
    em.w.branch(&real, &inside, &outside);
    em.w.block(&inside, "");
    em.scope.bind(step.along.axis, &at);
    let values = em.code(&key, &[]);
    let ordered = ordered_key(&mut em.w, &values[step.value.0 as usize], step.descending);
    em.w.line(format_args!("cf.br {both}({ordered} : i64)"));
    em.w.block(&outside, "");
    let largest = em.w.int(i64::MAX);
    em.w.line(format_args!("cf.br {both}({largest} : i64)"));
    let ordered = em.w.name();
    em.w.block(&both, &format!("{ordered}: i64"));
    store(em, "%room", &at, &ordered);
    store(em, &positions, &at, &at);
    em.w.close(l);
    g.barrier(em);
    // The network.
    let half = em.w.int_op("divui", &padded, &two);
    let size = em.w.name();
    let (sizes, size_body, sizes_end) = (em.w.label(), em.w.label(), em.w.label());
    em.w.line(format_args!("cf.br {sizes}({two} : i64)"));
    em.w.block(&sizes, &format!("{size}: i64"));
    let more = em.w.op(format_args!("arith.cmpi sle, {size}, {padded} : i64"));
    em.w.branch(&more, &size_body, &sizes_end);
    em.w.block(&size_body, "");
    let start = em.w.int_op("divui", &size, &two);
    let distance = em.w.name();
    let (distances, distance_body, distances_end) = (em.w.label(), em.w.label(), em.w.label());
    em.w.line(format_args!("cf.br {distances}({start} : i64)"));
    em.w.block(&distances, &format!("{distance}: i64"));
    let more = em.w.op(format_args!("arith.cmpi sgt, {distance}, {zero} : i64"));
    em.w.branch(&more, &distance_body, &distances_end);
    em.w.block(&distance_body, "");
    let l = g.strided(em, &half);
    compare(em, &l.counter, &distance, &size, &positions);
    em.w.close(l);
    g.barrier(em);
    let nearer = em.w.int_op("divui", &distance, &two);
    em.w.line(format_args!("cf.br {distances}({nearer} : i64)"));
    em.w.block(&distances_end, "");
    let larger = em.w.int_op("muli", &size, &two);
    em.w.line(format_args!("cf.br {sizes}({larger} : i64)"));
    em.w.block(&sizes_end, "");
    // The order.
    let l = g.strided(em, &n);
    let from = em.w.element(&positions, &l.counter, "i64");
    let position = em.w.op(format_args!("llvm.load {from} : {GLOBAL} -> i64"));
    em.scope.bind(step.along.axis, &l.counter);
    let address = em.address(&order);
    let space = em.spaces[step.order.0 as usize];
    em.store_in(space, &address, &value(DType::I64, position));
    em.w.close(l);
    g.barrier(em);
    let _ = one;
    em.close(outer);
}

/// The next power of two, at least 1.
fn power_of_two(em: &mut Emitter, n: &str) -> String {
    let (one, bits) = (em.w.int(1), em.w.int(64));
    let least = em.w.int_op("maxsi", n, &one);
    let below = em.w.int_op("subi", &least, &one);
    let zeros = em.w.op(format_args!("math.ctlz {below} : i64"));
    let shift = em.w.int_op("subi", &bits, &zeros);
    em.w.int_op("shli", &one, &shift)
}

/// Puts pair number `pair` of elements `distance` apart in order, ascending where bit `size` is clear.
fn compare(em: &mut Emitter, pair: &str, distance: &str, size: &str, positions: &str) {
    let (zero, one, two) = (em.w.int(0), em.w.int(1), em.w.int(2));
    let mask = em.w.int_op("subi", distance, &one);
    let low = em.w.int_op("andi", pair, &mask);
    let twice = em.w.int_op("muli", pair, &two);
    let a = em.w.int_op("subi", &twice, &low);
    let b = em.w.int_op("addi", &a, distance);
    let load = |em: &mut Emitter, base: &str, at: &str| {
        let from = em.w.element(base, at, "i64");
        em.w.op(format_args!("llvm.load {from} : {GLOBAL} -> i64"))
    };
    let (ka, kb) = (load(em, "%room", &a), load(em, "%room", &b));
    let (pa, pb) = (load(em, positions, &a), load(em, positions, &b));
    let above = em.w.op(format_args!("arith.cmpi sgt, {ka}, {kb} : i64"));
    let equal = em.w.op(format_args!("arith.cmpi eq, {ka}, {kb} : i64"));
    let behind = em.w.op(format_args!("arith.cmpi sgt, {pa}, {pb} : i64"));
    let tie = em.w.op(format_args!("arith.andi {equal}, {behind} : i1"));
    let greater = em.w.op(format_args!("arith.ori {above}, {tie} : i1"));
    let bit = em.w.int_op("andi", &a, size);
    let ascending = em.w.op(format_args!("arith.cmpi eq, {bit}, {zero} : i64"));
    let swap = em.w.op(format_args!("arith.cmpi eq, {greater}, {ascending} : i1"));
    let (exchange, done) = (em.w.label(), em.w.label());
    em.w.branch(&swap, &exchange, &done);
    em.w.block(&exchange, "");
    store(em, "%room", &a, &kb);
    store(em, "%room", &b, &ka);
    store(em, positions, &a, &pb);
    store(em, positions, &b, &pa);
    em.w.jump(&done);
    em.w.block(&done, "");
}

fn store(em: &mut Emitter, base: &str, at: &str, v: &str) {
    let to = em.w.element(base, at, "i64");
    em.w.line(format_args!("llvm.store {v}, {to} : i64, {GLOBAL}"));
}
