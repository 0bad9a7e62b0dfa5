//! A report on a package, for people and programs.
//!
//! Promises: plain data that serialises; the same package gives the same report wherever it lies.

use std::{collections::BTreeMap, path::Path};

use serde::Serialize;

use crate::{
    digest::Digest,
    error::Result,
    manifest::Manifest,
    oci,
    open::{Form, OpenedPackage, open},
};

/// What a package is and holds.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Archive, layout or folder.
    pub form: Form,
    /// Whether something outside the files binds `oaax.json`.
    pub bound: bool,
    /// SHA-256 of `oaax.json`.
    pub manifest_digest: Digest,
    /// `oaax.json`.
    pub manifest: Manifest,
    /// Variants whose files are all here.
    pub variants_present: Vec<String>,
    /// Files under `/models` that are here.
    pub files: Vec<ReportFile>,
    /// Bytes of them.
    pub bytes: u64,
    /// Images, the first being the one that tools choose; empty for a folder.
    pub images: Vec<ReportImage>,
    /// Layers of all images.
    pub layers: Vec<ReportLayer>,
    /// Digests of the registry form: `index`, `manifest.0` …, `layer.<diff_id>`; from an archive only.
    pub registry: BTreeMap<String, String>,
}

/// One file.
#[derive(Clone, Debug, Serialize)]
pub struct ReportFile {
    /// Relative to `/models`.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// As in `oaax.json`.
    pub role: String,
    /// As in `oaax.json`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// First byte in the archive or file, where it can be mapped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
}

/// One image.
#[derive(Clone, Debug, Serialize)]
pub struct ReportImage {
    /// Digest of its manifest.
    pub digest: Digest,
    /// `linux/amd64`.
    pub platform: String,
    /// Its targets.
    pub targets: Vec<String>,
    /// Whether it holds one target of several.
    pub slim: bool,
    /// Digests of its layers, bottom first.
    pub layers: Vec<Digest>,
}

/// One layer.
#[derive(Clone, Debug, Serialize)]
pub struct ReportLayer {
    /// Digest of the blob.
    pub digest: Digest,
    /// Digest of its tar.
    pub diff_id: Digest,
    /// Bytes of the blob.
    pub size: u64,
    /// `runtime`, `weights`, `target`, `other`, `manifest`; none if its writer did not say.
    pub role: Option<String>,
    /// Regular files in it.
    pub files: usize,
    /// Whether it is compressed.
    pub gzip: bool,
}

/// Opens the package at `path` and reports on it.
pub fn inspect(path: &Path) -> Result<Report> {
    open(path).map(|package| package.report())
}

impl OpenedPackage {
    /// What this package is and holds.
    pub fn report(&self) -> Report {
        let files: Vec<ReportFile> = self
            .files()
            .map(|(path, file)| ReportFile {
                path: path.to_owned(),
                size: file.entry.size,
                role: file.entry.role.clone(),
                target: file.entry.target.clone(),
                offset: self.range(path).map(|range| range.offset),
            })
            .collect();
        let ids = self.manifest.variants.iter().map(|variant| variant.id.clone());
        let registry = self
            .annotations
            .iter()
            .filter_map(|(key, value)| key.strip_prefix(oci::REGISTRY).map(|short| (short.to_owned(), value.clone())));
        Report {
            form: self.form,
            bound: self.bound,
            manifest_digest: Digest::of(&self.manifest_bytes),
            manifest: self.manifest.clone(),
            variants_present: ids.filter(|id| self.has_variant(id)).collect(),
            bytes: files.iter().map(|file| file.size).sum(),
            files,
            images: self.report_images(),
            layers: self.report_layers(),
            registry: registry.collect(),
        }
    }

    fn report_images(&self) -> Vec<ReportImage> {
        let targets = |text: &String| text.split(',').filter(|id| !id.is_empty()).map(str::to_owned).collect();
        self.images
            .iter()
            .map(|image| ReportImage {
                digest: image.digest,
                platform: format!("{}/{}", image.platform.os, image.platform.architecture),
                targets: image.annotations.get(oci::TARGETS).map(targets).unwrap_or_default(),
                slim: image.annotations.get(oci::VARIANT).is_some_and(|variant| variant == "slim"),
                layers: image.layers.iter().map(|layer| layer.descriptor.digest).collect(),
            })
            .collect()
    }

    fn report_layers(&self) -> Vec<ReportLayer> {
        self.layers
            .iter()
            .map(|layer| ReportLayer {
                digest: layer.digest,
                diff_id: layer.diff_id,
                size: layer.section.length,
                role: layer.role.clone(),
                files: layer.files,
                gzip: layer.gzip,
            })
            .collect()
    }
}
