//! Signatures beside packages, and the policy's answer: the border between trust and where things lie.
//!
//! Promises: what was approved is named by digests, and whoever runs it gets the digest of the one `oaax.json` that was
//! approved, so nothing can be exchanged in between.

use std::path::{Path, PathBuf};

use oaaxc_base::{Code, Diagnostic, Diagnostics};
use oaaxc_container::Digest;
use oaaxc_registry::{LayoutFolder, Manifest, Shelf};
use oaaxc_trust::{Evidence, Policy, SIGNATURE_ANNOTATION, SIMPLE_SIGNING, TrustError, Verdict};
use serde_json::Value;

use super::arguments::one;
use super::registry::failed as registry_failed;

/// Largest payload, bundle or list of bundles.
const MAX_EVIDENCE: u64 = 1 << 20;

/// A yes of the policy.
pub struct Approved {
    /// Digest of the index or manifest, or of `oaax.json` for a file or folder.
    pub root: Digest,
    /// All digests that were approved.
    pub subjects: Vec<Digest>,
    /// For the root.
    pub verdict: Verdict,
}

impl Approved {
    /// As people read it.
    pub fn words(&self) -> String {
        let keys = match self.verdict.keys.is_empty() {
            true => "accepted by the policy without a key".to_string(),
            false => format!("signed by {}", self.verdict.keys.join(", ")),
        };
        match self.verdict.predicates.is_empty() {
            true => keys,
            false => format!("{keys}; {}", self.verdict.predicates.join(", ")),
        }
    }
}

/// A refusal.
pub fn refused(error: TrustError) -> Diagnostics {
    one(Diagnostic::error(Code::ARTEFACT, format!("not trusted: {error}")))
}

/// The index or manifest on a shelf, and what it lists: each must be signed, because tools pull either.
pub fn subjects(shelf: &dyn Shelf) -> Result<Vec<Manifest>, Diagnostics> {
    let root = shelf.root().map_err(registry_failed)?;
    let document: Value = serde_json::from_slice(&root.bytes).unwrap_or_default();
    let mut found = vec![root];
    for entry in document["manifests"].as_array().into_iter().flatten() {
        let Some(digest) = entry["digest"].as_str().and_then(Digest::parse) else { continue };
        if found.iter().all(|known| known.digest != digest) {
            found.push(shelf.by_digest(&digest).map_err(registry_failed)?);
        }
    }
    Ok(found)
}

/// Asks the policy about a package in a registry or layout.
pub fn approve_shelf(shelf: &dyn Shelf, policy: &Path) -> Result<Approved, Diagnostics> {
    let place = shelf.place();
    approve_at(shelf, policy, place.as_deref().unwrap_or("file:"), place.as_deref())
}

fn approve_at(shelf: &dyn Shelf, policy: &Path, place: &str, named: Option<&str>) -> Result<Approved, Diagnostics> {
    let policy = Policy::read(policy).map_err(refused)?;
    let all = subjects(shelf)?;
    let mut verdict = None;
    for (position, subject) in all.iter().enumerate() {
        let evidence = gather(shelf, &subject.digest)?;
        // Statements are about the whole; each manifest below needs its signature.
        let found = match position {
            0 => policy.check(place, &subject.digest, named, &evidence),
            _ => policy.check_signed(place, &subject.digest, named, &evidence),
        };
        verdict.get_or_insert(found.map_err(refused)?);
    }
    let verdict = verdict.expect("there is a root at least");
    Ok(Approved { root: all[0].digest, subjects: all.iter().map(|m| m.digest).collect(), verdict })
}

/// All that speaks for `digest` on a shelf.
fn gather(shelf: &dyn Shelf, digest: &Digest) -> Result<Evidence, Diagnostics> {
    let mut evidence = Evidence::default();
    let parse = |manifest: &Manifest| -> Value { serde_json::from_slice(&manifest.bytes).unwrap_or_default() };
    if let Some(manifest) = shelf.by_tag(&format!("sha256-{}.sig", digest.hex())).map_err(registry_failed)? {
        for layer in layers(&parse(&manifest), SIMPLE_SIGNING) {
            let signature = layer["annotations"][SIGNATURE_ANNOTATION].as_str().unwrap_or_default().to_string();
            let Some(blob) = layer["digest"].as_str().and_then(Digest::parse) else { continue };
            evidence.cosign.push((shelf.blob(&blob, MAX_EVIDENCE).map_err(registry_failed)?, signature));
        }
    }
    for referrer in shelf.referrers(digest).map_err(registry_failed)? {
        let manifest = parse(&shelf.by_digest(&referrer).map_err(registry_failed)?);
        for layer in layers(&manifest, oaaxc_trust::BUNDLE_TYPE) {
            let Some(blob) = layer["digest"].as_str().and_then(Digest::parse) else { continue };
            evidence.bundles.push(shelf.blob(&blob, MAX_EVIDENCE).map_err(registry_failed)?);
        }
    }
    Ok(evidence)
}

/// At most 64 layers of one type.
fn layers<'a>(manifest: &'a Value, media_type: &'a str) -> impl Iterator<Item = &'a Value> {
    let all = manifest["layers"].as_array().into_iter().flatten();
    all.filter(move |layer| layer["mediaType"] == media_type).take(65)
}

/// Where the bundles of a file or folder lie: `model.oaax.sigstore.jsonl`, one bundle a line.
pub fn sidecar(path: &Path) -> PathBuf {
    let plain: PathBuf = path.components().collect();
    let mut name = plain.file_name().unwrap_or_default().to_os_string();
    name.push(".sigstore.jsonl");
    plain.with_file_name(name)
}

/// Asks the policy about an artefact on this machine; gives the digest of the `oaax.json` that it approves.
pub fn approve_path(path: &Path, policy: &Path) -> Result<(Approved, Digest), Diagnostics> {
    let failed = |e: &dyn std::fmt::Display| one(Diagnostic::error(Code::ARTEFACT, format!("{}: {e}", path.display())));
    let report = oaaxc_container::inspect(path).map_err(|e| failed(&e))?;
    let absolute = path.canonicalize().map_err(|e| failed(&e))?;
    let place = format!("file:{}", absolute.display());
    if path.join("oci-layout").is_file() {
        let layout = LayoutFolder::open(path, None).map_err(registry_failed)?;
        let approved = approve_at(&layout, policy, &place, None)?;
        return match report.images.iter().find(|image| !approved.subjects.contains(&image.digest)) {
            Some(image) => Err(failed(&format!("the image {} is not under the signed index", image.digest))),
            None => Ok((approved, report.manifest_digest)),
        };
    }
    let mut evidence = Evidence::default();
    let beside = sidecar(path);
    if let Ok(facts) = std::fs::metadata(&beside) {
        if facts.len() > 16 * MAX_EVIDENCE {
            return Err(failed(&"its signatures take more than 16 MiB"));
        }
        let text = std::fs::read_to_string(&beside).map_err(|e| failed(&e))?;
        evidence.bundles = text.lines().filter(|line| !line.is_empty()).map(|line| line.as_bytes().to_vec()).collect();
    }
    let root = report.manifest_digest;
    let verdict = Policy::read(policy).and_then(|policy| policy.check(&place, &root, None, &evidence)).map_err(refused)?;
    Ok((Approved { root, subjects: vec![root], verdict }, root))
}
