//! Split. ONNX: "Split a tensor into a list of tensors, along the specified 'axis'", either by sizes
//! (operand `split`) or into `num_outputs` equal parts: "If the tensor is not evenly splittable into
//! num_outputs, the last chunk will be smaller".

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::eval::EvalCx;
use oaaxc_ir::expr::Expr;
use oaaxc_ir::infer::InferCx;
use oaaxc_ir::lower::LowerCx;
use oaaxc_ir::op::{Lower, OpDef};
use oaaxc_ir::tensor::position;
use oaaxc_ir::upgrade::UpgradeCx;
use oaaxc_ir::{Datum, ReadAttributes, ReadOperands, Type};

use crate::sizes::dim;

type Result<T> = std::result::Result<T, Diagnostic>;

/// The operator.
pub static SPLIT: OpDef = OpDef { name: "Split", domain: "", upgrade, infer, eval, lower: Lower::Kernels(lower) };

/// Before 13 the sizes were an attribute.
fn upgrade(cx: &mut UpgradeCx) -> Result<()> {
    cx.ints_to_input("split", 1);
    Ok(())
}

/// Sizes of `parts` parts that are equal, the last smaller where they cannot be.
fn equal_parts(size: &Expr, parts: usize) -> Vec<Expr> {
    let chunk = size.ceil_div(&parts.max(1).into());
    let whole = &chunk * &Expr::from(parts) == *size;
    let part = |i: usize| if whole { chunk.clone() } else { (size - &chunk * &Expr::from(i)).maximum(&0.into()).minimum(&chunk) };
    (0..parts).map(part).collect()
}

fn infer(cx: &mut InferCx) -> Result<()> {
    let (dtype, shape) = (cx.dtype(0)?, cx.shape(0)?);
    let axis = cx.axis("axis", 0, shape.len())?;
    let parts = cx.output_count();
    let sizes = match (cx.has_input(1), cx.known(1)) {
        (true, Some(sizes)) if sizes.len() == parts => {
            let total = sizes.iter().fold(Expr::constant(0), |a, b| a + b);
            cx.require_equal(&total, &shape[axis], "the parts must add up to the whole")?;
            sizes
        }
        (true, Some(sizes)) => {
            return Err(cx.fail(Code::OPERAND, format!("{} sizes are given for {parts} results", sizes.len())));
        }
        (true, None) => (0..parts).map(|_| cx.fresh("part")).collect(),
        (false, _) => {
            let sizes = equal_parts(&shape[axis], parts);
            if !cx.has("num_outputs") {
                let total = &sizes[0] * &Expr::from(parts);
                cx.require_equal(&total, &shape[axis], "the axis must divide evenly")?;
                vec![sizes[0].clone(); parts]
            } else {
                sizes
            }
        }
    };
    let known = cx.known(0).zip(sizes.iter().map(Expr::as_const).collect::<Option<Vec<i64>>>());
    let mut start = 0usize;
    for (i, size) in sizes.into_iter().enumerate() {
        let elements = known.as_ref().and_then(|(known, counts)| {
            let end = start + dim(counts[i]);
            let part = known.get(start..end).map(<[Expr]>::to_vec);
            start = end;
            part
        });
        let mut dims = shape.clone();
        dims[axis] = size;
        cx.set_known(i, dtype, dims, elements);
    }
    Ok(())
}

fn eval(cx: &EvalCx) -> Result<Vec<Datum>> {
    let x = cx.input(0)?;
    let axis = cx.axis("axis", 0, x.rank())?;
    let sizes: Vec<usize> = match cx.optional(1)? {
        Some(sizes) => sizes.to_i64s().into_iter().map(dim).collect(),
        None => {
            let parts = equal_parts(&x.dims[axis].into(), cx.output_count());
            parts.iter().map(|p| dim(p.as_const().expect("numbers give numbers"))).collect()
        }
    };
    if sizes.iter().sum::<usize>() != x.dims[axis] {
        return Err(cx.fail(Code::SHAPE, format!("parts {sizes:?} do not add up to {}", x.dims[axis])));
    }
    let mut start = 0;
    let mut parts = Vec::new();
    for size in sizes {
        let mut dims = x.dims.clone();
        dims[axis] = size;
        let part = x.gathered(dims, |c| {
            let mut from = c.to_vec();
            from[axis] += start;
            position(&from, &x.dims)
        });
        parts.push(part.into());
        start += size;
    }
    Ok(parts)
}

fn lower(cx: &mut LowerCx) -> Result<()> {
    let x = cx.arg(0)?;
    let axis = cx.axis("axis", 0, x.dims.len())?;
    let parts = cx.output_count();
    let mut offset = Expr::constant(0);
    let cells = if cx.has_input(1) && cx.known(1).is_none() { Some(cx.sizes(1)?) } else { None };
    let mut total = Expr::constant(0);
    for i in 0..parts {
        let size = match (&cells, cx.output_type(i).cloned()) {
            (Some(cells), ty) => {
                if let Some(Type::Tensor(ty)) = ty {
                    cx.define(&ty.shape.unwrap_or_default()[axis], cells[i].clone())?;
                }
                cells[i].clone()
            }
            (None, Some(Type::Tensor(ty))) => ty.shape.unwrap_or_default()[axis].clone(),
            // Nobody asked for this part: its size is found as inference found it.
            (None, _) => match cx.known(1) {
                Some(sizes) => sizes[i].clone(),
                None => equal_parts(&x.dims[axis], parts)[i].clone(),
            },
        };
        if cx.has_output(i) {
            let y = cx.result(i)?;
            let start = offset.clone();
            cx.gather_map(&x, &y, |axes| {
                axes.iter().enumerate().map(|(d, a)| if d == axis { a + &start } else { a.clone() }).collect()
            })?;
        }
        offset = offset + &size;
        total = total + size;
    }
    if cells.is_some() {
        cx.check(total.equal(&x.dims[axis]), "Split: the parts must add up to the whole".into());
    }
    Ok(())
}
