//! Work on halves within one kernel is done in f32 and rounded where it is stored, not after each operation.
//!
//! For graphs that the precision rewrite narrowed: their halves stand for floats, so what fusion keeps in registers may
//! keep its digits. Models that are written in halves keep the rounding that they ask for.

use oaaxc_ir::DType;
use oaaxc_ir::kernel::{Body, Index, Item, Op, Step, Store, V};
use oaaxc_ir::program::Program;

use crate::kernel::resolve::visit_launches;

/// Widens every body.
pub fn widen(program: &mut Program) {
    let mut list = std::mem::take(&mut program.body);
    visit_launches(&mut list, &mut |launch| items(&mut launch.kernel.body));
    program.body = list;
}

fn items(list: &mut [Item]) {
    for item in list {
        match item {
            Item::Sequential { body, .. } => items(body),
            Item::Step(Step::Loop(l)) => {
                let mut body = Widened::new(&l.body);
                l.folds.iter_mut().for_each(|fold| fold.value = body.widest(fold.value));
                l.body = body.out;
                stores(&mut l.post, &mut l.stores);
            }
            Item::Step(Step::Contract(c)) => stores(&mut c.post, &mut c.stores),
            Item::Step(Step::Sort(_) | Step::Compact(_)) => {}
        }
    }
}

fn stores(post: &mut Body, stores: &mut [Store]) {
    let mut body = Widened::new(post);
    for store in stores {
        store.value = body.own(store.value);
        store.when = store.when.map(|v| body.own(v));
        for index in &mut store.index {
            if let Index::Value(v) = index {
                *v = body.own(*v);
            }
        }
    }
    *post = body.out;
}

fn is_half(dtype: DType) -> bool {
    matches!(dtype, DType::F16 | DType::BF16)
}

/// A body under construction, with what each old value has become.
struct Widened {
    out: Body,
    /// The type of each old value.
    types: Vec<DType>,
    /// The value in its own type, where it was needed or is no half.
    own: Vec<Option<V>>,
    /// A half as f32.
    wide: Vec<Option<V>>,
}

impl Widened {
    fn new(body: &Body) -> Widened {
        let mut w = Widened { out: Body::default(), types: Vec::new(), own: Vec::new(), wide: Vec::new() };
        for (i, op) in body.ops.iter().enumerate() {
            let dtype = body.dtype(V(i as u32));
            let half_operand = |v: &V| is_half(body.dtype(*v));
            let (own, wide) = match op {
                Op::Unary(op, x) if half_operand(x) => {
                    let x = w.widest(*x);
                    w.split(dtype, Op::Unary(*op, x))
                }
                Op::Binary(op, x, y) if half_operand(x) => {
                    let (x, y) = (w.widest(*x), w.widest(*y));
                    w.split(dtype, Op::Binary(*op, x, y))
                }
                Op::Select(c, x, y) if half_operand(x) => {
                    let (c, x, y) = (w.own(*c), w.widest(*x), w.widest(*y));
                    w.split(dtype, Op::Select(c, x, y))
                }
                Op::Cast(to, x) if half_operand(x) && !is_half(*to) => {
                    let x = w.widest(*x);
                    (Some(w.out.cast(*to, x)), None)
                }
                Op::Cast(to, x) if is_half(*to) && body.dtype(*x) == DType::F32 => (None, Some(w.own(*x))),
                op => {
                    let mut op = op.clone();
                    op.map_values(&mut |v| w.own(v));
                    (Some(w.out.push(op)), None)
                }
            };
            w.types.push(dtype);
            w.own.push(own);
            w.wide.push(wide);
        }
        w
    }
    /// An operation on floats: its result is a half in f32, or whatever the operation gives.
    fn split(&mut self, dtype: DType, op: Op) -> (Option<V>, Option<V>) {
        let v = self.out.push(op);
        if is_half(dtype) { (None, Some(v)) } else { (Some(v), None) }
    }
    /// The value in its own type.
    fn own(&mut self, v: V) -> V {
        let at = v.0 as usize;
        if let Some(own) = self.own[at] {
            return own;
        }
        let wide = self.wide[at].expect("a value has one of both forms");
        let own = self.out.cast(self.types[at], wide);
        self.own[at] = Some(own);
        own
    }
    /// A half as f32; anything else in its own type.
    fn widest(&mut self, v: V) -> V {
        let at = v.0 as usize;
        if !is_half(self.types[at]) {
            return self.own(v);
        }
        if let Some(wide) = self.wide[at] {
            return wide;
        }
        let own = self.own[at].expect("a value has one of both forms");
        let wide = self.out.cast(DType::F32, own);
        self.wide[at] = Some(wide);
        wide
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oaaxc_ir::Scalar;
    use oaaxc_ir::kernel::BinaryOp;

    #[test]
    fn a_chain_of_halves_is_rounded_once() {
        let mut body = Body::default();
        let x = body.param(0, DType::F32);
        let half = body.cast(DType::F16, x);
        let one = body.scalar(Scalar::from_f32(1.0).cast(DType::F16));
        let sum = body.binary(BinaryOp::Add, half, one);
        let sum = body.binary(BinaryOp::Mul, sum, sum);
        let mut w = Widened::new(&body);
        let stored = w.own(sum);
        assert_eq!(w.out.dtype(stored), DType::F16);
        let roundings = w.out.ops.iter().filter(|op| matches!(op, Op::Cast(DType::F16, _))).count();
        assert_eq!(roundings, 1, "{:?}", w.out);
    }
}
