//! Whether an integer contraction gets tiles of registers: a pure function of kernel and level.
//!
//! One side advances along the result's memory and is held in vectors (`columns`), the other is broadcast
//! (`rows`): in a matrix product N and M, in a convolution over NCHW pixels and channels.

use oaaxc_emit::access::{Code, Put, Resolver};
use oaaxc_emit::nest::{Nest, has_axes};
use oaaxc_ir::kernel::{Body, Bounds, Contract, Kernel, LoopAxis, Operand, Role, Step, V};
use oaaxc_ir::{DType, Expr};

use crate::kernel::Options;

/// A register tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// Rows.
    pub rows: i64,
    /// Columns, a multiple of the lanes.
    pub columns: i64,
    /// Lanes of an i32 vector.
    pub lanes: u32,
    /// Whether x86's pairwise multiply-add may be named.
    pub x86: bool,
}

/// One operand.
#[derive(Clone, Debug)]
pub struct Side {
    /// Product of its own extents.
    pub total: Expr,
    /// Its own axes as `post` has them.
    pub axes: Vec<LoopAxis>,
    /// Reads one element less its zero point, as i32.
    pub code: Code,
    /// The value of `code`.
    pub value: V,
    /// Its own axes as `code` has them.
    pub code_axes: Vec<LoopAxis>,
    /// The summed axes as `code` has them.
    pub code_k: Vec<LoopAxis>,
}

/// A contraction with its tile.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The tile.
    pub tile: Tile,
    /// The broadcast side.
    pub rows: Side,
    /// The vector side.
    pub columns: Side,
    /// Outer and batch axes.
    pub batch: Vec<LoopAxis>,
    /// Terms of a sum.
    pub k: Expr,
    /// Rows in a group.
    pub row_block: i64,
    /// Columns in a group.
    pub column_block: i64,
    /// Runs on each sum.
    pub post: Code,
    /// Writes each result.
    pub puts: Vec<Put>,
}

/// The plan for a kernel that is one contraction of 8-bit integers, where tiles pay.
pub fn plan(resolver: &mut Resolver, kernel: &Kernel, options: &Options) -> Option<Plan> {
    let Step::Contract(c) = kernel.single_step()? else { return None };
    let axes = || kernel.parallel.iter().chain(&c.batch).chain(&c.m).chain(&c.n).chain(&c.k);
    let fits = c.acc == DType::I32
        && [&c.a, &c.b].iter().all(|o| is_byte(kernel, o))
        && !kernel.buffers.iter().any(|b| b.role == Role::Local)
        && axes().all(|a| !has_axes(&a.extent))
        && !c.k.is_empty();
    if !fits {
        return None;
    }
    let mut post = Nest { post: resolver.code(&c.post), ..Nest::default() };
    post.puts = resolver.puts(&c.stores, &mut post.post);
    let by_one = |axes: &[LoopAxis]| {
        let last = axes.iter().rev().find(|a| !a.extent.is(1))?;
        post.puts.first()?.access.offset.axis_stride(last.axis)?.is(1).then_some(())
    };
    let (rows, columns) = if by_one(&c.n).is_some() {
        ((&c.m, &c.a), (&c.n, &c.b))
    } else {
        by_one(&c.m)?;
        ((&c.n, &c.b), (&c.m, &c.a))
    };
    let rows = side(resolver, kernel, c, rows, &mut post);
    let columns = side(resolver, kernel, c, columns, &mut post);
    let few = |e: &Expr, n: i64| e.as_const().is_some_and(|x| x < n);
    let k = volume(&c.k);
    // With few rows every packed column is used too seldom to pay.
    if few(&rows.total, 4) || few(&columns.total, 8) || few(&k, 8) {
        return None;
    }
    let (mut height, width) = match (options.lanes, options.registers) {
        (16, _) => (16, 16),
        (8, _) => (5, 16),
        (_, 32) => (6, 16),
        _ => (4, 8),
    };
    height = rows.total.as_const().map_or(height, |n| n.min(height));
    let tile = Tile { rows: height, columns: width, lanes: options.lanes, x86: options.x86 };
    let whole = |side: &Side, block: i64, to: i64| side.total.as_const().map_or(block, |n| block.min((n + to - 1) / to * to));
    let row_block = whole(&rows, (256 + height - 1) / height * height, height);
    let column_block = whole(&columns, 192, width);
    let batch = kernel.parallel.iter().chain(&c.batch).cloned().collect();
    Some(Plan { tile, rows, columns, batch, k, row_block, column_block, post: post.post, puts: post.puts })
}

/// Whether the operand's factors fit 16 bits: a byte, perhaps less another byte.
fn is_byte(kernel: &Kernel, operand: &Operand) -> bool {
    let byte = |id| matches!(kernel.buffer(id).dtype, DType::I8 | DType::U8);
    operand.prologue.is_none() && byte(operand.buffer) && operand.zero.as_ref().is_none_or(|(id, _)| byte(*id))
}

fn volume(axes: &[LoopAxis]) -> Expr {
    axes.iter().fold(Expr::constant(1), |v, a| v * a.extent.clone())
}

fn side(
    resolver: &mut Resolver,
    kernel: &Kernel,
    c: &Contract,
    (axes, operand): (&Vec<LoopAxis>, &Operand),
    post: &mut Nest,
) -> Side {
    let mut body = Body::default();
    let value = operand.read(&mut body, &kernel.buffers, DType::I32);
    let mut reader = Nest { post: resolver.code(&body), ..Nest::default() };
    debug_assert!(reader.post.accesses.iter().flatten().all(|a| a.bounds != Bounds::Fault), "operands do not fault");
    let real: Vec<LoopAxis> = axes.iter().filter(|a| !a.extent.is(1)).cloned().collect();
    let unit: Vec<_> = axes.iter().filter(|a| a.extent.is(1)).map(|a| a.axis).collect();
    for nest in [&mut reader, &mut *post] {
        nest.map_exprs(&mut |e| e.replace_axes(&|a| if unit.contains(&a) { 0.into() } else { Expr::axis(a) }));
    }
    let (mut code_axes, mut code_k, mut own) = (real.clone(), c.k.clone(), real);
    reader.merge(&mut code_axes);
    reader.merge(&mut code_k);
    post.merge(&mut own);
    for axes in [&code_axes, &code_k, &own] {
        resolver.ranges.add_axes(axes);
    }
    Side { total: volume(axes), axes: own, code: reader.post, value, code_axes, code_k }
}
