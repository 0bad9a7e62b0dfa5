//! From an OCI layout to the files under `/models`: index → image for this host → layers.
//! Documents are checked against their digests; layers only by form, as every file in them is bound
//! by `oaax.json`, whose own layer is checked.

use super::{Bytes, gzip, tar};
use crate::{
    cpu::architecture,
    digest::{digest, digest_from_hex, hex},
    error::{Result, fail},
    json::Json,
};
use std::{collections::BTreeMap, path::PathBuf};

/// Largest index, manifest or config.
const MAX_DOCUMENT: usize = 4 << 20;

/// Where blobs are.
pub enum Layout {
    /// In a folder.
    Folder(PathBuf),
    /// In an archive, by path.
    Archive(BTreeMap<String, Bytes>),
}

impl Layout {
    fn get(&self, path: &str) -> Result<Bytes> {
        match self {
            Layout::Folder(folder) => Bytes::map(&folder.join(path)),
            Layout::Archive(files) => match files.get(path) {
                Some(bytes) => Ok(bytes.clone()),
                None => fail!(InvalidModel, "not an artefact: the archive has no {path}"),
            },
        }
    }

    /// The blob of a descriptor, unverified but of the right size.
    fn blob(&self, descriptor: &Json) -> Result<(Bytes, [u8; 32])> {
        let text = descriptor.get("digest").and_then(Json::text).unwrap_or_default();
        let Some(expected) = text.strip_prefix("sha256:").and_then(digest_from_hex) else {
            fail!(InvalidModel, "a descriptor has the digest {text:?}");
        };
        let bytes = self.get(&format!("blobs/sha256/{}", hex(&expected)))?;
        match descriptor.get("size").and_then(Json::u64) == Some(bytes.len() as u64) {
            true => Ok((bytes, expected)),
            false => fail!(Tampered, "blob {text}: {} bytes are not what its descriptor says", bytes.len()),
        }
    }

    fn document(&self, descriptor: &Json) -> Result<Json> {
        let (bytes, expected) = self.blob(descriptor)?;
        if bytes.len() > MAX_DOCUMENT || digest(&bytes) != expected {
            fail!(Tampered, "blob sha256:{}: is not what its digest says", hex(&expected));
        }
        parse(&bytes)
    }
}

fn parse(bytes: &[u8]) -> Result<Json> {
    match Json::parse(bytes) {
        Ok(json) => Ok(json),
        Err(reason) => fail!(InvalidModel, "an OCI document {reason}"),
    }
}

/// The descriptor in `index` that suits this host: its architecture and no accelerator demanded,
/// else its architecture, else the first.
fn choose(index: &Json) -> Result<&Json> {
    let manifests = index.get("manifests").map_or(&[][..], Json::list);
    let suits = |descriptor: &&Json| {
        let platform = descriptor.get("platform");
        platform.and_then(|platform| platform.get("architecture")).and_then(Json::text) == Some(architecture())
    };
    let plain = |descriptor: &&Json| descriptor.get("platform").is_some_and(|platform| platform.get("os.features").is_none());
    let found = manifests.iter().find(|descriptor| suits(descriptor) && plain(descriptor));
    match found.or_else(|| manifests.iter().find(suits)).or(manifests.first()) {
        Some(descriptor) => Ok(descriptor),
        None => fail!(InvalidModel, "an OCI index lists nothing"),
    }
}

/// The files under `/models` of the image for this host, without that prefix.
pub fn model_files(layout: &Layout, copied: &mut Vec<String>) -> Result<BTreeMap<String, Bytes>> {
    let index = layout.get("index.json")?;
    if index.len() > MAX_DOCUMENT {
        fail!(InvalidModel, "index.json: {} bytes are too many", index.len());
    }
    let mut document = parse(&index)?;
    for _ in 0..4 {
        if document.get("manifests").is_none() {
            break;
        }
        document = layout.document(choose(&document)?)?;
    }
    let Some(config) = document.get("config") else { fail!(InvalidModel, "the OCI manifest has no config") };
    let config = layout.document(config)?;
    let diff_ids = config.get("rootfs").and_then(|rootfs| rootfs.get("diff_ids")).map_or(&[][..], Json::list);
    let layers = document.get("layers").map_or(&[][..], Json::list);
    if layers.len() != diff_ids.len() {
        fail!(InvalidModel, "the image has {} layers and {} diff_ids", layers.len(), diff_ids.len());
    }
    let mut files = BTreeMap::new();
    for (layer, diff_id) in layers.iter().zip(diff_ids) {
        let role = layer.get("annotations").and_then(|all| all.get("io.oaax.layer.role")).and_then(Json::text);
        if role == Some("runtime") {
            continue;
        }
        let (mut bytes, _) = layout.blob(layer)?;
        if bytes.starts_with(&[0x1f, 0x8b]) {
            bytes = Bytes::copy_of(&gzip::stored(&bytes)?)?;
            copied.push(format!("the layer of role {}, as it is stored in gzip", role.unwrap_or("?")));
        }
        for (path, data) in tar::read(&bytes)? {
            let Some(path) = path.strip_prefix("models/") else { continue };
            let diff_id = diff_id.text().and_then(|text| text.strip_prefix("sha256:"));
            if path == "oaax.json" && diff_id != Some(hex(&digest(&bytes)).as_str()) {
                fail!(Tampered, "oaax.json: its layer is not what its diff_id says");
            }
            files.insert(path.to_owned(), data);
        }
    }
    Ok(files)
}
