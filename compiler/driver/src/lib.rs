//! The driver: a session that takes a model through the pipeline to an artefact, and the command line.
//!
//! A vendor links this crate, hands its target to a `Session`, and has the whole tool (see
//! `docs/add-a-target.md`).

pub mod artefact;
pub mod calibration;
pub mod canary;
pub mod cases;
pub mod cli;
pub mod data;
pub mod execute;
pub mod files;
pub mod foreign;
pub mod node_check;
pub mod pass_check;
pub mod pipeline;
pub mod placement;
pub mod precision;
pub mod runtime;
pub mod session;
pub mod targets;
