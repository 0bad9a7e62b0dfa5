//! The host program as plain data: what the runtime interprets and the compiler builds.
//!
//! A [`Program`] that came out of [`Program::parse`] or `ProgramBuilder::finish` is valid: every
//! id, range, label and expression in it has been proved in range (`validate.rs`).

use crate::{
    dtype::DType,
    expr::{Code, Fault, eval},
    ids::{ExprId, KernelId, Reg, SlotId, StringId},
};
use alloc::{string::String, vec::Vec};

/// The most dims that a tensor may have.
pub const MAX_RANK: usize = 64;
/// Dims that an unranked input is padded to (with leading ones).
pub const UNRANKED_DIMS: u32 = 8;
/// Alignment of arena, heap, weights and scratch, in bytes.
pub const ALIGN: u64 = 64;

/// Where memory is and where kernels run. Each space has its own arena, heap and weights.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Space {
    /// The CPU and its memory. Inputs, outputs and cells of a program are always here.
    #[default]
    Host = 0,
    /// The accelerator of the variant and its memory.
    Device = 1,
}

impl Space {
    /// How many there are.
    pub const COUNT: usize = 2;

    /// The space as an index.
    pub fn index(self) -> usize {
        self as usize
    }
}

/// A whole host program.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Program {
    /// The model's name, for cards and messages.
    pub name: String,
    /// Who made the program, for example `oaaxc 0.1.0`.
    pub producer: String,
    /// Interned strings; see [`Program::text`].
    pub strings: Vec<String>,
    /// How many registers a run needs.
    pub registers: u32,
    /// Postfix code of all expressions, one after the other.
    pub code: Vec<Code>,
    /// Start and length in `code` of each expression.
    pub expressions: Vec<(u32, u32)>,
    /// Values.
    pub slots: Vec<Slot>,
    /// Inputs in the model's order.
    pub inputs: Vec<Input>,
    /// Outputs in the model's order.
    pub outputs: Vec<Output>,
    /// The memory plan of the arena.
    pub plan: Vec<PlanEntry>,
    /// What kernels are compiled for: host levels from lowest to highest, and at most one device level.
    pub levels: Vec<Level>,
    /// Kernel objects; entry k is the file that the manifest's variant lists at place k.
    pub objects: Vec<Object>,
    /// Kernels.
    pub kernels: Vec<Kernel>,
    /// The instructions; falling off the end ends the run.
    pub steps: Vec<Step>,
}

/// A value: a tensor, or a sequence or optional cell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Slot {
    /// Element type (of the elements, for a cell).
    pub dtype: DType,
    /// Dims; not used by cells.
    pub shape: Shape,
    /// Where it lives.
    pub kind: SlotKind,
    /// Host or device. Inputs, outputs and cells are on the host; an alias is where its source is.
    pub space: Space,
    /// Size in bytes where it is not dims × element size (blocked layouts, halos).
    pub bytes: Option<ExprId>,
}

/// Dims of a slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shape {
    /// One expression a dim.
    Dims(Vec<ExprId>),
    /// Known only at run time: taken from whatever the slot is bound to.
    Runtime,
}

/// Where a slot lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SlotKind {
    /// The caller's buffer of tensor input `i` (read only).
    Input(u32),
    /// The buffer of tensor output `i`: the caller's where it fits, else the runtime's.
    /// It is allocated at its first use, or by `Alloc` where dims are known late.
    Output(u32),
    /// `length` bytes at `offset` of weight file `file` (the manifest's list), read only, 64-byte aligned.
    Weight {
        /// Index in the manifest's list of weight files.
        file: u32,
        /// First byte.
        offset: u64,
        /// Length in bytes.
        length: u64,
    },
    /// Entry `i` of the memory plan.
    Arena(u32),
    /// Allocated by `Alloc`, counted, freed by `Free` or at the end of the run.
    Heap,
    /// Bound by `Alias`, `SequenceGet` or `OptionalGet` to another value.
    Alias,
    /// A sequence of tensors.
    Sequence,
    /// A tensor, a sequence, or nothing.
    Optional,
}

/// An input of the model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Input {
    /// Its ONNX name.
    pub name: StringId,
    /// Of kind `Input(i)` with its own index, `Sequence` or `Optional`.
    pub slot: SlotId,
    /// Element type.
    pub dtype: DType,
    /// What a run checks and binds.
    pub shape: InputShape,
}

/// Rules for the dims of an input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InputShape {
    /// One rule a dim.
    Ranked(Vec<DimRule>),
    /// Any rank up to eight: the rank goes to `rank`, dims to eight registers from `first` on,
    /// padded with leading ones.
    Unranked {
        /// Receives the rank.
        rank: Reg,
        /// First of eight registers.
        first: Reg,
    },
    /// A cell: nothing is bound.
    Cell,
}

