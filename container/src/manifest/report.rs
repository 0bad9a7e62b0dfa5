//! What a build knows about its own result: canaries, tolerance, host execution, placement, precision.
//!
//! Promises: a reader may run a package without understanding any of this.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Extra;

/// Inputs with known outputs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Canary {
    /// Values of the named dims.
    pub dims: BTreeMap<String, u64>,
    /// Seed of the generated inputs, where no files are given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Input name to file path.
    pub inputs: BTreeMap<String, String>,
    /// Output name to file path.
    pub outputs: BTreeMap<String, String>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// |actual - recorded| <= absolute + relative * scale of the recorded output.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Tolerance {
    /// In units of the output.
    pub absolute: f64,
    /// Relative to the output's largest magnitude.
    pub relative: f64,
}

/// Host execution, stated and never silent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fallback {
    /// What a reader does with a variant that has such nodes: `error` refuses it, `warn` says so, `allow` runs it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub policy: String,
    /// Nodes that run on the host.
    pub host: Vec<HostNode>,
}

/// One node that runs on the host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostNode {
    /// Name of the node in the model.
    pub node: String,
    /// Its operator.
    pub operator: String,
    /// Why, as a sentence.
    pub reason: String,
}

/// The placement report.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Placement {
    /// One per node, in topological order.
    pub nodes: Vec<PlacementEntry>,
    /// Share of floating-point operations on generic schedules, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generic_share: Option<f64>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// Where one node is computed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PlacementEntry {
    /// Name of the node in the model.
    pub node: String,
    /// Its operator.
    pub operator: String,
    /// Target, `host` or `folded`.
    pub target: String,
    /// Kernels that compute it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<String>,
    /// Why there, where that is not obvious.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One narrowed tensor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PrecisionEntry {
    /// Name of the tensor.
    pub tensor: String,
    /// Its type in the model.
    pub from: String,
    /// Its type in the package.
    pub to: String,
    /// Why.
    pub reason: String,
    /// Measured error relative to the tensor's scale.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
}
