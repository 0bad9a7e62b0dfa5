//! The files in the layers of a layout, matched with `oaax.json` entry by entry.
//!
//! Promises: a file that the manifest does not list, or lists with another size, is refused at its header, before
//! its data is read; so what is unpacked is bounded by what is declared.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read,
};

use super::{
    OpenedFile, Place,
    images::{ImageFacts, LayerFacts, check_size},
    source::{LayerSource, Section, is_gzip},
    store::Store,
};
use crate::{
    digest::Digest,
    error::{ContainerError, Result},
    json,
    manifest::Manifest,
    tar::read::{Entry, TarReader},
};

const MANIFEST_PATH: &str = "models/oaax.json";
/// The manifest layer: the largest manifest, its padding, headers and the end.
const MAX_MANIFEST_LAYER: u64 = json::MAX_MANIFEST + (256 << 10);

/// One layer that was read.
#[derive(Debug)]
pub(crate) struct OpenedLayer {
    pub digest: Digest,
    pub diff_id: Digest,
    pub role: Option<String>,
    pub gzip: bool,
    pub section: Section,
    /// Number of regular files.
    pub files: usize,
}

/// Reads `oaax.json` from the last layer of the images, which must be the same one in all of them.
pub(crate) fn manifest(store: &Store, images: &[ImageFacts]) -> Result<(Vec<u8>, LayerFacts)> {
    let wrong = |reason: &str| ContainerError::invalid("index.json", reason);
    let mut last = images.iter().map(|image| image.layers.last());
    let first = last.next().flatten().ok_or_else(|| wrong("leads to an image without layers"))?;
    if !last.all(|layer| layer.is_some_and(|layer| layer.diff_id == first.diff_id)) {
        return Err(wrong("leads to images of different packages; name one by its tag"));
    }
    let place = place_of(first);
    let section = store.blob(&first.descriptor.digest)?;
    check_size(section.length, &first.descriptor, &place)?;
    if section.length > MAX_MANIFEST_LAYER {
        return Err(ContainerError::invalid(place, "the last layer is too large to be the one of oaax.json"));
    }
    let mut tar = TarReader::new(LayerSource::new(&section, &place)?, &place);
    let mut found = None;
    while let Some(entry) = tar.next()? {
        if entry.folder {
            continue;
        }
        if entry.path != MANIFEST_PATH || entry.size > json::MAX_MANIFEST {
            return Err(ContainerError::invalid(&place, format!("the last layer holds {:?}, not oaax.json alone", entry.path)));
        }
        let mut bytes = vec![0u8; entry.size as usize];
        tar.data(&mut bytes)?;
        found = Some(bytes);
    }
    let bytes = found.ok_or_else(|| ContainerError::invalid(&place, "the last layer has no models/oaax.json"))?;
    check_digests(tar.into_source(), &section, first, &place)?;
    Ok((bytes, first.clone()))
}

/// `oaax.json` in the bytes of a manifest layer, whichever way it is stored.
pub fn manifest_in_layer(bytes: &[u8]) -> Result<Manifest> {
    let place = "the manifest layer";
    let section = Section::of_memory(bytes::Bytes::copy_from_slice(bytes));
    let mut tar = TarReader::new(LayerSource::new(&section, place)?, place);
    while let Some(entry) = tar.next()? {
        if entry.path == MANIFEST_PATH && !entry.folder && entry.size <= json::MAX_MANIFEST {
            let mut bytes = vec![0u8; entry.size as usize];
            tar.data(&mut bytes)?;
            return Manifest::from_json(&bytes);
        }
    }
    Err(ContainerError::invalid(place, "has no models/oaax.json"))
}

