//! Matrix products: blocks of rows of `a` against panels of `b`.
//!
//! A group is a block of up to `BLOCK_ROWS` rows and `BLOCK_PANELS` panels of one outer point. Where `b` is
//! not packed at build time (a product of two activations), the group packs its panels first.

use oaaxc_emit::body::Emitter;
use oaaxc_ir::expr::Expr;

use super::form::{Form, PANEL, Weights};
use super::micro::{Machine, Summed, TileOf, micro};
use super::{Group, Place, epilogue, open_flattened};

/// Rows of a group: a multiple of every level's tile.
pub const BLOCK_ROWS: i64 = 96;
/// Panels of a group: a multiple of every level's tile.
const BLOCK_PANELS: i64 = 6;

/// Number of groups.
pub fn groups(form: &Form) -> Expr {
    let outer: Vec<Expr> = form.outer.iter().map(|a| a.extent.clone()).collect();
    Expr::product(&outer) * row_blocks(form) * panel_blocks(form)
}

fn row_blocks(form: &Form) -> Expr {
    form.m[0].extent.ceil_div(&BLOCK_ROWS.into())
}

fn panel_blocks(form: &Form) -> Expr {
    form.n.extent.ceil_div(&(BLOCK_PANELS * PANEL).into())
}

fn k_total(form: &Form) -> Expr {
    let extents: Vec<Expr> = form.k.iter().map(|k| k.extent.clone()).collect();
    Expr::product(&extents)
}

/// Scratch of one worker in bytes: a tile, and packed panels where `b` is plain.
pub fn scratch(form: &Form, m: &Machine) -> Expr {
    let panels = match form.b {
        Weights::Panels { .. } => Expr::constant(0),
        Weights::Plain { .. } => k_total(form) * (BLOCK_PANELS * PANEL * 4),
    };
    panels + tile_len(m) * 4
}

fn tile_len(m: &Machine) -> i64 {
    m.rows * m.panels * PANEL
}

/// Emits one group.
pub fn emit(em: &mut Emitter, form: &Form, g: &Group) {
    let m = g.machine;
    let (row_blocks, panel_blocks) = (em.expr(&row_blocks(form)), em.expr(&panel_blocks(form)));
    let (rest, panel_block) = g.split(em, g.number, &panel_blocks);
    let (rest, row_block) = g.split(em, &rest, &row_blocks);
    g.bind_outer(em, &form.outer, &rest);
    let (rows, columns) = (em.expr(&form.m[0].extent), em.expr(&form.n.extent));
    let (row0, row_count) = g.block(em, &row_block, BLOCK_ROWS, &rows);
    let (column0, column_count) = g.block(em, &panel_block, BLOCK_PANELS * PANEL, &columns);
    let panel = em.w.int(PANEL);
    let panels = g.ceil_div(em, &column_count, PANEL);
    let k = em.expr(&k_total(form));
    let panel_size = em.w.int_op("muli", &k, &panel);

    let tile_len = em.w.int(tile_len(&m));
    let b = match &form.b {
        Weights::Panels { base } => {
            let base = em.expr(base);
            let first = em.w.int_op("divui", &column0, &panel);
            let skip = em.w.int_op("muli", &first, &panel_size);
            let at = em.w.int_op("addi", &base, &skip);
            em.w.element(&em.pointers[form.b_buffer.0 as usize].clone(), &at, "f32")
        }
        Weights::Plain { offset } => {
            let packed = em.w.element(g.scratch, &tile_len, "f32");
            pack(em, form, offset, (&column0, &column_count, &panels), &packed, &panel_size);
            packed
        }
    };

    // Wide tiles while they fit, then one panel at a time.
    let wide = em.w.int(m.panels);
    let whole = em.w.int_op("divui", &panels, &wide);
    let wide_end = em.w.int_op("muli", &whole, &wide);
    let (zero, one) = (em.w.int(0), em.w.int(1));
    let fixed = form.n.extent.as_const().map(|n| (n + PANEL - 1) / PANEL);
    let block_is_whole = fixed.is_some_and(|p| p % m.panels == 0);
    let tiles: &[(i64, &str, &str, &str)] = &[(m.panels, &zero, &wide_end, &wide), (1, &wide_end, &panels, &one)];
    for (width, low, high, step) in tiles {
        if *width == 1 && (m.panels == 1 || block_is_whole) && *low != zero {
            continue;
        }
        let p = em.w.open(low, high, step);
        let skip = em.w.int_op("muli", &p.counter, &panel_size);
        let b = em.w.element(&b, &skip, "f32");
        let first = em.w.int_op("muli", &p.counter, &panel);
        let column = em.w.int_op("addi", &column0, &first);
        let left = em.w.int_op("subi", &column_count, &first);
        let block = Block {
            row0: &row0,
            row_count: &row_count,
            column: &column,
            left: &left,
            width: *width,
            b: &b,
            panel_size: &panel_size,
        };
        rows_of(em, form, g, &block);
        em.w.close(p);
    }
}

