//! Arg folds: the best key lies on the stack.

use oaaxc_emit::body::Emitter;
use oaaxc_emit::cast::{self, Value, carried, value};
use oaaxc_emit::folds::takes_place;
pub use oaaxc_emit::folds::{accumulator, is_arg, join, start};
use oaaxc_ir::kernel::FoldKind;
use oaaxc_ir::{DType, Scalar};

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
        let ty = carried(self.dtype);
        let best = em.w.op(format_args!("llvm.load {} : !llvm.ptr -> {ty}", self.best));
        let some = em.w.op(format_args!("llvm.load {} : !llvm.ptr -> i1", self.some));
        let best = value(self.dtype, best);
        let mut wins = takes_place(&mut em.w, kind, v, &best);
        let yes = em.w.constant("true");
        let none = em.w.op(format_args!("arith.xori {some}, {yes} : i1"));
        wins = em.w.op(format_args!("arith.ori {wins}, {none} : i1"));
        let kept = em.w.op(format_args!("arith.select {wins}, {}, {} : {ty}", v.name, best.name));
        em.w.line(format_args!("llvm.store {kept}, {} : {ty}, !llvm.ptr", self.best));
        em.w.line(format_args!("llvm.store {yes}, {} : i1, !llvm.ptr", self.some));
        em.w.op(format_args!("arith.select {wins}, {position}, {at} : i64"))
    }
}
