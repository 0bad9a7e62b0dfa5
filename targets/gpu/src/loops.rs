//! Loop steps: a point for a thread, or a point for a group whose threads share the reduction.

use oaaxc_emit::body::Emitter;
use oaaxc_emit::cast::{Value, carried, value};
use oaaxc_emit::folds;
use oaaxc_emit::nest::Nest;
use oaaxc_ir::DType;

use crate::group::{self, Group, bind, total};
use crate::reduce::{self, State};
use crate::schedule::{self, Owner};

/// A whole nest inside a group, all of its axes inside; ends without a barrier.
pub(crate) fn nest(g: &mut Group, em: &mut Emitter, nest: &Nest) {
    match schedule::owner(nest, g.threads) {
        Owner::Thread => {
            let (free, rest) = schedule::split_free(&nest.parallel);
            let count = em.expr(&total(free));
            let l = g.strided(em, &count);
            bind(em, free, &l.counter);
            let inner = em.open(rest);
            point(em, nest);
            em.close(inner);
            em.w.close(l);
        }
        Owner::Group => {
            let loops = em.open(&nest.parallel);
            shared_point(g, em, nest);
            em.close(loops);
        }
    }
}

/// One point, by the calling thread.
pub(crate) fn point(em: &mut Emitter, nest: &Nest) {
    let params = if nest.folds.is_empty() {
        Vec::new()
    } else {
        let states = reduce::start(em, nest);
        let position = nest.folds.iter().any(folds::is_arg).then(|| em.w.slot("i64", 1));
        if let Some(position) = &position {
            let zero = em.w.int(0);
            set(em, position, &value(DType::I64, zero));
        }
        let loops = em.open(&nest.reduce);
        let here = position.as_ref().map_or(String::new(), |p| get(em, p, DType::I64).name);
        step(em, nest, &states, &here);
        if let Some(position) = &position {
            let one = em.w.int(1);
            let next = em.w.int_op("addi", &here, &one);
            set(em, position, &value(DType::I64, next));
        }
        em.close(loops);
        reduce::results(em, nest, &states)
    };
    finish(em, nest, &params);
}

/// One point, by all threads of the group alike; the first thread finishes it.
pub(crate) fn shared_point(g: &mut Group, em: &mut Emitter, nest: &Nest) {
    let states = reduce::start(em, nest);
    let count = em.expr(&total(&nest.reduce));
    let l = g.strided(em, &count);
    group::bind(em, &nest.reduce, &l.counter);
    let here = l.counter.clone();
    step(em, nest, &states, &here);
    em.w.close(l);
    reduce::share(g, em, nest, &states);
    let all = g.first_thread(em);
    let params = reduce::results(em, nest, &states);
    finish(em, nest, &params);
    g.all_threads(em, &all);
}

/// One element of the reduction at this row-major position.
fn step(em: &mut Emitter, nest: &Nest, states: &[State], here: &str) {
    let values = em.code(&nest.body, &[]);
    for (fold, state) in nest.folds.iter().zip(states) {
        reduce::add(em, fold, state, &values[fold.value.0 as usize], here);
    }
}

fn finish(em: &mut Emitter, nest: &Nest, params: &[Value]) {
    let values = em.code(&nest.post, params);
    em.puts(&nest.puts, &values);
}

/// Reads a stack slot.
pub(crate) fn get(em: &mut Emitter, slot: &str, dtype: DType) -> Value {
    let space = em.w.private;
    let name = em.w.op(format_args!("llvm.load {slot} : {space} -> {}", carried(dtype)));
    value(dtype, name)
}

/// Writes a stack slot.
pub(crate) fn set(em: &mut Emitter, slot: &str, v: &Value) {
    let space = em.w.private;
    em.w.line(format_args!("llvm.store {}, {slot} : {}, {space}", v.name, carried(v.dtype)));
}
