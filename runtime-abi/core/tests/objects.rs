//! The loader of kernel objects: what it loads works, what it should refuse it names.

use oaax_core::KernelObject;
use oaax_testkit::{compile_object, demo_object, folder};
use std::fs;

#[test]
fn kernel_objects_that_need_anything_are_refused() {
    let folder = folder("elf");
    let refused = |source: &str| {
        let path = folder.join("k.c");
        fs::write(&path, source).expect("writable folder");
        KernelObject::load(&compile_object(&path)).expect_err(source).message
    };
    let export = "__attribute__((visibility(\"default\"))) int k(void)";
    let message = refused(&format!("extern int other(void); {export} {{ return other(); }}"));
    assert!(message.contains("lazy relocations") || message.contains("other is not defined"), "{message}");
    let message = refused(&format!("extern int other; {export} {{ return other; }}"));
    assert!(message.contains("not relative") || message.contains("other is not defined"), "{message}");
    let message = refused(&format!("static __thread int t; {export} {{ return t++; }}"));
    assert_eq!(message, "kernel object: has thread-local storage");
    let message = refused(&format!(
        "static volatile int s; __attribute__((constructor)) static void c(void) {{ s = 1; }} {export} {{ return 0; }}"
    ));
    assert_eq!(message, "kernel object: has initialisers");
}

#[test]
fn relative_relocations_and_data_work() {
    let folder = folder("relocations");
    let path = folder.join("k.c");
    let source = "static int one(void) { return 1; } static int two(void) { return 2; }
        static int (*const table[])(void) = { one, two }; static int calls = 40;
        __attribute__((visibility(\"default\"))) int k(int i) { calls += 1; return table[i]() * 100 + calls; }";
    fs::write(&path, source).expect("writable folder");
    let object = KernelObject::load(&compile_object(&path)).expect("loads");
    let address = object.symbol("k").expect("exported");
    // SAFETY: `k` is the function above.
    let k = unsafe { std::mem::transmute::<*const u8, extern "C" fn(i32) -> i32>(address) };
    assert_eq!((k(0), k(1)), (141, 242));
    assert_eq!(object.symbol("one"), None);
}

#[test]
fn no_damage_of_a_kernel_object_makes_the_loader_panic() {
    let good = demo_object();
    for at in 0..good.len().min(6000) {
        for flip in [1u8, 0x80, 0xff] {
            let mut bad = good.to_vec();
            bad[at] ^= flip;
            let _ = KernelObject::load(&bad);
        }
    }
    for length in (0..good.len()).step_by(61) {
        let _ = KernelObject::load(&good[..length]);
    }
}
