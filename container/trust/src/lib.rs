//! Who vouches for a package: signatures, attestations, and the policy that decides.
//!
//! Promises: everything is about exact bytes; a signature is verified before what it covers is parsed; without a policy
//! that says otherwise the answer is no.
//! Never: speaks to a network (callers bring the bytes), loads code, or keeps a private key longer than it signs.
#![forbid(unsafe_code)]

mod bundle;
mod cosign;
mod dsse;
mod error;
mod key;
mod policy;
mod sbom;
mod statement;

pub use bundle::{BUNDLE_TYPE, SIGNATURE_PREDICATE, bundle_manifest, read_bundle, write_bundle};
pub use cosign::{SIGNATURE_ANNOTATION, SIMPLE_SIGNING, cosign_manifest, cosign_payload, verify_cosign};
pub use dsse::{Envelope, STATEMENT_TYPE};
pub use error::{Result, TrustError};
pub use key::{PublicKey, SecretKey};
pub use policy::{Evidence, Policy, Verdict};
pub use sbom::{CYCLONEDX, CYCLONEDX_PREDICATE, Contents, SPDX, SPDX_PREDICATE, cyclonedx, spdx};
pub use statement::{PROVENANCE_PREDICATE, Statement, Subject, provenance};
