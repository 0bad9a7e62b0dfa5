//! DSSE envelopes: a payload, its type, and signatures over both.
//!
//! Promises: what is signed is the pre-authentication encoding, so type and payload cannot be exchanged for others; the
//! payload is handed out only after a key has verified it.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};

use crate::{
    error::{Result, TrustError, refuse},
    key::{PublicKey, SecretKey},
};

/// The payload type of in-toto statements.
pub const STATEMENT_TYPE: &str = "application/vnd.in-toto+json";
/// More signatures than anybody gives; each costs a verification per key.
const MAX_SIGNATURES: usize = 16;

/// A signed payload, as JSON keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Envelope {
    /// Base64 of the payload.
    pub payload: String,
    /// What the payload is.
    pub payload_type: String,
    /// At least one.
    pub signatures: Vec<Signature>,
}

/// One signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// Base64.
    pub sig: String,
    /// A hint, never a reason to trust.
    #[serde(default)]
    pub keyid: String,
}

/// "DSSEv1" SP LEN(type) SP type SP LEN(body) SP body (DSSE protocol, "PAE").
fn encoding(payload_type: &str, payload: &[u8]) -> Vec<u8> {
    let mut bytes = format!("DSSEv1 {} {payload_type} {} ", payload_type.len(), payload.len()).into_bytes();
    bytes.extend_from_slice(payload);
    bytes
}

impl Envelope {
    /// Signs `payload`.
    pub fn sign(payload_type: &str, payload: &[u8], key: &SecretKey) -> Envelope {
        let sig = STANDARD.encode(key.sign(&encoding(payload_type, payload)));
        Envelope {
            payload: STANDARD.encode(payload),
            payload_type: payload_type.to_owned(),
            signatures: vec![Signature { sig, keyid: String::new() }],
        }
    }

    /// The payload, if it is of this type and one of `keys` signed it; and the positions of those keys.
    pub fn verify(&self, payload_type: &str, keys: &[PublicKey]) -> Result<(Vec<u8>, Vec<usize>)> {
        if self.payload_type != payload_type {
            return refuse(format!("the envelope holds {:?}, not {payload_type}", self.payload_type));
        }
        if self.signatures.len() > MAX_SIGNATURES {
            return refuse(format!("an envelope with {} signatures, more than {MAX_SIGNATURES}", self.signatures.len()));
        }
        let odd = |_| TrustError("an envelope that is not base64".to_owned());
        let payload = STANDARD.decode(&self.payload).map_err(odd)?;
        if payload.is_empty() {
            return refuse("an envelope without a payload");
        }
        let message = encoding(payload_type, &payload);
        let mut signers = Vec::new();
        for signature in &self.signatures {
            let bytes = STANDARD.decode(&signature.sig).map_err(odd)?;
            let signer = keys.iter().position(|key| key.verify(&message, &bytes).is_ok());
            signers.extend(signer.filter(|signer| !signers.contains(signer)));
        }
        match signers.is_empty() {
            true => refuse("no key of the policy signed the envelope"),
            false => Ok((payload, signers)),
        }
    }
}
