//! Matrix products and convolutions of awkward sizes, against the interpreter: tails, padding, strides, panels, symbols.

mod common;

use common::check;

oaaxc_kernel_cases::tests!(contractions, check);
