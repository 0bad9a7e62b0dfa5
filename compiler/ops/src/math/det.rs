//! Det. ONNX: "Calculates determinant of a square matrix or batches of square matrices", by elimination with
//! the largest pivot of each column.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Fold, FoldKind, Index, Loop, Store, UnaryOp};
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands};

use crate::formula::compute_type;

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static DET: OpDef = OpDef { name: "Det", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (cx.dtype(0)?, cx.shape(0)?);
    let [batch @ .., rows, columns] = &shape[..] else { return Err(cx.fail(Code::RANK, "the input must have 2 dims or more")) };
    cx.require_equal(rows, columns, "the matrices must be square")?;
    cx.set(0, dtype, batch.to_vec());
    Ok(())
}

fn determinant(mut a: Vec<f64>, n: usize) -> f64 {
    let mut det = 1.0;
    for j in 0..n {
        let pivot = (j..n).fold(j, |best, i| if a[i * n + j].abs() > a[best * n + j].abs() { i } else { best });
        if pivot != j {
            (0..n).for_each(|c| a.swap(pivot * n + c, j * n + c));
            det = -det;
        }
        let p = a[j * n + j];
        det *= p;
        if p == 0.0 {
            return 0.0;
        }
        for i in j + 1..n {
            let factor = a[i * n + j] / p;
            (j..n).for_each(|c| a[i * n + c] -= factor * a[j * n + c]);
        }
    }
    det
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let n = x.dims.last().copied().unwrap_or(0);
    let (batch, values) = (x.dims[..x.rank() - 2].to_vec(), x.to_f64s());
    let count: usize = batch.iter().product();
    let all: Vec<f64> = (0..count).map(|b| determinant(values[b * n * n..(b + 1) * n * n].to_vec(), n)).collect();
    Ok(vec![Tensor::from_f64s(x.dtype, batch, all).into()])
}

/// A matrix is eliminated in scratch, column by column; matrices are independent.
fn lower(cx: &mut LowerCx) -> Result<()> {
    let (x, y) = (cx.arg(0)?, cx.result(0)?);
    let acc = compute_type(x.dtype);
    let n = x.dims[x.dims.len() - 1].clone();
    let mut k = cx.kernel();
    let (xb, yb) = (k.read(&x), k.write(&y));
    let (a, row) = (k.local(acc, vec![n.clone(), n.clone()]), k.local(acc, vec![n.clone()]));
    let (pivot, det) = (k.local(DType::I64, vec![]), k.local(acc, vec![]));
    let outer: Vec<Index> = y.dims.iter().map(|d| Index::Expr(k.parallel(d.clone()))).collect();
    let at = |i: &Expr, j: &Expr| vec![Index::from(i), Index::from(j)];

    let mut fill = Loop::default();
    let c = k.axes(&mut fill.parallel, &[n.clone(), n.clone()]);
    let v = fill.post.load(&xb, [&outer[..], &at(&c[0], &c[1])[..]].concat());
    let v = fill.post.cast(acc, v);
    fill.stores.push(Store::at(&a, at(&c[0], &c[1]), v));
    k.push(fill);
    let mut begin = Loop::default();
    let one = begin.post.float(acc, 1.0);
    begin.stores.push(Store::at(&det, vec![], one));
    k.push(begin);

    k.sequential(n.clone(), |k, j| {
        let mut find = Loop::default();
        let i = k.axis(&mut find.reduce, &n - &j);
        let v = find.body.load(&a, at(&(&j + &i), &j));
        let v = find.body.unary(UnaryOp::Abs, v);
        find.folds.push(Fold { kind: FoldKind::ArgMax { last: false }, value: v, dtype: DType::I64 });
        let found = find.post.param(0, DType::I64);
        let from = find.post.index(j.clone());
        let found = find.post.binary(BinaryOp::Add, found, from);
        find.stores.push(Store::at(&pivot, vec![], found));
        k.push(find);

        // The pivot's row is saved, the current row takes its place, and the other way round.
        let mut save = Loop::default();
        let c = k.axis(&mut save.parallel, n.clone());
        let p = save.post.load(&pivot, vec![]);
        let v = save.post.load(&a, vec![Index::Value(p), Index::from(&c)]);
        save.stores.push(Store::at(&row, vec![Index::from(&c)], v));
        k.push(save);
        let mut swap = Loop::default();
        let c = k.axis(&mut swap.parallel, n.clone());
        let p = swap.post.load(&pivot, vec![]);
        let v = swap.post.load(&a, at(&j, &c));
        swap.stores.push(Store::at(&a, vec![Index::Value(p), Index::from(&c)], v));
        k.push(swap);
        let mut put = Loop::default();
        let c = k.axis(&mut put.parallel, n.clone());
        let v = put.post.load(&row, vec![Index::from(&c)]);
        put.stores.push(Store::at(&a, at(&j, &c), v));
        k.push(put);

        let mut product = Loop::default();
        let (p, current) = (product.post.load(&pivot, vec![]), product.post.index(j.clone()));
        let stays = product.post.binary(BinaryOp::Eq, p, current);
        let (old, v) = (product.post.load(&det, vec![]), product.post.load(&a, at(&j, &j)));
        let v = product.post.binary(BinaryOp::Mul, old, v);
        let negated = product.post.unary(UnaryOp::Neg, v);
        let v = product.post.select(stays, v, negated);
        product.stores.push(Store::at(&det, vec![], v));
        k.push(product);

        let mut eliminate = Loop::default();
        let i = k.axis(&mut eliminate.parallel, &n - &j - 1);
        let c = k.axis(&mut eliminate.parallel, &n - &j - 1);
        let (i, c) = (&i + &j + 1, &c + &j + 1);
        let body = &mut eliminate.post;
        let (head, p) = (body.load(&a, at(&i, &j)), body.load(&a, at(&j, &j)));
        let zero = body.float(acc, 0.0);
        let is_zero = body.binary(BinaryOp::Eq, p, zero);
        let factor = body.binary(BinaryOp::Div, head, p);
        let factor = body.select(is_zero, zero, factor);
        let (v, above) = (body.load(&a, at(&i, &c)), body.load(&a, at(&j, &c)));
        let part = body.binary(BinaryOp::Mul, factor, above);
        let v = body.binary(BinaryOp::Sub, v, part);
        eliminate.stores.push(Store::at(&a, at(&i, &c), v));
        k.push(eliminate);
    });
    let mut end = Loop::default();
    let v = end.post.load(&det, vec![]);
    let v = end.post.cast(y.dtype, v);
    end.stores.push(Store::at(&yb, outer.clone(), v));
    k.push(end);
    cx.launch(k)
}
