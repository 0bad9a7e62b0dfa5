//! Files of the user, written whole or not at all.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes a file under another name in the same folder, then gives it its own; what was there is replaced.
/// A device or a pipe is written to.
pub fn write_whole(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let path = &std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    if std::fs::metadata(path).is_ok_and(|data| !data.is_file()) {
        return std::fs::write(path, content);
    }
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = temporary(parent)?;
    file.write_all(content)?;
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
}

/// A temporary file of this process in a folder, which goes when it is dropped, or when a signal ends the process.
pub fn temporary(folder: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    let prefix = format!(".oaaxc-{}-", std::process::id());
    let permissions = std::fs::Permissions::from_mode(0o666);
    tempfile::Builder::new().prefix(&prefix).permissions(permissions).tempfile_in(folder)
}
