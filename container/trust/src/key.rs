//! Keys: ECDSA on P-256 with SHA-256, which cosign makes, and Ed25519.
//!
//! Promises: a key is read from PEM (SubjectPublicKeyInfo, PKCS#8) and nothing else; signing the same bytes gives the
//! same signature (RFC 6979, RFC 8032); weak Ed25519 points are refused.

use base64::{Engine, engine::general_purpose::STANDARD};
use ed25519_dalek::pkcs8::{DecodePrivateKey as _, DecodePublicKey as _, EncodePublicKey as _};
use p256::ecdsa::signature::{Signer as _, Verifier as _};
use sha2::{Digest as _, Sha256};

use crate::error::{Result, TrustError, refuse};

/// Signs.
pub enum SecretKey {
    /// ECDSA P-256.
    P256(Box<p256::ecdsa::SigningKey>),
    /// Ed25519.
    Ed25519(Box<ed25519_dalek::SigningKey>),
}

/// Verifies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublicKey {
    /// ECDSA P-256.
    P256(Box<p256::ecdsa::VerifyingKey>),
    /// Ed25519.
    Ed25519(Box<ed25519_dalek::VerifyingKey>),
}

impl SecretKey {
    /// Reads an unencrypted PKCS#8 key (`openssl genpkey`).
    pub fn from_pem(pem: &str) -> Result<SecretKey> {
        if pem.contains("ENCRYPTED") {
            return refuse("the key is encrypted; give it decrypted, or export it with `openssl pkcs8`");
        }
        if let Ok(key) = p256::ecdsa::SigningKey::from_pkcs8_pem(pem) {
            return Ok(SecretKey::P256(Box::new(key)));
        }
        match ed25519_dalek::SigningKey::from_pkcs8_pem(pem) {
            Ok(key) => Ok(SecretKey::Ed25519(Box::new(key))),
            Err(_) => refuse("the key is neither P-256 nor Ed25519 in PKCS#8 PEM form (BEGIN PRIVATE KEY)"),
        }
    }

    /// The signature over `message`: DER for P-256, 64 bytes for Ed25519.
    pub fn sign(&self, message: &[u8]) -> Vec<u8> {
        match self {
            SecretKey::P256(key) => {
                let signature: p256::ecdsa::Signature = key.sign(message);
                signature.normalize_s().unwrap_or(signature).to_der().as_bytes().to_vec()
            }
            SecretKey::Ed25519(key) => key.sign(message).to_bytes().to_vec(),
        }
    }

    /// Its other half.
    pub fn public(&self) -> PublicKey {
        match self {
            SecretKey::P256(key) => PublicKey::P256(Box::new(*key.verifying_key())),
            SecretKey::Ed25519(key) => PublicKey::Ed25519(Box::new(key.verifying_key())),
        }
    }
}

impl PublicKey {
    /// Reads a SubjectPublicKeyInfo in PEM form (`cosign.pub`, `openssl pkey -pubout`).
    pub fn from_pem(pem: &str) -> Result<PublicKey> {
        if let Ok(key) = p256::PublicKey::from_public_key_pem(pem) {
            return Ok(PublicKey::P256(Box::new(p256::ecdsa::VerifyingKey::from(key))));
        }
        match ed25519_dalek::VerifyingKey::from_public_key_pem(pem) {
            Ok(key) if !key.is_weak() => Ok(PublicKey::Ed25519(Box::new(key))),
            Ok(_) => refuse("the Ed25519 key is a weak point: it would accept forged signatures"),
            Err(_) => refuse("the key is neither P-256 nor Ed25519 in PEM form (BEGIN PUBLIC KEY)"),
        }
    }

    /// Whether `signature` is this key's over exactly `message`.
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> Result<()> {
        let wrong = TrustError(format!("the signature is not that of key {}", self.id()));
        match self {
            PublicKey::P256(key) => {
                let signature = p256::ecdsa::Signature::from_der(signature).map_err(|_| wrong.clone())?;
                // Other signers leave the high one of the two values of s; signatures are counted by key, so both may stand.
                let signature = signature.normalize_s().unwrap_or(signature);
                key.verify(message, &signature).map_err(|_| wrong)
            }
            PublicKey::Ed25519(key) => {
                let signature = ed25519_dalek::Signature::from_slice(signature).map_err(|_| wrong.clone())?;
                key.verify_strict(message, &signature).map_err(|_| wrong)
            }
        }
    }

    /// SubjectPublicKeyInfo.
    pub fn der(&self) -> Vec<u8> {
        let der = match self {
            PublicKey::P256(key) => p256::PublicKey::from(key.as_ref()).to_public_key_der(),
            PublicKey::Ed25519(key) => key.to_public_key_der(),
        };
        der.expect("a point on its curve has this form").as_bytes().to_vec()
    }

    /// Base64 of SHA-256 over the SubjectPublicKeyInfo: the hint in bundles.
    pub fn hint(&self) -> String {
        STANDARD.encode(Sha256::digest(self.der()))
    }

    /// The first digits of that digest, for people.
    pub fn id(&self) -> String {
        Sha256::digest(self.der()).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
    }
}
