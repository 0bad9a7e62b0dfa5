//! Kernel forms besides plain loops: folds in every direction, private memory, sequences, sorts, compaction, faults.

use oaaxc_ir::expr::{AxisId, Expr, SymId};
use oaaxc_ir::kernel::{
    BinaryOp, Body, Bounds, Buffer, BufferId, Compact, Fold, FoldKind, Index, Item, Kernel, Label, Layout, Loop, LoopAxis, Op,
    Role, Sort, Step, Store, Tile, UnaryOp, V,
};
use oaaxc_ir::{DType, Scalar};

use crate::{Check, Random, memory};

fn s(n: u32) -> Expr {
    Expr::sym(SymId(n))
}
fn i(n: u32) -> Expr {
    Expr::axis(AxisId(n))
}
fn axis(n: u32, extent: impl Into<Expr>) -> LoopAxis {
    LoopAxis { axis: AxisId(n), extent: extent.into() }
}
fn buffer(dtype: DType, dims: &[Expr], role: Role) -> Buffer {
    Buffer { dtype, dims: dims.to_vec(), role, layout: Layout::default() }
}
fn kernel(name: &str, buffers: Vec<Buffer>, axes: u32, parallel: Vec<LoopAxis>, body: Vec<Item>) -> Kernel {
    Kernel { name: Label(name.into()), buffers, axes, parallel, body }
}
fn load(b: &mut Body, id: u32, dtype: DType, index: &[Expr]) -> V {
    load_with(b, id, dtype, index.iter().map(Index::from).collect(), None, Bounds::Inside)
}
fn load_with(b: &mut Body, id: u32, dtype: DType, index: Vec<Index>, when: Option<V>, bounds: Bounds) -> V {
    let otherwise = Scalar::from_i64(3).cast(dtype);
    b.push(Op::Load { buffer: BufferId(id), dtype, index, when, bounds, otherwise })
}
fn store(id: u32, index: &[Expr], value: V) -> Store {
    Store { buffer: BufferId(id), index: index.iter().map(Index::from).collect(), value, when: None, bounds: Bounds::Inside }
}
fn item(l: Loop) -> Item {
    Item::Step(Step::Loop(l))
}
fn compare(check: Check, k: &Kernel, dims: &[i64]) {
    let mut random = Random(99);
    let memory = memory(k, dims, |_, dtype| random.element(dtype));
    check(k, dims, &memory, 1e-4);
    let memory = crate::memory(k, dims, |_, dtype| random.tame(dtype));
    check(k, dims, &memory, 1e-4);
}

/// Folds of every kind over one axis of a matrix: `along` 0 for columns, 1 for rows, 2 for both.
fn folds(dtype: DType, along: usize) -> Kernel {
    let mut body = Body::default();
    let x = load(&mut body, 0, dtype, &[i(0), i(1)]);
    let kinds = [
        FoldKind::Sum,
        FoldKind::Product,
        FoldKind::Min,
        FoldKind::Max,
        FoldKind::ArgMin { last: false },
        FoldKind::ArgMax { last: true },
        FoldKind::And,
        FoldKind::Or,
    ];
    let mut buffers = vec![buffer(dtype, &[s(0), s(1)], Role::In)];
    let (mut all, mut post, mut stores) = (Vec::new(), Body::default(), Vec::new());
    let truth = body.cast(DType::Bool, x);
    let out = match along {
        0 => vec![i(1)],
        1 => vec![i(0)],
        _ => vec![],
    };
    let dims = match along {
        0 => vec![s(1)],
        1 => vec![s(0)],
        _ => vec![],
    };
    // Arg folds keep a block of accumulators from being used; the first form goes without.
    for (n, kind) in
        kinds.into_iter().filter(|k| along != 0 || !matches!(k, FoldKind::ArgMin { .. } | FoldKind::ArgMax { .. })).enumerate()
    {
        let (value, result, acc) = match kind {
            FoldKind::And | FoldKind::Or => (truth, DType::Bool, DType::Bool),
            FoldKind::ArgMin { .. } | FoldKind::ArgMax { .. } => (x, DType::I64, dtype),
            _ => (x, dtype, dtype),
        };
        all.push(Fold { kind, value, dtype: acc });
        let v = post.param(n as u32, result);
        buffers.push(buffer(result, &dims, Role::Out));
        stores.push(store(n as u32 + 1, &out, v));
    }
    let (mut parallel, mut reduce) = (vec![], vec![]);
    if along == 1 { &mut parallel } else { &mut reduce }.push(axis(0, s(0)));
    if along == 0 {
        parallel.push(axis(1, s(1)))
    } else {
        reduce.push(axis(1, s(1)))
    }
    let l = Loop { parallel, reduce, body, folds: all, post, stores };
    kernel(&format!("folds {dtype} {along}"), buffers, 2, vec![], vec![item(l)])
}

