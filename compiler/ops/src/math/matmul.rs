//! MatMul. ONNX: "Matrix product that behaves like numpy.matmul".
//!
//! Leading dims that only the left operand has become M axes of the contract (a linear layer over
//! `[batch, tokens, features]` is one tall matrix product); those that both have are batch axes.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{Contract, Operand, Step, Store};
use oaaxc_ir::lower::{Arg, Buf, KernelBuilder, LowerCx, broadcast_index};
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::{Coordinates, Tensor, position};
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands};

use crate::nn::conv::accumulator;

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static MATMUL: OpDef = OpDef { name: "MatMul", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };

/// The result's sizes of `numpy.matmul(a, b)`.
pub fn infer_shape(cx: &mut InferCx, a: &[Expr], b: &[Expr]) -> Result<Vec<Expr>> {
    if a.is_empty() || b.is_empty() {
        return Err(cx.fail(Code::SHAPE, "a scalar has no matrix product"));
    }
    let inner = (&a[a.len() - 1], &b[b.len().saturating_sub(2)]);
    cx.require_equal(inner.0, inner.1, "the inner sizes of a matrix product")?;
    let lead = |s: &[Expr]| s[..s.len().saturating_sub(2)].to_vec();
    let mut out = cx.broadcast(&[lead(a), lead(b)])?;
    if a.len() > 1 {
        out.push(a[a.len() - 2].clone());
    }
    if b.len() > 1 {
        out.push(b[b.len() - 1].clone());
    }
    Ok(out)
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, other) = (cx.dtype(0)?, cx.dtype(1)?);
    if dtype != other {
        return Err(cx.fail(Code::TYPE, format!("operands are {dtype} and {other}, but must be equal")));
    }
    let shape = infer_shape(cx, &cx.shape(0)?, &cx.shape(1)?)?;
    cx.set(0, dtype, shape);
    Ok(())
}

/// `numpy.matmul` over plain numbers, with the result's dims. `zeros` says what is subtracted at a row of `a` or a column of `b`.
pub fn evaluate<T>(a: (&[T], &[usize]), b: (&[T], &[usize]), zero: T) -> (Vec<T>, Vec<usize>)
where
    T: Copy + std::ops::Mul<Output = T> + std::ops::AddAssign,
{
    let ((a, ad), (b, bd)) = (a, b);
    let wide = |d: &[usize], front: bool| match (d.len(), front) {
        (1, true) => vec![1, d[0]],
        (1, false) => vec![d[0], 1],
        _ => d.to_vec(),
    };
    let (aw, bw) = (wide(ad, true), wide(bd, false));
    let (al, bl) = (&aw[..aw.len() - 2], &bw[..bw.len() - 2]);
    let rank = al.len().max(bl.len());
    let size = |l: &[usize], d: usize| (d + l.len()).checked_sub(rank).map_or(1, |at| l[at]);
    let lead: Vec<usize> = (0..rank).map(|d| if size(al, d) == 1 { size(bl, d) } else { size(al, d) }).collect();
    let (rows, inner, columns) = (aw[aw.len() - 2], aw[aw.len() - 1], bw[bw.len() - 1]);
    let mut out = Vec::new();
    for c in Coordinates::new(&lead) {
        let base = |l: &[usize]| {
            let own: Vec<usize> = (0..l.len()).map(|d| if l[d] == 1 { 0 } else { c[d + rank - l.len()] }).collect();
            position(&own, l)
        };
        let (a, b) = (&a[base(al) * rows * inner..], &b[base(bl) * inner * columns..]);
        for r in 0..rows {
            for column in 0..columns {
                let mut sum = zero;
                for i in 0..inner {
                    sum += a[r * inner + i] * b[i * columns + column];
                }
                out.push(sum);
            }
        }
    }
    let mut dims = lead;
    if ad.len() > 1 {
        dims.push(rows);
    }
    if bd.len() > 1 {
        dims.push(columns);
    }
    (out, dims)
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (a, b) = (cx.input(0)?, cx.input(1)?);
    let y = if a.dtype.is_integer() {
        let wrapping = |t: &Tensor| t.to_i64s().into_iter().map(std::num::Wrapping).collect::<Vec<_>>();
        let (out, dims) = evaluate((&wrapping(a), &a.dims), (&wrapping(b), &b.dims), std::num::Wrapping(0));
        Tensor::from_i64s(a.dtype, dims, out.into_iter().map(|v| v.0))
    } else {
        let (out, dims) = evaluate((&a.to_f64s(), &a.dims), (&b.to_f64s(), &b.dims), 0.0);
        Tensor::from_f64s(a.dtype, dims, out)
    };
    Ok(vec![y.into()])
}

