//! Slice. ONNX: "Slice uses the `starts`, `ends`, `axes` and `steps` inputs to select a sub-tensor"; numpy's
//! rules: negative positions count from the end, positions are clamped to the dim, steps may be negative.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::attributes::normalize_axis;
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef};
use oaaxc_ir::tensor::position;
use oaaxc_ir::upgrade::UpgradeCx;
use oaaxc_ir::{Datum, ReadAttributes, ReadOperands, Type};

use crate::sizes::{clamp, dim, is_size};

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static SLICE: OpDef = OpDef { name: "Slice", domain: "", upgrade, infer, eval, lower: Lower::Kernels(lower) };

/// Before 10 starts, ends and axes were attributes.
fn upgrade(cx: &mut UpgradeCx) -> Result<()> {
    for (index, name) in ["starts", "ends", "axes"].into_iter().enumerate() {
        cx.ints_to_input(name, index + 1);
    }
    Ok(())
}

/// Positions from here on mean "the end" (exporters write 1000000000, INT32_MAX and INT64_MAX); that no
/// dim reaches so far is checked at run time.
const FAR: i64 = 1_000_000_000;

/// What one dim becomes: the first position, the step, and how many elements.
struct Cut {
    first: Expr,
    step: Expr,
    count: Expr,
}

impl Cut {
    fn whole(size: &Expr) -> Cut {
        Cut { first: 0.into(), step: 1.into(), count: size.clone() }
    }
    fn new(size: &Expr, start: &Expr, end: &Expr, step: &Expr, signed: bool) -> Cut {
        match step.as_const() {
            Some(1..) => Cut::forward(size, start, end, step, signed),
            Some(_) => Cut::backward(size, start, end, step),
            None => {
                let down = step.less(&0.into());
                let positive = step.maximum(&1.into());
                let negative = step.minimum(&(-1).into());
                let (f, b) = (Cut::forward(size, start, end, &positive, signed), Cut::backward(size, start, end, &negative));
                Cut { first: down.select(&b.first, &f.first), step: step.clone(), count: down.select(&b.count, &f.count) }
            }
        }
    }
    fn forward(size: &Expr, start: &Expr, end: &Expr, step: &Expr, signed: bool) -> Cut {
        let at = |x: &Expr| match x.as_const() {
            Some(0) => Expr::constant(0),
            Some(n) if n >= FAR => size.clone(),
            Some(n) if n <= -FAR => Expr::constant(0),
            Some(n) if n > 0 => x.minimum(size),
            Some(n) => (size + &Expr::constant(n)).maximum(&0.into()),
            None if !signed && is_size(x) => x.minimum(size),
            None => clamp(&x.less(&0.into()).select(&(x + size), x), &0.into(), size),
        };
        // Where something is left, a start that is a number ≥ 0 lies inside the dim.
        let first = if start.as_const().is_some_and(|n| (0..FAR).contains(&n)) { start.clone() } else { at(start) };
        let last = at(end);
        let length = match start.as_const() {
            Some(n) if -FAR < n && n < 0 && last == *size => size.minimum(&(-n).into()),
            _ => {
                let length = &last - &first;
                if is_size(&length) { length } else { length.maximum(&0.into()) }
            }
        };
        Cut { first, step: step.clone(), count: length.ceil_div(step) }
    }
    fn backward(size: &Expr, start: &Expr, end: &Expr, step: &Expr) -> Cut {
        let (before, last) = (Expr::constant(-1), size - 1);
        let at = |x: &Expr| match x.as_const() {
            Some(n) if n >= FAR => last.clone(),
            Some(n) if n <= -FAR => before.clone(),
            Some(n) if n >= 0 => x.minimum(&last),
            Some(n) => (size + &Expr::constant(n)).maximum(&before),
            None => clamp(&x.less(&0.into()).select(&(x + size), x), &before, &last),
        };
        let (first, end) = (at(start), at(end));
        let length = &first - &end;
        let length = if is_size(&length) { length } else { length.maximum(&0.into()) };
        Cut { first, step: step.clone(), count: length.ceil_div(&(Expr::constant(0) - step)) }
    }
}

