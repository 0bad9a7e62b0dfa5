//! ONNX Runtime as a peer of `oaaxc bench`: a Python process that runs rounds on our word.
//!
//! Promises: nothing of it is linked or shipped; it is found beside the repository (`tests/peers`, `.venv`),
//! or by `OAAXC_PEERS` and `OAAXC_PYTHON`.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::Tensor;
use serde_json::{Value, json};

use crate::data;

/// The interpreter that has ONNX Runtime.
pub fn python() -> PathBuf {
    std::env::var_os("OAAXC_PYTHON").map_or_else(|| PathBuf::from(".venv/bin/python"), PathBuf::from)
}

fn script() -> PathBuf {
    let folder = std::env::var_os("OAAXC_PEERS").map_or_else(|| PathBuf::from("tests/peers"), PathBuf::from);
    folder.join("ort_bench.py")
}

/// A running peer with a model open.
pub struct Peer {
    child: Child,
    words: ChildStdin,
    answers: BufReader<ChildStdout>,
    folder: tempfile::TempDir,
    /// Milliseconds to load the model.
    pub load_ms: f64,
}

impl Peer {
    /// Starts it and opens the model.
    pub fn open(model: &Path, threads: usize, names: &[String], inputs: &[Tensor]) -> Result<Peer, Diagnostic> {
        let failed = |e: std::io::Error| {
            let message = format!("cannot start the peer {} {}: {e}", python().display(), script().display());
            Diagnostic::error(Code::DEVICE, message).help("run scripts/setup, and start oaaxc in the repository's folder")
        };
        let folder = tempfile::Builder::new().prefix(&format!("oaaxc-{}-peer-", std::process::id())).tempdir().map_err(failed)?;
        let mut child = Command::new(python())
            .arg(script())
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let words = child.stdin.take().expect("stdin is piped");
        let answers = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let mut peer = Peer { child, words, answers, folder, load_ms: 0.0 };
        let model = model.canonicalize().unwrap_or_else(|_| model.to_path_buf());
        let opened = peer.ask(&json!({ "do": "open", "model": model.display().to_string(), "threads": threads }))?;
        peer.load_ms = opened["load_ms"].as_f64().unwrap_or(0.0);
        let place = peer.folder.path().join("inputs");
        std::fs::create_dir_all(&place).map_err(failed)?;
        for (name, tensor) in names.iter().zip(inputs) {
            let bytes = data::encode(tensor, name, "npy")?;
            std::fs::write(place.join(format!("{}.npy", data::file_name(name))), bytes).map_err(failed)?;
        }
        peer.ask(&json!({ "do": "inputs", "path": place.display().to_string() }))?;
        Ok(peer)
    }

    /// Runs a round; wall times in nanoseconds.
    pub fn run(&mut self, times: usize) -> Result<Vec<f64>, Diagnostic> {
        let answer = self.ask(&json!({ "do": "run", "times": times }))?;
        Ok(answer["ns"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect())
    }

    /// The outputs of the last run, by name; one that the peer does not give is left out.
    pub fn outputs(&mut self, names: &[String]) -> Result<Vec<(String, Tensor)>, Diagnostic> {
        let place = self.folder.path().join("outputs");
        self.ask(&json!({ "do": "outputs", "path": place.display().to_string() }))?;
        let mut found = Vec::new();
        for name in names {
            let path = place.join(format!("{}.npy", data::file_name(name)));
            if path.exists() {
                found.push((name.clone(), data::read(&path)?));
            }
        }
        Ok(found)
    }

    fn ask(&mut self, word: &Value) -> Result<Value, Diagnostic> {
        let failed = |what: String| Diagnostic::error(Code::RUN, format!("the peer {what}"));
        writeln!(self.words, "{word}").and_then(|()| self.words.flush()).map_err(|e| failed(format!("does not listen: {e}")))?;
        let mut line = String::new();
        self.answers.read_line(&mut line).map_err(|e| failed(format!("does not answer: {e}")))?;
        let answer: Value = serde_json::from_str(&line).map_err(|_| failed(format!("answers \"{}\"", line.trim())))?;
        match answer["ok"].as_bool() {
            Some(true) => Ok(answer),
            _ => Err(failed(format!("fails: {}", answer["error"].as_str().unwrap_or("without a word")))),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The end of its input is a quit; a peer that does not listen is ended.
        let _ = writeln!(self.words, "{}", json!({ "do": "quit" }));
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
