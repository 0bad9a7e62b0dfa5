//! An OCI layout directory in registry form: gzip layers of stored blocks.
//!
//! Promises: the directory appears whole under its name or not at all; an older layout there is exchanged for the
//! new one in one step where the file system can do that; a folder that is no layout is never replaced.

use std::{
    fs,
    fs::File,
    io::ErrorKind,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use crate::{
    error::{ContainerError, Result},
    json, oci,
    oci::{Annotations, Descriptor, Index},
    package::Package,
    place::temporary_prefix,
    prepare::{Prepared, Written, prepare},
    sink::{FileSink, Sink},
};

/// Writes `package` as an OCI layout in registry form to the folder `path`, replacing an older layout there.
pub fn write_layout(package: &Package, path: &Path) -> Result<Written> {
    let name = path.file_name().ok_or_else(|| ContainerError::package(format!("{} has no name", path.display())))?;
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let path = parent.join(name);
    check_replaceable(&path)?;
    let prepared = prepare(package)?;
    let temporary = tempfile::Builder::new()
        .prefix(&temporary_prefix())
        .permissions(fs::Permissions::from_mode(0o777))
        .tempdir_in(parent)
        .map_err(|error| ContainerError::io("create", &path, error))?;
    let bytes = emit(package, &prepared, temporary.path(), &path)?;
    replace(temporary, &path)?;
    let index = prepared.gzip.index.digest;
    Ok(Written { index, registry_index: index, manifest: prepared.manifest, bytes })
}

fn emit(package: &Package, prepared: &Prepared, folder: &Path, shown: &Path) -> Result<u64> {
    let failed = |error| ContainerError::io("create", shown, error);
    let create = |name: &str| File::create(folder.join(name)).map(|file| FileSink::new(file, shown)).map_err(failed);
    let put = |name: &str, bytes: &[u8]| {
        let mut sink = create(name)?;
        sink.put(bytes)?;
        sink.finish()
    };
    fs::create_dir_all(folder.join("blobs/sha256")).map_err(failed)?;
    let mut bytes = 0;
    for layer in prepared.distinct_layers() {
        bytes += layer.gzip_size;
        layer.layer.emit_gzip(create(&format!("blobs/sha256/{}", layer.gzip_digest.hex()))?)?.finish()?;
    }
    for document in prepared.configs.iter().chain(&prepared.gzip.manifests).chain([&prepared.gzip.index]) {
        bytes += document.bytes.len() as u64;
        put(&format!("blobs/sha256/{}", document.digest.hex()), &document.bytes)?;
    }
    put("index.json", &index_json(package, prepared))?;
    put("oci-layout", oci::LAYOUT_FILE)?;
    Ok(bytes)
}

/// The index under its tag, and every image under a tag of its own for tools that cannot choose in an index.
fn index_json(package: &Package, prepared: &Prepared) -> Vec<u8> {
    let named = |descriptor: Descriptor, reference: &str| {
        let mut annotations: Annotations = descriptor.annotations.clone();
        annotations.insert(oci::REF_NAME.to_owned(), reference.to_owned());
        Descriptor { annotations, ..descriptor }
    };
    let whole = named(prepared.gzip.index.descriptor(oci::INDEX), &package.options.tag);
    let pairs = prepared.images.iter().zip(&prepared.gzip.manifests);
    let single = pairs.map(|(image, manifest)| named(image.descriptor(manifest), &image.reference));
    json::canonical(&Index {
        schema_version: 2,
        media_type: Some(oci::INDEX.to_owned()),
        manifests: [whole].into_iter().chain(single).collect(),
        annotations: Annotations::new(),
    })
}

fn check_replaceable(path: &Path) -> Result<()> {
    let refuse = |what: &str| Err(ContainerError::package(format!("{} is {what} and is not replaced", path.display())));
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(ContainerError::io("read", path, error)),
        Ok(facts) if !facts.is_dir() => refuse("a file"),
        Ok(_) => {
            let mut entries = fs::read_dir(path).map_err(|error| ContainerError::io("read", path, error))?;
            match entries.next().is_none() || path.join("oci-layout").is_file() {
                true => Ok(()),
                false => refuse("a folder with other things in it"),
            }
        }
    }
}

/// Puts the finished folder in its place; what was there before is deleted afterwards.
fn replace(temporary: tempfile::TempDir, path: &Path) -> Result<()> {
    let failed = |error| ContainerError::io("replace", path, error);
    match fs::symlink_metadata(path) {
        Err(_) => {
            fs::rename(temporary.path(), path).map_err(failed)?;
            // The folder has moved; there is nothing left to delete.
            let _: PathBuf = temporary.keep();
            Ok(())
        }
        Ok(_) => match renameat_with(CWD, temporary.path(), CWD, path, RenameFlags::EXCHANGE) {
            Ok(()) => temporary.close().map_err(failed),
            Err(_) => replace_in_two_steps(temporary, path),
        },
    }
}

/// Where the file system cannot exchange two folders.
fn replace_in_two_steps(temporary: tempfile::TempDir, path: &Path) -> Result<()> {
    let failed = |error| ContainerError::io("replace", path, error);
    let old = temporary.path().with_extension("old");
    fs::rename(path, &old).map_err(failed)?;
    if let Err(error) = fs::rename(temporary.path(), path) {
        // Restore what was there; the first error is the one to tell.
        let _ = fs::rename(&old, path);
        return Err(failed(error));
    }
    let _: PathBuf = temporary.keep();
    fs::remove_dir_all(&old).map_err(failed)
}
