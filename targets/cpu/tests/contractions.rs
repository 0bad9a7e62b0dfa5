//! Matrix products and convolutions of awkward sizes, against the interpreter: tails, padding, strides, panels, symbols.

mod common;

use common::check;

oaaxc_kernel_cases::tests!(contractions, check);

#[test]
fn halves_are_summed_in_f32() {
    oaaxc_kernel_cases::contractions::halves_are_summed_in_f32(&mut check);
}
