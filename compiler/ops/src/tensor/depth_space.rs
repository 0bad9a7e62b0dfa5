//! DepthToSpace and SpaceToDepth: blocks of channels become blocks of pixels, and back.
//!
//! ONNX DepthToSpace: DCR reshapes the depth to [blocksize, blocksize, depth/blocksize²], CRD to
//! [depth/blocksize², blocksize, blocksize]. SpaceToDepth is the inverse of either.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::position;
use oaaxc_ir::{Datum, ReadAttributes, ReadOperands};

use crate::sizes::dim;

type Result<T> = std::result::Result<T, Diagnostic>;

/// ONNX DepthToSpace.
pub static DEPTH_TO_SPACE: OpDef =
    OpDef { name: "DepthToSpace", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };
/// ONNX SpaceToDepth.
pub static SPACE_TO_DEPTH: OpDef =
    OpDef { name: "SpaceToDepth", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };

#[derive(Clone, Copy)]
enum Kind {
    /// Depth to space, block index outermost in the depth.
    Dcr,
    /// Depth to space, block index innermost in the depth.
    Crd,
    /// The inverse of DCR.
    InverseDcr,
    /// The inverse of CRD.
    InverseCrd,
}

fn kind(cx: &impl ReadAttributes) -> Result<(Kind, i64)> {
    let block = cx.required_int("blocksize")?;
    if block < 1 {
        return Err(cx.fail(Code::ATTRIBUTE, format!("`blocksize` is {block}")));
    }
    let kind = match (cx.node().op.name, &cx.text("mode", "DCR")?[..]) {
        ("SpaceToDepth", "DCR") => Kind::InverseDcr,
        ("SpaceToDepth", "CRD") => Kind::InverseCrd,
        (_, "DCR") => Kind::Dcr,
        (_, "CRD") => Kind::Crd,
        (_, other) => return Err(cx.fail(Code::ATTRIBUTE, format!("`mode` \"{other}\" is neither DCR nor CRD"))),
    };
    Ok((kind, block))
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (cx.dtype(0)?, cx.shape(0)?);
    let (kind, block) = kind(cx)?;
    let [n, c, h, w] = &shape[..] else { return Err(cx.fail(Code::RANK, "the input must have 4 dims")) };
    let b = Expr::constant(block);
    let out = match kind {
        Kind::InverseDcr | Kind::InverseCrd => vec![n.clone(), c * &b * &b, h.floor_div(&b), w.floor_div(&b)],
        Kind::Dcr | Kind::Crd => vec![n.clone(), c.floor_div(&(&b * &b)), h * &b, w * &b],
    };
    cx.require_equal(&Expr::product(&shape), &Expr::product(&out), "the block does not divide the sizes")?;
    cx.set(0, dtype, out);
    Ok(())
}

/// Where an element of the result comes from.
fn source(kind: Kind, block: &Expr, c_in: &Expr, c_out: &Expr, at: &[Expr]) -> Vec<Expr> {
    let (n, c, h, w) = (&at[0], &at[1], &at[2], &at[3]);
    let (row, column) = (h.modulo(block), w.modulo(block));
    let (small_h, small_w) = (h.floor_div(block), w.floor_div(block));
    let depth = match kind {
        Kind::Dcr => (&row * block + column) * c_out + c,
        Kind::Crd => (c * block + row) * block + column,
        Kind::InverseDcr | Kind::InverseCrd => {
            let area = block * block;
            let (which, from) = match kind {
                Kind::InverseDcr => (c.floor_div(c_in), c.modulo(c_in)),
                _ => (c.modulo(&area), c.floor_div(&area)),
            };
            return vec![n.clone(), from, h * block + which.floor_div(block), w * block + which.modulo(block)];
        }
    };
    vec![n.clone(), depth, small_h, small_w]
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let (kind, block) = kind(cx)?;
    let [n, c, h, w] = x.dims[..] else { return Err(cx.fail(Code::RANK, "the input must have 4 dims")) };
    let b = dim(block);
    let out = match kind {
        Kind::InverseDcr | Kind::InverseCrd => vec![n, c * b * b, h / b, w / b],
        Kind::Dcr | Kind::Crd => vec![n, c / (b * b), h * b, w * b],
    };
    let depth = out[1];
    let y = x.gathered(out, |at| {
        let (i, j) = (at[2] % b, at[3] % b);
        let from = match kind {
            Kind::Dcr => [at[0], (i * b + j) * depth + at[1], at[2] / b, at[3] / b],
            Kind::Crd => [at[0], (at[1] * b + i) * b + j, at[2] / b, at[3] / b],
            Kind::InverseDcr | Kind::InverseCrd => {
                let inner = matches!(kind, Kind::InverseCrd);
                let (block, from) = if inner { (at[1] % (b * b), at[1] / (b * b)) } else { (at[1] / c, at[1] % c) };
                [at[0], from, at[2] * b + block / b, at[3] * b + block % b]
            }
        };
        position(&from, &x.dims)
    });
    Ok(vec![y.into()])
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let (x, y) = (cx.arg(0)?, cx.result(0)?);
    let (kind, block) = kind(cx)?;
    cx.gather_map(&x, &y, |at| source(kind, &block.into(), &x.dims[1], &y.dims[1], at))
}
