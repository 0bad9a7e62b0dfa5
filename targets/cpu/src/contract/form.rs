//! What a contraction looks like to the packed micro-kernels: offsets instead of indices, and which
//! side is contiguous in the result.
//!
//! `Rows`: the result is contiguous along N (a matrix product): rows of `a` are broadcast against
//! panels of `b`. `Pixels`: the result is contiguous along the last M axis (a convolution in NCHW):
//! rows of the weights are broadcast against packed pixels. Anything else is left to the generic path.

use oaaxc_emit::access::{Code, Put, Resolver};
use oaaxc_ir::expr::Expr;
use oaaxc_ir::kernel::{Bounds, Buffer, BufferId, Contract, Index, Kernel, Layout, LoopAxis, Step, Tile};
use oaaxc_ir::{DType, Scalar};

use super::wide;

/// Columns of a weight panel.
pub const PANEL: i64 = 16;

/// Which axis is contiguous in the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// N is: a matrix product.
    Rows,
    /// The last M axes are: a convolution over NCHW.
    Pixels,
    /// As `Pixels`, with one output channel for each outer point.
    Depthwise,
}

/// An analysed contraction of floats.
#[derive(Clone, Debug)]
pub struct Form {
    /// The buffer of `a`.
    pub a_buffer: BufferId,
    /// The buffer of `b`.
    pub b_buffer: BufferId,
    /// The type of its elements: f32, or 16 bits that are read as f32.
    pub a_type: DType,
    /// The type of `b`'s elements.
    pub b_type: DType,
    /// Where `a` is narrow and `Depthwise`: the plane that one group reads, its first offset and its size.
    pub plane: Option<(Expr, Expr)>,
    /// Which side is contiguous.
    pub side: Side,
    /// Outer axes: one or more groups for each of their points.
    pub outer: Vec<LoopAxis>,
    /// The rows of `a`: for `Rows` one axis; for `Pixels` the spatial axes, slowest first.
    pub m: Vec<LoopAxis>,
    /// The columns of `b`.
    pub n: LoopAxis,
    /// The summed axes, slowest first.
    pub k: Vec<LoopAxis>,
    /// Element offset into `a`, over all axes, before the pixels became one axis.
    pub a: Expr,
    /// Indices of `a` that may lie outside, with the sizes that they must lie below.
    pub a_guards: Vec<(Expr, Expr)>,
    /// What `a` reads outside.
    pub a_otherwise: f64,
    /// Where `b` lies.
    pub b: Weights,
    /// The pixels as one axis, for `Pixels`: what `post` and `puts` are over.
    pub pixel: Option<LoopAxis>,
    /// The epilogue, its accesses as offsets.
    pub post: Code,
    /// Its stores.
    pub puts: Vec<Put>,
}

/// Where `b` lies.
#[derive(Clone, Debug)]
pub enum Weights {
    /// Panels `[N/16][K][16]` in this K order; the offset of column n's panel is `panel(n) · K · 16`
    /// plus `base` (over the outer axes, free of n and k).
    Panels {
        /// Offset of the first panel of this outer point, in elements.
        base: Expr,
    },
    /// Row-major: element offset over outer, n and k axes, affine in n and every k.
    Plain {
        /// The offset.
        offset: Expr,
    },
}

/// The analysed form, where the contraction is one that the micro-kernels compute.
pub fn analyse(kernel: &Kernel) -> Option<Form> {
    let Some(Step::Contract(c)) = kernel.single_step() else { return None };
    let [a_type, b_type] = [c.a.buffer, c.b.buffer].map(|b| kernel.buffer(b).dtype);
    let floats = wide::is_read(a_type) && wide::is_read(b_type);
    let plain = [&c.a, &c.b].iter().all(|o| o.prologue.is_none() && o.zero.is_none());
    let [n] = &c.n[..] else { return None };
    if !floats || !plain || c.acc != DType::F32 || c.b.otherwise.is_some() || c.k.is_empty() || c.m.is_empty() {
        return None;
    }
    let mut resolver = Resolver::new(kernel);
    let mut post = resolver.code(&c.post);
    let puts = resolver.puts(&c.stores, &mut post);
    // Loads of the epilogue must not fault: a fault leaves the kernel, and tiles are not left midway.
    let faults = post.accesses.iter().flatten().any(|a| a.bounds == Bounds::Fault && !a.checks.is_empty());
    let certain = |p: &Put| p.when.is_none() && p.access.bounds == Bounds::Inside;
    if faults || !post.computed.is_empty() || !puts.iter().all(certain) {
        return None;
    }
    // A panel of sixteen for a handful of columns is mostly padding; one column has a way of its own.
    let one_column = n.extent.is(1);
    if n.extent.as_const().is_some_and(|n| n < 4) && !one_column {
        return None;
    }
    let a_buffer = kernel.buffer(c.a.buffer);
    if !a_buffer.layout.is_plain() {
        return None;
    }
    // An axis of extent 1 is 0: a 1×1 window leaves bare indices that are proved inside.
    let unit = |axis| [&c.batch, &c.m, &c.n, &c.k].iter().any(|axes| axes.iter().any(|a| a.axis == axis && a.extent.is(1)));
    let index: Vec<Expr> =
        c.a.index.iter().map(|e| e.replace_axes(&|a| if unit(a) { 0.into() } else { Expr::axis(a) })).collect();
    let a = a_buffer.layout.offset(&a_buffer.dims, &index);
    let side = match side(kernel, c, n)? {
        Side::Pixels if one_column => Side::Depthwise,
        Side::Rows if one_column => return None,
        side => side,
    };
    let mut form = Form {
        a_buffer: c.a.buffer,
        b_buffer: c.b.buffer,
        a_type,
        b_type,
        plane: None,
        side,
        outer: kernel.parallel.iter().chain(&c.batch).cloned().collect(),
        m: c.m.clone(),
        n: n.clone(),
        k: c.k.clone(),
        a,
        a_guards: Vec::new(),
        a_otherwise: c.a.otherwise.map_or(0.0, Scalar::as_f64),
        b: weights(kernel, c, n)?,
        pixel: None,
        post,
        puts,
    };
    for axis in form.m.iter().chain(&form.k) {
        form.a.axis_stride(axis.axis)?;
    }
    if c.a.otherwise.is_some() {
        form.a_guards = index.iter().cloned().zip(a_buffer.dims.iter().cloned()).filter(|(i, d)| !inside(i, d, c)).collect();
    }
    match side {
        Side::Rows => Some(rows(form)?),
        Side::Pixels => pixels(form),
        Side::Depthwise => {
            if a_type != DType::F32 {
                form.plane = Some(plane(&form, &index, a_buffer)?);
            }
            depthwise(form)
        }
    }
}

