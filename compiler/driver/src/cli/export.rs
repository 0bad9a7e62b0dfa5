//! `oaaxc export`: an artefact in another of its forms.

use std::path::PathBuf;

use oaaxc_base::{Code, Diagnostic};

use super::Outcome;
use super::arguments::one;
use super::console::Console;

#[derive(clap::Args, Debug)]
#[command(group = clap::ArgGroup::new("form").required(true), after_help = "\
Examples:
  oaaxc export model.oaax -o models --unpacked
  oaaxc export model.oaax -o layout --layout
  oaaxc export layout -o model.oaax --archive")]
pub struct Arguments {
    /// model.oaax, an OCI layout folder or an unpacked /models
    artefact: PathBuf,
    /// Where to; a folder must be new
    #[arg(short, long, value_name = "PATH")]
    output: PathBuf,
    /// Plain files, as a container has them under /models
    #[arg(long, group = "form")]
    unpacked: bool,
    /// An OCI layout folder, as registries keep it
    #[arg(long, group = "form")]
    layout: bool,
    /// One file that can be mapped
    #[arg(long, group = "form")]
    archive: bool,
}

/// Exports.
pub fn main(arguments: &Arguments, console: &Console) -> Outcome {
    let (from, to) = (&arguments.artefact, &arguments.output);
    let done = match (arguments.unpacked, arguments.layout) {
        (true, _) => oaaxc_container::open(from).and_then(|package| {
            package.unpack(to)?;
            Ok(oaaxc_container::Digest::of(package.manifest_bytes()))
        }),
        (false, true) => oaaxc_container::to_layout(from, to, None),
        (false, false) => oaaxc_container::to_archive(from, to, None),
    };
    let digest = done.map_err(|e| one(Diagnostic::error(Code::ARTEFACT, format!("{}: {e}", from.display()))))?;
    console.line(&digest.to_string());
    Ok(0)
}
