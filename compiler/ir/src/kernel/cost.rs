//! What a kernel costs: scalar operations and bytes moved, as expressions over its symbols.
//!
//! Promises: a `Contract` counts 2·batch·m·n·k and what its prologue and epilogue do; a `Loop` its scalar
//! operations at each point and one for each folded value; an element counts as moved once for each launch
//! however often it is read, and never more often than the kernel's points ask for it. Loads, stores,
//! conversions, constants and index arithmetic are no operations. An extent that depends on an outer axis
//! counts as in the middle of that axis.

use std::collections::BTreeMap;

use crate::expr::{AxisId, Expr};
use crate::kernel::{Body, Buffer, BufferId, Compact, Contract, Item, Kernel, Loop, LoopAxis, Op, Operand, Sort, Step, Store};

/// What one launch of a kernel costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// Scalar operations; a multiplication and an addition are two.
    pub operations: Expr,
    /// Bytes read and written.
    pub bytes: Expr,
}

/// The cost of a kernel.
pub fn cost(kernel: &Kernel) -> Cost {
    let mut count =
        Count { axes: BTreeMap::new(), operations: Expr::constant(0), read: BTreeMap::new(), written: BTreeMap::new() };
    let outer = count.enter(&Expr::constant(1), &kernel.parallel);
    count.items(&kernel.body, &outer);
    let mut bytes = Expr::constant(0);
    for (id, buffer) in kernel.arguments() {
        for touched in [count.read.get(&id), count.written.get(&id)].into_iter().flatten() {
            bytes = bytes + touched.minimum(&Expr::product(&buffer.dims)) * size(buffer);
        }
    }
    Cost { operations: count.operations, bytes }
}

fn size(buffer: &Buffer) -> i64 {
    buffer.dtype.size() as i64
}

struct Count {
    /// The middle of each axis.
    axes: BTreeMap<AxisId, Expr>,
    operations: Expr,
    /// Elements asked for.
    read: BTreeMap<BufferId, Expr>,
    /// Elements stored.
    written: BTreeMap<BufferId, Expr>,
}

impl Count {
    /// Points inside these axes.
    fn enter(&mut self, points: &Expr, axes: &[LoopAxis]) -> Expr {
        let mut points = points.clone();
        for axis in axes {
            let known = &self.axes;
            let extent = axis.extent.replace_axes(&|a| known.get(&a).cloned().unwrap_or_else(|| Expr::constant(0)));
            self.axes.insert(axis.axis, extent.floor_div(&Expr::constant(2)));
            points = points * extent.maximum(&Expr::constant(0));
        }
        points
    }
    fn items(&mut self, items: &[Item], points: &Expr) {
        for item in items {
            match item {
                Item::Sequential { axis, body } => {
                    let inner = self.enter(points, std::slice::from_ref(axis));
                    self.items(body, &inner);
                }
                Item::Step(Step::Loop(l)) => self.fold(l, points),
                Item::Step(Step::Contract(c)) => self.contract(c, points),
                Item::Step(Step::Sort(s)) => self.sort(s, points),
                Item::Step(Step::Compact(c)) => self.compact(c, points),
            }
        }
    }
    fn fold(&mut self, l: &Loop, outer: &Expr) {
        let points = self.enter(outer, &l.parallel);
        let all = self.enter(&points, &l.reduce);
        self.body(&l.body, &all);
        self.operate(l.folds.len(), &all);
        self.body(&l.post, &points);
        self.stores(&l.stores, &points);
    }
    fn contract(&mut self, c: &Contract, outer: &Expr) {
        let batch = self.enter(outer, &c.batch);
        let rows = self.enter(&batch, &c.m);
        let columns = self.enter(&batch, &c.n);
        let points = self.enter(&rows, &c.n);
        let sums = self.enter(&points, &c.k);
        self.operate(2, &sums);
        let (a, b) = (self.enter(&rows, &c.k), self.enter(&columns, &c.k));
        self.operand(&c.a, &a);
        self.operand(&c.b, &b);
        self.body(&c.post, &points);
        self.stores(&c.stores, &points);
    }
    fn operand(&mut self, operand: &Operand, elements: &Expr) {
        touch(&mut self.read, operand.buffer, elements);
        if let Some((prologue, _)) = &operand.prologue {
            self.body(prologue, elements);
        }
        if let Some((zero, _)) = &operand.zero {
            touch(&mut self.read, *zero, elements);
        }
    }
    fn sort(&mut self, s: &Sort, outer: &Expr) {
        let rows = self.enter(outer, &s.parallel);
        let points = self.enter(&rows, std::slice::from_ref(&s.along));
        self.body(&s.key, &points);
        touch(&mut self.written, s.order, &points);
    }
    fn compact(&mut self, c: &Compact, outer: &Expr) {
        let points = self.enter(outer, &c.axes);
        self.axes.insert(c.position, Expr::constant(0));
        self.body(&c.body, &points);
        self.stores(&c.stores, &points);
        if let Some(count) = c.count {
            touch(&mut self.written, count, outer);
        }
    }
    fn body(&mut self, body: &Body, points: &Expr) {
        let mut operations = 0;
        for op in &body.ops {
            match op {
                Op::Unary(..) | Op::Binary(..) | Op::Select(..) => operations += 1,
                Op::Load { buffer, .. } => touch(&mut self.read, *buffer, points),
                Op::Const(_) | Op::Index(_) | Op::Param(..) | Op::Cast(..) => {}
            }
        }
        self.operate(operations, points);
    }
    fn operate(&mut self, operations: usize, points: &Expr) {
        self.operations = self.operations.clone() + points.clone() * operations as i64;
    }
    fn stores(&mut self, stores: &[Store], points: &Expr) {
        stores.iter().for_each(|store| touch(&mut self.written, store.buffer, points));
    }
}

