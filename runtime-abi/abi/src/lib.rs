//! oaax-abi: the records that compiler and runtime share — the host program, its expression
//! evaluator, the memory placement rule with its checker, and the kernel entry.
//!
//! Promises: depends on nothing but `core` and `alloc`; [`Program::parse`] accepts any bytes and
//! gives either a program proved valid or an error; building the same program twice gives equal
//! bytes. Never: reads files, runs kernels, knows the compiler.
//!
//! # How a compiler encodes a program
//!
//! Build with [`ProgramBuilder`], [`ProgramBuilder::finish`], then [`Program::encode`] for the bytes
//! of `program.bin`. Sizes are [`Expr`]essions over registers; a register gets its value from an
//! input's dim ([`Dim::bind`]), from `eval`, from an integer cell ([`Instruction::ReadCell`]).
//!
//! * **Slots** are values. Tensors: `input`, `output` (kernels write the caller's memory),
//!   `weight`, `arena` (memory plan; live ranges are derived by `finish` from uses, extended over
//!   loops and parallel groups), `heap` (`Alloc`/`Free`, counted), `alias` (bound by `Alias`,
//!   `SequenceGet`, `OptionalGet`). Cells: `sequence`, `optional`.
//! * **Spaces**: slots and kernels are on the host unless [`ProgramBuilder::on_device`] and
//!   `KernelSpec::space` say otherwise; `Copy` goes between spaces.
//! * **Kernels** have one entry for each level of their space, in the order of [`ProgramBuilder::level`]; the group
//!   count and scratch expressions are over the launch's own dims: `Expr::dim(i)`, not registers.
//! * **Instructions**: [`Instruction`]. Falling off the end ends the run.
//! * **The arena** is placed before the first instruction, unless the program holds
//!   [`Instruction::Place`] (after the `eval`s that its sizes need). Sizes that become known later
//!   than that belong on the heap.
//! * **An output** whose dims become known late: its dims name registers set by `ReadCell`; the
//!   buffer is allocated at its first use.
//!
//! ```
//! use oaax_abi::{DType, Dim, EntrySpec, Expr, KernelSpec, Program, ProgramBuilder, Space};
//! let mut b = ProgramBuilder::new("sum", "example");
//! let n = b.register();
//! let x = b.input("x", DType::F32, &[Dim::bind(n, "N").within(1, 1 << 20, 1)]);
//! let y = b.input("y", DType::F32, &[Dim::expect(n, "N")]);
//! let t = b.arena(DType::F32, &[n.into()], None);
//! let z = b.output("z", DType::F32, &[(n.into(), "N")]);
//! let level = b.level("x86-64-v2");
//! let object = b.object(level, "x86-64-v2.so");
//! let add = b.kernel(&KernelSpec {
//!     name: "add".into(),
//!     origin: "Add_0".into(),
//!     places: vec![],
//!     buffers: 3,
//!     dims: 1,
//!     space: Space::Host,
//!     entries: vec![EntrySpec {
//!         object,
//!         symbol: "demo_add_f32".into(),
//!         groups: Expr::dim(0).ceil_div(1024),
//!         scratch: Expr::Const(0),
//!         threads: 0,
//!     }],
//!     ..KernelSpec::default()
//! });
//! b.node("Add_0");
//! b.launch(add, &[x, y, t], &[n.into()]);
//! b.node("Add_1");
//! b.launch(add, &[t, y, z], &[n.into()]);
//! let program = b.finish().expect("a valid program");
//! let bytes = program.encode();
//! assert_eq!(Program::parse(&bytes).as_ref(), Ok(&program));
//! ```
#![no_std]

extern crate alloc;

mod builder;
mod decode;
mod dtype;
mod encode;
mod expr;
mod ids;
mod kernel;
mod plan;
mod program;
mod validate;
mod wire;

pub use builder::{Dim, DimOf, EntrySpec, KernelSpec, Label, ProgramBuilder, dims_bytes};
pub use dtype::DType;
pub use expr::{Code, Expr, Fault, MAX_STACK, Operator, check_code, eval, not, select};
pub use ids::{ExprId, KernelId, Reg, SlotId, StringId};
pub use kernel::{DeviceFault, FAULT_DIVISION, FAULT_INDEX, FAULT_VALUE, KERNEL_VERSION, KernelEnv, KernelFault, KernelFn};
pub use plan::{Placement, check_placement, check_ranges, place, slots_of};
pub use program::*;
pub use wire::{MAGIC, ParseError, VERSION};
