//! Runs an artefact for another machine through a command: `qemu-aarch64 -L ROOT oaax-run`, or `ssh board oaax-run`
//! where folders are shared.
//!
//! Promises: the command is called as `COMMAND run MODEL --input NAME=FILE.npy … --output FOLDER --threads 1`, what it
//! must write is what `oaax-run` writes; a command that fails gives its last words. Never: looks at the numbers.

use std::process::{Command, Stdio};

use oaaxc_base::{Code, Diagnostic};
use oaaxc_container::Package;
use oaaxc_ir::Datum;

use crate::data;

/// A command that runs artefacts.
#[derive(Clone, Debug)]
pub struct Runner {
    words: Vec<String>,
}

impl Runner {
    /// Cut at blanks. The error names what is missing.
    pub fn new(command: &str) -> Result<Runner, Diagnostic> {
        let words: Vec<String> = command.split_whitespace().map(str::to_string).collect();
        match words.is_empty() {
            true => Err(Diagnostic::error(Code::USAGE, "--runner names no command")),
            false => Ok(Runner { words }),
        }
    }

    /// One datum per output, of these names.
    pub fn run(&self, package: &Package, inputs: &[(String, Datum)], outputs: &[String]) -> Result<Vec<Datum>, Diagnostic> {
        let failed = |e: &dyn std::fmt::Display| Diagnostic::error(Code::IO, format!("cannot prepare a run of the runner: {e}"));
        let folder = tempfile::Builder::new().prefix("oaaxc-").tempdir().map_err(|e| failed(&e))?;
        let model = folder.path().join("model.oaax");
        oaaxc_container::write_archive(package, &model).map_err(|e| failed(&e))?;
        let results = folder.path().join("results");
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).arg("run").arg(&model).args(["--threads", "1", "--output"]).arg(&results);
        for (i, (name, datum)) in inputs.iter().enumerate() {
            let Datum::Tensor(tensor) = datum else {
                return Err(Diagnostic::error(Code::UNSUPPORTED, "a runner takes tensors only"));
            };
            let path = folder.path().join(format!("input_{i}.npy"));
            std::fs::write(&path, data::encode(tensor, name, "npy").map_err(unnamed)?).map_err(|e| failed(&e))?;
            command.arg("--input").arg(format!("{name}={}", path.display()));
        }
        let done = command.stdin(Stdio::null()).output();
        let done = done.map_err(|e| Diagnostic::error(Code::DEVICE, format!("cannot start {}: {e}", self.words[0])))?;
        if !done.status.success() {
            let said = String::from_utf8_lossy(&done.stderr);
            let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("without a word").to_string();
            return Err(Diagnostic::error(Code::RUN, format!("{} ended with {}: {last}", self.words[0], done.status)));
        }
        let read = |name: &String| data::read(&results.join(format!("{}.npy", data::file_name(name)))).map_err(unnamed);
        outputs.iter().map(|name| Ok(Datum::Tensor(read(name)?))).collect()
    }
}

/// NumPy's files have no name for some types (bfloat16, the 8-bit floats): such a tensor cannot pass, which is no fault of its data.
fn unnamed(error: Diagnostic) -> Diagnostic {
    match error.code {
        Code::REQUEST => Diagnostic { code: Code::UNSUPPORTED, ..error },
        _ => error,
    }
}
