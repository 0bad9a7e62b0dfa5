//! The driver: a session that takes a model through the pipeline to an artefact, and the command line.
//!
//! A vendor links this crate, hands its target to a `Session`, and has the whole tool (see
//! `docs/add-a-target.md`).

pub mod artefact;
pub mod pipeline;
pub mod targets;
