//! Where the elements of a buffer lie: a permutation of its dims and inner tiles.
//!
//! Dims that are tiled become `ceildiv(dim, size)` outer ones; the outer dims stand in `order`,
//! then the tiles in their order, all row-major. Padding of a partial tile is zero in constants.

use crate::expr::Expr;

/// The physical order of a buffer's elements. `Layout::default()` is row-major.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Layout {
    /// Outer dims from slowest to fastest; empty stands for the identity.
    pub order: Vec<usize>,
    /// Inner tiles, after all outer dims.
    pub tiles: Vec<Tile>,
}

/// An inner tile.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tile {
    /// The logical dim that is cut.
    pub dim: usize,
    /// Elements of that dim in one tile.
    pub size: i64,
}

impl Layout {
    /// Whether it is row-major.
    pub fn is_plain(&self) -> bool {
        self.tiles.is_empty() && self.order.iter().enumerate().all(|(i, d)| i == *d)
    }
    /// The physical sizes, slowest first.
    pub fn physical_dims(&self, dims: &[Expr]) -> Vec<Expr> {
        let outer = |d: usize| self.tile_of(d).map_or(dims[d].clone(), |t| dims[d].ceil_div(&t.size.into()));
        self.outer_order(dims.len()).map(outer).chain(self.tiles.iter().map(|t| t.size.into())).collect()
    }
    /// The physical coordinates of a logical index.
    pub fn physical_index(&self, index: &[Expr]) -> Vec<Expr> {
        let outer = |d: usize| self.tile_of(d).map_or(index[d].clone(), |t| index[d].floor_div(&t.size.into()));
        self.outer_order(index.len()).map(outer).chain(self.tiles.iter().map(|t| index[t.dim].modulo(&t.size.into()))).collect()
    }
    /// The linear position, in elements, of a logical index.
    pub fn offset(&self, dims: &[Expr], index: &[Expr]) -> Expr {
        let sizes = self.physical_dims(dims);
        self.physical_index(index).iter().zip(&sizes).fold(Expr::constant(0), |at, (i, size)| at * size + i)
    }
    /// How many elements are stored, padding of partial tiles included.
    pub fn elements(&self, dims: &[Expr]) -> Expr {
        Expr::product(&self.physical_dims(dims))
    }
    /// What each coordinate of one dim adds to the linear position: positions are sums over the dims.
    pub fn parts(&self, dims: &[i64], dim: usize) -> Vec<usize> {
        let all: Vec<Expr> = dims.iter().map(|&d| d.into()).collect();
        let mut index = vec![Expr::constant(0); dims.len()];
        let mut parts = Vec::new();
        for i in 0..dims[dim].max(0) {
            index[dim] = i.into();
            let at = self.offset(&all, &index).as_const().expect("sizes and index are numbers");
            parts.push(usize::try_from(at).expect("positions are not negative"));
        }
        parts
    }
    fn tile_of(&self, dim: usize) -> Option<&Tile> {
        self.tiles.iter().find(|t| t.dim == dim)
    }
    fn outer_order(&self, rank: usize) -> impl Iterator<Item = usize> + '_ {
        (0..rank).map(|i| if self.order.is_empty() { i } else { self.order[i] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panels_of_sixteen_columns() {
        let panels = Layout { order: vec![1, 0], tiles: vec![Tile { dim: 1, size: 16 }] };
        let dims: Vec<Expr> = vec![5.into(), 40.into()];
        assert!(panels.elements(&dims).is(3 * 5 * 16));
        assert!(panels.offset(&dims, &[2.into(), 20.into()]).is((5 + 2) * 16 + 4));
    }
}
