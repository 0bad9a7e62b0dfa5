//! Measures the vector mathematics and prints `docs/math.md`.
//! Run: `cargo run --release -p oaaxc-emit --example math_table > docs/math.md`

#[path = "../tests/harness/mod.rs"]
mod harness;

use std::time::Instant;

use harness::{apply, compile_power, compile_unary, inputs_double, inputs_single, levels, reference, ulp_double, ulp_single};
use oaaxc_emit::math::{FloatType, Function};
use oaaxc_llvm::{Level, testing::Elementwise};

fn main() {
    println!("# Vector mathematics: measured errors\n");
    println!("Printed by `cargo run --release -p oaaxc-emit --example math_table`; the code is `targets/emit/src/math`.");
    println!("Errors are the largest found, in units of the last place (ulp), over every 997th float");
    println!("with the neighbourhoods of powers of two and of multiples of π/2 (about 4.3 million inputs), against");
    println!("libm in double precision, and for doubles over about 1.2 million inputs against libm itself, which");
    println!("is off by up to one ulp or so: a double column says the distance of two approximations.");
    println!("Half an ulp is a correctly rounded result.");
    println!("`v2` has no fused multiply-add, `v3` has.");
    println!("Time is per float on one core of the measuring machine in a loop over vectors of eight, level v3.\n");
    println!("| function | f32, v3 | f32, v2 | f64, v3 | f64, v2 | ns per float |");
    println!("|---|---|---|---|---|---|");
    let x = inputs_single(997);
    let wide = inputs_double(200_000);
    let machines = levels();
    let [(v2, _), (v3, _), ..] = machines.as_slice() else { panic!("needs a machine with AVX2 and FMA") };
    for f in Function::ALL {
        let single = |level: &Level, fma: bool| {
            let got = apply(&compile_unary(f, FloatType::f32(8), level, fma), &x, &x);
            let pairs = x.iter().zip(&got);
            pairs.map(|(&x, &y)| ulp_single(y, reference(f, x as f64))).fold(0.0, f64::max)
        };
        let double = |level: &Level, fma: bool| {
            let got = apply(&compile_unary(f, FloatType::f64(4), level, fma), &wide, &wide);
            let pairs = wide.iter().zip(&got).filter(|(x, _)| reduced(f, **x));
            pairs.map(|(&x, &y)| ulp_double(y, reference(f, x))).fold(0.0, f64::max)
        };
        let time = nanoseconds(compile_unary(f, FloatType::f32(8), v3, true));
        let row = [single(v3, true), single(v2, false), double(v3, true), double(v2, false)];
        println!("| {f:?} | {:.2} | {:.2} | {} | {} | {time:.2} |", row[0], row[1], row[2], row[3]);
    }
    let count = 1_000_000;
    let pairs: Vec<(f64, f64)> = (1..count).map(|i| pair(i as f64)).collect();
    let (bases, exponents): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
    let narrow = |v: &[f64]| v.iter().map(|&x| x as f32).collect::<Vec<f32>>();
    let (b, e) = (narrow(&bases), narrow(&exponents));
    let single = |level: &Level, fma: bool| {
        let got = apply(&compile_power(FloatType::f32(8), level, fma), &b, &e);
        let all = got.iter().take(b.len()).enumerate();
        all.map(|(i, &y)| ulp_single(y, (b[i] as f64).powf(e[i] as f64))).fold(0.0, f64::max)
    };
    let double = |level: &Level, fma: bool| {
        let got = apply(&compile_power(FloatType::f64(4), level, fma), &bases, &exponents);
        let all = got.iter().take(bases.len()).enumerate();
        all.map(|(i, &y)| ulp_double(y, bases[i].powf(exponents[i]))).fold(0.0, f64::max)
    };
    let time = nanoseconds(compile_power(FloatType::f32(8), v3, true));
    let row = [single(v3, true), single(v2, false), double(v3, true), double(v2, false)];
    println!("| pow | {:.2} | {:.2} | {} | {} | {time:.2} |\n", row[0], row[1], row[2], row[3]);
    println!("f32 sin, cos and tan are reduced exactly for every float.");
    println!("f64 sin, cos and tan hold for |x| < 2⁴⁵ (3.5·10¹³); beyond, digits are lost one by one, and from");
    println!("2⁵² on the result carries no information.");
    println!("pow keeps C99's special cases; its bases here lie within 2^±40 and its results fill the range.");
}

fn reduced(f: Function, x: f64) -> bool {
    let circular = matches!(f, Function::Sin | Function::Cos | Function::Tan);
    !circular || !x.is_finite() || x.abs() < 35184372088832.0
}

/// A base and an exponent that a golden-ratio sequence spreads over the range of results.
fn pair(i: f64) -> (f64, f64) {
    let u = (i * 0.6180339887498949).fract() - 0.5;
    let v = (i * 0.7548776662466927).fract() - 0.5;
    let x = (u * 80.0).exp2();
    (x, v * 290.0 / x.log2().abs().max(1e-3))
}

fn nanoseconds(run: Elementwise) -> f64 {
    let x: Vec<f32> = (0..4096).map(|i| i as f32 / 1024.0 - 2.0).collect();
    let mut out = x.clone();
    let mut once = || {
        let start = Instant::now();
        for _ in 0..50 {
            run.run(&x, &x, &mut out);
        }
        start.elapsed().as_secs_f64()
    };
    (0..40).map(|_| once()).fold(f64::INFINITY, f64::min) * 1e9 / (50.0 * 4096.0)
}
