//! The types of the open operator table: one `OpDef` per operator, plain data and fn pointers.
//!
//! An operator answers four questions: how its old versions become the internal form (`upgrade`),
//! what its results look like (`infer`), what they are (`eval`, slow and obvious), and which
//! kernels compute them (`lower`). Nothing here names a particular operator.

use oaaxc_base::Diagnostic;

use crate::eval::EvalCx;
use crate::infer::InferCx;
use crate::lower::LowerCx;
use crate::tensor::Datum;
use crate::upgrade::UpgradeCx;

/// A row of the operator table.
pub struct OpDef {
    /// ONNX's name.
    pub name: &'static str,
    /// ONNX's domain; `""` is ai.onnx.
    pub domain: &'static str,
    /// Rewrites a node of an older opset to the internal operator (the newest form plus the few
    /// attributes that only old versions need). Runs at import, before `infer`.
    pub upgrade: fn(&mut UpgradeCx) -> Result<(), Diagnostic>,
    /// Sets the type of every result, and known elements where they may be sizes.
    pub infer: fn(&mut InferCx) -> Result<(), Diagnostic>,
    /// Computes the results from the operands: the oracle.
    pub eval: fn(&EvalCx) -> Result<Vec<Datum>, Diagnostic>,
    /// How it becomes kernels.
    pub lower: Lower,
}

/// How an operator becomes kernels.
pub enum Lower {
    /// Our loops.
    Kernels(fn(&mut LowerCx) -> Result<(), Diagnostic>),
    /// The host program itself does it (control flow, sequences, optionals: no tensor element is touched, or `Call`s do).
    Host(fn(&mut LowerCx) -> Result<(), Diagnostic>),
    /// ONNX's own function body, or ours, expanded before lowering; it must never reach a target.
    Function,
    /// Known to be valid, not yet compiled: refused by name.
    Refused(&'static str),
}

impl std::fmt::Debug for OpDef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.full_name())
    }
}

impl OpDef {
    /// `Conv`, or `com.microsoft.QLinearAdd`.
    pub fn full_name(&self) -> String {
        if self.domain.is_empty() { self.name.to_string() } else { format!("{}.{}", self.domain, self.name) }
    }
}

/// For operators whose old versions need no rewriting.
pub fn no_upgrade(_: &mut UpgradeCx) -> Result<(), Diagnostic> {
    Ok(())
}
