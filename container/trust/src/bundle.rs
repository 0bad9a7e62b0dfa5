//! Sigstore bundles: a DSSE envelope with a hint at its key, kept as a manifest that refers to its subject.
//!
//! Promises: version 0.3 with a public key; certificates and transparency logs are for a network that is not asked here.

use oaaxc_container::Digest;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    dsse::Envelope,
    error::{Result, TrustError, refuse},
    key::PublicKey,
};

/// Type of a bundle, of the layer that holds it, and of the manifest around.
pub const BUNDLE_TYPE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
/// What cosign says when it only signs.
pub const SIGNATURE_PREDICATE: &str = "https://sigstore.dev/cosign/sign/v1";
const EMPTY: &str = "application/vnd.oci.empty.v1+json";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Bundle {
    media_type: String,
    dsse_envelope: Envelope,
}

/// The bytes of a bundle around `envelope`.
pub fn write_bundle(envelope: &Envelope, key: &PublicKey) -> Vec<u8> {
    oaaxc_container::canonical_json(&json!({
        "mediaType": BUNDLE_TYPE,
        "verificationMaterial": {"publicKey": {"hint": key.hint()}},
        "dsseEnvelope": envelope,
    }))
}

/// The envelope of a bundle, not yet verified.
pub fn read_bundle(bytes: &[u8]) -> Result<Envelope> {
    let bundle: Bundle = oaaxc_container::strict_json(bytes, "the bundle").map_err(|error| TrustError(error.to_string()))?;
    match bundle.media_type == BUNDLE_TYPE {
        true => Ok(bundle.dsse_envelope),
        false => refuse(format!("a bundle of type {:?}; this reader knows {BUNDLE_TYPE}", bundle.media_type)),
    }
}

/// The manifest that refers to `subject` and holds `content` of the type `content_type`; its config is `{}`.
pub fn bundle_manifest(subject: (&Digest, usize, &str), content_type: &str, content: &[u8], predicate: Option<&str>) -> Vec<u8> {
    let (digest, size, media_type) = subject;
    let mut annotations = json!({"org.opencontainers.image.created": "1970-01-01T00:00:00Z"});
    if let Some(predicate) = predicate {
        annotations["dev.sigstore.bundle.content"] = "dsse-envelope".into();
        annotations["dev.sigstore.bundle.predicateType"] = predicate.into();
    }
    let empty: Value = json!({"mediaType": EMPTY, "digest": Digest::of(b"{}").to_string(), "size": 2});
    oaaxc_container::canonical_json(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "artifactType": content_type,
        "config": empty,
        "layers": [{"mediaType": content_type, "digest": Digest::of(content).to_string(), "size": content.len()}],
        "subject": {"mediaType": media_type, "digest": digest.to_string(), "size": size},
        "annotations": annotations,
    }))
}