/// See the name.
pub fn folds_agree_in_every_direction(check: Check) {
    for dtype in [DType::F32, DType::I32, DType::U8, DType::F16, DType::Bool] {
        for along in 0..3 {
            let k = folds(dtype, along);
            compare(check, &k, &[7, 300]);
            let memory = memory(&k, &[0, 5], |_, d| Scalar::zero(d));
            check(&k, &[0, 5], &memory, 0.0);
        }
    }
}

/// See the name.
pub fn rows_with_private_memory_and_a_sequence(check: Check) {
    // t = row exponentials; then a running sum over a sequence axis, of which the last is kept.
    let f = DType::F32;
    let buffers = vec![
        buffer(f, &[s(0), s(1)], Role::In),
        buffer(f, &[s(0), s(1)], Role::Out),
        buffer(f, &[s(1)], Role::Local),
        buffer(f, &[], Role::Local),
    ];
    let mut post = Body::default();
    let x = load(&mut post, 0, f, &[i(0), i(1)]);
    let x = post.unary(UnaryOp::Tanh, x);
    let first = Loop { parallel: vec![axis(1, s(1))], post, stores: vec![store(2, &[i(1)], x)], ..Loop::default() };
    let mut post = Body::default();
    let zero = post.float(f, 0.0);
    let clear = Loop { post, stores: vec![store(3, &[], zero)], ..Loop::default() };
    let mut post = Body::default();
    let x = load(&mut post, 2, f, &[i(2)]);
    let sum = load(&mut post, 3, f, &[]);
    let sum = post.binary(BinaryOp::Add, x, sum);
    let add = Loop { post, stores: vec![store(3, &[], sum), store(1, &[i(0), i(2)], sum)], ..Loop::default() };
    let scan = Item::Sequential { axis: axis(2, s(1)), body: vec![item(add)] };
    let k = kernel("scan", buffers, 3, vec![axis(0, s(0))], vec![item(first), item(clear), scan]);
    let mut random = Random(5);
    let memory = memory(&k, &[13, 37], |_, d| random.tame(d));
    check(&k, &[13, 37], &memory, 1e-4);
}

/// See the name.
pub fn sorts_are_stable_and_put_nan_last(check: Check) {
    for dtype in [DType::F32, DType::F16, DType::I64, DType::U64, DType::I8] {
        for descending in [false, true] {
            let buffers = vec![buffer(dtype, &[s(0), s(1)], Role::In), buffer(DType::I64, &[s(0), s(1)], Role::Out)];
            let mut key = Body::default();
            let value = load(&mut key, 0, dtype, &[i(0), i(1)]);
            let sort = Sort {
                parallel: vec![axis(0, s(0))],
                along: axis(1, s(1)),
                key,
                value,
                descending,
                order: BufferId(1),
                index: vec![i(0), i(1)],
            };
            let k = kernel("sort", buffers, 2, vec![], vec![Item::Step(Step::Sort(sort))]);
            compare(check, &k, &[3, 101]);
            compare(check, &k, &[2, 1]);
        }
    }
}

/// See the name.
pub fn compaction_counts_and_keeps_order(check: Check) {
    let buffers = vec![
        buffer(DType::F32, &[s(0), s(1)], Role::In),
        buffer(DType::I64, &[2.into(), s(0) * s(1)], Role::Out),
        buffer(DType::I64, &[], Role::Out),
    ];
    let mut body = Body::default();
    let x = load(&mut body, 0, DType::F32, &[i(0), i(1)]);
    let keep = body.cast(DType::Bool, x);
    let (row, column) = (body.index(i(0)), body.index(i(1)));
    let compact = Compact {
        axes: vec![axis(0, s(0)), axis(1, s(1))],
        body,
        keep,
        position: AxisId(2),
        stores: vec![store(1, &[0.into(), i(2)], row), store(1, &[1.into(), i(2)], column)],
        count: Some(BufferId(2)),
    };
    let k = kernel("nonzero", buffers, 3, vec![], vec![Item::Step(Step::Compact(compact))]);
    compare(check, &k, &[9, 11]);
    compare(check, &k, &[0, 11]);
}

/// `out[i, j] = x[index[i], j]`, the index checked.
fn gather(bounds: Bounds) -> Kernel {
    let buffers = vec![
        buffer(DType::F32, &[s(0), s(1)], Role::In),
        buffer(DType::I32, &[s(2)], Role::In),
        buffer(DType::F32, &[s(2), s(1)], Role::Out),
    ];
    let mut post = Body::default();
    let at = load(&mut post, 1, DType::I32, &[i(0)]);
    let at = post.cast(DType::I64, at);
    let x = load_with(&mut post, 0, DType::F32, vec![Index::Value(at), Index::Expr(i(1))], None, bounds);
    let l =
        Loop { parallel: vec![axis(0, s(2)), axis(1, s(1))], post, stores: vec![store(2, &[i(0), i(1)], x)], ..Loop::default() };
    kernel("gather", buffers, 2, vec![], vec![item(l)])
}

