//! The operations that emitters may use, each at every CPU level: they lower, and nothing is left undefined.

use oaaxc_llvm::{Level, compile_module, link};

const CASES: &[(&str, &str)] = &[
    ("index loops, branches, while", "
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %ni = arith.index_cast %n : i64 to index
        scf.for %i = %c0 to %ni step %c1 {
          %j = arith.index_cast %i : index to i64
          %even = arith.remui %j, %n : i64
          %zero = arith.constant 0 : i64
          %is = arith.cmpi eq, %even, %zero : i64
          scf.if %is {
            %q = llvm.getelementptr %p[%j] : (!llvm.ptr, i64) -> !llvm.ptr, f32
            %one = arith.constant 1.0 : f32
            llvm.store %one, %q : f32, !llvm.ptr
          }
        }
        %w = scf.while (%k = %n) : (i64) -> i64 {
          %ten = arith.constant 10 : i64
          %go = arith.cmpi sgt, %k, %ten : i64
          scf.condition(%go) %k : i64
        } do {
        ^bb0(%k: i64):
          %two = arith.constant 2 : i64
          %h = arith.floordivsi %k, %two : i64
          scf.yield %h : i64
        }
        llvm.store %w, %p : i64, !llvm.ptr"),
    ("float arithmetic", "
        %x = llvm.load %p {alignment = 4 : i64} : !llvm.ptr -> vector<16xf32>
        %a = arith.maximumf %x, %x : vector<16xf32>
        %b = arith.minimumf %a, %x : vector<16xf32>
        %c = arith.maxnumf %b, %x : vector<16xf32>
        %d = arith.minnumf %c, %x : vector<16xf32>
        %e = arith.remf %d, %x : vector<16xf32>
        %f = arith.negf %e : vector<16xf32>
        %g = math.copysign %f, %x : vector<16xf32>
        %h = math.round %g : vector<16xf32>
        %i = math.fma %h, %x, %x : vector<16xf32>
        %isnan = arith.cmpf uno, %i, %x : vector<16xf32>
        %j = arith.select %isnan, %i, %x : vector<16xi1>, vector<16xf32>
        llvm.store %j, %p {alignment = 4 : i64} : vector<16xf32>, !llvm.ptr"),
    ("float arithmetic, double", "
        %x = llvm.load %p {alignment = 8 : i64} : !llvm.ptr -> vector<8xf64>
        %a = arith.maximumf %x, %x : vector<8xf64>
        %e = arith.remf %a, %x : vector<8xf64>
        %h = math.round %e : vector<8xf64>
        %i = math.fma %h, %x, %x : vector<8xf64>
        %k = arith.fptosi %i : vector<8xf64> to vector<8xi64>
        %l = arith.sitofp %k : vector<8xi64> to vector<8xf64>
        %m = arith.fptoui %l : vector<8xf64> to vector<8xi64>
        %o = arith.uitofp %m : vector<8xi64> to vector<8xf64>
        llvm.store %o, %p {alignment = 8 : i64} : vector<8xf64>, !llvm.ptr"),
    ("half and bfloat vectors", "
        %x = llvm.load %p {alignment = 2 : i64} : !llvm.ptr -> vector<8xf16>
        %w = arith.extf %x : vector<8xf16> to vector<8xf32>
        %b = arith.truncf %w : vector<8xf32> to vector<8xbf16>
        %v = arith.extf %b : vector<8xbf16> to vector<8xf64>
        %h = arith.truncf %v : vector<8xf64> to vector<8xf16>
        %s = arith.addf %h, %x : vector<8xf16>
        %i = arith.fptosi %s : vector<8xf16> to vector<8xi32>
        %f = arith.sitofp %i : vector<8xi32> to vector<8xf16>
        %d = arith.truncf %v : vector<8xf64> to vector<8xbf16>
        %m = arith.mulf %d, %b : vector<8xbf16>
        llvm.store %f, %p {alignment = 2 : i64} : vector<8xf16>, !llvm.ptr
        llvm.store %m, %p {alignment = 2 : i64} : vector<8xbf16>, !llvm.ptr"),
    ("integers", "
        %x = llvm.load %p {alignment = 1 : i64} : !llvm.ptr -> vector<32xi8>
        %s = arith.extsi %x : vector<32xi8> to vector<32xi32>
        %u = arith.extui %x : vector<32xi8> to vector<32xi32>
        %m = arith.muli %s, %u : vector<32xi32>
        %one = arith.constant dense<1> : vector<32xi32>
        %o = arith.ori %m, %one : vector<32xi32>
        %d = arith.divsi %s, %o : vector<32xi32>
        %r = arith.remui %d, %o : vector<32xi32>
        %q = arith.maxsi %r, %s : vector<32xi32>
        %v = arith.minui %q, %u : vector<32xi32>
        %w = arith.shrsi %v, %one : vector<32xi32>
        %pop = math.ctpop %w : vector<32xi32>
        %lz = math.ctlz %pop : vector<32xi32>
        %t = arith.trunci %lz : vector<32xi32> to vector<32xi8>
        %sum = vector.reduction <add>, %lz : vector<32xi32> into i32
        %h, %l = arith.mului_extended %n, %n : i64
        %c = arith.ceildivui %h, %n : i64
        llvm.store %c, %p : i64, !llvm.ptr
        llvm.store %sum, %p : i32, !llvm.ptr
        llvm.store %t, %p {alignment = 1 : i64} : vector<32xi8>, !llvm.ptr"),
    ("vectors", "
        %x = llvm.load %p {alignment = 4 : i64} : !llvm.ptr -> vector<8xf32>
        %f = vector.extract %x[3] : f32 from vector<8xf32>
        %b = vector.broadcast %f : f32 to vector<8xf32>
        %y = vector.fma %x, %b, %x : vector<8xf32>
        %s = vector.shuffle %x, %y [0, 8, 1, 9, 2, 10, 3, 11] : vector<8xf32>, vector<8xf32>
        %i = vector.interleave %s, %y : vector<8xf32> -> vector<16xf32>
        %c = vector.shape_cast %i : vector<16xf32> to vector<4x4xf32>
        %t = vector.transpose %c, [1, 0] : vector<4x4xf32> to vector<4x4xf32>
        %g = vector.shape_cast %t : vector<4x4xf32> to vector<16xf32>
        %e = vector.extract_strided_slice %g {offsets = [4], sizes = [8], strides = [1]} : vector<16xf32> to vector<8xf32>
        %r = vector.reduction <maximumf>, %e : vector<8xf32> into f32
        %count = arith.index_cast %n : i64 to index
        %k = vector.insert %r, %e[%count] : f32 into vector<8xf32>
        %z = arith.constant dense<0.0> : vector<8xf32>
        %mask = vector.create_mask %count : vector<8xi1>
        %ml = llvm.intr.masked.load %p, %mask, %z {alignment = 4 : i32} : (!llvm.ptr, vector<8xi1>, vector<8xf32>) -> vector<8xf32>
        %mm = arith.addf %ml, %k : vector<8xf32>
        llvm.intr.masked.store %mm, %p, %mask {alignment = 4 : i32} : vector<8xf32>, vector<8xi1> into !llvm.ptr
        %step = vector.step : vector<8xindex>
        %si = arith.index_cast %step : vector<8xindex> to vector<8xi64>
        llvm.store %si, %p {alignment = 8 : i64} : vector<8xi64>, !llvm.ptr"),
    ("loops that become library calls", "
        %c0 = arith.constant 0 : i64
        %c1 = arith.constant 1 : i64
        %z = arith.constant 0.0 : f32
        scf.for %i = %c0 to %n step %c1 : i64 {
          %q = llvm.getelementptr %p[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
          llvm.store %z, %q : f32, !llvm.ptr
        }
        %o = llvm.getelementptr %p[%n] : (!llvm.ptr, i64) -> !llvm.ptr, f32
        scf.for %i = %c0 to %n step %c1 : i64 {
          %q = llvm.getelementptr %p[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
          %t = llvm.getelementptr %o[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
          %v = llvm.load %q : !llvm.ptr -> f32
          llvm.store %v, %t : f32, !llvm.ptr
        }"),
    ("memory", "
        %size = arith.constant 4096 : i64
        %a = llvm.alloca %size x i8 {alignment = 64 : i64} : (i64) -> !llvm.ptr
        %x = llvm.load %p {alignment = 1 : i64} : !llvm.ptr -> vector<64xi8>
        llvm.store %x, %a {alignment = 64 : i64, nontemporal} : vector<64xi8>, !llvm.ptr
        \"llvm.intr.prefetch\"(%p) <{cache = 1 : i32, hint = 3 : i32, rw = 0 : i32}> : (!llvm.ptr) -> ()
        \"llvm.intr.memcpy\"(%p, %a, %n) <{isVolatile = false}> : (!llvm.ptr, !llvm.ptr, i64) -> ()
        %old = llvm.atomicrmw add %p, %n monotonic : !llvm.ptr, i64
        llvm.store %old, %a : i64, !llvm.ptr"),
    ("wide integers", "
        %w = arith.extsi %n : i64 to i128
        %x = llvm.load %p {alignment = 8 : i64} : !llvm.ptr -> i128
        %m = arith.muli %w, %x : i128
        %d = arith.divsi %m, %x : i128
        %r = arith.remui %d, %w : i128
        llvm.store %r, %p {alignment = 8 : i64} : i128, !llvm.ptr"),
];

#[test]
fn every_operation_works_at_every_level() {
    let mut faults = String::new();
    for (name, body) in CASES {
        let text = format!("func.func @k(%p: !llvm.ptr, %n: i64) {{{body}\n  return\n}}");
        for level in
            [Level::x86_64_v2(), Level::x86_64_v3(), Level::x86_64_v4(), Level::aarch64("cortex-a76", ""), Level::riscv64("+v")]
        {
            let linked = compile_module(&text, &level).and_then(|object| link(&[object], &level));
            if let Err(e) = linked {
                faults += &format!("{name}, {}: {e}\n", level.cpu);
            }
        }
    }
    assert!(faults.is_empty(), "\n{faults}");
}
