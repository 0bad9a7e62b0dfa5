//! Where signatures and attestations are kept: beside the package, in a registry or a layout folder.
//!
//! Promises: both kinds of shelf answer alike, so who signs and who verifies need not know which it is.

use oaaxc_container::Digest;

use crate::{
    client::{Client, Manifest},
    error::Result,
    upload::Source,
};

/// Manifests by tag and by subject, and small blobs.
pub trait Shelf {
    /// The package itself: index or manifest, resolved once.
    fn root(&self) -> Result<Manifest>;
    /// `registry/repository`, if it has one.
    fn place(&self) -> Option<String>;
    /// The manifest under a tag.
    fn by_tag(&self, tag: &str) -> Result<Option<Manifest>>;
    /// A manifest by its digest.
    fn by_digest(&self, digest: &Digest) -> Result<Manifest>;
    /// Digests of manifests whose subject is `digest`.
    fn referrers(&self, digest: &Digest) -> Result<Vec<Digest>>;
    /// A checked blob of at most `limit` bytes.
    fn blob(&self, digest: &Digest, limit: u64) -> Result<Vec<u8>>;
    /// Stores a blob.
    fn put_blob(&self, bytes: &[u8]) -> Result<()>;
    /// Stores a manifest under a tag.
    fn put_tag(&self, tag: &str, media_type: &str, bytes: &[u8]) -> Result<()>;
    /// Stores a manifest that has a subject.
    fn put_referrer(&self, subject: &Digest, artifact_type: &str, bytes: &[u8]) -> Result<()>;
}

impl Shelf for Client {
    fn root(&self) -> Result<Manifest> {
        self.manifest(&self.reference.name())
    }

    fn place(&self) -> Option<String> {
        Some(self.reference.place())
    }

    fn by_tag(&self, tag: &str) -> Result<Option<Manifest>> {
        self.manifest_if_any(tag)
    }

    fn by_digest(&self, digest: &Digest) -> Result<Manifest> {
        self.manifest(&digest.to_string())
    }

    fn referrers(&self, digest: &Digest) -> Result<Vec<Digest>> {
        Client::referrers(self, digest)
    }

    fn blob(&self, digest: &Digest, limit: u64) -> Result<Vec<u8>> {
        self.small_blob(digest, limit)
    }

    fn put_blob(&self, bytes: &[u8]) -> Result<()> {
        let open = |offset: u64| -> Result<Box<dyn std::io::Read + '_>> { Ok(Box::new(&bytes[offset as usize..])) };
        let source = Source { digest: Digest::of(bytes), size: bytes.len() as u64, open: &open };
        self.upload(&source, &[], &|_| ()).map(drop)
    }

    fn put_tag(&self, tag: &str, media_type: &str, bytes: &[u8]) -> Result<()> {
        self.put_manifest(tag, media_type, bytes).map(drop)
    }

    fn put_referrer(&self, subject: &Digest, artifact_type: &str, bytes: &[u8]) -> Result<()> {
        Client::put_referrer(self, subject, artifact_type, bytes)
    }
}
