//! Whether a package agrees with itself, before anything is written.
//!
//! Promises: what passes here gives paths that every reader accepts and a manifest whose names all resolve.

use std::collections::BTreeSet;

use crate::{
    error::{ContainerError, Result},
    package::{Package, Role},
    paths,
};

/// Checks names and references; gives the ids of the targets in the order of the manifest's variants.
pub(crate) fn package(package: &Package) -> Result<Vec<String>> {
    let wrong = |reason: String| Err(ContainerError::package(reason));
    let mut seen = BTreeSet::new();
    for file in &package.files {
        let full = format!("models/{}", file.path);
        if let Err(reason) = paths::check(&full) {
            return wrong(format!("the path {full:?} {reason}"));
        }
        if file.path == "oaax.json" {
            return wrong("oaax.json is written from the manifest, not given as a file".to_owned());
        }
        if !seen.insert(file.path.as_str()) {
            return wrong(format!("the path {:?} is given twice", file.path));
        }
    }
    for path in &seen {
        if let Some(above) = paths::folders_above(path).find(|above| seen.contains(above)) {
            return wrong(format!("{above:?} is a file and {path:?} lies in it"));
        }
    }
    let ids: Vec<String> = package.manifest.variants.iter().map(|variant| variant.id.clone()).collect();
    for variant in &package.manifest.variants {
        if variant.id.is_empty() || variant.id.contains(',') || ids.iter().filter(|id| **id == variant.id).count() > 1 {
            return wrong(format!("the variant id {:?} is empty, has a comma or stands twice", variant.id));
        }
        let named = [&variant.program].into_iter().chain(&variant.objects).chain(&variant.weights);
        if let Some(path) = named.into_iter().find(|path| !seen.contains(path.as_str())) {
            return wrong(format!("variant {:?} names {path:?}, which is not among the files", variant.id));
        }
    }
    for file in &package.files {
        if let Role::Target(id) = &file.role
            && !ids.contains(id)
        {
            return wrong(format!("{:?} belongs to target {id:?}, which is not among the variants", file.path));
        }
    }
    check_platforms(package, &ids)?;
    Ok(ids)
}

fn check_platforms(package: &Package, ids: &[String]) -> Result<()> {
    let wrong = |reason: String| Err(ContainerError::package(reason));
    if package.platforms.is_empty() {
        return wrong("no platform is given, so there is no image to write".to_owned());
    }
    let tag = &package.options.tag;
    if paths::check(tag).is_err() || tag.contains('/') {
        return wrong(format!("the tag {tag:?} is not one component of A-Z a-z 0-9 . _ + -"));
    }
    let mut seen = BTreeSet::new();
    for platform in &package.platforms {
        let name = format!("{}/{}", platform.os, platform.architecture);
        if paths::check(&name).is_err() || name.matches('/').count() != 1 || !seen.insert(name.clone()) {
            return wrong(format!("the platform {name:?} is odd or stands twice"));
        }
        if let Some(id) = platform.targets.iter().find(|id| !ids.contains(id)) {
            return wrong(format!("the platform {name} names target {id:?}, which is not among the variants"));
        }
        for file in &platform.runtime {
            if paths::check(&file.path).is_err() || !file.path.starts_with("usr/") {
                return wrong(format!("the runtime file {:?} is not an acceptable path under usr/", file.path));
            }
        }
    }
    Ok(())
}
