//! The house's own chores: `cargo xtask tidy` checks its invariants.
//!
//! A chore is a module here and a line in `main`. Nothing of the product depends on this crate,
//! and it depends on no room of the product.

pub mod tidy;
