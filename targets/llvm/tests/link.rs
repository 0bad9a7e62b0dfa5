//! The linked object stands alone, and the support module computes what libc and compiler-rt compute.

mod common;

use common::{Loaded, build};
use oaaxc_llvm::{BackendError, Level, Stage, compile_module, link};

/// Uses everything that -O3 or instruction selection may turn into a call.
const CALLS: &str = r#"
llvm.func @memmove(!llvm.ptr, !llvm.ptr, i64) -> !llvm.ptr
llvm.func @memcmp(!llvm.ptr, !llvm.ptr, i64) -> i32
llvm.func @bcmp(!llvm.ptr, !llvm.ptr, i64) -> i32
func.func @t_memcpy(%d: !llvm.ptr, %s: !llvm.ptr, %n: i64) {
  "llvm.intr.memcpy"(%d, %s, %n) <{isVolatile = false}> : (!llvm.ptr, !llvm.ptr, i64) -> ()
  return
}
func.func @t_memmove(%d: !llvm.ptr, %s: !llvm.ptr, %n: i64) {
  "llvm.intr.memmove"(%d, %s, %n) <{isVolatile = false}> : (!llvm.ptr, !llvm.ptr, i64) -> ()
  return
}
func.func @t_memset(%d: !llvm.ptr, %v: i8, %n: i64) {
  "llvm.intr.memset"(%d, %v, %n) <{isVolatile = false}> : (!llvm.ptr, i8, i64) -> ()
  return
}
func.func @t_memcmp(%a: !llvm.ptr, %b: !llvm.ptr, %n: i64) -> i32 {
  %r = llvm.call @memcmp(%a, %b, %n) : (!llvm.ptr, !llvm.ptr, i64) -> i32
  return %r : i32
}
func.func @t_bcmp(%a: !llvm.ptr, %b: !llvm.ptr, %n: i64) -> i32 {
  %r = llvm.call @bcmp(%a, %b, %n) : (!llvm.ptr, !llvm.ptr, i64) -> i32
  return %r : i32
}
func.func @t_fmod(%x: f64, %y: f64) -> f64 { %r = arith.remf %x, %y : f64 return %r : f64 }
func.func @t_fmodf(%x: f32, %y: f32) -> f32 { %r = arith.remf %x, %y : f32 return %r : f32 }
func.func @t_fma(%x: f64, %y: f64, %z: f64) -> f64 { %r = math.fma %x, %y, %z : f64 return %r : f64 }
func.func @t_fmaf(%x: f32, %y: f32, %z: f32) -> f32 { %r = math.fma %x, %y, %z : f32 return %r : f32 }
func.func @t_to_half(%x: f32) -> i16 { %h = arith.truncf %x : f32 to f16 %r = arith.bitcast %h : f16 to i16 return %r : i16 }
func.func @t_from_half(%x: i16) -> f32 { %h = arith.bitcast %x : i16 to f16 %r = arith.extf %h : f16 to f32 return %r : f32 }
func.func @t_double_to_half(%x: f64) -> i16 { %h = arith.truncf %x : f64 to f16 %r = arith.bitcast %h : f16 to i16 return %r : i16 }
func.func @t_to_bfloat(%x: f32) -> i16 { %h = arith.truncf %x : f32 to bf16 %r = arith.bitcast %h : bf16 to i16 return %r : i16 }
func.func @t_double_to_bfloat(%x: f64) -> i16 { %h = arith.truncf %x : f64 to bf16 %r = arith.bitcast %h : bf16 to i16 return %r : i16 }
func.func @t_udiv(%x: i128, %y: i128) -> i128 { %r = arith.divui %x, %y : i128 return %r : i128 }
func.func @t_urem(%x: i128, %y: i128) -> i128 { %r = arith.remui %x, %y : i128 return %r : i128 }
func.func @t_sdiv(%x: i128, %y: i128) -> i128 { %r = arith.divsi %x, %y : i128 return %r : i128 }
func.func @t_srem(%x: i128, %y: i128) -> i128 { %r = arith.remsi %x, %y : i128 return %r : i128 }
func.func @t_inline(%x: vector<8xf32>, %p: !llvm.ptr) {
  %a = math.floor %x : vector<8xf32>
  %b = math.ceil %a : vector<8xf32>
  %c = math.trunc %b : vector<8xf32>
  %d = math.roundeven %c : vector<8xf32>
  %e = math.round %d : vector<8xf32>
  %f = math.sqrt %e : vector<8xf32>
  %g = math.copysign %f, %x : vector<8xf32>
  llvm.store %g, %p {alignment = 4 : i64} : vector<8xf32>, !llvm.ptr
  return
}
"#;

