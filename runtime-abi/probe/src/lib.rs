//! Checks any vendor's OAAX runtime library against the rules of OAAX 2.0 and 1.x, one by one.
//!
//! The parent ([`check`]) only reads the library's bytes and starts a process for each rule; the child
//! ([`worker`]) opens the library with `dlopen` and plays a host. Promises: a library that crashes,
//! hangs, exits or prints is a finding, never a fault of ours; a rule that cannot be checked is said to
//! be so, with the reason. Never: opens a library in the calling process.
//!
//! This is the only room of the compiler's program that opens foreign code, and it does so in children.

mod child;
mod door;
mod elf;
pub mod models;
mod parent;
mod process;
mod subject;
mod v1;
mod v2;

use std::path::Path;

pub use child::main as worker;
pub use parent::{Outcome, check};
use subject::{Check, Diary, ensure};
pub use subject::{Port, Subject, Use, Version};

/// A rule and its check.
pub struct Rule {
    /// As in the documents: `R2-4`, `R1-9`.
    pub id: &'static str,
    /// What must hold.
    pub title: &'static str,
    run: fn(&Subject, &Diary) -> Check,
}

fn all_rules() -> impl Iterator<Item = &'static Rule> {
    v2::RULES.iter().chain(v1::RULES).chain([&v2::LOADS, &v1::LOADS])
}

/// Not a rule: whether the library loads and runs the subject's model, so that the rules can use it.
pub fn loads(version: Version) -> &'static Rule {
    match version {
        Version::One => &v1::LOADS,
        Version::Two => &v2::LOADS,
    }
}

/// The first argument of a program that is to be a [`worker`].
pub const WORKER_ARGUMENT: &str = "--oaax-conformance-worker";

/// The rules of a version, in their order.
pub fn rules(version: Version) -> Vec<&'static Rule> {
    let rules = if version == Version::Two { v2::RULES } else { v1::RULES };
    rules.iter().collect()
}

/// Which interface a library has, by what it exports: nothing of it is run. Errors: a sentence.
pub fn detect(library: &Path) -> Result<Version, String> {
    let bytes = std::fs::read(library).map_err(|error| format!("{} cannot be read: {error}", library.display()))?;
    let names = elf::exports(&bytes).map_err(|why| format!("{}: {why}", library.display()))?;
    let has = |name: &&str| names.iter().any(|other| other == name);
    match (v2::NAMES.iter().filter(|name| has(name)).count(), v1::NAMES.iter().filter(|name| has(name)).count()) {
        (0, 0) => Err(format!("{} exports no function of OAAX 2.0 or 1.x", library.display())),
        (two, one) if two >= one => Ok(Version::Two),
        _ => Ok(Version::One),
    }
}

/// Whether exactly these names are exported, and perhaps a version node.
fn exports_are(subject: &Subject, wanted: &[&str], node: Option<&str>) -> Check {
    let bytes = std::fs::read(&subject.library).map_err(|error| error.to_string())?;
    let names = elf::exports(&bytes)?;
    let missing: Vec<&str> = wanted.iter().filter(|name| !names.iter().any(|other| other == *name)).copied().collect();
    ensure!(missing.is_empty(), "not exported: {}", missing.join(", "));
    let extra = names.iter().filter(|name| !wanted.contains(&name.as_str()) && Some(name.as_str()) != node);
    let extra: Vec<&str> = extra.map(String::as_str).collect();
    let shown = extra.iter().take(5).copied().collect::<Vec<_>>().join(", ");
    ensure!(extra.is_empty(), "{} more symbols are exported, {shown} among them", extra.len());
    Ok(())
}
