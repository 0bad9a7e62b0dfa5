//! Numpy's broadcasting on whole tensors, for evaluation. Slow and obvious; never used by lowering.

use oaaxc_ir::tensor::{Tensor, position};
use oaaxc_ir::{DType, Scalar};

/// The common dims of several dims; `None` where they do not broadcast.
pub fn broadcast_dims(all: &[&[usize]]) -> Option<Vec<usize>> {
    let rank = all.iter().map(|d| d.len()).max().unwrap_or(0);
    let mut out = vec![1; rank];
    for dims in all {
        for (i, &size) in dims.iter().enumerate() {
            let to = &mut out[i + rank - dims.len()];
            match (*to, size) {
                (a, b) if a == b => {}
                (1, b) => *to = b,
                (_, 1) => {}
                _ => return None,
            }
        }
    }
    Some(out)
}

/// The tensor repeated to `dims`, which it must broadcast to. Strings too.
pub fn expand(tensor: &Tensor, dims: &[usize]) -> Tensor {
    let skip = dims.len() - tensor.rank();
    tensor.gathered(dims.to_vec(), |c| {
        let own: Vec<usize> = (0..tensor.rank()).map(|d| if tensor.dims[d] == 1 { 0 } else { c[d + skip] }).collect();
        position(&own, &tensor.dims)
    })
}

/// Applies `f` to corresponding elements; `dtype` is the result's type. `None` where the dims do not broadcast.
pub fn broadcast_map(tensors: &[&Tensor], dtype: DType, f: impl Fn(&[Scalar]) -> Scalar) -> Option<Tensor> {
    let dims = broadcast_dims(&tensors.iter().map(|t| &t.dims[..]).collect::<Vec<_>>())?;
    let wide: Vec<Tensor> = tensors.iter().map(|t| expand(t, &dims)).collect();
    let count = dims.iter().product();
    let element = |i: usize| f(&wide.iter().map(|t| t.get(i)).collect::<Vec<_>>());
    Some(Tensor::from_scalars(dtype, dims, (0..count).map(element)))
}
