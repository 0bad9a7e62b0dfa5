//! Kernel IR: the closed enum below the open operator table.
//!
//! A kernel is a nest of outer parallel axes over ordered items: steps, and sequential loops of
//! items. Loops speak logical coordinates; where an element lies is the buffer's `Layout`.
//! The IR is untiled: how a kernel is cut is a schedule, chosen by the target from kernel and device.
//! `Contract` is *defined* by its expansion into a `Loop` (`Contract::expand`), which the interpreter runs.
//!
//! What must never be here: operators' names, targets, tiles, threads.

mod body;
mod buffers;
mod canonical;
mod cost;
mod layout;
mod print;
mod verify;

pub use body::{BinaryOp, Body, Bounds, Index, Op, UnaryOp, V};
pub use canonical::canonical;
pub use cost::{Cost, cost};
pub use layout::{Layout, Tile};
pub use verify::verify;

use oaaxc_base::id;

use crate::dtype::DType;
use crate::expr::{AxisId, Expr};
use crate::scalar::Scalar;

id!(
    /// A buffer of a kernel.
    BufferId,
    "b"
);

/// A kernel.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Kernel {
    /// A label for people: operator names. Not part of its identity.
    pub name: Label,
    /// Its buffers. Those that are not `Local` are its arguments, in this order.
    pub buffers: Vec<Buffer>,
    /// How many axes it uses: every `AxisId` is below.
    pub axes: u32,
    /// Outer axes whose iterations are independent.
    pub parallel: Vec<LoopAxis>,
    /// What runs for each outer iteration, in order.
    pub body: Vec<Item>,
}

/// A name that does not count for equality: equal kernels are compiled once whatever they are called.
#[derive(Clone, Debug, Default)]
pub struct Label(pub String);

impl PartialEq for Label {
    fn eq(&self, _: &Label) -> bool {
        true
    }
}
impl Eq for Label {}
impl std::hash::Hash for Label {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

/// Memory that a kernel reads or writes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Buffer {
    /// Element type.
    pub dtype: DType,
    /// Logical sizes, free of axes.
    pub dims: Vec<Expr>,
    /// What the kernel does with it.
    pub role: Role,
    /// Where the elements lie.
    pub layout: Layout,
}

/// What a kernel does with a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Role {
    /// Only read.
    In,
    /// Only written; every element that anyone reads later is written.
    Out,
    /// Read and written.
    InOut,
    /// Private to one outer iteration, undefined at its start; lives in scratch.
    Local,
}

/// An axis that runs from 0 to its extent.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct LoopAxis {
    /// Its name.
    pub axis: AxisId,
    /// How many iterations; free of inner axes, may use axes of outer loops.
    pub extent: Expr,
}

/// A step, or a loop of items in order.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Item {
    /// One step.
    Step(Step),
    /// Iterations one after the other: each sees what the one before wrote.
    Sequential {
        /// The axis.
        axis: LoopAxis,
        /// What runs in each iteration.
        body: Vec<Item>,
    },
}

/// The kernel forms.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Step {
    /// Elementwise work and reductions.
    Loop(Loop),
    /// Products summed: matrix products and convolutions.
    Contract(Contract),
    /// The order of keys.
    Sort(Sort),
    /// The points that a condition keeps, in order.
    Compact(Compact),
}

/// For each point of the parallel axes: fold `body` over the reduce axes, then run `post` and store.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Loop {
    /// Independent axes.
    pub parallel: Vec<LoopAxis>,
    /// Folded axes; the innermost runs fastest.
    pub reduce: Vec<LoopAxis>,
    /// Computed at each point of parallel × reduce. Empty where nothing is folded.
    pub body: Body,
    /// What is folded; `post` sees fold number i as `Param(i)`.
    pub folds: Vec<Fold>,
    /// Computed at each point of the parallel axes.
    pub post: Body,
    /// What `post` writes. No two points write the same element, except with equal values.
    pub stores: Vec<Store>,
}

