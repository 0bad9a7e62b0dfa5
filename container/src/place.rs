//! Where an output goes, and what it is called until it is whole.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::error::{ContainerError, Result};

/// Temporary files carry the number of the process that makes them, so that whoever interrupts it can
/// remove them.
pub(crate) fn temporary_prefix() -> String {
    format!(".oaaxc-{}-", std::process::id())
}

/// The file that `path` means: a symbolic link means what it points to, whether that is there or not.
/// A device, pipe or socket is refused, for the finished file would take its place.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf> {
    let mut place = path.to_path_buf();
    // As many as Linux follows.
    for _ in 0..40 {
        let Ok(target) = fs::read_link(&place) else {
            return match fs::metadata(&place) {
                Ok(data) if !data.is_file() && !data.is_dir() => Err(ContainerError::package(format!(
                    "{} is neither a file nor a folder; it would be replaced",
                    path.display()
                ))),
                _ => Ok(place),
            };
        };
        place = place.parent().unwrap_or(Path::new("")).join(target);
    }
    Err(ContainerError::package(format!("{} is a link that leads in a circle", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_link_means_its_target_and_a_device_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        symlink("b", at("a")).unwrap();
        symlink("c", at("b")).unwrap();
        assert_eq!(resolve(&at("a")).unwrap(), at("c"));
        symlink("d", at("e")).unwrap();
        symlink("e", at("d")).unwrap();
        assert!(resolve(&at("d")).is_err());
        assert!(resolve(Path::new("/dev/null")).is_err());
    }
}
