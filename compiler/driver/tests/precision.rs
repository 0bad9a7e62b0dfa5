//! `--precision`: what is narrowed and what is not, that artefacts hold narrow weights, that inputs and outputs keep
//! their types, and that a tolerance holds a build back.

mod common;

use common::{Place, floats, npy};
use serde_json::Value;

/// Two convolutions with a bias and a residual sum between them; `scale` multiplies the first one's weights.
fn network(scale: f64) -> String {
    let numbers = |count: usize, step: usize, scale: f64| {
        let all: Vec<String> = (0..count).map(|i| format!("{:.4}", ((i * step % 41) as f64 / 20.0 - 1.0) * scale)).collect();
        all.join(", ")
    };
    format!(
        r#"<ir_version: 8, opset_import: ["": 17]>
net (float[N, 4, H, W] x) => (float[N, 4, H, W] y)
<float[32, 4, 3, 3] w = {{{}}}, float[32] b = {{{}}}, float[4, 32, 3, 3] v = {{{}}}>
{{
   a = Conv <pads = [1, 1, 1, 1]> (x, w, b)
   r = Relu (a)
   c = Conv <pads = [1, 1, 1, 1]> (r, v)
   y = Add (c, x)
}}
"#,
        numbers(1152, 7, 0.3 * scale),
        numbers(32, 3, 0.1),
        numbers(1152, 11, 0.1 / scale),
    )
}

fn place(scale: f64) -> Place {
    let place = Place::new();
    place.write("net.onnxtxt", network(scale).as_bytes());
    for i in 0..2 {
        std::fs::create_dir_all(place.file(&format!("inputs/{i}"))).expect("a folder");
        let values: Vec<f32> = (0..4 * 12 * 20).map(|k| ((k * 13 + i * 7) % 97) as f32 / 48.0 - 1.0).collect();
        place.write(&format!("inputs/{i}/x.npy"), &npy(&[1, 4, 12, 20], &values));
    }
    place
}

const TARGET: &str = "--target cpu:x86-64-v3 --no-canary";

/// The last object that a command wrote.
fn told(output: &str) -> Value {
    serde_json::from_str(output.trim().lines().last().expect("a line")).expect("an object")
}

fn outputs(place: &Place, artefact: &str) -> Vec<f64> {
    place.succeed(&format!("run {artefact} --input x=inputs/0/x.npy --output {artefact}.out"));
    floats(place.read(&format!("{artefact}.out/y.npy")))
}

fn difference(a: &[f64], b: &[f64]) -> f64 {
    let scale = a.iter().fold(0.0f64, |s, v| s.max(v.abs()));
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max) / scale
}

#[test]
fn every_precision_keeps_the_signature_and_shrinks_the_weights() {
    let place = place(1.0);
    let full = told(&place.succeed(&format!("build net.onnxtxt {TARGET} -o fp32.oaax --json")));
    let weights = full["weight_bytes"].as_f64().expect("a number");
    let reference = outputs(&place, "fp32.oaax");
    for (precision, share, allowed) in
        [("fp16", 0.55, 2e-3), ("bf16", 0.55, 2e-2), ("int8", 0.32, 3e-2), ("mixed", 0.55, 3e-2), ("int8 --dynamic", 0.32, 3e-2)]
    {
        let options = format!("--precision {precision} --calibration inputs --tolerance 0.05");
        let told = told(&place.succeed(&format!("build net.onnxtxt {TARGET} {options} -o narrow.oaax --json")));
        assert!(told["weight_bytes"].as_f64().expect("a number") <= share * weights, "{precision}: {told}");
        let found = outputs(&place, "narrow.oaax");
        assert!(difference(&reference, &found) < allowed, "{precision}: {}", difference(&reference, &found));
        let measured = told["precision"]["outputs"][0]["error"].as_f64().expect("measured");
        assert!(measured > 0.0 && measured < allowed, "{precision}: {measured}");
        let inspected = place.succeed("inspect narrow.oaax");
        let name = precision.split(' ').next().unwrap();
        assert!(inspected.contains(&format!("precision {name}")) && inspected.contains("y: float[N,4,H,W]"), "{inspected}");
    }
}

#[test]
fn what_a_half_cannot_hold_stays_in_f32_with_its_reason() {
    let place = place(3e5);
    let build = |options: &str| told(&place.succeed(&format!("build net.onnxtxt {TARGET} {options} -o out.oaax --json")));
    let rows = |told: &Value| told["precision"]["tensors"].as_array().expect("rows").clone();
    let half = rows(&build("--precision fp16 --calibration inputs"));
    let of = |rows: &[Value], tensor: &str| rows.iter().find(|r| r["tensor"] == tensor).cloned().unwrap_or_default();
    assert_eq!(of(&half, "w")["to"], "float", "{half:?}");
    assert!(of(&half, "w")["reason"].as_str().is_some_and(|r| r.contains("beyond 65504")), "{half:?}");
    // The second one's weights fit, its input does not: they alone are narrow.
    assert_eq!((of(&half, "v")["to"].as_str(), of(&half, "r")["to"].as_str()), (Some("float16"), Some("float")), "{half:?}");
    let brain = rows(&build("--precision bf16 --calibration inputs"));
    assert_eq!(of(&brain, "w")["to"], "bfloat16", "{brain:?}");
}

#[test]
fn a_build_over_its_tolerance_names_the_worst_tensors_and_writes_nothing() {
    let place = place(1.0);
    let said =
        place.fail(4, &format!("build net.onnxtxt {TARGET} --precision int8 --calibration inputs --tolerance 1e-6 -o out.oaax"));
    assert!(said.contains("E0601") && said.contains("\"y\"") && said.contains("Conv"), "{said}");
    assert!(!place.file("out.oaax").exists());
}

#[test]
fn without_inputs_a_build_says_that_it_measured_seeded_numbers() {
    let place = place(1.0);
    let output = place.oaaxc(&format!("build net.onnxtxt {TARGET} --precision int8 --observer mse -o out.oaax"));
    assert!(output.status.success());
    assert!(common::text(&output.stderr).contains("seeded"), "{}", common::text(&output.stderr));
}

#[test]
fn wrong_options_are_said_before_any_work() {
    let place = place(1.0);
    place.fail(2, "build net.onnxtxt --precision fp8");
    place.fail(2, "build net.onnxtxt --tolerance 0.1");
    place.fail(2, "build net.onnxtxt --precision fp16 --dynamic");
    place.fail(1, "build net.onnxtxt --precision int8 --calibration nowhere");
    std::fs::create_dir(place.file("empty")).expect("a folder");
    place.fail(1, "build net.onnxtxt --precision int8 --calibration empty -o out.oaax");
}
