//! The calls of the distribution API: manifests, blobs, referrers.
//!
//! Promises: a manifest is handed out only if it has the digest that was asked for, or the one that the server
//! claims; names resolve once, and everything after goes by digest.

use std::io::Read;

use oaaxc_container::Digest;
use serde_json::{Value, json};

use crate::{
    error::{RegistryError, Result},
    http::{Answer, Body, Http, MAX_DOCUMENT, Options, read_limited, refusal},
    reference::Reference,
};

/// An image index.
pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// An image manifest.
pub(crate) const IMAGE: &str = "application/vnd.oci.image.manifest.v1+json";
const ACCEPTED: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.docker.distribution.manifest.v2+json";
/// Most referrers of one manifest that are looked at; more are a flood.
const MAX_REFERRERS: usize = 64;

/// A manifest or index as the registry keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Its bytes, which are never written anew.
    pub bytes: Vec<u8>,
    /// Their digest.
    pub digest: Digest,
    /// As the server labels it.
    pub media_type: String,
}

/// One repository of one registry.
pub struct Client {
    pub(crate) http: Http,
    pub(crate) reference: Reference,
}

impl Client {
    /// Speaks to the repository of `reference`; nothing is sent yet.
    pub fn new(reference: &Reference, options: &Options) -> Result<Client> {
        Ok(Client { http: Http::new(reference, options)?, reference: reference.clone() })
    }

    /// What this client was made for.
    pub fn reference(&self) -> &Reference {
        &self.reference
    }

    pub(crate) fn url(&self, rest: &str) -> String {
        format!("{}/v2/{}/{rest}", self.http.origin, self.repository())
    }

    /// Docker's own images lie in `library/`.
    fn repository(&self) -> String {
        match self.reference.registry == "docker.io" && !self.reference.repository.contains('/') {
            true => format!("library/{}", self.reference.repository),
            false => self.reference.repository.clone(),
        }
    }

    /// The scope of a token that may read here, or write too.
    pub(crate) fn scope(&self, write: bool) -> String {
        format!("repository:{}:{}", self.repository(), if write { "pull,push" } else { "pull" })
    }

    /// The manifest of a tag or digest.
    pub fn manifest(&self, name: &str) -> Result<Manifest> {
        let url = self.url(&format!("manifests/{name}"));
        self.http.retrying(|| {
            let answer = self.http.send("GET", &url, &self.scope(false), &[("Accept", ACCEPTED)], Body::None)?;
            if answer.status() != 200 {
                return Err(refusal("GET", &url, answer));
            }
            let media_type = header(&answer, "content-type").split(';').next().unwrap_or_default().trim().to_owned();
            let claimed = header(&answer, "docker-content-digest");
            let bytes = read_limited(answer, MAX_DOCUMENT, &url)?;
            let digest = Digest::of(&bytes);
            let expected = if name.starts_with("sha256:") { name } else { claimed.as_str() };
            if !expected.is_empty() && expected != digest.to_string() {
                return Err(RegistryError::Invalid(format!("{url}: the manifest has the digest {digest}, not {expected}")));
            }
            Ok(Manifest { bytes, digest, media_type })
        })
    }

