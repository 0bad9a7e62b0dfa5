//! Folds of a thread, and how a group joins them through shared memory.
//!
//! Joining is two rounds over the square root of the group: the first threads join a column each, then
//! every thread joins the columns. The order is fixed, so results do not depend on timing.

use oaaxc_emit::body::Emitter;
use oaaxc_emit::cast::{Value, cast, constant, stored, value};
use oaaxc_emit::folds::{self, accumulator, is_arg};
use oaaxc_emit::nest::Nest;
use oaaxc_ir::kernel::{Body, Fold};
use oaaxc_ir::{DType, Scalar};

use crate::device::SHARED;
use crate::group::Group;
use crate::loops::{get, set};

/// A fold as it grows: stack slots, which become registers.
#[derive(Debug)]
pub(crate) struct State {
    /// The accumulator; of an arg fold the best position, or -1.
    slot: String,
    dtype: DType,
    /// The best key of an arg fold, and its type.
    key: Option<(String, DType)>,
}

/// Neutral states of a nest's folds.
pub(crate) fn start(em: &mut Emitter, nest: &Nest) -> Vec<State> {
    let body = Body { ops: nest.body.ops.clone() };
    let one = |fold: &Fold| {
        let dtype = accumulator(fold);
        let slot = em.w.slot(oaaxc_emit::cast::carried(dtype), 1);
        if !is_arg(fold) {
            let neutral = folds::start(em, fold);
            set(em, &slot, &neutral);
            return State { slot, dtype, key: None };
        }
        let key_type = body.dtype(fold.value);
        let key = em.w.slot(oaaxc_emit::cast::carried(key_type), 1);
        let none = em.w.int(-1);
        set(em, &slot, &value(DType::I64, none));
        let zero = constant(&mut em.w, Scalar::zero(key_type));
        set(em, &key, &zero);
        State { slot, dtype, key: Some((key, key_type)) }
    };
    nest.folds.iter().map(one).collect()
}

/// One more element, at a position behind all before it.
pub(crate) fn add(em: &mut Emitter, fold: &Fold, state: &State, v: &Value, here: &str) {
    let acc = get(em, &state.slot, state.dtype);
    let Some((key, key_type)) = &state.key else {
        let joined = folds::join(em, fold, &acc, v);
        return set(em, &state.slot, &joined);
    };
    let best = get(em, key, *key_type);
    let wins = folds::takes_place(&mut em.w, fold.kind, v, &best);
    keep(em, state, (v, here), (&best, &acc.name), &wins);
}

/// Keeps the first key where it wins or there is none yet.
fn keep(em: &mut Emitter, state: &State, (v, here): (&Value, &str), (best, at): (&Value, &str), wins: &str) {
    let (key, key_type) = state.key.as_ref().expect("arg folds have keys");
    let zero = em.w.int(0);
    let none = em.w.op(format_args!("arith.cmpi slt, {at}, {zero} : i64"));
    let wins = em.w.op(format_args!("arith.ori {wins}, {none} : i1"));
    let ty = oaaxc_emit::cast::carried(*key_type);
    let kept = em.w.op(format_args!("arith.select {wins}, {}, {} : {ty}", v.name, best.name));
    let position = em.w.op(format_args!("arith.select {wins}, {here}, {at} : i64"));
    set(em, key, &value(*key_type, kept));
    set(em, &state.slot, &value(DType::I64, position));
}

/// The folds' values; an arg fold of nothing is 0.
pub(crate) fn results(em: &mut Emitter, nest: &Nest, states: &[State]) -> Vec<Value> {
    let one = |(_, state): (&Fold, &State)| {
        let v = get(em, &state.slot, state.dtype);
        if state.key.is_none() {
            return v;
        }
        let zero = em.w.int(0);
        let name = em.w.int_op("maxsi", &v.name, &zero);
        value(DType::I64, name)
    };
    nest.folds.iter().zip(states).map(one).collect()
}

/// Shared memory of one state: where its values and keys lie.
struct Place {
    values: String,
    keys: Option<String>,
}

/// Joins the states of all threads; each has the result. All threads must come here.
pub(crate) fn share(g: &mut Group, em: &mut Emitter, nest: &Nest, states: &[State]) {
    let root = (g.threads as f64).sqrt() as i64;
    let first = places(g, em, states, 0, g.threads);
    let second = places(g, em, states, size(states) * g.threads, root);
    for (state, place) in states.iter().zip(&first) {
        let (v, key) = current(em, state);
        put(em, place, state, "%thread", &v, key.as_ref());
    }
    g.barrier(em);
    let root_value = em.w.int(root);
    let some = em.w.op(format_args!("arith.cmpi slt, %thread, {root_value} : i64"));
    let (inside, after) = (em.w.label(), em.w.label());
    em.w.branch(&some, &inside, &after);
    em.w.block(&inside, "");
    join_row(em, nest, states, &first, "%thread", root, root);
    for (state, place) in states.iter().zip(&second) {
        let (v, key) = current(em, state);
        put(em, place, state, "%thread", &v, key.as_ref());
    }
    em.w.jump(&after);
    em.w.block(&after, "");
    g.barrier(em);
    let zero = em.w.int(0);
    join_row(em, nest, states, &second, &zero, 1, root);
}

