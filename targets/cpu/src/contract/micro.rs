//! The register tile: rows of broadcast scalars times vectors, accumulated over K.
//!
//! A tile is `rows × vecs` vector accumulators that live in registers over the whole K loop; at its
//! end they go to a small buffer that stays in the first-level cache, where the epilogue reads them.

use oaaxc_emit::cast::stored;
use oaaxc_emit::text::Writer;
use oaaxc_ir::DType;

use super::wide;
use crate::kernel::Options;

/// What a CPU level offers to the tiles.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machine {
    /// f32 lanes of a vector.
    pub lanes: i64,
    /// Fused multiply-add.
    pub fma: bool,
    /// Rows of a matrix-product tile.
    pub rows: i64,
    /// Weight panels of a matrix-product tile.
    pub panels: i64,
    /// Output channels of a convolution tile; divides the panel.
    pub channels: i64,
    /// Vectors of pixels of a convolution tile.
    pub pixels: i64,
}

impl Machine {
    /// The tiles for vectors of so many lanes: accumulators, operands and a broadcast fill the registers without spills.
    pub fn of(options: &Options) -> Machine {
        match (options.lanes, options.registers) {
            // NEON: 32 registers of 4 lanes, 6×16 and 4×16. The same for 128-bit RVV.
            (4, 32) => Machine { lanes: 4, fma: options.fma, rows: 6, panels: 1, channels: 4, pixels: 4 },
            // x86-64-v2: 16 registers of 4 lanes, no fused multiply-add.
            (4, _) => Machine { lanes: 4, fma: false, rows: 2, panels: 1, channels: 4, pixels: 2 },
            // x86-64-v3: 16 registers of 8 lanes, 6×16 and 4×24.
            (8, _) => Machine { lanes: 8, fma: true, rows: 6, panels: 1, channels: 4, pixels: 3 },
            // x86-64-v4: 32 registers of 16 lanes, 8×48 both ways.
            _ => Machine { lanes: 16, fma: true, rows: 8, panels: 3, channels: 8, pixels: 3 },
        }
    }
    /// The tile for a picture of so many pixels: fewer vectors where that leaves less of the last tile empty.
    /// A narrow tile broadcasts more for each product, hence the weights.
    pub fn for_pixels(self, pixels: i64) -> Machine {
        let cost = |vectors: i64| {
            let tiles = (pixels.max(1) + vectors * self.lanes - 1) / (vectors * self.lanes);
            tiles * vectors * [140, 108, 100, 100][(vectors - 1).clamp(0, 3) as usize]
        };
        let best = (1..=self.pixels).min_by_key(|v| (cost(*v), -v)).unwrap_or(self.pixels);
        Machine { pixels: best, ..self }
    }
    /// The type of a vector.
    pub fn vector(&self) -> String {
        format!("vector<{}xf32>", self.lanes)
    }
    /// Pixels of a convolution tile.
    pub fn width(&self) -> i64 {
        self.lanes * self.pixels
    }
}

/// One level of the K loop: how many iterations, and how far each moves both operands, in elements.
pub struct Summed {
    /// Number of iterations, an i64.
    pub count: String,
    /// Step of the broadcast operand.
    pub a_step: String,
    /// Step of the vector operand.
    pub b_step: String,
}

/// A tile to compute.
pub struct TileOf<'a> {
    /// Pointer to the first element of each row.
    pub rows: &'a [String],
    /// Pointer to the first element of each vector.
    pub vecs: &'a [String],
    /// The type of the vectors' elements; rows are f32.
    pub vec_type: DType,
    /// K loops, outermost first; one or two.
    pub k: &'a [Summed],
    /// Where the tile is kept, row-major with `vecs · lanes` columns (pointer).
    pub tile: &'a str,
    /// Columns between two rows of the kept tile.
    pub stride: i64,
    /// An i1: add to what is kept there instead of starting from zero. `None`: start from zero.
    pub add: Option<&'a str>,
}

