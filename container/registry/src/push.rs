//! A layout folder to a registry: blobs, manifests, the index, and what was signed.
//!
//! Promises: the tag moves last, so that who reads it finds everything; signatures follow the index that they speak of.

use std::io::Read;

use crate::{
    Moved, Progress, Shelf,
    client::{Client, Manifest, fallback_tag},
    error::{RegistryError, Result},
    graph::Graph,
    layout::{FileFrom, LayoutFolder},
    upload::{Arrived, Source},
};

/// Pushes the package of `layout`; `siblings` are repositories of the same registry that may have its blobs.
pub fn push(layout: &LayoutFolder, client: &Client, siblings: &[&str], progress: Progress<'_>) -> Result<Moved> {
    if client.reference.digest.is_some() {
        return Err(RegistryError::Request("push goes to a tag; a digest follows from the content".to_owned()));
    }
    let graph = Graph::walk(layout.root()?, &|digest| layout.by_digest(digest))?;
    let mut moved = Moved { digest: graph.root.digest, blobs: 0, bytes: 0, present: 0, companions: Vec::new() };
    send(&graph, layout, client, siblings, progress, &mut moved)?;
    client.put_manifest(client.reference.tag_or_latest(), &graph.root.media_type, &graph.root.bytes)?;
    for subject in graph.subjects() {
        for tag in layout.companions(subject)? {
            let Some(companion) = layout.by_tag(&tag)? else { continue };
            let below = Graph::walk(companion, &|digest| layout.by_digest(digest))?;
            send(&below, layout, client, &[], progress, &mut moved)?;
            match tag == fallback_tag(subject) {
                true => below.manifests.iter().try_for_each(|m| client.put_referrer(subject, &artifact_type(m), &m.bytes))?,
                false => client.put_tag(&tag, &below.root.media_type, &below.root.bytes)?,
            }
            moved.companions.push(tag);
        }
    }
    Ok(moved)
}

/// What kind of thing refers: the manifest's own word, or its config's type.
pub(crate) fn artifact_type(manifest: &Manifest) -> String {
    let document: serde_json::Value = serde_json::from_slice(&manifest.bytes).unwrap_or_default();
    let words = [&document["artifactType"], &document["config"]["mediaType"]];
    words.iter().find_map(|word| word.as_str()).unwrap_or_default().to_owned()
}

/// The blobs, then the manifests by their digests.
fn send(
    graph: &Graph,
    layout: &LayoutFolder,
    client: &Client,
    siblings: &[&str],
    progress: Progress<'_>,
    moved: &mut Moved,
) -> Result<()> {
    for (digest, size) in &graph.blobs {
        let length = layout.blob_file(digest, 0)?.metadata().map(|facts| facts.len());
        if length.ok() != Some(*size) {
            return Err(RegistryError::Invalid(format!("the blob {digest} does not have the {size} bytes of its descriptor")));
        }
        let open = |at: u64| -> Result<Box<dyn Read>> { Ok(Box::new(FileFrom { file: layout.blob_file(digest, 0)?, at })) };
        match client.upload(&Source { digest: *digest, size: *size, open: &open }, siblings, progress)? {
            Arrived::Sent => {
                moved.blobs += 1;
                moved.bytes += size;
            }
            Arrived::Present | Arrived::Mounted => moved.present += 1,
        }
    }
    let by_digest = |m: &Manifest| client.put_manifest(&m.digest.to_string(), &m.media_type, &m.bytes).map(drop);
    graph.manifests.iter().try_for_each(by_digest)
}
