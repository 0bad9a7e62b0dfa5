//! Convolutions over NCHW: weights broadcast against packed pixels.
//!
//! A group is up to `GROUP_PIXELS` output pixels and `GROUP_CHANNELS` output channels of one image and
//! group. Its pixels' windows are packed as `[K][pixels]` panels (padding included), run by run along an
//! output row, so that the inner loops read memory by ones. Where a window has many channels K is done
//! in chunks, and the sums wait in a block that fits the second-level cache. Pixels of 16 bits are widened as they are
//! packed; weights of 16 bits, which are broadcast, chunk by chunk.

use oaaxc_emit::body::Emitter;
use oaaxc_emit::cast::stored;
use oaaxc_ir::DType;
use oaaxc_ir::expr::Expr;

use super::form::{Form, PANEL, Weights};
use super::micro::{Machine, Summed, TileOf, micro};
use super::weights::{pack_weights, widen_weights};
use super::{Group, Place, epilogue, open_flattened, wide};

/// Output pixels of a group: a multiple of every level's tile.
const GROUP_PIXELS: i64 = 192;
/// Output channels of a group.
const GROUP_CHANNELS: i64 = 256;
/// Rows of a window that are packed at once.
const CHUNK_ROWS: i64 = 1152;

/// The numbers of a convolution.
pub(super) struct Sizes {
    /// Product of all K extents but the last: the points of the window.
    pub(super) window: i64,
    /// The last K extent: input channels.
    pub(super) channels: i64,
    /// Input channels of a chunk.
    chunk: i64,
    /// Output channels.
    out: i64,
    /// Output channels of a group, a multiple of the panel.
    pub(super) block: i64,
    /// Pixels of a tile.
    width: i64,
    /// Packed pixels between two rows of a panel: the tile, and room for the last vector of a run.
    stride: i64,
    /// Tiles of pixels in a group.
    tiles: i64,
}

impl Sizes {
    fn of(form: &Form, m: &Machine) -> Sizes {
        let extents: Vec<i64> = form.k.iter().map(|k| k.extent.as_const().expect("analysed as numbers")).collect();
        let (channels, window) =
            (*extents.last().expect("there is a K axis"), extents[..extents.len() - 1].iter().product::<i64>());
        let out = form.n.extent.as_const().expect("analysed as a number");
        let few = (CHUNK_ROWS / window.max(1) / PANEL * PANEL).max(PANEL);
        let whole = window * channels <= CHUNK_ROWS;
        // A picture with few pixels needs no room for many.
        let pixels = form.result_m().extent.as_const().unwrap_or(GROUP_PIXELS).clamp(1, GROUP_PIXELS);
        Sizes {
            window,
            channels,
            chunk: if whole { channels } else { few.min(channels) },
            out,
            block: (out.min(GROUP_CHANNELS) + PANEL - 1) / PANEL * PANEL,
            width: m.width(),
            stride: m.width() + m.lanes,
            tiles: (pixels + m.width() - 1) / m.width(),
        }
    }
    fn chunks(&self) -> i64 {
        (self.channels + self.chunk - 1) / self.chunk
    }
    /// Rows of a packed panel.
    fn rows(&self) -> i64 {
        self.window * self.chunk
    }
    /// Packed pixels of a group, in elements; a vector of room at the end.
    fn packed(&self) -> i64 {
        self.tiles * self.rows() * self.stride + 16
    }
    /// The waiting sums.
    fn waiting(&self) -> i64 {
        if self.chunks() > 1 { self.tiles * self.block * self.width } else { 0 }
    }
}

/// Number of groups.
pub fn groups(form: &Form, machine: &Machine) -> Expr {
    let outer: Vec<Expr> = form.outer.iter().map(|a| a.extent.clone()).collect();
    Expr::product(&outer) * channel_blocks(&Sizes::of(form, machine)) * pixel_blocks(form)
}

fn pixel_blocks(form: &Form) -> Expr {
    form.result_m().extent.ceil_div(&GROUP_PIXELS.into())
}

fn channel_blocks(s: &Sizes) -> i64 {
    (s.out + s.block - 1) / s.block
}

