//! From one encoding to the other without the compiler: an archive becomes a layout as registries keep it, a pulled layout
//! becomes a `model.oaax` that can be mapped.
//!
//! Promises: configs and `diff_id`s stay, only layers and what names them are written anew; an archive that this crate
//! wrote gives the layout that its `io.oaax.registry.*` annotations announce, and that layout gives the archive again.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Read,
    os::unix::fs::PermissionsExt,
    path::Path,
};

use serde_json::Value;

use crate::{
    digest::Digest,
    error::{ContainerError, Result},
    gzip::GzipSink,
    image::{Document, Encoding},
    json,
    layer::LayerRole,
    oci,
    open::{ImageFacts, LayerFacts, LayerSource, Section, Store, open_any, walk},
    sink::{FileSink, HashSink, Sink},
    tar::write::{READABLE, TarWriter},
};

/// One layer on its way: where its bytes are, and its names in both encodings.
struct Layer {
    section: Section,
    rank: u8,
    diff_id: Digest,
    tar_size: u64,
    gzip: (Digest, u64),
}

/// Everything of a package but its layers' bytes.
struct Plan {
    tag: String,
    title: String,
    layers: Vec<Layer>,
    configs: BTreeMap<Digest, Vec<u8>>,
    plain: Documents,
    gzip: Documents,
}

/// Manifests in their order and the index, where there is one.
struct Documents {
    manifests: Vec<Document>,
    index: Option<Document>,
}

impl Documents {
    fn root(&self) -> (&Document, &'static str) {
        match &self.index {
            Some(index) => (index, oci::INDEX),
            None => (&self.manifests[0], oci::MANIFEST),
        }
    }
}

