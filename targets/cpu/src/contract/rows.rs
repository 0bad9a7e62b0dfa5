//! Matrix products: blocks of rows of `a` against panels of `b`.
//!
//! A group is a block of up to `BLOCK_ROWS` rows and `BLOCK_PANELS` panels of one outer point. Where `b` is
//! not packed at build time (a product of two activations), the group packs its panels first. Panels of 16 bits are
//! widened as vectors are loaded; rows of 16 bits, which are broadcast, are widened to scratch first.

use oaaxc_emit::body::Emitter;
use oaaxc_emit::cast::stored;
use oaaxc_ir::DType;
use oaaxc_ir::expr::Expr;

use super::form::{Form, PANEL, Weights};
use super::micro::{Machine, Summed, TileOf, micro};
use super::{Group, Place, epilogue, open_flattened, wide};

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
        Weights::Panels { .. } if !widens_panels(form, m) => Expr::constant(0),
        _ => k_total(form) * (BLOCK_PANELS * PANEL * 4),
    };
    let rows = if form.a_type == DType::F32 { Expr::constant(0) } else { k_total(form) * (block_rows(form) * 4) };
    panels + rows + tile_len(m) * 4
}

/// Whether panels of 16 bits are widened to scratch, where a conversion is too much work for every tile.
fn widens_panels(form: &Form, m: &Machine) -> bool {
    form.b_type == DType::F16 && !m.fma
}

