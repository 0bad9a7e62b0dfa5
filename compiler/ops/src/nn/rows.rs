//! Kernels over rows: outer parallel axes choose a row, statistics of the row are folded into locals,
//! then each element of the row is computed from them. All normalisations are built so.

use oaaxc_ir::DType;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::kernel::{Body, Fold, FoldKind, Loop, Store, V};
use oaaxc_ir::lower::{Buf, KernelBuilder};
use oaaxc_ir::tensor::{Coordinates, position};

/// A kernel over rows under construction.
pub struct Rows {
    /// The kernel.
    pub k: KernelBuilder,
    /// The index of the row: one per outer axis.
    pub outer: Vec<Expr>,
    inner: Vec<Expr>,
    stat: DType,
}

impl Rows {
    /// Rows counted by `outer` axes, each a block of `inner` sizes; statistics are kept in `stat`.
    /// All buffers that are arguments may be added to `k` before or after.
    pub fn new(mut k: KernelBuilder, outer: &[Expr], inner: &[Expr], stat: DType) -> Rows {
        let outer = outer.iter().map(|e| k.parallel(e.clone())).collect();
        Rows { k, outer, inner: inner.to_vec(), stat }
    }
    /// Folds `value(element)` over the row, finishes it, and keeps it in a local of rank 0. `value` gets the inner indices.
    pub fn statistic(
        &mut self,
        kind: FoldKind,
        value: impl FnOnce(&mut Body, &[Expr]) -> V,
        finish: impl FnOnce(&mut Body, V) -> V,
    ) -> Buf {
        let local = self.k.local(self.stat, vec![]);
        let mut l = Loop::default();
        let axes = self.k.axes(&mut l.reduce, &self.inner);
        let v = value(&mut l.body, &axes);
        let v = l.body.cast(self.stat, v);
        l.folds.push(Fold { kind, value: v, dtype: self.stat });
        let v = l.post.param(0, self.stat);
        let v = finish(&mut l.post, v);
        l.stores.push(Store::at(&local, vec![], v));
        self.k.push(l);
        local
    }
    /// The mean of `value(element)` over the row, finished.
    pub fn mean(&mut self, value: impl FnOnce(&mut Body, &[Expr]) -> V, finish: impl FnOnce(&mut Body, V) -> V) -> Buf {
        let (count, stat) = (Expr::product(&self.inner), self.stat);
        self.statistic(FoldKind::Sum, value, |b, sum| {
            let n = b.index(count);
            let n = b.cast(stat, n);
            let mean = b.binary(oaaxc_ir::kernel::BinaryOp::Div, sum, n);
            finish(b, mean)
        })
    }
    /// Runs `f` at each element of the row; it returns what to store.
    pub fn each(&mut self, f: impl FnOnce(&mut Body, &[Expr]) -> Vec<Store>) {
        let mut l = Loop::default();
        let axes = self.k.axes(&mut l.parallel, &self.inner);
        l.stores = f(&mut l.post, &axes);
        self.k.push(l);
    }
    /// Runs `f` once per row.
    pub fn once(&mut self, f: impl FnOnce(&mut Body) -> Vec<Store>) {
        let mut l = Loop::default();
        l.stores = f(&mut l.post);
        self.k.push(l);
    }
}

/// A plain index: axes of the row where not `reduced`, inner ones where so, in the order of the dims.
pub fn place(outer: &[Expr], reduced: &[bool], inner: &[Expr]) -> Vec<Expr> {
    let (mut o, mut i) = (outer.iter(), inner.iter());
    let next = |r: &bool| if *r { i.next() } else { o.next() };
    reduced.iter().map(next).map(|e| e.expect("as many axes as dims").clone()).collect()
}

/// The sizes that are not reduced, and those that are.
pub fn split(dims: &[Expr], reduced: &[bool]) -> (Vec<Expr>, Vec<Expr>) {
    let pick = |wanted: bool| dims.iter().zip(reduced).filter(|(_, r)| **r == wanted).map(|(d, _)| d.clone()).collect();
    (pick(false), pick(true))
}

/// For evaluation: the row-major positions of each row's elements, rows and elements in row-major order.
pub fn positions(dims: &[usize], reduced: &[bool]) -> Vec<Vec<usize>> {
    let pick =
        |wanted: bool| -> Vec<usize> { dims.iter().zip(reduced).filter(|(_, r)| **r == wanted).map(|(d, _)| *d).collect() };
    let row = |outer: &[usize]| -> Vec<usize> {
        let at = |inner: Vec<usize>| {
            let (mut o, mut i) = (outer.iter(), inner.iter());
            let c: Vec<usize> =
                reduced.iter().map(|r| if *r { i.next() } else { o.next() }.copied().expect("as many axes as dims")).collect();
            position(&c, dims)
        };
        Coordinates::new(&pick(true)).map(at).collect()
    };
    Coordinates::new(&pick(false)).map(|o| row(&o)).collect()
}

/// For evaluation: mean and population variance.
pub fn moments(values: &[f64], at: &[usize]) -> (f64, f64) {
    let n = at.len() as f64;
    let mean = at.iter().map(|&i| values[i]).sum::<f64>() / n;
    (mean, at.iter().map(|&i| (values[i] - mean).powi(2)).sum::<f64>() / n)
}