/// Scratch of one worker in bytes: a tile, packed pixels, waiting sums, and packed weights where they are plain.
pub fn scratch(form: &Form, m: &Machine) -> Expr {
    let s = Sizes::of(form, m);
    let weights = if own_weights(form) { s.block * s.rows() } else { 0 };
    Expr::constant((tile_len(m) + s.packed() + s.waiting() + weights) * 4)
}

/// Whether the group rearranges weights in scratch, instead of reading them where they lie.
fn own_weights(form: &Form) -> bool {
    matches!(form.b, Weights::Plain { .. }) || form.b_type != DType::F32
}

fn tile_len(m: &Machine) -> i64 {
    (m.channels * m.width() + 15) / 16 * 16
}

/// Emits one group.
pub fn emit(em: &mut Emitter, form: &Form, g: &Group) {
    let s = Sizes::of(form, &g.machine);
    let pixel_blocks = em.expr(&pixel_blocks(form));
    let channel_blocks = em.w.int(channel_blocks(&s));
    let (rest, pixel_block) = g.split(em, g.number, &pixel_blocks);
    let (rest, channel_block) = g.split(em, &rest, &channel_blocks);
    g.bind_outer(em, &form.outer, &rest);
    let (pixels, channels) = (em.expr(&form.result_m().extent), em.w.int(s.out));
    let (pixel0, pixel_count) = g.block(em, &pixel_block, GROUP_PIXELS, &pixels);
    let (channel0, channel_count) = g.block(em, &channel_block, s.block, &channels);
    let tiles = g.ceil_div(em, &pixel_count, s.width);

    let part = |em: &mut Emitter, at: i64| {
        let at = em.w.int(at);
        em.w.element(g.scratch, &at, "f32")
    };
    let packed = part(em, tile_len(&g.machine));
    let waiting = part(em, tile_len(&g.machine) + s.packed());
    let scratch_weights = part(em, tile_len(&g.machine) + s.packed() + s.waiting());

    let (zero, one) = (em.w.int(0), em.w.int(1));
    let (chunks, chunk) = (em.w.int(s.chunks()), em.w.int(s.chunk));
    let total = em.w.int(s.channels);
    let c = em.w.open(&zero, &chunks, &one);
    let input0 = em.w.int_op("muli", &c.counter, &chunk);
    let left = em.w.int_op("subi", &total, &input0);
    let inputs = if s.chunks() == 1 { total.clone() } else { em.w.int_op("minsi", &left, &chunk) };

    let t = em.w.open(&zero, &tiles, &one);
    let (first, count) = g.block(em, &t.counter, s.width, &pixel_count);
    let first = em.w.int_op("addi", &pixel0, &first);
    let size = em.w.int(s.rows() * s.stride);
    let at = em.w.int_op("muli", &t.counter, &size);
    let panel = em.w.element(&packed, &at, "f32");
    let job = Window { first: &first, count: &count, input0: &input0, inputs: &inputs, panel: &panel, stride: s.stride };
    if form.is_direct() {
        // Full tiles are read where they lie; only the last one needs room beyond its pixels.
        let stays = stays(em, form, &s, &count);
        let (part, end) = (em.w.label(), em.w.label());
        em.w.branch(&stays, &end, &part);
        em.w.block(&part, "");
        pack(em, form, g, &job);
        em.w.jump(&end);
        em.w.block(&end, "");
    } else {
        pack(em, form, g, &job);
    }
    em.w.close(t);

    let weights = match &form.b {
        Weights::Panels { base } => {
            let base = em.expr(base);
            let panel = em.w.int(s.window * s.channels);
            let skip = em.w.int_op("muli", &channel0, &panel);
            let at = em.w.int_op("addi", &base, &skip);
            let pointer = em.pointers[form.b_buffer.0 as usize].clone();
            let there = em.w.element(&pointer, &at, stored(form.b_type));
            if own_weights(form) {
                widen_weights(em, form, g, &there, &channel_count, (&input0, &inputs), &s, &scratch_weights);
                scratch_weights
            } else {
                there
            }
        }
        Weights::Plain { offset } => {
            pack_weights(em, form, offset, (&channel0, &channel_count), (&input0, &inputs), &s, &scratch_weights);
            scratch_weights
        }
    };
    let chunk_of = Chunk {
        number: &c.counter,
        input0: &input0,
        inputs: &inputs,
        packed: &packed,
        waiting: &waiting,
        weights: &weights,
        own: own_weights(form),
    };
    let block =
        Block { pixel0: &pixel0, pixel_count: &pixel_count, tiles: &tiles, channel0: &channel0, channel_count: &channel_count };
    compute(em, form, g, &s, &block, &chunk_of);
    em.w.close(c);
}

