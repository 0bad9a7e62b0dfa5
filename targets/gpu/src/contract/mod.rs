//! Contractions through shared memory: a group computes a tile of the result, chunk by chunk of K.
//!
//! Both operands are staged in the accumulator's type, whatever their layout, padding, prologue or zero
//! point; what the innermost loop sees is two small matrices. `x` is the side along which the result's
//! elements are neighbours, so that neighbouring threads write neighbouring elements.
//! Halves that a device has matrix instructions for stay halves: see [`matrix`].

mod matrix;

use oaaxc_emit::access::{Code, Put, Resolver};
use oaaxc_emit::body::Emitter;
use oaaxc_emit::cast::{Value, carried, constant, stored, value};
use oaaxc_emit::nest::has_axes;
use oaaxc_emit::scalar::binary;
use oaaxc_ir::kernel::{BinaryOp, Body, Contract, Kernel, LoopAxis, Operand, Step, V};
use oaaxc_ir::{DType, Expr, Scalar};

use crate::device::{Gpu, Matrix, SHARED};
use crate::group::{Group, bind, total};
use crate::kernel::over_groups;
use crate::loops::{get, set};
use crate::schedule::constant as known;

/// Summed elements in a chunk.
const CHUNK: i64 = 16;
/// The same for matrix instructions.
const LONG_CHUNK: i64 = 32;
/// Tiles that keep a device busy; with fewer, smaller ones.
const BUSY: i64 = 128;

/// How a tile is shared among the threads: threads and elements of each along both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tile {
    threads: [i64; 2],
    each: [i64; 2],
}

impl Tile {
    fn size(&self, side: usize) -> i64 {
        self.threads[side] * self.each[side]
    }
}

/// One side of the product: 0 is `x`, 1 is `y`.
struct Side {
    axes: Vec<LoopAxis>,
    code: Code,
    value: V,
    /// Whether neighbours in memory are neighbours along K.
    along_k: bool,
}

/// A contraction that is computed in tiles.
pub(crate) struct Plan {
    outer: Vec<LoopAxis>,
    sides: [Side; 2],
    k: Vec<LoopAxis>,
    acc: DType,
    tile: Tile,
    /// The instruction, where operands stay as they are.
    matrix: Option<&'static Matrix>,
    post: Code,
    puts: Vec<Put>,
}

/// The plan, where the kernel is one contraction whose sides are both more than a handful.
pub(crate) fn plan(kernel: &Kernel, resolver: &mut Resolver, gpu: &Gpu) -> Option<Plan> {
    let Some(Step::Contract(c)) = kernel.single_step() else { return None };
    let outer: Vec<LoopAxis> = kernel.parallel.iter().chain(&c.batch).cloned().collect();
    let all = [&outer, &c.m, &c.n, &c.k];
    let local = kernel.buffers.iter().any(|b| b.role == oaaxc_ir::kernel::Role::Local);
    if local || all.iter().any(|axes| axes.iter().any(|a| has_axes(&a.extent))) {
        return None;
    }
    let thin = |axes: &[LoopAxis], least: i64| known(axes).is_some_and(|n| n < least);
    if thin(&c.m, 5) || thin(&c.n, 5) || thin(&c.k, 4) {
        return None;
    }
    let mut post = resolver.code(&c.post);
    let puts = resolver.puts(&c.stores, &mut post);
    let by_one = |axes: &[LoopAxis]| {
        let put = puts.first()?;
        put.access.offset.axis_stride(axes.last()?.axis).map(|s| s.is(1))
    };
    let m_is_x = by_one(&c.m) == Some(true) && by_one(&c.n) != Some(true);
    let matrix = matrix::instruction(kernel, c, gpu);
    let staged = matrix.map_or(c.acc, |m| m.dtype);
    let a = side(kernel, resolver, c, (&c.a, &c.m), staged);
    let b = side(kernel, resolver, c, (&c.b, &c.n), staged);
    let sides = if m_is_x { [a, b] } else { [b, a] };
    let tile = matrix.map_or_else(|| tile(&outer, &sides), |_| Tile { threads: [16, 16], each: [4, 4] });
    Some(Plan { outer, sides, k: c.k.clone(), acc: c.acc, tile, matrix, post, puts })
}

