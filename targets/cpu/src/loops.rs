//! Loop steps as scalar loops that LLVM vectorises: the innermost loop walks memory by ones.
//!
//! A fold whose parallel axis walks memory while its reduce axis does not is turned inside out: a block
//! of accumulators lies on the stack and the parallel axis is the innermost loop. The order in which each
//! point's values are joined stays the interpreter's either way.

use oaaxc_emit::access::Code;
use oaaxc_emit::body::Emitter;
use oaaxc_emit::cast::{Value, carried, value};
use oaaxc_emit::nest::Nest;
use oaaxc_ir::DType;
use oaaxc_ir::kernel::Bounds;

use crate::folds::{self, Key};

/// Points whose accumulators lie on the stack at once.
const BLOCK: i64 = 256;

/// A whole nest, all of its axes inside.
pub fn nest(em: &mut Emitter, nest: &Nest) {
    let Some((last, outer)) = nest.parallel.split_last() else {
        return point(em, nest);
    };
    let loops = em.open(outer);
    let zero = em.w.int(0);
    let high = em.expr(&last.extent);
    inner(em, nest, &zero, &high);
    em.close(loops);
}

/// The innermost parallel axis of a nest from `low` to `high`; the outer ones are bound.
pub fn inner(em: &mut Emitter, nest: &Nest, low: &str, high: &str) {
    let last = nest.parallel.last().expect("the caller saw a last axis");
    if is_turned(nest) {
        return turned(em, nest, low, high);
    }
    let one = em.w.int(1);
    let l = em.w.open(low, high, &one);
    em.scope.bind(last.axis, &l.counter);
    point(em, nest);
    em.w.close(l);
}

/// Whether a block of accumulators is better than one: the parallel axis walks memory, and the reduce axis
/// does not, or is a small window that is over before a vector would be full.
fn is_turned(nest: &Nest) -> bool {
    let (Some(last), Some(reduce)) = (nest.parallel.last(), nest.reduce.last()) else { return false };
    let wide = last.extent.as_const().is_none_or(|n| n >= 4);
    let own_extent = !nest.reduce.iter().any(|r| r.extent.uses_axis(last.axis));
    let no_keys = !nest.folds.iter().any(folds::is_arg);
    let walks = nest.walks_by_one(last.axis) && !nest.walks_by_one(reduce.axis);
    wide && own_extent && no_keys && (walks || is_window(nest, last.axis))
}

/// Whether few points are folded and the parallel axis advances every load by 0, 1 or 2 elements.
fn is_window(nest: &Nest, axis: oaaxc_ir::AxisId) -> bool {
    let points = nest.reduce.iter().try_fold(1i64, |p, r| Some(p.saturating_mul(r.extent.as_const()?)));
    let stride = |a: &oaaxc_emit::access::Access| a.offset.axis_stride(axis).and_then(|s| s.as_const());
    points.is_some_and(|p| p <= 128)
        && nest.body.accesses.iter().flatten().all(|a| stride(a).is_some_and(|s| (0..=2).contains(&s)))
        && nest.body.accesses.iter().flatten().any(|a| stride(a) != Some(0))
}