struct Block<'a> {
    pixel0: &'a str,
    pixel_count: &'a str,
    tiles: &'a str,
    channel0: &'a str,
    channel_count: &'a str,
}

struct Chunk<'a> {
    number: &'a str,
    input0: &'a str,
    inputs: &'a str,
    packed: &'a str,
    waiting: &'a str,
    weights: &'a str,
    /// Whether the weights were packed here, chunk by chunk, or lie whole in panels.
    own: bool,
}

/// All channel tiles against all pixel tiles of the group, for one chunk of K.
fn compute(em: &mut Emitter, form: &Form, g: &Group, s: &Sizes, b: &Block, c: &Chunk) {
    let m = &g.machine;
    let (zero, one) = (em.w.int(0), em.w.int(1));
    let channel_tiles = g.ceil_div(em, b.channel_count, m.channels);
    let height = em.w.int(m.channels);
    let o = em.w.open(&zero, &channel_tiles, &one);
    let channel = em.w.int_op("muli", &o.counter, &height);
    let t = em.w.open(&zero, b.tiles, &one);

    // Rows of weights: channel i of the panel, whose rows are PANEL apart.
    let panel = em.w.int(PANEL);
    let panel_rows = if c.own { em_rows(em, s, c.inputs) } else { em.w.int(s.window * s.channels) };
    let panel_size = em.w.int_op("muli", &panel_rows, &panel);
    let number = em.w.int_op("divui", &channel, &panel);
    let inside = em.w.int_op("remui", &channel, &panel);
    let mut at = em.w.int_op("muli", &number, &panel_size);
    at = em.w.int_op("addi", &at, &inside);
    if !c.own {
        let skip = em.w.int_op("muli", c.input0, &panel);
        at = em.w.int_op("addi", &at, &skip);
    }
    let weights = em.w.element(c.weights, &at, "f32");
    let rows: Vec<String> = (0..m.channels)
        .map(|i| {
            let i = em.w.int(i);
            em.w.element(&weights, &i, "f32")
        })
        .collect();
    let size = em.w.int(s.rows() * s.stride);
    let at = em.w.int_op("muli", &t.counter, &size);
    let mut pixels = em.w.element(c.packed, &at, "f32");
    let mut b_step = em.w.int(s.stride);
    if form.is_direct() {
        (pixels, b_step) = in_place(em, form, g, s, b, c, (&t.counter, &pixels, &b_step));
    }
    let vecs: Vec<String> = (0..m.pixels)
        .map(|v| {
            let lane = em.w.int(v * m.lanes);
            em.w.element(&pixels, &lane, "f32")
        })
        .collect();
    let k = if s.chunks() == 1 || c.own {
        let count = em_rows(em, s, c.inputs);
        vec![Summed { count, a_step: panel.clone(), b_step }]
    } else {
        let outer_a = em.w.int(s.channels * PANEL);
        let outer_b = em.w.int_op("muli", c.inputs, &b_step);
        vec![
            Summed { count: em.w.int(s.window), a_step: outer_a, b_step: outer_b },
            Summed { count: c.inputs.to_string(), a_step: panel.clone(), b_step },
        ]
    };

    let several = s.chunks() > 1;
    let kept = if several {
        let (per_tile, width) = (em.w.int(s.block * s.width), em.w.int(s.width));
        let at = em.w.int_op("muli", &t.counter, &per_tile);
        let row = em.w.int_op("muli", &channel, &width);
        let at = em.w.int_op("addi", &at, &row);
        em.w.element(c.waiting, &at, "f32")
    } else {
        g.scratch.to_string()
    };
    let later = em.w.op(format_args!("arith.cmpi ne, {}, {zero} : i64", c.number));
    micro(
        &mut em.w,
        m,
        &TileOf {
            rows: &rows,
            vecs: &vecs,
            vec_type: DType::F32,
            k: &k,
            tile: &kept,
            stride: s.width,
            add: several.then_some(&later),
        },
    );

    let last = em.w.int(s.chunks() - 1);
    let is_last = em.w.op(format_args!("arith.cmpi eq, {}, {last} : i64", c.number));
    let (finish, end) = (em.w.label(), em.w.label());
    em.w.branch(&is_last, &finish, &end);
    em.w.block(&finish, "");
    let (first, count) = g.block(em, &t.counter, s.width, b.pixel_count);
    let column = em.w.int_op("addi", b.pixel0, &first);
    let width = em.w.int(s.width);
    let is_full = em.w.op(format_args!("arith.cmpi eq, {count}, {width} : i64"));
    let row = em.w.int_op("addi", b.channel0, &channel);
    let left = em.w.int_op("subi", b.channel_count, &channel);
    let rows = em.w.int_op("minsi", &left, &height);
    let place = Place { row: &row, column: &column, kept: &kept, stride: s.width, rows: &rows };
    epilogue(em, form, &place, s.width, (&is_full, &count));
    em.w.jump(&end);
    em.w.block(&end, "");
    em.w.close(t);
    em.w.close(o);
}