fn side(kernel: &Kernel, resolver: &mut Resolver, c: &Contract, (operand, axes): (&Operand, &[LoopAxis]), staged: DType) -> Side {
    let mut body = Body::default();
    let value = operand.read(&mut body, &kernel.buffers, staged);
    let code = resolver.code(&body);
    let offset = &code.accesses.iter().flatten().next().expect("an operand is loaded").offset;
    let along_k = c.k.last().is_some_and(|k| offset.axis_stride(k.axis).is_some_and(|s| s.is(1)));
    Side { axes: axes.to_vec(), code, value, along_k }
}

fn tile(outer: &[LoopAxis], sides: &[Side; 2]) -> Tile {
    let [x, y] = [known(&sides[0].axes), known(&sides[1].axes)];
    let at_most = |n: Option<i64>, most: i64| n.is_some_and(|n| n <= most);
    if at_most(y, 16) {
        return Tile { threads: [64, 4], each: [1, 4] };
    }
    if at_most(x, 16) {
        return Tile { threads: [16, 16], each: [1, 4] };
    }
    let tiles = |n: i64| (n + 63) / 64;
    let few = match (known(outer), x, y) {
        (Some(o), Some(x), Some(y)) => o.saturating_mul(tiles(x)).saturating_mul(tiles(y)) < BUSY,
        _ => false,
    };
    if few || at_most(x, 32) || at_most(y, 32) {
        return Tile { threads: [16, 16], each: [2, 2] };
    }
    Tile { threads: [16, 16], each: [4, 4] }
}

impl Plan {
    fn blocks(&self, side: usize) -> Expr {
        total(&self.sides[side].axes).ceil_div(&self.tile.size(side).into())
    }
    /// Rows of a staged matrix are one element longer, so that a column lies in different banks. Matrix
    /// instructions want the elements along K together, and pieces of sixteen bytes.
    fn row(&self, side: usize) -> i64 {
        if self.matrix.is_some() { LONG_CHUNK + 8 } else { self.tile.size(side) + 1 }
    }
    fn chunk(&self) -> i64 {
        if self.matrix.is_some() { LONG_CHUNK } else { CHUNK }
    }
    /// The type of staged elements.
    fn staged_type(&self) -> DType {
        self.matrix.map_or(self.acc, |m| m.dtype)
    }
    /// Bytes of one staged matrix.
    fn staged_bytes(&self, side: usize) -> i64 {
        let rows = if self.matrix.is_some() { self.tile.size(side) } else { CHUNK };
        rows * self.row(side) * self.staged_type().size() as i64
    }

    /// Emits the kernel; answers its groups.
    pub(crate) fn emit(&self, g: &mut Group, em: &mut Emitter) -> Expr {
        let groups = total(&self.outer) * self.blocks(0) * self.blocks(1);
        let (first, second) = (self.staged_bytes(0), self.staged_bytes(1));
        let second_at = (first + 15) / 16 * 16;
        over_groups(em, &groups, &mut |em, number| {
            let staged = [g.borrow_shared(em, 0, second_at + second), g.borrow_shared(em, second_at, second_at + second)];
            self.group(g, em, number, &staged);
        });
        groups
    }

