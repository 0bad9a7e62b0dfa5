//! Tiles of 64×64 by matrix instructions: each subgroup computes its part of the tile from staged halves.
//!
//! Which lane holds which element is the instruction's data ([`crate::Fragment`]); A's rows are the tile's
//! `y`, B's columns its `x`. No device with such instructions has run this; see docs/gpu.md.

use oaaxc_emit::body::Emitter;
use oaaxc_emit::cast::stored;
use oaaxc_ir::DType;
use oaaxc_ir::kernel::{Contract, Kernel};

use super::{LONG_CHUNK, Plan};
use crate::device::{Fragment, Gpu, Lane, Matrix, SHARED};
use crate::group::{Group, bind};
use crate::loops::{get, set};

/// Elements along both sides of a tile.
const TILE: i64 = 64;
/// Subgroups along `x`.
const ACROSS: i64 = 2;

/// The device's instruction for this contraction, where its operands are plain halves.
pub(super) fn instruction(kernel: &Kernel, c: &Contract, gpu: &Gpu) -> Option<&'static Matrix> {
    let dtypes = [c.a.buffer, c.b.buffer].map(|b| kernel.buffer(b).dtype);
    let plain = [&c.a, &c.b].iter().all(|o| o.zero.is_none() && o.prologue.is_none());
    if c.acc != DType::F32 || !plain {
        return None;
    }
    gpu.matrix.iter().find(|m| dtypes == [m.dtype; 2])
}

/// Instructions of one subgroup along both sides.
fn parts(g: &Group, m: &Matrix) -> [i64; 2] {
    let down = g.threads / m.lanes / ACROSS;
    [TILE / ACROSS / m.columns, TILE / down / m.rows]
}

/// Sums that a thread holds.
pub(super) fn sums(g: &Group, m: &Matrix) -> i64 {
    let [across, down] = parts(g, m);
    across * down * m.c.elements() as i64
}

/// The lane, and where the subgroup's part of the tile starts along `x` and `y`.
fn place(g: &Group, em: &mut Emitter, m: &Matrix) -> (String, [String; 2]) {
    let [across, down] = parts(g, m);
    let (lanes, columns) = (em.w.int(m.lanes), em.w.int(ACROSS));
    let lane = em.w.int_op("remui", "%thread", &lanes);
    let group = em.w.int_op("divui", "%thread", &lanes);
    let (i, j) = (em.w.int_op("remui", &group, &columns), em.w.int_op("divui", &group, &columns));
    let (wide, high) = (em.w.int(across * m.columns), em.w.int(down * m.rows));
    (lane, [em.w.int_op("muli", &i, &wide), em.w.int_op("muli", &j, &high)])
}

/// What a lane contributes to an index.
fn by_lane(em: &mut Emitter, lane: &str, form: &Lane) -> String {
    let (divide, modulo, times) = (em.w.int(form.divide), em.w.int(form.modulo), em.w.int(form.times));
    let at = em.w.int_op("divui", lane, &divide);
    let at = em.w.int_op("remui", &at, &modulo);
    em.w.int_op("muli", &at, &times)
}

/// The lane's elements of one staged matrix, from row `first` and column `k` on.
fn load(em: &mut Emitter, plan: &Plan, m: &Matrix, side: usize, from: &str, (lane, first, k): (&str, &str, i64)) -> Vec<String> {
    let fragment: &Fragment = if side == 0 { &m.b } else { &m.a };
    let (p, along) = (by_lane(em, lane, &fragment.across), by_lane(em, lane, &fragment.along));
    let p = em.w.int_op("addi", first, &p);
    let row = em.w.int(plan.row(side));
    (0..fragment.elements())
        .map(|e| {
            let (down, right) = (em.w.int(fragment.offsets[e]), em.w.int(k + fragment.steps[e]));
            let p = em.w.int_op("addi", &p, &down);
            let at = em.w.int_op("muli", &p, &row);
            let at = em.w.int_op("addi", &at, &along);
            let at = em.w.int_op("addi", &at, &right);
            let address = em.w.element_in(SHARED, from, &at, stored(m.dtype));
            em.w.op(format_args!("llvm.load {address} : {SHARED} -> {}", stored(m.dtype)))
        })
        .collect()
}

/// One chunk of the tile.
pub(super) fn chunk(g: &Group, em: &mut Emitter, plan: &Plan, m: &Matrix, staged: &[String; 2], slots: &[String]) {
    let (lane, starts) = place(g, em, m);
    let counts = parts(g, m);
    let sizes = [m.columns, m.rows];
    for k in (0..LONG_CHUNK).step_by(m.depth as usize) {
        let [columns, rows] = [0, 1].map(|side| {
            let one = |i: i64| {
                let far = em.w.int(i * sizes[side]);
                let first = em.w.int_op("addi", &starts[side], &far);
                load(em, plan, m, side, &staged[side], (&lane, &first, k))
            };
            (0..counts[side]).map(one).collect::<Vec<_>>()
        });
        let mut slots = slots.chunks(m.c.elements());
        for a in &rows {
            for b in &columns {
                let own = slots.next().expect("one piece for each instruction");
                let sums: Vec<String> = own.iter().map(|s| get(em, s, DType::F32).name).collect();
                let next = (m.call)(&mut em.w, a, b, &sums);
                for (slot, name) in own.iter().zip(next) {
                    set(em, slot, &oaaxc_emit::cast::value(DType::F32, name));
                }
            }
        }
    }
}

/// The epilogue at each element that the calling thread holds.
pub(super) fn finish(
    g: &Group,
    em: &mut Emitter,
    plan: &Plan,
    m: &Matrix,
    (starts, ends): (&[String; 2], &[String; 2]),
    slots: &[String],
) {
    let (lane, own) = place(g, em, m);
    let [across, down] = parts(g, m);
    let (row, column) = (by_lane(em, &lane, &m.c.across), by_lane(em, &lane, &m.c.along));
    let mut slots = slots.iter();
    for j in 0..down {
        for i in 0..across {
            for e in 0..m.c.elements() {
                let at = |em: &mut Emitter, side: usize, lane: &str, far: i64| {
                    let far = em.w.int(far);
                    let at = em.w.int_op("addi", &starts[side], &own[side]);
                    let at = em.w.int_op("addi", &at, lane);
                    em.w.int_op("addi", &at, &far)
                };
                let y = at(em, 1, &row, j * m.rows + m.c.offsets[e]);
                let x = at(em, 0, &column, i * m.columns + m.c.steps[e]);
                bind(em, &plan.sides[1].axes, &y);
                plan.element(em, (&x, &y), ends, slots.next().expect("one slot for each element"));
            }
        }
    }
}