#[test]
fn the_support_module_satisfies_every_level() {
    for level in [Level::x86_64_v2(), Level::x86_64_v3(), Level::x86_64_v4()] {
        let object = compile_module(CALLS, &level).unwrap();
        let linked = link(std::slice::from_ref(&object), &level).unwrap();
        assert_eq!(linked, link(&[object], &level).unwrap(), "linking is deterministic");
    }
}

#[test]
fn other_machines_link_too() {
    let kernel = "func.func @k(%p: !llvm.ptr, %x: f32, %y: f32) { %r = arith.remf %x, %y : f32 llvm.store %r, %p : f32, !llvm.ptr return }";
    for level in [Level::aarch64("cortex-a76", ""), Level::riscv64(""), Level::riscv64("+v")] {
        link(&[compile_module(kernel, &level).unwrap()], &level).unwrap();
    }
}

#[test]
fn an_undefined_symbol_is_an_error_that_names_it() {
    let text = "llvm.func @missing() -> i32\nfunc.func @k() -> i32 { %r = llvm.call @missing() : () -> i32 return %r : i32 }";
    let level = Level::x86_64_v3();
    let e: BackendError = link(&[compile_module(text, &level).unwrap()], &level).unwrap_err();
    assert_eq!(e.stage, Stage::Link);
    assert!(e.message.contains("missing"), "{e}");
    assert!(!e.message.contains("/tmp"), "{e}");
    assert!(link(&[b"garbage".to_vec()], &level).is_err());
}

#[test]
fn two_objects_become_one() {
    let level = Level::x86_64_v3();
    let part = |name: &str, n: i32| {
        let text = format!(
            "func.func private @h() -> i32 attributes {{no_inline}} {{ %r = arith.constant {n} : i32 return %r : i32 }}\nfunc.func @{name}() -> i32 {{ %r = call @h() : () -> i32 return %r : i32 }}"
        );
        compile_module(&text, &level).unwrap()
    };
    let loaded = Loaded::new(&link(&[part("a", 4), part("b", 5)], &level).unwrap());
    // SAFETY: the signatures are those of the text above.
    unsafe {
        assert_eq!(loaded.get::<extern "C" fn() -> i32>("a")(), 4);
        assert_eq!(loaded.get::<extern "C" fn() -> i32>("b")(), 5);
    }
}

fn levels_we_can_run() -> Vec<Level> {
    let mut levels = vec![Level::x86_64_v2()];
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        levels.push(Level::x86_64_v3());
    }
    if std::arch::is_x86_feature_detected!("avx512vl") && std::arch::is_x86_feature_detected!("avx512bw") {
        levels.push(Level::x86_64_v4());
    }
    levels
}

/// A linear congruential sequence of bit patterns: all exponents, NaN and infinities among them.
fn patterns(count: usize) -> Vec<u64> {
    let mut state = 0x1234_5678_9abc_def0_u64;
    let mut all = vec![
        0,
        1,
        1 << 63,
        0x7ff0 << 48,
        0xfff0 << 48,
        0x7ff8 << 48,
        0x3ff0 << 48,
        1 << 52,
        (1 << 52) - 1,
        0x7fef_ffff_ffff_ffff,
    ];
    all.extend((0..count).map(|_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        state ^ (state >> 29)
    }));
    all
}

fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

