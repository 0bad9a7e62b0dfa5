//! From a registry into a layout folder.
//!
//! Promises: the folder appears whole under its name or not at all; what a broken-off pull got is kept beside it and
//! used by the next; the tag is resolved once.

use std::{
    fs,
    path::{Path, PathBuf},
};

use oaaxc_container::Digest;

use crate::{
    Moved, Progress, Shelf,
    client::{Client, Manifest, fallback_tag},
    error::{RegistryError, Result},
    graph::Graph,
    layout::LayoutFolder,
};

/// Pulls what the client's reference names into the new folder `path`, with its signatures.
pub fn pull(client: &Client, path: &Path, progress: Progress<'_>) -> Result<Moved> {
    if fs::symlink_metadata(path).is_ok() {
        return Err(RegistryError::Request(format!("{} exists; pulling needs a new folder", path.display())));
    }
    let root = client.root()?;
    let staging = staging(path, &root.digest)?;
    let layout = LayoutFolder::create(&staging)?;
    let mut moved = Moved { digest: root.digest, blobs: 0, bytes: 0, present: 0, companions: Vec::new() };
    let graph = fetch(client, root, &layout, progress, &mut moved)?;
    let tag = client.reference().tag.clone().unwrap_or_else(|| "latest".to_owned());
    layout.name(&tag, &graph.root)?;
    for subject in graph.subjects() {
        companions(client, subject, &layout, progress, &mut moved)?;
    }
    fs::rename(&staging, path).map_err(|error| RegistryError::file("rename", &staging, &error))?;
    Ok(moved)
}

/// Where unfinished pulls of this very content lie.
fn staging(path: &Path, digest: &Digest) -> Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| RegistryError::Request(format!("{} has no name", path.display())))?;
    Ok(path.with_file_name(format!(".{}.{}.pull", name.to_string_lossy(), &digest.hex()[..16])))
}

fn fetch(client: &Client, root: Manifest, layout: &LayoutFolder, progress: Progress<'_>, moved: &mut Moved) -> Result<Graph> {
    let graph = Graph::walk(root, &|digest| client.by_digest(digest))?;
    for (digest, size) in &graph.blobs {
        match client.download(digest, *size, &layout.blob_path(digest), progress)? {
            true => {
                moved.blobs += 1;
                moved.bytes += size;
            }
            false => moved.present += 1,
        }
    }
    for manifest in graph.manifests.iter().chain([&graph.root]) {
        layout.put_blob(&manifest.bytes)?;
    }
    Ok(graph)
}

/// Signatures under cosign's tag and manifests that refer to `subject`.
fn companions(client: &Client, subject: &Digest, layout: &LayoutFolder, progress: Progress<'_>, moved: &mut Moved) -> Result<()> {
    let tag = format!("{}.sig", fallback_tag(subject));
    if let Some(signature) = client.by_tag(&tag)? {
        let graph = fetch(client, signature, layout, progress, moved)?;
        layout.name(&tag, &graph.root)?;
        moved.companions.push(tag);
    }
    for referrer in client.referrers(subject)? {
        let graph = fetch(client, client.by_digest(&referrer)?, layout, progress, moved)?;
        layout.put_referrer(subject, &crate::push::artifact_type(&graph.root), &graph.root.bytes)?;
        moved.companions.push(referrer.to_string());
    }
    Ok(())
}
