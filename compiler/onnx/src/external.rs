//! External tensor data: mapped files, contained in the model's folder.
//!
//! A location is a relative path of plain names. No link, device or pipe is followed, no file with
//! a second name is read, and what is mapped is the very file that was looked at.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use oaaxc_base::{Code, Diagnostic};

use crate::mapped;
use crate::messages::StringStringEntryProto;
use crate::tensor::show;

type Result<T> = std::result::Result<T, Diagnostic>;

/// The folder that external data may lie in, and what was mapped of it.
pub(crate) struct ExternalData {
    folder: Option<PathBuf>,
    maps: RefCell<HashMap<String, Bytes>>,
}

impl ExternalData {
    /// Data in this folder.
    pub fn in_folder(folder: &Path) -> ExternalData {
        ExternalData { folder: Some(folder.to_path_buf()), maps: RefCell::default() }
    }
    /// No external data is allowed.
    pub fn none() -> ExternalData {
        ExternalData { folder: None, maps: RefCell::default() }
    }

    /// The bytes that the entries of a tensor name; exactly `wanted` of them.
    pub fn read(&self, entries: &[StringStringEntryProto], wanted: usize) -> Result<Bytes> {
        let (mut location, mut offset, mut length) = (None, 0u64, None);
        for entry in entries {
            let number = || {
                let text = std::str::from_utf8(&entry.value).ok().and_then(|t| t.trim().parse::<u64>().ok());
                text.ok_or_else(|| refuse(format!("{} is \"{}\", no size", show(&entry.key), show(&entry.value))))
            };
            match &entry.key[..] {
                b"location" => location = Some(entry.value.clone()),
                b"offset" => offset = number()?,
                b"length" => length = Some(number()?),
                // The digest is advice for tools; the artefact has digests of its own.
                b"checksum" | b"basepath" => {}
                other => return Err(refuse(format!("the key \"{}\" is not known", show(other)))),
            }
        }
        let location = location.ok_or_else(|| refuse("no location is given"))?;
        let location = std::str::from_utf8(&location).map_err(|_| refuse("the location is not UTF-8"))?;
        let file = self.open(location)?;
        let start = usize::try_from(offset).ok().filter(|start| *start <= file.len());
        let start = start.ok_or_else(|| refuse(format!("offset {offset} is past the {} bytes of \"{location}\"", file.len())))?;
        if length.is_some_and(|l| l != wanted as u64) {
            let length = length.unwrap_or(0);
            return Err(refuse(format!("\"{location}\": length is {length}, the tensor's type and dims want {wanted} bytes")));
        }
        let end = start.checked_add(wanted).filter(|end| *end <= file.len());
        let end = end
            .ok_or_else(|| refuse(format!("\"{location}\" has {} bytes, the tensor wants {wanted} from {offset}", file.len())))?;
        Ok(file.slice(start..end))
    }

    fn open(&self, location: &str) -> Result<Bytes> {
        if let Some(bytes) = self.maps.borrow().get(location) {
            return Ok(bytes.clone());
        }
        let folder = self.folder.as_ref().ok_or_else(|| {
            refuse(format!("\"{location}\": the model came as bytes, without a folder")).help("say where the data lies")
        })?;
        let plain = |part: &str| !part.is_empty() && part != "." && part != ".." && !part.contains(['\\', '\0', ':']);
        let location_parts: Vec<&str> = location.strip_prefix("./").unwrap_or(location).split('/').collect();
        if location.len() > 4096 || !location_parts.iter().all(|part| plain(part)) {
            return Err(refuse(format!("\"{}\" is not a plain path below the model's folder", show(location.as_bytes()))));
        }
        let io = |e: std::io::Error, path: &Path| refuse(format!("{}: {e}", path.display()));
        let folder =
            fs::canonicalize(if folder.as_os_str().is_empty() { Path::new(".") } else { folder }).map_err(|e| io(e, folder))?;
        let mut path = folder;
        for (i, part) in location_parts.iter().enumerate() {
            path.push(part);
            let found = fs::symlink_metadata(&path).map_err(|e| io(e, &path))?;
            let last = i + 1 == location_parts.len();
            if found.file_type().is_symlink() {
                return Err(refuse(format!("\"{location}\" goes through a symbolic link"))
                    .help("copy the model with its data into one folder (`cp -rL`)"));
            }
            if !last && !found.is_dir() || last && !found.is_file() {
                return Err(refuse(format!("\"{location}\" is not a regular file")));
            }
            if last && found.nlink() != 1 {
                return Err(refuse(format!("\"{location}\" is a hard link to a file that has other names"))
                    .help("copy the file, so that it has one name"));
            }
        }
        let looked_at = fs::symlink_metadata(&path).map_err(|e| io(e, &path))?;
        let file = File::open(&path).map_err(|e| io(e, &path))?;
        let opened = file.metadata().map_err(|e| io(e, &path))?;
        if (opened.dev(), opened.ino()) != (looked_at.dev(), looked_at.ino()) || !opened.is_file() {
            return Err(refuse(format!("\"{location}\" changed while it was opened")));
        }
        let bytes = mapped::map(&file).map_err(|e| io(e, &path))?;
        self.maps.borrow_mut().insert(location.to_string(), bytes.clone());
        Ok(bytes)
    }
}

fn refuse(message: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::error(Code::EXTERNAL_DATA, format!("external data: {message}"))
}
