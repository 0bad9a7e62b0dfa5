//! Ways to run a model and what each needs.
//!
//! Promises: an absent field asks for nothing; fields of later versions are kept.

use serde::{Deserialize, Serialize};

use super::Extra;

/// One way to run the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Variant {
    /// Unique in the package; the `target` of its files.
    pub id: String,
    /// The target that was asked for, `cpu`, `rocm:gfx942` …
    pub target: String,
    /// What the host and its devices must offer.
    pub needs: Needs,
    /// Path of the host program.
    pub program: String,
    /// Paths of the code objects; each carries its own kernel table.
    pub objects: Vec<String>,
    /// Paths of the weight files, in the order in which the program numbers them.
    pub weights: Vec<String>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// What a variant needs; an absent field asks for nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Needs {
    /// Operating system as OCI names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    /// CPU architectures as OCI names them (`amd64`, `arm64`, `riscv64`); one of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arch: Vec<String>,
    /// CPU levels present, lowest first (`x86-64-v2` …); the host must reach the first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpu_levels: Vec<String>,
    /// An accelerator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<DeviceNeed>,
    /// Host routines beyond the core (`regex`, `image`), from the second library.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub host_routines: Vec<String>,
    /// Fields that this version does not know.
    #[serde(flatten)]
    pub extra: Extra,
}

/// An accelerator that a variant needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceNeed {
    /// `hip`, `cuda`, `opencl` …
    pub kind: String,
    /// Device names or architectures; one of them.
    pub names: Vec<String>,
    /// Least device memory in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
}