/// Where in `low..high` of an axis no padded load of the code leaves its buffer, and the code without those
/// checks. `None` where there is nothing to check, or a check is not affine in the axis.
fn inside(em: &mut Emitter, code: &Code, axis: oaaxc_ir::AxisId, low: &str, high: &str) -> Option<(String, String, Code)> {
    let padded = |a: &&mut oaaxc_emit::access::Access| a.bounds == Bounds::Otherwise && !a.checks.is_empty();
    let mut trimmed = code.clone();
    let mut checks = Vec::new();
    for access in trimmed.accesses.iter_mut().flatten().filter(padded) {
        checks.append(&mut access.checks);
    }
    let strides: Vec<i64> =
        checks.iter().map(|c| c.index.axis_stride(axis)?.as_const().filter(|s| *s >= 0)).collect::<Option<_>>()?;
    // What depends on a computed index is not known before the loop.
    if checks.is_empty() || !code.computed.is_empty() || checks.iter().any(|c| c.size.uses_axis(axis)) {
        return None;
    }
    let zero = em.w.int(0);
    em.scope.bind(axis, &zero);
    let (mut from, mut to) = (low.to_string(), high.to_string());
    for (check, stride) in checks.iter().zip(strides) {
        let (at, size) = (em.expr(&check.index), em.expr(&check.size));
        if stride == 0 {
            let holds = em.w.op(format_args!("arith.cmpi ult, {at}, {size} : i64"));
            to = em.w.op(format_args!("arith.select {holds}, {to}, {low} : i64"));
            continue;
        }
        let (step, more) = (em.w.int(stride), em.w.int(stride - 1));
        let edge = |em: &mut Emitter, a: &str, b: &str| {
            let gap = em.w.int_op("subi", a, b);
            let gap = em.w.int_op("maxsi", &gap, &zero);
            let gap = em.w.int_op("addi", &gap, &more);
            em.w.int_op("divui", &gap, &step)
        };
        let (first, end) = (edge(em, &zero, &at), edge(em, &size, &at));
        from = em.w.int_op("maxsi", &from, &first);
        to = em.w.int_op("minsi", &to, &end);
    }
    let from = em.w.int_op("minsi", &from, high);
    let to = em.w.int_op("maxsi", &to, &from);
    Some((from, to, trimmed))
}

/// One point of the parallel axes.
fn point(em: &mut Emitter, nest: &Nest) {
    let params = fold(em, nest);
    let values = em.code(&nest.post, &params);
    em.puts(&nest.puts, &values);
}

fn load(em: &mut Emitter, slot: &str, dtype: DType) -> Value {
    let name = em.w.op(format_args!("llvm.load {slot} : !llvm.ptr -> {}", carried(dtype)));
    value(dtype, name)
}

fn store(em: &mut Emitter, slot: &str, v: &Value) {
    em.w.line(format_args!("llvm.store {}, {slot} : {}, !llvm.ptr", v.name, carried(v.dtype)));
}

fn fold(em: &mut Emitter, nest: &Nest) -> Vec<Value> {
    if nest.folds.is_empty() {
        return Vec::new();
    }
    let slots: Vec<String> = nest.folds.iter().map(|f| em.w.slot(carried(folds::accumulator(f)), 1)).collect();
    let keys: Vec<Option<Key>> =
        nest.folds.iter().map(|f| folds::is_arg(f).then(|| Key::new(em, folded_dtype(nest, f)))).collect();
    for ((fold, slot), key) in nest.folds.iter().zip(&slots).zip(&keys) {
        let neutral = folds::start(em, fold);
        store(em, slot, &neutral);
        if let Some(key) = key {
            key.reset(em);
        }
    }
    let position = keys.iter().any(Option::is_some).then(|| em.w.slot("i64", 1));
    let zero = em.w.int(0);
    if let Some(position) = &position {
        em.w.line(format_args!("llvm.store {zero}, {position} : i64, !llvm.ptr"));
    }
    let loops = em.open(&nest.reduce);
    let values = em.code(&nest.body, &[]);
    let here = position.as_ref().map(|p| load(em, p, DType::I64).name);
    for ((fold, slot), key) in nest.folds.iter().zip(&slots).zip(&keys) {
        let acc = load(em, slot, folds::accumulator(fold));
        let v = &values[fold.value.0 as usize];
        let next = match (key, &here) {
            (Some(key), Some(here)) => value(DType::I64, key.compare(em, fold.kind, v, here, &acc.name)),
            _ => folds::join(em, fold, &acc, v),
        };
        store(em, slot, &next);
    }
    if let (Some(position), Some(here)) = (&position, &here) {
        let one = em.w.int(1);
        let next = em.w.int_op("addi", here, &one);
        store(em, position, &value(DType::I64, next));
    }
    em.close(loops);
    nest.folds.iter().zip(&slots).map(|(f, slot)| load(em, slot, folds::accumulator(f))).collect()
}

