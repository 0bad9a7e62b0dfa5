//! LLVM IR to machine code: the optimiser and the code generator behind one [`Level`].
//!
//! LLVM reports some errors by a context-wide handler whose default ends the process; ours collects the
//! text and fails the compilation, because the emitting call then returns success with a wrong object.
//! What LLVM reports by abort cannot be caught here: see [`crate::WorkerPool`].

use std::ffi::{CStr, c_void};

use inkwell::{
    OptimizationLevel,
    attributes::{Attribute, AttributeLoc},
    context::Context,
    memory_buffer::MemoryBuffer,
    module::{Linkage, Module},
    passes::PassBuilderOptions,
    targets::{CodeModel, FileType, InitializationConfig, RelocMode, Target, TargetMachine, TargetMachineOptions, TargetTriple},
    values::FunctionValue,
};
use llvm_sys::{LLVMDiagnosticSeverity, core, prelude::LLVMDiagnosticInfoRef};

use crate::{
    error::{BackendError, Stage},
    level::{Level, Output},
};

/// An LLVM context that collects diagnostics.
pub(crate) struct Llvm {
    pub context: Context,
    messages: Box<Messages>,
}

#[derive(Default)]
struct Messages {
    errors: Vec<String>,
}

extern "C" fn collect(info: LLVMDiagnosticInfoRef, messages: *mut c_void) {
    // SAFETY: `messages` is the box that `Llvm` owns and outlives the context; LLVM calls this from the
    // thread that uses the context. The description is a C string that we free.
    unsafe {
        if core::LLVMGetDiagInfoSeverity(info) as u32 != LLVMDiagnosticSeverity::LLVMDSError as u32 {
            return;
        }
        let text = core::LLVMGetDiagInfoDescription(info);
        let message = CStr::from_ptr(text).to_string_lossy().into_owned();
        core::LLVMDisposeMessage(text);
        (*messages.cast::<Messages>()).errors.push(message);
    }
}

impl Llvm {
    pub fn new() -> Llvm {
        initialise_machines();
        let context = Context::create();
        let mut messages = Box::<Messages>::default();
        let sink: *mut Messages = &mut *messages;
        // SAFETY: the box's address is stable and the context dies with it (fields drop in order).
        unsafe {
            core::LLVMContextSetDiagnosticHandler(context.raw(), Some(collect), sink.cast());
        }
        Llvm { context, messages }
    }

