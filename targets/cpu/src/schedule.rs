//! How a kernel is cut: pure functions of the kernel, read by the emitters, never changed by them.
//!
//! A group is what a worker takes at once: enough work that handing it out costs nothing, few enough
//! points that a matrix of ordinary size still feeds every core.

use oaaxc_emit::nest::{Nest, has_axes};
use oaaxc_ir::Expr;
use oaaxc_ir::kernel::{BinaryOp, Item, Kernel, LoopAxis, Op, Step, UnaryOp};

/// Scalar operations that a group should hold at least.
const GROUP: i64 = 16 * 1024;

/// A partition of points: blocks of the innermost axis, and how many (outer × block) make one group.
#[derive(Clone, Debug, PartialEq)]
pub struct Points {
    /// Iterations of the innermost axis in one block.
    pub block: Expr,
    /// Blocks in a group.
    pub grain: Expr,
}

/// For a kernel that is one loop.
pub fn points(nest: &Nest) -> Points {
    let cost = cost_of(&nest.body.ops, &nest.post.ops, &nest.reduce);
    let whole = Expr::from(GROUP).ceil_div(&cost.maximum(&1.into()));
    let block = whole.ceil_div(&64.into()) * 64;
    let last = nest.parallel.last().map_or(Expr::from(1), |a| a.extent.clone());
    let block = match (block.as_const(), last.as_const()) {
        (Some(b), Some(n)) if n <= b => n.max(1).into(),
        _ => block,
    };
    let work = block.minimum(&last) * cost;
    Points { block, grain: Expr::from(GROUP).ceil_div(&work.maximum(&1.into())) }
}

/// Rows in a group, for a kernel of several items under outer axes.
pub fn rows(body: &[Item]) -> Expr {
    Expr::from(GROUP).ceil_div(&items_cost(body).maximum(&1.into()))
}

/// The step of a kernel that is one loop without private memory: all of its points are independent.
pub fn single_loop(kernel: &Kernel) -> Option<oaaxc_ir::kernel::Loop> {
    if kernel.buffers.iter().any(|b| b.role == oaaxc_ir::kernel::Role::Local) {
        return None;
    }
    match kernel.single_step()? {
        Step::Loop(l) => Some(l.clone()),
        Step::Contract(c) => Some(c.expand(&kernel.buffers)),
        Step::Sort(_) | Step::Compact(_) => None,
    }
}

fn items_cost(items: &[Item]) -> Expr {
    let mut sum = Expr::constant(0);
    for item in items {
        sum = sum
            + match item {
                Item::Sequential { axis, body } => known(&axis.extent) * items_cost(body),
                Item::Step(Step::Loop(l)) => volume(&l.parallel) * cost_of(&l.body.ops, &l.post.ops, &l.reduce),
                Item::Step(Step::Contract(c)) => {
                    let points = volume(&c.batch) * volume(&c.m) * volume(&c.n);
                    points * (volume(&c.k) * 2 + body_cost(&c.post.ops))
                }
                Item::Step(Step::Sort(s)) => volume(&s.parallel) * known(&s.along.extent) * (body_cost(&s.key.ops) + 64),
                Item::Step(Step::Compact(c)) => volume(&c.axes) * (body_cost(&c.body.ops) + 4),
            };
    }
    sum
}

/// An extent that depends on an outer axis counts as one: the guess only has to be cheap.
fn known(extent: &Expr) -> Expr {
    if has_axes(extent) { 1.into() } else { extent.clone() }
}

fn volume(axes: &[LoopAxis]) -> Expr {
    axes.iter().fold(Expr::constant(1), |v, a| v * known(&a.extent))
}

fn cost_of(body: &[Op], post: &[Op], reduce: &[LoopAxis]) -> Expr {
    let folded = if reduce.is_empty() { 0.into() } else { volume(reduce) * body_cost(body) };
    folded + body_cost(post)
}

/// Scalar operations, elementary functions counted by their weight.
fn body_cost(ops: &[Op]) -> i64 {
    ops.iter()
        .map(|op| match op {
            Op::Const(_) | Op::Index(_) | Op::Param(..) => 0,
            Op::Unary(u, _) => match u {
                UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Sign | UnaryOp::Floor | UnaryOp::Ceil | UnaryOp::Round => 1,
                UnaryOp::Trunc | UnaryOp::Not | UnaryOp::IsNan | UnaryOp::IsInf | UnaryOp::Sqrt => 1,
                _ => 16,
            },
            Op::Binary(BinaryOp::Pow, ..) => 32,
            Op::Load { .. } | Op::Binary(..) | Op::Select(..) | Op::Cast(..) => 1,
        })
        .sum::<i64>()
        .max(1)
}
