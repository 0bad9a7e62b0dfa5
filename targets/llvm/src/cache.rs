//! The cache on disk: code by the hash of everything that decides it.
//!
//! Entries carry a checksum and are written whole under another name, then renamed: several processes may
//! share a cache, and a damaged entry is as good as none. Nothing here fails a build: a full disk or a
//! folder without rights means recompiling.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, SystemTime},
};

use sha2::{Digest, Sha256};

/// Bytes kept unless told otherwise.
const DEFAULT_LIMIT: u64 = 2 << 30;

const MAGIC: &[u8] = b"oaaxc cache 1\n";

/// A cache of code, or none.
#[derive(Debug)]
pub struct Cache {
    folder: Option<PathBuf>,
    limit: u64,
    written: AtomicBool,
}

/// The name of an entry: SHA-256 over whatever decides its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key([u8; 32]);

impl Key {
    /// Hashes fields with their lengths, so that no two lists are alike.
    pub fn of<'a>(fields: impl IntoIterator<Item = &'a [u8]>) -> Key {
        let mut hash = Sha256::new();
        for field in fields {
            hash.update((field.len() as u64).to_le_bytes());
            hash.update(field);
        }
        Key(hash.finalize().into())
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Cache {
    /// A cache in `folder`, made when first written to.
    pub fn at(folder: impl Into<PathBuf>) -> Cache {
        Cache { folder: Some(folder.into()), limit: DEFAULT_LIMIT, written: AtomicBool::new(false) }
    }

    /// Keeps nothing.
    pub fn none() -> Cache {
        Cache { folder: None, limit: 0, written: AtomicBool::new(false) }
    }

    /// The user's cache: `$OAAXC_CACHE`, or `$XDG_CACHE_HOME/oaaxc`, or `~/.cache/oaaxc`, or none.
    pub fn of_user() -> Cache {
        Cache::user_folder().map_or_else(Cache::none, Cache::at)
    }

    /// Where the user's cache lies.
    pub fn user_folder() -> Option<PathBuf> {
        let variable = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        variable("OAAXC_CACHE")
            .or_else(|| variable("XDG_CACHE_HOME").map(|home| home.join("oaaxc")))
            .or_else(|| variable("HOME").map(|home| home.join(".cache/oaaxc")))
    }

    /// The same cache, kept below `bytes` (2 GiB unless set).
    pub fn with_limit(self, bytes: u64) -> Cache {
        Cache { limit: bytes, ..self }
    }

    fn path(&self, key: &Key) -> Option<PathBuf> {
        let name: String = key.0.iter().map(|b| format!("{b:02x}")).collect();
        Some(self.folder.as_ref()?.join(&name[..2]).join(&name[2..]))
    }

    /// The entry, if it is there and whole.
    pub(crate) fn get(&self, key: &Key) -> Option<Vec<u8>> {
        let path = self.path(key)?;
        let mut entry = fs::read(&path).ok()?;
        let Some(start) = content_start(&entry) else {
            let _ = fs::remove_file(&path); // Whoever comes next need not read it again.
            return None;
        };
        refresh(&path);
        entry.drain(..start);
        Some(entry)
    }

    /// Stores an entry, if it can.
    pub(crate) fn put(&self, key: &Key, content: &[u8]) {
        let Some(path) = self.path(key) else { return };
        // Nobody waits for the outcome: without an entry the next build compiles again.
        if write_whole(&path, content).is_some() {
            self.written.store(true, Ordering::Relaxed);
        }
    }

    /// Removes the entries used longest ago once the cache is over its limit; cheap when nothing was written.
    pub(crate) fn trim(&self) {
        let Some(folder) = &self.folder else { return };
        if !self.written.swap(false, Ordering::Relaxed) {
            return;
        }
        let mut entries = Vec::new();
        for shelf in fs::read_dir(folder).into_iter().flatten().flatten() {
            for entry in fs::read_dir(shelf.path()).into_iter().flatten().flatten() {
                let Ok(data) = entry.metadata() else { continue };
                let used = data.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                let path = entry.path();
                if is_leftover(&path) && age(used) > Duration::from_secs(3600) {
                    let _ = fs::remove_file(&path);
                    continue;
                }
                entries.push((used, data.len(), path));
            }
        }
        let mut total: u64 = entries.iter().map(|e| e.1).sum();
        if total <= self.limit {
            return;
        }
        entries.sort();
        for (_, size, path) in entries {
            // A little room, so that the next build need not trim again.
            if total <= self.limit / 8 * 7 {
                return;
            }
            if fs::remove_file(&path).is_ok() {
                total -= size;
            }
        }
    }
}

fn content_start(entry: &[u8]) -> Option<usize> {
    let rest = entry.strip_prefix(MAGIC)?;
    let (sum, content) = rest.split_at_checked(32)?;
    (Sha256::digest(content).as_slice() == sum).then_some(MAGIC.len() + 32)
}

fn write_whole(path: &Path, content: &[u8]) -> Option<()> {
    let shelf = path.parent()?;
    fs::create_dir_all(shelf).ok()?;
    let mut file = tempfile::Builder::new().prefix(&format!(".new-{}-", std::process::id())).tempfile_in(shelf).ok()?;
    file.write_all(MAGIC).ok()?;
    file.write_all(&Sha256::digest(content)).ok()?;
    file.write_all(content).ok()?;
    file.persist(path).ok()?;
    Some(())
}

fn is_leftover(path: &Path) -> bool {
    path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(".new-"))
}

fn age(time: SystemTime) -> Duration {
    SystemTime::now().duration_since(time).unwrap_or_default()
}

/// Marks an entry as used, at most once an hour.
fn refresh(path: &Path) {
    let used = fs::metadata(path).and_then(|data| data.modified());
    if used.is_ok_and(|used| age(used) > Duration::from_secs(3600))
        && let Ok(file) = fs::File::options().append(true).open(path)
    {
        let _ = file.set_modified(SystemTime::now()); // A read-only cache keeps its times.
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u8) -> Key {
        Key::of([&[n][..]])
    }

    #[test]
    fn what_was_put_is_got_until_it_is_damaged() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().join("deep/er"));
        assert_eq!(cache.get(&key(1)), None);
        cache.put(&key(1), b"code");
        assert_eq!(cache.get(&key(1)).as_deref(), Some(&b"code"[..]));
        let path = cache.path(&key(1)).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&path, bytes).unwrap();
        assert_eq!(cache.get(&key(1)), None);
        assert!(!path.exists());
    }

    #[test]
    fn the_oldest_go_first() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path()).with_limit(4000);
        for n in 0..4 {
            cache.put(&key(n), &[n; 1000]);
            let age = Duration::from_secs(1000 - n as u64);
            let file = fs::File::options().append(true).open(cache.path(&key(n)).unwrap()).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        }
        cache.trim();
        let kept: Vec<u8> = (0..4).filter(|&n| cache.get(&key(n)).is_some()).collect();
        assert_eq!(kept, [1, 2, 3]);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_no_cache() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let cache = Cache::at(file.path().join("below/a/file"));
        cache.put(&key(1), b"code");
        assert_eq!(cache.get(&key(1)), None);
        cache.trim();
        Cache::none().put(&key(1), b"code");
    }

    #[test]
    fn field_borders_count() {
        assert_ne!(Key::of([&b"ab"[..], b"c"]), Key::of([&b"a"[..], b"bc"]));
    }
}