/// The trailing dims of `a` that one channel's windows walk over: the offset of their first element, and how many.
fn plane(form: &Form, index: &[Expr], buffer: &Buffer) -> Option<(Expr, Expr)> {
    let walks = |e: &Expr| form.m.iter().chain(&form.k).any(|a| e.uses_axis(a.axis));
    let first = index.iter().position(walks)?;
    let start: Vec<Expr> = (0..index.len()).map(|d| if d < first { index[d].clone() } else { 0.into() }).collect();
    Some((buffer.layout.offset(&buffer.dims, &start), Expr::product(&buffer.dims[first..])))
}

/// Whether an index is a bare axis that runs over exactly this dim.
fn inside(index: &Expr, dim: &Expr, c: &Contract) -> bool {
    let all = c.batch.iter().chain(&c.m).chain(&c.n).chain(&c.k);
    index.as_axis().is_some_and(|axis| all.clone().any(|a| a.axis == axis && a.extent == *dim))
        || index.as_const().is_some_and(|i| i >= 0 && dim.as_const().is_some_and(|d| i < d))
        || in_group(index, dim, c)
}

/// Whether an index is `g · extent(i) + i` with `extent(g) · extent(i) = dim`: the channels of a group.
fn in_group(index: &Expr, dim: &Expr, c: &Contract) -> bool {
    c.batch.iter().any(|g| {
        c.k.iter()
            .chain(&c.n)
            .any(|i| *index == Expr::axis(g.axis) * &i.extent + Expr::axis(i.axis) && &g.extent * &i.extent == *dim)
    })
}

fn side(kernel: &Kernel, c: &Contract, n: &LoopAxis) -> Option<Side> {
    let store = c.stores.first()?;
    let buffer = kernel.buffer(store.buffer);
    if !buffer.layout.is_plain() {
        return None;
    }
    let index: Vec<Expr> =
        store.index.iter().map(|i| if let Index::Expr(e) = i { Some(e.clone()) } else { None }).collect::<Option<_>>()?;
    let offset = buffer.layout.offset(&buffer.dims, &index);
    let last = c.m.last()?;
    if offset.axis_stride(n.axis)?.is(1) {
        Some(Side::Rows)
    } else if offset.axis_stride(last.axis)?.is(1) {
        Some(Side::Pixels)
    } else {
        None
    }
}

fn weights(kernel: &Kernel, c: &Contract, n: &LoopAxis) -> Option<Weights> {
    let buffer = kernel.buffer(c.b.buffer);
    if buffer.layout.is_plain() {
        let offset = buffer.layout.offset(&buffer.dims, &c.b.index);
        for axis in c.k.iter().chain([n]) {
            offset.axis_stride(axis.axis)?;
        }
        if c.m.iter().any(|m| offset.uses_axis(m.axis)) {
            return None;
        }
        return Some(Weights::Plain { offset });
    }
    // `[…, n/16, k…, 16]` with the K dims in the contraction's order.
    let Layout { order, tiles } = &buffer.layout;
    let [Tile { dim: n_dim, size: PANEL }] = tiles[..] else { return None };
    let rest = &c.b.index[n_dim] - Expr::axis(n.axis);
    if rest.uses_axis(n.axis) || c.k.iter().any(|k| rest.uses_axis(k.axis)) {
        return None;
    }
    let tail: Vec<usize> = order[order.len() - c.k.len()..].to_vec();
    for (dim, k) in tail.iter().zip(&c.k) {
        let whole = c.b.index[*dim].as_axis() == Some(k.axis) && buffer.dims[*dim] == k.extent;
        if !whole {
            return None;
        }
    }
    if order.get(order.len() - c.k.len() - 1) != Some(&n_dim) {
        return None;
    }
    // The first panel of an outer point: n and k at 0. With groups the rest is a multiple of the panel.
    let zero = |e: &Expr| {
        e.replace_axes(&|a| if a == n.axis || c.k.iter().any(|k| k.axis == a) { Expr::constant(0) } else { Expr::axis(a) })
    };
    let index: Vec<Expr> = c.b.index.iter().map(zero).collect();
    let base = buffer.layout.offset(&buffer.dims, &index);
    Some(Weights::Panels { base })
}

