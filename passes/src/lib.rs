//! The passes between an imported graph and emitted code, one file per pass.
//!
//! `graph` passes rewrite the typed graph; `kernel` passes rewrite the lowered program of one
//! target, of which they know only the device description. None names an operator or a target.

pub mod graph;
pub mod kernel;
pub mod precision;
pub mod rules;
