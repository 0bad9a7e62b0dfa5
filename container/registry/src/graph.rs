//! From an index or manifest to everything below it.
//!
//! Promises: one level of index and no more; each document once; sizes and numbers are bounded before anything large
//! travels.

use std::collections::BTreeMap;

use oaaxc_container::Digest;
use serde::Deserialize;

use crate::{
    client::{INDEX, Manifest},
    error::{RegistryError, Result},
};

const MAX_MANIFESTS: usize = 1024;
const MAX_LAYERS: usize = 128;
const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    #[serde(default)]
    pub media_type: String,
    pub digest: Digest,
    pub size: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    schema_version: u32,
    #[serde(default)]
    media_type: Option<String>,
    manifests: Option<Vec<Descriptor>>,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
}

/// All that a name stands for.
pub(crate) struct Graph {
    pub root: Manifest,
    /// Below the root, if that is an index.
    pub manifests: Vec<Manifest>,
    /// Configs and layers by digest, with their sizes.
    pub blobs: BTreeMap<Digest, u64>,
}

impl Graph {
    /// Fetches every manifest below `root`.
    pub fn walk(root: Manifest, fetch: &dyn Fn(&Digest) -> Result<Manifest>) -> Result<Graph> {
        let mut graph = Graph { manifests: Vec::new(), blobs: BTreeMap::new(), root };
        let top = parse(&graph.root)?;
        let Some(children) = top.manifests else {
            graph.add_blobs(top.config, top.layers, &graph.root.digest.clone())?;
            return Ok(graph);
        };
        if children.len() > MAX_MANIFESTS {
            return Err(RegistryError::Invalid(format!("an index of {} manifests, more than {MAX_MANIFESTS}", children.len())));
        }
        for child in children {
            if graph.manifests.iter().any(|known| known.digest == child.digest) {
                continue;
            }
            let mut manifest = fetch(&child.digest)?;
            let length = manifest.bytes.len() as u64;
            if length != child.size {
                let reason = format!("the manifest {} has {length} bytes, its descriptor says {}", child.digest, child.size);
                return Err(RegistryError::Invalid(reason));
            }
            let document = parse(&manifest)?;
            if document.manifests.is_some() {
                return Err(RegistryError::Invalid(format!("{}: an index inside an index", child.digest)));
            }
            graph.add_blobs(document.config, document.layers, &child.digest)?;
            manifest.media_type = document.media_type.unwrap_or(child.media_type);
            graph.manifests.push(manifest);
        }
        Ok(graph)
    }

    fn add_blobs(&mut self, config: Option<Descriptor>, layers: Option<Vec<Descriptor>>, of: &Digest) -> Result<()> {
        let wrong = |reason: String| RegistryError::Invalid(format!("manifest {of}: {reason}"));
        let config = config.ok_or_else(|| wrong("has neither manifests nor a config".to_owned()))?;
        let layers = layers.unwrap_or_default();
        if layers.len() > MAX_LAYERS {
            return Err(wrong(format!("{} layers, more than {MAX_LAYERS}", layers.len())));
        }
        for blob in [config].into_iter().chain(layers) {
            if self.blobs.insert(blob.digest, blob.size).is_some_and(|before| before != blob.size) {
                return Err(wrong(format!("two sizes of the blob {}", blob.digest)));
            }
        }
        Ok(())
    }

    /// The root and all below it, which a signature may speak of.
    pub fn subjects(&self) -> impl Iterator<Item = &Digest> {
        [&self.root].into_iter().chain(&self.manifests).map(|manifest| &manifest.digest)
    }
}

fn parse(manifest: &Manifest) -> Result<Document> {
    let wrong = |reason: String| RegistryError::Invalid(format!("manifest {}: {reason}", manifest.digest));
    let document: Document = serde_json::from_slice(&manifest.bytes).map_err(|error| wrong(error.to_string()))?;
    if document.schema_version != 2 {
        return Err(wrong(format!("schemaVersion {}", document.schema_version)));
    }
    let says_index = [document.media_type.as_deref(), Some(&manifest.media_type)].iter().flatten().any(|t| is_index(t));
    // One document, one kind: two readers must not see an image and an index in the same bytes.
    match document.manifests.is_some() != (document.config.is_some() || document.layers.is_some())
        && says_index == document.manifests.is_some()
    {
        true => Ok(document),
        false => Err(wrong("is an index and an image at once, or is labelled as the other".to_owned())),
    }
}

fn is_index(media_type: &str) -> bool {
    media_type == INDEX || media_type == DOCKER_LIST
}
