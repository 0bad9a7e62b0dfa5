//! TensorScatter. ONNX: "present_cache[cache_idx] = update[update_idx]" at `write_indices[batch]` along `axis`
//! (modulo its size where `mode` is circular); the rest of the cache stays.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Bounds, Index, Loop, Store};
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::{Coordinates, Tensor, position};
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands};

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static TENSOR_SCATTER: OpDef =
    OpDef { name: "TensorScatter", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };

fn is_circular(cx: &impl ReadAttributes) -> Result<bool> {
    match &cx.text("mode", "linear")?[..] {
        "linear" => Ok(false),
        "circular" => Ok(true),
        other => Err(cx.fail(Code::ATTRIBUTE, format!("`mode` \"{other}\" is not known"))),
    }
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape, update) = (cx.dtype(0)?, cx.shape(0)?, cx.shape(1)?);
    let axis = cx.axis("axis", -2, shape.len())?;
    is_circular(cx)?;
    if update.len() != shape.len() {
        return Err(cx.fail(Code::RANK, "cache and update must have equal ranks"));
    }
    for d in (0..shape.len()).filter(|&d| d != axis) {
        cx.require_equal(&shape[d], &update[d], "dims of cache and update must be equal")?;
    }
    cx.set(0, dtype, shape);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (x, update) = (cx.input(0)?, cx.input(1)?);
    let axis = cx.axis("axis", -2, x.rank())?;
    let circular = is_circular(cx)?;
    let starts = cx.optional(2)?.map(Tensor::to_i64s);
    let mut all: Vec<_> = x.scalars().collect();
    for (i, mut c) in Coordinates::new(&update.dims).enumerate() {
        let mut at = starts.as_ref().map_or(0, |s| s[c[0]]) + c[axis] as i64;
        if circular {
            at = at.rem_euclid(x.dims[axis] as i64);
        }
        c[axis] = crate::tensor::gather::checked_index(cx, at, x.dims[axis])?;
        all[position(&c, &x.dims)] = update.get(i);
    }
    Ok(vec![Tensor::from_scalars(x.dtype, x.dims.clone(), all).into()])
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let (x, update, starts, y) = (cx.arg(0)?, cx.arg(1)?, cx.optional_arg(2)?, cx.result(0)?);
    let axis = cx.axis("axis", -2, x.dims.len())?;
    let circular = is_circular(cx)?;
    cx.copy(&x, &y)?;
    let mut k = cx.kernel();
    let (ub, sb, yb) = (k.read(&update), starts.as_ref().map(|s| k.read(s)), k.read_write(&y));
    let mut l = Loop::default();
    let c = k.axes(&mut l.parallel, &update.dims);
    let index: Vec<Index> = c.iter().map(Index::from).collect();
    let v = l.post.load(&ub, index.clone());
    let mut at = l.post.index(c[axis].clone());
    if let Some(sb) = &sb {
        let start = l.post.load(sb, vec![index[0].clone()]);
        let start = l.post.cast(DType::I64, start);
        at = l.post.binary(BinaryOp::Add, at, start);
    }
    if circular {
        let size = l.post.index(x.dims[axis].clone());
        at = l.post.binary(BinaryOp::Mod, at, size);
    }
    let mut to = index;
    to[axis] = Index::Value(at);
    l.stores.push(Store { bounds: Bounds::Fault, ..Store::at(&yb, to, v) });
    k.push(l);
    cx.launch(k)
}
