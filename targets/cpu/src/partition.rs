//! Groups: the range [begin, end) of a launch as iterations over outer axes.
//!
//! The flattened position of the first iteration is taken apart by division once; from there the axes
//! count up like an odometer.

use oaaxc_emit::body::Emitter;
use oaaxc_ir::Expr;
use oaaxc_ir::kernel::LoopAxis;

/// How many groups there are.
pub fn groups(axes: &[LoopAxis], grain: &Expr) -> Expr {
    if axes.is_empty() { 1.into() } else { total(axes).ceil_div(grain) }
}

fn total(axes: &[LoopAxis]) -> Expr {
    axes.iter().fold(Expr::constant(1), |v, a| v * a.extent.clone())
}

/// Emits `inside` for each iteration of the groups `%begin` to `%end`, with the axes bound.
pub fn over(em: &mut Emitter, axes: &[LoopAxis], grain: &Expr, inside: &mut dyn FnMut(&mut Emitter)) {
    if axes.is_empty() {
        return inside(em);
    }
    let grain = em.expr(grain);
    let all = em.expr(&total(axes));
    let low = em.w.int_op("muli", "%begin", &grain);
    let high = em.w.int_op("muli", "%end", &grain);
    let high = em.w.int_op("minsi", &high, &all);
    let (zero, one) = (em.w.int(0), em.w.int(1));
    let extents: Vec<String> = axes.iter().map(|a| em.expr(&a.extent)).collect();
    let mut first = vec![low.clone(); axes.len()];
    let mut rest = low.clone();
    for at in (1..axes.len()).rev() {
        let extent = em.w.int_op("maxsi", &extents[at], &one);
        first[at] = em.w.int_op("remui", &rest, &extent);
        rest = em.w.int_op("divui", &rest, &extent);
    }
    first[0] = rest;
    let (head, body, exit) = (em.w.label(), em.w.label(), em.w.label());
    let counter = em.w.name();
    let names: Vec<String> = axes.iter().map(|_| em.w.name()).collect();
    let types = vec!["i64"; axes.len() + 1].join(", ");
    em.w.line(format_args!("cf.br {head}({low}, {} : {types})", first.join(", ")));
    let arguments: Vec<String> = std::iter::once(&counter).chain(&names).map(|n| format!("{n}: i64")).collect();
    em.w.block(&head, &arguments.join(", "));
    let more = em.w.op(format_args!("arith.cmpi slt, {counter}, {high} : i64"));
    em.w.branch(&more, &body, &exit);
    em.w.block(&body, "");
    for (axis, name) in axes.iter().zip(&names) {
        em.scope.bind(axis.axis, name);
    }
    inside(em);
    let next_counter = em.w.op(format_args!("arith.addi {counter}, {one} overflow<nsw> : i64"));
    let mut next = vec![String::new(); axes.len()];
    let mut carry = one.clone();
    for at in (0..axes.len()).rev() {
        let sum = em.w.op(format_args!("arith.addi {}, {carry} overflow<nsw> : i64", names[at]));
        if at == 0 {
            next[at] = sum;
            break;
        }
        let wraps = em.w.op(format_args!("arith.cmpi sge, {sum}, {} : i64", extents[at]));
        next[at] = em.w.op(format_args!("arith.select {wraps}, {zero}, {sum} : i64"));
        carry = em.w.op(format_args!("arith.extui {wraps} : i1 to i64"));
    }
    em.w.line(format_args!("cf.br {head}({next_counter}, {} : {types})", next.join(", ")));
    em.w.block(&exit, "");
}
