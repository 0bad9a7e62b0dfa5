//! From one registry or repository to another, without a file between.
//!
//! Promises: digests stay; blobs of the same registry are mounted, not carried; the tag moves last; signatures go along.

use std::io::Read;

use oaaxc_container::Digest;
use sha2::{Digest as _, Sha256};

use crate::{
    Moved, Progress, Shelf,
    client::{Client, Manifest, fallback_tag},
    error::Result,
    graph::Graph,
    push::artifact_type,
    upload::{Arrived, Source},
};

/// Copies what `from` names to the tag of `to`.
pub fn copy(from: &Client, to: &Client, progress: Progress<'_>) -> Result<Moved> {
    let root = from.root()?;
    let mut moved = Moved { digest: root.digest, blobs: 0, bytes: 0, present: 0, companions: Vec::new() };
    let graph = carry(root, from, to, progress, &mut moved)?;
    to.put_manifest(to.reference().tag_or_latest(), &graph.root.media_type, &graph.root.bytes)?;
    for subject in graph.subjects() {
        let tag = format!("{}.sig", fallback_tag(subject));
        if let Some(signature) = from.by_tag(&tag)? {
            let graph = carry(signature, from, to, progress, &mut moved)?;
            to.put_tag(&tag, &graph.root.media_type, &graph.root.bytes)?;
            moved.companions.push(tag);
        }
        for referrer in from.referrers(subject)? {
            let graph = carry(from.by_digest(&referrer)?, from, to, progress, &mut moved)?;
            Client::put_referrer(to, subject, &artifact_type(&graph.root), &graph.root.bytes)?;
            moved.companions.push(referrer.to_string());
        }
    }
    Ok(moved)
}

fn carry(root: Manifest, from: &Client, to: &Client, progress: Progress<'_>, moved: &mut Moved) -> Result<Graph> {
    let graph = Graph::walk(root, &|digest| from.by_digest(digest))?;
    let same = from.reference().registry == to.reference().registry;
    let sibling = [from.reference().repository.as_str()];
    let siblings: &[&str] = if same { &sibling } else { &[] };
    for (digest, size) in &graph.blobs {
        let open = |at: u64| -> Result<Box<dyn Read>> {
            let reader = from.blob(digest, at)?;
            Ok(match at {
                0 => Box::new(Checked { inner: reader, hash: Sha256::new(), done: 0, digest: *digest, size: *size }),
                _ => reader,
            })
        };
        match to.upload(&Source { digest: *digest, size: *size, open: &open }, siblings, progress)? {
            Arrived::Sent => {
                moved.blobs += 1;
                moved.bytes += size;
            }
            Arrived::Present | Arrived::Mounted => moved.present += 1,
        }
    }
    for manifest in &graph.manifests {
        to.put_manifest(&manifest.digest.to_string(), &manifest.media_type, &manifest.bytes)?;
    }
    Ok(graph)
}

/// Fails at the end of a blob that is not what its digest says. What goes on in the middle is checked by the
/// registry that receives it: the upload ends with the digest of the whole.
struct Checked {
    inner: Box<dyn Read>,
    hash: Sha256,
    done: u64,
    digest: Digest,
    size: u64,
}

impl Read for Checked {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hash.update(&buffer[..count]);
        self.done += count as u64;
        let wrong = || std::io::Error::other(format!("the blob {} is not what its digest and size say", self.digest));
        if self.done > self.size || (count == 0 && !buffer.is_empty() && self.done < self.size) {
            return Err(wrong());
        }
        if self.done == self.size && Digest::from_bytes(self.hash.clone().finalize().into()) != self.digest {
            return Err(wrong());
        }
        Ok(count)
    }
}
