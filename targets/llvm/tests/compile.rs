//! The in-process way: text to object, IR and assembly, and errors as text.

use oaaxc_llvm::{Level, Stage, compile_module, emit_asm, emit_llvm_ir};

const KERNEL: &str = r#"
func.func @k(%p: !llvm.ptr, %b: i64, %e: i64) -> f32 {
  %c1 = arith.constant 1 : i64
  %z = arith.constant dense<0.0> : vector<8xf32>
  %r = scf.for %i = %b to %e step %c1 iter_args(%acc = %z) -> (vector<8xf32>) : i64 {
    %q = llvm.getelementptr %p[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
    %v = llvm.load %q {alignment = 4 : i64} : !llvm.ptr -> vector<8xf32>
    %w = vector.fma %v, %v, %acc : vector<8xf32>
    %x = math.floor %w : vector<8xf32>
    scf.yield %x : vector<8xf32>
  }
  %s = vector.reduction <add>, %r : vector<8xf32> into f32
  return %s : f32
}
"#;

#[test]
fn a_kernel_becomes_an_elf_object() {
    for level in [Level::x86_64_v2(), Level::x86_64_v3(), Level::x86_64_v4(), Level::native()] {
        let object = compile_module(KERNEL, &level).unwrap();
        assert_eq!(&object[..4], b"\x7fELF");
        assert_eq!(object, compile_module(KERNEL, &level).unwrap(), "same bytes again");
    }
}

#[test]
fn readable_forms() {
    assert!(emit_llvm_ir(KERNEL, &Level::x86_64_v3()).unwrap().contains("define"));
    assert!(emit_asm(KERNEL, &Level::x86_64_v3()).unwrap().contains("vfmadd"));
    let wide = "func.func @k(%p: !llvm.ptr, %n: i64) { %c0 = arith.constant 0 : i64\n %c1 = arith.constant 1 : i64\n scf.for %i = %c0 to %n step %c1 : i64 { %q = llvm.getelementptr %p[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32\n %v = llvm.load %q : !llvm.ptr -> f32\n %w = arith.addf %v, %v : f32\n llvm.store %w, %q : f32, !llvm.ptr }\n return }";
    assert!(emit_asm(wide, &Level::x86_64_v4()).unwrap().contains("zmm"));
    assert!(!emit_asm(wide, &Level::x86_64_v3()).unwrap().contains("zmm"));
}

#[test]
fn bad_text_is_an_error_with_a_place() {
    let e = compile_module("func.func @k() { %a = arith.addf %b, %b : f32 return }", &Level::x86_64_v3()).unwrap_err();
    assert_eq!(e.stage, Stage::Parse);
    assert!(e.message.contains("undeclared"), "{e}");
    let e = compile_module("func.func @k(%m: tensor<4xf32>) -> tensor<4xf32> { return %m : tensor<4xf32> }", &Level::x86_64_v3())
        .unwrap_err();
    assert!(matches!(e.stage, Stage::Lower | Stage::Translate), "{e}");
    let level = Level { triple: "pdp11-dec-unix".into(), ..Level::x86_64_v3() };
    assert_eq!(compile_module(KERNEL, &level).unwrap_err().stage, Stage::Machine);
}

#[test]
fn private_functions_stay_inside() {
    let text = "func.func private @helper(%a: f32) -> f32 attributes {no_inline} { return %a : f32 }\nfunc.func @k(%a: f32) -> f32 { %b = call @helper(%a) : (f32) -> f32 return %b : f32 }";
    let ir = emit_llvm_ir(text, &Level::x86_64_v3()).unwrap();
    assert!(!ir.contains("define float @helper"), "{ir}");
}