/// One dim of an input. All `Bind`s of a run happen before its `Expect`s.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DimRule {
    /// What happens to the dim.
    pub bind: DimBind,
    /// Symbol or expression as text (`N`, `2*H`), empty for a number or a fresh dim.
    pub symbol: StringId,
    /// Smallest size allowed.
    pub min: i64,
    /// Largest size allowed.
    pub max: i64,
    /// The size must be a multiple of this (≥ 1).
    pub multiple: i64,
}

/// What a run does with a dim of an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DimBind {
    /// First occurrence of a symbol: the size goes to a register.
    Bind(Reg),
    /// The size must equal the expression.
    Expect(ExprId),
}

/// An output of the model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Output {
    /// Its ONNX name.
    pub name: StringId,
    /// Any slot; if it is not of kind `Output(i)`, its value is copied out at the end.
    pub slot: SlotId,
    /// Element type.
    pub dtype: DType,
    /// What is known beforehand, for introspection only; `None` if not even the rank is.
    pub dims: Option<Vec<OutputDim>>,
}

/// One dim of an output, for introspection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OutputDim {
    /// The size if it is a number, else -1.
    pub size: i64,
    /// Symbol or expression as text, empty if there is none.
    pub symbol: StringId,
}

/// One buffer of the arena.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanEntry {
    /// The slot of kind `Arena` with this entry's index.
    pub slot: SlotId,
    /// The space of the slot.
    pub space: Space,
    /// Size in bytes.
    pub bytes: ExprId,
    /// First instruction at which it must exist.
    pub first: u32,
    /// Last instruction at which it must exist (inclusive).
    pub last: u32,
    /// A plan entry of the same space whose bytes it may take over in place: same offset, same size, dying where
    /// this begins.
    pub may_alias: Option<u32>,
}

/// An instruction set that kernels are compiled for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Level {
    /// A CPU level (`x86-64-v2`, `aarch64`; unique over architectures) or a device's (`gfx942`, `sm_80`, `spirv64`).
    pub name: StringId,
    /// Whose instruction set it is.
    pub space: Space,
}

/// A file of kernels for one level.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Object {
    /// Index in `levels`.
    pub level: u32,
    /// A name for messages.
    pub name: StringId,
}

/// A kernel: the same function for every level of its space.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kernel {
    /// A name for profiles and messages.
    pub name: StringId,
    /// The ONNX nodes that it came from.
    pub origin: StringId,
    /// ONNX nodes by the `place` of a fault slot; place 0 stands for the launch's own node where it names one.
    pub places: Vec<StringId>,
    /// Number of buffers that it takes.
    pub buffers: u32,
    /// Number of dims that it takes.
    pub dims: u32,
    /// Scalar operations of a launch, over its own dims, for profiles; 0 where nobody counted.
    pub operations: ExprId,
    /// Bytes that a launch reads and writes, likewise.
    pub bytes: ExprId,
    /// Whether it was made by the target's generic path, without a schedule of its own; for profiles.
    pub generic: bool,
    /// Where it runs; all its buffers are there.
    pub space: Space,
    /// One for each level of its own space, in the order of `levels`.
    pub entries: Vec<KernelEntry>,
}

/// A kernel at one level. Its expressions are over its own dims: register i is dim i.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelEntry {
    /// Index in `objects`; the object must be of this level.
    pub object: u32,
    /// Symbol of the function.
    pub symbol: StringId,
    /// Number of groups (independent parts) of a launch.
    pub groups: ExprId,
    /// Bytes of scratch for each worker (host) or each launched work group (device).
    pub scratch: ExprId,
    /// Threads of a work group; 0 on the host.
    pub threads: u32,
}

/// An instruction with the ONNX node that it serves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// What to do.
    pub instruction: Instruction,
    /// Node name for messages.
    pub node: Option<StringId>,
}

