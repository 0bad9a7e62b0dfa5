//! Unpacks a package into a folder of plain files.
//!
//! Promises: the folder appears whole and verified or not at all; an existing one is never touched.

use std::{
    fs,
    fs::File,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use super::{OpenedPackage, checked_copy};
use crate::{
    error::{ContainerError, Result},
    place::temporary_prefix,
};

impl OpenedPackage {
    /// Writes what `/models` holds into the new folder `path`, every file checked against its hash tree.
    pub fn unpack(&self, path: &Path) -> Result<()> {
        let failed = |error| ContainerError::io("create", path, error);
        if fs::symlink_metadata(path).is_ok() {
            return Err(ContainerError::package(format!("{} exists; unpacking needs a new folder", path.display())));
        }
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let temporary = tempfile::Builder::new()
            .prefix(&temporary_prefix())
            .permissions(fs::Permissions::from_mode(0o777))
            .tempdir_in(parent)
            .map_err(failed)?;
        self.for_each_file(|entry, reader| {
            let mut file = create(temporary.path(), &entry.path).map_err(failed)?;
            checked_copy(entry, reader, &mut file)
        })?;
        create(temporary.path(), "oaax.json").and_then(|mut file| file.write_all(&self.manifest_bytes)).map_err(failed)?;
        fs::rename(temporary.path(), path).map_err(failed)?;
        let _: PathBuf = temporary.keep();
        Ok(())
    }
}

/// Paths were checked when the manifest was read: they cannot leave `folder`.
fn create(folder: &Path, path: &str) -> std::io::Result<File> {
    let path = folder.join(path);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    File::create_new(path)
}
