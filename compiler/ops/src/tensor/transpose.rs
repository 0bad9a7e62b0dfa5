//! Transpose. ONNX: "Transpose the input tensor similar to numpy.transpose"; without `perm` the dims are reversed.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::position;
use oaaxc_ir::{Datum, ReadAttributes, ReadOperands};

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static TRANSPOSE: OpDef =
    OpDef { name: "Transpose", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };

/// The permutation, checked.
fn permutation(cx: &impl ReadAttributes, rank: usize) -> Result<Vec<usize>> {
    let Some(perm) = cx.ints("perm")? else { return Ok((0..rank).rev().collect()) };
    // Where squeezing of unknown sizes left another rank than the run has, this is where it is met.
    if perm.len() != rank {
        return Err(cx.fail(Code::RANK, format!("`perm` {perm:?} orders {} dims, and the operand has {rank}", perm.len())));
    }
    let mut sorted = perm.clone();
    sorted.sort_unstable();
    if sorted != (0..rank as i64).collect::<Vec<_>>() {
        return Err(cx.fail(Code::ATTRIBUTE, format!("`perm` {perm:?} is not a permutation of {rank} dims")));
    }
    Ok(perm.into_iter().map(|p| p as usize).collect())
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (cx.dtype(0)?, cx.shape(0)?);
    let perm = permutation(cx, shape.len())?;
    cx.set_known(0, dtype, perm.iter().map(|&p| shape[p].clone()).collect(), cx.known(0));
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let perm = permutation(cx, x.rank())?;
    let dims = perm.iter().map(|&p| x.dims[p]).collect();
    let y = x.gathered(dims, |c| {
        let mut from = vec![0; perm.len()];
        for (to, &p) in perm.iter().enumerate() {
            from[p] = c[to];
        }
        position(&from, &x.dims)
    });
    Ok(vec![y.into()])
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let (x, y) = (cx.arg(0)?, cx.result(0)?);
    let perm = permutation(cx, x.dims.len())?;
    cx.gather_map(&x, &y, |axes| {
        let mut from = vec![Expr::constant(0); axes.len()];
        for (to, &p) in perm.iter().enumerate() {
            from[p] = axes[to].clone();
        }
        from
    })
}
