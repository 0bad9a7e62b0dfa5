//! Diagnostics: what is wrong, where in the model, which facts disagree, and the way out.
//!
//! Analyses return values and fill a `Diagnostics`; all problems of a phase are reported in one run.

use std::fmt;
use std::sync::Arc;

use crate::codes::Code;

/// How bad it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// Work goes on; nothing is wrong, but the user should know.
    Note,
    /// Work goes on; something was done otherwise than asked.
    Warning,
    /// The phase ends without a result.
    Error,
}

/// Where in the ONNX model something came from. Survives every pass; a fused node has several.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Origin {
    /// The file, as the user named it.
    pub file: Arc<str>,
    /// The graph: `main`, or the path of a subgraph or function.
    pub graph: Arc<str>,
    /// Position of the node in its graph.
    pub index: u32,
    /// The node's own name; may be empty.
    pub node: Arc<str>,
    /// Domain, operator and version: `ai.onnx:Conv-11`.
    pub operator: Arc<str>,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, node {}", self.file, self.graph, self.index)?;
        if !self.node.is_empty() {
            write!(f, " \"{}\"", self.node)?;
        }
        if !self.operator.is_empty() {
            write!(f, " ({})", self.operator)?;
        }
        Ok(())
    }
}

/// One problem.
#[derive(Clone, PartialEq, Debug)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Its stable code.
    pub code: Code,
    /// One sentence with both disagreeing facts.
    pub message: String,
    /// Where it came from, where known.
    pub origin: Option<Origin>,
    /// Which operand it is about: `input 1 "w"`.
    pub operand: Option<String>,
    /// The node as text, and the types of its operands.
    pub snippet: Vec<String>,
    /// Further facts.
    pub notes: Vec<String>,
    /// The way out.
    pub help: Vec<String>,
}

impl Diagnostic {
    /// An error with this code and message.
    pub fn error(code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            severity: Severity::Error,
            code,
            message: message.into(),
            origin: None,
            operand: None,
            snippet: Vec::new(),
            notes: Vec::new(),
            help: Vec::new(),
        }
    }
    /// A warning with this code and message.
    pub fn warning(code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic { severity: Severity::Warning, ..Diagnostic::error(code, message) }
    }
    /// Adds where it came from, unless it already says.
    pub fn at(mut self, origin: &Origin) -> Diagnostic {
        self.origin.get_or_insert_with(|| origin.clone());
        self
    }
    /// Says which operand it is about.
    pub fn operand(mut self, operand: impl Into<String>) -> Diagnostic {
        self.operand = Some(operand.into());
        self
    }
    /// Adds a line of the model's text.
    pub fn snippet(mut self, line: impl Into<String>) -> Diagnostic {
        self.snippet.push(line.into());
        self
    }
    /// Adds a further fact.
    pub fn note(mut self, note: impl Into<String>) -> Diagnostic {
        self.notes.push(note.into());
        self
    }
    /// Adds a way out.
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help.push(help.into());
        self
    }
}

impl fmt::Display for Diagnostic {
    /// The form of rustc: headline, arrow with the origin, snippet, notes, help.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.severity {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, "{word}[{}]: {}", self.code, self.message)?;
        if let Some(origin) = &self.origin {
            write!(f, "\n  --> {origin}")?;
            if let Some(operand) = &self.operand {
                write!(f, ", {operand}")?;
            }
        } else if let Some(operand) = &self.operand {
            write!(f, "\n  --> {operand}")?;
        }
        for line in &self.snippet {
            write!(f, "\n   |  {line}")?;
        }
        for note in &self.notes {
            write!(f, "\n   = note: {note}")?;
        }
        for help in &self.help {
            write!(f, "\n   = help: {help}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostic {}

/// The collector of a phase.
#[derive(Clone, Default, Debug)]
pub struct Diagnostics {
    /// In the order they were found.
    pub items: Vec<Diagnostic>,
}

impl Diagnostics {
    /// An empty collector.
    pub fn new() -> Diagnostics {
        Diagnostics::default()
    }
    /// Adds one problem.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.items.push(diagnostic);
    }
    /// Whether any of them is an error.
    pub fn has_errors(&self) -> bool {
        self.items.iter().any(|d| d.severity == Severity::Error)
    }
    /// Keeps the value of a success, collects the failure.
    pub fn collect<T>(&mut self, result: Result<T, Diagnostic>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(diagnostic) => {
                self.push(diagnostic);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diagnostic_reads_like_rustc() {
        let origin =
            Origin { file: "m.onnx".into(), graph: "main".into(), index: 12, node: "conv_2a".into(), ..Origin::default() };
        let text = Diagnostic::error(Code::SHAPE, "Conv: weight has 32 input channels, but group = 2 needs 16")
            .at(&origin)
            .operand("input 1 \"w\"")
            .note("x is float[N,32,56,56]")
            .help("the exporter may have dropped the group split")
            .to_string();
        assert_eq!(
            text,
            "error[E0304]: Conv: weight has 32 input channels, but group = 2 needs 16\n  --> m.onnx: main, node 12 \"conv_2a\", input 1 \"w\"\n   = note: x is float[N,32,56,56]\n   = help: the exporter may have dropped the group split"
        );
    }
}
