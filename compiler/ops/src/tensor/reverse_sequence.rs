//! ReverseSequence. ONNX: "Reverse batch of sequences having different lengths specified by sequence_lens":
//! the first `sequence_lens[b]` elements along `time_axis` are reversed, the rest stay.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Index, Loop, Store};
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::position;
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands};

use crate::sizes::dim;

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static REVERSE_SEQUENCE: OpDef =
    OpDef { name: "ReverseSequence", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };

fn axes(cx: &impl ReadAttributes, rank: usize) -> Result<(usize, usize)> {
    let (batch, time) = (cx.axis("batch_axis", 1, rank)?, cx.axis("time_axis", 0, rank)?);
    if batch == time {
        return Err(cx.fail(Code::ATTRIBUTE, "`batch_axis` and `time_axis` are the same"));
    }
    Ok((batch, time))
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape, lengths) = (cx.dtype(0)?, cx.shape(0)?, cx.shape(1)?);
    let (batch, _) = axes(cx, shape.len())?;
    let [length] = &lengths[..] else { return Err(cx.fail(Code::RANK, "the lengths must have one dim")) };
    cx.require_equal(length, &shape[batch], "there must be one length for each batch")?;
    cx.set(0, dtype, shape);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (x, lengths) = (cx.input(0)?, cx.input(1)?.to_i64s());
    let (batch, time) = axes(cx, x.rank())?;
    if lengths.iter().any(|&l| l < 0 || dim(l) > x.dims[time]) {
        return Err(cx.fail(Code::VALUE, "a length is outside the time axis"));
    }
    let y = x.gathered(x.dims.clone(), |c| {
        let (mut from, length) = (c.to_vec(), dim(lengths[c[batch]]));
        if c[time] < length {
            from[time] = length - 1 - c[time];
        }
        position(&from, &x.dims)
    });
    Ok(vec![y.into()])
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let (x, lengths, y) = (cx.arg(0)?, cx.arg(1)?, cx.result(0)?);
    let (batch, time) = axes(cx, x.dims.len())?;
    let mut k = cx.kernel();
    let (xb, lb, yb) = (k.read(&x), k.read(&lengths), k.write(&y));
    let mut l = Loop::default();
    let c = k.axes(&mut l.parallel, &y.dims);
    let length = l.post.load(&lb, vec![Index::from(&c[batch])]);
    let length = l.post.cast(DType::I64, length);
    let (t, last) = (l.post.index(c[time].clone()), l.post.index(&c[time] + 1));
    let inside = l.post.binary(BinaryOp::Lt, t, length);
    let mirrored = l.post.binary(BinaryOp::Sub, length, last);
    let at = l.post.select(inside, mirrored, t);
    let index: Vec<Index> = c.iter().map(Index::from).collect();
    let mut from = index.clone();
    from[time] = Index::Value(at);
    let v = l.post.load_checked(&xb, from);
    l.stores.push(Store::at(&yb, index, v));
    k.push(l);
    cx.launch(k)
}
