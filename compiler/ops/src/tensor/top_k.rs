//! TopK. ONNX: "Retrieve the top-K largest or smallest elements along a specified axis"; "Given two equivalent
//! values, this operator uses the indices along the axis as a tiebreaker. That is, the element with the lower
//! index will appear first." Our order is always sorted; NaN counts as largest.

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::graph::Attribute;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::interpret::arithmetic::compare;
use oaaxc_ir::kernel::{Body, Index, Loop, LoopAxis, Sort, Step, Store};
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef};
use oaaxc_ir::tensor::{Coordinates, Tensor, position};
use oaaxc_ir::upgrade::UpgradeCx;
use oaaxc_ir::{DType, Datum, ReadAttributes, ReadOperands, Type};

use crate::sizes::dim;

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static TOP_K: OpDef = OpDef { name: "TopK", domain: "", upgrade, infer, eval, lower: Lower::Kernels(lower) };

/// Before 10 the number was an attribute.
fn upgrade(cx: &mut UpgradeCx) -> Result<()> {
    if let Some(Attribute::Int(k)) = cx.take("k") {
        cx.set_input(1, Tensor::from_i64s(DType::I64, vec![1], [k]));
    }
    Ok(())
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, mut shape) = (cx.dtype(0)?, cx.shape(0)?);
    let axis = cx.axis("axis", -1, shape.len())?;
    shape[axis] = match cx.known(1) {
        Some(k) if k.len() == 1 => {
            if let (Some(k), Some(size)) = (k[0].as_const(), shape[axis].as_const())
                && k > size
            {
                return Err(cx.fail(Code::VALUE, format!("{k} elements of a dim of {size} are asked for")));
            }
            k[0].clone()
        }
        _ => cx.fresh("top"),
    };
    cx.set(0, dtype, shape.clone());
    cx.set(1, DType::I64, shape);
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let (x, k) = (cx.input(0)?, dim(cx.input(1)?.i64_at(0)));
    let axis = cx.axis("axis", -1, x.rank())?;
    let largest = cx.flag("largest", true)?;
    if k > x.dims[axis] {
        return Err(cx.fail(Code::VALUE, format!("{k} elements of a dim of {} are asked for", x.dims[axis])));
    }
    let mut dims = x.dims.clone();
    dims[axis] = k;
    let mut indices = vec![0; dims.iter().product()];
    let mut rows = x.dims.clone();
    rows[axis] = 1;
    for mut c in Coordinates::new(&rows) {
        let mut at = |i: usize| {
            c[axis] = i;
            x.get(position(&c, &x.dims))
        };
        let keys: Vec<_> = (0..x.dims[axis]).map(&mut at).collect();
        let mut order: Vec<usize> = (0..keys.len()).collect();
        order.sort_by(|&a, &b| if largest { compare(keys[b], keys[a]) } else { compare(keys[a], keys[b]) });
        for (rank, &i) in order.iter().take(k).enumerate() {
            c[axis] = rank;
            indices[position(&c, &dims)] = i as i64;
        }
    }
    let values = x.gathered(dims.clone(), |c| {
        let mut from = c.to_vec();
        from[axis] = dim(indices[position(c, &dims)]);
        position(&from, &x.dims)
    });
    Ok(vec![values.into(), Tensor::from_i64s(DType::I64, dims, indices).into()])
}

/// Two kernels: the order of each row, then its first elements.
fn lower(cx: &mut LowerCx) -> Result<()> {
    let x = cx.arg(0)?;
    let axis = cx.axis("axis", -1, x.dims.len())?;
    let largest = cx.flag("largest", true)?;
    if cx.known(1).is_none() {
        let cell = cx.sizes(1)?[0].clone();
        for i in 0..2 {
            if let Some(Type::Tensor(ty)) = cx.output_type(i).cloned() {
                cx.define(&ty.shape.unwrap_or_default()[axis], cell.clone())?;
                break;
            }
        }
        cx.check(Expr::constant(1) - x.dims[axis].less(&cell), "TopK: more elements are asked for than there are".into());
    }
    let order = cx.temp(DType::I64, x.dims.clone());
    let mut k = cx.kernel();
    let (xb, ob) = (k.read(&x), k.write(&order));
    let (mut parallel, mut index) = (Vec::new(), Vec::new());
    let along = k.new_axis();
    for (d, size) in x.dims.iter().enumerate() {
        index.push(if d == axis { Expr::axis(along) } else { k.axis(&mut parallel, size.clone()) });
    }
    let mut key = Body::default();
    let value = key.load(&xb, index.iter().map(Index::from).collect());
    let along = LoopAxis { axis: along, extent: x.dims[axis].clone() };
    k.step(Step::Sort(Sort { parallel, along, key, value, descending: largest, order: ob.id, index }));
    cx.launch(k)?;

    let wanted = [cx.has_output(0), cx.has_output(1)];
    let values = if wanted[0] { Some(cx.result(0)?) } else { None };
    let indices = if wanted[1] { Some(cx.result(1)?) } else { None };
    let Some(dims) = values.as_ref().or(indices.as_ref()).map(|y| y.dims.clone()) else { return Ok(()) };
    let mut k = cx.kernel();
    let (xb, ob) = (k.read(&x), k.read(&order));
    let (vb, ib) = (values.as_ref().map(|y| k.write(y)), indices.as_ref().map(|y| k.write(y)));
    let mut l = Loop::default();
    let c: Vec<Index> = k.axes(&mut l.parallel, &dims).iter().map(Index::from).collect();
    let pick = l.post.load(&ob, c.clone());
    if let Some(vb) = &vb {
        let mut from = c.clone();
        from[axis] = Index::Value(pick);
        let v = l.post.load(&xb, from);
        l.stores.push(Store::at(vb, c.clone(), v));
    }
    if let Some(ib) = &ib {
        l.stores.push(Store::at(ib, c, pick));
    }
    k.push(l);
    cx.launch(k)
}
