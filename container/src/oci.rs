//! The OCI documents that this crate writes and reads: layout, index, manifest, config.
//!
//! Promises: written as canonical JSON; read with unknown fields ignored and digests in their one spelling.
//! Foreign documents keep their raw bytes: nothing here is serialised again after reading.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;

pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub(crate) const LAYER_TAR: &str = "application/vnd.oci.image.layer.v1.tar";
pub(crate) const LAYER_GZIP: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// Annotation: name of a reference in a layout's `index.json`.
pub(crate) const REF_NAME: &str = "org.opencontainers.image.ref.name";
/// Annotation: title of the whole.
pub(crate) const TITLE: &str = "org.opencontainers.image.title";
/// Annotation: which kind of layer this is, a `LayerRole`'s name.
pub(crate) const LAYER_ROLE: &str = "io.oaax.layer.role";
/// Annotation and label: comma-separated targets of an image.
pub(crate) const TARGETS: &str = "io.oaax.targets";
/// Annotation: `slim` on an image with one target of several.
pub(crate) const VARIANT: &str = "io.oaax.variant";
/// Annotation: version of the whole arrangement.
pub(crate) const ARRANGEMENT: &str = "io.oaax.schema";
/// Prefix of the annotations that tell the digests of the registry form.
pub(crate) const REGISTRY: &str = "io.oaax.registry.";

/// Bytes of the file `oci-layout`.
pub(crate) const LAYOUT_FILE: &[u8] = br#"{"imageLayoutVersion":"1.0.0"}"#;

pub(crate) type Annotations = BTreeMap<String, String>;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LayoutVersion {
    pub image_layout_version: String,
}

/// A pointer to a blob: what, which, how long.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    pub media_type: String,
    pub digest: Digest,
    pub size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<OciPlatform>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: Annotations,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OciPlatform {
    pub architecture: String,
    pub os: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    #[serde(default, rename = "os.features", skip_serializing_if = "Vec::is_empty")]
    pub os_features: Vec<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Index {
    pub schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    pub manifests: Vec<Descriptor>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: Annotations,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImageManifest {
    pub schema_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    pub config: Descriptor,
    pub layers: Vec<Descriptor>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: Annotations,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ImageConfig {
    pub architecture: String,
    pub os: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    #[serde(default)]
    pub config: RunConfig,
    pub rootfs: RootFs,
    #[serde(default)]
    pub history: Vec<History>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct RunConfig {
    #[serde(default)]
    pub user: Option<String>,
    #[serde(default)]
    pub env: Option<Vec<String>>,
    #[serde(default)]
    pub entrypoint: Option<Vec<String>>,
    #[serde(default)]
    pub cmd: Option<Vec<String>>,
    #[serde(default)]
    pub working_dir: Option<String>,
    #[serde(default)]
    pub labels: Option<Annotations>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RootFs {
    #[serde(rename = "type")]
    pub kind: String,
    pub diff_ids: Vec<Digest>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct History {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_by: Option<String>,
}

/// One element of `manifest.json`, the list by which `docker load` finds an image in an archive.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct DockerEntry {
    pub config: String,
    pub repo_tags: Vec<String>,
    pub layers: Vec<String>,
}
