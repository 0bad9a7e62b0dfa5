//! Folds: neutral elements, joining, and which of two keys an arg fold keeps.

use oaaxc_ir::DType;
use oaaxc_ir::interpret::arithmetic::neutral;
use oaaxc_ir::kernel::{BinaryOp, Fold, FoldKind};

use crate::body::Emitter;
use crate::cast::{self, Value, carried, cast, value, wide};
use crate::scalar::binary;
use crate::text::Writer;

/// The accumulator's type.
pub fn accumulator(fold: &Fold) -> DType {
    match fold.kind {
        FoldKind::And | FoldKind::Or => DType::Bool,
        FoldKind::ArgMin { .. } | FoldKind::ArgMax { .. } => DType::I64,
        FoldKind::Sum | FoldKind::Product | FoldKind::Min | FoldKind::Max => fold.dtype,
    }
}

/// Whether the fold keeps a position instead of a value.
pub fn is_arg(fold: &Fold) -> bool {
    matches!(fold.kind, FoldKind::ArgMin { .. } | FoldKind::ArgMax { .. })
}

/// The value of an empty fold.
pub fn start(em: &mut Emitter, fold: &Fold) -> Value {
    cast::constant(&mut em.w, neutral(fold.kind, fold.dtype))
}

/// The accumulator with one more value.
pub fn join(em: &mut Emitter, fold: &Fold, acc: &Value, v: &Value) -> Value {
    let dtype = accumulator(fold);
    let v = cast(&mut em.w, fold.dtype, v);
    let native = matches!(dtype, DType::F32 | DType::F64);
    let ty = carried(dtype);
    let portable = em.w.portable;
    let flags = if em.strict || portable { "" } else { " fastmath<reassoc>" };
    let mut float = |op: &str, flags: &str| {
        let name = em.w.op(format_args!("arith.{op} {}, {}{flags} : {ty}", acc.name, v.name));
        value(dtype, name)
    };
    match fold.kind {
        FoldKind::Sum if native => float("addf", flags),
        FoldKind::Product if native => float("mulf", flags),
        FoldKind::Min if native && !portable => float("minimumf", ""),
        FoldKind::Max if native && !portable => float("maximumf", ""),
        FoldKind::Sum => binary(&mut em.w, BinaryOp::Add, acc, &v),
        FoldKind::Product => binary(&mut em.w, BinaryOp::Mul, acc, &v),
        FoldKind::Min => binary(&mut em.w, BinaryOp::Min, acc, &v),
        FoldKind::Max => binary(&mut em.w, BinaryOp::Max, acc, &v),
        FoldKind::And | FoldKind::Or => {
            let v = cast(&mut em.w, DType::Bool, &v);
            let op = if fold.kind == FoldKind::And { BinaryOp::And } else { BinaryOp::Or };
            binary(&mut em.w, op, acc, &v)
        }
        FoldKind::ArgMin { .. } | FoldKind::ArgMax { .. } => unreachable!("arg folds compare keys"),
    }
}

/// Whether the value of an arg fold that is seen after the best takes its place. NaN is never beaten, as in numpy.
pub fn takes_place(w: &mut Writer, kind: FoldKind, v: &Value, best: &Value) -> String {
    let (smallest, last) = match kind {
        FoldKind::ArgMin { last } => (true, last),
        FoldKind::ArgMax { last } => (false, last),
        _ => unreachable!("only arg folds have keys"),
    };
    let better = match (smallest, last) {
        (true, false) => BinaryOp::Lt,
        (true, true) => BinaryOp::Le,
        (false, false) => BinaryOp::Gt,
        (false, true) => BinaryOp::Ge,
    };
    let mut wins = binary(w, better, v, best).name;
    if v.dtype.is_float() {
        let (a, b) = (wide(w, v), wide(w, best));
        let ty = cast::computed(v.dtype);
        let value_nan = w.op(format_args!("arith.cmpf uno, {a}, {a} : {ty}"));
        let best_nan = w.op(format_args!("arith.cmpf uno, {b}, {b} : {ty}"));
        if last {
            wins = w.op(format_args!("arith.ori {wins}, {value_nan} : i1"));
        } else {
            let yes = w.constant("true");
            let best_number = w.op(format_args!("arith.xori {best_nan}, {yes} : i1"));
            let first_nan = w.op(format_args!("arith.andi {value_nan}, {best_number} : i1"));
            wins = w.op(format_args!("arith.ori {wins}, {first_nan} : i1"));
        }
    }
    wins
}

/// Whether a key at a position beats another one, whichever of the two is seen first.
pub fn beats(w: &mut Writer, kind: FoldKind, (v, position): (&Value, &str), (best, at): (&Value, &str)) -> String {
    let (strict, earlier) = match kind {
        FoldKind::ArgMin { last } => (FoldKind::ArgMin { last: false }, !last),
        FoldKind::ArgMax { last } => (FoldKind::ArgMax { last: false }, !last),
        _ => unreachable!("only arg folds have keys"),
    };
    let wins = takes_place(w, strict, v, best);
    let loses = takes_place(w, strict, best, v);
    let predicate = if earlier { "slt" } else { "sgt" };
    let before = w.op(format_args!("arith.cmpi {predicate}, {position}, {at} : i64"));
    let yes = w.constant("true");
    let equal = w.op(format_args!("arith.xori {loses}, {yes} : i1"));
    let tie = w.op(format_args!("arith.andi {equal}, {before} : i1"));
    w.op(format_args!("arith.ori {wins}, {tie} : i1"))
}
