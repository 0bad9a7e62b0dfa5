//! From `index.json` to images: every document by its digest, each limit checked on the way.
//!
//! Promises: an index inside an index is refused, nothing is visited twice, and the number of documents that are
//! read is bounded before the first of them is.

use std::collections::BTreeSet;

use serde::de::DeserializeOwned;

use super::store::Store;
use crate::{
    digest::Digest,
    error::{ContainerError, Result},
    json, oci,
    oci::{Annotations, Descriptor, ImageConfig, ImageManifest, Index, OciPlatform},
};

const MAX_DESCRIPTORS: usize = 1024;
const MAX_LAYERS: usize = 128;
const MAX_ANNOTATIONS: usize = 64 << 10;

/// One image of the layout.
pub(crate) struct ImageFacts {
    pub digest: Digest,
    pub platform: OciPlatform,
    pub annotations: Annotations,
    pub layers: Vec<LayerFacts>,
}

/// A layer as an image names it.
#[derive(Clone)]
pub(crate) struct LayerFacts {
    pub descriptor: Descriptor,
    pub diff_id: Digest,
}

/// What `index.json` leads to.
pub(crate) struct Walk {
    pub images: Vec<ImageFacts>,
    /// Annotations of `index.json` itself.
    pub annotations: Annotations,
    /// The first image index that an entry led to.
    pub root_index: Option<serde_json::Value>,
    /// Name of the first entry.
    pub tag: Option<String>,
}

/// All images under the reference `tag`, or under any.
pub(crate) fn walk(store: &Store, tag: Option<&str>) -> Result<Walk> {
    let top: Index = json::read(&store.index, json::MAX_DOCUMENT, "index.json")?;
    check_annotations(&top.annotations, "index.json")?;
    // Signatures and lists of referrers lie beside the package, under `sha256-<hex>`.
    let wanted = |entry: &Descriptor| {
        let name = entry.annotations.get(oci::REF_NAME).map(String::as_str);
        tag.map_or(!name.is_some_and(|name| name.starts_with("sha256-")), |tag| name == Some(tag))
    };
    let mut queue = Vec::new();
    let (mut root_index, mut name) = (None, None);
    for entry in top.manifests.iter().filter(|entry| wanted(entry)) {
        match entry.media_type.as_str() {
            oci::INDEX => {
                let inner: Index = document(store, entry, "index")?;
                if root_index.is_none() {
                    root_index = Some(document(store, entry, "index")?);
                }
                check_annotations(&inner.annotations, "index")?;
                queue.extend(inner.manifests);
            }
            _ => queue.push(entry.clone()),
        }
        if name.is_none() {
            name = entry.annotations.get(oci::REF_NAME).cloned();
        }
        if queue.len() > MAX_DESCRIPTORS {
            return Err(ContainerError::invalid("index.json", format!("leads to more than {MAX_DESCRIPTORS} manifests")));
        }
    }
    let mut seen = BTreeSet::new();
    let mut images = Vec::new();
    for entry in queue.iter().filter(|entry| seen.insert(entry.digest)) {
        check_annotations(&entry.annotations, "index")?;
        match entry.media_type.as_str() {
            oci::INDEX => {
                return Err(ContainerError::invalid(entry.digest.to_string(), "an index inside an index"));
            }
            oci::MANIFEST => images.extend(image(store, entry)?),
            // Signatures and attestations of other tools.
            _ => (),
        }
    }
    match (images.is_empty(), tag) {
        (false, _) => Ok(Walk { images, annotations: top.annotations, root_index, tag: name }),
        (true, Some(tag)) => Err(ContainerError::invalid("index.json", format!("leads to no image under {tag:?}"))),
        (true, None) => Err(ContainerError::invalid("index.json", "leads to no image")),
    }
}

fn image(store: &Store, entry: &Descriptor) -> Result<Option<ImageFacts>> {
    let place = format!("manifest {}", entry.digest);
    let wrong = |reason: String| Err(ContainerError::invalid(&place, reason));
    let manifest: ImageManifest = document(store, entry, "manifest")?;
    if manifest.schema_version != 2 {
        return wrong(format!("schemaVersion {}", manifest.schema_version));
    }
    check_annotations(&manifest.annotations, &place)?;
    let artefact = manifest.artifact_type.is_some() || entry.artifact_type.is_some();
    if artefact || manifest.config.media_type != oci::CONFIG {
        return Ok(None);
    }
    let config: ImageConfig = document(store, &manifest.config, "config")?;
    if manifest.layers.len() > MAX_LAYERS {
        return wrong(format!("{} layers, more than {MAX_LAYERS}", manifest.layers.len()));
    }
    if config.rootfs.kind != "layers" || config.rootfs.diff_ids.len() != manifest.layers.len() {
        return wrong(format!("{} layers, but {} diff_ids", manifest.layers.len(), config.rootfs.diff_ids.len()));
    }
    for layer in &manifest.layers {
        check_annotations(&layer.annotations, &place)?;
        if layer.media_type != oci::LAYER_TAR && layer.media_type != oci::LAYER_GZIP {
            return wrong(format!("a layer of type {:?}; this reader knows tar and tar+gzip", layer.media_type));
        }
    }
    let layers = manifest.layers.into_iter().zip(config.rootfs.diff_ids);
    let own = OciPlatform { architecture: config.architecture, os: config.os, variant: config.variant, os_features: Vec::new() };
    Ok(Some(ImageFacts {
        digest: entry.digest,
        platform: entry.platform.clone().unwrap_or(own),
        annotations: manifest.annotations,
        layers: layers.map(|(descriptor, diff_id)| LayerFacts { descriptor, diff_id }).collect(),
    }))
}

/// Reads the document that `descriptor` names, checked in size and digest before it is parsed.
fn document<T: DeserializeOwned>(store: &Store, descriptor: &Descriptor, kind: &str) -> Result<T> {
    let place = format!("{kind} {}", descriptor.digest);
    let section = store.blob(&descriptor.digest)?;
    check_size(section.length, descriptor, &place)?;
    let bytes = section.read_all(json::MAX_DOCUMENT, &place)?;
    if Digest::of(&bytes) != descriptor.digest {
        return Err(ContainerError::invalid(place, "the bytes do not have this digest"));
    }
    json::read(&bytes, json::MAX_DOCUMENT, &place)
}

pub(crate) fn check_size(length: u64, descriptor: &Descriptor, place: &str) -> Result<()> {
    match length == descriptor.size {
        true => Ok(()),
        false => Err(ContainerError::invalid(place, format!("has {length} bytes, its descriptor says {}", descriptor.size))),
    }
}

fn check_annotations(annotations: &Annotations, place: &str) -> Result<()> {
    let size: usize = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
    match size <= MAX_ANNOTATIONS {
        true => Ok(()),
        false => Err(ContainerError::invalid(place, format!("{size} bytes of annotations, more than {MAX_ANNOTATIONS}"))),
    }
}
