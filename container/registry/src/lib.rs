//! Carries packages to and from registries by the OCI distribution protocol.
//!
//! Promises: every blob and manifest is checked against its digest and size while it streams; credentials go to
//! the registry that was named and to the token server that it names, and nowhere else; an interrupted transfer goes on
//! where it stopped; what a server sends has limits.
//! Never: is linked by the runtime, runs what it carries, or follows a server to plain HTTP.
#![forbid(unsafe_code)]

mod auth;
mod challenge;
mod client;
mod copy;
mod download;
mod error;
mod graph;
mod http;
mod layout;
mod pull;
mod push;
mod reference;
mod shelf;
mod upload;

pub use auth::Credentials;
pub use client::{Client, Manifest};
pub use copy::copy;
pub use error::{RegistryError, Result};
pub use http::Options;
pub use layout::LayoutFolder;
pub use pull::pull;
pub use push::push;
pub use reference::Reference;
pub use shelf::Shelf;

/// Told about every blob: what happens to it, how many bytes are done, and of how many.
pub type Progress<'a> = &'a dyn Fn(&Step<'_>);

/// One step of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step<'a> {
    /// What happens: `upload`, `download`, `mount`, `present`.
    pub doing: &'a str,
    /// The blob's digest.
    pub digest: &'a oaaxc_container::Digest,
    /// Bytes done.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
}

/// What a transfer did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Digest of the index or manifest that the reference names now.
    pub digest: oaaxc_container::Digest,
    /// Blobs that travelled.
    pub blobs: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Blobs that were there already, or were mounted from another repository.
    pub present: usize,
    /// Tags of signatures and attestations that travelled along.
    pub companions: Vec<String>,
}
