//! Kernel forms besides plain loops: folds in every direction, private memory, sequences, sorts, compaction, faults.

mod common;

use common::check;

oaaxc_kernel_cases::tests!(structures, check);
