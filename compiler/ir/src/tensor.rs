//! Constant tensors and run-time data of the oracles: element type, dims, little-endian bytes.
//!
//! Weights stay where they are mapped (`Bytes` shares the file); a splat constant stays a splat.
//! Elements are read one by one as `Scalar`: slow and obvious, for evaluation and interpretation.

use std::sync::Arc;

use bytes::Bytes;

use crate::dtype::DType;
use crate::scalar::Scalar;

/// A tensor with its elements.
#[derive(Clone, PartialEq, Debug)]
pub struct Tensor {
    /// Element type.
    pub dtype: DType,
    /// Dims, outermost first; empty for a scalar.
    pub dims: Vec<usize>,
    /// The elements in row-major order.
    pub data: Data,
}

/// Where the elements are.
#[derive(Clone, PartialEq, Debug)]
pub enum Data {
    /// All elements, little-endian, `dtype.size()` bytes each; not necessarily aligned.
    Bytes(Bytes),
    /// One element that stands for all.
    Splat(Scalar),
    /// UTF-8 (or other) byte strings, only for `DType::String`.
    Strings(Arc<Vec<Vec<u8>>>),
}

impl Tensor {
    /// A tensor over these bytes. The length must be the product of the dims times the element size.
    pub fn from_bytes(dtype: DType, dims: Vec<usize>, bytes: impl Into<Bytes>) -> Tensor {
        let bytes = bytes.into();
        let tensor = Tensor { dtype, dims, data: Data::Bytes(bytes) };
        let Data::Bytes(b) = &tensor.data else { unreachable!("just built") };
        assert_eq!(b.len(), tensor.len() * dtype.size(), "a tensor's bytes must match {dtype}{:?}", tensor.dims);
        tensor
    }
    /// A tensor of these scalars, each converted to `dtype` as a Cast would.
    pub fn from_scalars(dtype: DType, dims: Vec<usize>, scalars: impl IntoIterator<Item = Scalar>) -> Tensor {
        let mut bytes = Vec::new();
        for scalar in scalars {
            scalar.cast(dtype).append_to(&mut bytes);
        }
        Tensor::from_bytes(dtype, dims, bytes)
    }
    /// A tensor of these floats, rounded to `dtype`.
    pub fn from_f64s(dtype: DType, dims: Vec<usize>, values: impl IntoIterator<Item = f64>) -> Tensor {
        Tensor::from_scalars(dtype, dims, values.into_iter().map(Scalar::from_f64))
    }
    /// A tensor of these integers, wrapped to `dtype`.
    pub fn from_i64s(dtype: DType, dims: Vec<usize>, values: impl IntoIterator<Item = i64>) -> Tensor {
        Tensor::from_scalars(dtype, dims, values.into_iter().map(Scalar::from_i64))
    }
    /// A float tensor.
    pub fn from_f32s(dims: Vec<usize>, values: &[f32]) -> Tensor {
        Tensor::from_bytes(DType::F32, dims, values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>())
    }
    /// A tensor of byte strings.
    pub fn from_strings(dims: Vec<usize>, strings: Vec<Vec<u8>>) -> Tensor {
        assert_eq!(strings.len(), dims.iter().product::<usize>(), "a tensor's strings must match its dims");
        Tensor { dtype: DType::String, dims, data: Data::Strings(Arc::new(strings)) }
    }
    /// A tensor in which every element is `value`.
    pub fn splat(value: Scalar, dims: Vec<usize>) -> Tensor {
        Tensor { dtype: value.dtype(), dims, data: Data::Splat(value) }
    }
    /// A rank-0 tensor.
    pub fn scalar(value: Scalar) -> Tensor {
        Tensor::splat(value, Vec::new())
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.dims.iter().product()
    }
    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Number of dims.
    pub fn rank(&self) -> usize {
        self.dims.len()
    }
    /// Bytes of all elements in memory.
    pub fn byte_len(&self) -> usize {
        self.len() * self.dtype.size()
    }
    /// The element at this row-major position. Not for strings.
    pub fn get(&self, index: usize) -> Scalar {
        match &self.data {
            Data::Bytes(bytes) => {
                let size = self.dtype.size();
                Scalar::read(self.dtype, &bytes[index * size..(index + 1) * size])
            }
            Data::Splat(value) => *value,
            Data::Strings(_) => unreachable!("strings are read through `strings`"),
        }
    }
    /// The element as a float.
    pub fn f64_at(&self, index: usize) -> f64 {
        self.get(index).as_f64()
    }
    /// The element as an integer; floats are truncated.
    pub fn i64_at(&self, index: usize) -> i64 {
        self.get(index).as_i64()
    }
    /// The byte string at this position; empty if the tensor holds none.
    pub fn string_at(&self, index: usize) -> &[u8] {
        match &self.data {
            Data::Strings(strings) => &strings[index],
            _ => &[],
        }
    }
    /// All elements, in order.
    pub fn scalars(&self) -> impl Iterator<Item = Scalar> + '_ {
        (0..self.len()).map(|i| self.get(i))
    }
    /// All elements as floats.
    pub fn to_f64s(&self) -> Vec<f64> {
        self.scalars().map(Scalar::as_f64).collect()
    }
    /// All elements as integers.
    pub fn to_i64s(&self) -> Vec<i64> {
        self.scalars().map(Scalar::as_i64).collect()
    }
    /// The bytes of all elements; a splat is written out.
    pub fn to_bytes(&self) -> Bytes {
        match &self.data {
            Data::Bytes(bytes) => bytes.clone(),
            Data::Splat(value) => {
                let mut one = Vec::new();
                value.append_to(&mut one);
                one.repeat(self.len()).into()
            }
            Data::Strings(_) => Bytes::new(),
        }
    }
    /// The same elements under other dims of equal product.
    pub fn reshaped(&self, dims: Vec<usize>) -> Tensor {
        assert_eq!(self.len(), dims.iter().product::<usize>(), "a reshape keeps the number of elements");
        Tensor { dims, ..self.clone() }
    }
    /// The splat's element, if it is one or has equal elements by construction.
    pub fn as_splat(&self) -> Option<Scalar> {
        match &self.data {
            Data::Splat(value) => Some(*value),
            Data::Bytes(_) if self.len() == 1 => Some(self.get(0)),
            _ => None,
        }
    }
    /// Picks elements: the result's element `i` is this tensor's element `pick(i's coordinates)`. Strings too.
    pub fn gathered(&self, dims: Vec<usize>, mut pick: impl FnMut(&[usize]) -> usize) -> Tensor {
        let positions: Vec<usize> = Coordinates::new(&dims).map(|c| pick(&c)).collect();
        match &self.data {
            Data::Strings(strings) => Tensor::from_strings(dims, positions.iter().map(|&p| strings[p].clone()).collect()),
            Data::Splat(value) => Tensor::splat(*value, dims),
            Data::Bytes(bytes) => {
                let size = self.dtype.size();
                let mut out = Vec::with_capacity(positions.len() * size);
                for p in positions {
                    out.extend_from_slice(&bytes[p * size..(p + 1) * size]);
                }
                Tensor::from_bytes(self.dtype, dims, out)
            }
        }
    }
}

