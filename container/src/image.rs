//! Images over measured layers: configs, manifests and the index, in one encoding or the other.
//!
//! Promises: both encodings share the configs and so the `diff_id`s; no `artifactType` anywhere (some tools then
//! take an image for an artefact); the first entry of the index is the image with every target of the first
//! platform, because tools choose the first entry that fits the CPU.

use crate::{
    digest::Digest,
    json,
    layer::{LayerRole, MeasuredLayer},
    oci::{self, Annotations, Descriptor, History, ImageConfig, ImageManifest, Index, OciPlatform, RootFs, RunConfig},
};

/// How layers are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// Plain tar, for mapping.
    Plain,
    /// Stored gzip, for registries.
    Gzip,
}

/// A JSON document and its name.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub bytes: Vec<u8>,
    pub digest: Digest,
}

impl Document {
    pub fn new<T: serde::Serialize>(value: &T) -> Document {
        let bytes = json::canonical(value);
        Document { digest: Digest::of(&bytes), bytes }
    }

    pub fn descriptor(&self, media_type: &str) -> Descriptor {
        Descriptor {
            media_type: media_type.to_owned(),
            digest: self.digest,
            size: self.bytes.len() as u64,
            platform: None,
            artifact_type: None,
            annotations: Annotations::new(),
        }
    }
}

/// One image: a platform and a choice of layers.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    pub platform: OciPlatform,
    pub targets: Vec<String>,
    pub slim: bool,
    /// Of the reference in a layout directory: `v1-amd64`.
    pub reference: String,
    /// Positions in the list of layers, bottom first.
    pub layers: Vec<usize>,
}

impl Image {
    pub fn config(&self, layers: &[MeasuredLayer], created: u64) -> Document {
        let created = Some(rfc3339(created));
        let chosen = || self.layers.iter().map(|&layer| &layers[layer]);
        let strings = |items: &[&str]| Some(items.iter().map(|item| (*item).to_owned()).collect());
        Document::new(&ImageConfig {
            architecture: self.platform.architecture.clone(),
            os: self.platform.os.clone(),
            variant: self.platform.variant.clone(),
            created: created.clone(),
            config: RunConfig {
                user: Some("65532:65532".to_owned()),
                env: strings(&["PATH=/usr/bin"]),
                entrypoint: strings(&["/usr/bin/oaax-run"]),
                cmd: strings(&["info", "/models"]),
                working_dir: Some("/models".to_owned()),
                labels: Some([(oci::TARGETS.to_owned(), self.targets.join(","))].into()),
            },
            rootfs: RootFs { kind: "layers".to_owned(), diff_ids: chosen().map(|layer| layer.diff_id).collect() },
            history: chosen()
                .map(|layer| History { created: created.clone(), created_by: Some(format!("oaaxc: {}", describe(layer))) })
                .collect(),
        })
    }

    pub fn manifest(&self, config: &Document, layers: &[MeasuredLayer], encoding: Encoding) -> Document {
        Document::new(&ImageManifest {
            schema_version: 2,
            media_type: Some(oci::MANIFEST.to_owned()),
            artifact_type: None,
            config: config.descriptor(oci::CONFIG),
            layers: self.layers.iter().map(|&layer| layers[layer].descriptor(encoding)).collect(),
            annotations: self.annotations(),
        })
    }

    fn annotations(&self) -> Annotations {
        let mut annotations: Annotations = [(oci::TARGETS.to_owned(), self.targets.join(","))].into();
        if self.slim {
            annotations.insert(oci::VARIANT.to_owned(), "slim".to_owned());
        }
        annotations
    }

    pub fn descriptor(&self, manifest: &Document) -> Descriptor {
        Descriptor {
            platform: Some(self.platform.clone()),
            annotations: self.annotations(),
            ..manifest.descriptor(oci::MANIFEST)
        }
    }
}

impl MeasuredLayer {
    fn descriptor(&self, encoding: Encoding) -> Descriptor {
        let (media_type, digest, size) = match encoding {
            Encoding::Plain => (oci::LAYER_TAR, self.diff_id, self.tar_size),
            Encoding::Gzip => (oci::LAYER_GZIP, self.gzip_digest, self.gzip_size),
        };
        let annotations = [(oci::LAYER_ROLE.to_owned(), self.layer.role.name().to_owned())].into();
        Descriptor { media_type: media_type.to_owned(), digest, size, platform: None, artifact_type: None, annotations }
    }
}

fn describe(layer: &MeasuredLayer) -> String {
    match (layer.layer.role, &layer.layer.target) {
        (LayerRole::Target, Some(target)) => format!("target {target}"),
        (role, _) => role.name().to_owned(),
    }
}

/// The image index over `manifests`, one for each of `images`.
pub(crate) fn index(images: &[Image], manifests: &[Document], title: &str) -> Document {
    let annotations = [(oci::ARRANGEMENT.to_owned(), "1".to_owned()), (oci::TITLE.to_owned(), title.to_owned())].into();
    Document::new(&Index {
        schema_version: 2,
        media_type: Some(oci::INDEX.to_owned()),
        manifests: images.iter().zip(manifests).map(|(image, manifest)| image.descriptor(manifest)).collect(),
        annotations,
    })
}

/// Seconds since 1970 as RFC 3339 in UTC, by the proleptic Gregorian calendar.
fn rfc3339(seconds: u64) -> String {
    // Years are counted from March, so that the leap day is a year's last day; 400 years have 146,097 days.
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_become_dates() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(seconds), text);
        }
    }
}
