//! `oaaxc sign`: says with a key that this package is as it shall be.
//!
//! Promises: index and every manifest below it are signed, because tools pull either; two forms each, cosign's tag and a
//! sigstore bundle; signing again with the same key changes nothing.

use std::io::Write;
use std::path::{Path, PathBuf};

use oaaxc_base::{Code, Diagnostic, Diagnostics};
use oaaxc_container::Digest;
use oaaxc_registry::{LayoutFolder, Reference, Shelf};
use oaaxc_trust::{BUNDLE_TYPE, Envelope, SIGNATURE_PREDICATE, STATEMENT_TYPE, SecretKey, Statement, Subject};
use serde_json::json;

use super::Outcome;
use super::arguments::{io_error, one};
use super::console::Console;
use super::registry::{RegistryArguments, failed};
use super::trust::{sidecar, subjects};

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out team.key
  openssl pkey -in team.key -pubout -out team.pub
  oaaxc sign registry.example.org/team/model:v1 --key team.key
  oaaxc sign model.oaax --key team.key")]
pub struct Arguments {
    /// A reference to a registry, an OCI layout folder, model.oaax or an unpacked folder
    package: String,
    /// The private key: P-256 or Ed25519, PKCS#8 PEM
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// REGISTRY/REPOSITORY that the signature is for [default: where the package lies]
    #[arg(long, value_name = "PLACE")]
    identity: Option<String>,
    #[command(flatten)]
    registry: RegistryArguments,
}

/// Signs.
pub fn main(arguments: &Arguments, console: &Console) -> Outcome {
    let key = read_key(&arguments.key)?;
    let signed = match shelf(&arguments.package, &arguments.registry)? {
        Some(shelf) => on_shelf(shelf.as_ref(), &key, arguments.identity.as_deref())?,
        None => {
            let path = Path::new(&arguments.package);
            vec![beside(path, &key, SIGNATURE_PREDICATE, json!({}))?]
        }
    };
    for digest in signed {
        match console.json {
            true => console.object(&json!({ "signed": digest.to_string(), "key": key.public().id() })),
            false => console.line(&format!("signed {digest} with {}", key.public().id())),
        }
    }
    Ok(0)
}

/// Reads a private key.
pub fn read_key(path: &Path) -> Result<SecretKey, Diagnostics> {
    let text = std::fs::read_to_string(path).map_err(|e| io_error("read", path, &e))?;
    SecretKey::from_pem(&text).map_err(|e| one(Diagnostic::error(Code::USAGE, format!("{}: {e}", path.display()))))
}

/// The shelf of a reference or layout; nothing for files and folders, whose signatures lie beside them.
pub fn shelf(package: &str, registry: &RegistryArguments) -> Result<Option<Box<dyn Shelf>>, Diagnostics> {
    if Reference::is_meant(package) {
        return Ok(Some(Box::new(registry.client_for(package)?)));
    }
    match Path::new(package).join("oci-layout").is_file() {
        true => Ok(Some(Box::new(LayoutFolder::open(Path::new(package), None).map_err(failed)?))),
        false => Ok(None),
    }
}

fn on_shelf(shelf: &dyn Shelf, key: &SecretKey, identity: Option<&str>) -> Result<Vec<Digest>, Diagnostics> {
    let place = identity.map(str::to_string).or_else(|| shelf.place());
    // A layout that lies nowhere yet is signed by digest; its bundles carry that.
    let place = place.unwrap_or_else(|| "localhost/model".to_string());
    let mut signed = Vec::new();
    for subject in subjects(shelf)? {
        let digest = subject.digest;
        let tag = format!("sha256-{}.sig", digest.hex());
        let old = shelf.by_tag(&tag).map_err(failed)?;
        let payload = oaaxc_trust::cosign_payload(&place, &digest);
        let (manifest, config) = oaaxc_trust::cosign_manifest(old.as_ref().map(|m| m.bytes.as_slice()), &payload, key);
        shelf.put_blob(&payload).map_err(failed)?;
        shelf.put_blob(&config).map_err(failed)?;
        shelf.put_tag(&tag, "application/vnd.oci.image.manifest.v1+json", &manifest).map_err(failed)?;
        let bundle = bundle(key, vec![Subject::new(place.clone(), &digest)], SIGNATURE_PREDICATE, json!({}));
        let about = (&digest, subject.bytes.len(), subject.media_type.as_str());
        attach(shelf, about, BUNDLE_TYPE, &bundle, Some(SIGNATURE_PREDICATE))?;
        signed.push(digest);
    }
    Ok(signed)
}

/// A bundle around a signed statement.
pub fn bundle(key: &SecretKey, about: Vec<Subject>, predicate_type: &str, predicate: serde_json::Value) -> Vec<u8> {
    let statement = Statement::new(about, predicate_type, predicate);
    let envelope = Envelope::sign(STATEMENT_TYPE, &statement.to_json(), key);
    oaaxc_trust::write_bundle(&envelope, &key.public())
}

/// Stores content as a manifest that refers to a subject.
pub fn attach(
    shelf: &dyn Shelf,
    about: (&Digest, usize, &str),
    content_type: &str,
    content: &[u8],
    predicate: Option<&str>,
) -> Result<(), Diagnostics> {
    let manifest = oaaxc_trust::bundle_manifest(about, content_type, content, predicate);
    shelf.put_blob(b"{}").map_err(failed)?;
    shelf.put_blob(content).map_err(failed)?;
    shelf.put_referrer(about.0, content_type, &manifest).map_err(failed)
}

/// Adds a bundle about the `oaax.json` of a file or folder to the list beside it.
pub fn beside(path: &Path, key: &SecretKey, predicate_type: &str, predicate: serde_json::Value) -> Result<Digest, Diagnostics> {
    let failed = |e: oaaxc_container::ContainerError| one(Diagnostic::error(Code::ARTEFACT, format!("{}: {e}", path.display())));
    let package = oaaxc_container::open(path).map_err(failed)?;
    package.verify().map_err(failed)?;
    let digest = Digest::of(package.manifest_bytes());
    let mut line = bundle(key, vec![Subject::new("oaax.json", &digest)], predicate_type, predicate);
    line.push(b'\n');
    let list = sidecar(path);
    let old = std::fs::read(&list).unwrap_or_default();
    if !old.split_inclusive(|byte| *byte == b'\n').any(|known| known == line) {
        let mut file =
            std::fs::OpenOptions::new().append(true).create(true).open(&list).map_err(|e| io_error("write", &list, &e))?;
        file.write_all(&line).map_err(|e| io_error("write", &list, &e))?;
    }
    Ok(digest)
}
