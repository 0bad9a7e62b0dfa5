//! The hidden support module: what -O3 and instruction selection call at some CPU level, written here.
//!
//! A code object has no other code to lean on, not even libc. The sources are LLVM IR by hand; a routine
//! that an object does not use is dropped by the linker, and none is visible outside.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use crate::{
    codegen::{Llvm, machine},
    error::BackendError,
    level::{Level, Output},
};

/// memcpy, memmove, memset, memcmp, bcmp · fmod, fmodf, fma, fmaf · half and bfloat16 · 128-bit division.
pub(crate) const SOURCES: [&str; 4] = [
    include_str!("support/memory.ll"),
    include_str!("support/float.ll"),
    include_str!("support/convert.ll"),
    include_str!("support/integer.ll"),
];

type Objects = Arc<Vec<Vec<u8>>>;

/// The support objects of a level, compiled once per process.
pub(crate) fn objects(level: &Level) -> Result<Objects, BackendError> {
    static KNOWN: Mutex<Option<HashMap<Level, Objects>>> = Mutex::new(None);
    let mut known = KNOWN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let known = known.get_or_insert_with(HashMap::new);
    if let Some(objects) = known.get(level) {
        return Ok(Arc::clone(objects));
    }
    let machine = machine(level)?;
    let mut objects = Vec::new();
    for source in SOURCES {
        let llvm = Llvm::new();
        let module = llvm.parse_ir(source)?;
        // The text is in its final shape: nothing to unroll or vectorise.
        llvm.optimise(&module, &machine, level, &[], "function(instcombine,simplifycfg)")?;
        objects.push(llvm.emit(&module, &machine, Output::Object)?);
    }
    let objects = Arc::new(objects);
    known.insert(level.clone(), Arc::clone(&objects));
    Ok(objects)
}