    /// As `manifest`, or nothing where there is none.
    pub fn manifest_if_any(&self, name: &str) -> Result<Option<Manifest>> {
        match self.manifest(name) {
            Ok(manifest) => Ok(Some(manifest)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Stores a manifest under a tag or its digest; whether the registry keeps track of its subject.
    pub fn put_manifest(&self, name: &str, media_type: &str, bytes: &[u8]) -> Result<bool> {
        let url = self.url(&format!("manifests/{name}"));
        let digest = Digest::of(bytes).to_string();
        self.http.retrying(|| {
            let headers = [("Content-Type", media_type)];
            let answer = self.http.send("PUT", &url, &self.scope(true), &headers, Body::Bytes(bytes))?;
            if !matches!(answer.status().as_u16(), 200..=204) {
                return Err(refusal("PUT", &url, answer));
            }
            let claimed = header(&answer, "docker-content-digest");
            match claimed.is_empty() || claimed == digest {
                true => Ok(answer.headers().contains_key("oci-subject")),
                false => Err(RegistryError::Invalid(format!("{url}: stored as {claimed}, but it is {digest}"))),
            }
        })
    }

    /// Whether the repository has a blob.
    pub fn has_blob(&self, digest: &Digest) -> Result<bool> {
        let url = self.url(&format!("blobs/{digest}"));
        self.http.retrying(|| {
            let answer = self.http.send("HEAD", &url, &self.scope(false), &[], Body::None)?;
            match answer.status().as_u16() {
                200 => Ok(true),
                404 => Ok(false),
                _ => Err(refusal("HEAD", &url, answer)),
            }
        })
    }

    /// A blob from byte `offset` on, not yet checked.
    pub(crate) fn blob(&self, digest: &Digest, offset: u64) -> Result<Box<dyn Read>> {
        let url = self.url(&format!("blobs/{digest}"));
        let range = format!("bytes={offset}-");
        let headers: &[(&str, &str)] = if offset > 0 { &[("Range", range.as_str())] } else { &[] };
        let answer = self.http.send("GET", &url, &self.scope(false), headers, Body::None)?;
        let skip = match answer.status().as_u16() {
            // A server that knows no ranges begins anew.
            200 => offset,
            206 if offset > 0 && header(&answer, "content-range").starts_with(&format!("bytes {offset}-")) => 0,
            206 => return Err(RegistryError::Invalid(format!("{url}: another range than {range}"))),
            _ => return Err(refusal("GET", &url, answer)),
        };
        let mut reader = answer.into_body().into_reader();
        let passed = std::io::copy(&mut reader.by_ref().take(skip), &mut std::io::sink());
        match passed {
            Ok(passed) if passed == skip => Ok(Box::new(reader)),
            Ok(_) => Err(RegistryError::Transport(format!("{url}: ends early"))),
            Err(error) => Err(RegistryError::Transport(format!("{url}: {error}"))),
        }
    }

    /// A small blob, checked.
    pub fn small_blob(&self, digest: &Digest, limit: u64) -> Result<Vec<u8>> {
        let url = self.url(&format!("blobs/{digest}"));
        self.http.retrying(|| {
            let mut bytes = Vec::new();
            let read = self.blob(digest, 0)?.take(limit + 1).read_to_end(&mut bytes);
            read.map_err(|error| RegistryError::Transport(format!("{url}: {error}")))?;
            match bytes.len() as u64 <= limit && Digest::of(&bytes) == *digest {
                true => Ok(bytes),
                false => Err(RegistryError::Invalid(format!("{url}: not the blob of this digest, or more than {limit} bytes"))),
            }
        })
    }

    /// Manifests whose subject is `digest`: from the API, or the fallback tag. Their `artifactType` is not to be relied on.
    pub fn referrers(&self, digest: &Digest) -> Result<Vec<Digest>> {
        let url = self.url(&format!("referrers/{digest}"));
        let answer = self.http.send("GET", &url, &self.scope(false), &[("Accept", INDEX)], Body::None)?;
        let bytes = match answer.status().as_u16() {
            200 => read_limited(answer, MAX_DOCUMENT, &url)?,
            _ => match self.manifest_if_any(&fallback_tag(digest))? {
                Some(index) => index.bytes,
                None => return Ok(Vec::new()),
            },
        };
        let index: Value = serde_json::from_slice(&bytes).map_err(|e| RegistryError::Invalid(format!("{url}: {e}")))?;
        let listed = index["manifests"].as_array().map_or(&[][..], Vec::as_slice);
        if listed.len() > MAX_REFERRERS {
            return Err(RegistryError::Invalid(format!("{url}: {} referrers, more than {MAX_REFERRERS}", listed.len())));
        }
        Ok(listed.iter().filter_map(|entry| Digest::parse(entry["digest"].as_str()?)).collect())
    }

    /// Stores a manifest that has a subject, and lists it under the fallback tag where the registry does not itself.
    pub fn put_referrer(&self, subject: &Digest, artifact_type: &str, bytes: &[u8]) -> Result<()> {
        let digest = Digest::of(bytes);
        if self.put_manifest(&digest.to_string(), IMAGE, bytes)? {
            return Ok(());
        }
        let tag = fallback_tag(subject);
        let old = self.manifest_if_any(&tag)?.map(|manifest| manifest.bytes);
        let index = with_referrer(old.as_deref(), artifact_type, bytes)?;
        self.put_manifest(&tag, INDEX, &index).map(drop)
    }
}

/// "sha256-<hex>": where referrers are listed in registries without the API.
pub(crate) fn fallback_tag(digest: &Digest) -> String {
    format!("sha256-{}", digest.hex())
}

/// The index of a fallback tag with one more entry; an entry of the same digest is not repeated.
pub(crate) fn with_referrer(old: Option<&[u8]>, artifact_type: &str, manifest: &[u8]) -> Result<Vec<u8>> {
    let empty = || json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": []});
    let mut index: Value = match old {
        Some(bytes) => serde_json::from_slice(bytes).map_err(|e| RegistryError::Invalid(format!("a list of referrers: {e}")))?,
        None => empty(),
    };
    if !index["manifests"].is_array() {
        index = empty();
    }
    let digest = Digest::of(manifest).to_string();
    let list = index["manifests"].as_array_mut().expect("made an array above");
    if !list.iter().any(|entry| entry["digest"] == digest.as_str()) {
        let entry = json!({
            "mediaType": IMAGE, "digest": digest, "size": manifest.len(), "artifactType": artifact_type,
        });
        list.push(entry);
    }
    Ok(index.to_string().into_bytes())
}

pub(crate) fn header(answer: &Answer, name: &str) -> String {
    answer.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}