/// Emits the tile's loops.
pub fn micro(w: &mut Writer, m: &Machine, tile: &TileOf) {
    let ty = m.vector();
    let zero = w.constant(format_args!("dense<0.0> : {ty}"));
    let mut accumulators = Vec::new();
    for i in 0..tile.rows.len() {
        for v in 0..tile.vecs.len() {
            accumulators.push(match tile.add {
                None => zero.clone(),
                Some(add) => {
                    let from = kept(w, m, tile, i, v);
                    let old = w.op(format_args!("llvm.load {from} {{alignment = 4 : i64}} : !llvm.ptr -> {ty}"));
                    w.op(format_args!("arith.select {add}, {old}, {zero} : {ty}"))
                }
            });
        }
    }
    let none = w.int(0);
    let sums = sum(w, m, tile, tile.k, &accumulators, (&none, &none));
    for i in 0..tile.rows.len() {
        for v in 0..tile.vecs.len() {
            let to = kept(w, m, tile, i, v);
            w.line(format_args!("llvm.store {}, {to} {{alignment = 4 : i64}} : {ty}, !llvm.ptr", sums[i * tile.vecs.len() + v]));
        }
    }
}

fn kept(w: &mut Writer, m: &Machine, tile: &TileOf, row: usize, vec: usize) -> String {
    let offset = w.int(row as i64 * tile.stride + vec as i64 * m.lanes);
    w.element(tile.tile, &offset, "f32")
}

/// One K loop around the next; gives the accumulators after it.
fn sum(w: &mut Writer, m: &Machine, tile: &TileOf, k: &[Summed], start: &[String], at: (&str, &str)) -> Vec<String> {
    let Some((level, inner)) = k.split_first() else { return step(w, m, tile, start, at) };
    let ty = m.vector();
    let types = vec![ty.as_str(); start.len()].join(", ");
    let (counter, result) = (w.name(), w.name());
    let carried: Vec<String> = start.iter().map(|_| w.name()).collect();
    let init: Vec<String> = carried.iter().zip(start).map(|(c, s)| format!("{c} = {s}")).collect();
    let (zero, one) = (w.int(0), w.int(1));
    w.line(format_args!(
        "{result}:{} = scf.for {counter} = {zero} to {} step {one} iter_args({}) -> ({types}) : i64 {{",
        start.len(),
        level.count,
        init.join(", ")
    ));
    let (a, b) = (w.int_op("muli", &counter, &level.a_step), w.int_op("muli", &counter, &level.b_step));
    let (a, b) = (w.int_op("addi", at.0, &a), w.int_op("addi", at.1, &b));
    let end = sum(w, m, tile, inner, &carried, (&a, &b));
    w.line(format_args!("scf.yield {} : {types}", end.join(", ")));
    w.line("}");
    (0..start.len()).map(|i| format!("{result}#{i}")).collect()
}

/// One step of K: every row's scalar times every vector.
fn step(w: &mut Writer, m: &Machine, tile: &TileOf, accumulators: &[String], (a, b): (&str, &str)) -> Vec<String> {
    let ty = m.vector();
    let mut vectors = Vec::new();
    for pointer in tile.vecs {
        let from = w.element(pointer, b, stored(tile.vec_type));
        vectors.push(wide::vector(w, tile.vec_type, m.lanes, &from));
    }
    let mut out = Vec::new();
    for (i, pointer) in tile.rows.iter().enumerate() {
        let from = w.element(pointer, a, "f32");
        let scalar = w.op(format_args!("llvm.load {from} : !llvm.ptr -> f32"));
        let row = w.op(format_args!("vector.broadcast {scalar} : f32 to {ty}"));
        for (v, vector) in vectors.iter().enumerate() {
            let acc = &accumulators[i * vectors.len() + v];
            out.push(if m.fma {
                w.op(format_args!("vector.fma {row}, {vector}, {acc} : {ty}"))
            } else {
                let product = w.op(format_args!("arith.mulf {row}, {vector} : {ty}"));
                w.op(format_args!("arith.addf {acc}, {product} : {ty}"))
            });
        }
    }
    out
}
