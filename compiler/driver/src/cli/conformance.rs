//! `oaaxc conformance`: a vendor's OAAX runtime library beside the rules of OAAX 2.0 or 1.x.
//!
//! Promises: the library is opened in child processes alone, one a rule, each with a limit of time; a
//! crash and a hang are findings. The checks themselves are `runtime-abi/probe`; here they are chosen,
//! given models and printed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use oaax_probe::{Outcome as Found, Port, Rule, Subject, Use, Version, models};
use oaaxc_base::Diagnostics;
use serde_json::json;

use super::Outcome;
use super::arguments::{CompileArguments, io_error, usage};
use super::console::Console;
use crate::pipeline::Silent;
use crate::session;

#[derive(clap::Args, Debug)]
#[command(after_help = "\
Examples:
  oaaxc conformance --oaax libRuntimeLibrary.so
  oaaxc conformance --oaax libRuntimeLibrary.so --model net.dxnn --input images=float:1,3,224,224
  oaaxc conformance --oaax libRuntimeLibrary.so --rule R2-17 --rule R2-19

Without --model two small models are tried, as an artefact of oaaxc and as plain ONNX.
Exit codes: 0 no rule is broken, 1 some are.")]
pub struct Arguments {
    /// The runtime library; its version, 2.0 or 1.x, shows in what it exports
    #[arg(long, value_name = "LIB")]
    oaax: PathBuf,
    /// A model that the library loads
    #[arg(long, value_name = "FILE", requires = "inputs")]
    model: Option<PathBuf>,
    /// An input of that model, with sizes for a request; one option for each, in the model's order
    #[arg(short, long = "input", value_name = "NAME=TYPE:N,N", requires = "model")]
    inputs: Vec<String>,
    /// Check these rules alone
    #[arg(long = "rule", value_name = "RULE")]
    rules: Vec<String>,
    /// Seconds that the check of one rule may take
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    limit: u64,
}

/// Checks.
pub fn main(arguments: &Arguments, console: &Console) -> Outcome {
    let version = oaax_probe::detect(&arguments.oaax).map_err(usage)?;
    let rules = chosen(version, &arguments.rules)?;
    let failed = |e: std::io::Error| io_error("write to", &std::env::temp_dir(), &e);
    let scratch = tempfile::Builder::new().prefix("oaaxc-conformance-").tempdir().map_err(failed)?;
    let program = std::env::current_exe().map_err(|e| io_error("find", Path::new("oaaxc"), &e))?;
    let bench = Bench {
        version,
        library: arguments.oaax.clone(),
        worker: vec![program.into(), oaax_probe::WORKER_ARGUMENT.into()],
        limit: Duration::from_secs(arguments.limit),
        scratch: scratch.path().to_path_buf(),
    };
    let subject = match &arguments.model {
        Some(path) => bench.subject(Some(given(path, &arguments.inputs)?), None),
        None => bench.with_small_models(console)?,
    };
    let mut counts = [0usize; 3];
    for rule in rules {
        let found = bench.check(&subject, rule);
        let (place, status, detail) = match &found {
            Found::Holds => (0, "holds", ""),
            Found::Broken(how) => (1, "broken", how.as_str()),
            Found::Crashed(how) => (1, "crashed", how.as_str()),
            Found::Hung(how) => (1, "hung", how.as_str()),
            Found::Skipped(why) => (2, "skipped", why.as_str()),
        };
        counts[place] += 1;
        if console.json {
            console.object(&json!({ "rule": rule.id, "title": rule.title, "status": status, "detail": detail }));
            continue;
        }
        let style = ["32;1", "31;1", "33;1"][place];
        console.line(&format!("{}  {:<7} {}", console.paint(style, &format!("{status:<7}")), rule.id, rule.title));
        if !detail.is_empty() {
            console.line(&format!("                 {detail}"));
        }
    }
    let name = if version == Version::Two { "2.0" } else { "1.x" };
    let [holds, broken, skipped] = counts;
    if console.json {
        let library = arguments.oaax.display().to_string();
        console.object(&json!({ "library": library, "oaax": name, "holds": holds, "broken": broken, "skipped": skipped }));
    } else {
        console.line(&format!("OAAX {name}: {holds} rules hold, {broken} are broken, {skipped} cannot be checked"));
    }
    Ok(u8::from(broken > 0))
}

