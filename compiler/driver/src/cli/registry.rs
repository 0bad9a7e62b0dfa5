//! What the subcommands that speak to registries share: options, progress, errors.

use std::cell::Cell;
use std::io::IsTerminal;
use std::path::PathBuf;

use oaaxc_base::{Code, Diagnostic, Diagnostics};
use oaaxc_registry::{Client, Credentials, Moved, Options, Reference, RegistryError, Step};
use serde_json::json;

use super::arguments::{one, usage};
use super::console::Console;
use super::table::bytes;

/// How to reach registries.
#[derive(clap::Args, Debug, Clone, Default)]
pub struct RegistryArguments {
    /// Name and password [default: the variable OAAXC_CREDS, else those that podman, skopeo or docker keep]
    #[arg(long, value_name = "USER:PASSWORD", hide_default_value = true)]
    pub creds: Option<String>,
    /// The file with credentials [default: those of podman and docker]
    #[arg(long, value_name = "FILE")]
    pub authfile: Option<PathBuf>,
    /// Trust these certificates too (PEM)
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// Speak HTTP without TLS; to this machine alone
    #[arg(long)]
    pub plain_http: bool,
    /// How often a step that failed in passing is tried again
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub retries: u32,
    /// Upload in pieces of this many MiB; without it whole, or in pieces where the registry wants that
    #[arg(long, value_name = "MIB", default_value_t = 0, hide_default_value = true)]
    pub chunk: u64,
}

impl RegistryArguments {
    /// A client for a reference.
    pub fn client(&self, reference: &Reference) -> Result<Client, Diagnostics> {
        let set = std::env::var("OAAXC_CREDS").ok().filter(|text| !text.is_empty());
        let credentials = self.creds.as_deref().or(set.as_deref()).map(Credentials::parse).transpose().map_err(failed)?;
        let options = Options {
            plain_http: self.plain_http,
            tls_ca: self.tls_ca.clone(),
            credentials,
            auth_file: self.authfile.clone(),
            retries: self.retries,
            chunk: self.chunk << 20,
            ..Options::default()
        };
        Client::new(reference, &options).map_err(failed)
    }
    /// A client for a reference as text.
    pub fn client_for(&self, text: &str) -> Result<Client, Diagnostics> {
        self.client(&Reference::parse(text).map_err(failed)?)
    }
}

/// A failed transfer.
pub fn failed(error: RegistryError) -> Diagnostics {
    let text = error.to_string();
    match error {
        RegistryError::Request(_) => usage(text),
        RegistryError::Transport(_) => one(Diagnostic::error(Code::IO, text)),
        RegistryError::Status { status: 401 | 403, .. } => {
            let help = "give --creds USER:PASSWORD, or log in with podman, skopeo or docker";
            one(Diagnostic::error(Code::IO, text).help(help))
        }
        RegistryError::Status { .. } => one(Diagnostic::error(Code::IO, text)),
        RegistryError::Invalid(_) => one(Diagnostic::error(Code::ARTEFACT, text)),
    }
}

/// Tells of blobs: on a terminal while they travel, elsewhere when they have arrived.
pub struct Teller<'a> {
    console: &'a Console,
    live: bool,
    last: Cell<u64>,
}

impl<'a> Teller<'a> {
    /// A teller.
    pub fn new(console: &'a Console) -> Teller<'a> {
        let live = std::io::stderr().is_terminal() && !console.quiet && !console.json;
        Teller { console, live, last: Cell::new(0) }
    }
    /// One step.
    pub fn tell(&self, step: &Step<'_>) {
        let done = step.done >= step.total;
        let percent = (step.done * 100).checked_div(step.total).unwrap_or(100);
        if !done && (!self.live || percent == self.last.get()) {
            return;
        }
        self.last.set(percent);
        let name = &step.digest.hex()[..12];
        if self.live && !done {
            eprint!("\r{:>12} {name} {percent:>3} % of {}\x1b[K", step.doing, bytes(step.total));
        } else {
            let start = if self.live { "\r" } else { "" };
            let end = if self.live { "\x1b[K" } else { "" };
            self.console.note(&format!("{start}{:>12} {name} {}{end}", step.doing, bytes(step.total)));
        }
    }
}

/// The line at the end.
pub fn report(what: &str, place: &str, moved: &Moved, console: &Console) {
    if console.json {
        console.object(&json!({
            "reference": place, "digest": moved.digest.to_string(), "blobs": moved.blobs, "bytes": moved.bytes,
            "present": moved.present, "companions": moved.companions,
        }));
        return;
    }
    console.line(&moved.digest.to_string());
    console.note(&format!(
        "{what} {place}: {} blobs, {}; {} were there; {} signatures and attestations",
        moved.blobs,
        bytes(moved.bytes),
        moved.present,
        moved.companions.len()
    ));
}
