//! `model.oaax`: an OCI archive that can be mapped.
//!
//! Promises: layers are plain tars that begin at multiples of 64 KiB of the file, so each file's data does too.
//! The output appears whole under its name or not at all.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt, path::Path};

use crate::{
    digest::Digest,
    error::{ContainerError, Result},
    image::Document,
    json, oci,
    oci::{Annotations, Descriptor, DockerEntry, Index},
    package::Package,
    place::{resolve, temporary_prefix},
    prepare::{Prepared, Written, prepare},
    sink::{FileSink, Sink},
    tar::write::{READABLE, TarWriter},
};

/// Writes `package` as a mappable OCI archive to the file `path`, replacing what is there.
pub fn write_archive(package: &Package, path: &Path) -> Result<Written> {
    let path = &*resolve(path)?;
    if path.is_dir() {
        return Err(ContainerError::package(format!("{} is a folder; the archive is a file", path.display())));
    }
    let prepared = prepare(package)?;
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let failed = |error| ContainerError::io("create", path, error);
    let temporary = tempfile::Builder::new()
        .prefix(&temporary_prefix())
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(folder)
        .map_err(failed)?;
    let file = temporary.as_file().try_clone().map_err(failed)?;
    let bytes = emit(package, &prepared, FileSink::new(file, path))?;
    temporary.persist(path).map_err(|error| failed(error.error))?;
    Ok(Written {
        index: prepared.plain.index.digest,
        registry_index: prepared.gzip.index.digest,
        manifest: prepared.manifest,
        bytes,
    })
}

fn emit(package: &Package, prepared: &Prepared, sink: FileSink) -> Result<u64> {
    let documents = prepared.configs.iter().chain(&prepared.plain.manifests).chain([&prepared.plain.index]);
    let documents: BTreeMap<_, &Document> = documents.map(|document| (document.digest, document)).collect();
    let mut bytes = 0;
    let mut tar = TarWriter::new(sink);
    put(&mut tar, "oci-layout", oci::LAYOUT_FILE)?;
    put(&mut tar, "index.json", &index_json(package, prepared))?;
    put(&mut tar, "manifest.json", &docker_manifest(package, prepared))?;
    tar.folder("blobs")?;
    tar.folder("blobs/sha256")?;
    for (digest, document) in documents {
        bytes += document.bytes.len() as u64;
        put(&mut tar, &format!("blobs/sha256/{}", digest.hex()), &document.bytes)?;
    }
    for layer in prepared.distinct_layers() {
        bytes += layer.tar_size;
        let name = format!("blobs/sha256/{}", layer.diff_id.hex());
        tar.file(&name, READABLE, layer.tar_size, true, |sink| layer.layer.emit(sink).map(|_| ()))?;
    }
    tar.finish()?.finish()?;
    Ok(bytes)
}

fn put<S: Sink>(tar: &mut TarWriter<S>, path: &str, bytes: &[u8]) -> Result<()> {
    tar.file(path, READABLE, bytes.len() as u64, false, |sink| sink.put(bytes))
}

/// One entry, because importers stumble over several references in an archive.
fn index_json(package: &Package, prepared: &Prepared) -> Vec<u8> {
    let annotations: Annotations = [(oci::REF_NAME.to_owned(), package.options.tag.clone())].into();
    let entry = Descriptor { annotations, ..prepared.plain.index.descriptor(oci::INDEX) };
    json::canonical(&Index {
        schema_version: 2,
        media_type: Some(oci::INDEX.to_owned()),
        manifests: vec![entry],
        annotations: prepared.registry_annotations(),
    })
}

/// The same blobs once more, in the words of `docker load`: the first image only.
fn docker_manifest(package: &Package, prepared: &Prepared) -> Vec<u8> {
    let layers: Vec<Digest> = prepared.images[0].layers.iter().map(|&layer| prepared.layers[layer].diff_id).collect();
    docker_entry(&package.manifest.name, &package.options.tag, prepared.configs[0].digest, &layers)
}

/// `manifest.json` for one image of plain layers.
pub(crate) fn docker_entry(name: &str, tag: &str, config: Digest, layers: &[Digest]) -> Vec<u8> {
    let blob = |digest: &Digest| format!("blobs/sha256/{}", digest.hex());
    json::canonical(&[DockerEntry {
        config: blob(&config),
        repo_tags: vec![format!("{}:{tag}", repository(name))],
        layers: layers.iter().map(blob).collect(),
    }])
}

/// A name that Docker accepts as a repository: lower-case letters and digits with single hyphens.
fn repository(name: &str) -> String {
    let words: Vec<String> =
        name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_ascii_lowercase).collect();
    if words.is_empty() { "model".to_owned() } else { words.join("-") }
}

#[cfg(test)]
mod tests {
    use super::repository;

    #[test]
    fn any_model_name_gives_a_repository_name() {
        assert_eq!(repository("ch_PP-OCRv4_det"), "ch-pp-ocrv4-det");
        assert_eq!(repository("--"), "model");
        assert_eq!(repository("torch-jit-export/Ünï"), "torch-jit-export-n");
    }
}