/// A reduction.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Fold {
    /// How values join.
    pub kind: FoldKind,
    /// The value of `body` that is folded.
    pub value: V,
    /// The accumulator's type, to which values are cast first; `I64` for `ArgMin` and `ArgMax`.
    pub dtype: DType,
}

/// How values join. An empty fold gives the neutral element (0, 1, lowest, highest, true, false; index 0).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FoldKind {
    /// Sum. Floats may be summed in any order, except under `strict`.
    Sum,
    /// Product.
    Product,
    /// Smallest; NaN wins.
    Min,
    /// Largest; NaN wins.
    Max,
    /// Whether all are true.
    And,
    /// Whether any is true.
    Or,
    /// Row-major position (over the reduce axes) of the smallest value; of equals the first, or the last.
    ArgMin {
        /// The last of equals.
        last: bool,
    },
    /// Row-major position of the largest value.
    ArgMax {
        /// The last of equals.
        last: bool,
    },
}

/// Writes one element.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Store {
    /// Where.
    pub buffer: BufferId,
    /// One index per dim.
    pub index: Vec<Index>,
    /// What; its type is the buffer's.
    pub value: V,
    /// Only where this is true.
    pub when: Option<V>,
    /// Whether an index outside the buffer is a fault of the model (`Fault`) or proved impossible (`Inside`).
    pub bounds: Bounds,
}

/// `out[batch, m, n] = post( Σ_k (a − a_zero) · (b − b_zero) )`.
///
/// M axes index only `a`, N axes only `b`, batch axes both (or neither); K axes are summed.
/// A convolution has the output's channels and the group's as N and batch, the output pixels as M
/// (or the other way round), and (kh, kw, ic) as K, with affine indices into a guarded input.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Contract {
    /// Axes that index both operands or neither.
    pub batch: Vec<LoopAxis>,
    /// Axes of `a` alone.
    pub m: Vec<LoopAxis>,
    /// Axes of `b` alone.
    pub n: Vec<LoopAxis>,
    /// Summed axes.
    pub k: Vec<LoopAxis>,
    /// The left operand.
    pub a: Operand,
    /// The right operand; weights stand here.
    pub b: Operand,
    /// The accumulator's type: f32 for floats (f64 for double), i32 for 8-bit integers, exactly.
    pub acc: DType,
    /// Runs on the sum, `Param(0)`, at each (batch, m, n).
    pub post: Body,
    /// What `post` writes.
    pub stores: Vec<Store>,
}

/// An operand of a `Contract`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Operand {
    /// The buffer.
    pub buffer: BufferId,
    /// One index per dim, over the contract's and the outer axes.
    pub index: Vec<Expr>,
    /// What an index outside the buffer reads (padding); `None` where that is impossible.
    pub otherwise: Option<Scalar>,
    /// What is subtracted from each element: an integer's zero point, read from a buffer at these indices.
    pub zero: Option<(BufferId, Vec<Expr>)>,
    /// Runs on each element read, `Param(0)` of the buffer's type; its result, of type `acc` or narrower, takes its place.
    /// `None`: the element itself. Pure: it may load other buffers at indices over the same axes.
    pub prologue: Option<(Body, V)>,
}

/// `order[.., j, ..] = position of the j-th key`: stable; NaN counts as largest.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Sort {
    /// Independent axes: one order for each point.
    pub parallel: Vec<LoopAxis>,
    /// The sorted axis.
    pub along: LoopAxis,
    /// The key at a position of `along`.
    pub key: Body,
    /// The value of `key` to compare by.
    pub value: V,
    /// Largest first (still stable).
    pub descending: bool,
    /// An int64 buffer for the positions.
    pub order: BufferId,
    /// Its index, in which `along` now counts ranks.
    pub index: Vec<Expr>,
}

/// Visits the points of `axes` in row-major order and, where `keep`, stores at the running count.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Compact {
    /// Visited axes, the last fastest.
    pub axes: Vec<LoopAxis>,
    /// Computed at each point; may read what earlier points stored.
    pub body: Body,
    /// Whether the point is kept.
    pub keep: V,
    /// An axis that holds the running count, for the stores' indices and `body`.
    pub position: AxisId,
    /// What a kept point writes.
    pub stores: Vec<Store>,
    /// An int64 buffer of rank 0 that receives the final count.
    pub count: Option<BufferId>,
}

