//! `oaaxc copy`: from one registry to another, digests and signatures kept.

use super::Outcome;
use super::console::Console;
use super::registry::{RegistryArguments, Teller, failed, report};

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  oaaxc copy registry.example.org/team/model:v1 registry.example.org/public/model:v1
  oaaxc copy localhost:5000/model:v1 localhost:5001/model:v1 --plain-http --from-creds reader:word")]
pub struct Arguments {
    /// What to copy
    from: String,
    /// Where to
    to: String,
    /// Name and password at the source, if they differ from --creds
    #[arg(long, value_name = "USER:PASSWORD")]
    from_creds: Option<String>,
    #[command(flatten)]
    registry: RegistryArguments,
}

/// Copies.
pub fn main(arguments: &Arguments, console: &Console) -> Outcome {
    let mut source = arguments.registry.clone();
    if arguments.from_creds.is_some() {
        source.creds.clone_from(&arguments.from_creds);
    }
    let (from, to) = (source.client_for(&arguments.from)?, arguments.registry.client_for(&arguments.to)?);
    let teller = Teller::new(console);
    let moved = oaaxc_registry::copy(&from, &to, &|step| teller.tell(step)).map_err(failed)?;
    report("copied", &to.reference().to_string(), &moved, console);
    Ok(0)
}
