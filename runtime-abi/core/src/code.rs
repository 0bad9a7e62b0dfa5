//! The host program made ready to run: expressions classified, launches resolved to functions.

use crate::{
    device::Module,
    elf::Code as Object,
    error::{Result, fail},
};
use oaax_abi::{Code, ExprId, Fault, Instruction, KernelFn, Program, Shape, SlotId, SlotKind, Space, eval};

/// An expression: most are a number or a register.
#[derive(Clone, Copy, Debug)]
pub enum Val {
    Const(i64),
    Reg(u32),
    Code(ExprId),
}

impl Val {
    fn new(program: &Program, id: ExprId) -> Val {
        match program.code_of(id) {
            [Code::Const(value)] => Val::Const(*value),
            [Code::Reg(reg)] => Val::Reg(reg.0),
            _ => Val::Code(id),
        }
    }

    /// Its value over registers (or over a launch's dims).
    #[inline]
    pub fn get(self, program: &Program, registers: &[i64]) -> std::result::Result<i64, Fault> {
        match self {
            Val::Const(value) => Ok(value),
            Val::Reg(reg) => registers.get(reg as usize).copied().ok_or(Fault::BadCode),
            Val::Code(id) => eval(program.code_of(id), registers),
        }
    }
}

/// A host instruction, decoded where it is hot.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// register := value
    Eval(u32, Val),
    /// To the target if the value is 0.
    Branch(Val, u32),
    Jump(u32),
    /// Launches `count` launches from `first` on in one parallel region, and passes over `count` + extra ops.
    Launch {
        first: u32,
        count: u32,
        length: u32,
    },
    /// The same where at least one of them is for the device: one after the other.
    Mixed {
        first: u32,
        count: u32,
        length: u32,
    },
    /// As `Program::steps` says.
    Slow,
}

/// What a launch runs.
#[derive(Clone, Copy, Debug)]
pub enum Function {
    Host(KernelFn),
    Device {
        /// Index in `Ready::modules`.
        object: u32,
        /// Number in the module.
        function: u32,
        threads: u32,
    },
}

/// A launch.
#[derive(Debug)]
pub struct Launch {
    pub function: Function,
    pub kernel: u32,
    /// Instruction, for messages.
    pub step: u32,
    pub buffers: Box<[SlotId]>,
    pub dims: Box<[Val]>,
    /// Over the launch's dims.
    pub groups: Val,
    /// Over the launch's dims.
    pub scratch: Val,
}

/// A program ready to run.
pub struct Ready {
    pub program: Program,
    /// Code objects on the device, by the program's numbers.
    pub modules: Vec<Option<Box<dyn Module>>>,
    pub ops: Vec<Op>,
    pub launches: Vec<Launch>,
    /// Slots whose binding ends with a run.
    pub volatile: Vec<SlotId>,
    /// Slots whose dims somebody may ask for.
    pub wants_dims: Vec<bool>,
    /// Registers that the memory plan reads.
    pub plan_registers: Vec<u32>,
    /// Whether the program places the arena itself.
    pub places: bool,
    /// Arguments of the device launch that has most, with the four that every one has.
    pub most_arguments: usize,
}

/// The symbols of a program's device kernels by object, in the order of their numbers in the module.
pub fn device_symbols(program: &Program) -> Vec<Vec<&str>> {
    let mut symbols = vec![Vec::new(); program.objects.len()];
    for kernel in program.kernels.iter().filter(|kernel| kernel.space == Space::Device) {
        for entry in &kernel.entries {
            symbols[entry.object as usize].push(program.text(entry.symbol));
        }
    }
    symbols
}

