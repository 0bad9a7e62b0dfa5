//! in-toto statements: what is said (the predicate) of which bytes (the subjects).
//!
//! Promises: written as canonical JSON; read strictly, and only after its envelope was verified. A statement about other
//! bytes, or with another predicate, is refused whatever else it says.

use std::collections::BTreeMap;

use oaaxc_container::Digest;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::{Result, TrustError, refuse};

const STATEMENT: &str = "https://in-toto.io/Statement/v1";
/// How a package was built.
pub const PROVENANCE_PREDICATE: &str = "https://slsa.dev/provenance/v1";

/// A statement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Statement {
    /// `https://in-toto.io/Statement/v1`
    #[serde(rename = "_type")]
    pub kind: String,
    /// What it is about.
    pub subject: Vec<Subject>,
    /// What kind of thing it says.
    pub predicate_type: String,
    /// What it says.
    #[serde(default)]
    pub predicate: Value,
}

/// Bytes with a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    /// For people.
    #[serde(default)]
    pub name: String,
    /// Hexadecimal digests by algorithm.
    pub digest: BTreeMap<String, String>,
}

impl Subject {
    /// A subject by its SHA-256.
    pub fn new(name: impl Into<String>, digest: &Digest) -> Subject {
        Subject { name: name.into(), digest: [("sha256".to_owned(), digest.hex())].into() }
    }
}

impl Statement {
    /// A statement.
    pub fn new(subject: Vec<Subject>, predicate_type: &str, predicate: Value) -> Statement {
        Statement { kind: STATEMENT.to_owned(), subject, predicate_type: predicate_type.to_owned(), predicate }
    }

    /// Its bytes.
    pub fn to_json(&self) -> Vec<u8> {
        oaaxc_container::canonical_json(self)
    }

    /// Reads the payload of a verified envelope and demands that it speaks of `digest`.
    pub fn about(payload: &[u8], digest: &Digest, predicate_type: Option<&str>) -> Result<Statement> {
        let statement: Statement =
            oaaxc_container::strict_json(payload, "the statement").map_err(|error| TrustError(error.to_string()))?;
        if statement.kind != STATEMENT {
            return refuse(format!("a statement of kind {:?}", statement.kind));
        }
        if predicate_type.is_some_and(|wanted| wanted != statement.predicate_type) {
            return refuse(format!("the statement says {:?}", statement.predicate_type));
        }
        let hex = digest.hex();
        match statement.subject.iter().any(|subject| subject.digest.get("sha256") == Some(&hex)) {
            true => Ok(statement),
            false => refuse(format!("the statement is about other bytes than {digest}")),
        }
    }
}

/// The predicate of SLSA provenance: what was built from what, by which version.
pub fn provenance(model: Option<&Digest>, version: &str, parameters: Value) -> Value {
    let material = model.map(|digest| json!({"name": "model.onnx", "digest": {"sha256": digest.hex()}}));
    json!({
        "buildDefinition": {
            "buildType": "https://oaaxc.dev/build/v1",
            "externalParameters": parameters,
            "resolvedDependencies": material.into_iter().collect::<Vec<Value>>(),
        },
        "runDetails": { "builder": { "id": "https://oaaxc.dev/oaaxc", "version": {"oaaxc": version} } },
    })
}