/// Row-major strides of these dims, in elements.
pub fn strides(dims: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; dims.len()];
    for i in (1..dims.len()).rev() {
        strides[i - 1] = strides[i] * dims[i];
    }
    strides
}

/// The row-major position of coordinates.
pub fn position(coordinates: &[usize], dims: &[usize]) -> usize {
    coordinates.iter().zip(dims).fold(0, |at, (c, d)| at * d + c)
}

/// Walks all coordinates of dims in row-major order; one empty coordinate for rank 0.
pub struct Coordinates {
    dims: Vec<usize>,
    next: Option<Vec<usize>>,
}

impl Coordinates {
    /// All coordinates of these dims.
    pub fn new(dims: &[usize]) -> Coordinates {
        let next = (!dims.contains(&0)).then(|| vec![0; dims.len()]);
        Coordinates { dims: dims.to_vec(), next }
    }
}

impl Iterator for Coordinates {
    type Item = Vec<usize>;
    fn next(&mut self) -> Option<Vec<usize>> {
        let current = self.next.clone()?;
        let mut following = current.clone();
        let carried = (0..self.dims.len()).rev().all(|i| {
            following[i] += 1;
            let wraps = following[i] == self.dims[i];
            if wraps {
                following[i] = 0;
            }
            wraps
        });
        self.next = (!carried).then_some(following);
        Some(current)
    }
}

/// What a value holds at run time, in the oracles.
#[derive(Clone, PartialEq, Debug)]
pub enum Datum {
    /// A tensor.
    Tensor(Tensor),
    /// A sequence.
    Sequence(Vec<Datum>),
    /// An optional, perhaps empty.
    Optional(Option<Box<Datum>>),
    /// A map from integer or string keys, in key order.
    Map(Vec<(Key, Datum)>),
}

/// A key of a map.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Key {
    /// An integer key.
    Int(i64),
    /// A string key.
    Text(Vec<u8>),
}

impl Datum {
    /// The tensor, if it is one.
    pub fn as_tensor(&self) -> Option<&Tensor> {
        match self {
            Datum::Tensor(tensor) => Some(tensor),
            _ => None,
        }
    }
}

impl From<Tensor> for Datum {
    fn from(tensor: Tensor) -> Datum {
        Datum::Tensor(tensor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_walk_in_row_major_order() {
        let all: Vec<_> = Coordinates::new(&[2, 2]).collect();
        assert_eq!(all, [[0, 0], [0, 1], [1, 0], [1, 1]]);
        assert_eq!(Coordinates::new(&[]).count(), 1);
        assert_eq!(Coordinates::new(&[3, 0]).count(), 0);
    }

    #[test]
    fn a_transpose_by_gathering() {
        let x = Tensor::from_i64s(DType::I32, vec![2, 3], 0..6);
        let y = x.gathered(vec![3, 2], |c| position(&[c[1], c[0]], &[2, 3]));
        assert_eq!(y.to_i64s(), [0, 3, 1, 4, 2, 5]);
    }
}