/// A matrix product: the M axes are joined into one where every access allows, else the leading ones are outer.
fn rows(mut form: Form) -> Option<Form> {
    if !form.a_guards.is_empty() {
        return None;
    }
    while form.m.len() > 1 && form.can_join(true) {
        form.join(true);
    }
    while form.m.len() > 1 {
        let first = form.m.remove(0);
        form.outer.push(first);
    }
    Some(form)
}

/// A convolution: the spatial axes are one pixel axis in the result and in the epilogue.
fn pixels(mut form: Form) -> Option<Form> {
    if form.k.iter().any(|k| k.extent.as_const().is_none()) || form.n.extent.as_const().is_none() {
        return None;
    }
    // Axes that are one in the input too (a 1×1 convolution) make longer runs to copy.
    while form.m.len() > 1 && form.a_guards.is_empty() && form.can_join(true) {
        form.join(true);
    }
    let spatial = form.m.clone();
    while form.m.len() > 1 {
        if !form.can_join(false) {
            return None;
        }
        form.join(false);
    }
    form.pixel = form.m.pop();
    form.m = spatial;
    Some(form)
}

/// Most points of a depthwise window: its taps are written out.
const MAX_TAPS: i64 = 49;

/// A depthwise convolution: few taps, each a row that is walked by one or two elements.
fn depthwise(form: Form) -> Option<Form> {
    let Weights::Plain { .. } = form.b else { return None };
    let taps = form.k.iter().try_fold(1i64, |p, k| Some(p.saturating_mul(k.extent.as_const()?)))?;
    let last = form.m.last()?.axis;
    let step = form.a.axis_stride(last)?.as_const()?;
    let across: Vec<_> = form.a_guards.iter().filter(|(index, _)| index.uses_axis(last)).collect();
    let walks = across.iter().all(|(index, _)| index.axis_stride(last).is_some_and(|s| s.is(step)));
    if taps > MAX_TAPS || !(1..=2).contains(&step) || across.len() > 1 || !walks || across.is_empty() && step != 1 {
        return None;
    }
    pixels(form)
}

impl Form {
    /// Every expression of the epilogue.
    fn epilogue(&self) -> Vec<Expr> {
        let mut all = Vec::new();
        let mut collect = |e: &Expr| {
            all.push(e.clone());
            e.clone()
        };
        self.post.clone().map_exprs(&mut collect);
        self.puts.clone().iter_mut().for_each(|p| p.access.map_exprs(&mut collect));
        all
    }
    /// Whether the last two M axes `(i, j)` are used as `i·J + j` everywhere.
    fn can_join(&self, in_a: bool) -> bool {
        let (x, y) = (&self.m[self.m.len() - 2], &self.m[self.m.len() - 1]);
        let as_one = |e: &Expr| match (e.axis_stride(x.axis), e.axis_stride(y.axis)) {
            (Some(i), Some(j)) => i == j * &y.extent,
            _ => false,
        };
        self.epilogue().iter().all(as_one) && (!in_a || as_one(&self.a))
    }
    /// Joins them into the last.
    fn join(&mut self, in_a: bool) {
        let y = self.m.pop().expect("the caller saw two axes");
        let x = self.m.pop().expect("the caller saw two axes");
        let gone = |e: &Expr| e.replace_axes(&|a| if a == x.axis { Expr::constant(0) } else { Expr::axis(a) });
        self.post.map_exprs(&mut |e| gone(e));
        self.puts.iter_mut().for_each(|p| p.access.map_exprs(&mut |e| gone(e)));
        if in_a {
            self.a = gone(&self.a);
        }
        self.m.push(LoopAxis { axis: y.axis, extent: x.extent * y.extent });
    }
    /// Whether the pixels of the input already lie as packed ones would: a 1×1 window of stride 1.
    pub fn is_direct(&self) -> bool {
        let window = &self.k[..self.k.len() - 1];
        let is_wide = self.a_type == DType::F32;
        let by_one = |m: &LoopAxis| self.a.axis_stride(m.axis).is_some_and(|s| s.is(1));
        is_wide && window.iter().all(|k| k.extent.is(1)) && self.a_guards.is_empty() && matches!(&self.m[..], [m] if by_one(m))
    }
    /// All M axes, slowest first, the pixel axis for `Pixels`.
    pub fn result_m(&self) -> &LoopAxis {
        self.pixel.as_ref().unwrap_or(&self.m[0])
    }
}
