//! Compiles and links kernels for every chip, and looks at the machine code's metadata.

use oaaxc_ir::kernel::{Kernel, Step};
use oaaxc_kernel_cases::{is_new, multiplies_halves};
use oaaxc_llvm::{compile_module, emit_asm, link};
use oaaxc_target_gpu::emit_kernel;
use oaaxc_target_rocm::{CHIPS, gpu, machine};

/// Links for each chip: no undefined symbol (the linker), no flat access, no private memory (see
/// `private_limit`), groups of known size.
pub fn check(kernel: &Kernel, _: &[i64], _: &[Vec<u8>], _: f64) {
    for chip in CHIPS {
        let emitted = emit_kernel(kernel, "kernel_under_test", &gpu(chip)).unwrap();
        if !is_new(&format!("{chip} {}", emitted.text)) {
            continue;
        }
        let level = machine(chip);
        let object = compile_module(&emitted.text, &level).unwrap_or_else(|e| panic!("{chip}: {e}\n{}", emitted.text));
        link(&[object], &level).unwrap_or_else(|e| panic!("{chip} {}: {e}", kernel.name.0));
        let text = emit_asm(&emitted.text, &level).unwrap();
        let name = &kernel.name.0;
        let flat = text.lines().find(|l| l.trim_start().starts_with("flat_"));
        assert_eq!(flat, None, "{chip} {name}: a flat access");
        let value = |key: &str| text.lines().find_map(|l| l.trim().strip_prefix(key)).map(str::trim);
        let private: u64 = value(".private_segment_fixed_size:").and_then(|bytes| bytes.parse().ok()).expect("metadata says");
        assert!(private <= private_limit(chip, kernel), "{chip} {name}: {private} bytes of private memory");
        assert_eq!(value(".max_flat_workgroup_size:"), Some(emitted.threads.to_string().as_str()), "{chip} {name}");
        // Halves are multiplied by matrix instructions.
        let matrix = text.contains("v_mfma_") || text.contains("v_wmma_");
        assert_eq!(matrix, multiplies_halves(kernel), "{chip} {name}: matrix instructions");
        assert!(text.contains(".amdhsa_code_object_version 5"), "{chip} {name}");
    }
}

/// Bytes of private memory that a kernel may use: none, but LLVM spills some tiles of contractions on RDNA chips.
fn private_limit(chip: &str, kernel: &Kernel) -> u64 {
    match kernel.single_step() {
        Some(Step::Contract(_)) if chip.starts_with("gfx1") => 1024,
        _ => 0,
    }
}