#[test]
fn memory_routines() {
    for level in levels_we_can_run() {
        let loaded = build(CALLS, &level);
        // SAFETY: the signatures are those of the text; all ranges lie inside the buffers.
        unsafe {
            type Copy = extern "C" fn(*mut u8, *const u8, usize);
            let memcpy = loaded.get::<Copy>("t_memcpy");
            let memmove = loaded.get::<Copy>("t_memmove");
            let memset = loaded.get::<extern "C" fn(*mut u8, u8, usize)>("t_memset");
            let memcmp = loaded.get::<extern "C" fn(*const u8, *const u8, usize) -> i32>("t_memcmp");
            let bcmp = loaded.get::<extern "C" fn(*const u8, *const u8, usize) -> i32>("t_bcmp");
            let source: Vec<u8> = (0..500u32).map(|i| (i * 7 + i / 13) as u8).collect();
            for n in (0..140).chain([191, 192, 193, 255, 300]) {
                let mut target = vec![0xaa; 500];
                memcpy(target.as_mut_ptr().add(3), source.as_ptr().add(5), n);
                assert_eq!(&target[3..3 + n], &source[5..5 + n]);
                assert!(target[..3].iter().chain(&target[3 + n..]).all(|&b| b == 0xaa), "memcpy {n}");
                memset(target.as_mut_ptr().add(1), 0x5b, n);
                assert!(target[1..1 + n].iter().all(|&b| b == 0x5b) && target[0] == 0xaa);
                assert_eq!(target[1 + n], if n > 1 { source[5 + n - 2] } else { target[1 + n] });
                for distance in [0isize, 1, 7, 15, 16, 17, 40, 64, -1, -9, -16, -30] {
                    let mut moved = source.clone();
                    let mut expected = source.clone();
                    let to = (50 + distance) as usize;
                    expected.copy_within(50..50 + n, to);
                    memmove(moved.as_mut_ptr().add(to), moved.as_ptr().add(50), n);
                    assert_eq!(moved, expected, "memmove {n} by {distance}");
                }
                let mut other = source.clone();
                assert_eq!(memcmp(other.as_ptr(), source.as_ptr(), n), 0);
                if n > 0 {
                    other[n - 1] = other[n - 1].wrapping_add(1);
                    let order = memcmp(other.as_ptr(), source.as_ptr(), n).signum();
                    assert_eq!(order, other[..n].cmp(&source[..n]) as i32);
                    assert_ne!(bcmp(other.as_ptr(), source.as_ptr(), n), 0);
                }
            }
        }
    }
}

#[test]
fn remainders_and_fused_products() {
    for level in levels_we_can_run() {
        let loaded = build(CALLS, &level);
        // SAFETY: the signatures are those of the text.
        let (fmod, fmodf, fma, fmaf) = unsafe {
            (
                loaded.get::<extern "C" fn(f64, f64) -> f64>("t_fmod"),
                loaded.get::<extern "C" fn(f32, f32) -> f32>("t_fmodf"),
                loaded.get::<extern "C" fn(f64, f64, f64) -> f64>("t_fma"),
                loaded.get::<extern "C" fn(f32, f32, f32) -> f32>("t_fmaf"),
            )
        };
        let p = patterns(20_000);
        for w in p.windows(3) {
            let [x, y, z] = [w[0], w[1], w[2]].map(f64::from_bits);
            assert!(same(fmod(x, y), x % y), "fmod({x:e}, {y:e})");
            assert!(same(fma(x, y, z), x.mul_add(y, z)), "fma({x:e}, {y:e}, {z:e}) {:e} {:e}", fma(x, y, z), x.mul_add(y, z));
            let [s, t, u] = [w[0], w[1], w[2]].map(|b| f32::from_bits((b >> 32) as u32));
            assert!(same(fmodf(s, t) as f64, (s % t) as f64), "fmodf({s:e}, {t:e})");
            assert!(same(fmaf(s, t, u) as f64, s.mul_add(t, u) as f64), "fmaf({s:e}, {t:e}, {u:e})");
            // Near cancellation, near the subnormal border, near a tie.
            let near = -(x * y);
            for z in [near, near.next_up(), near * (1.0 + 2f64.powi(-30)), f64::from_bits(w[2] >> 8)] {
                assert!(same(fma(x, y, z), x.mul_add(y, z)), "fma({x:e}, {y:e}, {z:e})");
            }
            let [a, b] = [w[0], w[1]].map(|v| f64::from_bits(v & 0x001f_ffff_ffff_ffff | (0x1ff0 << 48)));
            for z in [0.0, -0.0, f64::from_bits(w[2] & 0xff), f64::from_bits(w[2] >> 12)] {
                assert!(same(fma(a, b, z), a.mul_add(b, z)), "fma({a:e}, {b:e}, {z:e})");
            }
            let c = s as f64 as f32;
            let near = -(c * t);
            assert!(same(fmaf(c, t, near) as f64, c.mul_add(t, near) as f64));
        }
    }
}

/// `half` drops the low word of a double before it rounds, so its answer is only a neighbour of the right one.
fn nearest(guess: u16, x: f64, value: impl Fn(u16) -> f64) -> u16 {
    if !value(guess).is_finite() || x == 0.0 || guess & 0x7fff == 0 {
        return guess;
    }
    let error = |bits: u16| (value(bits) - x).abs();
    let candidates = [guess - 1, guess, guess + 1];
    let finite = candidates.into_iter().filter(|&b| value(b).is_finite());
    finite.min_by(|&a, &b| error(a).total_cmp(&error(b)).then((a & 1).cmp(&(b & 1)))).unwrap()
}