    fn group(&self, g: &mut Group, em: &mut Emitter, number: &str, staged: &[String; 2]) {
        let mut rest = number.to_string();
        let mut starts: [String; 2] = Default::default();
        let one = em.w.int(1);
        for (side, start) in starts.iter_mut().enumerate() {
            let blocks = em.expr(&self.blocks(side));
            let blocks = em.w.int_op("maxsi", &blocks, &one);
            let block = em.w.int_op("remui", &rest, &blocks);
            rest = em.w.int_op("divui", &rest, &blocks);
            let size = em.w.int(self.tile.size(side));
            *start = em.w.int_op("muli", &block, &size);
        }
        bind(em, &self.outer, &rest);
        let ends = [em.expr(&total(&self.sides[0].axes)), em.expr(&total(&self.sides[1].axes))];
        let count = self.matrix.map_or(self.tile.each[0] * self.tile.each[1], |m| matrix::sums(g, m));
        let slots: Vec<String> = (0..count).map(|_| em.w.slot(carried(self.acc), 1)).collect();
        let zero = constant(&mut em.w, Scalar::zero(self.acc));
        for slot in &slots {
            set(em, slot, &zero);
        }
        let depth = em.expr(&total(&self.k));
        let (low, step) = (em.w.int(0), em.w.int(self.chunk()));
        let chunks = em.w.open(&low, &depth, &step);
        for side in 0..2 {
            self.stage(g, em, side, (&starts[side], &ends[side]), (&chunks.counter, &depth), &staged[side]);
        }
        g.barrier(em);
        match self.matrix {
            Some(m) => matrix::chunk(g, em, self, m, staged, &slots),
            None => self.multiply(em, staged, &slots),
        }
        g.barrier(em);
        em.w.close(chunks);
        match self.matrix {
            Some(m) => matrix::finish(g, em, self, m, (&starts, &ends), &slots),
            None => self.finish(em, &starts, &ends, &slots),
        }
    }

    /// The calling thread's places along both sides.
    fn own(&self, em: &mut Emitter) -> [String; 2] {
        let across = em.w.int(self.tile.threads[0]);
        [em.w.int_op("remui", "%thread", &across), em.w.int_op("divui", "%thread", &across)]
    }

    /// One chunk, element by element.
    fn multiply(&self, em: &mut Emitter, staged: &[String; 2], slots: &[String]) {
        let own = self.own(em);
        let (low, step, one) = (em.w.int(0), em.w.int(CHUNK), em.w.int(1));
        let inner = em.w.open(&low, &step, &one);
        let operands: [Vec<Value>; 2] = [0, 1].map(|side| {
            (0..self.tile.each[side]).map(|i| self.staged(em, side, &staged[side], &inner.counter, &own[side], i)).collect()
        });
        for (j, y) in operands[1].iter().enumerate() {
            for (i, x) in operands[0].iter().enumerate() {
                let slot = &slots[j * self.tile.each[0] as usize + i];
                let sum = get(em, slot, self.acc);
                let next = self.multiply_add(em, x, y, &sum);
                set(em, slot, &next);
            }
        }
        em.w.close(inner);
    }

    /// The threads bring one chunk of a side to shared memory; what lies outside is 0.
    fn stage(
        &self,
        g: &Group,
        em: &mut Emitter,
        side: usize,
        (start, end): (&str, &str),
        (chunk, depth): (&str, &str),
        to: &str,
    ) {
        let operand = &self.sides[side];
        let size = self.tile.size(side);
        let (dtype, length) = (self.staged_type(), self.chunk());
        let count = size * length;
        for turn in 0..(count + g.threads - 1) / g.threads {
            let first = em.w.int(turn * g.threads);
            let at = em.w.int_op("addi", "%thread", &first);
            let fast = em.w.int(if operand.along_k { length } else { size });
            let (low, high) = (em.w.int_op("remui", &at, &fast), em.w.int_op("divui", &at, &fast));
            let (k, p) = if operand.along_k { (low, high) } else { (high, low) };
            let row = em.w.int(self.row(side));
            let (slow, quick) = if self.matrix.is_some() { (&p, &k) } else { (&k, &p) };
            let place = em.w.int_op("muli", slow, &row);
            let place = em.w.int_op("addi", &place, quick);
            let position = em.w.int_op("addi", start, &p);
            let summed = em.w.int_op("addi", chunk, &k);
            let inside = em.w.op(format_args!("arith.cmpi slt, {position}, {end} : i64"));
            let within = em.w.op(format_args!("arith.cmpi slt, {summed}, {depth} : i64"));
            let some = em.w.op(format_args!("arith.andi {inside}, {within} : i1"));
            let (load, join) = (em.w.label(), em.w.label());
            let ty = carried(dtype);
            let zero = constant(&mut em.w, Scalar::zero(dtype)).name;
            em.w.branch(&some, &load, &format!("{join}({zero} : {ty})"));
            em.w.block(&load, "");
            bind(em, &operand.axes, &position);
            bind(em, &self.k, &summed);
            let values = em.code(&operand.code, &[]);
            let v = values[operand.value.0 as usize].name.clone();
            em.w.line(format_args!("cf.br {join}({v} : {ty})"));
            let v = em.w.name();
            em.w.block(&join, &format!("{v}: {ty}"));
            let address = em.w.element_in(SHARED, to, &place, stored(dtype));
            let store = |em: &mut Emitter| em.store_in(SHARED, &address, &value(dtype, v.clone()));
            if (turn + 1) * g.threads <= count {
                store(em);
                continue;
            }
            // The last turn of a small tile has fewer elements than threads.
            let all = em.w.int(count);
            let exists = em.w.op(format_args!("arith.cmpi slt, {at}, {all} : i64"));
            let (write, next) = (em.w.label(), em.w.label());
            em.w.branch(&exists, &write, &next);
            em.w.block(&write, "");
            store(em);
            em.w.jump(&next);
            em.w.block(&next, "");
        }
    }

