//! `oaaxc push`: an artefact to a registry, in registry form.

use std::path::PathBuf;

use oaaxc_base::{Code, Diagnostic, Diagnostics};
use oaaxc_registry::LayoutFolder;

use super::Outcome;
use super::arguments::one;
use super::console::Console;
use super::registry::{RegistryArguments, Teller, failed, report};

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  oaaxc push model.oaax registry.example.org/team/model:v1
  oaaxc push layout/ localhost:5000/model:v1 --plain-http")]
pub struct Arguments {
    /// model.oaax, or an OCI layout folder
    artefact: PathBuf,
    /// REGISTRY/REPOSITORY[:TAG]
    reference: String,
    /// Repositories of the same registry whose blobs may be mounted instead of sent
    #[arg(long = "mount-from", value_name = "REPOSITORY")]
    mount_from: Vec<String>,
    /// Which package of a layout that holds several
    #[arg(long)]
    tag: Option<String>,
    #[command(flatten)]
    registry: RegistryArguments,
}

/// Pushes.
pub fn main(arguments: &Arguments, console: &Console) -> Outcome {
    let client = arguments.registry.client_for(&arguments.reference)?;
    let folder = layout_of(&arguments.artefact, arguments.tag.as_deref())?;
    let path = folder.as_ref().map_or(arguments.artefact.clone(), |folder| folder.path().join("layout"));
    let tag = if folder.is_some() { None } else { arguments.tag.as_deref() };
    let layout = LayoutFolder::open(&path, tag).map_err(failed)?;
    let siblings: Vec<&str> = arguments.mount_from.iter().map(String::as_str).collect();
    let teller = Teller::new(console);
    let moved = oaaxc_registry::push(&layout, &client, &siblings, &|step| teller.tell(step)).map_err(failed)?;
    report("pushed", &client.reference().to_string(), &moved, console);
    Ok(0)
}

/// The registry form of an archive, in a folder of its own; nothing for what is a layout already.
fn layout_of(path: &std::path::Path, tag: Option<&str>) -> Result<Option<tempfile::TempDir>, Diagnostics> {
    if path.is_dir() {
        return Ok(None);
    }
    let error = |e: &dyn std::fmt::Display| one(Diagnostic::error(Code::ARTEFACT, format!("{}: {e}", path.display())));
    let folder = tempfile::Builder::new().prefix("oaaxc-push-").tempdir().map_err(|e| error(&e))?;
    oaaxc_container::to_layout(path, &folder.path().join("layout"), tag).map_err(|e| error(&e))?;
    Ok(Some(folder))
}