impl Ready {
    /// Resolves `program` at host level `level` (an index among the host levels) against its loaded objects and
    /// modules (by the program's numbers; modules hold what `device_symbols` says).
    pub fn new(
        program: Program,
        level: usize,
        objects: &[Option<Object>],
        modules: Vec<Option<Box<dyn Module>>>,
    ) -> Result<Ready> {
        let (mut functions, mut in_module) = (Vec::new(), vec![0u32; program.objects.len()]);
        let entry_of =
            |kernel: &oaax_abi::Kernel| kernel.entries.get(if kernel.space == Space::Device { 0 } else { level }).cloned();
        for kernel in &program.kernels {
            let Some(entry) = entry_of(kernel) else { fail!(Internal, "a kernel has no entry at the chosen level") };
            if kernel.space == Space::Device {
                let number = &mut in_module[entry.object as usize];
                functions.push(Function::Device { object: entry.object, function: *number, threads: entry.threads });
                *number += 1;
                continue;
            }
            let symbol = program.text(entry.symbol);
            let object = objects.get(entry.object as usize).and_then(Option::as_ref);
            let Some(address) = object.and_then(|object| object.symbol(symbol)) else {
                fail!(InvalidModel, "kernel {symbol} is not in its object");
            };
            // SAFETY: the symbol is a function of an object whose digest was checked; by the artefact's
            // contract kernels of the table have this signature. `Model` keeps the object mapped.
            functions.push(Function::Host(unsafe { std::mem::transmute::<*const u8, KernelFn>(address) }));
        }
        let (mut ops, mut launches) = (Vec::new(), Vec::new());
        for (index, step) in program.steps.iter().enumerate() {
            ops.push(match &step.instruction {
                Instruction::Eval { to, value } => Op::Eval(to.0, Val::new(&program, *value)),
                Instruction::Branch { condition, target } => Op::Branch(Val::new(&program, *condition), *target),
                Instruction::Jump { target } => Op::Jump(*target),
                Instruction::Parallel { count: 0 } => Op::Launch { first: 0, count: 0, length: 1 },
                Instruction::Parallel { count } => {
                    let (first, count, length) = (launches.len() as u32, *count, count + 1);
                    let group = program.steps.iter().skip(index + 1).take(count as usize);
                    match group.into_iter().any(|step| is_for_device(&program, &step.instruction)) {
                        true => Op::Mixed { first, count, length },
                        false => Op::Launch { first, count, length },
                    }
                }
                Instruction::Launch { kernel, buffers, dims } => {
                    let Some(entry) = entry_of(&program.kernels[kernel.index()]) else {
                        fail!(Internal, "a kernel has no entry at the chosen level")
                    };
                    launches.push(Launch {
                        function: functions[kernel.index()],
                        kernel: kernel.0,
                        step: index as u32,
                        buffers: buffers.clone().into(),
                        dims: dims.iter().map(|dim| Val::new(&program, *dim)).collect(),
                        groups: Val::new(&program, entry.groups),
                        scratch: Val::new(&program, entry.scratch),
                    });
                    let first = launches.len() as u32 - 1;
                    match is_for_device(&program, &step.instruction) {
                        true => Op::Mixed { first, count: 1, length: 1 },
                        false => Op::Launch { first, count: 1, length: 1 },
                    }
                }
                Instruction::Call { routine, .. } => {
                    fail!(NotImplemented, "the program calls host routine {:?}, which this runtime lacks", program.text(*routine))
                }
                _ => Op::Slow,
            });
        }
        let is_volatile = |kind: SlotKind| !matches!(kind, SlotKind::Weight { .. } | SlotKind::Arena(_));
        let slots = (0..program.slots.len() as u32).map(SlotId);
        Ok(Ready {
            volatile: slots.filter(|slot| is_volatile(program.slots[slot.index()].kind)).collect(),
            wants_dims: wants_dims(&program),
            plan_registers: plan_registers(&program),
            most_arguments: 4 + program.kernels.iter().map(|kernel| (kernel.buffers + kernel.dims) as usize).max().unwrap_or(0),
            modules,
            places: program.steps.iter().any(|step| step.instruction == Instruction::Place),
            program,
            ops,
            launches,
        })
    }
}

fn is_for_device(program: &Program, instruction: &Instruction) -> bool {
    matches!(instruction, Instruction::Launch { kernel, .. } if program.kernels[kernel.index()].space == Space::Device)
}

/// Registers that sizes of the plan depend on, each once.
fn plan_registers(program: &Program) -> Vec<u32> {
    let words = program.plan.iter().flat_map(|entry| program.code_of(entry.bytes));
    let mut registers: Vec<u32> = words.filter_map(|word| if let Code::Reg(reg) = word { Some(reg.0) } else { None }).collect();
    registers.sort_unstable();
    registers.dedup();
    registers
}

/// Slots whose dims an instruction, a cell, an output or an alias of run-time shape may ask for.
fn wants_dims(program: &Program) -> Vec<bool> {
    use Instruction::*;
    let mut wanted = vec![false; program.slots.len()];
    program.outputs.iter().for_each(|output| wanted[output.slot.index()] = true);
    for step in &program.steps {
        match &step.instruction {
            ReadDim { slot, .. } | ReadRank { slot, .. } | Alloc { like: Some(slot), .. } => wanted[slot.index()] = true,
            SequencePush { item, .. } | SequenceInsert { item, .. } | OptionalSet { item, .. } => wanted[item.index()] = true,
            _ => {}
        }
    }
    let mut changed = true;
    while changed {
        changed = false;
        for step in &program.steps {
            let Alias { slot, source, .. } = &step.instruction else { continue };
            let passes_on = wanted[slot.index()] && program.slots[slot.index()].shape == Shape::Runtime;
            if passes_on && !wanted[source.index()] {
                wanted[source.index()] = true;
                changed = true;
            }
        }
    }
    wanted
}
