//! Bills of materials: what is in a package, as SPDX 2.3 and CycloneDX 1.6.
//!
//! Promises: same package, same bytes; every file stands in both with its SHA-256; the model is a model, not a library.

use oaaxc_container::{Digest, Manifest};
use serde_json::{Value, json};

/// Type of an SPDX document.
pub const SPDX: &str = "application/spdx+json";
/// Type of a CycloneDX document.
pub const CYCLONEDX: &str = "application/vnd.cyclonedx+json";
/// Predicate of an SPDX document in a statement.
pub const SPDX_PREDICATE: &str = "https://spdx.dev/Document";
/// Predicate of a CycloneDX document in a statement.
pub const CYCLONEDX_PREDICATE: &str = "https://cyclonedx.org/bom";

/// What the bills are written from.
pub struct Contents<'a> {
    /// The package's manifest.
    pub manifest: &'a Manifest,
    /// Digest of the index, or of `oaax.json` where there is none.
    pub digest: Digest,
    /// RFC 3339.
    pub created: &'a str,
}

impl Contents<'_> {
    fn name(&self) -> &str {
        if self.manifest.name.is_empty() { "model" } else { &self.manifest.name }
    }

    fn tool(&self) -> String {
        format!("{}-{}", self.manifest.producer.name, self.manifest.producer.version)
    }
}

/// The SPDX document.
pub fn spdx(contents: &Contents<'_>) -> Vec<u8> {
    let manifest = contents.manifest;
    let id = |position: usize| format!("SPDXRef-Part-{position}");
    // SPDX 2.3, 8.4: a "file" must have a SHA-1, which of weights nobody makes; a package of one file need not.
    let parts = manifest.files.iter().enumerate().map(|(position, file)| {
        json!({
            "SPDXID": id(position), "name": format!("models/{}", file.path), "downloadLocation": "NOASSERTION",
            "filesAnalyzed": false, "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION",
            "copyrightText": "NOASSERTION", "checksums": [{"algorithm": "SHA256", "checksumValue": file.sha256}],
        })
    });
    let whole = json!({
        "SPDXID": "SPDXRef-Package", "name": contents.name(), "downloadLocation": "NOASSERTION", "filesAnalyzed": false,
        "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION",
        "checksums": [{"algorithm": "SHA256", "checksumValue": contents.digest.hex()}],
    });
    let packages: Vec<Value> = [whole].into_iter().chain(parts).collect();
    let mut relations = vec![json!({
        "spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-Package",
    })];
    relations.extend((0..manifest.files.len()).map(|position| {
        json!({"spdxElementId": "SPDXRef-Package", "relationshipType": "CONTAINS", "relatedSpdxElement": id(position)})
    }));
    oaaxc_container::canonical_json(&json!({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": contents.name(),
        "documentNamespace": format!("https://oaaxc.dev/spdx/{}", contents.digest.hex()),
        "creationInfo": {"created": contents.created, "creators": [format!("Tool: {}", contents.tool())]},
        "packages": packages,
        "relationships": relations,
    }))
}

/// The CycloneDX document.
pub fn cyclonedx(contents: &Contents<'_>) -> Vec<u8> {
    let manifest = contents.manifest;
    let files: Vec<Value> = manifest
        .files
        .iter()
        .map(|file| {
            json!({
                "type": "file", "bom-ref": file.path, "name": file.path,
                "hashes": [{"alg": "SHA-256", "content": file.sha256}],
                "properties": [{"name": "io.oaax.role", "value": file.role}],
            })
        })
        .collect();
    let values = |values: &[oaaxc_container::ValueInfo]| -> Vec<Value> {
        values.iter().map(|value| json!({"format": serde_json::to_string(value).unwrap_or_default()})).collect()
    };
    let hex = contents.digest.hex();
    // RFC 9562, version 8: a UUID of the package's own digest, so that the serial number is the same each time.
    let serial = format!("{}-{}-8{}-a{}-{}", &hex[..8], &hex[8..12], &hex[12..15], &hex[15..18], &hex[18..30]);
    oaaxc_container::canonical_json(&json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": format!("urn:uuid:{serial}"),
        "version": 1,
        "metadata": {
            "timestamp": contents.created,
            "tools": {"components": [{
                "type": "application", "name": manifest.producer.name, "version": manifest.producer.version,
            }]},
            "component": {
                "type": "machine-learning-model", "bom-ref": "model", "name": contents.name(),
                "hashes": [{"alg": "SHA-256", "content": hex}],
                "modelCard": {"modelParameters": {"inputs": values(&manifest.inputs), "outputs": values(&manifest.outputs)}},
            },
        },
        "components": files,
        "dependencies": [{"ref": "model", "dependsOn": manifest.files.iter().map(|file| &file.path).collect::<Vec<_>>()}],
    }))
}
