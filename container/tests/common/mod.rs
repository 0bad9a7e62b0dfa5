//! Shared by the tests of this crate: a small package, and hostile archives made piece by piece.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::{fs, path::Path};

use bytes::Bytes;
use oaaxc_container::{
    Data, DeviceNeed, Digest, Expectation, FileEntry, Manifest, Needs, Package, PackageFile, Part, Platform, Role, RuntimeFile,
    TreeHasher, Variant, open_bytes,
};
use serde_json::{Value, json};

/// `count` bytes without a pattern that compression or alignment could hide.
pub fn noise(count: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..count).map(|_| next()).collect()
}

fn file(path: &str, role: Role, data: Data) -> PackageFile {
    PackageFile { path: path.to_owned(), role, data }
}

/// Two targets, two weight files (one larger than a leaf, one empty), a canary and a runtime layer.
pub fn package() -> Package {
    let cpu = || Role::Target("cpu".to_owned());
    let gpu = || Role::Target("rocm:gfx942".to_owned());
    let mut manifest = Manifest::new("Small_Model", "0.1.0");
    manifest.variants = vec![
        Variant {
            id: "cpu".to_owned(),
            target: "cpu".to_owned(),
            needs: Needs { arch: vec!["amd64".to_owned()], cpu_levels: vec!["x86-64-v2".to_owned()], ..Needs::default() },
            program: "targets/cpu/program.bin".to_owned(),
            objects: vec!["targets/cpu/kernels.so".to_owned()],
            weights: vec!["weights/0.bin".to_owned(), "weights/1.bin".to_owned()],
            ..Variant::default()
        },
        Variant {
            id: "rocm:gfx942".to_owned(),
            target: "rocm".to_owned(),
            needs: Needs { device: Some(DeviceNeed { kind: "hip".to_owned(), ..DeviceNeed::default() }), ..Needs::default() },
            program: "targets/rocm-gfx942/program.bin".to_owned(),
            weights: vec!["weights/0.bin".to_owned()],
            ..Variant::default()
        },
    ];
    let weights = noise((2 << 20) + 777, 1);
    let (first, second) = weights.split_at(70_000);
    let parts = vec![Part::Bytes(Bytes::copy_from_slice(first)), Part::Zeros(64), Part::Bytes(Bytes::copy_from_slice(second))];
    let runtime = vec![
        RuntimeFile { path: "usr/bin/oaax-run".to_owned(), data: Data::from(noise(5000, 2)), executable: true },
        RuntimeFile { path: "usr/lib/liboaaxc_rt.so".to_owned(), data: Data::from(noise(3000, 3)), executable: false },
    ];
    Package {
        manifest,
        files: vec![
            file("weights/1.bin", Role::Weights, Data::from(Vec::new())),
            file("weights/0.bin", Role::Weights, Data::Parts(parts)),
            file("targets/cpu/program.bin", cpu(), Data::from(noise(1000, 4))),
            file("targets/cpu/kernels.so", cpu(), Data::from(noise(70_000, 5))),
            file("targets/rocm-gfx942/program.bin", gpu(), Data::from(noise(512, 6))),
            file("canaries/0/x.npy", Role::Other, Data::from(noise(10, 7))),
        ],
        platforms: vec![Platform { runtime, ..Platform::linux("amd64") }],
        ..Package::default()
    }
}

/// One file and nothing else, for damage done many times over.
pub fn tiny_package() -> Package {
    let mut package = Package { platforms: vec![Platform::linux("amd64")], ..Package::default() };
    package.manifest = Manifest::new("tiny", "0.1.0");
    package.files = vec![file("weights/0.bin", Role::Weights, Data::from(noise(3000, 9)))];
    package
}

