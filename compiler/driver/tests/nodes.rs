//! Per-node checks: each node is judged on the operands of its own run, and a fault is seen.

mod common;

use common::Place;
use serde_json::Value;

/// Dynamic quantisation, an exact integer product, and floats again.
const QUANTISED: &str = r#"<ir_version: 8, opset_import: ["": 17]>
quantised (float[N, 3] x) => (float[N, 2] y)
<int8[3, 2] w = {1, -2, 3, 4, -5, 6}, int8 wz = {1}>
{
   [quantise] q, s, z = DynamicQuantizeLinear (x)
   [product] i = MatMulInteger (q, w, z, wz)
   [float] f = Cast <to = 1> (i)
   [scale] g = Mul (f, s)
   [relu] y = Relu (g)
}
"#;

fn rows(place: &Place, arguments: &str) -> Vec<Value> {
    let told = place.succeed(&format!("verify q.oaax --model q.onnxtxt --dim N=5 --json --per-node {arguments}"));
    told.lines().map(|line| serde_json::from_str(line).expect("an object")).collect()
}

#[test]
fn accumulators_are_equal_and_requantised_tensors_within_a_quantum() {
    let place = Place::new();
    place.write("q.onnxtxt", QUANTISED.as_bytes());
    place.succeed("build q.onnxtxt --target cpu:x86-64-v2 -o q.oaax -q");
    let every = rows(&place, "every");
    let allowed = |operator: &str| {
        let row = every.iter().find(|r| r["operator"].as_str().is_some_and(|o| o.contains(operator)) && r["quanta"].is_number());
        row.map(|r| (r["allowed"].as_str().unwrap_or("").to_string(), r["within"] == true))
    };
    assert_eq!(allowed("DynamicQuantizeLinear"), Some(("one quantum".into(), true)));
    assert_eq!(allowed("MatMulInteger"), Some(("equal".into(), true)));
    // Fused kernels keep the accumulator to themselves: fewer tensors, some over several nodes.
    let stored = rows(&place, "stored");
    assert!(stored.len() < every.len(), "{} of {}", stored.len(), every.len());
    assert!(stored.iter().any(|r| r["nodes"].as_u64() > Some(1)), "{stored:?}");
    assert!(stored.iter().all(|r| r["within"] == true));
}

#[test]
fn a_wrong_option_is_a_usage_error() {
    let place = Place::with_tiny();
    place.succeed("build tiny.onnxtxt --target cpu:x86-64-v2 -o tiny.oaax -q");
    place.fail(2, "verify tiny.oaax --per-node");
    place.fail(2, "verify tiny.oaax --model tiny.onnxtxt --per-node some");
}
