//! The command line: one file a subcommand, and what they share.
//!
//! Promises: results go to standard output, everything else to standard error; with `--json` standard
//! output holds one JSON object a line and nothing else; the exit code says what kind of failure it was
//! (`docs/cli.md`); a closed pipe ends the program quietly.

mod arguments;
mod attest;
mod bench;
mod build;
mod check;
mod conformance;
mod console;
mod copy;
mod crash;
mod doctor;
mod explain;
mod export;
mod guess;
mod inspect;
mod manual;
mod nodes;
mod ops;
mod opt;
mod page;
mod peer;
mod precision;
mod profile;
mod progress;
mod pull;
mod push;
mod registry;
mod run;
mod select;
mod sign;
mod signals;
mod table;
mod targets;
mod test;
pub mod toolchain;
mod trust;
mod verify;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{ColorChoice, Parser, Subcommand};
use oaaxc_base::{Code, Diagnostic, Diagnostics};

use console::Console;

/// The exit code of a success that has something to say (0, or 4 for numbers that differ), or what went wrong.
type Outcome = Result<u8, Diagnostics>;

#[derive(Parser, Debug)]
#[command(name = "oaaxc", version, about = ABOUT, after_help = EXAMPLES, max_term_width = 110)]
struct Cli {
    /// One JSON object a line on standard output instead of text
    #[arg(long, global = true)]
    json: bool,
    /// Only errors
    #[arg(short, long, global = true)]
    quiet: bool,
    /// More detail
    #[arg(short, long, global = true)]
    verbose: bool,
    /// When to colour
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    color: ColorChoice,
    #[command(subcommand)]
    command: Command,
}

const ABOUT: &str = "Compiles ONNX models into containers that hold code for accelerators";

const EXAMPLES: &str = "\
Examples:
  oaaxc build model.onnx --target cpu -o model.oaax
  oaaxc run model.oaax --input x=picture.npy --output results
  oaaxc check model.onnx
  oaaxc explain E0304

Exit codes: 0 ok, 1 the model or request is wrong, 2 the command line is wrong, 3 not supported,
4 the numbers differ, 5 over a limit, 6 no device, 7 the artefact is damaged or too new, 70 a bug of oaaxc,
128 + N ended by signal N (130 for Ctrl-C).";

#[derive(Subcommand, Debug)]
enum Command {
    /// Compile a model into an artefact
    Build(build::Arguments),
    /// List what in a model is wrong or not supported, without compiling
    Check(check::Arguments),
    /// Run an artefact or a model once
    Run(run::Arguments),
    /// Run folders in ONNX's backend-test form
    Test(test::Arguments),
    /// Measure latency, after checking the numbers
    Bench(bench::Arguments),
    /// Compare an artefact's numbers with the oracle's
    Verify(verify::Arguments),
    /// Check any vendor's OAAX runtime library against the rules, one by one
    Conformance(conformance::Arguments),
    /// Show what an artefact or a model holds
    Inspect(inspect::Arguments),
    /// Write an artefact in another of its forms
    Export(export::Arguments),
    /// Send an artefact to a registry
    Push(push::Arguments),
    /// Fetch an artefact from a registry
    Pull(pull::Arguments),
    /// Copy an artefact from one registry to another
    Copy(copy::Arguments),
    /// Sign a package
    Sign(sign::Arguments),
    /// Attach signed statements to a package
    Attest(attest::Arguments),
    /// Run passes over a graph and print it
    Opt(opt::Arguments),
    /// Show which variant of an artefact runs here, and why
    Select(select::Arguments),
    /// List the targets
    Targets(targets::Arguments),
    /// List the operators and what is done with each
    Ops(ops::Arguments),
    /// Explain a diagnostic code
    Explain(explain::Arguments),
    /// Show what this machine offers, with reasons
    Doctor(doctor::Arguments),
    /// Print a completion script for a shell
    Completions(manual::CompletionArguments),
    /// Write manual pages
    Man(manual::ManArguments),
    /// Runs backend-test folders named on standard input
    #[command(name = test::WORKER, hide = true)]
    TestWorker(test::WorkerArguments),
}

/// Runs the command line and gives the exit code.
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    crash::install();
    let (arguments, hints) = guess::rewrite(arguments);
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are successes; clap itself knows neighbours of what was mistyped.
            if error.use_stderr() && arguments.iter().any(|argument| argument == "--json") {
                let text = error.render().to_string();
                let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_string();
                let notes = text.lines().skip(1).map(str::trim).filter(|line| !line.is_empty());
                let diagnostic = notes.fold(Diagnostic::error(Code::USAGE, message), |d, note| d.note(note));
                Console::new(true, false, false, ColorChoice::Never).diagnostics(&[diagnostic]);
                return ExitCode::from(2);
            }
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let console = Console::new(cli.json, cli.quiet, cli.verbose, cli.color);
    for hint in hints {
        console.hint(&hint);
    }
    signals::install();
    let code = crash::guard(&console, || dispatch(&cli.command, &console));
    signals::wait_if_ending();
    console.flush();
    ExitCode::from(code)
}

fn dispatch(command: &Command, console: &Console) -> u8 {
    let outcome = match command {
        Command::Build(arguments) => build::main(arguments, console),
        Command::Check(arguments) => check::main(arguments, console),
        Command::Run(arguments) => run::main(arguments, console),
        Command::Test(arguments) => test::main(arguments, console),
        Command::Bench(arguments) => bench::main(arguments, console),
        Command::Verify(arguments) => verify::main(arguments, console),
        Command::Conformance(arguments) => conformance::main(arguments, console),
        Command::Inspect(arguments) => inspect::main(arguments, console),
        Command::Export(arguments) => export::main(arguments, console),
        Command::Push(arguments) => push::main(arguments, console),
        Command::Pull(arguments) => pull::main(arguments, console),
        Command::Copy(arguments) => copy::main(arguments, console),
        Command::Sign(arguments) => sign::main(arguments, console),
        Command::Attest(arguments) => attest::main(arguments, console),
        Command::Opt(arguments) => opt::main(arguments, console),
        Command::Select(arguments) => select::main(arguments, console),
        Command::Targets(arguments) => targets::main(arguments, console),
        Command::Ops(arguments) => ops::main(arguments, console),
        Command::Explain(arguments) => explain::main(arguments, console),
        Command::Doctor(arguments) => doctor::main(arguments, console),
        Command::Completions(arguments) => manual::completions(arguments, console),
        Command::Man(arguments) => manual::man(arguments, console),
        Command::TestWorker(arguments) => test::worker(arguments, console),
    };
    match outcome {
        Ok(code) => code,
        Err(diagnostics) => {
            signals::wait_if_ending();
            console.diagnostics(&diagnostics.items);
            console::exit_code(&diagnostics)
        }
    }
}