/// A matrix product under construction.
pub struct Product {
    /// The contract; `post` and `stores` are empty.
    pub contract: Contract,
    /// The index of the result element, one per dim of the result.
    pub output: Vec<Expr>,
    /// The index of the column.
    pub column: Expr,
}

/// Builds the contract of `numpy.matmul(a, b)` with a result of sizes `out`; `turned` says which operand's last two dims are swapped.
pub fn contract(k: &mut KernelBuilder, a: &Buf, b: &Buf, out: &[Expr], turned: (bool, bool), acc: DType) -> Product {
    let (mut batch, mut m, mut n, mut kk) = (vec![], vec![], vec![], vec![]);
    let (matrix_a, matrix_b) = (a.dims.len() > 1, b.dims.len() > 1);
    let lead = out.len() - usize::from(matrix_a) - usize::from(matrix_b);
    let b_lead = b.dims.len().saturating_sub(2);
    // While `b` has no such dim (or size 1 there), a leading dim belongs to `a` alone; only the outermost run of such
    // dims may not be mixed with batch dims behind it, so M takes all or nothing.
    let only_a = b.dims[..b_lead].iter().all(|d| d.is(1));
    let leads: Vec<Expr> = out[..lead].iter().map(|d| k.axis(if only_a { &mut m } else { &mut batch }, d.clone())).collect();
    let row = matrix_a.then(|| k.axis(&mut m, out[lead].clone()));
    let column = matrix_b.then(|| k.axis(&mut n, out[out.len() - 1].clone()));
    let a_rank = a.dims.len();
    let inner_at = if turned.0 && matrix_a { a_rank - 2 } else { a_rank - 1 };
    let inner = k.axis(&mut kk, a.dims[inner_at].clone());
    let index = |buffer: &Buf, outer: Option<&Expr>, first: bool, swap: bool| {
        let own = buffer.dims.len().saturating_sub(2);
        let mut index = broadcast_index(&buffer.dims[..own], &out[..lead], &leads);
        let pair: Vec<Expr> = match outer {
            None => vec![inner.clone()],
            Some(o) if first != swap => vec![o.clone(), inner.clone()],
            Some(o) => vec![inner.clone(), o.clone()],
        };
        index.extend(pair);
        index
    };
    let a_index = index(a, row.as_ref(), true, turned.0);
    let b_index = index(b, column.as_ref(), false, turned.1);
    let plain = |buffer: &Buf, index| Operand { buffer: buffer.id, index, otherwise: None, zero: None, prologue: None };
    let (a, b) = (plain(a, a_index), plain(b, b_index));
    let output = leads.into_iter().chain(row).chain(column.clone()).collect();
    let contract = Contract { batch, m, n, k: kk, a, b, acc, post: Default::default(), stores: vec![] };
    Product { contract, output, column: column.unwrap_or_else(|| 0.into()) }
}

/// Launches `y = numpy.matmul(a, b)`.
pub fn launch(cx: &mut LowerCx, a: &Arg, b: &Arg, y: &Arg) -> Result<()> {
    let mut k = cx.kernel();
    let (ab, bb, yb) = (k.read(a), k.read(b), k.write(y));
    let acc = accumulator(a.dtype);
    let Product { mut contract, output, .. } = contract(&mut k, &ab, &bb, &y.dims, (false, false), acc);
    let sum = contract.post.param(0, acc);
    let sum = contract.post.cast(y.dtype, sum);
    contract.stores.push(Store::at(&yb, output.iter().map(Into::into).collect(), sum));
    k.step(Step::Contract(contract));
    cx.launch(k)
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let (a, b, y) = (cx.arg(0)?, cx.arg(1)?, cx.result(0)?);
    launch(cx, &a, &b, &y)
}
