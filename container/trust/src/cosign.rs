//! cosign's tag scheme: a small manifest under `sha256-<hex>.sig` whose layer is the signed payload.
//!
//! Promises: the payload is canonical and names identity and digest; a signature counts only if its bytes are signed, say
//! the manifest's digest, and say nothing in `critical` that is not known here.

use base64::{Engine, engine::general_purpose::STANDARD};
use oaaxc_container::Digest;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    error::{Result, TrustError, refuse},
    key::{PublicKey, SecretKey},
};

/// Type of the payload layer.
pub const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// Where the signature stands.
pub const SIGNATURE_ANNOTATION: &str = "dev.cosignproject.cosign/signature";
const KIND: &str = "cosign container image signature";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Payload {
    critical: Critical,
    #[serde(default)]
    #[allow(dead_code, reason = "optional words bind nothing")]
    optional: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Critical {
    identity: Identity,
    image: Image,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Identity {
    docker_reference: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Image {
    docker_manifest_digest: Digest,
}

/// What cosign signs: `place` is `registry/repository`.
pub fn cosign_payload(place: &str, digest: &Digest) -> Vec<u8> {
    oaaxc_container::canonical_json(&json!({
        "critical": {
            "identity": {"docker-reference": place},
            "image": {"docker-manifest-digest": digest.to_string()},
            "type": KIND,
        },
        "optional": null,
    }))
}

/// The manifest with one more signature over `payload`, and its config; the payload is a layer. `old` is the manifest
/// that stands there, whose signatures are kept.
pub fn cosign_manifest(old: Option<&[u8]>, payload: &[u8], key: &SecretKey) -> (Vec<u8>, Vec<u8>) {
    let layer = json!({
        "mediaType": SIMPLE_SIGNING, "digest": Digest::of(payload).to_string(), "size": payload.len(),
        "annotations": { SIGNATURE_ANNOTATION: STANDARD.encode(key.sign(payload)) },
    });
    let old: Value = old.and_then(|bytes| serde_json::from_slice(bytes).ok()).unwrap_or_default();
    let kept = old["layers"].as_array().into_iter().flatten();
    let mut layers: Vec<Value> = kept.filter(|old| old["mediaType"] == SIMPLE_SIGNING && **old != layer).cloned().collect();
    layers.push(layer);
    let diff_ids: Vec<&Value> = layers.iter().map(|layer| &layer["digest"]).collect();
    let config = oaaxc_container::canonical_json(&json!({
        "architecture": "", "os": "", "config": {}, "rootfs": {"type": "layers", "diff_ids": diff_ids},
    }));
    let manifest = oaaxc_container::canonical_json(&json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {"mediaType": CONFIG, "digest": Digest::of(&config).to_string(), "size": config.len()},
        "layers": layers,
    }));
    (manifest, config)
}

/// Which of `keys` signed the payload with this base64 signature; the payload must be about `digest`, and about
/// `place` where one is known.
pub fn verify_cosign(payload: &[u8], signature: &str, digest: &Digest, place: Option<&str>, keys: &[PublicKey]) -> Result<usize> {
    let signature = STANDARD.decode(signature).map_err(|_| TrustError("a signature that is not base64".to_owned()))?;
    let Some(signer) = keys.iter().position(|key| key.verify(payload, &signature).is_ok()) else {
        return refuse("no key of the policy signed it");
    };
    let said: Payload = oaaxc_container::strict_json(payload, "the payload").map_err(|error| TrustError(error.to_string()))?;
    if said.critical.kind != KIND {
        return refuse(format!("a payload of type {:?}", said.critical.kind));
    }
    if said.critical.image.docker_manifest_digest != *digest {
        return refuse(format!("the signature is about {}", said.critical.image.docker_manifest_digest));
    }
    let reference = &said.critical.identity.docker_reference;
    match place {
        Some(place) if reference != place => refuse(format!("the signature is for {reference:?}, this is {place:?}")),
        _ => Ok(signer),
    }
}