/// One host instruction. A fault ends the run with an error that names the node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Instruction {
    /// `to` := value.
    Eval { to: Reg, value: ExprId },
    /// Fails with `message` if `condition` is 0.
    Check { condition: ExprId, message: StringId },
    /// Places the arena for the registers as they are now. Without it the arena is placed before
    /// the first instruction.
    Place,
    /// Gives a heap or output slot fresh memory for its dims (or the dims of `like`).
    Alloc { slot: SlotId, like: Option<SlotId> },
    /// Drops a heap, alias or cell slot's hold on its memory.
    Free { slot: SlotId },
    /// Binds an alias slot to `source`, `offset` bytes in; dims are the slot's own, or `source`'s if
    /// the slot's shape is `Runtime`. The memory lives as long as one of both does (heap), or as long
    /// as the source's plan entry (arena).
    Alias { slot: SlotId, source: SlotId, offset: Option<ExprId> },
    /// Runs a kernel on `buffers` with `dims`.
    Launch { kernel: KernelId, buffers: Vec<SlotId>, dims: Vec<ExprId> },
    /// The next `count` instructions are launches that do not depend on one another.
    Parallel { count: u32 },
    /// Copies the bytes of `from` to `to` (sizes must agree), from any space to any.
    Copy { to: SlotId, from: SlotId },
    /// `to` := element `index` (flat, row major) of a tensor of integers, bools or floats; a float
    /// arrives as the bits of an f64.
    ReadCell { to: Reg, slot: SlotId, index: ExprId },
    /// Element `index` := value; converse of `ReadCell`. An integer that does not fit is a fault.
    WriteCell { slot: SlotId, index: ExprId, value: ExprId },
    /// `to` := size of dim `axis` of the value that the slot holds now.
    ReadDim { to: Reg, slot: SlotId, axis: ExprId },
    /// `to` := number of dims of the value that the slot holds now.
    ReadRank { to: Reg, slot: SlotId },
    /// Goes to `target` if `condition` is 0.
    Branch { condition: ExprId, target: u32 },
    /// Goes to `target`; the number of instructions is the end.
    Jump { target: u32 },
    /// A named host routine; refused at load if the runtime has none of that name.
    Call { routine: StringId, slots: Vec<SlotId>, arguments: Vec<ExprId> },
    /// `cell` := empty sequence.
    SequenceNew { cell: SlotId },
    /// Appends a tensor. A heap tensor is shared, not copied: it must not be written afterwards before a
    /// fresh `Alloc`. The same holds for `SequenceInsert` and `OptionalSet`.
    SequencePush { cell: SlotId, item: SlotId },
    /// Binds an alias slot to element `index`; a negative index counts from the end.
    SequenceGet { to: SlotId, cell: SlotId, index: ExprId },
    /// `to` := number of elements.
    SequenceLength { to: Reg, cell: SlotId },
    /// Inserts before `index` (-n ≤ index ≤ n).
    SequenceInsert { cell: SlotId, index: ExprId, item: SlotId },
    /// Removes element `index`.
    SequenceErase { cell: SlotId, index: ExprId },
    /// `to` := the value of another cell (elements are shared, not copied).
    CellAssign { to: SlotId, from: SlotId },
    /// `cell` := nothing.
    OptionalNone { cell: SlotId },
    /// `cell` := a tensor or a sequence.
    OptionalSet { cell: SlotId, item: SlotId },
    /// Binds an alias slot to the tensor, or copies the sequence to a sequence slot; fails if there is nothing.
    OptionalGet { to: SlotId, cell: SlotId },
    /// `to` := 1 if there is a value, else 0.
    OptionalHas { to: Reg, cell: SlotId },
    /// Ends the run with an error.
    Fail { message: StringId },
}

impl Program {
    /// The levels of a space with their indices, in order.
    pub fn levels_of(&self, space: Space) -> impl Iterator<Item = (usize, &Level)> {
        self.levels.iter().enumerate().filter(move |(_, level)| level.space == space)
    }

    /// The space of a slot.
    pub fn space(&self, slot: SlotId) -> Space {
        self.slots.get(slot.index()).map_or(Space::Host, |slot| slot.space)
    }

    /// The text of an interned string.
    pub fn text(&self, id: StringId) -> &str {
        self.strings.get(id.index()).map_or("", |text| text.as_str())
    }

    /// The postfix code of an expression; empty (a fault when evaluated) if it does not exist.
    pub fn code_of(&self, id: ExprId) -> &[Code] {
        let range = self.expressions.get(id.index()).map(|&(start, length)| {
            let start = start as usize;
            start..start.saturating_add(length as usize)
        });
        range.and_then(|range| self.code.get(range)).unwrap_or(&[])
    }

    /// The value of an expression over `registers`.
    pub fn eval(&self, id: ExprId, registers: &[i64]) -> Result<i64, Fault> {
        eval(self.code_of(id), registers)
    }
}

impl Instruction {
    /// Where control may go other than to the next instruction.
    pub fn target(&self) -> Option<u32> {
        match self {
            Instruction::Branch { target, .. } | Instruction::Jump { target } => Some(*target),
            _ => None,
        }
    }
}
