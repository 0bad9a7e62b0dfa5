//! Accelerators are levels like any other: AMD code objects, PTX, SPIR-V from the same pipeline.

use oaaxc_llvm::{Level, compile_module, emit_asm, link};

/// y[i] = 2·x[i] for one work item, with the calling convention and index of a machine.
fn kernel(convention: &str, index: &str) -> String {
    format!(
        "llvm.func {convention} @double(%x: !llvm.ptr<1>, %y: !llvm.ptr<1>) {{
  {index}
  %px = llvm.getelementptr %x[%i] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
  %py = llvm.getelementptr %y[%i] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, f32
  %v = llvm.load %px : !llvm.ptr<1> -> f32
  %w = arith.addf %v, %v : f32
  llvm.store %w, %py : f32, !llvm.ptr<1>
  llvm.return
}}"
    )
}

#[test]
fn amd_gpus_get_a_code_object() {
    let text = kernel("amdgpu_kernelcc", "%i = rocdl.workitem.id.x : i32");
    for chip in ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"] {
        let level = Level::amdgcn(chip);
        let linked = link(&[compile_module(&text, &level).unwrap()], &level).unwrap();
        let has = |needle: &[u8]| linked.windows(needle.len()).any(|w| w == needle);
        assert!(has(b"double.kd") && has(b"amdhsa.kernels"), "{chip}");
    }
}

#[test]
fn nvidia_gpus_get_ptx() {
    let text = kernel("ptx_kernelcc", "%i = nvvm.read.ptx.sreg.tid.x : i32");
    for (chip, ptx) in [("sm_80", "+ptx80"), ("sm_90a", "+ptx80"), ("sm_100a", "+ptx86"), ("sm_120", "+ptx87")] {
        let text = String::from_utf8(compile_module(&text, &Level::nvptx(chip, ptx)).unwrap()).unwrap();
        assert!(text.contains(".entry double") && text.contains(&format!(".target {chip}")), "{text}");
    }
}

#[test]
fn opencl_devices_get_spirv() {
    let text = kernel(
        "spir_kernelcc",
        "%c = llvm.mlir.constant(0 : i32) : i32 %i = llvm.call_intrinsic \"llvm.spv.thread.id.i32\"(%c) : (i32) -> i32",
    );
    let binary = compile_module(&text, &Level::spirv()).unwrap();
    assert_eq!(&binary[..4], [3, 2, 0x23, 7], "SPIR-V's magic number");
    assert!(emit_asm(&text, &Level::spirv()).unwrap().contains("OpEntryPoint Kernel"));
}
