//! The vector mathematics, compiled and run: bounds on the error over dense samples, special values, pow.

mod harness;

use harness::{apply, compile_power, compile_unary, inputs_double, inputs_single, levels, reference, ulp_double, ulp_single};
use oaaxc_emit::math::{FloatType, Function};

/// Units in the last place that a single result may be off.
fn bound_single(f: Function) -> f64 {
    match f {
        Function::Abs | Function::Floor | Function::Ceil | Function::Trunc | Function::RoundEven => 0.0,
        Function::Sqrt => 0.501,
        _ => 2.0,
    }
}

fn worst_single(f: Function, x: &[f32], got: &[f32]) -> (f64, f32) {
    let pairs = x.iter().zip(got).map(|(&x, &y)| (ulp_single(y, reference(f, x as f64)), x));
    pairs.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap()
}

#[test]
fn single_results_are_within_two_ulps_everywhere() {
    let x = inputs_single(9973);
    let mut faults = String::new();
    for (level, fma) in levels() {
        for f in Function::ALL {
            let run = compile_unary(f, FloatType::f32(8), &level, fma);
            let got = apply(&run, &x, &x);
            let (worst, at) = worst_single(f, &x, &got);
            if worst > bound_single(f) {
                let i = x.iter().position(|v| v.to_bits() == at.to_bits()).unwrap();
                faults +=
                    &format!("{f:?} {}: {worst} ulp at {at:e}: {:e}, not {:e}\n", level.cpu, got[i], reference(f, at as f64));
            }
        }
    }
    assert!(faults.is_empty(), "\n{faults}");
}

#[test]
fn double_results_are_within_a_few_ulps() {
    let x = inputs_double(20_000);
    let mut faults = String::new();
    for (level, fma) in levels() {
        for f in Function::ALL {
            let run = compile_unary(f, FloatType::f64(4), &level, fma);
            let got = apply(&run, &x, &x);
            let circular = matches!(f, Function::Sin | Function::Cos | Function::Tan);
            let mut worst = (0.0, 0.0, 0.0);
            for (&x, &y) in x.iter().zip(&got) {
                if circular && x.is_finite() && x.abs() >= 35184372088832.0 {
                    continue; // documented
                }
                let e = ulp_double(y, reference(f, x));
                if e > worst.0 {
                    worst = (e, x, y);
                }
            }
            if worst.0 > 8.0 {
                faults += &format!(
                    "{f:?} {}: {} ulp at {:e}: {:e}, not {:e}\n",
                    level.cpu,
                    worst.0,
                    worst.1,
                    worst.2,
                    reference(f, worst.1)
                );
            }
        }
    }
    assert!(faults.is_empty(), "\n{faults}");
}

#[test]
fn every_width_gives_the_same_bits() {
    let x = inputs_single(1_000_003);
    let (level, fma) = levels().pop().unwrap();
    for f in Function::ALL {
        let results = [1, 4, 16].map(|w| apply(&compile_unary(f, FloatType::f32(w), &level, fma), &x, &x));
        for other in &results[1..] {
            for (a, b) in results[0].iter().zip(other) {
                assert!(a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()), "{f:?}");
            }
        }
    }
}

const POINTS: [f64; 23] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    -2.0,
    0.5,
    -0.5,
    3.0,
    -3.0,
    1.5,
    -1.5,
    7.0,
    1e30,
    -1e30,
    1e-30,
    1e-310,
    9007199254740993.0,
    16777217.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    0.999999,
];

/// Bases and exponents whose power covers the whole range, and all pairs of special values.
fn power_pairs(single: bool) -> Vec<(f64, f64)> {
    let mut pairs: Vec<(f64, f64)> = POINTS.iter().flat_map(|&x| POINTS.map(|y| (x, y))).collect();
    let range = if single { 150.0 } else { 1080.0 };
    for i in 1..20_000_u32 {
        let u = (i as f64 * 0.6180339887498949).fract();
        let v = (i as f64 * 0.7548776662466927).fract();
        let x = ((u - 0.5) * if i % 3 == 0 { 0.1 } else { 80.0 }).exp2();
        pairs.push((x, (v - 0.5) * 2.0 * range / x.log2().abs().max(1e-3)));
        pairs.push((-x, ((v - 0.5) * 40.0).round()));
        pairs.push((x, (v - 0.5) * 6.0));
    }
    pairs
}

#[test]
fn powers_single() {
    let pairs = power_pairs(true);
    let (x, y): (Vec<f32>, Vec<f32>) = pairs.iter().map(|&(x, y)| (x as f32, y as f32)).unzip();
    for (level, fma) in levels() {
        let got = apply(&compile_power(FloatType::f32(8), &level, fma), &x, &y);
        for i in 0..x.len() {
            let right = (x[i] as f64).powf(y[i] as f64);
            assert!(ulp_single(got[i], right) <= 1.0, "{:e}^{:e} = {:e}, not {right:e} ({})", x[i], y[i], got[i], level.cpu);
        }
    }
}

#[test]
fn powers_double() {
    let pairs = power_pairs(false);
    let (x, y): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    for (level, fma) in levels() {
        let got = apply(&compile_power(FloatType::f64(4), &level, fma), &x, &y);
        for i in 0..x.len() {
            let right = x[i].powf(y[i]);
            assert!(ulp_double(got[i], right) <= 16.0, "{:e}^{:e} = {:e}, not {right:e} ({})", x[i], y[i], got[i], level.cpu);
        }
    }
}

#[test]
fn scalar_bodies_are_vectorised_by_the_compiler() {
    for f in Function::ALL {
        let text = harness::text_of(f, FloatType::f32(1));
        let assembly = oaaxc_llvm::emit_asm(&text, &oaaxc_llvm::Level::x86_64_v3()).unwrap();
        let packed = assembly.lines().filter(|l| l.contains("ymm")).count();
        assert!(packed > 2, "{f:?} stays scalar");
        assert!(!assembly.contains("call"), "{f:?} calls");
    }
}