/// Rows of the largest group.
fn block_rows(form: &Form) -> i64 {
    form.m[0].extent.as_const().map_or(BLOCK_ROWS, |m| m.clamp(1, BLOCK_ROWS))
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
    let mut own = em.w.element(g.scratch, &tile_len, "f32");
    let mut rows_wide = None;
    if form.a_type != DType::F32 {
        let most = em.w.int(block_rows(form));
        let size = em.w.int_op("muli", &most, &k);
        let next = em.w.element(&own, &size, "f32");
        widen_rows(em, form, g, (&row0, &row_count), &own, &k);
        rows_wide = Some(std::mem::replace(&mut own, next));
    }
    let mut b_type = form.b_type;
    let b = match &form.b {
        Weights::Panels { base } => {
            let base = em.expr(base);
            let first = em.w.int_op("divui", &column0, &panel);
            let skip = em.w.int_op("muli", &first, &panel_size);
            let at = em.w.int_op("addi", &base, &skip);
            let there = em.w.element(&em.pointers[form.b_buffer.0 as usize].clone(), &at, stored(b_type));
            if widens_panels(form, &m) {
                b_type = DType::F32;
                let count = em.w.int_op("muli", &panels, &panel_size);
                wide::copy(&mut em.w, form.b_type, m.lanes, &there, &own, &count);
                own
            } else {
                there
            }
        }
        Weights::Plain { offset } => {
            b_type = DType::F32;
            pack(em, form, g.machine.lanes, offset, (&column0, &column_count, &panels), &own, &panel_size);
            own
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
        let b = em.w.element(&b, &skip, stored(b_type));
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
            b_type,
            panel_size: &panel_size,
            rows_wide: rows_wide.as_deref(),
            k: &k,
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
    /// The type of its elements.
    b_type: DType,
    panel_size: &'a str,
    /// The block's rows of `a` in scratch, `k` apart, where they were widened.
    rows_wide: Option<&'a str>,
    k: &'a str,
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
    let (a, stride) = match block.rows_wide {
        Some(rows) => {
            let skip = em.w.int_op("muli", start, block.k);
            (em.w.element(rows, &skip, "f32"), block.k.to_string())
        }
        None => {
            let base = em.expr(&form.a);
            let a = em.w.element(&em.pointers[form.a_buffer.0 as usize].clone(), &base, "f32");
            let stride = form.a.axis_stride(form.m[0].axis).expect("analysed as affine");
            (a, em.expr(&stride))
        }
    };
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
        let b = em.w.element(block.b, &skip, stored(block.b_type));
        for v in 0..PANEL / g.machine.lanes {
            let lane = em.w.int(v * g.machine.lanes);
            vecs.push(em.w.element(&b, &lane, stored(block.b_type)));
        }
    }
    let k = match block.rows_wide {
        Some(_) => vec![Summed { count: block.k.to_string(), a_step: em.w.int(1), b_step: em.w.int(PANEL) }],
        None => summed(em, form),
    };
    let columns = block.width * PANEL;
    let tile = TileOf { rows: &rows, vecs: &vecs, vec_type: block.b_type, k: &k, tile: g.scratch, stride: columns, add: None };
    micro(&mut em.w, &g.machine, &tile);
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

/// The block's rows of a narrow `a` as floats, K in the panels' order.
fn widen_rows(em: &mut Emitter, form: &Form, g: &Group, (row0, count): (&str, &str), into: &str, k: &str) {
    let (zero, one) = (em.w.int(0), em.w.int(1));
    let r = em.w.open(&zero, count, &one);
    let row = em.w.int_op("addi", row0, &r.counter);
    em.scope.bind(form.m[0].axis, &row);
    em.scope.bind(form.n.axis, &zero);
    let skip = em.w.int_op("muli", &r.counter, k);
    let to = em.w.element(into, &skip, "f32");
    let (last, leading) = form.k.split_last().expect("there is a K axis");
    let (opened, at) = open_flattened(em, leading);
    em.scope.bind(last.axis, &zero);
    let extent = em.expr(&last.extent);
    let at = em.w.int_op("muli", &at, &extent);
    let to = em.w.element(&to, &at, "f32");
    let from = em.expr(&form.a);
    let from = em.w.element(&em.pointers[form.a_buffer.0 as usize].clone(), &from, stored(form.a_type));
    let stride = form.a.axis_stride(last.axis).expect("analysed as affine");
    if stride.is(1) {
        wide::copy(&mut em.w, form.a_type, g.machine.lanes, &from, &to, &extent);
    } else {
        let stride = em.expr(&stride);
        let j = em.w.open(&zero, &extent, &one);
        let skip = em.w.int_op("muli", &j.counter, &stride);
        let from = em.w.element(&from, &skip, stored(form.a_type));
        let to = em.w.element(&to, &j.counter, "f32");
        let x = wide::scalar(&mut em.w, form.a_type, &from);
        em.w.line(format_args!("llvm.store {x}, {to} : f32, !llvm.ptr"));
        em.w.close(j);
    }
    for l in opened.into_iter().rev() {
        em.w.close(l);
    }
    em.w.close(r);
}

/// Packs the group's panels of a row-major `b` as floats; columns beyond N are zero.
fn pack(
    em: &mut Emitter,
    form: &Form,
    lanes: i64,
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
        let from = em.w.element(&source, &at, stored(form.b_type));
        let at = em.w.int_op("muli", &row, &panel);
        let into = em.w.element(&to, &at, "f32");
        if is_whole && contiguous {
            for first in (0..PANEL).step_by(lanes as usize) {
                let first = em.w.int(first);
                let (from, into) = (em.w.element(&from, &first, stored(form.b_type)), em.w.element(&into, &first, "f32"));
                let x = wide::vector(&mut em.w, form.b_type, lanes, &from);
                em.w.line(format_args!("llvm.store {x}, {into} {{alignment = 4 : i64}} : vector<{lanes}xf32>, !llvm.ptr"));
            }
        } else if is_whole {
            for j in 0..PANEL {
                let number = em.w.int(j);
                let skip = em.w.int_op("muli", &number, &stride);
                let from = em.w.element(&from, &skip, stored(form.b_type));
                let x = wide::scalar(&mut em.w, form.b_type, &from);
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
                    let from = em.w.element(&from, &skip, stored(form.b_type));
                    wide::scalar(&mut em.w, form.b_type, &from)
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