    /// Element number `i` of the calling thread at one summed position.
    fn staged(&self, em: &mut Emitter, side: usize, from: &str, k: &str, own: &str, i: i64) -> Value {
        let row = em.w.int(self.row(side));
        let far = em.w.int(i * self.tile.threads[side]);
        let at = em.w.int_op("muli", k, &row);
        let at = em.w.int_op("addi", &at, own);
        let at = em.w.int_op("addi", &at, &far);
        let address = em.w.element_in(SHARED, from, &at, stored(self.acc));
        em.load_in(SHARED, &address, self.acc)
    }

    fn multiply_add(&self, em: &mut Emitter, x: &Value, y: &Value, sum: &Value) -> Value {
        if matches!(self.acc, DType::F32 | DType::F64) {
            let ty = carried(self.acc);
            let name = em.w.op(format_args!("math.fma {}, {}, {} : {ty}", x.name, y.name, sum.name));
            return value(self.acc, name);
        }
        let product = binary(&mut em.w, BinaryOp::Mul, x, y);
        binary(&mut em.w, BinaryOp::Add, sum, &product)
    }

    /// The epilogue at each element of the calling thread that lies inside.
    fn finish(&self, em: &mut Emitter, starts: &[String; 2], ends: &[String; 2], slots: &[String]) {
        let own = self.own(em);
        let [across, down] = self.tile.each;
        let place = |em: &mut Emitter, side: usize, i: i64| {
            let far = em.w.int(i * self.tile.threads[side]);
            let at = em.w.int_op("addi", &starts[side], &own[side]);
            em.w.int_op("addi", &at, &far)
        };
        for j in 0..down {
            let y = place(em, 1, j);
            bind(em, &self.sides[1].axes, &y);
            for i in 0..across {
                let x = place(em, 0, i);
                self.element(em, (&x, &y), ends, &slots[(j * across + i) as usize]);
            }
        }
    }

    /// One element of the result, where it lies inside; the axes of `y` are bound.
    fn element(&self, em: &mut Emitter, (x, y): (&str, &str), ends: &[String; 2], slot: &str) {
        let x_inside = em.w.op(format_args!("arith.cmpi slt, {x}, {} : i64", ends[0]));
        let y_inside = em.w.op(format_args!("arith.cmpi slt, {y}, {} : i64", ends[1]));
        let some = em.w.op(format_args!("arith.andi {x_inside}, {y_inside} : i1"));
        let (write, next) = (em.w.label(), em.w.label());
        em.w.branch(&some, &write, &next);
        em.w.block(&write, "");
        bind(em, &self.sides[0].axes, x);
        let sum = get(em, slot, self.acc);
        let values = em.code(&self.post, &[sum]);
        em.puts(&self.puts, &values);
        em.w.jump(&next);
        em.w.block(&next, "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tile_uses_all_threads() {
        for tile in [
            Tile { threads: [64, 4], each: [1, 4] },
            Tile { threads: [16, 16], each: [1, 4] },
            Tile { threads: [16, 16], each: [4, 4] },
        ] {
            assert_eq!(tile.threads[0] * tile.threads[1], 256);
            assert!(CHUNK * (tile.size(0) + tile.size(1) + 2) * 8 <= 32 * 1024, "doubles fit into 32 KiB");
        }
    }
}
