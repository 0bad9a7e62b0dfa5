//! Sequences whose lengths are known when the model is built: lists of tensors, no memory of their own.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::expr::Expr;
use oaaxc_ir::lower::{Arg, LowerCx};
use oaaxc_ir::program::Instr;
use oaaxc_ir::{ReadAttributes, ReadOperands};

use crate::tensor::concat::lower_joined;

type Result<T> = std::result::Result<T, Diagnostic>;

pub(super) fn refuse(cx: &mut LowerCx) -> Result<()> {
    Err(cx.fail(Code::UNSUPPORTED, "sequences are evaluated, not compiled yet"))
}

pub(super) fn construct(cx: &mut LowerCx) -> Result<()> {
    let all = (0..cx.input_count()).map(|i| cx.arg(i)).collect::<Result<Vec<_>>>()?;
    cx.set_sequence(0, all);
    Ok(())
}

pub(super) fn empty(cx: &mut LowerCx) -> Result<()> {
    cx.set_sequence(0, Vec::new());
    Ok(())
}

/// The position that an operand names among `count`; the default where it is left out.
fn place(cx: &LowerCx, index: usize, count: usize, default: Option<usize>) -> Result<usize> {
    if !cx.has_input(index) {
        return default.ok_or_else(|| cx.fail(Code::VALUE, "the sequence is empty"));
    }
    let Some([given]) = cx.known_ints(index).as_deref().and_then(|k| <[i64; 1]>::try_from(k).ok()) else {
        let message = "positions that are known only at run time are evaluated, not compiled yet";
        return Err(cx.fail(Code::UNSUPPORTED, message));
    };
    let at = if given < 0 { given.saturating_add(count as i64) } else { given };
    usize::try_from(at)
        .ok()
        .filter(|at| *at < count || default == Some(*at))
        .ok_or_else(|| cx.fail(Code::VALUE, format!("position {given} is outside a sequence of {count} elements")))
}

pub(super) fn at(cx: &mut LowerCx) -> Result<()> {
    let all = cx.sequence(0)?;
    let element = all[place(cx, 1, all.len(), None)?].clone();
    define_dims(cx, &element.dims)?;
    cx.alias(0, &element)
}

/// Gives the first result's own sizes these values.
fn define_dims(cx: &mut LowerCx, dims: &[Expr]) -> Result<()> {
    let own = cx.output_type(0).and_then(|t| t.as_tensor()).and_then(|t| t.shape.clone());
    let own = own.ok_or_else(|| cx.fail(Code::RANK, "the rank of the sequence's elements is not known"))?;
    for (own, given) in own.iter().zip(dims).filter(|(own, given)| own != given) {
        cx.define(own, given.clone())?;
    }
    Ok(())
}

pub(super) fn insert(cx: &mut LowerCx) -> Result<()> {
    let mut all = cx.sequence(0)?;
    let at = place(cx, 2, all.len(), Some(all.len()))?;
    all.insert(at, cx.arg(1)?);
    cx.set_sequence(0, all);
    Ok(())
}

pub(super) fn erase(cx: &mut LowerCx) -> Result<()> {
    let mut all = cx.sequence(0)?;
    let last = if cx.has_input(1) { None } else { all.len().checked_sub(1) };
    all.remove(place(cx, 1, all.len(), last)?);
    cx.set_sequence(0, all);
    Ok(())
}

pub(super) fn length(cx: &mut LowerCx) -> Result<()> {
    let count = cx.sequence(0)?.len();
    let to = cx.result(0)?;
    cx.emit(Instr::Write { slot: to.slot, values: vec![count.into()] });
    Ok(())
}

pub(super) fn join(cx: &mut LowerCx) -> Result<()> {
    let mut all = cx.sequence(0)?;
    let Some(first) = all.first().cloned() else { return Err(cx.fail(Code::VALUE, "the sequence holds no tensor")) };
    let new = cx.flag("new_axis", false)?;
    let rank = first.dims.len() + usize::from(new);
    let axis = oaaxc_ir::attributes::normalize_axis(cx.node, cx.required_int("axis")?, rank)?;
    if new {
        // Each element as a view with one more dim.
        let mut views = Vec::new();
        for element in &all {
            let mut dims = element.dims.clone();
            dims.insert(axis, 1.into());
            let view = cx.view(element.dtype, dims);
            cx.emit(Instr::Alias { to: view.slot, from: element.slot });
            views.push(view);
        }
        all = views;
    }
    let mut dims = all[0].dims.clone();
    for other in &all[1..] {
        for (d, (size, more)) in dims.iter_mut().zip(&other.dims).enumerate() {
            if d == axis {
                *size = &*size + more;
            } else if size != more {
                let (a, b) = (size.clone(), more.clone());
                cx.check(a.equal(&b), "ConcatFromSequence: the elements' other sizes differ".to_string());
            }
        }
    }
    define_dims(cx, &dims)?;
    let to = cx.result(0)?;
    lower_joined(cx, &all, &to, axis)
}

pub(super) fn split(cx: &mut LowerCx) -> Result<()> {
    let x = cx.arg(0)?;
    let axis = cx.axis("axis", 0, x.dims.len())?;
    let open = "parts whose number is known only at run time are evaluated, not compiled yet";
    let whole = x.dims[axis].as_const();
    let keep = cx.has_input(1) || cx.flag("keepdims", true)?;
    let parts: Vec<i64> = match (cx.has_input(1), cx.known_ints(1), whole) {
        (false, _, Some(size)) if size <= 4096 => vec![1; usize::try_from(size).unwrap_or(0)],
        (true, Some(parts), Some(size)) if cx.rank(1)? == 0 => {
            let part = parts.first().copied().filter(|p| *p > 0);
            let part = part.ok_or_else(|| cx.fail(Code::VALUE, "the size of the parts must be positive"))?;
            if size / part > 4096 {
                return Err(cx.fail(Code::UNSUPPORTED, "more than 4096 parts are not compiled"));
            }
            (0..size).step_by(usize::try_from(part).unwrap_or(usize::MAX)).map(|start| part.min(size - start)).collect()
        }
        (true, Some(parts), _) if cx.rank(1)? == 1 => parts,
        _ => return Err(cx.fail(Code::UNSUPPORTED, open)),
    };
    if parts.iter().any(|p| *p < 0) {
        return Err(cx.fail(Code::VALUE, "the sizes of the parts must not be negative"));
    }
    let total = Expr::constant(parts.iter().fold(0, |sum: i64, p| sum.saturating_add(*p)));
    if total != x.dims[axis] {
        cx.check(total.equal(&x.dims[axis]), "SplitToSequence: the parts must add up to the whole".to_string());
    }
    let mut all: Vec<Arg> = Vec::new();
    let mut start = 0;
    for part in parts {
        let mut dims = x.dims.clone();
        dims[axis] = part.into();
        let piece = cx.temp(x.dtype, dims.clone());
        cx.gather_map(&x, &piece, |axes| {
            let mut from = axes.to_vec();
            from[axis] = &from[axis] + &Expr::constant(start);
            from
        })?;
        start += part;
        all.push(if keep {
            piece
        } else {
            dims.remove(axis);
            let view = cx.view(x.dtype, dims);
            cx.emit(Instr::Alias { to: view.slot, from: piece.slot });
            view
        });
    }
    cx.set_sequence(0, all);
    Ok(())
}
