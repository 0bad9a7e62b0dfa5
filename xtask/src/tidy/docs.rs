//! Links between documents lead somewhere, and every document is led to.

use std::collections::BTreeSet;

use super::files::File;

/// Documents that readers find by their name alone.
const FRONT_DOORS: &[&str] = &["README.md", "ARCHITECTURE.md", "STYLE.md", "CONTRIBUTING.md", "CHANGELOG.md"];

/// The list of contents of the book that `mdbook` makes of docs/.
const CONTENTS: &str = "docs/SUMMARY.md";

/// Relative links to files that are not there, documents that no other one links to, and pages that the book leaves out.
pub fn check(files: &[File]) -> Vec<String> {
    let paths: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
    let mut linked = BTreeSet::new();
    let mut faults = Vec::new();
    if let Some(contents) = files.iter().find(|file| file.path == CONTENTS) {
        let listed: BTreeSet<String> = links(&contents.text).into_iter().map(|target| resolve(CONTENTS, target)).collect();
        let pages = paths.iter().filter(|path| path.starts_with("docs/") && path.ends_with(".md") && **path != CONTENTS);
        faults.extend(pages.filter(|page| !listed.contains(**page)).map(|page| format!("{page}: {CONTENTS} does not list it")));
    }
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        for target in links(&file.text) {
            let path = resolve(&file.path, target);
            let folder = format!("{path}/");
            if !paths.contains(path.as_str()) && !paths.iter().any(|other| other.starts_with(&folder)) {
                faults.push(format!("{}: the link to {target} leads nowhere", file.path));
            }
            if path != file.path {
                linked.insert(path);
            }
        }
    }
    for path in paths.iter().filter(|path| path.ends_with(".md")) {
        let folder = path.strip_suffix("/README.md").unwrap_or(path);
        if *path != CONTENTS && !FRONT_DOORS.contains(path) && !linked.contains(*path) && !linked.contains(folder) {
            faults.push(format!("{path}: no document links to it"));
        }
    }
    faults
}

/// The targets of `[text](target)` outside code blocks that are relative paths, without their anchors.
fn links(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut in_block = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        }
        if in_block {
            continue;
        }
        for (at, _) in line.match_indices("](") {
            let rest = &line[at + 2..];
            let target = rest.split([')', ' ', '#']).next().unwrap_or_default();
            if !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:") {
                found.push(target);
            }
        }
    }
    found
}

/// The path that `target` means in the document `from`.
fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_resolve_from_their_own_folder() {
        let files = [
            File::new("README.md", "[a](docs/a.md) [s](scripts)"),
            File::new("docs/a.md", "[up](../README.md#top) [out](https://example.org/x)"),
            File::new("scripts/test", ""),
        ];
        assert!(check(&files).is_empty());
    }

    #[test]
    fn dead_links_and_lost_documents_are_faults() {
        let files = [File::new("README.md", "[a](docs/b.md)"), File::new("docs/a.md", "")];
        let faults = check(&files);
        assert_eq!(faults.len(), 2, "{faults:?}");
    }
}
