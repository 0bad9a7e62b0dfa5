//! AffineGrid. ONNX: "Generates a 2D or 3D flow field (sampling grid), given a batch of affine matrices theta";
//! a point is theta · (x, y, [z,] 1), coordinates run over [-1, 1] (`align_corners`: pixel centres reach the ends).

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{BinaryOp, Index, Loop, Store};
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::{Coordinates, Tensor, position};
use oaaxc_ir::{Datum, ReadAttributes, ReadOperands, Type};

use crate::formula::{Formula, compute_type};
use crate::sizes::dim;

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static AFFINE_GRID: OpDef =
    OpDef { name: "AffineGrid", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };

/// The grid's dims for sizes (N, C, [D,] H, W).
fn grid<T: Clone>(sizes: &[T], points: T) -> Vec<T> {
    let mut dims = vec![sizes[0].clone()];
    dims.extend_from_slice(&sizes[2..]);
    dims.push(points);
    dims
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let dtype = cx.dtype(0)?;
    let count = Expr::product(&cx.shape(1)?).as_const();
    let Some(count @ (4 | 5)) = count else {
        return Err(cx.fail(Code::SHAPE, "the size must have 4 or 5 elements"));
    };
    let sizes = match cx.known(1) {
        Some(sizes) => sizes,
        None => (0..count).map(|_| cx.fresh("grid")).collect(),
    };
    cx.set(0, dtype, grid(&sizes, (count - 2).into()));
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (theta, sizes) = (cx.input(0)?, cx.input(1)?.to_i64s());
    let align = cx.flag("align_corners", false)?;
    let sizes: Vec<usize> = sizes.into_iter().map(dim).collect();
    let points = sizes.len() - 2;
    let dims = grid(&sizes, points);
    let element = |c: Vec<usize>| {
        let at = |d: usize| {
            let (i, size) = (c[1 + d] as f64, dims[1 + d] as f64);
            match align {
                true if size > 1.0 => -1.0 + 2.0 * i / (size - 1.0),
                true => -1.0,
                false => (2.0 * i + 1.0) / size - 1.0,
            }
        };
        // Coordinates stand in the order x, y, z: the last dim first.
        let row = c[points + 1];
        let weight = |j: usize| theta.f64_at(position(&[c[0], row, j], &theta.dims));
        (0..points).map(|j| weight(j) * at(points - 1 - j)).sum::<f64>() + weight(points)
    };
    let values: Vec<f64> = Coordinates::new(&dims).map(element).collect();
    Ok(vec![Tensor::from_f64s(theta.dtype, dims, values).into()])
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let theta = cx.arg(0)?;
    let align = cx.flag("align_corners", false)?;
    if cx.known(1).is_none() {
        let cells = cx.sizes(1)?;
        let wanted = grid(&cells, (cells.len() - 2).into());
        let Some(Type::Tensor(ty)) = cx.output_type(0).cloned() else { return Ok(()) };
        for (size, value) in ty.shape.iter().flatten().zip(wanted) {
            if *size != value {
                cx.define(size, value)?;
            }
        }
    }
    let y = cx.result(0)?;
    let points = y.dims.len() - 2;
    let dtype = compute_type(theta.dtype);
    let mut k = cx.kernel();
    let (tb, yb) = (k.read(&theta), k.write(&y));
    let mut l = Loop::default();
    let c = k.axes(&mut l.parallel, &y.dims);
    let mut f = Formula { body: &mut l.post, dtype };
    let weight = |f: &mut Formula, j: usize| {
        let index = vec![Index::from(&c[0]), Index::from(&c[points + 1]), Index::Expr(j.into())];
        let v = f.body.load(&tb, index);
        f.body.cast(dtype, v)
    };
    let mut sum = weight(&mut f, points);
    for j in 0..points {
        let d = points - j;
        let (i, size) = (f.body.index(&c[d] * 2 + if align { 0 } else { 1 }), &y.dims[d]);
        let i = f.body.cast(dtype, i);
        let size = f.body.index(if align { (size - 1).maximum(&1.into()) } else { size.clone() });
        let size = f.body.cast(dtype, size);
        let part = f.div(i, size);
        let at = f.add_number(part, -1.0);
        let w = weight(&mut f, j);
        let product = f.body.binary(BinaryOp::Mul, w, at);
        sum = f.add(sum, product);
    }
    let v = l.post.cast(y.dtype, sum);
    l.stores.push(Store::at(&yb, c.iter().map(Index::from).collect(), v));
    k.push(l);
    cx.launch(k)
}