/// The type of the value that a fold looks at.
fn folded_dtype(nest: &Nest, fold: &oaaxc_ir::kernel::Fold) -> DType {
    oaaxc_ir::kernel::Body { ops: nest.body.ops.clone() }.dtype(fold.value)
}

/// Blocks of points: all accumulators start, every reduce iteration passes over the block, then `post`.
fn turned(em: &mut Emitter, nest: &Nest, low: &str, high: &str) {
    let last = nest.parallel.last().expect("the caller saw a last axis").clone();
    let block = last.extent.as_const().map_or(BLOCK, |n| n.min(BLOCK));
    let types: Vec<DType> = nest
        .folds
        .iter()
        .map(|f| match folds::accumulator(f) {
            // A stack element of a bool is a byte.
            DType::Bool => DType::U8,
            dtype => dtype,
        })
        .collect();
    let arrays: Vec<String> = types.iter().map(|t| em.w.slot(carried(*t), block)).collect();
    let (zero, one, size) = (em.w.int(0), em.w.int(1), em.w.int(block));
    let blocks = em.w.open(low, high, &size);
    let left = em.w.int_op("subi", high, &blocks.counter);
    let count = em.w.int_op("minsi", &left, &size);
    let start = |em: &mut Emitter| {
        let l = em.w.open(&zero, &count, &one);
        let at = em.w.int_op("addi", &blocks.counter, &l.counter);
        em.scope.bind(last.axis, &at);
        l
    };
    let get = |em: &mut Emitter, i: usize, at: &str| -> Value {
        let address = em.w.element(&arrays[i], at, carried(types[i]));
        let v = load(em, &address, types[i]);
        oaaxc_emit::cast::cast(&mut em.w, folds::accumulator(&nest.folds[i]), &v)
    };
    let set = |em: &mut Emitter, i: usize, at: &str, v: &Value| {
        let address = em.w.element(&arrays[i], at, carried(types[i]));
        let v = oaaxc_emit::cast::cast(&mut em.w, types[i], v);
        store(em, &address, &v);
    };
    let l = start(em);
    for (i, fold) in nest.folds.iter().enumerate() {
        let neutral = folds::start(em, fold);
        set(em, i, &l.counter, &neutral);
    }
    em.w.close(l);
    let loops = em.open(&nest.reduce);
    let end = em.w.int_op("addi", &blocks.counter, &count);
    let begin = blocks.counter.clone();
    let parts = match inside(em, &nest.body, last.axis, &begin, &end) {
        None => vec![(begin.clone(), end, nest.body.clone())],
        Some((from, to, trimmed)) => {
            vec![(begin.clone(), from.clone(), nest.body.clone()), (from, to.clone(), trimmed), (to, end, nest.body.clone())]
        }
    };
    for (from, to, code) in parts {
        let l = em.w.open(&from, &to, &one);
        em.scope.bind(last.axis, &l.counter);
        let values = em.code(&code, &[]);
        let at = em.w.int_op("subi", &l.counter, &begin);
        for (i, fold) in nest.folds.iter().enumerate() {
            let acc = get(em, i, &at);
            let next = folds::join(em, fold, &acc, &values[fold.value.0 as usize]);
            set(em, i, &at, &next);
        }
        em.w.close(l);
    }
    em.close(loops);
    let l = start(em);
    let params: Vec<Value> = (0..nest.folds.len()).map(|i| get(em, i, &l.counter)).collect();
    let values = em.code(&nest.post, &params);
    em.puts(&nest.puts, &values);
    em.w.close(l);
    em.w.close(blocks);
}