/// Adds the points at which a buffer is touched.
fn touch(touched: &mut BTreeMap<BufferId, Expr>, buffer: BufferId, points: &Expr) {
    touched.entry(buffer).and_modify(|sum| *sum = sum.clone() + points.clone()).or_insert_with(|| points.clone());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::expr::SymId;
    use crate::kernel::{Bounds, Fold, FoldKind, Index, Label, Layout, Role, V};
    use crate::scalar::Scalar;

    fn buffer(dims: Vec<Expr>, role: Role) -> Buffer {
        Buffer { dtype: DType::F32, dims, role, layout: Layout::default() }
    }

    fn axis(number: u32, extent: impl Into<Expr>) -> LoopAxis {
        LoopAxis { axis: AxisId(number), extent: extent.into() }
    }

    fn index(axes: &[u32]) -> Vec<Expr> {
        axes.iter().map(|a| Expr::axis(AxisId(*a))).collect()
    }

    fn kernel(buffers: Vec<Buffer>, axes: u32, step: Step) -> Kernel {
        Kernel { name: Label::default(), buffers, axes, parallel: Vec::new(), body: vec![Item::Step(step)] }
    }

    fn load(body: &mut Body, buffer: u32, axes: &[u32]) -> V {
        let index = index(axes).into_iter().map(Index::Expr).collect();
        let (dtype, otherwise) = (DType::F32, Scalar::zero(DType::F32));
        body.push(Op::Load { buffer: BufferId(buffer), dtype, index, when: None, bounds: Bounds::Inside, otherwise })
    }

    fn store(buffer: u32, axes: &[u32], value: V) -> Store {
        let index = index(axes).into_iter().map(Index::Expr).collect();
        Store { buffer: BufferId(buffer), index, value, when: None, bounds: Bounds::Inside }
    }

    #[test]
    fn a_product_costs_two_operations_a_term() {
        let m = Expr::sym(SymId(0));
        let operand = |b: u32, axes: &[u32]| Operand {
            buffer: BufferId(b),
            index: index(axes),
            otherwise: None,
            zero: None,
            prologue: None,
        };
        let mut post = Body::default();
        let sum = post.param(0, DType::F32);
        let contract = Contract {
            batch: vec![],
            m: vec![axis(0, m.clone())],
            n: vec![axis(1, 5)],
            k: vec![axis(2, 7)],
            a: operand(0, &[0, 2]),
            b: operand(1, &[2, 1]),
            acc: DType::F32,
            post,
            stores: vec![store(2, &[0, 1], sum)],
        };
        let buffers = vec![
            buffer(vec![m.clone(), 7.into()], Role::In),
            buffer(vec![7.into(), 5.into()], Role::In),
            buffer(vec![m.clone(), 5.into()], Role::Out),
        ];
        let cost = cost(&kernel(buffers, 3, Step::Contract(contract)));
        let at = |e: &Expr| e.eval(&|_| Some(3), &|_| None);
        assert_eq!(at(&cost.operations), Some(2 * 3 * 5 * 7));
        assert_eq!(at(&cost.bytes), Some(4 * (3 * 7 + 7 * 5 + 3 * 5)));
    }

    #[test]
    fn a_loop_costs_its_operations_at_each_point_and_its_folds() {
        let (mut body, mut post) = (Body::default(), Body::default());
        let x = load(&mut body, 0, &[0, 1]);
        let square = body.binary(crate::kernel::BinaryOp::Mul, x, x);
        let sum = post.param(0, DType::F32);
        let root = post.unary(crate::kernel::UnaryOp::Sqrt, sum);
        let l = Loop {
            parallel: vec![axis(0, 4)],
            reduce: vec![axis(1, 10)],
            body,
            folds: vec![Fold { kind: FoldKind::Sum, value: square, dtype: DType::F32 }],
            post,
            stores: vec![store(1, &[0], root)],
        };
        let buffers = vec![buffer(vec![4.into(), 10.into()], Role::In), buffer(vec![4.into()], Role::Out)];
        let cost = cost(&kernel(buffers, 2, Step::Loop(l)));
        assert_eq!(cost.operations, Expr::constant(4 * 10 * 2 + 4));
        assert_eq!(cost.bytes, Expr::constant(4 * (40 + 4)));
    }

    #[test]
    fn a_few_rows_of_a_large_table_are_what_is_moved() {
        let mut post = Body::default();
        let row = load(&mut post, 0, &[0, 1]);
        let l = Loop { parallel: vec![axis(0, 2), axis(1, 8)], post, stores: vec![store(1, &[0, 1], row)], ..Loop::default() };
        let buffers = vec![buffer(vec![1000.into(), 8.into()], Role::In), buffer(vec![2.into(), 8.into()], Role::Out)];
        let cost = cost(&kernel(buffers, 2, Step::Loop(l)));
        assert_eq!((cost.operations, cost.bytes), (Expr::constant(0), Expr::constant(4 * (16 + 16))));
    }

    #[test]
    fn an_extent_that_depends_on_an_outer_axis_counts_as_in_its_middle() {
        let mut post = Body::default();
        let x = load(&mut post, 0, &[1]);
        let twice = post.binary(crate::kernel::BinaryOp::Add, x, x);
        let l =
            Loop { parallel: vec![axis(1, Expr::axis(AxisId(0)))], post, stores: vec![store(1, &[1], twice)], ..Loop::default() };
        let buffers = vec![buffer(vec![10.into()], Role::In), buffer(vec![10.into()], Role::Out)];
        let mut kernel = kernel(buffers, 2, Step::Loop(l));
        kernel.parallel = vec![axis(0, 10)];
        assert_eq!(cost(&kernel).operations, Expr::constant(10 * 5));
    }
}
