//! Compiles one function of the mathematics, runs it on many inputs and measures its error.
#![allow(dead_code)] // The test and the example each use their part.

use oaaxc_emit::math::{Body, FloatType, Function, power, unary};
use oaaxc_llvm::{Level, compile_module, link, testing::Elementwise};

/// A machine: its level, whether it has a fused multiply-add.
pub fn levels() -> Vec<(Level, bool)> {
    let mut all = vec![(Level::x86_64_v2(), false)];
    if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
        all.push((Level::x86_64_v3(), true));
    }
    if std::arch::is_x86_feature_detected!("avx512vl") && std::arch::is_x86_feature_detected!("avx512dq") {
        all.push((Level::x86_64_v4(), true));
    }
    all
}

/// MLIR of a loop that applies a body to vectors of two inputs.
fn module(ty: FloatType, body: impl Fn(&mut String) -> String) -> String {
    let (t, element, width) = (ty.text(), format!("f{}", ty.bits), ty.width);
    let align = ty.bits / 8;
    let mut lines = String::new();
    let result = body(&mut lines);
    format!(
        "func.func @run(%a: !llvm.ptr, %b: !llvm.ptr, %o: !llvm.ptr, %n: i64) {{
  %zero = arith.constant 0 : i64
  %step = arith.constant {width} : i64
  scf.for %i = %zero to %n step %step : i64 {{
    %pa = llvm.getelementptr %a[%i] : (!llvm.ptr, i64) -> !llvm.ptr, {element}
    %pb = llvm.getelementptr %b[%i] : (!llvm.ptr, i64) -> !llvm.ptr, {element}
    %po = llvm.getelementptr %o[%i] : (!llvm.ptr, i64) -> !llvm.ptr, {element}
    %x = llvm.load %pa {{alignment = {align} : i64}} : !llvm.ptr -> {t}
    %y = llvm.load %pb {{alignment = {align} : i64}} : !llvm.ptr -> {t}
{lines}    llvm.store {result}, %po {{alignment = {align} : i64}} : {t}, !llvm.ptr
  }}
  return
}}
"
    )
}

fn load(text: &str, level: &Level) -> Elementwise {
    let object = compile_module(text, level).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let linked = link(&[object], level).unwrap_or_else(|e| panic!("{e}"));
    Elementwise::load(&linked, "run").unwrap()
}

pub fn compile_unary(f: Function, ty: FloatType, level: &Level, fma: bool) -> Elementwise {
    let text = module(ty, |out| unary(&mut Body { out, next: &mut 0, fma }, f, "%x", &ty));
    load(&text, level)
}

pub fn compile_power(ty: FloatType, level: &Level, fma: bool) -> Elementwise {
    let text = module(ty, |out| power(&mut Body { out, next: &mut 0, fma }, "%x", "%y", &ty));
    load(&text, level)
}

pub fn text_of(f: Function, ty: FloatType) -> String {
    module(ty, |out| unary(&mut Body { out, next: &mut 0, fma: true }, f, "%x", &ty))
}

/// Runs over any inputs: the tail is padded.
pub fn apply<T: Copy + Default>(run: &Elementwise, x: &[T], y: &[T]) -> Vec<T> {
    let count = x.len().next_multiple_of(16);
    let pad = |v: &[T]| {
        let mut v = v.to_vec();
        v.resize(count, T::default());
        v
    };
    let (x, y, mut out) = (pad(x), pad(y), vec![T::default(); count]);
    run.run(&x, &y, &mut out);
    out
}

/// The function in double precision by the system's library: the reference of single results, and within
/// an ulp that of double ones.
pub fn reference(f: Function, x: f64) -> f64 {
    match f {
        Function::Abs => x.abs(),
        Function::Sqrt => x.sqrt(),
        Function::Rsqrt => 1.0 / x.sqrt(),
        Function::Floor => x.floor(),
        Function::Ceil => x.ceil(),
        Function::Trunc => x.trunc(),
        Function::RoundEven => x.round_ties_even(),
        Function::Exp => x.exp(),
        Function::Exp2 => x.exp2(),
        Function::Expm1 => x.exp_m1(),
        Function::Log => x.ln(),
        Function::Log2 => x.log2(),
        Function::Log1p => x.ln_1p(),
        Function::Sin => x.sin(),
        Function::Cos => x.cos(),
        Function::Tan => x.tan(),
        Function::Asin => x.asin(),
        Function::Acos => x.acos(),
        Function::Atan => x.atan(),
        Function::Sinh => x.sinh(),
        Function::Cosh => x.cosh(),
        Function::Tanh => x.tanh(),
        // Rust's own inverse hyperbolic functions lose digits.
        Function::Asinh => libm::asinh(x),
        // libm 0.2.16 answers a number far below zero.
        Function::Acosh if x < 1.0 => f64::NAN,
        Function::Acosh => libm::acosh(x),
        Function::Atanh => libm::atanh(x),
        Function::Erf => libm::erf(x),
        Function::Erfc => libm::erfc(x),
        Function::Sigmoid if x < 0.0 => x.exp() / (1.0 + x.exp()),
        Function::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Function::Softplus if x < 0.0 => x.exp().ln_1p(),
        Function::Softplus => x + (-x).exp().ln_1p(),
    }
}