impl Kernel {
    /// The buffers that are arguments, in order.
    pub fn arguments(&self) -> impl Iterator<Item = (BufferId, &Buffer)> {
        self.buffers.iter().enumerate().filter(|(_, b)| b.role != Role::Local).map(|(i, b)| (BufferId(i as u32), b))
    }
    /// The buffer with this id.
    pub fn buffer(&self, id: BufferId) -> &Buffer {
        &self.buffers[id.0 as usize]
    }
    /// A new axis.
    pub fn new_axis(&mut self) -> AxisId {
        self.axes += 1;
        AxisId(self.axes - 1)
    }
    /// Calls `f` on every step, in order, those of sequential loops too.
    pub fn visit_steps<'a>(&'a self, f: &mut dyn FnMut(&'a Step)) {
        fn walk<'a>(items: &'a [Item], f: &mut dyn FnMut(&'a Step)) {
            for item in items {
                match item {
                    Item::Step(step) => f(step),
                    Item::Sequential { body, .. } => walk(body, f),
                }
            }
        }
        walk(&self.body, f);
    }
    /// Calls `f` on every scalar body, in order.
    pub fn visit_bodies<'a>(&'a self, f: &mut dyn FnMut(&'a Body)) {
        self.visit_steps(&mut |step| match step {
            Step::Loop(l) => {
                f(&l.body);
                f(&l.post);
            }
            Step::Contract(c) => {
                [&c.a, &c.b].iter().filter_map(|operand| operand.prologue.as_ref()).for_each(|(body, _)| f(body));
                f(&c.post);
            }
            Step::Sort(s) => f(&s.key),
            Step::Compact(c) => f(&c.body),
        });
    }
    /// The only step, where the kernel is nothing else (outer parallel axes allowed).
    pub fn single_step(&self) -> Option<&Step> {
        match &self.body[..] {
            [Item::Step(step)] => Some(step),
            _ => None,
        }
    }
}

impl Contract {
    /// The loop that defines it.
    pub fn expand(&self, buffers: &[Buffer]) -> Loop {
        let mut body = Body::default();
        let a = self.a.read(&mut body, buffers, self.acc);
        let b = self.b.read(&mut body, buffers, self.acc);
        let product = body.binary(BinaryOp::Mul, a, b);
        Loop {
            parallel: self.batch.iter().chain(&self.m).chain(&self.n).cloned().collect(),
            reduce: self.k.clone(),
            folds: vec![Fold { kind: FoldKind::Sum, value: product, dtype: self.acc }],
            body,
            post: self.post.clone(),
            stores: self.stores.clone(),
        }
    }
}

impl Operand {
    /// Appends the read of one element: load, prologue, cast to `acc`, minus the zero point.
    pub fn read(&self, body: &mut Body, buffers: &[Buffer], acc: DType) -> V {
        let dtype = buffers[self.buffer.0 as usize].dtype;
        let index = self.index.iter().cloned().map(Index::Expr).collect();
        let bounds = if self.otherwise.is_some() { Bounds::Otherwise } else { Bounds::Inside };
        let otherwise = self.otherwise.unwrap_or(Scalar::zero(dtype));
        let mut value = body.push(Op::Load { buffer: self.buffer, dtype, index, when: None, bounds, otherwise });
        if let Some((prologue, result)) = &self.prologue {
            let map = body.inline(prologue, &[value]);
            value = map[result.0 as usize];
        }
        value = body.cast(acc, value);
        if let Some((buffer, index)) = &self.zero {
            let dtype = buffers[buffer.0 as usize].dtype;
            let index = index.iter().cloned().map(Index::Expr).collect();
            let zero = body.push(Op::Load {
                buffer: *buffer,
                dtype,
                index,
                when: None,
                bounds: Bounds::Inside,
                otherwise: Scalar::zero(dtype),
            });
            let zero = body.cast(acc, zero);
            value = body.binary(BinaryOp::Sub, value, zero);
        }
        value
    }
}
