//! Where blobs come from: an archive or a layout directory.
//!
//! Promises: a blob's place is derived from its digest alone, never from an annotation; no link is followed below
//! the folder that the caller named.

use std::{
    collections::BTreeMap,
    fs::File,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use rustix::fs::{Mode, OFlags, openat};

use super::source::Section;
use crate::{
    digest::Digest,
    error::{ContainerError, Result},
    json,
    tar::read::TarReader,
};

/// The contents of an OCI layout.
pub(crate) struct Store {
    pub index: Vec<u8>,
    layout: Vec<u8>,
    blobs: Blobs,
}

enum Blobs {
    Archive(BTreeMap<Digest, Section>),
    Folder(PathBuf),
}

impl Store {
    pub fn of_archive(archive: &Section) -> Result<Store> {
        check_is_tar(archive)?;
        let mut blobs = BTreeMap::new();
        let mut named: BTreeMap<String, Section> = BTreeMap::new();
        let mut tar = TarReader::new(archive.reader(), "the archive");
        while let Some(entry) = tar.next()? {
            let wrong = |reason: &str| ContainerError::invalid(format!("the archive, {:?}", entry.path), reason);
            if entry.folder {
                continue;
            }
            let data = archive.part(entry.offset, entry.size).ok_or_else(|| wrong("reaches beyond the end"))?;
            match entry.path.as_str() {
                "oci-layout" | "index.json" | "manifest.json" => drop(named.insert(entry.path.clone(), data)),
                path => {
                    let hex = path.strip_prefix("blobs/sha256/").ok_or_else(|| wrong("is no part of an OCI layout"))?;
                    let digest = Digest::from_hex(hex).ok_or_else(|| wrong("is not named by a digest"))?;
                    blobs.insert(digest, data);
                }
            }
        }
        let document = |name: &str| match named.get(name) {
            Some(section) => section.read_all(json::MAX_DOCUMENT, name),
            None => Err(ContainerError::invalid("the archive", format!("has no {name}"))),
        };
        Store { index: document("index.json")?, layout: document("oci-layout")?, blobs: Blobs::Archive(blobs) }.checked()
    }

    pub fn of_folder(folder: &Path) -> Result<Store> {
        let document = |name: &str| open_below(folder, name)?.read_all(json::MAX_DOCUMENT, name);
        let blobs = Blobs::Folder(folder.to_owned());
        Store { index: document("index.json")?, layout: document("oci-layout")?, blobs }.checked()
    }

    /// "The imageLayoutVersion … is 1.0.0" (OCI image-spec, image-layout.md).
    fn checked(self) -> Result<Store> {
        let version: crate::oci::LayoutVersion = json::read(&self.layout, json::MAX_DOCUMENT, "oci-layout")?;
        match version.image_layout_version.as_str() {
            "1.0.0" => Ok(self),
            other => Err(ContainerError::invalid("oci-layout", format!("version {other:?}; this reader knows 1.0.0"))),
        }
    }

    pub fn blob(&self, digest: &Digest) -> Result<Section> {
        match &self.blobs {
            Blobs::Archive(blobs) => {
                blobs.get(digest).cloned().ok_or_else(|| ContainerError::invalid(digest.to_string(), "the blob is missing"))
            }
            Blobs::Folder(folder) => open_below(folder, &format!("blobs/sha256/{}", digest.hex())),
        }
    }
}

/// A first word to who names a model or a picture instead of an archive.
fn check_is_tar(archive: &Section) -> Result<()> {
    let magic = archive.part(257, 5).map(|part| part.read_all(5, "the archive")).transpose()?;
    match magic.as_deref() == Some(b"ustar") {
        true => Ok(()),
        false => Err(ContainerError::invalid("the archive", "is not a tar, so it is no model.oaax")),
    }
}

/// Opens the file `path`, made of checked components, below `folder` without following any link.
pub(crate) fn open_below(folder: &Path, path: &str) -> Result<Section> {
    let shown = folder.join(path);
    let failed = |error: rustix::io::Errno| match error {
        rustix::io::Errno::LOOP | rustix::io::Errno::NOTDIR => {
            ContainerError::invalid(shown.display().to_string(), "is a link or lies behind one; links are refused")
        }
        error => ContainerError::io("open", &shown, error.into()),
    };
    let folder_flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut current: OwnedFd = rustix::fs::open(folder, folder_flags | OFlags::RDONLY, Mode::empty()).map_err(failed)?;
    let mut components = path.split('/').peekable();
    while let Some(component) = components.next() {
        // A pipe would block the opening without NONBLOCK; it is refused afterwards as not regular.
        let flags = match components.peek() {
            Some(_) => folder_flags | OFlags::NOFOLLOW,
            None => OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC,
        };
        current = openat(&current, component, flags, Mode::empty()).map_err(failed)?;
    }
    Section::of_file(File::from(current), &shown)
}
