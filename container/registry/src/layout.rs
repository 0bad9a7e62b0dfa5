//! An OCI layout folder as a shelf: what is pushed from, pulled into, and signed in place.
//!
//! Promises: a blob's place comes from its digest alone; links are refused; what is read is checked against its digest;
//! files appear whole.

use std::{
    fs::{self, File},
    io::{ErrorKind, Read, Seek, SeekFrom},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use oaaxc_container::Digest;
use serde_json::{Value, json};

use crate::{
    client::{INDEX, Manifest, fallback_tag, with_referrer},
    error::{RegistryError, Result},
    http::MAX_DOCUMENT,
    shelf::Shelf,
};

const REF_NAME: &str = "org.opencontainers.image.ref.name";
const MAX_REFERRERS: usize = 64;

/// A folder with `oci-layout`, `index.json` and `blobs`.
#[derive(Clone, Debug)]
pub struct LayoutFolder {
    path: PathBuf,
    tag: Option<String>,
}

impl LayoutFolder {
    /// Opens a layout; `tag` says which of its packages is meant, otherwise it is the first.
    pub fn open(path: &Path, tag: Option<&str>) -> Result<LayoutFolder> {
        match path.join("oci-layout").is_file() {
            true => Ok(LayoutFolder { path: path.to_owned(), tag: tag.map(str::to_owned) }),
            false => Err(RegistryError::Request(format!("{} is no OCI layout", path.display()))),
        }
    }

    /// Makes an empty layout, or goes on with one that a broken-off transfer left.
    pub(crate) fn create(path: &Path) -> Result<LayoutFolder> {
        let failed = |error: std::io::Error| RegistryError::file("create", path, &error);
        fs::create_dir_all(path.join("blobs/sha256")).map_err(failed)?;
        fs::write(path.join("oci-layout"), r#"{"imageLayoutVersion":"1.0.0"}"#).map_err(failed)?;
        let layout = LayoutFolder { path: path.to_owned(), tag: None };
        layout.write("index.json", json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": []}).to_string().as_bytes())?;
        Ok(layout)
    }

    pub(crate) fn blob_path(&self, digest: &Digest) -> PathBuf {
        self.path.join("blobs/sha256").join(digest.hex())
    }

    /// A blob's file, from `offset` on.
    pub(crate) fn blob_file(&self, digest: &Digest, offset: u64) -> Result<File> {
        let path = self.blob_path(digest);
        let failed = |error: std::io::Error| RegistryError::file("read", &path, &error);
        if !fs::symlink_metadata(&path).map_err(failed)?.is_file() {
            return Err(RegistryError::Invalid(format!("{} is no regular file; links are refused", path.display())));
        }
        let mut file = File::open(&path).map_err(failed)?;
        file.seek(SeekFrom::Start(offset)).map_err(failed)?;
        Ok(file)
    }

    fn index(&self) -> Result<Value> {
        let path = self.path.join("index.json");
        let bytes = fs::read(&path).map_err(|error| RegistryError::file("read", &path, &error))?;
        if bytes.len() as u64 > MAX_DOCUMENT {
            return Err(RegistryError::Invalid("index.json: more than 4 MiB".to_owned()));
        }
        serde_json::from_slice(&bytes).map_err(|error| RegistryError::Invalid(format!("{}: {error}", path.display())))
    }

    /// Descriptors of `index.json` with their tags.
    fn entries(&self) -> Result<Vec<(Option<String>, Value)>> {
        let index = self.index()?;
        let list = index["manifests"].as_array().cloned().unwrap_or_default();
        Ok(list.into_iter().map(|entry| (entry["annotations"][REF_NAME].as_str().map(str::to_owned), entry)).collect())
    }

    /// Tags of signatures and attestations of `subject`.
    pub(crate) fn companions(&self, subject: &Digest) -> Result<Vec<String>> {
        let start = fallback_tag(subject);
        let tags = self.entries()?.into_iter().filter_map(|(tag, _)| tag);
        Ok(tags.filter(|tag| tag.strip_prefix(&start).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))).collect())
    }

    fn read(&self, entry: &Value) -> Result<Manifest> {
        let digest = entry["digest"].as_str().and_then(Digest::parse);
        let digest = digest.ok_or_else(|| RegistryError::Invalid("index.json: an entry without a digest".to_owned()))?;
        let mut manifest = self.by_digest(&digest)?;
        if let Some(media_type) = entry["mediaType"].as_str() {
            manifest.media_type = media_type.to_owned();
        }
        Ok(manifest)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        let path = self.path.join(name);
        let temporary = path.with_extension(format!("{}.new", std::process::id()));
        let failed = |error: std::io::Error| RegistryError::file("write", &path, &error);
        fs::write(&temporary, bytes).map_err(failed)?;
        fs::rename(&temporary, &path).map_err(failed)
    }

    /// Writes `index.json` with `tag` naming these bytes, which are a blob already.
    pub(crate) fn name(&self, tag: &str, manifest: &Manifest) -> Result<()> {
        let mut index = self.index()?;
        let entry = json!({
            "mediaType": manifest.media_type, "digest": manifest.digest.to_string(), "size": manifest.bytes.len(),
            "annotations": { REF_NAME: tag },
        });
        let list = index["manifests"].as_array_mut();
        let list = list.ok_or_else(|| RegistryError::Invalid("index.json has no list of manifests".to_owned()))?;
        match list.iter_mut().find(|old| old["annotations"][REF_NAME] == tag) {
            Some(old) => *old = entry,
            None => list.push(entry),
        }
        self.write("index.json", index.to_string().as_bytes())
    }
}

impl Shelf for LayoutFolder {
    fn root(&self) -> Result<Manifest> {
        let entries = self.entries()?;
        let wanted = |tag: &Option<String>| match &self.tag {
            Some(wanted) => tag.as_ref() == Some(wanted),
            None => !tag.as_ref().is_some_and(|tag| tag.starts_with("sha256-")),
        };
        match entries.iter().find(|(tag, _)| wanted(tag)) {
            Some((_, entry)) => self.read(entry),
            None => Err(RegistryError::Request(format!("{} has no such package", self.path.display()))),
        }
    }

    fn place(&self) -> Option<String> {
        None
    }

    fn by_tag(&self, tag: &str) -> Result<Option<Manifest>> {
        let entries = self.entries()?;
        entries.iter().find(|(found, _)| found.as_deref() == Some(tag)).map(|(_, entry)| self.read(entry)).transpose()
    }

    fn by_digest(&self, digest: &Digest) -> Result<Manifest> {
        let bytes = self.blob(digest, MAX_DOCUMENT)?;
        let document: Value = serde_json::from_slice(&bytes).map_err(|e| RegistryError::Invalid(format!("{digest}: {e}")))?;
        let kind = if document["manifests"].is_array() { INDEX } else { crate::client::IMAGE };
        let media_type = document["mediaType"].as_str().unwrap_or(kind).to_owned();
        Ok(Manifest { bytes, digest: *digest, media_type })
    }

    fn referrers(&self, digest: &Digest) -> Result<Vec<Digest>> {
        let Some(index) = self.by_tag(&fallback_tag(digest))? else { return Ok(Vec::new()) };
        let index: Value = serde_json::from_slice(&index.bytes).map_err(|e| RegistryError::Invalid(e.to_string()))?;
        let list = index["manifests"].as_array().map_or(&[][..], Vec::as_slice);
        if list.len() > MAX_REFERRERS {
            return Err(RegistryError::Invalid(format!("{} referrers of {digest}, more than {MAX_REFERRERS}", list.len())));
        }
        Ok(list.iter().filter_map(|entry| Digest::parse(entry["digest"].as_str()?)).collect())
    }

    fn blob(&self, digest: &Digest, limit: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = self.blob_file(digest, 0)?.take(limit + 1).read_to_end(&mut bytes);
        read.map_err(|error| RegistryError::file("read", &self.blob_path(digest), &error))?;
        match bytes.len() as u64 <= limit && Digest::of(&bytes) == *digest {
            true => Ok(bytes),
            false => Err(RegistryError::Invalid(format!("blob {digest}: other bytes, or more than {limit}"))),
        }
    }

    fn put_blob(&self, bytes: &[u8]) -> Result<()> {
        self.write(&format!("blobs/sha256/{}", Digest::of(bytes).hex()), bytes)
    }

    fn put_tag(&self, tag: &str, media_type: &str, bytes: &[u8]) -> Result<()> {
        self.put_blob(bytes)?;
        self.name(tag, &Manifest { bytes: bytes.to_vec(), digest: Digest::of(bytes), media_type: media_type.to_owned() })
    }

    fn put_referrer(&self, subject: &Digest, artifact_type: &str, bytes: &[u8]) -> Result<()> {
        self.put_blob(bytes)?;
        let tag = fallback_tag(subject);
        let old = self.by_tag(&tag)?.map(|manifest| manifest.bytes);
        self.put_tag(&tag, INDEX, &with_referrer(old.as_deref(), artifact_type, bytes)?)
    }
}

/// A file read at offsets of its own, so that two readers do not disturb each other.
pub(crate) struct FileFrom {
    pub file: File,
    pub at: u64,
}

impl Read for FileFrom {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            match self.file.read_at(buffer, self.at) {
                Err(error) if error.kind() == ErrorKind::Interrupted => (),
                Ok(count) => {
                    self.at += count as u64;
                    return Ok(count);
                }
                other => return other,
            }
        }
    }
}
