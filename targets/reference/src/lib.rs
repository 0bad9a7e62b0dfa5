//! oaaxc-target-reference: the Kernel IR interpreter as a target.
//!
//! It emits no code: whoever executes for it runs `oaaxc_ir::interpret` on the kernels themselves. It is
//! the oracle of small cases; `cpu:strict` is the oracle of whole models.

use oaaxc_base::Diagnostics;
use oaaxc_ir::Expr;
use oaaxc_ir::kernel::Kernel;
use oaaxc_target_api::{CodeObject, Device, EmitCx, KernelEntry, Level, Target};

static DEVICE: Device = Device { kind: "reference", arch: "any", strict: true, panel: 0 };

/// The interpreter.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reference;

impl Target for Reference {
    fn name(&self) -> &str {
        "reference"
    }
    fn device(&self) -> &Device {
        &DEVICE
    }
    /// One level without code: every kernel is one group, run by the interpreter.
    fn emit(&self, kernels: &[Kernel], _: &EmitCx) -> Result<CodeObject, Diagnostics> {
        let entry = |i: usize| KernelEntry {
            symbol: format!("k{i}"),
            groups: 1.into(),
            scratch: Expr::constant(0),
            threads: 0,
            generic: true,
        };
        let level = Level {
            name: "interpreter".into(),
            extension: "",
            object: Vec::new(),
            kernels: (0..kernels.len()).map(entry).collect(),
        };
        Ok(CodeObject { levels: vec![level], ..CodeObject::default() })
    }
}