#[test]
fn half_and_bfloat_are_rounded_once() {
    for level in levels_we_can_run() {
        let loaded = build(CALLS, &level);
        // SAFETY: the signatures are those of the text.
        let (to, from, double_to, bfloat, double_bfloat) = unsafe {
            (
                loaded.get::<extern "C" fn(f32) -> u16>("t_to_half"),
                loaded.get::<extern "C" fn(u16) -> f32>("t_from_half"),
                loaded.get::<extern "C" fn(f64) -> u16>("t_double_to_half"),
                loaded.get::<extern "C" fn(f32) -> u16>("t_to_bfloat"),
                loaded.get::<extern "C" fn(f64) -> u16>("t_double_to_bfloat"),
            )
        };
        for h in 0..=u16::MAX {
            let x = half::f16::from_bits(h);
            let wide = from(h);
            if x.is_nan() {
                assert!(wide.is_nan() && half::f16::from_bits(to(wide)).is_nan());
                continue;
            }
            assert_eq!(wide.to_bits(), x.to_f32().to_bits());
            assert_eq!(to(wide), h);
            assert_eq!(double_to(wide as f64), h);
            // Each midpoint between two halves, and its neighbours.
            let next = half::f16::from_bits(h + 1);
            if next.is_finite() && h & 0x7fff != 0x7fff {
                let middle = (x.to_f64() + next.to_f64()) / 2.0;
                let even = if h & 1 == 0 { h } else { h + 1 };
                let (out, inward) = (h + 1, h);
                assert_eq!(to(middle as f32), even, "{middle:e}");
                assert_eq!(double_to(middle), even, "{middle:e}");
                let (a, b) = (f64::from_bits(middle.to_bits() + 1), f64::from_bits(middle.to_bits() - 1));
                assert_eq!((double_to(a), double_to(b)), (out, inward), "{middle:e}");
                let m = (middle as f32).to_bits();
                assert_eq!((to(f32::from_bits(m + 1)), to(f32::from_bits(m - 1))), (out, inward));
            }
        }
        for b in patterns(100_000) {
            let (x, d) = (f32::from_bits((b >> 32) as u32), f64::from_bits(b));
            let near = f64::from_bits(((x as f64).to_bits() & !0xffff) + (b & 3));
            let nan = |h: u16| half::bf16::from_bits(h).is_nan();
            if x.is_nan() {
                assert!(nan(bfloat(x)));
                continue;
            }
            assert_eq!(bfloat(x), half::bf16::from_f32(x).to_bits(), "{x:e}");
            assert_eq!(to(x), half::f16::from_f32(x).to_bits(), "{x:e}");
            for d in [d, near] {
                if d.is_nan() {
                    assert!(nan(double_bfloat(d)));
                    continue;
                }
                let nearest = nearest(half::f16::from_f64(d).to_bits(), d, |b| half::f16::from_bits(b).to_f64());
                assert_eq!(double_to(d), nearest, "{d:e}");
                let nearest = self::nearest(half::bf16::from_f64(d).to_bits(), d, |b| half::bf16::from_bits(b).to_f64());
                assert_eq!(double_bfloat(d), nearest, "{d:e}");
            }
        }
    }
}

#[test]
fn wide_division() {
    let loaded = build(CALLS, &Level::x86_64_v2());
    // SAFETY: i128 has the C ABI of __int128.
    unsafe {
        type Unsigned = extern "C" fn(u128, u128) -> u128;
        type Signed = extern "C" fn(i128, i128) -> i128;
        let (udiv, urem) = (loaded.get::<Unsigned>("t_udiv"), loaded.get::<Unsigned>("t_urem"));
        let (sdiv, srem) = (loaded.get::<Signed>("t_sdiv"), loaded.get::<Signed>("t_srem"));
        let p = patterns(2000);
        for w in p.windows(4) {
            let a = (w[0] as u128) << 64 | w[1] as u128;
            for b in
                [w[2] as u128, (w[2] as u128) << 64 | w[3] as u128, a.wrapping_add(1), a, 1, u128::MAX, (w[3] & 7) as u128 + 1]
            {
                if b == 0 {
                    continue;
                }
                for a in [a, a >> (w[3] % 127), w[1] as u128] {
                    assert_eq!((udiv(a, b), urem(a, b)), (a / b, a % b), "{a} {b}");
                    let (s, t) = (a as i128, b as i128);
                    assert_eq!((sdiv(s, t), srem(s, t)), (s.wrapping_div(t), s.wrapping_rem(t)), "{s} {t}");
                }
            }
        }
    }
}