struct Block<'a> {
    row0: &'a str,
    row_count: &'a str,
    column: &'a str,
    left: &'a str,
    width: i64,
    b: &'a str,
    panel_size: &'a str,
}

/// All rows of the block against one tile's panels: full tiles, the last one drawn back to end at the
/// block's end; single rows where the block is lower than a tile.
fn rows_of(em: &mut Emitter, form: &Form, g: &Group, block: &Block) {
    let height = em.w.int(g.machine.rows);
    let fixed = form.m[0].extent.as_const();
    let (tall, low, end) = (em.w.label(), em.w.label(), em.w.label());
    let fits = em.w.op(format_args!("arith.cmpi sge, {}, {height} : i64", block.row_count));
    em.w.branch(&fits, &tall, &low);
    em.w.block(&tall, "");
    if fixed.is_none_or(|m| m >= g.machine.rows) {
        let count = g.ceil_div(em, block.row_count, g.machine.rows);
        let (zero, one) = (em.w.int(0), em.w.int(1));
        let t = em.w.open(&zero, &count, &one);
        let start = em.w.int_op("muli", &t.counter, &height);
        let last = em.w.int_op("subi", block.row_count, &height);
        let start = em.w.int_op("minsi", &start, &last);
        tile(em, form, g, block, &start, g.machine.rows);
        em.w.close(t);
    }
    em.w.jump(&end);
    em.w.block(&low, "");
    if fixed.is_none_or(|m| m % BLOCK_ROWS % g.machine.rows != 0 || m < g.machine.rows) {
        let (zero, one) = (em.w.int(0), em.w.int(1));
        let t = em.w.open(&zero, block.row_count, &one);
        let start = t.counter.clone();
        tile(em, form, g, block, &start, 1);
        em.w.close(t);
    }
    em.w.jump(&end);
    em.w.block(&end, "");
}

fn tile(em: &mut Emitter, form: &Form, g: &Group, block: &Block, start: &str, height: i64) {
    let row = em.w.int_op("addi", block.row0, start);
    let zero = em.w.int(0);
    em.scope.bind(form.m[0].axis, &row);
    em.scope.bind(form.n.axis, &zero);
    for k in &form.k {
        em.scope.bind(k.axis, &zero);
    }
    let base = em.expr(&form.a);
    let a = em.w.element(&em.pointers[form.a_buffer.0 as usize].clone(), &base, "f32");
    let stride = form.a.axis_stride(form.m[0].axis).expect("analysed as affine");
    let stride = em.expr(&stride);
    let mut rows = Vec::new();
    for i in 0..height {
        let number = em.w.int(i);
        let skip = em.w.int_op("muli", &number, &stride);
        rows.push(em.w.element(&a, &skip, "f32"));
    }
    let mut vecs = Vec::new();
    for p in 0..block.width {
        let number = em.w.int(p);
        let skip = em.w.int_op("muli", &number, block.panel_size);
        let b = em.w.element(block.b, &skip, "f32");
        for v in 0..PANEL / g.machine.lanes {
            let lane = em.w.int(v * g.machine.lanes);
            vecs.push(em.w.element(&b, &lane, "f32"));
        }
    }
    let k = summed(em, form);
    let columns = block.width * PANEL;
    micro(&mut em.w, &g.machine, &TileOf { rows: &rows, vecs: &vecs, k: &k, tile: g.scratch, stride: columns, add: None });
    let full = em.w.int(columns);
    let is_full = em.w.op(format_args!("arith.cmpi sge, {}, {full} : i64", block.left));
    let height = em.w.int(height);
    let place = Place { row: &row, column: block.column, kept: g.scratch, stride: columns, rows: &height };
    epilogue(em, form, &place, columns, (&is_full, block.left));
}

