//! Weights of a convolution that a group rearranges for itself: row-major ones as panels, panels of 16 bits as floats.

use oaaxc_emit::body::Emitter;
use oaaxc_emit::cast::stored;
use oaaxc_ir::expr::Expr;

use super::form::{Form, PANEL};
use super::pixels::Sizes;
use super::{Group, open_flattened, wide};

/// The group's panels of 16 bits as floats: those of the chunk's inputs, panel by panel.
#[allow(clippy::too_many_arguments, reason = "a step of `emit`, whose names these are")]
pub fn widen_weights(
    em: &mut Emitter,
    form: &Form,
    g: &Group,
    from: &str,
    channel_count: &str,
    (input0, inputs): (&str, &str),
    s: &Sizes,
    into: &str,
) {
    let (zero, one, panel) = (em.w.int(0), em.w.int(1), em.w.int(PANEL));
    let panels = g.ceil_div(em, channel_count, PANEL);
    let (window, channels) = (em.w.int(s.window), em.w.int(s.channels));
    let count = em.w.int_op("muli", inputs, &panel);
    let p = em.w.open(&zero, &panels, &one);
    let taps = em.w.int_op("muli", &p.counter, &window);
    let t = em.w.open(&zero, &window, &one);
    let tap = em.w.int_op("addi", &taps, &t.counter);
    let there = em.w.int_op("muli", &tap, &channels);
    let there = em.w.int_op("addi", &there, input0);
    let there = em.w.int_op("muli", &there, &panel);
    let here = em.w.int_op("muli", &tap, &count);
    let (from, into) = (em.w.element(from, &there, stored(form.b_type)), em.w.element(into, &here, "f32"));
    wide::copy(&mut em.w, form.b_type, g.machine.lanes, &from, &into, &count);
    em.w.close(t);
    em.w.close(p);
}

/// Packs row-major weights of the group's channels and the chunk's inputs as panels; missing channels are zero.
pub fn pack_weights(
    em: &mut Emitter,
    form: &Form,
    offset: &Expr,
    (channel0, channel_count): (&str, &str),
    (input0, inputs): (&str, &str),
    s: &Sizes,
    into: &str,
) {
    let (zero, one, panel) = (em.w.int(0), em.w.int(1), em.w.int(PANEL));
    let block = em.w.int(s.block);
    let pointer = em.pointers[form.b_buffer.0 as usize].clone();
    let o = em.w.open(&zero, &block, &one);
    let channel = em.w.int_op("addi", channel0, &o.counter);
    em.scope.bind(form.n.axis, &channel);
    let exists = em.w.op(format_args!("arith.cmpi slt, {}, {channel_count} : i64", o.counter));
    let (number, inside) = (em.w.int_op("divui", &o.counter, &panel), em.w.int_op("remui", &o.counter, &panel));
    let (channels, window) = form.k.split_last().expect("there is a K axis");
    let (opened, row) = open_flattened(em, window);
    let c = em.w.open(&zero, inputs, &one);
    let input = em.w.int_op("addi", input0, &c.counter);
    em.scope.bind(channels.axis, &input);
    let row = em.w.int_op("muli", &row, inputs);
    let row = em.w.int_op("addi", &row, &c.counter);
    let rows = em.w.int(s.window);
    let rows = em.w.int_op("muli", inputs, &rows);
    let skip = em.w.int_op("muli", &number, &rows);
    let at = em.w.int_op("addi", &skip, &row);
    let at = em.w.int_op("muli", &at, &panel);
    let at = em.w.int_op("addi", &at, &inside);
    let to = em.w.element(into, &at, "f32");
    // A channel that does not exist reads the first weight and drops it: no branch.
    let from = em.expr(offset);
    let from = em.w.op(format_args!("arith.select {exists}, {from}, {zero} : i64"));
    let from = em.w.element(&pointer, &from, stored(form.b_type));
    let x = wide::scalar(&mut em.w, form.b_type, &from);
    let nothing = em.w.constant("0.0 : f32");
    let x = em.w.op(format_args!("arith.select {exists}, {x}, {nothing} : f32"));
    em.w.line(format_args!("llvm.store {x}, {to} : f32, !llvm.ptr"));
    em.w.close(c);
    for l in opened.into_iter().rev() {
        em.w.close(l);
    }
    em.w.close(o);
}
