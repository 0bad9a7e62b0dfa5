//! The way in one process: MLIR text in, an object or a readable form of it out.
//!
//! A call holds no state, touches no file and is deterministic: the same text and level give the same
//! bytes. It may end the process (LLVM aborts on some errors): untrusted kernels go through
//! [`crate::WorkerPool`].

use crate::{
    codegen::{Llvm, machine},
    error::{BackendError, Stage},
    isolate::isolated,
    level::{Level, Output},
    lower::Mlir,
};

/// A form of a compiled module that a reader may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// What [`Level::output`] says: an ELF object, a SPIR-V binary, PTX.
    Code,
    /// The module in MLIR's LLVM dialect, after our pipeline.
    LoweredMlir,
    /// Optimised LLVM IR.
    LlvmIr,
    /// Assembly text.
    Assembly,
}

/// Compiles MLIR text to the code of `level`: for a CPU a relocatable ELF object.
///
/// Public functions are exported, `private` ones become internal; none may unwind.
pub fn compile_module(mlir: &str, level: &Level) -> Result<Vec<u8>, BackendError> {
    compile_form(mlir, level, Form::Code)
}

/// The optimised LLVM IR of the module, as text.
pub fn emit_llvm_ir(mlir: &str, level: &Level) -> Result<String, BackendError> {
    compile_form(mlir, level, Form::LlvmIr).map(|b| String::from_utf8_lossy(&b).into_owned())
}

/// The assembly of the module, as text.
pub fn emit_asm(mlir: &str, level: &Level) -> Result<String, BackendError> {
    compile_form(mlir, level, Form::Assembly).map(|b| String::from_utf8_lossy(&b).into_owned())
}

/// Compiles to any [`Form`].
pub fn compile_form(mlir: &str, level: &Level, form: Form) -> Result<Vec<u8>, BackendError> {
    match level.portable {
        true => isolated(|| compile_here(mlir, level, form)),
        false => compile_here(mlir, level, form),
    }
}

fn compile_here(mlir: &str, level: &Level, form: Form) -> Result<Vec<u8>, BackendError> {
    let frontend = Mlir::new();
    let lowered = frontend.lower(mlir)?;
    if form == Form::LoweredMlir {
        return Ok(lowered.module.as_operation().to_string().into_bytes());
    }
    let llvm = Llvm::new();
    let raw = frontend.translate(&lowered, llvm.context.raw())?;
    // SAFETY: `translate` made an owned module of this context.
    let module = unsafe { llvm.adopt(raw) };
    let machine = machine(level)?;
    llvm.optimise(&module, &machine, level, &lowered.private, "default<O3>")?;
    if level.portable {
        let text = module.print_to_string().to_string();
        if let Some(width) = odd_width(&text) {
            return Err(BackendError::new(Stage::Codegen, format!("the optimiser made an integer of {width} bits")));
        }
    }
    match form {
        Form::Code => llvm.emit(&module, &machine, level.output),
        Form::Assembly => llvm.emit(&module, &machine, Output::Assembly),
        Form::LlvmIr => Ok(module.print_to_string().to_string().into_bytes()),
        Form::LoweredMlir => unreachable!("answered before translation"),
    }
}

/// The first integer type in LLVM IR that is neither a truth value nor as wide as one to eight bytes.
fn odd_width(text: &str) -> Option<u32> {
    let separators = |c: char| !(c.is_ascii_alphanumeric() || "_.%@$\"-".contains(c));
    let widths = text.split(separators).filter_map(|word| word.strip_prefix('i')?.parse().ok());
    widths.into_iter().find(|width| ![1, 8, 16, 32, 64].contains(width))
}
