//! MLIR text to the LLVM dialect: parse, verify, one fixed pass pipeline.
//!
//! Accepted dialects: `func`, `arith`, `math` (operations with an LLVM intrinsic), `scf`, `cf`, `index`,
//! `vector`, `llvm`. No memref: kernels address raw `!llvm.ptr`. The pipeline is the same for all
//! machines and all kernels; no option changes it.

use std::{cell::RefCell, rc::Rc};

use melior::{
    Context,
    dialect::DialectRegistry,
    ir::{BlockLike, Module, attribute::StringAttribute, operation::OperationLike},
    pass::PassManager,
    utility::{parse_pass_pipeline, register_all_dialects, register_all_llvm_translations, register_all_passes},
};

use crate::error::{BackendError, Stage};

/// Structured control flow first, then every dialect straight to LLVM, then a check that nothing is left.
pub(crate) const PIPELINE: &str = "builtin.module(\
    canonicalize,cse,func.func(loop-invariant-code-motion),\
    convert-vector-to-scf,convert-scf-to-cf,\
    convert-vector-to-llvm,convert-math-to-llvm,convert-arith-to-llvm,convert-index-to-llvm,\
    convert-func-to-llvm,convert-cf-to-llvm,convert-ub-to-llvm,\
    canonicalize,cse,reconcile-unrealized-casts)";

/// An MLIR context with our dialects, which collects diagnostics instead of printing them.
pub(crate) struct Mlir {
    context: Context,
    messages: Rc<RefCell<Vec<String>>>,
}

/// A module in the LLVM dialect, and the names of its private functions (which become internal).
pub(crate) struct Lowered<'c> {
    pub module: Module<'c>,
    pub private: Vec<String>,
}

impl Mlir {
    pub fn new() -> Mlir {
        static PASSES: std::sync::Once = std::sync::Once::new();
        PASSES.call_once(register_all_passes);
        let registry = DialectRegistry::new();
        register_all_dialects(&registry);
        let context = Context::new();
        context.enable_multi_threading(false);
        context.append_dialect_registry(&registry);
        register_all_llvm_translations(&context);
        let messages = Rc::new(RefCell::new(Vec::new()));
        let sink = Rc::clone(&messages);
        context.attach_diagnostic_handler(move |diagnostic| {
            sink.borrow_mut().push(format!("{}: {diagnostic}", diagnostic.location()));
            true
        });
        Mlir { context, messages }
    }

    fn error(&self, stage: Stage, fallback: &str) -> BackendError {
        let mut messages = self.messages.take();
        if messages.is_empty() {
            messages.push(fallback.to_string());
        }
        BackendError::new(stage, messages.join("\n"))
    }

    /// Parses `text` and lowers it to the LLVM dialect.
    pub fn lower(&self, text: &str) -> Result<Lowered<'_>, BackendError> {
        self.messages.borrow_mut().clear();
        if text.contains('\0') {
            return Err(BackendError::new(Stage::Parse, "MLIR text holds a NUL character"));
        }
        let mut module =
            Module::parse(&self.context, text).ok_or_else(|| self.error(Stage::Parse, "the module does not parse"))?;
        if !module.as_operation().verify() {
            return Err(self.error(Stage::Parse, "the module does not verify"));
        }
        let private = private_functions(&module);
        let passes = PassManager::new(&self.context);
        parse_pass_pipeline(passes.as_operation_pass_manager(), PIPELINE)
            .map_err(|e| BackendError::new(Stage::Lower, e.to_string()))?;
        passes.run(&mut module).map_err(|_| self.error(Stage::Lower, "the pass pipeline failed"))?;
        Ok(Lowered { module, private })
    }

    /// Translates into the LLVM context behind `llvm`, an `LLVMContextRef`; the result is an owned
    /// `LLVMModuleRef` of that context.
    pub fn translate(
        &self,
        lowered: &Lowered<'_>,
        llvm: llvm_sys::prelude::LLVMContextRef,
    ) -> Result<llvm_sys::prelude::LLVMModuleRef, BackendError> {
        let operation = lowered.module.as_operation().to_raw();
        // SAFETY: both handles are live; mlir-sys and llvm-sys declare the same C types apart.
        let raw = unsafe { mlir_sys::mlirTranslateModuleToLLVMIR(operation, llvm.cast()) };
        if raw.is_null() {
            return Err(self.error(Stage::Translate, "the module does not translate"));
        }
        Ok(raw.cast())
    }
}

/// Functions that the text declares `private`: invisible to other objects.
fn private_functions(module: &Module) -> Vec<String> {
    let mut names = Vec::new();
    let mut next = module.body().first_operation();
    while let Some(operation) = next {
        let string = |name: &str| {
            let attribute = operation.attribute(name).ok()?;
            Some(StringAttribute::try_from(attribute).ok()?.value().to_string())
        };
        if string("sym_visibility").as_deref() == Some("private") {
            names.extend(string("sym_name"));
        }
        next = operation.next_in_block();
    }
    names
}