    /// Takes over a module that MLIR translated into our context.
    ///
    /// # Safety
    /// `raw` is an owned module of `self.context`.
    pub unsafe fn adopt(&self, raw: llvm_sys::prelude::LLVMModuleRef) -> Module<'_> {
        // SAFETY: promised by the caller.
        unsafe { Module::new(raw) }
    }

    /// Parses LLVM IR text (the support module).
    pub fn parse_ir(&self, text: &str) -> Result<Module<'_>, BackendError> {
        let buffer = MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), "support");
        self.context.create_module_from_ir(buffer).map_err(|e| BackendError::new(Stage::Parse, e.to_string()))
    }

    fn check(&self, stage: Stage) -> Result<(), BackendError> {
        match self.messages.errors.is_empty() {
            true => Ok(()),
            false => Err(BackendError::new(stage, self.messages.errors.join("\n"))),
        }
    }

    /// Sets triple, data layout and attributes, and runs `pipeline` (as `opt -passes` spells it).
    pub fn optimise(
        &self,
        module: &Module,
        machine: &TargetMachine,
        level: &Level,
        private: &[String],
        pipeline: &str,
    ) -> Result<(), BackendError> {
        module.set_triple(&machine.get_triple());
        module.set_data_layout(&machine.get_target_data().get_data_layout());
        for function in module.get_functions().filter(|f| f.count_basic_blocks() > 0) {
            self.attribute(function, level);
            let name = function.get_name().to_string_lossy();
            if private.iter().any(|p| p == name.as_ref()) {
                function.set_linkage(Linkage::Internal);
            }
        }
        module.verify().map_err(|e| BackendError::new(Stage::Translate, e.to_string()))?;
        let options = PassBuilderOptions::create();
        options.set_loop_vectorization(level.vectorise);
        options.set_loop_slp_vectorization(level.vectorise);
        options.set_loop_interleaving(level.vectorise);
        options.set_loop_unrolling(true);
        module.run_passes(pipeline, machine, options).map_err(|e| BackendError::new(Stage::Optimise, e.to_string()))?;
        self.check(Stage::Optimise)
    }

    /// Kernels never unwind (so no unwind tables) and use vectors as wide as the level wants.
    fn attribute(&self, function: FunctionValue, level: &Level) {
        let nounwind = Attribute::get_named_enum_kind_id("nounwind");
        let nounwind = self.context.create_enum_attribute(nounwind, 0);
        function.add_attribute(AttributeLoc::Function, nounwind);
        if level.prefer_vector_width > 0 {
            let width = level.prefer_vector_width.to_string();
            let width = self.context.create_string_attribute("prefer-vector-width", &width);
            function.add_attribute(AttributeLoc::Function, width);
        }
    }

    /// Emits machine code, or its assembly text.
    pub fn emit(&self, module: &Module, machine: &TargetMachine, output: Output) -> Result<Vec<u8>, BackendError> {
        let file = match output {
            Output::Object => FileType::Object,
            Output::Assembly => FileType::Assembly,
        };
        let buffer =
            machine.write_to_memory_buffer(module, file).map_err(|e| BackendError::new(Stage::Codegen, e.to_string()))?;
        self.check(Stage::Codegen)?;
        let bytes = buffer.as_slice();
        // Text buffers of LLVM end in a NUL that is not theirs.
        let bytes = match output {
            Output::Assembly => bytes.strip_suffix(b"\0").unwrap_or(bytes),
            Output::Object => bytes,
        };
        Ok(bytes.to_vec())
    }
}

// llvm-sys leaves this machine out.
unsafe extern "C" {
    fn LLVMInitializeSPIRVTargetInfo();
    fn LLVMInitializeSPIRVTarget();
    fn LLVMInitializeSPIRVTargetMC();
    fn LLVMInitializeSPIRVAsmPrinter();
}

/// Makes every machine known, once. A worker's first request may be a link, so each door comes through here.
fn initialise_machines() {
    static MACHINES: std::sync::Once = std::sync::Once::new();
    MACHINES.call_once(|| {
        let config = InitializationConfig::default();
        Target::initialize_x86(&config);
        Target::initialize_aarch64(&config);
        Target::initialize_riscv(&config);
        Target::initialize_amd_gpu(&config);
        Target::initialize_nvptx(&config);
        // SAFETY: plain registration calls of libLLVM, run once.
        unsafe {
            LLVMInitializeSPIRVTargetInfo();
            LLVMInitializeSPIRVTarget();
            LLVMInitializeSPIRVTargetMC();
            LLVMInitializeSPIRVAsmPrinter();
        }
    });
}

/// LLVM's machine for a level: position-independent, fully optimised.
pub(crate) fn machine(level: &Level) -> Result<TargetMachine, BackendError> {
    initialise_machines();
    let triple = TargetTriple::create(&level.triple);
    let target = Target::from_triple(&triple).map_err(|e| BackendError::new(Stage::Machine, e.to_string()))?;
    let options = TargetMachineOptions::new()
        .set_cpu(&level.cpu)
        .set_features(&level.features)
        .set_abi(&level.abi)
        .set_level(if level.portable { OptimizationLevel::None } else { OptimizationLevel::Aggressive })
        .set_reloc_mode(RelocMode::PIC)
        .set_code_model(CodeModel::Default);
    target
        .create_target_machine_from_options(&triple, options)
        .ok_or_else(|| BackendError::new(Stage::Machine, format!("no machine {} for {}", level.cpu, level.triple)))
}
