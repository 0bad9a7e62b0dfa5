//! Archives as input: `.zip` and `.tar.gz`, told apart by their first bytes.
//!
//! Promises: members lie below a temporary folder of our own, or the archive is refused: absolute paths,
//! `..`, links, devices, doubled names, encryption and what unpacks to unreasonable sizes; exactly one
//! member is an ONNX model.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use oaaxc_base::Code;

use super::{Failure, INVALID, Unpacked, zip};

/// Most members.
const MOST_MEMBERS: usize = 100_000;
/// Most bytes after unpacking, whatever the archive's size.
const MOST_BYTES: u64 = 16 << 30;
/// An archive of `n` bytes unpacks to at most `FREE + n × RATIO`: real models stay far below, bombs far above.
const RATIO: u64 = 400;
const FREE: u64 = 64 << 20;

pub fn refused(message: impl Into<String>) -> Failure {
    Failure::new(INVALID, Code::ARCHIVE, message)
}

/// Unpacks an archive; gives `None` for a file that is none.
pub fn unpack(path: &Path) -> Result<Option<Unpacked>, Failure> {
    let mut file = File::open(path).map_err(|error| refused(error.to_string()))?;
    let mut start = [0; 4];
    let read = file.read(&mut start).map_err(|error| refused(error.to_string()))?;
    let size = file.metadata().map_err(|error| refused(error.to_string()))?.len();
    let folder = || tempfile::Builder::new().prefix("oaaxc-input-").tempdir();
    let mut target = match &start[..read] {
        [b'P', b'K', 3, 4] | [b'P', b'K', 5, 6] | [0x1f, 0x8b, ..] => {
            let folder = folder().map_err(|error| {
                Failure::new(super::UNWRITABLE, Code::IO, format!("no temporary folder can be made: {error}"))
            })?;
            Target { folder, room: MOST_BYTES.min(FREE + size.saturating_mul(RATIO)), files: BTreeSet::new(), members: 0 }
        }
        _ => return Ok(None),
    };
    match start[0] {
        b'P' => zip::unpack(&mut file, size, &mut target)?,
        _ => untar(path, &mut target)?,
    }
    target.finish().map(Some)
}

fn untar(path: &Path, target: &mut Target) -> Result<(), Failure> {
    let damaged = |error: std::io::Error| refused(format!("the archive is damaged: {error}"));
    let file = File::open(path).map_err(damaged)?;
    // One byte more than there is room for shows a bomb; the archive is never read further.
    let stream = flate2::read::MultiGzDecoder::new(file).take(target.room.saturating_add(MOST_MEMBERS as u64 * 1024));
    let mut archive = tar::Archive::new(stream);
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        let kind = entry.header().entry_type();
        let name = String::from_utf8(entry.path_bytes().into_owned()).map_err(|_| refused("a member's name is not UTF-8"))?;
        if kind.is_dir() || kind.is_pax_global_extensions() {
            target.place(&name)?;
            continue;
        }
        if !kind.is_file() && !kind.is_contiguous() {
            return Err(refused(format!("{name:?} is a link or a special file")));
        }
        let size = entry.size();
        target.add(&name, size, &mut entry)?;
    }
    Ok(())
}

/// Where members go, and how much may still come.
pub struct Target {
    folder: tempfile::TempDir,
    room: u64,
    files: BTreeSet<PathBuf>,
    members: usize,
}

impl Target {
    /// The member's path below the folder. Errors: it would lie elsewhere, or there are too many.
    pub fn place(&mut self, name: &str) -> Result<PathBuf, Failure> {
        self.members += 1;
        if self.members > MOST_MEMBERS {
            return Err(refused(format!("the archive has more than {MOST_MEMBERS} members")));
        }
        let is_foreign = name.is_empty() || name.contains(['\\', '\0']) || name.get(1..2) == Some(":");
        let mut path = PathBuf::new();
        for part in Path::new(name).components() {
            match part {
                Component::Normal(part) => path.push(part),
                Component::CurDir => {}
                _ => return Err(refused(format!("{name:?} lies outside the archive"))),
            }
        }
        if is_foreign {
            return Err(refused(format!("{name:?} is no relative path")));
        }
        Ok(path)
    }

    /// Writes a member of so many bytes.
    pub fn add(&mut self, name: &str, size: u64, content: &mut dyn Read) -> Result<(), Failure> {
        let path = self.place(name)?;
        self.room = self
            .room
            .checked_sub(size)
            .ok_or_else(|| refused("the archive unpacks to far more bytes than it has: it looks like a bomb"))?;
        if !self.files.insert(path.clone()) {
            return Err(refused(format!("{name:?} is there twice")));
        }
        let full = self.folder.path().join(&path);
        let failed = |error: std::io::Error| refused(format!("{name:?} cannot be unpacked: {error}"));
        if let Some(parent) = full.parent() {
            std::fs::create_dir_all(parent).map_err(failed)?;
        }
        let mut file = File::options().write(true).create_new(true).open(&full).map_err(failed)?;
        let written = std::io::copy(&mut content.take(size.saturating_add(1)), &mut file).map_err(failed)?;
        if written != size {
            return Err(refused(format!("{name:?} has {written} bytes or more, and {size} are announced")));
        }
        Ok(())
    }

    /// The one model and the configuration beside it.
    fn finish(self) -> Result<Unpacked, Failure> {
        let name = |path: &&PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Archives from a Mac hold a `._` twin of every file.
        let real: Vec<&PathBuf> = self.files.iter().filter(|path| !name(path).starts_with("._")).collect();
        let is_model = |path: &&&PathBuf| path.extension().is_some_and(|end| end.eq_ignore_ascii_case("onnx"));
        let models: Vec<&&PathBuf> = real.iter().filter(is_model).collect();
        let [model] = models[..] else {
            let message = format!("the archive holds {} files that end in .onnx, exactly one is wanted", models.len());
            return Err(refused(message));
        };
        let (root, beside) = (PathBuf::from("config.json"), model.with_file_name("config.json"));
        let config = [root, beside].into_iter().find(|path| self.files.contains(path));
        let full = |path: &Path| self.folder.path().join(path);
        Ok(Unpacked { model: full(model), config: config.as_deref().map(full), members: self.files.len(), _folder: self.folder })
    }
}
