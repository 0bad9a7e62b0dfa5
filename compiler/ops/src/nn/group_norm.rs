//! InstanceNormalization and GroupNormalization.
//!
//! ONNX: "y = scale * (x - mean) / sqrt(variance + epsilon) + bias, where mean and variance are computed
//! per instance per channel" (per group of channels). Before 21, GroupNormalization's scale and bias had
//! one element per group: internal attribute `per_group`.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::graph::Attribute;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Body, Index, Store, V};
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef};
use oaaxc_ir::tensor::Tensor;
use oaaxc_ir::upgrade::UpgradeCx;
use oaaxc_ir::{Datum, ReadAttributes, ReadOperands, ix};

use crate::formula::compute_type;
use crate::nn::layer_norm::inverse_root;
use crate::nn::rows::{self, Rows};

type Result<T> = std::result::Result<T, Diagnostic>;

/// ONNX InstanceNormalization.
pub static INSTANCE_NORMALIZATION: OpDef =
    OpDef { name: "InstanceNormalization", domain: "", upgrade, infer, eval, lower: Lower::Kernels(lower) };
/// ONNX GroupNormalization.
pub static GROUP_NORMALIZATION: OpDef =
    OpDef { name: "GroupNormalization", domain: "", upgrade, infer, eval, lower: Lower::Kernels(lower) };

fn upgrade(cx: &mut UpgradeCx) -> Result<()> {
    if cx.node.op.name.starts_with('G') && cx.version < 21 {
        cx.set("per_group", Attribute::Int(1));
    }
    cx.take("consumed_inputs");
    Ok(())
}

/// The number of groups; `None` where every channel is its own.
fn groups(cx: &impl ReadAttributes) -> Result<Option<i64>> {
    if cx.node().op.name.starts_with('I') {
        return Ok(None);
    }
    let groups = cx.required_int("num_groups")?;
    if groups < 1 {
        return Err(cx.fail(Code::ATTRIBUTE, format!("`num_groups` must be positive, not {groups}")));
    }
    Ok(Some(groups))
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (cx.dtype(0)?, cx.shape(0)?);
    if shape.len() < 2 {
        return Err(cx.fail(Code::SHAPE, format!("the input must have batch and channel dims, but its rank is {}", shape.len())));
    }
    let groups = groups(cx)?;
    if let (Some(g), Some(channels)) = (groups, shape[1].as_const())
        && channels % g != 0
    {
        return Err(cx.fail(Code::SHAPE, format!("{channels} channels do not divide into {g} groups")));
    }
    let wanted = if cx.flag("per_group", false)? { groups.unwrap_or(1).into() } else { shape[1].clone() };
    for (i, what) in [(1, "the size of scale"), (2, "the size of bias")] {
        let operand = cx.shape(i)?;
        if operand.len() != 1 {
            return Err(cx.fail(Code::SHAPE, format!("input {i} must have rank 1, not {}", operand.len())));
        }
        cx.require_equal(&operand[0], &wanted, what)?;
    }
    cx.set(0, dtype, shape);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (x, scale, bias) = (cx.input(0)?, cx.input(1)?.to_f64s(), cx.input(2)?.to_f64s());
    let epsilon = f64::from(cx.float("epsilon", 1e-5)?);
    let channels = x.dims[1];
    let groups = groups(cx)?.map_or(channels, |g| usize::try_from(g).expect("checked positive"));
    let per_group = cx.flag("per_group", false)?;
    let pixels: usize = x.dims[2..].iter().product();
    let values = x.to_f64s();
    let mut out = vec![0.0; values.len()];
    for row in rows::positions(&[x.dims[0], groups, channels / groups.max(1) * pixels], &[false, false, true]) {
        let (mean, variance) = rows::moments(&values, &row);
        for &i in &row {
            let channel = i / pixels % channels;
            let p = if per_group { channel / (channels / groups) } else { channel };
            out[i] = (values[i] - mean) / (variance + epsilon).sqrt() * scale[p] + bias[p];
        }
    }
    Ok(vec![Tensor::from_f64s(x.dtype, x.dims.clone(), out).into()])
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let (x, scale, bias, y) = (cx.arg(0)?, cx.arg(1)?, cx.arg(2)?, cx.result(0)?);
    let epsilon = cx.float("epsilon", 1e-5)?;
    let per_group = cx.flag("per_group", false)?;
    let (stat, groups) = (compute_type(x.dtype), groups(cx)?);
    let spatial = &x.dims[2..];
    let per = groups.map(|g| x.dims[1].floor_div(&g.into()));
    let outer = [x.dims[0].clone(), groups.map_or(x.dims[1].clone(), Expr::constant)];
    let inner: Vec<Expr> = per.iter().chain(spatial).cloned().collect();
    let mut rows = Rows::new(cx.kernel(), &outer, &inner, stat);
    let (xb, sb, bb, yb) = (rows.k.read(&x), rows.k.read(&scale), rows.k.read(&bias), rows.k.write(&y));
    let (image, group) = (rows.outer[0].clone(), rows.outer[1].clone());
    let channel = |inner: &[Expr]| per.as_ref().map_or(group.clone(), |per| &group * per + &inner[0]);
    let index = |inner: &[Expr]| -> Vec<Index> {
        let rest = if per.is_some() { &inner[1..] } else { inner };
        [image.clone(), channel(inner)].iter().chain(rest).map(Into::into).collect()
    };
    let load = |b: &mut Body, i: &[Expr]| {
        let v = b.load(&xb, index(i));
        b.cast(stat, v)
    };
    let mean = rows.mean(load, |_, m| m);
    let centred = |b: &mut Body, i: &[Expr]| -> V {
        let (v, m) = (load(b, i), b.load(&mean, vec![]));
        b.binary(BinaryOp::Sub, v, m)
    };
    let inverse = rows.mean(
        |b, i| {
            let d = centred(b, i);
            b.binary(BinaryOp::Mul, d, d)
        },
        |b, v| inverse_root(b, v, epsilon),
    );
    rows.each(|b, i| {
        let (d, inverse) = (centred(b, i), b.load(&inverse, vec![]));
        let v = b.binary(BinaryOp::Mul, d, inverse);
        let p = if per_group { group.clone() } else { channel(i) };
        let (s, t) = (b.load(&sb, ix![p.clone()]), b.load(&bb, ix![p]));
        let (s, t) = (b.cast(stat, s), b.cast(stat, t));
        let v = b.binary(BinaryOp::Mul, v, s);
        let v = b.binary(BinaryOp::Add, v, t);
        let v = b.cast(y.dtype, v);
        vec![Store::at(&yb, index(i), v)]
    });
    cx.launch(rows.k)
}
