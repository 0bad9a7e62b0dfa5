//! Kernel forms besides plain loops: folds in every direction, private memory, sequences, sorts, compaction, faults.

mod common;

use common::check;
use oaaxc_kernel_cases::structures as cases;

#[test]
fn folds_agree_in_every_direction() {
    cases::folds_agree_in_every_direction(&mut check);
}

#[test]
fn rows_with_private_memory_and_a_sequence() {
    cases::rows_with_private_memory_and_a_sequence(&mut check);
}

#[test]
fn sorts_are_stable_and_put_nan_last() {
    cases::sorts_are_stable_and_put_nan_last(&mut check);
}

#[test]
fn compaction_counts_and_keeps_order() {
    cases::compaction_counts_and_keeps_order(&mut check);
}

#[test]
fn an_index_outside_is_padding_or_a_fault() {
    cases::an_index_outside_is_padding_or_a_fault(&mut check);
}

#[test]
fn windows_read_padding_and_guards_touch_nothing() {
    cases::windows_read_padding_and_guards_touch_nothing(&mut check);
}

#[test]
fn views_broadcasts_and_tiles() {
    cases::views_broadcasts_and_tiles(&mut check);
}

#[test]
fn elementwise_work_of_any_rank_is_cut_into_groups() {
    cases::elementwise_work_of_any_rank_is_cut_into_groups(&mut check);
}
