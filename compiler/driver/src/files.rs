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
    file.write_all(content).map_err(plain)?;
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
}

/// A temporary file of this process in a folder, which goes when it is dropped, or when a signal ends the process.
pub fn temporary(folder: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    let prefix = format!(".oaaxc-{}-", std::process::id());
    let permissions = std::fs::Permissions::from_mode(0o666);
    tempfile::Builder::new().prefix(&prefix).permissions(permissions).tempfile_in(folder).map_err(plain)
}

/// The error without the name of the temporary file, which means nothing to anybody.
fn plain(error: std::io::Error) -> std::io::Error {
    let text = error.to_string();
    match text.split_once(" at path \"") {
        Some((reason, _)) => std::io::Error::new(error.kind(), reason.to_string()),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_whole_or_as_it_was_and_no_temporary_name_is_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        write_whole(&path, b"one").expect("written");
        write_whole(&path, b"two").expect("replaced");
        assert_eq!(std::fs::read(&path).expect("there"), b"two");
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 1);
        let error = write_whole(&folder.path().join("no/such"), b"").expect_err("no folder");
        assert!(!error.to_string().contains(".oaaxc-"), "{error}");
    }
}
