//! Equal kernels once: every launch's kernel in canonical form, each distinct one listed once.

use std::collections::HashMap;

use oaaxc_ir::SymId;
use oaaxc_ir::kernel::{Kernel, canonical};
use oaaxc_ir::program::{Program, Space};

/// The distinct kernels of a program and which launch runs which.
#[derive(Clone, Debug, Default)]
pub struct Interned {
    /// Canonical kernels, in the order of their first launch.
    pub kernels: Vec<Kernel>,
    /// Where each runs; a kernel that runs in both spaces is listed twice.
    pub spaces: Vec<Space>,
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
    let mut known: HashMap<(Kernel, Space), usize> = HashMap::new();
    for launch in program.launches() {
        let (kernel, dims) = canonical(&launch.kernel);
        let next = out.kernels.len();
        let at = *known.entry((kernel, launch.space)).or_insert_with_key(|(kernel, space)| {
            out.kernels.push(kernel.clone());
            out.spaces.push(*space);
            next
        });
        out.launches.push(Run { kernel: at, dims });
    }
    out
}

impl Interned {
    /// The kernels that run in one space, in order.
    pub fn kernels_in(&self, space: Space) -> Vec<Kernel> {
        let own = self.kernels.iter().zip(&self.spaces).filter(|(_, other)| **other == space);
        own.map(|(kernel, _)| kernel.clone()).collect()
    }
}