/// One cut per dim. `axes` may be expressions; then each dim looks for itself among them.
/// `signed`: symbols of starts and ends are numbers read during the run, which may be negative, not sizes.
fn cuts(shape: &[Expr], starts: &[Expr], ends: &[Expr], axes: &[Expr], steps: &[Expr], signed: bool) -> Vec<Cut> {
    let rank = Expr::from(shape.len().max(1));
    let one = |(d, size): (usize, &Expr)| {
        let mut cut = Cut::whole(size);
        for (j, axis) in axes.iter().enumerate() {
            let named = axis.modulo(&rank).equal(&d.into());
            if named.is(0) {
                continue;
            }
            let new = Cut::new(size, &starts[j], &ends[j], &steps[j], signed);
            cut = Cut {
                first: named.select(&new.first, &cut.first),
                step: named.select(&new.step, &cut.step),
                count: named.select(&new.count, &cut.count),
            };
        }
        cut
    };
    shape.iter().enumerate().map(one).collect()
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (cx.dtype(0)?, cx.shape(0)?);
    let count = Expr::product(&cx.shape(1)?).as_const();
    let count = count.ok_or_else(|| cx.fail(Code::VALUE, "the number of starts must be known when the model is built"))?;
    let default_axes = || (0..count).map(Expr::constant).collect::<Vec<_>>();
    let axes = if cx.has_input(3) { cx.known(3) } else { Some(default_axes()) };
    let steps = if cx.has_input(4) { cx.known(4) } else { Some(vec![1.into(); dim(count)]) };
    let (starts, ends) = (cx.known(1), cx.known(2));
    for axis in axes.iter().flatten().filter_map(Expr::as_const) {
        normalize_axis(cx.node, axis, shape.len())?;
    }
    if steps.iter().flatten().any(|s| s.is(0)) {
        return Err(cx.fail(Code::VALUE, "a step is 0"));
    }
    for list in [&starts, &ends, &axes, &steps].into_iter().flatten() {
        if list.len() != dim(count) {
            return Err(cx.fail(Code::VALUE, "starts, ends, axes and steps must be equally many"));
        }
    }
    let (Some(starts), Some(ends), Some(axes), Some(steps)) = (starts, ends, axes.clone(), steps) else {
        // Some bound comes only with the run: the sliced dims are new sizes.
        let sliced = |d: usize| match axes.as_ref().map(|a| a.iter().map(Expr::as_const).collect::<Option<Vec<_>>>()) {
            Some(Some(axes)) => axes.iter().any(|a| a.rem_euclid(shape.len() as i64) as usize == d),
            _ => true,
        };
        let dims = (0..shape.len()).map(|d| if sliced(d) { cx.fresh("sliced") } else { shape[d].clone() }).collect();
        cx.set(0, dtype, dims);
        return Ok(());
    };
    for (axis, bounds) in axes.iter().zip(starts.iter().zip(&ends)) {
        let far =
            [bounds.0, bounds.1].into_iter().filter_map(Expr::as_const).map(i64::saturating_abs).filter(|n| FAR <= *n).min();
        let size = axis.as_const().map(|a| shape[a.rem_euclid(shape.len() as i64) as usize].clone());
        if let (Some(far), Some(size)) = (far.filter(|n| *n < i64::MAX / 2), size.filter(|s| s.as_const().is_none())) {
            let message = format!("size {} must not exceed {far}, which the slice takes for the end", cx.symbols.show(&size));
            cx.check(Expr::constant(1) - Expr::constant(far).less(&size), message);
        }
    }
    let cuts = cuts(&shape, &starts, &ends, &axes, &steps, false);
    let known = cx.known(0).filter(|_| cuts.len() == 1).and_then(|known| {
        let (first, step, count) = (cuts[0].first.as_const()?, cuts[0].step.as_const()?, cuts[0].count.as_const()?);
        (0..count).map(|i| known.get(dim(first + i * step)).cloned()).collect()
    });
    cx.set_known(0, dtype, cuts.into_iter().map(|c| c.count).collect(), known);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let exprs = |i: usize| -> Result<Vec<i64>> { Ok(cx.input(i)?.to_i64s()) };
    let (starts, ends) = (exprs(1)?, exprs(2)?);
    let axes = if cx.has_input(3) { exprs(3)? } else { (0..starts.len() as i64).collect() };
    let steps = if cx.has_input(4) { exprs(4)? } else { vec![1; starts.len()] };
    // (first, step, count) of each dim, by numpy's rules.
    let mut cut: Vec<(i64, i64, usize)> = x.dims.iter().map(|&d| (0, 1, d)).collect();
    for (j, &axis) in axes.iter().enumerate() {
        let d = normalize_axis(cx.node, axis, x.rank())?;
        let (size, step) = (x.dims[d] as i64, steps[j]);
        let (low, high) = if step > 0 { (0, size) } else { (-1, size - 1) };
        let at = |v: i64| (if v < 0 { v.saturating_add(size) } else { v }).clamp(low, high);
        let (start, end) = (at(starts[j]), at(ends[j]));
        let mut count = 0;
        let mut i = start;
        while step != 0 && (if step > 0 { i < end } else { i > end }) {
            count += 1;
            i = i.saturating_add(step);
        }
        cut[d] = (start, step, count);
    }
    let y = x.gathered(cut.iter().map(|c| c.2).collect(), |c| {
        let from: Vec<usize> = c.iter().zip(&cut).map(|(&i, cut)| dim(cut.0 + i as i64 * cut.1)).collect();
        position(&from, &x.dims)
    });
    Ok(vec![y.into()])
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let x = cx.arg(0)?;
    let (starts, ends) = (cx.sizes(1)?, cx.sizes(2)?);
    let axes = if cx.has_input(3) { cx.sizes(3)? } else { (0..starts.len()).map(Expr::from).collect() };
    let steps = if cx.has_input(4) { cx.sizes(4)? } else { vec![1.into(); starts.len()] };
    let read = cx.known(1).is_none() || cx.known(2).is_none();
    let cuts = cuts(&x.dims, &starts, &ends, &axes, &steps, read);
    if let Some(Type::Tensor(ty)) = cx.output_type(0).cloned() {
        for (size, cut) in ty.shape.iter().flatten().zip(&cuts) {
            if *size != cut.count {
                cx.define(size, cut.count.clone())?;
            }
        }
    }
    let y = cx.result(0)?;
    cx.gather_map(&x, &y, |at| at.iter().zip(&cuts).map(|(i, cut)| &cut.first + i * &cut.step).collect())
}
