//! From a package to everything that has a digest: files, layers, configs, manifests, indexes of both encodings.
//!
//! Promises: checks the whole package before anything is written, and computes both encodings at once, because
//! each output names the digests of the registry form.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    ALIGNMENT, check,
    digest::Digest,
    error::{ContainerError, Result},
    image::{self, Document, Encoding, Image},
    layer::{Content, Layer, LayerFile, LayerRole, MeasuredLayer},
    manifest::{FileEntry, HashTreeForm, Manifest, SCHEMA},
    oci::{self, Annotations, OciPlatform},
    package::{Data, Package, Platform, Role, target_folder},
    paths, tar,
};

/// Weights go to layers of about this size: registries limit blobs, and pulls run in parallel.
const WEIGHTS_LAYER: u64 = 4 << 30;

/// What a write produced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// Digest of the image index of the form that was written.
    pub index: Digest,
    /// Digest of the image index of the registry form; equals `index` for a layout.
    pub registry_index: Digest,
    /// SHA-256 of `/models/oaax.json`.
    pub manifest: Digest,
    /// Bytes of all blobs.
    pub bytes: u64,
}

/// The documents of one encoding.
pub(crate) struct Encoded {
    pub manifests: Vec<Document>,
    pub index: Document,
}

/// A package with all its digests.
pub(crate) struct Prepared {
    pub layers: Vec<MeasuredLayer>,
    pub images: Vec<Image>,
    pub configs: Vec<Document>,
    pub plain: Encoded,
    pub gzip: Encoded,
    pub manifest: Digest,
}

pub(crate) fn prepare(package: &Package) -> Result<Prepared> {
    let targets = check::package(package)?;
    let mut layers = model_layers(package, &targets)?;
    let model_layer_count = layers.len();
    let mut files = Vec::new();
    for layer in &layers {
        for file in &layer.files {
            files.push(file_entry(layer, file)?);
        }
    }
    let manifest = manifest_bytes(package, files)?;
    let digest = Digest::of(&manifest);
    layers.push(manifest_layer(manifest)?);
    let runtimes = add_runtimes(package, &mut layers)?;
    let images = images(package, &targets, &layers[..model_layer_count], &runtimes);
    let layers = layers.into_iter().map(Layer::measure).collect::<Result<Vec<_>>>()?;
    if let Some(layer) = layers.iter().find(|layer| layer.tar_size > tar::MAX_SIZE) {
        let role = layer.layer.role.name();
        return Err(ContainerError::package(format!(
            "a {role} layer has {} bytes; split its files, the limit is 8 GiB",
            layer.tar_size
        )));
    }
    let configs: Vec<Document> = images.iter().map(|image| image.config(&layers, package.options.created)).collect();
    let encode = |encoding| {
        let pairs = images.iter().zip(&configs);
        let manifests: Vec<Document> = pairs.map(|(image, config)| image.manifest(config, &layers, encoding)).collect();
        Encoded { index: image::index(&images, &manifests, &package.manifest.name), manifests }
    };
    let (plain, gzip) = (encode(Encoding::Plain), encode(Encoding::Gzip));
    Ok(Prepared { layers, images, configs, plain, gzip, manifest: digest })
}

fn model_layers(package: &Package, targets: &[String]) -> Result<Vec<Layer>> {
    let mut files: BTreeMap<&Role, BTreeMap<String, LayerFile>> = BTreeMap::new();
    for file in &package.files {
        let path = format!("models/{}", file.path);
        let content = Content::new(file.data.clone())?;
        files.entry(&file.role).or_default().insert(path.clone(), LayerFile { path, executable: false, content });
    }
    let mut layers = Vec::new();
    let mut weights: Vec<LayerFile> = Vec::new();
    let mut size = 0;
    for (_, file) in files.remove(&Role::Weights).unwrap_or_default() {
        if !weights.is_empty() && size + file.content.size > WEIGHTS_LAYER {
            layers.push(Layer { role: LayerRole::Weights, target: None, files: std::mem::take(&mut weights) });
            size = 0;
        }
        size += file.content.size;
        weights.push(file);
    }
    if !weights.is_empty() {
        layers.push(Layer { role: LayerRole::Weights, target: None, files: weights });
    }
    for target in targets {
        if let Some(files) = files.remove(&Role::Target(target.clone())) {
            layers.push(Layer { role: LayerRole::Target, target: Some(target.clone()), files: files.into_values().collect() });
        }
    }
    if let Some(files) = files.remove(&Role::Other) {
        layers.push(Layer { role: LayerRole::Other, target: None, files: files.into_values().collect() });
    }
    Ok(layers)
}

fn file_entry(layer: &Layer, file: &LayerFile) -> Result<FileEntry> {
    let (sha256, tree) = file.content.hash()?;
    Ok(FileEntry {
        path: file.path.strip_prefix("models/").expect("layers of the model lie under models").to_owned(),
        size: file.content.size,
        role: layer.role.name().to_owned(),
        target: layer.target.clone(),
        align: ALIGNMENT,
        sha256: sha256.hex(),
        root: tree.root().hex(),
        leaves: tree.leaves_hex(),
    })
}

