//! Every scalar operation on every type, against the interpreter.

mod common;

use common::check;

oaaxc_kernel_cases::tests!(operations, check);
