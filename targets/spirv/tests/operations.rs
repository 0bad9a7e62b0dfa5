//! Every scalar operation on every type, against the interpreter.

mod common;

use common::check;
use oaaxc_kernel_cases::operations as cases;

#[test]
fn unary_operations_agree() {
    cases::unary_operations_agree(&mut check);
}

#[test]
fn binary_operations_agree() {
    cases::binary_operations_agree(&mut check);
}

#[test]
fn casts_and_choices_agree() {
    cases::casts_and_choices_agree(&mut check);
}
