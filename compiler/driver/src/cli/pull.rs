//! `oaaxc pull`: a package from a registry, as a file that can be mapped or as a layout.
//!
//! Promises: with a policy nothing is fetched but manifests before the policy agrees; the output appears whole.

use std::path::PathBuf;

use oaaxc_base::{Code, Diagnostic};
use oaaxc_registry::Reference;

use super::Outcome;
use super::arguments::one;
use super::console::Console;
use super::registry::{RegistryArguments, Teller, failed, report};
use super::trust;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  oaaxc pull registry.example.org/team/model:v1 -o model.oaax
  oaaxc pull registry.example.org/team/model:v1 -o layout/ --policy policy.json")]
pub struct Arguments {
    /// REGISTRY/REPOSITORY[:TAG][@sha256:DIGEST]
    reference: String,
    /// model.oaax, or with a slash at the end a layout folder
    #[arg(short, long, value_name = "PATH")]
    output: PathBuf,
    /// Refuse what this policy does not trust
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    #[command(flatten)]
    registry: RegistryArguments,
}

/// Pulls.
pub fn main(arguments: &Arguments, console: &Console) -> Outcome {
    let mut reference = Reference::parse(&arguments.reference).map_err(failed)?;
    let client = arguments.registry.client(&reference)?;
    if let Some(policy) = &arguments.policy {
        let approved = trust::approve_shelf(&client, policy)?;
        console.note(&format!("trusted: {}", approved.words()));
        // What was approved is what is fetched, whatever the tag says by now.
        reference.digest = Some(approved.root);
    }
    let client = arguments.registry.client(&reference)?;
    let teller = Teller::new(console);
    let bytes = arguments.output.as_os_str().as_encoded_bytes();
    let as_layout = bytes.ends_with(b"/");
    let plain: PathBuf = arguments.output.components().collect();
    let name = plain.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let layout = if as_layout { plain.clone() } else { plain.with_file_name(format!(".{name}.layout")) };
    let moved = oaaxc_registry::pull(&client, &layout, &|step| teller.tell(step)).map_err(failed)?;
    if !as_layout {
        let made = oaaxc_container::to_archive(&layout, &plain, None);
        let removed = std::fs::remove_dir_all(&layout);
        let error = |e: String| one(Diagnostic::error(Code::ARTEFACT, format!("{}: {e}", plain.display())));
        made.map_err(|e| error(e.to_string()))?;
        removed.map_err(|e| error(e.to_string()))?;
    }
    report("pulled", &reference.to_string(), &moved, console);
    Ok(0)
}
