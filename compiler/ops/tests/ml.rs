//! Operators of ai.onnx.ml: both oracles agree.

mod common;

use common::{Input, check, ints, ramp, text};
use oaaxc_ir::{Attribute, DType, Tensor};

const DOMAIN: &str = "ai.onnx.ml";

fn floats(values: &[f32]) -> Attribute {
    Attribute::Floats(values.to_vec())
}

/// Two trees: x1 ≤ 0.5 ? (x0 < −1 ? A : B) : C, and x2 > 0 (or missing) ? D : E.
fn trees() -> Vec<(&'static str, Attribute)> {
    let modes = ["BRANCH_LEQ", "BRANCH_LT", "LEAF", "LEAF", "LEAF", "BRANCH_GT", "LEAF", "LEAF"];
    vec![
        ("nodes_treeids", ints(&[0, 0, 0, 0, 0, 1, 1, 1])),
        ("nodes_nodeids", ints(&[0, 1, 2, 3, 4, 0, 1, 2])),
        ("nodes_modes", Attribute::Texts(modes.iter().map(|m| m.as_bytes().to_vec()).collect())),
        ("nodes_featureids", ints(&[1, 0, 0, 0, 0, 2, 0, 0])),
        ("nodes_values", floats(&[0.5, -1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])),
        ("nodes_truenodeids", ints(&[1, 2, 0, 0, 0, 1, 0, 0])),
        ("nodes_falsenodeids", ints(&[4, 3, 0, 0, 0, 2, 0, 0])),
        ("nodes_missing_value_tracks_true", ints(&[0, 0, 0, 0, 0, 1, 0, 0])),
    ]
}

fn rows() -> Input<'static> {
    let mut x = ramp(&[6, 3]).to_f64s();
    x[5] = f64::NAN;
    Some((Tensor::from_f64s(DType::F32, vec![6, 3], x), &["N", "3"]))
}

#[test]
fn a_classifier_of_several_classes_and_of_one_shared_score() {
    for (classes, weights) in
        [([0, 1, 2, 0, 1], [0.2, 0.7, 0.4, 0.3, 0.9]), ([1; 5], [0.2, 0.7, 0.4, 0.1, 0.0]), ([1; 5], [0.2, -0.7, 0.4, 0.1, -0.1])]
    {
        for transform in ["NONE", "LOGISTIC", "SOFTMAX"] {
            let labels: &[i64] = if classes[0] == 1 { &[10, 20] } else { &[10, 20, 30] };
            let mut attributes = trees();
            attributes.extend([
                ("class_treeids", ints(&[0, 0, 0, 1, 1])),
                ("class_nodeids", ints(&[2, 3, 4, 1, 2])),
                ("class_ids", ints(&classes)),
                ("class_weights", floats(&weights)),
                ("classlabels_int64s", ints(labels)),
                ("post_transform", text(transform)),
            ]);
            check(DOMAIN, "TreeEnsembleClassifier", &attributes, &[rows()], 2);
        }
    }
}

#[test]
fn a_regressor_of_two_targets() {
    for aggregate in ["SUM", "AVERAGE"] {
        let mut attributes = trees();
        attributes.extend([
            ("target_treeids", ints(&[0, 0, 0, 1, 1])),
            ("target_nodeids", ints(&[2, 3, 4, 1, 2])),
            ("target_ids", ints(&[0, 1, 0, 1, 0])),
            ("target_weights", floats(&[1.0, 2.0, -3.0, 4.0, 5.5])),
            ("n_targets", Attribute::Int(2)),
            ("base_values", floats(&[0.5, -0.5])),
            ("aggregate_function", text(aggregate)),
        ]);
        check(DOMAIN, "TreeEnsembleRegressor", &attributes, &[rows()], 1);
    }
}

#[test]
fn scaling_per_feature_and_thresholds() {
    let x: Input = Some((ramp(&[2, 3]), &["N", "3"]));
    check(DOMAIN, "Scaler", &[("offset", floats(&[1.0, 2.0, 3.0])), ("scale", floats(&[0.5]))], std::slice::from_ref(&x), 1);
    check(DOMAIN, "Binarizer", &[("threshold", Attribute::Float(0.3))], &[x], 1);
}
