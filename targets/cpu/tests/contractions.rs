//! Matrix products and convolutions of awkward sizes, against the interpreter: tails, padding, strides, panels, symbols.

mod common;

use common::check;
use oaaxc_kernel_cases::contractions as cases;

#[test]
fn products_with_every_tail() {
    cases::products_with_every_tail(&mut check);
}

#[test]
fn products_of_symbolic_sizes() {
    cases::products_of_symbolic_sizes(&mut check);
}

#[test]
fn convolutions_with_tails_padding_and_strides() {
    cases::convolutions_with_tails_padding_and_strides(&mut check);
}

#[test]
fn depthwise_convolutions() {
    cases::depthwise_convolutions(&mut check);
}

#[test]
fn halves_are_summed_in_f32() {
    cases::halves_are_summed_in_f32(&mut check);
}

#[test]
fn integer_products_are_exact() {
    cases::integer_products_are_exact(&mut check);
}

#[test]
fn integer_convolutions_are_exact() {
    cases::integer_convolutions_are_exact(&mut check);
}

#[test]
fn products_of_halves() {
    cases::products_of_halves(&mut check);
}
