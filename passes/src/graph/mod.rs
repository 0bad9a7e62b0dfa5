//! Passes over the typed graph.

pub mod branch;
pub mod dead;
pub mod fold;
pub mod refine;
