//! A lowered model: slots, and the host program that launches kernels on them.
//!
//! The host program is structured (branches and loops hold lists); `passes` plans its memory and
//! encodes it as the records of `runtime-abi/abi`. What the host does itself is exactly what
//! `Instr` lists: sizes, small integer shape values, views, branches, loops. Whatever else touches
//! elements is a kernel.

use oaaxc_base::{Origin, Table, id};

use crate::dtype::DType;
use crate::expr::{Expr, SymId};
use crate::kernel::{Kernel, Layout};
use crate::tensor::Tensor;
use crate::types::{Symbols, Type};

id!(
    /// A place for a value at run time.
    SlotId,
    "t"
);

/// Which memory a slot lies in, and whose processor runs a launch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Space {
    /// The CPU: inputs, outputs, and whatever the host program reads and writes itself.
    #[default]
    Host,
    /// The accelerator.
    Device,
}

impl Space {
    /// Both.
    pub const ALL: [Space; 2] = [Space::Host, Space::Device];

    /// The other one.
    pub fn other(self) -> Space {
        match self {
            Space::Host => Space::Device,
            Space::Device => Space::Host,
        }
    }
}

/// A lowered model for one target.
#[derive(Clone, Debug)]
pub struct Program {
    /// The model's name.
    pub name: String,
    /// Symbolic sizes: those of the inputs, and those that the program computes.
    pub symbols: Symbols,
    /// Every slot.
    pub slots: Table<SlotId, Slot>,
    /// The model's inputs, in order.
    pub inputs: Vec<SlotId>,
    /// The model's outputs, in order; each slot stands here once.
    pub outputs: Vec<SlotId>,
    /// What happens in a run.
    pub body: Vec<Instr>,
}

/// A place for a value.
#[derive(Clone, Debug)]
pub struct Slot {
    /// The model's name of the value, or a made-up one.
    pub name: String,
    /// Its type; tensors have known rank.
    pub ty: Type,
    /// What holds it.
    pub kind: SlotKind,
    /// In which order the elements lie.
    pub layout: Layout,
    /// In which memory. A view is where its source is; inputs and outputs are on the host.
    pub space: Space,
}

/// What holds a slot's elements.
#[derive(Clone, Debug)]
pub enum SlotKind {
    /// The caller's input.
    Input,
    /// The caller's output.
    Output,
    /// The weight store. The tensor is in logical order; `Slot::layout` says how it is stored.
    Constant(Tensor),
    /// Memory that the plan places.
    Temp,
    /// Memory allocated when its size is known and kept while anything refers to it: values that
    /// outlive an iteration of a loop.
    Heap,
    /// Stands for another slot's memory, bound by `Alias` or `Move` during the run.
    View,
}

/// One instruction of the host program.
#[derive(Clone, Debug)]
pub enum Instr {
    /// Runs a kernel over its whole iteration space.
    Launch(Box<Launch>),
    /// `symbol = expr`.
    Let {
        /// Which size.
        symbol: SymId,
        /// Its value.
        value: Expr,
    },
    /// `symbol = slot[index]`: reads an integer or Bool element, row-major.
    Read {
        /// Which size.
        symbol: SymId,
        /// From here.
        slot: SlotId,
        /// The row-major position.
        index: Expr,
    },
    /// Fills a small integer tensor with sizes.
    Write {
        /// To here.
        slot: SlotId,
        /// One per element.
        values: Vec<Expr>,
    },
    /// The run fails where `holds` is 0.
    Check {
        /// The condition.
        holds: Expr,
        /// What to say.
        message: String,
        /// Which node wants it.
        origin: Origin,
    },
    /// `to` (a `View`) stands for the memory of `from`, under its own dims.
    Alias {
        /// The view.
        to: SlotId,
        /// Whose memory.
        from: SlotId,
    },
    /// Copies a tensor to another of equal type and dims, from any space to any.
    Copy {
        /// To here; all of it is overwritten.
        to: SlotId,
        /// From here.
        from: SlotId,
    },
    /// Allocates a `Heap` slot for its current dims.
    Alloc {
        /// Which.
        slot: SlotId,
    },
    /// Runs one of two lists.
    If {
        /// Not 0: `then`.
        condition: Expr,
        /// Where it holds.
        then: Vec<Instr>,
        /// Where it does not.
        otherwise: Vec<Instr>,
    },
    /// `counter` runs from 0 while it is below `trips` and `condition` (read before each iteration) is not 0.
    /// After the loop `counter` holds the number of iterations done.
    Loop {
        /// Counts iterations.
        counter: SymId,
        /// Most iterations; i64::MAX where unbounded.
        trips: Expr,
        /// A size that the body sets.
        condition: Option<SymId>,
        /// One iteration.
        body: Vec<Instr>,
    },
}

