//! Every form of kernel compiles for every chip and passes the maker's checks.

mod common;

use common::check;
use oaaxc_kernel_cases::{contractions, operations, structures};

#[test]
fn unary_operations_agree() {
    operations::unary_operations_agree(&mut check);
}

#[test]
fn binary_operations_agree() {
    operations::binary_operations_agree(&mut check);
}

#[test]
fn casts_and_choices_agree() {
    operations::casts_and_choices_agree(&mut check);
}

#[test]
fn folds_agree_in_every_direction() {
    structures::folds_agree_in_every_direction(&mut check);
}

#[test]
fn rows_with_private_memory_and_a_sequence() {
    structures::rows_with_private_memory_and_a_sequence(&mut check);
}

#[test]
fn sorts_are_stable_and_put_nan_last() {
    structures::sorts_are_stable_and_put_nan_last(&mut check);
}

#[test]
fn compaction_counts_and_keeps_order() {
    structures::compaction_counts_and_keeps_order(&mut check);
}

#[test]
fn an_index_outside_is_padding_or_a_fault() {
    structures::an_index_outside_is_padding_or_a_fault(&mut check);
}

#[test]
fn windows_read_padding_and_guards_touch_nothing() {
    structures::windows_read_padding_and_guards_touch_nothing(&mut check);
}

#[test]
fn views_broadcasts_and_tiles() {
    structures::views_broadcasts_and_tiles(&mut check);
}

#[test]
fn elementwise_work_of_any_rank_is_cut_into_groups() {
    structures::elementwise_work_of_any_rank_is_cut_into_groups(&mut check);
}

#[test]
fn products_with_every_tail() {
    contractions::products_with_every_tail(&mut check);
}

#[test]
fn products_of_symbolic_sizes() {
    contractions::products_of_symbolic_sizes(&mut check);
}

#[test]
fn convolutions_with_tails_padding_and_strides() {
    contractions::convolutions_with_tails_padding_and_strides(&mut check);
}

#[test]
fn depthwise_convolutions() {
    contractions::depthwise_convolutions(&mut check);
}

#[test]
fn integer_products_are_exact() {
    contractions::integer_products_are_exact(&mut check);
}

#[test]
fn integer_convolutions_are_exact() {
    contractions::integer_convolutions_are_exact(&mut check);
}

#[test]
fn products_of_halves() {
    contractions::products_of_halves(&mut check);
}