/// Sets the states to the join of `count` places from `at` on, `step` apart.
fn join_row(em: &mut Emitter, nest: &Nest, states: &[State], places: &[Place], at: &str, step: i64, count: i64) {
    let reload = |em: &mut Emitter, at: &str, first: bool| {
        for ((fold, state), place) in nest.folds.iter().zip(states).zip(places) {
            let (v, key) = take(em, place, state, at);
            let Some(key) = key else {
                let joined = if first {
                    v
                } else {
                    let acc = get(em, &state.slot, state.dtype);
                    folds::join(em, &Fold { dtype: state.dtype, ..fold.clone() }, &acc, &v)
                };
                set(em, &state.slot, &joined);
                continue;
            };
            if first {
                set(em, &state.slot, &v);
                set(em, &state.key.as_ref().expect("arg folds have keys").0, &key);
                continue;
            }
            let (acc, best) = current(em, state);
            let best = best.expect("arg folds have keys");
            let wins = folds::beats(&mut em.w, fold.kind, (&key, &v.name), (&best, &acc.name));
            // A thread without elements has no key to win with.
            let zero = em.w.int(0);
            let is_there = em.w.op(format_args!("arith.cmpi sge, {}, {zero} : i64", v.name));
            let wins = em.w.op(format_args!("arith.andi {wins}, {is_there} : i1"));
            keep(em, state, (&key, &v.name), (&best, &acc.name), &wins);
        }
    };
    reload(em, at, true);
    let (one, high, by) = (em.w.int(1), em.w.int(count), em.w.int(step));
    let l = em.w.open(&one, &high, &one);
    let far = em.w.int_op("muli", &l.counter, &by);
    let there = em.w.int_op("addi", at, &far);
    reload(em, &there, false);
    em.w.close(l);
}

fn current(em: &mut Emitter, state: &State) -> (Value, Option<Value>) {
    let v = get(em, &state.slot, state.dtype);
    let key = state.key.as_ref().map(|(slot, dtype)| get(em, slot, *dtype));
    (v, key)
}

/// Bytes of all states of one thread.
fn size(states: &[State]) -> i64 {
    states.iter().map(|s| width(s.dtype) + s.key.as_ref().map_or(0, |k| width(k.1))).sum()
}

/// Eight bytes keep everything aligned; only small groups share.
fn width(dtype: DType) -> i64 {
    dtype.size().max(4) as i64
}

fn places(g: &mut Group, em: &mut Emitter, states: &[State], start: i64, count: i64) -> Vec<Place> {
    let mut at = start;
    let mut next = |g: &mut Group, em: &mut Emitter, dtype: DType| {
        // Wide elements first would save the padding; there is enough.
        at = (at + 7) / 8 * 8;
        let here = at;
        at += width(dtype) * count;
        g.borrow_shared(em, here, at + 64)
    };
    states.iter().map(|s| Place { values: next(g, em, s.dtype), keys: s.key.as_ref().map(|k| next(g, em, k.1)) }).collect()
}

fn address(em: &mut Emitter, base: &str, dtype: DType, at: &str) -> String {
    // Small elements stand four bytes apart.
    if width(dtype) == dtype.size() as i64 {
        return em.w.element_in(SHARED, base, at, stored(dtype));
    }
    em.w.element_in(SHARED, base, at, "i32")
}

fn put(em: &mut Emitter, place: &Place, state: &State, at: &str, v: &Value, key: Option<&Value>) {
    let to = address(em, &place.values, state.dtype, at);
    em.store_in(SHARED, &to, v);
    if let (Some(keys), Some(key)) = (&place.keys, key) {
        let to = address(em, keys, key.dtype, at);
        em.store_in(SHARED, &to, key);
    }
}

fn take(em: &mut Emitter, place: &Place, state: &State, at: &str) -> (Value, Option<Value>) {
    let from = address(em, &place.values, state.dtype, at);
    let v = em.load_in(SHARED, &from, state.dtype);
    let v = cast(&mut em.w, state.dtype, &v);
    let key = place.keys.as_ref().zip(state.key.as_ref()).map(|(keys, (_, dtype))| {
        let from = address(em, keys, *dtype, at);
        em.load_in(SHARED, &from, *dtype)
    });
    (v, key)
}
