//! Concat. ONNX: "Concatenate a list of tensors into a single tensor. All input tensors must have the same
//! shape, except for the dimension size of the axis to concatenate on."

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{Index, Loop, Store};
use oaaxc_ir::lower::{Arg, LowerCx};
use oaaxc_ir::op::{Lower, OpDef};
use oaaxc_ir::tensor::{Coordinates, Tensor, position};
use oaaxc_ir::upgrade::UpgradeCx;
use oaaxc_ir::{Attribute, DType, Datum, ReadAttributes, ReadOperands};

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static CONCAT: OpDef = OpDef { name: "Concat", domain: "", upgrade, infer, eval, lower: Lower::Kernels(lower) };

/// Before 4 the axis had a default.
fn upgrade(cx: &mut UpgradeCx) -> Result<()> {
    if cx.version < 4 && !cx.has("axis") {
        cx.set("axis", Attribute::Int(1));
    }
    Ok(())
}

fn axis(cx: &impl ReadAttributes, rank: usize) -> Result<usize> {
    let axis = cx.required_int("axis")?;
    oaaxc_ir::attributes::normalize_axis(cx.node(), axis, rank)
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, mut out) = (cx.dtype(0)?, cx.shape(0)?);
    let axis = axis(cx, out.len())?;
    for i in 1..cx.input_count() {
        let shape = cx.shape(i)?;
        if cx.dtype(i)? != dtype || shape.len() != out.len() {
            return Err(cx.fail(Code::SHAPE, format!("input {i} differs from the first in element type or rank")));
        }
        for d in 0..out.len() {
            if d == axis {
                out[d] = &out[d] + &shape[d];
            } else {
                cx.require_equal(&out[d], &shape[d], &format!("dim {d} of input {i} must be that of the first"))?;
                if shape[d].as_const().is_some() {
                    out[d] = shape[d].clone();
                }
            }
        }
    }
    let known: Option<Vec<Vec<Expr>>> = (0..cx.input_count()).map(|i| cx.known(i)).collect();
    cx.set_known(0, dtype, out, known.map(|k| k.concat()));
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let tensors: Vec<&Tensor> = (0..cx.inputs.len()).map(|i| cx.input(i)).collect::<Result<_>>()?;
    let axis = axis(cx, tensors[0].rank())?;
    let y = joined(&tensors, axis);
    Ok(vec![y.ok_or_else(|| cx.fail(Code::SHAPE, "the inputs differ in a dim other than the axis"))?.into()])
}

/// Tensors joined along an axis. `None` where their other dims differ.
pub fn joined(tensors: &[&Tensor], axis: usize) -> Option<Tensor> {
    let mut dims = tensors.first()?.dims.clone();
    dims[axis] = 0;
    for t in tensors {
        let mut other = t.dims.clone();
        *other.get_mut(axis)? = dims[axis];
        if other != dims {
            return None;
        }
        dims[axis] += t.dims[axis];
    }
    // Which tensor, and where in it.
    let from = |c: &[usize]| {
        let (mut which, mut at) = (0, c[axis]);
        while at >= tensors[which].dims[axis] {
            at -= tensors[which].dims[axis];
            which += 1;
        }
        let mut own = c.to_vec();
        own[axis] = at;
        (which, position(&own, &tensors[which].dims))
    };
    let dtype = tensors[0].dtype;
    let all = Coordinates::new(&dims).map(|c| from(&c));
    if dtype == DType::String {
        let strings = all.map(|(which, at)| tensors[which].string_at(at).to_vec()).collect();
        return Some(Tensor::from_strings(dims, strings));
    }
    let scalars: Vec<_> = all.map(|(which, at)| tensors[which].get(at)).collect();
    Some(Tensor::from_scalars(dtype, dims, scalars))
}

/// One kernel with a loop for each operand.
fn lower(cx: &mut LowerCx) -> Result<()> {
    let args = (0..cx.input_count()).map(|i| cx.arg(i)).collect::<Result<Vec<_>>>()?;
    let y = cx.result(0)?;
    let axis = axis(cx, y.dims.len())?;
    lower_joined(cx, &args, &y, axis)
}

/// Writes tensors one after the other along an axis.
pub fn lower_joined(cx: &mut LowerCx, args: &[Arg], y: &Arg, axis: usize) -> Result<()> {
    let mut k = cx.kernel();
    let mut offset = Expr::constant(0);
    let buffers: Vec<_> = args.iter().map(|a| k.read(a)).collect();
    let yb = k.write(y);
    for (arg, x) in args.iter().zip(&buffers) {
        if arg.dims[axis].is(0) {
            continue;
        }
        let mut l = Loop::default();
        let axes = k.axes(&mut l.parallel, &arg.dims);
        let v = l.post.load(x, axes.iter().map(Index::from).collect());
        let to = axes.iter().enumerate().map(|(d, a)| Index::Expr(if d == axis { a + &offset } else { a.clone() }));
        l.stores.push(Store::at(&yb, to.collect(), v));
        k.push(l);
        offset = offset + &arg.dims[axis];
    }
    cx.launch(k)
}
