//! `oaaxc test` on folders in ONNX's backend-test form that the test makes.

mod common;

use common::{Place, text};
use oaaxc_conformance::write_folder;
use oaaxc_ir::{Datum, Tensor};

const RELU: &str = "<ir_version: 8, opset_import: [\"\": 17]>\ng (float[2] x) => (float[2] y) { y = Relu (x) }";

fn floats(values: &[f32]) -> Datum {
    Tensor::from_f32s(vec![values.len()], values).into()
}

/// One case of each kind.
fn cases() -> Place {
    let place = Place::new();
    let write = |name: &str, model: &str, expected: &[f32]| {
        write_folder(&place.file(&format!("cases/{name}")), model, &[floats(&[1.0, -2.0])], &[floats(expected)]).expect("a case");
    };
    write("a_right", RELU, &[1.0, 0.0]);
    write("b_wrong", RELU, &[1.0, 7.0]);
    write("c_refused", &RELU.replace("Relu", "NoSuchOperator"), &[1.0, 0.0]);
    write("d_error", RELU, &[1.0, 0.0]);
    std::fs::write(place.file("cases/d_error/model.onnx"), b"no model").expect("a file");
    place
}

#[test]
fn each_case_has_a_line_and_all_are_counted() {
    let place = cases();
    for target in ["eval", "interpreter", "cpu:x86-64-v2"] {
        let output = place.oaaxc(&format!("test cases --target {target} --jobs 2 --json"));
        let shown = text(&output.stdout);
        let lines: Vec<serde_json::Value> = shown.lines().map(|l| serde_json::from_str(l).expect("an object a line")).collect();
        let status: Vec<_> = lines[..4].iter().map(|l| (l["name"].as_str(), l["status"].as_str())).collect();
        let expected = [("a_right", "pass"), ("b_wrong", "wrong"), ("c_refused", "refused"), ("d_error", "error")];
        assert_eq!(status, expected.map(|(name, status)| (Some(name), Some(status))), "{target}");
        assert_eq!(lines[0]["kernels"], u64::from(target.starts_with("cpu")));
        assert_eq!((&lines[4]["pass"], &lines[4]["cases"]), (&1.into(), &4.into()));
        assert_eq!(output.status.code(), Some(1));
    }
}

#[test]
fn a_filter_and_a_single_folder_choose_cases() {
    let place = cases();
    assert!(place.succeed("test cases --target eval --filter right").contains("1 of 1 pass"));
    assert!(place.succeed("test cases/a_right --target eval").contains("1 of 1 pass"));
    assert!(place.fail(4, "test cases/b_wrong --target eval").is_empty());
    place.fail(3, "test cases/c_refused --target eval");
    place.fail(2, "test cases --filter zebra");
}