fn manifest_bytes(package: &Package, mut files: Vec<FileEntry>) -> Result<Vec<u8>> {
    files.sort_by(|a, b| a.path.cmp(&b.path));
    let manifest =
        Manifest { schema: SCHEMA, min_reader: SCHEMA, files, hash_tree: HashTreeForm::default(), ..package.manifest.clone() };
    let bytes = manifest.to_json();
    // What this crate would refuse to read must not be written.
    let refused = |error: ContainerError| ContainerError::package(format!("its manifest would be refused: {error}"));
    Manifest::from_json(&bytes).map_err(refused)?;
    Ok(bytes)
}

fn manifest_layer(bytes: Vec<u8>) -> Result<Layer> {
    let content = Content::new(Data::from(bytes))?;
    let file = LayerFile { path: "models/oaax.json".to_owned(), executable: false, content };
    Ok(Layer { role: LayerRole::Manifest, target: None, files: vec![file] })
}

/// Adds the runtime layers behind the model's; gives each platform's position.
fn add_runtimes(package: &Package, layers: &mut Vec<Layer>) -> Result<Vec<Option<usize>>> {
    let mut positions = Vec::new();
    for platform in &package.platforms {
        if platform.runtime.is_empty() {
            positions.push(None);
            continue;
        }
        let mut files = BTreeMap::new();
        for file in &platform.runtime {
            let content = Content::new(file.data.clone())?;
            let entry = LayerFile { path: file.path.clone(), executable: file.executable, content };
            if files.insert(file.path.clone(), entry).is_some() {
                return Err(ContainerError::package(format!("the runtime file {:?} is given twice", file.path)));
            }
        }
        if let Some(path) = files.keys().find(|path| paths::folders_above(path).any(|above| files.contains_key(above))) {
            return Err(ContainerError::package(format!("the runtime file {path:?} lies in a file")));
        }
        positions.push(Some(layers.len()));
        layers.push(Layer { role: LayerRole::Runtime, target: None, files: files.into_values().collect() });
    }
    Ok(positions)
}

/// First one image per platform with all its targets, then one for each single target of several.
fn images(package: &Package, targets: &[String], model: &[Layer], runtimes: &[Option<usize>]) -> Vec<Image> {
    let of_platform = |platform: &Platform| match platform.targets.is_empty() {
        true => targets.to_vec(),
        false => targets.iter().filter(|id| platform.targets.contains(id)).cloned().collect(),
    };
    let make = |platform: &Platform, runtime: Option<usize>, chosen: Vec<String>, slim: bool| {
        let wanted = |layer: &Layer| layer.target.as_ref().is_none_or(|target| chosen.contains(target));
        let kept = (0..model.len()).filter(|&layer| wanted(&model[layer]));
        let layers = runtime.into_iter().chain(kept).chain([model.len()]).collect();
        let short = |id: &str| target_folder(id).trim_start_matches("targets/").to_owned();
        let mut reference = format!("{}-{}", package.options.tag, platform.architecture);
        let mut os_features = Vec::new();
        if slim {
            reference = format!("{reference}-{}", short(&chosen[0]));
            os_features.push(format!("io.oaax.accel.{}", short(&chosen[0])));
        }
        let platform =
            OciPlatform { architecture: platform.architecture.clone(), os: platform.os.clone(), variant: None, os_features };
        Image { platform, targets: chosen, slim, reference, layers }
    };
    let pairs = || package.platforms.iter().zip(runtimes.iter().copied());
    let mut images: Vec<Image> =
        pairs().map(|(platform, runtime)| make(platform, runtime, of_platform(platform), false)).collect();
    for (platform, runtime) in pairs().filter(|_| package.options.slim) {
        let chosen = of_platform(platform);
        if chosen.len() > 1 {
            images.extend(chosen.into_iter().map(|target| make(platform, runtime, vec![target], true)));
        }
    }
    images
}

impl Prepared {
    /// Names and digests of the registry form, as annotations.
    pub fn registry_annotations(&self) -> Annotations {
        let mut annotations = Annotations::new();
        let mut add = |name: String, value: String| annotations.insert(format!("{}{name}", oci::REGISTRY), value);
        add("index".to_owned(), self.gzip.index.digest.to_string());
        for (position, manifest) in self.gzip.manifests.iter().enumerate() {
            add(format!("manifest.{position}"), manifest.digest.to_string());
        }
        for layer in &self.layers {
            add(format!("layer.{}", layer.diff_id.hex()), layer.gzip_digest.to_string());
        }
        annotations
    }

    /// Layers without repetition, in a fixed order.
    pub fn distinct_layers(&self) -> Vec<&MeasuredLayer> {
        let mut seen = BTreeSet::new();
        self.layers.iter().filter(|layer| seen.insert(layer.diff_id)).collect()
    }
}