/// Writes the package at `source` (archive or layout) as a layout in registry form to the new folder `path`.
pub fn to_layout(source: &Path, path: &Path, tag: Option<&str>) -> Result<Digest> {
    let plan = plan(source, tag)?;
    let failed = |error| ContainerError::io("create", path, error);
    if fs::symlink_metadata(path).is_ok() {
        return Err(ContainerError::package(format!("{} exists; this needs a new folder", path.display())));
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let temporary = tempfile::Builder::new()
        .prefix(".oaaxc-")
        .permissions(fs::Permissions::from_mode(0o777))
        .tempdir_in(parent)
        .map_err(failed)?;
    let folder = temporary.path();
    fs::create_dir_all(folder.join("blobs/sha256")).map_err(failed)?;
    let create = |name: &str| fs::File::create(folder.join(name)).map(|file| FileSink::new(file, path)).map_err(failed);
    for layer in &plan.layers {
        let sink = create(&format!("blobs/sha256/{}", layer.gzip.0.hex()))?;
        layer.emit(Encoding::Gzip, sink)?.finish()?;
    }
    let put = |name: &str, bytes: &[u8]| {
        let mut sink = create(name)?;
        sink.put(bytes)?;
        sink.finish()
    };
    for (digest, bytes) in plan.documents(&plan.gzip) {
        put(&format!("blobs/sha256/{}", digest.hex()), bytes)?;
    }
    let (root, media_type) = plan.gzip.root();
    put("index.json", &top(root, media_type, &plan.tag, oci::Annotations::new()))?;
    put("oci-layout", oci::LAYOUT_FILE)?;
    fs::rename(folder, path).map_err(failed)?;
    let _ = temporary.keep();
    Ok(root.digest)
}

/// Writes the package at `source` (layout or archive) as a mappable archive to the file `path`.
pub fn to_archive(source: &Path, path: &Path, tag: Option<&str>) -> Result<Digest> {
    let plan = plan(source, tag)?;
    let failed = |error| ContainerError::io("create", path, error);
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let temporary = tempfile::Builder::new()
        .prefix(".oaaxc-")
        .permissions(fs::Permissions::from_mode(0o666))
        .tempfile_in(parent)
        .map_err(failed)?;
    let file = temporary.as_file().try_clone().map_err(failed)?;
    let mut tar = TarWriter::new(FileSink::new(file, path));
    let (root, media_type) = plan.plain.root();
    let index = top(root, media_type, &plan.tag, plan.registry_annotations());
    let docker =
        crate::archive::docker_entry(&plan.title, &plan.tag, plan.first_config(), &plan.first_layers().collect::<Vec<_>>());
    for (name, bytes) in [("oci-layout", oci::LAYOUT_FILE), ("index.json", &index), ("manifest.json", &docker)] {
        tar.file(name, READABLE, bytes.len() as u64, false, |sink| sink.put(bytes))?;
    }
    tar.folder("blobs")?;
    tar.folder("blobs/sha256")?;
    for (digest, bytes) in plan.documents(&plan.plain) {
        let name = format!("blobs/sha256/{}", digest.hex());
        tar.file(&name, READABLE, bytes.len() as u64, false, |sink| sink.put(bytes))?;
    }
    for layer in &plan.layers {
        let name = format!("blobs/sha256/{}", layer.diff_id.hex());
        tar.file(&name, READABLE, layer.tar_size, true, |sink| layer.emit(Encoding::Plain, sink).map(|_| ()))?;
    }
    tar.finish()?.finish()?;
    temporary.persist(path).map_err(|error| failed(error.error))?;
    Ok(root.digest)
}

fn plan(source: &Path, tag: Option<&str>) -> Result<Plan> {
    // The strict reader first: what it refuses is not written anew. It hashes compressed layers; plain ones are hashed below.
    let expected = crate::open::Expectation { manifest: None, tag: tag.map(str::to_owned) };
    let opened = crate::open::open_with(source, &expected)?;
    let store = open_any(source)?;
    let found = walk(&store, tag)?;
    let mut layers: Vec<Layer> = Vec::new();
    let mut seen = BTreeSet::new();
    for facts in found.images.iter().flat_map(|image| &image.layers) {
        if seen.insert(facts.diff_id) {
            layers.push(Layer::measure(&store, facts)?);
        }
    }
    layers.sort_by_key(|layer| layer.rank);
    let mut configs = BTreeMap::new();
    let (mut plain, mut gzip) = (Vec::new(), Vec::new());
    for image in &found.images {
        let bytes = store.blob(&image.digest)?.read_all(json::MAX_DOCUMENT, "manifest")?;
        let value: Value = json::read(&bytes, json::MAX_DOCUMENT, "manifest")?;
        let config = value["config"]["digest"].as_str().and_then(Digest::parse);
        let config = config.ok_or_else(|| ContainerError::invalid(image.digest.to_string(), "has no config"))?;
        configs.insert(config, store.blob(&config)?.read_all(json::MAX_DOCUMENT, "config")?);
        plain.push(manifest(&value, image, &layers, Encoding::Plain));
        gzip.push(manifest(&value, image, &layers, Encoding::Gzip));
    }
    let index = found.root_index.as_ref();
    let documents =
        |manifests: Vec<Document>| Documents { index: index.map(|value| reindexed(value, &found.images, &manifests)), manifests };
    let tag = tag.map(str::to_owned).or(found.tag).unwrap_or_else(|| "v1".to_owned());
    let plan =
        Plan { tag, title: opened.manifest().name.clone(), layers, configs, plain: documents(plain), gzip: documents(gzip) };
    // "Digests of the registry form stand in annotations of the archive": an announced layout is the one that is written.
    let announced = found.annotations.get(&format!("{}index", oci::REGISTRY));
    let made = plan.gzip.root().0.digest.to_string();
    match announced.filter(|announced| **announced != made) {
        Some(announced) => {
            let reason = format!("announces the registry form {announced}, but its content makes {made}");
            Err(ContainerError::invalid("index.json", reason))
        }
        None => Ok(plan),
    }
}

/// A manifest with its layers named in one encoding; everything else stays.
fn manifest(value: &Value, image: &ImageFacts, layers: &[Layer], encoding: Encoding) -> Document {
    let mut value = value.clone();
    for (position, facts) in image.layers.iter().enumerate() {
        let layer = layers.iter().find(|layer| layer.diff_id == facts.diff_id).expect("every layer was measured");
        let (media_type, digest, size) = match encoding {
            Encoding::Plain => (oci::LAYER_TAR, layer.diff_id, layer.tar_size),
            Encoding::Gzip => (oci::LAYER_GZIP, layer.gzip.0, layer.gzip.1),
        };
        let entry = &mut value["layers"][position];
        entry["mediaType"] = media_type.into();
        entry["digest"] = digest.to_string().into();
        entry["size"] = size.into();
    }
    Document::new(&value)
}

/// The index with its entries renamed; entries that are no images of the package are left out.
fn reindexed(value: &Value, images: &[ImageFacts], manifests: &[Document]) -> Document {
    let mut value = value.clone();
    let entries = value["manifests"].as_array().cloned().unwrap_or_default();
    let renamed = entries.into_iter().filter_map(|mut entry| {
        let position = images.iter().position(|image| entry["digest"] == image.digest.to_string().as_str())?;
        entry["digest"] = manifests[position].digest.to_string().into();
        entry["size"] = manifests[position].bytes.len().into();
        Some(entry)
    });
    value["manifests"] = renamed.collect();
    Document::new(&value)
}

/// `index.json` with one entry.
fn top(root: &Document, media_type: &str, tag: &str, annotations: oci::Annotations) -> Vec<u8> {
    let named: oci::Annotations = [(oci::REF_NAME.to_owned(), tag.to_owned())].into();
    let entry = oci::Descriptor { annotations: named, ..root.descriptor(media_type) };
    json::canonical(&oci::Index {
        schema_version: 2,
        media_type: Some(oci::INDEX.to_owned()),
        manifests: vec![entry],
        annotations,
    })
}

impl Plan {
    fn documents<'a>(&'a self, encoded: &'a Documents) -> BTreeMap<Digest, &'a [u8]> {
        let configs = self.configs.iter().map(|(digest, bytes)| (*digest, bytes.as_slice()));
        let documents = encoded.manifests.iter().chain(&encoded.index).map(|d| (d.digest, d.bytes.as_slice()));
        configs.chain(documents).collect()
    }

    fn registry_annotations(&self) -> oci::Annotations {
        let mut annotations = oci::Annotations::new();
        let mut add = |name: String, value: String| annotations.insert(format!("{}{name}", oci::REGISTRY), value);
        add("index".to_owned(), self.gzip.root().0.digest.to_string());
        for (position, manifest) in self.gzip.manifests.iter().enumerate() {
            add(format!("manifest.{position}"), manifest.digest.to_string());
        }
        for layer in &self.layers {
            add(format!("layer.{}", layer.diff_id.hex()), layer.gzip.0.to_string());
        }
        annotations
    }

    fn first(&self) -> Value {
        json::read(&self.plain.manifests[0].bytes, json::MAX_DOCUMENT, "manifest").expect("written above")
    }

    fn first_config(&self) -> Digest {
        self.first()["config"]["digest"].as_str().and_then(Digest::parse).expect("read before")
    }

    fn first_layers(&self) -> impl Iterator<Item = Digest> {
        let layers = self.first()["layers"].as_array().cloned().unwrap_or_default();
        layers.into_iter().filter_map(|layer| Digest::parse(layer["digest"].as_str()?))
    }
}

impl Layer {
    fn measure(store: &Store, facts: &LayerFacts) -> Result<Layer> {
        let section = store.blob(&facts.descriptor.digest)?;
        let role = facts.descriptor.annotations.get(oci::LAYER_ROLE).map_or("", String::as_str);
        // The order of an archive: what models have in common with others comes last.
        let rank = match role {
            role if role == LayerRole::Weights.name() => 0,
            role if role == LayerRole::Target.name() => 1,
            role if role == LayerRole::Manifest.name() => 3,
            role if role == LayerRole::Runtime.name() => 4,
            _ => 2,
        };
        let mut layer = Layer { section, rank, diff_id: facts.diff_id, tar_size: 0, gzip: (facts.diff_id, 0) };
        let (diff_id, tar_size) = layer.emit(Encoding::Plain, HashSink::default())?.finish();
        layer.gzip = layer.emit(Encoding::Gzip, HashSink::default())?.finish();
        layer.tar_size = tar_size;
        match diff_id == facts.diff_id {
            true => Ok(layer),
            false => {
                Err(ContainerError::invalid(format!("layer {}", facts.descriptor.digest), "its tar is not what its diff_id says"))
            }
        }
    }

    fn emit<S: Sink>(&self, encoding: Encoding, sink: S) -> Result<S> {
        match encoding {
            Encoding::Plain => self.copy(sink),
            Encoding::Gzip => self.copy(GzipSink::new(sink)?)?.finish(),
        }
    }

    /// The tar, inflated if it has to be.
    fn copy<S: Sink>(&self, mut sink: S) -> Result<S> {
        let place = format!("layer with the diff_id {}", self.diff_id);
        let mut source = LayerSource::new(&self.section, &place)?;
        let mut piece = vec![0u8; 1 << 18];
        loop {
            match source.read(&mut piece) {
                Ok(0) => return Ok(sink),
                Ok(count) => sink.put(&piece[..count])?,
                Err(error) => return Err(ContainerError::invalid(place, error.to_string())),
            }
        }
    }
}
