//! Equal kernels once: every launch's kernel in canonical form, each distinct one listed once.

use std::collections::HashMap;

use oaaxc_ir::SymId;
use oaaxc_ir::kernel::{Kernel, canonical};
use oaaxc_ir::program::Program;

/// The distinct kernels of a program and which launch runs which.
#[derive(Clone, Debug, Default)]
pub struct Interned {
    /// Canonical kernels, in the order of their first launch.
    pub kernels: Vec<Kernel>,
    /// What the launches (in the order of `Program::launches`) run.
    pub launches: Vec<Run>,
}

/// What one launch runs.
#[derive(Clone, Debug)]
pub struct Run {
    /// Position in `kernels`.
    pub kernel: usize,
    /// The program's symbol behind each of the kernel's: the launch's dims.
    pub dims: Vec<SymId>,
}

/// Lists the distinct kernels.
pub fn intern(program: &Program) -> Interned {
    let mut out = Interned::default();
    let mut known: HashMap<Kernel, usize> = HashMap::new();
    for launch in program.launches() {
        let (kernel, dims) = canonical(&launch.kernel);
        let next = out.kernels.len();
        let at = *known.entry(kernel).or_insert_with_key(|kernel| {
            out.kernels.push(kernel.clone());
            next
        });
        out.launches.push(Run { kernel: at, dims });
    }
    out
}
