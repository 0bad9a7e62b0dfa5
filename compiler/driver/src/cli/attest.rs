//! `oaaxc attest`: signed statements about a package: what is in it, how it was built, or what a file says.

use std::path::{Path, PathBuf};

use oaaxc_base::{Code, Diagnostic, Diagnostics};
use oaaxc_container::{Digest, Manifest};
use oaaxc_registry::Shelf;
use oaaxc_trust::{BUNDLE_TYPE, CYCLONEDX, CYCLONEDX_PREDICATE, Contents, PROVENANCE_PREDICATE, SPDX, SPDX_PREDICATE, Subject};
use serde_json::{Value, json};

use super::Outcome;
use super::arguments::{io_error, one, usage};
use super::console::Console;
use super::registry::{RegistryArguments, failed};
use super::sign::{attach, beside, bundle, read_key, shelf};

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  oaaxc attest registry.example.org/team/model:v1 --key team.key --sbom spdx,cyclonedx --provenance --model model.onnx
  oaaxc attest model.oaax --key team.key --predicate scan.json --type https://example.org/scan/v1")]
pub struct Arguments {
    /// A reference to a registry, an OCI layout folder, model.oaax or an unpacked folder
    package: String,
    /// The private key: P-256 or Ed25519, PKCS#8 PEM
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Bills of materials
    #[arg(long, value_name = "FORM", value_delimiter = ',', value_parser = ["spdx", "cyclonedx"])]
    sbom: Vec<String>,
    /// How it was built (SLSA provenance)
    #[arg(long)]
    provenance: bool,
    /// The ONNX model that it was built from, for the provenance
    #[arg(long, value_name = "MODEL.onnx", requires = "provenance")]
    model: Option<PathBuf>,
    /// A JSON file with something else to say
    #[arg(long, value_name = "FILE", requires = "kind")]
    predicate: Option<PathBuf>,
    /// What kind of thing it says, as a URI
    #[arg(long = "type", value_name = "URI", requires = "predicate", id = "kind")]
    kind: Option<String>,
    #[command(flatten)]
    registry: RegistryArguments,
}

/// One statement: its predicate, and the document that is also kept as itself.
struct Said {
    kind: String,
    predicate: Value,
    document: Option<(&'static str, Vec<u8>)>,
}

/// Attests.
pub fn main(arguments: &Arguments, console: &Console) -> Outcome {
    let key = read_key(&arguments.key)?;
    let shelf = shelf(&arguments.package, &arguments.registry)?;
    let path = Path::new(&arguments.package);
    let (manifest, digest) = match &shelf {
        Some(shelf) => (manifest_on(shelf.as_ref())?, shelf.root().map_err(failed)?.digest),
        None => {
            let wrong = |e| one(Diagnostic::error(Code::ARTEFACT, format!("{}: {e}", path.display())));
            let report = oaaxc_container::inspect(path).map_err(wrong)?;
            (report.manifest, report.manifest_digest)
        }
    };
    let all = said(arguments, &manifest, digest)?;
    if all.is_empty() {
        return Err(usage("nothing to say: give --sbom, --provenance or --predicate"));
    }
    for said in all {
        match &shelf {
            Some(shelf) => {
                let root = shelf.root().map_err(failed)?;
                let about = (&root.digest, root.bytes.len(), root.media_type.as_str());
                let name = shelf.place().unwrap_or_default();
                let signed = bundle(&key, vec![Subject::new(name, &root.digest)], &said.kind, said.predicate);
                attach(shelf.as_ref(), about, BUNDLE_TYPE, &signed, Some(&said.kind))?;
                if let Some((media_type, document)) = &said.document {
                    attach(shelf.as_ref(), about, media_type, document, None)?;
                }
            }
            None => beside(path, &key, &said.kind, said.predicate).map(|_| ())?,
        }
        match console.json {
            true => console.object(&json!({ "attested": digest.to_string(), "predicate": said.kind })),
            false => console.line(&format!("attested {digest}: {}", said.kind)),
        }
    }
    Ok(0)
}

/// The statements that were asked for.
fn said(arguments: &Arguments, manifest: &Manifest, digest: Digest) -> Result<Vec<Said>, Diagnostics> {
    let contents = Contents { manifest, digest, created: "1970-01-01T00:00:00Z" };
    let mut all = Vec::new();
    for form in &arguments.sbom {
        let (kind, media_type, document) = match form.as_str() {
            "spdx" => (SPDX_PREDICATE, SPDX, oaaxc_trust::spdx(&contents)),
            _ => (CYCLONEDX_PREDICATE, CYCLONEDX, oaaxc_trust::cyclonedx(&contents)),
        };
        let predicate = serde_json::from_slice(&document).unwrap_or_default();
        all.push(Said { kind: kind.into(), predicate, document: Some((media_type, document)) });
    }
    if arguments.provenance {
        let read = |path: &PathBuf| std::fs::read(path).map(|bytes| Digest::of(&bytes)).map_err(|e| io_error("read", path, &e));
        let model = arguments.model.as_ref().map(read).transpose()?;
        let targets: Vec<&str> = manifest.variants.iter().map(|variant| variant.target.as_str()).collect();
        let parameters = json!({ "model": manifest.name, "targets": targets });
        let predicate = oaaxc_trust::provenance(model.as_ref(), &manifest.producer.version, parameters);
        all.push(Said { kind: PROVENANCE_PREDICATE.into(), predicate, document: None });
    }
    if let (Some(path), Some(kind)) = (&arguments.predicate, &arguments.kind) {
        let bytes = std::fs::read(path).map_err(|e| io_error("read", path, &e))?;
        let predicate = serde_json::from_slice(&bytes).map_err(|e| usage(format!("{}: {e}", path.display())))?;
        all.push(Said { kind: kind.clone(), predicate, document: None });
    }
    Ok(all)
}

/// `oaax.json` of a package on a shelf: in the last layer of any of its images.
pub fn manifest_on(shelf: &dyn Shelf) -> Result<Manifest, Diagnostics> {
    const MOST: u64 = 17 << 20;
    let wrong = |why: String| one(Diagnostic::error(Code::ARTEFACT, why));
    let all = super::trust::subjects(shelf)?;
    let mut documents = all.iter().map(|m| serde_json::from_slice::<Value>(&m.bytes).unwrap_or_default());
    let last = documents.find_map(|d| d["layers"].as_array()?.last()?["digest"].as_str().and_then(Digest::parse));
    let last = last.ok_or_else(|| wrong("the package has no image with layers".into()))?;
    let layer = shelf.blob(&last, MOST).map_err(failed)?;
    oaaxc_container::manifest_in_layer(&layer).map_err(|e| wrong(format!("this is no oaaxc package: {e}")))
}