/// A launch of a kernel.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The kernel, over the program's symbols.
    pub kernel: Kernel,
    /// One slot per argument of the kernel.
    pub slots: Vec<SlotId>,
    /// The nodes that it computes.
    pub origins: Vec<Origin>,
    /// Who runs it; all its slots are there.
    pub space: Space,
}

impl Program {
    /// Element type and sizes of a tensor slot.
    pub fn tensor(&self, slot: SlotId) -> (DType, &[Expr]) {
        match &self.slots[slot].ty {
            Type::Tensor(t) => (t.dtype, t.shape.as_deref().expect("slots have known rank")),
            _ => unreachable!("only tensors are launched over"),
        }
    }
    /// Calls `f` on every instruction, nested ones after the one that holds them.
    pub fn visit(&self, f: &mut dyn FnMut(&Instr)) {
        fn walk(list: &[Instr], f: &mut dyn FnMut(&Instr)) {
            for instr in list {
                f(instr);
                match instr {
                    Instr::If { then, otherwise, .. } => {
                        walk(then, f);
                        walk(otherwise, f);
                    }
                    Instr::Loop { body, .. } => walk(body, f),
                    _ => {}
                }
            }
        }
        walk(&self.body, f);
    }
    /// Rewrites every expression of the host program and of its kernels (not the slots' sizes).
    pub fn map_exprs(&mut self, f: &mut dyn FnMut(&Expr) -> Expr) {
        fn walk(list: &mut [Instr], f: &mut dyn FnMut(&Expr) -> Expr) {
            for instr in list {
                match instr {
                    Instr::Launch(launch) => launch.kernel.map_exprs(f),
                    Instr::Let { value, .. } => *value = f(value),
                    Instr::Read { index, .. } => *index = f(index),
                    Instr::Write { values, .. } => values.iter_mut().for_each(|e| *e = f(e)),
                    Instr::Check { holds, .. } => *holds = f(holds),
                    Instr::Alias { .. } | Instr::Copy { .. } | Instr::Alloc { .. } => {}
                    Instr::If { condition, then, otherwise } => {
                        *condition = f(condition);
                        walk(then, f);
                        walk(otherwise, f);
                    }
                    Instr::Loop { trips, body, .. } => {
                        *trips = f(trips);
                        walk(body, f);
                    }
                }
            }
        }
        walk(&mut self.body, f);
    }
    /// Every launch, in order.
    pub fn launches(&self) -> Vec<&Launch> {
        let mut all: Vec<&Launch> = Vec::new();
        fn walk<'a>(list: &'a [Instr], all: &mut Vec<&'a Launch>) {
            for instr in list {
                match instr {
                    Instr::Launch(l) => all.push(l),
                    Instr::If { then, otherwise, .. } => {
                        walk(then, all);
                        walk(otherwise, all);
                    }
                    Instr::Loop { body, .. } => walk(body, all),
                    _ => {}
                }
            }
        }
        walk(&self.body, &mut all);
        all
    }
}