/// The pixels of a full tile where they lie in the input, and the distance of two channels; else the packed ones.
fn in_place(
    em: &mut Emitter,
    form: &Form,
    g: &Group,
    s: &Sizes,
    b: &Block,
    c: &Chunk,
    (tile, packed, packed_step): (&str, &str, &str),
) -> (String, String) {
    let (first, count) = g.block(em, tile, s.width, b.pixel_count);
    let pixel = em.w.int_op("addi", b.pixel0, &first);
    let (channels, window) = form.k.split_last().expect("there is a K axis");
    let zero = em.w.int(0);
    em.scope.bind(form.m[0].axis, &pixel);
    for k in window {
        em.scope.bind(k.axis, &zero);
    }
    em.scope.bind(channels.axis, c.input0);
    let at = em.expr(&form.a);
    let pointer = em.pointers[form.a_buffer.0 as usize].clone();
    let there = em.w.element(&pointer, &at, "f32");
    let step = form.a.axis_stride(channels.axis).expect("analysed as affine");
    let step = em.expr(&step);
    let stays = stays(em, form, s, &count);
    let pixels = em.w.op(format_args!("arith.select {stays}, {there}, {packed} : !llvm.ptr"));
    (pixels, em.w.op(format_args!("arith.select {stays}, {step}, {packed_step} : i64")))
}

/// Whether a tile of so many pixels is read where it lies: it is full, and its channels are not whole
/// pages apart, where all of them would compete for the same lines of the cache.
fn stays(em: &mut Emitter, form: &Form, s: &Sizes, count: &str) -> String {
    let channels = form.k.last().expect("there is a K axis");
    let step = form.a.axis_stride(channels.axis).expect("analysed as affine");
    let (step, page) = (em.expr(&step), em.w.int(1024));
    let (rest, zero) = (em.w.int_op("remui", &step, &page), em.w.int(0));
    let apart = em.w.op(format_args!("arith.cmpi ne, {rest}, {zero} : i64"));
    let width = em.w.int(s.width);
    let full = em.w.op(format_args!("arith.cmpi eq, {count}, {width} : i64"));
    em.w.op(format_args!("arith.andi {apart}, {full} : i1"))
}

/// Rows of a chunk's panel: all points of the window for so many input channels.
fn em_rows(em: &mut Emitter, s: &Sizes, inputs: &str) -> String {
    let window = em.w.int(s.window);
    em.w.int_op("muli", inputs, &window)
}

/// Pixels of one tile to pack.
struct Window<'a> {
    first: &'a str,
    count: &'a str,
    input0: &'a str,
    inputs: &'a str,
    panel: &'a str,
    stride: i64,
}

