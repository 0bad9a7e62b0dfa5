//! `oaaxc completions` and `oaaxc man`: what shells and readers want of the command line.
//!
//! Promises: made from the one description of the command line, so that they cannot disagree with it.

use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use super::arguments::io_error;
use super::console::Console;
use super::{Cli, Outcome};
use crate::files;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  oaaxc completions bash > ~/.local/share/bash-completion/completions/oaaxc
  oaaxc completions zsh > ~/.zfunc/_oaaxc
  oaaxc completions fish > ~/.config/fish/completions/oaaxc.fish")]
pub struct CompletionArguments {
    /// Which shell
    shell: Shell,
}

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  oaaxc man ~/.local/share/man/man1
  man oaaxc-build")]
pub struct ManArguments {
    /// Where the pages go, one for each subcommand; it is made if it does not exist
    folder: PathBuf,
}

/// Prints a completion script.
pub fn completions(arguments: &CompletionArguments, console: &Console) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "oaaxc", &mut script);
    console.line(String::from_utf8_lossy(&script).trim_end());
    Ok(0)
}

/// Writes manual pages.
pub fn man(arguments: &ManArguments, console: &Console) -> Outcome {
    let folder = &arguments.folder;
    std::fs::create_dir_all(folder).map_err(|e| io_error("make", folder, &e))?;
    let mut root = Cli::command().disable_help_subcommand(true);
    root.build();
    let mut pages = 1;
    write(folder, "oaaxc", root.clone())?;
    for sub in root.get_subcommands().filter(|c| !c.is_hide_set()) {
        write(folder, &format!("oaaxc-{}", sub.get_name()), sub.clone())?;
        pages += 1;
    }
    console.line(&format!("{pages} pages in {}", folder.display()));
    Ok(0)
}

fn write(folder: &Path, name: &str, command: Command) -> Result<(), oaaxc_base::Diagnostics> {
    let path = folder.join(format!("{name}.1"));
    let failed = |e: std::io::Error| io_error("write", &path, &e);
    // The name of a page is its subcommand's, not the program's.
    let command = command.display_name(name.to_string());
    let mut page = Vec::new();
    clap_mangen::Man::new(command).date("").render(&mut page).map_err(failed)?;
    files::write_whole(&path, &page).map_err(failed)
}
