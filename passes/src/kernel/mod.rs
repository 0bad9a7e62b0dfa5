//! Passes over the lowered program of one target.

pub mod encode;
mod epilogue;
pub mod fuse;
pub mod inline;
pub mod intern;
pub mod pack;
pub mod place;
pub mod place_check;
pub mod precompute;
pub mod resolve;
pub mod uses;
pub mod widen;