/// Packs the windows of a tile's pixels, run by run along the last spatial axis.
fn pack(em: &mut Emitter, form: &Form, g: &Group, job: &Window) {
    let (zero, one) = (em.w.int(0), em.w.int(1));
    let last = form.m.last().expect("there is an M axis").clone();
    let width = em.expr(&last.extent);
    let width = em.w.int_op("maxsi", &width, &one);
    // `done` pixels are packed; a run ends with its output row or with the tile.
    let done = em.w.slot("i64", 1);
    em.w.line(format_args!("llvm.store {zero}, {done} : i64, !llvm.ptr"));
    let (head, run, end) = (em.w.label(), em.w.label(), em.w.label());
    em.w.jump(&head);
    em.w.block(&head, "");
    let at = em.w.op(format_args!("llvm.load {done} : !llvm.ptr -> i64"));
    let more = em.w.op(format_args!("arith.cmpi slt, {at}, {} : i64", job.count));
    em.w.branch(&more, &run, &end);
    em.w.block(&run, "");
    let pixel = em.w.int_op("addi", job.first, &at);
    let (mut rest, column) = g.split(em, &pixel, &width);
    let mut bound = vec![(last.axis, column.clone())];
    for axis in form.m[..form.m.len() - 1].iter().rev() {
        let extent = em.expr(&axis.extent);
        let extent = em.w.int_op("maxsi", &extent, &one);
        let (up, index) = g.split(em, &rest, &extent);
        bound.push((axis.axis, index));
        rest = up;
    }
    for (axis, index) in bound.into_iter().rev() {
        em.scope.bind(axis, &index);
    }
    let to_row_end = em.w.int_op("subi", &width, &column);
    let to_tile_end = em.w.int_op("subi", job.count, &at);
    let length = em.w.int_op("minsi", &to_row_end, &to_tile_end);

    let (channels, window) = form.k.split_last().expect("there is a K axis");
    let (opened, row) = open_flattened(em, window);
    let (low, high) = valid(em, form, &length);
    let row = em.w.int_op("muli", &row, job.inputs);
    let c = em.w.open(&zero, job.inputs, &one);
    let channel = em.w.int_op("addi", job.input0, &c.counter);
    em.scope.bind(channels.axis, &channel);
    let from = em.expr(&form.a);
    let pointer = em.pointers[form.a_buffer.0 as usize].clone();
    let from = em.w.element(&pointer, &from, stored(form.a_type));
    let row = em.w.int_op("addi", &row, &c.counter);
    let stride = em.w.int(job.stride);
    let into = em.w.int_op("muli", &row, &stride);
    let into = em.w.int_op("addi", &into, &at);
    let into = em.w.element(job.panel, &into, "f32");
    let step = form.a.axis_stride(last.axis).expect("analysed as affine");
    copy_run(em, form, g, &step, &from, &into, (&low, &high, &length));
    em.w.close(c);
    for l in opened.into_iter().rev() {
        em.w.close(l);
    }
    let next = em.w.int_op("addi", &at, &length);
    em.w.line(format_args!("llvm.store {next}, {done} : i64, !llvm.ptr"));
    em.w.jump(&head);
    em.w.block(&end, "");
}

/// The part of a run that lies inside the input: `low..high` of its pixels. All axes but the channel are bound.
fn valid(em: &mut Emitter, form: &Form, length: &str) -> (String, String) {
    let last = form.m.last().expect("there is an M axis").axis;
    let zero = em.w.int(0);
    let (mut low, mut high) = (zero.clone(), length.to_string());
    for (index, size) in &form.a_guards {
        let step = index.axis_stride(last).and_then(|s| s.as_const()).unwrap_or(0);
        let (at, size) = (em.expr(index), em.expr(size));
        if step <= 0 {
            // The whole row is in or out.
            let inside = em.w.op(format_args!("arith.cmpi ult, {at}, {size} : i64"));
            high = em.w.op(format_args!("arith.select {inside}, {high}, {zero} : i64"));
            continue;
        }
        // at + step·j ≥ 0 and at + step·j < size.
        let (step, more) = (em.w.int(step), em.w.int(step - 1));
        let minus = em.w.int_op("subi", &zero, &at);
        let minus = em.w.int_op("maxsi", &minus, &zero);
        let first = em.w.int_op("addi", &minus, &more);
        let first = em.w.int_op("divui", &first, &step);
        let left = em.w.int_op("subi", &size, &at);
        let left = em.w.int_op("maxsi", &left, &zero);
        let end = em.w.int_op("addi", &left, &more);
        let end = em.w.int_op("divui", &end, &step);
        low = em.w.int_op("maxsi", &low, &first);
        high = em.w.int_op("minsi", &high, &end);
    }
    let low = em.w.int_op("minsi", &low, length);
    let high = em.w.int_op("maxsi", &high, &low);
    (low, high)
}