/// A tar header as this format wants it, with the checksum still to be set.
pub fn header(name: &[u8], kind: u8, size: usize) -> [u8; 512] {
    let mut header = [0u8; 512];
    header[..name.len().min(100)].copy_from_slice(&name[..name.len().min(100)]);
    header[100..108].copy_from_slice(b"0000444\0");
    header[108..116].copy_from_slice(b"0000000\0");
    header[116..124].copy_from_slice(b"0000000\0");
    header[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
    header[136..148].copy_from_slice(b"00000000000\0");
    header[156] = kind;
    header[257..265].copy_from_slice(b"ustar\x0000");
    header
}

/// Sets the checksum.
pub fn sealed(mut header: [u8; 512]) -> [u8; 512] {
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

/// A whole entry: header, data, padding.
pub fn entry(name: &str, kind: u8, data: &[u8]) -> Vec<u8> {
    entry_with(name, kind, data, |_| ())
}

pub fn entry_with(name: &str, kind: u8, data: &[u8], change: impl Fn(&mut [u8; 512])) -> Vec<u8> {
    let mut header = header(name.as_bytes(), kind, data.len());
    change(&mut header);
    let mut bytes = sealed(header).to_vec();
    bytes.extend_from_slice(data);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

/// One record of an extended header.
pub fn record(key: &str, value: &str) -> String {
    let body = format!(" {key}={value}\n");
    let length = (body.len()..).find(|length| length.to_string().len() + body.len() == *length).unwrap();
    format!("{length}{body}")
}

/// Entries and the end.
pub fn tar(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = entries.concat();
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

/// Stored or deflated gzip by an independent writer.
pub fn gzip(bytes: &[u8], level: u32) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(level));
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A layer as a hostile image names it.
pub struct CraftedLayer {
    pub bytes: Vec<u8>,
    pub digest: String,
    pub size: u64,
    pub diff_id: String,
    pub media_type: String,
}

impl CraftedLayer {
    pub fn plain(bytes: Vec<u8>) -> CraftedLayer {
        let digest = Digest::of(&bytes).to_string();
        let media_type = "application/vnd.oci.image.layer.v1.tar".to_owned();
        CraftedLayer { size: bytes.len() as u64, digest: digest.clone(), diff_id: digest, media_type, bytes }
    }

    pub fn gzip(bytes: Vec<u8>, content: &[u8]) -> CraftedLayer {
        let media_type = "application/vnd.oci.image.layer.v1.tar+gzip".to_owned();
        CraftedLayer { diff_id: Digest::of(content).to_string(), media_type, ..CraftedLayer::plain(bytes) }
    }
}

/// An alteration of a document.
pub type Change = Box<dyn Fn(&mut Value)>;

/// An archive with correct digests wherever it is not told otherwise.
pub struct Craft {
    pub oaax: Value,
    pub layers: Vec<CraftedLayer>,
    /// Replaces the layer that is made of `oaax`.
    pub manifest_layer: Option<CraftedLayer>,
    pub config: Change,
    pub manifest: Change,
    pub index: Change,
    pub top: Change,
    /// Entries after the good ones in the outer tar.
    pub outer: Vec<Vec<u8>>,
}

/// `oaax.json` that lists `files`.
pub fn oaax_json(files: &[(&str, &[u8])]) -> Value {
    let mut manifest = Manifest::new("m", "0");
    for (path, data) in files {
        let mut tree = TreeHasher::default();
        tree.update(data);
        let tree = tree.finish();
        manifest.files.push(FileEntry {
            path: (*path).to_owned(),
            size: data.len() as u64,
            role: "weights".to_owned(),
            target: None,
            align: 65536,
            sha256: Digest::of(data).hex(),
            root: tree.root().hex(),
            leaves: tree.leaves_hex(),
        });
    }
    serde_json::from_slice(&manifest.to_json()).unwrap()
}

/// A good archive with the file `weights/0.bin` = `abc`.
pub fn craft() -> Craft {
    craft_with(tar(&[entry("models/", b'5', b""), entry("models/weights/0.bin", b'0', b"abc")]))
}

/// As `craft`, with another tar in place of the weights layer.
pub fn craft_with(weights: Vec<u8>) -> Craft {
    let nothing = || Box::new(|_: &mut Value| ()) as Change;
    Craft {
        oaax: oaax_json(&[("weights/0.bin", b"abc")]),
        layers: vec![CraftedLayer::plain(weights)],
        manifest_layer: None,
        config: nothing(),
        manifest: nothing(),
        index: nothing(),
        top: nothing(),
        outer: Vec::new(),
    }
}

/// Which document an alteration is for.
pub type Document = fn(&mut Craft) -> &mut Change;

/// A good archive with one document altered.
pub fn altered(document: Document, change: impl Fn(&mut Value) + 'static) -> Vec<u8> {
    let mut craft = craft();
    *document(&mut craft) = Box::new(change);
    craft.build()
}

/// What opening and verifying says.
pub fn outcome(archive: Vec<u8>) -> Result<(), String> {
    let opened = open_bytes(archive.into(), &Expectation::default()).map_err(|error| error.to_string())?;
    opened.verify().map(|_| ()).map_err(|error| error.to_string())
}

/// Demands that an archive is refused with `reason` in the message.
#[track_caller]
pub fn refused(what: &str, archive: Vec<u8>, reason: &str) {
    match outcome(archive) {
        Ok(()) => panic!("{what}: accepted"),
        Err(error) => assert!(error.contains(reason), "{what}: {error}"),
    }
}

/// An archive whose weights layer has these entries.
pub fn with(entries: Vec<Vec<u8>>) -> Vec<u8> {
    craft_with(tar(&entries)).build()
}

/// The one good file.
pub fn good() -> Vec<u8> {
    entry("models/weights/0.bin", b'0', b"abc")
}

impl Craft {
    pub fn build(mut self) -> Vec<u8> {
        let own = tar(&[entry("models/oaax.json", b'0', self.oaax.to_string().as_bytes())]);
        self.layers.push(self.manifest_layer.take().unwrap_or_else(|| CraftedLayer::plain(own)));
        let mut blobs = Vec::new();
        let mut document = |media_type: &str, mut value: Value, change: &Change| {
            change(&mut value);
            let bytes = value.to_string().into_bytes();
            let descriptor = json!({"mediaType": media_type, "digest": Digest::of(&bytes), "size": bytes.len()});
            blobs.push((Digest::of(&bytes).hex(), bytes));
            descriptor
        };
        let diff_ids: Vec<&String> = self.layers.iter().map(|layer| &layer.diff_id).collect();
        let config = json!({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": diff_ids}});
        let config = document("application/vnd.oci.image.config.v1+json", config, &self.config);
        let layers: Vec<Value> = self
            .layers
            .iter()
            .map(|layer| json!({"mediaType": layer.media_type, "digest": layer.digest, "size": layer.size}))
            .collect();
        let manifest = json!({"schemaVersion": 2, "config": config, "layers": layers});
        let manifest = document("application/vnd.oci.image.manifest.v1+json", manifest, &self.manifest);
        let index = json!({"schemaVersion": 2, "manifests": [manifest]});
        let index = document("application/vnd.oci.image.index.v1+json", index, &self.index);
        let mut top = json!({"schemaVersion": 2, "manifests": [index]});
        (self.top)(&mut top);
        let mut entries = vec![
            entry("oci-layout", b'0', br#"{"imageLayoutVersion":"1.0.0"}"#),
            entry("index.json", b'0', top.to_string().as_bytes()),
        ];
        entries.extend(blobs.iter().map(|(hex, bytes)| entry(&format!("blobs/sha256/{hex}"), b'0', bytes)));
        let mut seen: Vec<String> = Vec::new();
        for layer in &self.layers {
            let hex = layer.digest.trim_start_matches("sha256:").to_owned();
            if hex.len() == 64 && !seen.contains(&hex) {
                entries.push(entry(&format!("blobs/sha256/{hex}"), b'0', &layer.bytes));
                seen.push(hex);
            }
        }
        entries.extend(self.outer);
        tar(&entries)
    }
}

/// Every file below `folder`, by name.
pub fn tree(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let mut queue = vec![folder.to_owned()];
    while let Some(next) = queue.pop() {
        for entry in fs::read_dir(next).unwrap().map(|entry| entry.unwrap().path()) {
            match entry.is_dir() {
                true => queue.push(entry),
                false => files.push((entry.strip_prefix(folder).unwrap().display().to_string(), fs::read(&entry).unwrap())),
            }
        }
    }
    files.sort();
    files
}
