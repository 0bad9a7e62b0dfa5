//! An unpacked or mounted `/models`.
//!
//! Promises: only files that `oaax.json` lists are opened, without following links; files that it does not list are
//! left alone (mounts bring their own, such as `lost+found`). Nothing here binds `oaax.json` but the digest
//! that the caller may expect.

use std::{collections::BTreeMap, io::ErrorKind, path::Path};

use super::{Expectation, Form, OpenedFile, OpenedPackage, Place, check_complete, read_manifest, store::open_below};
use crate::{
    error::{ContainerError, Result},
    json,
    oci::Annotations,
};

pub(super) fn open(path: &Path, expected: &Expectation) -> Result<OpenedPackage> {
    let manifest_bytes = open_below(path, "oaax.json")?.read_all(json::MAX_MANIFEST, "oaax.json")?;
    let manifest = read_manifest(&manifest_bytes, expected)?;
    let mut files = BTreeMap::new();
    for entry in &manifest.files {
        let section = match open_below(path, &entry.path) {
            Ok(section) => section,
            Err(ContainerError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                continue;
            }
            Err(error) => return Err(error),
        };
        if section.length != entry.size {
            let reason = format!("has {} bytes, oaax.json says {}", section.length, entry.size);
            return Err(ContainerError::invalid(format!("file {:?}", entry.path), reason));
        }
        files.insert(entry.path.clone(), OpenedFile { entry: entry.clone(), place: Place::Whole(section) });
    }
    check_complete(&manifest, &files)?;
    Ok(OpenedPackage {
        form: Form::Folder,
        bound: expected.manifest.is_some(),
        manifest,
        manifest_bytes,
        files,
        layers: Vec::new(),
        images: Vec::new(),
        annotations: Annotations::new(),
    })
}
