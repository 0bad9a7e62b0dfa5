//! The runtime layer: the files that make an image runnable, where they were built.
//!
//! Promises: nothing is taken from anywhere but the folder named by `OAAXC_RUNTIME` or `oaaxc-runtime`
//! beside this executable; there, `ARCHITECTURE/usr/…` (as OCI names architectures) holds the layer's files.

use std::path::{Path, PathBuf};

use oaaxc_base::{Code, Diagnostic, Diagnostics};
use oaaxc_container::{Data, Package, RuntimeFile};

/// Where the runtime's files are looked for.
pub fn folder() -> Option<PathBuf> {
    let named = std::env::var_os("OAAXC_RUNTIME").filter(|v| !v.is_empty()).map(PathBuf::from);
    named.or_else(|| Some(std::env::current_exe().ok()?.parent()?.join("oaaxc-runtime")))
}

/// Adds the runtime's files to every platform that has some.
pub fn add(package: &mut Package) -> Result<(), Diagnostics> {
    let Some(folder) = folder() else { return Ok(()) };
    for platform in &mut package.platforms {
        let root = folder.join(&platform.architecture);
        let mut files = Vec::new();
        if root.is_dir() {
            walk(&root, Path::new(""), &mut files).map_err(|e| {
                let message = format!("cannot read the runtime's files in {}: {e}", root.display());
                Diagnostics { items: vec![Diagnostic::error(Code::IO, message)] }
            })?;
        }
        platform.runtime = files;
    }
    Ok(())
}

/// Regular files below `root`, by their paths.
fn walk(root: &Path, below: &Path, files: &mut Vec<RuntimeFile>) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let mut entries = std::fs::read_dir(root.join(below))?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = below.join(entry.file_name());
        let data = entry.metadata()?;
        if data.is_dir() {
            walk(root, &path, files)?;
        } else if data.is_file() {
            let executable = data.permissions().mode() & 0o111 != 0;
            files.push(RuntimeFile { path: path.display().to_string(), data: Data::File(entry.path()), executable });
        }
    }
    Ok(())
}
