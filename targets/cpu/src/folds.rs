//! Folds: neutral elements, joining, and the arg folds that compare keys.

use oaaxc_emit::body::Emitter;
use oaaxc_emit::cast::{self, Value, carried, cast, value, wide};
use oaaxc_emit::scalar::binary;
use oaaxc_ir::interpret::arithmetic::neutral;
use oaaxc_ir::kernel::{BinaryOp, Fold, FoldKind};
use oaaxc_ir::{DType, Scalar};

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
    let flags = if em.strict { "" } else { " fastmath<reassoc>" };
    let mut float = |op: &str, flags: &str| {
        let name = em.w.op(format_args!("arith.{op} {}, {}{flags} : {ty}", acc.name, v.name));
        value(dtype, name)
    };
    match fold.kind {
        FoldKind::Sum if native => float("addf", flags),
        FoldKind::Product if native => float("mulf", flags),
        FoldKind::Min if native => float("minimumf", ""),
        FoldKind::Max if native => float("maximumf", ""),
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

/// Memory of one arg fold: the best key, and whether there is one.
#[derive(Clone, Debug)]
pub struct Key {
    dtype: DType,
    best: String,
    some: String,
}

impl Key {
    /// Stack slots for the key of a fold.
    pub fn new(em: &mut Emitter, dtype: DType) -> Key {
        let best = em.w.slot(carried(dtype), 1);
        let some = em.w.slot("i1", 1);
        Key { dtype, best, some }
    }
    /// Forgets the key.
    pub fn reset(&self, em: &mut Emitter) {
        let zero = cast::constant(&mut em.w, Scalar::zero(self.dtype));
        let no = em.w.constant("false");
        em.w.line(format_args!("llvm.store {}, {} : {}, !llvm.ptr", zero.name, self.best, carried(self.dtype)));
        em.w.line(format_args!("llvm.store {no}, {} : i1, !llvm.ptr", self.some));
    }
    /// Compares a value; answers the new position of the best. NaN is never beaten, as in numpy.
    pub fn compare(&self, em: &mut Emitter, kind: FoldKind, v: &Value, position: &str, at: &str) -> String {
        let (smallest, last) = match kind {
            FoldKind::ArgMin { last } => (true, last),
            FoldKind::ArgMax { last } => (false, last),
            _ => unreachable!("only arg folds have keys"),
        };
        let ty = carried(self.dtype);
        let best = em.w.op(format_args!("llvm.load {} : !llvm.ptr -> {ty}", self.best));
        let some = em.w.op(format_args!("llvm.load {} : !llvm.ptr -> i1", self.some));
        let best = value(self.dtype, best);
        let better = match (smallest, last) {
            (true, false) => BinaryOp::Lt,
            (true, true) => BinaryOp::Le,
            (false, false) => BinaryOp::Gt,
            (false, true) => BinaryOp::Ge,
        };
        let mut wins = binary(&mut em.w, better, v, &best).name;
        if self.dtype.is_float() {
            let (a, b) = (wide(&mut em.w, v), wide(&mut em.w, &best));
            let ty = cast::computed(self.dtype);
            let value_nan = em.w.op(format_args!("arith.cmpf uno, {a}, {a} : {ty}"));
            let best_nan = em.w.op(format_args!("arith.cmpf uno, {b}, {b} : {ty}"));
            if last {
                wins = em.w.op(format_args!("arith.ori {wins}, {value_nan} : i1"));
            } else {
                let yes = em.w.constant("true");
                let best_number = em.w.op(format_args!("arith.xori {best_nan}, {yes} : i1"));
                let first_nan = em.w.op(format_args!("arith.andi {value_nan}, {best_number} : i1"));
                wins = em.w.op(format_args!("arith.ori {wins}, {first_nan} : i1"));
            }
        }
        let yes = em.w.constant("true");
        let none = em.w.op(format_args!("arith.xori {some}, {yes} : i1"));
        wins = em.w.op(format_args!("arith.ori {wins}, {none} : i1"));
        let kept = em.w.op(format_args!("arith.select {wins}, {}, {} : {ty}", v.name, best.name));
        em.w.line(format_args!("llvm.store {kept}, {} : {ty}, !llvm.ptr", self.best));
        em.w.line(format_args!("llvm.store {yes}, {} : i1, !llvm.ptr", self.some));
        em.w.op(format_args!("arith.select {wins}, {position}, {at} : i64"))
    }
}