/// The rules asked for, or all.
fn chosen(version: Version, names: &[String]) -> Result<Vec<&'static Rule>, Diagnostics> {
    let all = oaax_probe::rules(version);
    for name in names {
        if !all.iter().any(|rule| rule.id.eq_ignore_ascii_case(name)) {
            let known: Vec<&str> = all.iter().map(|rule| rule.id).collect();
            return Err(usage(format!("--rule {name}: the rules for this library are {}", known.join(", "))));
        }
    }
    let is_chosen = |rule: &&Rule| names.is_empty() || names.iter().any(|name| rule.id.eq_ignore_ascii_case(name));
    Ok(all.into_iter().filter(is_chosen).collect())
}

/// The model that the caller gives.
fn given(path: &Path, inputs: &[String]) -> Result<Use, Diagnostics> {
    let inputs: Result<Vec<Port>, String> = inputs.iter().map(|text| Port::parse(text)).collect();
    let path = std::fs::canonicalize(path).map_err(|e| io_error("read", path, &e))?;
    Ok(Use { path, inputs: inputs.map_err(|why| usage(format!("--input {why}")))?, doubles: false })
}

/// Where checks run.
struct Bench {
    version: Version,
    library: PathBuf,
    worker: Vec<OsString>,
    limit: Duration,
    scratch: PathBuf,
}

impl Bench {
    fn subject(&self, model: Option<Use>, failing: Option<Use>) -> Subject {
        Subject { library: self.library.clone(), model, failing, folder: self.scratch.clone() }
    }
    fn check(&self, subject: &Subject, rule: &Rule) -> Found {
        oaax_probe::check(subject, rule, &self.worker, self.limit, &self.scratch)
    }
    /// The two small models, in the first form that the library runs.
    fn with_small_models(&self, console: &Console) -> Result<Subject, Diagnostics> {
        let write = |name: &str, bytes: Vec<u8>| {
            let path = self.scratch.join(name);
            std::fs::write(&path, bytes).map_err(|e| io_error("write", &path, &e)).map(|()| path)
        };
        let (double, pick) = (write("double.onnx", models::double())?, write("pick.onnx", models::pick())?);
        let forms = [(compile(&double), compile(&pick)), (Some(double), Some(pick))];
        let mut why = String::new();
        for (number, (double, pick)) in forms.into_iter().enumerate() {
            let (Some(double), Some(pick)) = (double, pick) else { continue };
            let subject = self.subject(Some(models::use_double(&double)), None);
            let place = Bench { scratch: self.scratch.join(format!("form-{number}")), ..self.like() };
            match place.check(&subject, oaax_probe::loads(self.version)) {
                Found::Holds => return Ok(self.subject(subject.model, Some(models::use_pick(&pick)))),
                Found::Broken(how) | Found::Crashed(how) | Found::Hung(how) | Found::Skipped(how) => why = how,
            }
        }
        console.note(&format!("the library loads neither an artefact of oaaxc nor plain ONNX ({why})"));
        console.note("rules that need a model are not checked; give one with --model and --input");
        Ok(self.subject(None, None))
    }
    fn like(&self) -> Bench {
        Bench {
            version: self.version,
            library: self.library.clone(),
            worker: self.worker.clone(),
            limit: self.limit,
            scratch: PathBuf::new(),
        }
    }
}

/// The model as an artefact beside it, if this machine can build one.
fn compile(model: &Path) -> Option<PathBuf> {
    let options = CompileArguments::default().options();
    let built = session::build(model, &["cpu".to_owned()], &Default::default(), &options, &mut Silent).ok()?;
    let path = model.with_extension("oaax");
    oaaxc_container::write_archive(&built.package, &path).ok()?;
    Some(path)
}
