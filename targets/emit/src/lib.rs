//! oaaxc-emit: what all targets share when they print MLIR text.

pub mod math;
