//! oaaxc-emit: what all targets share when they print MLIR text.
//!
//! [`text`] writes lines, blocks and loops; [`scalar`], [`cast`] and [`narrow`] say what an operation
//! on one element is; [`index`] turns size expressions into 64-bit arithmetic; [`access`] says where an
//! element lies and what must be checked; [`nest`] is a loop step in that form; [`body`] prints a scalar body, [`folds`] joins what is reduced; [`math`] is the mathematics.

pub mod access;
pub mod body;
pub mod cast;
pub mod folds;
pub mod index;
pub mod math;
pub mod narrow;
pub mod nest;
pub mod remainder;
pub mod scalar;
pub mod sort;
pub mod text;