/// Copies one run; outside `low..high` goes the padding. By ones: masked vectors, of which the last may
/// write beyond the run, where the next run or the room at the row's end lies.
fn copy_run(
    em: &mut Emitter,
    form: &Form,
    g: &Group,
    step: &Expr,
    from: &str,
    into: &str,
    (low, high, length): (&str, &str, &str),
) {
    let (zero, one) = (em.w.int(0), em.w.int(1));
    let padding = em.w.constant(format_args!("{:?} : f32", form.a_otherwise as f32));
    if !step.is(1) {
        let stride = em.expr(step);
        for (start, stop, copy) in [(zero.as_str(), low, false), (low, high, true), (high, length, false)] {
            let j = em.w.open(start, stop, &one);
            let to = em.w.element(into, &j.counter, "f32");
            let x = if copy {
                let skip = em.w.int_op("muli", &j.counter, &stride);
                let from = em.w.element(from, &skip, stored(form.a_type));
                wide::scalar(&mut em.w, form.a_type, &from)
            } else {
                padding.clone()
            };
            em.w.line(format_args!("llvm.store {x}, {to} : f32, !llvm.ptr"));
            em.w.close(j);
        }
        return;
    }
    let lanes = g.machine.lanes;
    // Masked loads of 16 bits are an instruction of AVX-512 alone.
    if form.a_type != DType::F32 && lanes < 16 {
        for (start, stop) in [(zero.as_str(), low), (high, length)] {
            let j = em.w.open(start, stop, &one);
            let to = em.w.element(into, &j.counter, "f32");
            em.w.line(format_args!("llvm.store {padding}, {to} : f32, !llvm.ptr"));
            em.w.close(j);
        }
        let (from, into) = (em.w.element(from, low, stored(form.a_type)), em.w.element(into, low, "f32"));
        let count = em.w.int_op("subi", high, low);
        wide::copy(&mut em.w, form.a_type, lanes, &from, &into, &count);
        return;
    }
    let (ty, ints, bits) = (g.machine.vector(), format!("vector<{lanes}xi32>"), format!("vector<{lanes}xi1>"));
    let numbers: Vec<String> = (0..lanes).map(|i| i.to_string()).collect();
    let iota = em.w.constant(format_args!("dense<[{}]> : {ints}", numbers.join(", ")));
    let padding = em.w.op(format_args!("vector.broadcast {padding} : f32 to {ty}"));
    let step = em.w.int(lanes);
    let j = em.w.open(&zero, length, &step);
    let edge = |em: &mut Emitter, edge: &str| {
        let far = em.w.int_op("subi", edge, &j.counter);
        let far = em.w.op(format_args!("arith.trunci {far} : i64 to i32"));
        em.w.op(format_args!("vector.broadcast {far} : i32 to {ints}"))
    };
    let (first, end) = (edge(em, low), edge(em, high));
    let above = em.w.op(format_args!("arith.cmpi sge, {iota}, {first} : {ints}"));
    let below = em.w.op(format_args!("arith.cmpi slt, {iota}, {end} : {ints}"));
    let mask = em.w.op(format_args!("arith.andi {above}, {below} : {bits}"));
    let from = em.w.element(from, &j.counter, stored(form.a_type));
    let to = em.w.element(into, &j.counter, "f32");
    let x = if form.a_type == DType::F32 {
        em.w.op(format_args!(
            "llvm.intr.masked.load {from}, {mask}, {padding} {{alignment = 4 : i32}} : (!llvm.ptr, {bits}, {ty}) -> {ty}"
        ))
    } else {
        let shorts = format!("vector<{lanes}xi16>");
        let nothing = em.w.constant(format_args!("dense<0> : {shorts}"));
        let mut x = em.w.op(format_args!(
            "llvm.intr.masked.load {from}, {mask}, {nothing} {{alignment = 2 : i32}} : (!llvm.ptr, {bits}, {shorts}) -> {shorts}"
        ));
        if form.a_type == DType::F16 {
            x = em.w.op(format_args!("arith.bitcast {x} : {shorts} to vector<{lanes}xf16>"));
        }
        let x = wide::widened(&mut em.w, form.a_type, lanes, &x);
        em.w.op(format_args!("arith.select {mask}, {x}, {padding} : {bits}, {ty}"))
    };
    em.w.line(format_args!("llvm.store {x}, {to} {{alignment = 4 : i64}} : {ty}, !llvm.ptr"));
    em.w.close(j);
}
