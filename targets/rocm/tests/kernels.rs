//! Every form of kernel compiles for every chip and passes the maker's checks.

mod common;

use common::check;

oaaxc_kernel_cases::tests!(operations, check);
oaaxc_kernel_cases::tests!(structures, check);
oaaxc_kernel_cases::tests!(contractions, check);