/// Distance of a float from a double in units of the last place of the float nearest to it.
pub fn ulp_single(got: f32, right: f64) -> f64 {
    let nearest = right as f32;
    if nearest.is_nan() || got.is_nan() {
        return if nearest.is_nan() && got.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if got.to_bits() == nearest.to_bits() {
        return if nearest.is_finite() { ulps(got as f64, right, nearest) } else { 0.0 };
    }
    if right == 0.0 {
        return f64::INFINITY; // the sign of zero, or not zero at all
    }
    // One beyond the largest float counts as the next float.
    let got = if got.is_infinite() { (f32::MAX as f64 * (1.0 + f32::EPSILON as f64)).copysign(got as f64) } else { got as f64 };
    let finite = if nearest.is_infinite() { f32::MAX.copysign(nearest) } else { nearest };
    ulps(got, right, finite)
}

fn ulps(got: f64, right: f64, nearest: f32) -> f64 {
    let size = nearest.abs().max(f32::MIN_POSITIVE);
    let ulp = (size.next_up() as f64 - size as f64).min(f32::MAX as f64);
    let ulp = if ulp.is_finite() { ulp } else { 2f64.powi(104) };
    (got - right).abs() / ulp
}

/// The same for doubles, against a double: whole units.
pub fn ulp_double(got: f64, right: f64) -> f64 {
    if got.is_nan() || right.is_nan() {
        return if got.is_nan() && right.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if got.to_bits() == right.to_bits() {
        return 0.0;
    }
    let key = |x: f64| {
        let b = x.to_bits() as i64;
        if b < 0 { i64::MIN - b } else { b }
    };
    if right == 0.0 || (got == 0.0 && right.is_normal()) {
        return f64::INFINITY;
    }
    (key(got) as i128 - key(right) as i128).unsigned_abs() as f64
}

/// Every `step`-th bit pattern of a float, and the neighbourhood of zero, one, and multiples of π/2.
pub fn inputs_single(step: usize) -> Vec<f32> {
    let mut all: Vec<f32> = (0..=u32::MAX).step_by(step).map(f32::from_bits).collect();
    let mut special =
        vec![0.0, f32::INFINITY, f32::NAN, f32::MIN_POSITIVE, f32::MAX, 1e-45, 88.72284, 88.7229, 103.97, 104.1, 0.5, 1.0, 2.0];
    special.extend((1..300).map(|k| (k as f64 * std::f64::consts::FRAC_PI_2) as f32));
    special.extend((-149..128).map(|e| 2f64.powi(e) as f32));
    for s in special {
        for x in [s, s.next_up(), s.next_down()] {
            all.extend([x, -x]);
        }
    }
    all
}

/// Doubles of every exponent below `limit` and dense small ranges.
pub fn inputs_double(count: u64) -> Vec<f64> {
    let mut all: Vec<f64> = (0..count)
        .map(|i| f64::from_bits((i << 44 | i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        .collect();
    let spread = |range: f64| (0..count).map(move |i| (i as f64 / count as f64 - 0.5) * 2.0 * range + 1e-7);
    for range in [1.0, 3.0, 30.0, 750.0, 1e5] {
        all.extend(spread(range));
    }
    for s in [0.0, f64::INFINITY, f64::NAN, f64::MIN_POSITIVE, f64::MAX, 5e-324, 1.0, 0.5, 709.782712893384, 745.1332191019411] {
        for x in [s, s.next_up(), s.next_down()] {
            all.extend([x, -x]);
        }
    }
    all
}