/// The K loops: one where `a` walks K with one stride, else one per axis.
fn summed(em: &mut Emitter, form: &Form) -> Vec<Summed> {
    let strides: Vec<Expr> = form.k.iter().map(|k| form.a.axis_stride(k.axis).expect("analysed as affine")).collect();
    let last = form.k.len() - 1;
    let joined = (0..last).all(|i| strides[i] == &strides[i + 1] * &form.k[i + 1].extent);
    let panel = Expr::constant(PANEL);
    if joined {
        let (count, a_step) = (em.expr(&k_total(form)), em.expr(&strides[last]));
        return vec![Summed { count, a_step, b_step: em.w.int(PANEL) }];
    }
    let mut levels = Vec::new();
    for (i, k) in form.k.iter().enumerate() {
        let inner: Vec<Expr> = form.k[i + 1..].iter().map(|k| k.extent.clone()).collect();
        let b_step = Expr::product(&inner) * &panel;
        levels.push(Summed { count: em.expr(&k.extent), a_step: em.expr(&strides[i]), b_step: em.expr(&b_step) });
    }
    levels
}

/// Packs the group's panels of a row-major `b`; columns beyond N are zero.
fn pack(
    em: &mut Emitter,
    form: &Form,
    offset: &Expr,
    (column0, column_count, panels): (&str, &str, &str),
    packed: &str,
    panel_size: &str,
) {
    let n_stride = offset.axis_stride(form.n.axis).expect("analysed as affine");
    let contiguous = n_stride.is(1);
    let (zero, one, panel) = (em.w.int(0), em.w.int(1), em.w.int(PANEL));
    let source = em.pointers[form.b_buffer.0 as usize].clone();
    let p = em.w.open(&zero, panels, &one);
    let first = em.w.int_op("muli", &p.counter, &panel);
    let column = em.w.int_op("addi", column0, &first);
    let left = em.w.int_op("subi", column_count, &first);
    let valid = em.w.int_op("minsi", &left, &panel);
    let skip = em.w.int_op("muli", &p.counter, panel_size);
    let to = em.w.element(packed, &skip, "f32");
    em.scope.bind(form.n.axis, &column);
    let stride = em.expr(&n_stride);
    let full = em.w.op(format_args!("arith.cmpi eq, {valid}, {panel} : i64"));
    let (whole, part, end) = (em.w.label(), em.w.label(), em.w.label());
    em.w.branch(&full, &whole, &part);
    for is_whole in [true, false] {
        em.w.block(if is_whole { &whole } else { &part }, "");
        let (opened, row) = open_flattened(em, &form.k);
        let at = em.expr(offset);
        let from = em.w.element(&source, &at, "f32");
        let at = em.w.int_op("muli", &row, &panel);
        let into = em.w.element(&to, &at, "f32");
        if is_whole && contiguous {
            let ty = format!("vector<{PANEL}xf32>");
            let x = em.w.op(format_args!("llvm.load {from} {{alignment = 4 : i64}} : !llvm.ptr -> {ty}"));
            em.w.line(format_args!("llvm.store {x}, {into} {{alignment = 4 : i64}} : {ty}, !llvm.ptr"));
        } else if is_whole {
            for j in 0..PANEL {
                let number = em.w.int(j);
                let skip = em.w.int_op("muli", &number, &stride);
                let from = em.w.element(&from, &skip, "f32");
                let x = em.w.op(format_args!("llvm.load {from} : !llvm.ptr -> f32"));
                let into = em.w.element(&into, &number, "f32");
                em.w.line(format_args!("llvm.store {x}, {into} : f32, !llvm.ptr"));
            }
        } else {
            let nothing = em.w.constant("0.0 : f32");
            for (low, high, copy) in [(zero.clone(), valid.clone(), true), (valid.clone(), panel.clone(), false)] {
                let j = em.w.open(&low, &high, &one);
                let into = em.w.element(&into, &j.counter, "f32");
                let x = if copy {
                    let skip = em.w.int_op("muli", &j.counter, &stride);
                    let from = em.w.element(&from, &skip, "f32");
                    em.w.op(format_args!("llvm.load {from} : !llvm.ptr -> f32"))
                } else {
                    nothing.clone()
                };
                em.w.line(format_args!("llvm.store {x}, {into} : f32, !llvm.ptr"));
                em.w.close(j);
            }
        }
        for l in opened.into_iter().rev() {
            em.w.close(l);
        }
        em.w.jump(&end);
    }
    em.w.block(&end, "");
    em.w.close(p);
}