/// See the name.
pub fn an_index_outside_is_padding_or_a_fault(check: Check) {
    for bounds in [Bounds::Otherwise, Bounds::Fault] {
        let k = gather(bounds);
        let dims = [5, 70, 6];
        for worst in [4, 5, -1] {
            let mut at = 0;
            let memory = memory(&k, &dims, |argument, dtype| {
                at += 1;
                if argument == 1 {
                    Scalar::from_i64(if at % 3 == 0 { worst } else { 2 }).cast(dtype)
                } else {
                    Scalar::from_f64(at as f64).cast(dtype)
                }
            });
            check(&k, &dims, &memory, 0.0);
        }
    }
}

/// See the name.
pub fn windows_read_padding_and_guards_touch_nothing(check: Check) {
    // Mean of a 3-wide window with stride 2 and padding 1; and a guarded load of every other element.
    let f = DType::F32;
    let buffers =
        vec![buffer(f, &[s(0), s(1)], Role::In), buffer(f, &[s(0), s(2)], Role::Out), buffer(f, &[s(0), s(2)], Role::Out)];
    let mut body = Body::default();
    let x = load_with(&mut body, 0, f, vec![i(0).into(), (i(1) * 2 + i(2) - 1).into()], None, Bounds::Otherwise);
    let mut post = Body::default();
    let sum = post.param(0, f);
    let (at, limit) = (post.index(i(1) * 3), post.index(s(1)));
    let inside = post.binary(BinaryOp::Lt, at, limit);
    let y = load_with(&mut post, 0, f, vec![i(0).into(), (i(1) * 3).into()], Some(inside), Bounds::Inside);
    let l = Loop {
        parallel: vec![axis(0, s(0)), axis(1, s(2))],
        reduce: vec![axis(2, 3)],
        body,
        folds: vec![Fold { kind: FoldKind::Sum, value: x, dtype: f }],
        post,
        stores: vec![store(1, &[i(0), i(1)], sum), store(2, &[i(0), i(1)], y)],
    };
    let k = kernel("window", buffers, 3, vec![], vec![item(l)]);
    compare(check, &k, &[3, 41, 21]);
    compare(check, &k, &[2, 3, 2]);
}

/// See the name.
pub fn views_broadcasts_and_tiles(check: Check) {
    // out[i, j] = x[j, i] + bias[j] + panel[i, j] with a panel layout, over a flattened index.
    let f = DType::F32;
    let mut buffers = vec![
        buffer(f, &[s(1), s(0)], Role::In),
        buffer(f, &[s(1)], Role::In),
        buffer(f, &[s(0), s(1)], Role::In),
        buffer(f, &[s(0) * s(1)], Role::Out),
    ];
    buffers[2].layout = Layout { order: vec![1, 0], tiles: vec![Tile { dim: 1, size: 16 }] };
    let mut post = Body::default();
    let (row, column) = (i(0).floor_div(&s(1)), i(0).modulo(&s(1)));
    let x = load(&mut post, 0, f, &[column.clone(), row.clone()]);
    let b = load(&mut post, 1, f, std::slice::from_ref(&column));
    let p = load(&mut post, 2, f, &[row, column]);
    let sum = post.binary(BinaryOp::Add, x, b);
    let sum = post.binary(BinaryOp::Add, sum, p);
    let l = Loop { parallel: vec![axis(0, s(0) * s(1))], post, stores: vec![store(3, &[i(0)], sum)], ..Loop::default() };
    let k = kernel("views", buffers, 1, vec![], vec![item(l)]);
    compare(check, &k, &[7, 37]);
}

/// See the name.
pub fn elementwise_work_of_any_rank_is_cut_into_groups(check: Check) {
    let f = DType::F32;
    let dims = [s(0), s(1), 7.into(), 7.into()];
    let index = [i(0), i(1), i(2), i(3)];
    let buffers = vec![buffer(f, &dims, Role::In), buffer(f, &[s(1), 1.into(), 1.into()], Role::In), buffer(f, &dims, Role::Out)];
    let mut post = Body::default();
    let x = load(&mut post, 0, f, &index);
    let b = load(&mut post, 1, f, &[i(1), 0.into(), 0.into()]);
    let sum = post.binary(BinaryOp::Add, x, b);
    let zero = post.float(f, 0.0);
    let y = post.binary(BinaryOp::Max, sum, zero);
    let parallel = dims.iter().enumerate().map(|(n, d)| axis(n as u32, d.clone())).collect();
    let l = Loop { parallel, post, stores: vec![store(2, &index, y)], ..Loop::default() };
    let k = kernel("bias", buffers, 4, vec![], vec![item(l)]);
    compare(check, &k, &[3, 300]);
    compare(check, &k, &[1, 1]);
}
