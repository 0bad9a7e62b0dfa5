//! Versions and reasons of dependencies stand once, in the workspace's manifest.

use super::files::File;

/// Dependencies of members that bring a version of their own, and those of the root without a reason.
pub fn check(files: &[File]) -> Vec<String> {
    let manifests = files.iter().filter(|file| file.path.ends_with("Cargo.toml"));
    manifests.flat_map(|file| if file.path == "Cargo.toml" { reasons(file) } else { own(file) }).collect()
}

fn own(file: &File) -> Vec<String> {
    lines_of_sections(&file.text, |section| section.ends_with("dependencies"))
        .filter(|line| !line.starts_with('#') && line.contains('=') && !line.contains("workspace = true"))
        .map(|line| format!("{}: `{line}`: give version and reason in the root, say `workspace = true` here", file.path))
        .collect()
}

/// A comment speaks for all lines up to the next empty one.
fn reasons(file: &File) -> Vec<String> {
    let mut faults = Vec::new();
    let mut has_reason = false;
    for line in lines_of_sections(&file.text, |section| section == "workspace.dependencies") {
        if line.is_empty() {
            has_reason = false;
        } else if line.starts_with('#') {
            has_reason = true;
        } else if !has_reason {
            faults.push(format!("{}: `{line}`: say in a comment above why it is here", file.path));
        }
    }
    faults
}

fn lines_of_sections(text: &str, wanted: impl Fn(&str) -> bool) -> impl Iterator<Item = &str> {
    let mut inside = false;
    text.lines().map(str::trim).filter(move |line| {
        if let Some(section) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            inside = wanted(section);
            return false;
        }
        inside
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_outside_the_root_is_a_fault() {
        let text = "[dependencies]\nserde = \"1\"\nlibc.workspace = true\n[package]\nname = \"x\"\n";
        assert_eq!(check(&[File::new("a/Cargo.toml", text)]).len(), 1);
    }

    #[test]
    fn a_dependency_without_a_reason_is_a_fault() {
        let text = "[workspace.dependencies]\n# Why.\na = \"1\"\nb = \"1\"\n\nc = \"1\"\n";
        let faults = check(&[File::new("Cargo.toml", text)]);
        assert_eq!(faults.len(), 1);
        assert!(faults[0].contains("`c = "), "{faults:?}");
    }
}
