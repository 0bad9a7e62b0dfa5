//! The one error of this room: where the way from MLIR text to a code object ended, and why.
//!
//! The text is for a compiler developer (bad MLIR is our bug, not the user's); the driver wraps it in a
//! diagnostic that names the ONNX nodes of the kernel.

use std::fmt;

/// The step that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The MLIR text does not parse or does not verify.
    Parse,
    /// The MLIR pass pipeline failed.
    Lower,
    /// The LLVM dialect could not be translated to LLVM IR, or the result does not verify.
    Translate,
    /// LLVM knows no such triple or cpu.
    Machine,
    /// LLVM's optimiser failed.
    Optimise,
    /// Instruction selection or object emission failed.
    Codegen,
    /// lld failed, or the linked object breaks a promise of [`crate::link`].
    Link,
    /// The worker process died, hung or answered garbage.
    Worker,
}

impl Stage {
    pub(crate) const ALL: [Stage; 8] = [
        Stage::Parse,
        Stage::Lower,
        Stage::Translate,
        Stage::Machine,
        Stage::Optimise,
        Stage::Codegen,
        Stage::Link,
        Stage::Worker,
    ];

    /// The step in words, as it stands in messages.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Parse => "parse MLIR",
            Stage::Lower => "lower MLIR",
            Stage::Translate => "translate to LLVM IR",
            Stage::Machine => "target machine",
            Stage::Optimise => "optimise",
            Stage::Codegen => "generate code",
            Stage::Link => "link",
            Stage::Worker => "worker",
        }
    }
}

/// Why a compilation or a link failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackendError {
    /// The step that failed.
    pub stage: Stage,
    /// Messages of LLVM, MLIR or lld, one a line; never empty.
    pub message: String,
}

impl BackendError {
    pub(crate) fn new(stage: Stage, message: impl Into<String>) -> BackendError {
        let message: String = message.into();
        let message = message.trim_end();
        let message = if message.is_empty() { "failed without a message" } else { message };
        BackendError { stage, message: message.to_string() }
    }
}

impl fmt::Display for BackendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.stage.name(), self.message)
    }
}

impl std::error::Error for BackendError {}
