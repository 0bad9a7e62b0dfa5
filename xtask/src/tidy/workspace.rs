//! The workspace as `cargo metadata` tells it: which package stands in which room, and what it uses.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// All packages of the resolved graph, workspace members and libraries.
#[derive(Debug, Default)]
pub struct Workspace {
    /// By package id.
    pub packages: BTreeMap<String, Package>,
}

/// One package.
#[derive(Debug)]
pub struct Package {
    /// Its name in the manifest.
    pub name: String,
    /// For a member: its folder below the root (`compiler/ir`).
    pub room: Option<String>,
    /// Ids of what it is built from and with; what only its tests use is left out.
    pub uses: BTreeSet<String>,
    /// The part of `uses` that ends in the program: no build scripts, no macros' helpers.
    pub links: BTreeSet<String>,
}

impl Workspace {
    /// The members, as (room, package), in order of their rooms.
    pub fn members(&self) -> Vec<(&str, &Package)> {
        let mut members: Vec<_> =
            self.packages.values().filter_map(|package| Some((package.room.as_deref()?, package))).collect();
        members.sort_by_key(|(room, _)| *room);
        members
    }

    /// Everything that ends in a program or library made of `package`, itself left out.
    pub fn linked(&self, package: &Package) -> Vec<&Package> {
        let mut seen = BTreeSet::new();
        let mut open: Vec<&String> = package.links.iter().collect();
        while let Some(id) = open.pop() {
            if seen.insert(id) {
                open.extend(&self.packages[id].links);
            }
        }
        seen.into_iter().map(|id| &self.packages[id]).collect()
    }
}

/// Asks cargo, for this platform alone: others' packages need not be here. Errors: cargo's own words.
pub fn load(root: &Path) -> Result<Workspace, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--filter-platform", &platform])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let metadata = serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata is no JSON: {error}"))?;
    Ok(read(&metadata))
}

fn read(metadata: &Value) -> Workspace {
    let root = text(&metadata["workspace_root"]);
    let members: BTreeSet<String> = list(&metadata["workspace_members"]).map(text).collect();
    let mut workspace = Workspace::default();
    for package in list(&metadata["packages"]) {
        let id = text(&package["id"]);
        let manifest = text(&package["manifest_path"]);
        let room = manifest
            .strip_prefix(&format!("{root}/"))
            .and_then(|inside| inside.strip_suffix("/Cargo.toml"))
            .filter(|_| members.contains(&id));
        let found = Package {
            name: text(&package["name"]),
            room: room.map(str::to_owned),
            uses: BTreeSet::new(),
            links: BTreeSet::new(),
        };
        workspace.packages.insert(id, found);
    }
    for node in list(&metadata["resolve"]["nodes"]) {
        let Some(package) = workspace.packages.get_mut(&text(&node["id"])) else {
            continue;
        };
        for dependency in list(&node["deps"]) {
            let id = text(&dependency["pkg"]);
            let mut kinds = list(&dependency["dep_kinds"]).map(|kind| kind["kind"].as_str());
            if kinds.clone().any(|kind| kind.is_none()) {
                package.links.insert(id.clone());
            }
            if kinds.any(|kind| kind != Some("dev")) {
                package.uses.insert(id);
            }
        }
    }
    workspace
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> std::slice::Iter<'_, Value> {
    value.as_array().map(Vec::as_slice).unwrap_or_default().iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_of_tests_are_left_out_and_build_edges_are_not_linked() {
        let metadata = serde_json::json!({
            "workspace_root": "/w",
            "workspace_members": ["a"],
            "packages": [
                {"id": "a", "name": "a", "manifest_path": "/w/rooms/a/Cargo.toml"},
                {"id": "b", "name": "b", "manifest_path": "/elsewhere/b/Cargo.toml"},
                {"id": "c", "name": "c", "manifest_path": "/elsewhere/c/Cargo.toml"},
                {"id": "d", "name": "d", "manifest_path": "/elsewhere/d/Cargo.toml"}
            ],
            "resolve": {"nodes": [{"id": "a", "deps": [
                {"pkg": "b", "dep_kinds": [{"kind": "dev"}]},
                {"pkg": "c", "dep_kinds": [{"kind": "build"}]},
                {"pkg": "d", "dep_kinds": [{"kind": null}, {"kind": "dev"}]}
            ]}]}
        });
        let workspace = read(&metadata);
        let (room, package) = workspace.members()[0];
        assert_eq!(room, "rooms/a");
        assert_eq!(package.uses, ["c".to_owned(), "d".to_owned()].into());
        assert_eq!(package.links, ["d".to_owned()].into());
        assert_eq!(workspace.linked(package).len(), 1);
    }
}