/// Reads the headers of every layer; gives the model's files by path.
pub(crate) fn read(
    store: &Store,
    images: &[ImageFacts],
    manifest: &Manifest,
    manifest_layer: &LayerFacts,
) -> Result<(Vec<OpenedLayer>, BTreeMap<String, OpenedFile>)> {
    let listed: BTreeMap<&str, _> = manifest.files.iter().map(|file| (file.path.as_str(), file)).collect();
    let mut seen = BTreeSet::new();
    let mut layers = Vec::new();
    let mut files: BTreeMap<String, OpenedFile> = BTreeMap::new();
    for facts in images.iter().flat_map(|image| &image.layers) {
        if !seen.insert(facts.diff_id) {
            continue;
        }
        let place = place_of(facts);
        let section = store.blob(&facts.descriptor.digest)?;
        check_size(section.length, &facts.descriptor, &place)?;
        let gzip = is_gzip(&section, &place)?;
        let mut tar = TarReader::new(LayerSource::new(&section, &place)?, &place);
        let mut count = 0;
        while let Some(entry) = tar.next()? {
            let wrong = |reason: &str| ContainerError::invalid(format!("{place}, {:?}", entry.path), reason);
            check_root(&entry).map_err(wrong)?;
            if entry.folder {
                continue;
            }
            count += 1;
            let Some(path) = entry.path.strip_prefix("models/") else {
                continue;
            };
            if path == "oaax.json" && facts.diff_id == manifest_layer.diff_id {
                continue;
            }
            let listed = *listed.get(path).ok_or_else(|| wrong("is not listed in oaax.json"))?;
            if listed.size != entry.size {
                return Err(wrong("has another size than oaax.json says"));
            }
            let at = match gzip {
                true => Place::InGzip { layer: layers.len() },
                false => Place::Whole(section.part(entry.offset, entry.size).ok_or_else(|| wrong("reaches beyond the end"))?),
            };
            if files.insert(path.to_owned(), OpenedFile { entry: listed.clone(), place: at }).is_some() {
                return Err(wrong("stands in two layers"));
            }
        }
        check_digests(tar.into_source(), &section, facts, &place)?;
        let role = facts.descriptor.annotations.get(crate::oci::LAYER_ROLE).cloned();
        layers.push(OpenedLayer { digest: facts.descriptor.digest, diff_id: facts.diff_id, role, gzip, section, files: count });
    }
    Ok((layers, files))
}

fn check_root(entry: &Entry) -> std::result::Result<(), &'static str> {
    let root = entry.path.split('/').next().unwrap_or_default();
    let bare = entry.path == root && !entry.folder;
    match root {
        "models" | "usr" if !bare => Ok(()),
        _ => Err("lies neither under models/ nor under usr/"),
    }
}

/// A gzip layer has been read to its end and both its digests are known; of a plain layer the two names must be
/// one, and its bytes are hashed by `verify` (its files have trees of their own), but for a small one here.
fn check_digests(source: LayerSource, section: &Section, facts: &LayerFacts, place: &str) -> Result<()> {
    let (digest, diff_id) = match source {
        LayerSource::Gzip(inflater) => inflater.finish(place)?,
        LayerSource::Plain(_) if section.length <= MAX_MANIFEST_LAYER => {
            let digest = section.digest(place)?;
            (digest, digest)
        }
        LayerSource::Plain(_) => (facts.descriptor.digest, facts.descriptor.digest),
    };
    if digest != facts.descriptor.digest {
        return Err(ContainerError::invalid(place, format!("the bytes have the digest {digest}")));
    }
    match diff_id == facts.diff_id {
        true => Ok(()),
        false => Err(ContainerError::invalid(place, format!("its tar is {diff_id}, the config says {}", facts.diff_id))),
    }
}

fn place_of(facts: &LayerFacts) -> String {
    format!("layer {}", facts.descriptor.digest)
}

/// Reads a gzip layer's files of the model in order, handing each to `take`.
pub(crate) fn stream(layer: &OpenedLayer, mut take: impl FnMut(&str, &mut dyn Read) -> Result<()>) -> Result<()> {
    let place = format!("layer {}", layer.digest);
    let mut tar = TarReader::new(LayerSource::new(&layer.section, &place)?, &place);
    while let Some(entry) = tar.next()? {
        if let Some(path) = entry.path.strip_prefix("models/")
            && !entry.folder
        {
            take(path, &mut EntryReader(&mut tar))?;
        }
    }
    Ok(())
}

struct EntryReader<'a>(&'a mut TarReader<LayerSource>);

impl Read for EntryReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.data(buffer).map_err(std::io::Error::other)
    }
}
