//! Col2Im. ONNX: "The operator rearranges column blocks back into a multidimensional image": each image
//! element is the sum of the block elements that lie on it.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::kernel::{Fold, FoldKind, Index, Loop, Store};
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef, no_upgrade};
use oaaxc_ir::tensor::{Coordinates, Tensor, position};
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands, Scalar, Type};

use crate::formula::compute_type;
use crate::sizes::dim;

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static COL2IM: OpDef = OpDef { name: "Col2Im", domain: "", upgrade: no_upgrade, infer, eval, lower: Lower::Kernels(lower) };

/// The blocks: sizes, dilations, pads before, strides, one per image dim, and pads after.
struct Blocks {
    size: Vec<Expr>,
    dilation: Vec<i64>,
    before: Vec<i64>,
    after: Vec<i64>,
    stride: Vec<i64>,
}

fn blocks(cx: &impl ReadAttributes, size: Vec<Expr>) -> Result<Blocks> {
    let rank = size.len();
    let list = |name: &str, count: usize, default: i64| -> Result<Vec<i64>> {
        let values = cx.ints(name)?.unwrap_or_else(|| vec![default; count]);
        if values.len() == count {
            Ok(values)
        } else {
            Err(cx.fail(Code::ATTRIBUTE, format!("`{name}` must have {count} elements")))
        }
    };
    let pads = list("pads", 2 * rank, 0)?;
    let (before, after) = pads.split_at(rank);
    let stride = list("strides", rank, 1)?;
    if stride.iter().any(|&v| v < 1) || size.iter().filter_map(Expr::as_const).any(|v| v < 1) {
        return Err(cx.fail(Code::ATTRIBUTE, "strides and block sizes must be positive"));
    }
    Ok(Blocks { dilation: list("dilations", rank, 1)?, before: before.to_vec(), after: after.to_vec(), stride, size })
}

impl Blocks {
    /// How many blocks lie along dim `d` of an image of this size.
    fn count(&self, d: usize, image: &Expr) -> Expr {
        let span = (&self.size[d] - 1) * self.dilation[d] + 1;
        (image + &Expr::constant(self.before[d] + self.after[d]) - span).floor_div(&self.stride[d].into()) + 1
    }
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (cx.dtype(0)?, cx.shape(0)?);
    let rank = Expr::product(&cx.shape(2)?).as_const().map(dim);
    let rank = rank.ok_or_else(|| cx.fail(Code::RANK, "the number of image dims must be known when the model is built"))?;
    let Some(size) = cx.known(2) else {
        let batch = cx.shape(0)?.first().cloned().unwrap_or(1.into());
        let channels = cx.fresh("channels");
        let image = match cx.known(1) {
            Some(image) => image,
            None => (0..rank).map(|_| cx.fresh("image")).collect(),
        };
        cx.set(0, dtype, [vec![batch, channels], image].concat());
        return Ok(());
    };
    let blocks = blocks(cx, size)?;
    let [n, channels, length] = &shape[..] else { return Err(cx.fail(Code::RANK, "the input must have 3 dims")) };
    let area = Expr::product(&blocks.size);
    let channels = channels.floor_div(&area);
    let mut out = vec![n.clone(), channels];
    match cx.known(1) {
        Some(image) => {
            let count = Expr::product(&image.iter().enumerate().map(|(d, i)| blocks.count(d, i)).collect::<Vec<_>>());
            cx.require_equal(&count, length, "the number of blocks")?;
            out.extend(image);
        }
        None => out.extend((0..blocks.size.len()).map(|_| cx.fresh("image"))),
    }
    cx.set(0, dtype, out);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let image: Vec<usize> = cx.input(1)?.to_i64s().into_iter().map(dim).collect();
    let size: Vec<usize> = cx.input(2)?.to_i64s().into_iter().map(dim).collect();
    let blocks = blocks(cx, size.iter().map(|&s| s.into()).collect())?;
    let area: usize = size.iter().product();
    let counts: Vec<usize> =
        image.iter().enumerate().map(|(d, &i)| dim(blocks.count(d, &i.into()).as_const().unwrap_or(0))).collect();
    let dims = [&[x.dims[0], x.dims[1] / area], &image[..]].concat();
    let mut out = vec![0.0; dims.iter().product()];
    for n in 0..dims[0] {
        for c in 0..dims[1] {
            for (o, offset) in Coordinates::new(&size).enumerate() {
                for (b, block) in Coordinates::new(&counts).enumerate() {
                    let at =
                        |d: usize| block[d] as i64 * blocks.stride[d] - blocks.before[d] + offset[d] as i64 * blocks.dilation[d];
                    let at: Vec<i64> = (0..image.len()).map(at).collect();
                    if at.iter().zip(&image).all(|(&i, &size)| 0 <= i && (i as usize) < size) {
                        let to: Vec<usize> = [n, c].into_iter().chain(at.iter().map(|&i| dim(i))).collect();
                        out[position(&to, &dims)] += x.f64_at(position(&[n, c * area + o, b], &x.dims));
                    }
                }
            }
        }
    }
    Ok(vec![Tensor::from_f64s(x.dtype, dims, out).into()])
}

/// Each image element looks for the blocks that lie on it.
fn lower(cx: &mut LowerCx) -> Result<()> {
    let x = cx.arg(0)?;
    let size = cx.sizes(2)?;
    let blocks = blocks(cx, size.clone())?;
    let image = cx.sizes(1)?;
    if let Some(Type::Tensor(ty)) = cx.output_type(0).cloned() {
        let sizes = ty.shape.unwrap_or_default();
        if cx.known(2).is_none() {
            cx.define(&sizes[1], x.dims[1].floor_div(&Expr::product(&size)))?;
        }
        if cx.known(1).is_none() {
            for (size, cell) in sizes[2..].iter().zip(&image) {
                cx.define(size, cell.clone())?;
            }
        }
    }
    let y = cx.result(0)?;
    let acc = if x.dtype.is_float() { compute_type(x.dtype) } else { x.dtype };
    let mut k = cx.kernel();
    let (xb, yb) = (k.read(&x), k.write(&y));
    let mut l = Loop::default();
    let c = k.axes(&mut l.parallel, &y.dims);
    let offset = k.axes(&mut l.reduce, &size);
    let (mut hits, mut block, mut element) = (Expr::constant(1), Expr::constant(0), Expr::constant(0));
    for d in 0..image.len() {
        let stride = Expr::constant(blocks.stride[d]);
        let start = &c[2 + d] + blocks.before[d] - &offset[d] * blocks.dilation[d];
        let (at, count) = (start.floor_div(&stride), blocks.count(d, &image[d]));
        let inside = (Expr::constant(1) - at.less(&0.into())) * at.less(&count);
        hits = hits * inside * start.modulo(&stride).equal(&0.into());
        block = block * count + at;
        element = element * &size[d] + &offset[d];
    }
    let area = Expr::product(&size);
    let hits = l.body.index(hits);
    let hits = l.body.cast(DType::Bool, hits);
    let index = vec![Index::from(&c[0]), Index::Expr(&c[1] * &area + element), Index::Expr(block)];
    let v = l.body.load_when(&xb, index, hits, Scalar::zero(x.dtype));
    let v = l.body.cast(acc, v);
    l.folds.push(Fold { kind: FoldKind::Sum, value: v, dtype: acc });
    let total = l.post.param(0, acc);
    let total = l.post.cast(y.dtype, total);
    l.stores.push(Store::at(&yb, c.iter().map(Index::from).collect(), total));
    k.push(l);
    cx.launch(k)
}
