//! RNN, GRU and LSTM: both oracles agree in every direction, layout and option.

mod common;

use common::{Input, check, ramp, text};
use oaaxc_ir::{Attribute, DType, Tensor};

fn scaled(dims: &[usize]) -> Tensor {
    let x = ramp(dims);
    Tensor::from_f64s(DType::F32, dims.to_vec(), x.to_f64s().into_iter().map(|v| v * 0.2))
}

/// Runs a cell over 3 steps, 2 sequences, 4 inputs and 2 hidden units.
fn cell(op: &str, gates: usize, direction: &str, layout: i64, more: &[(&str, Attribute)], short: bool) {
    let d = if direction == "bidirectional" { 2 } else { 1 };
    let mut attributes =
        vec![("direction", text(direction)), ("layout", Attribute::Int(layout)), ("hidden_size", Attribute::Int(2))];
    attributes.extend_from_slice(more);
    let lstm = op == "LSTM";
    let state = if layout == 1 { [2, d, 2] } else { [d, 2, 2] };
    let names = ["T", "B"];
    let x: (Tensor, &[&str]) =
        if layout == 1 { (scaled(&[2, 3, 4]), &["B", "T", "4"]) } else { (scaled(&[3, 2, 4]), &["T", "B", "4"]) };
    assert_eq!(names.len(), 2);
    let mut inputs: Vec<Input> = vec![
        Some(x),
        Some((scaled(&[d, gates * 2, 4]), &[])),
        Some((scaled(&[d, gates * 2, 2]), &[])),
        Some((scaled(&[d, gates * 4]), &[])),
        short.then(|| (Tensor::from_i64s(DType::I32, vec![2], [3, 1]), &[][..])),
        Some((scaled(&state), &[])),
    ];
    if lstm {
        inputs.push(Some((scaled(&state), &[])));
        inputs.push(Some((scaled(&[d, 6]), &[])));
    }
    check("", op, &attributes, &inputs, if lstm { 3 } else { 2 });
}

#[test]
fn every_direction_layout_and_length() {
    for (op, gates) in [("RNN", 1), ("GRU", 3), ("LSTM", 4)] {
        for direction in ["forward", "reverse", "bidirectional"] {
            for layout in [0, 1] {
                for short in [false, true] {
                    cell(op, gates, direction, layout, &[], short);
                }
            }
        }
    }
}

#[test]
fn resets_after_the_product_couples_gates_and_clips() {
    cell("GRU", 3, "bidirectional", 0, &[("linear_before_reset", Attribute::Int(1))], true);
    cell("LSTM", 4, "bidirectional", 0, &[("input_forget", Attribute::Int(1)), ("clip", Attribute::Float(0.3))], false);
}

#[test]
fn each_direction_may_have_functions_of_its_own() {
    let names = ["HardSigmoid", "Softsign", "ScaledTanh", "Sigmoid", "Elu", "Softplus"];
    let activations = Attribute::Texts(names.iter().map(|n| n.as_bytes().to_vec()).collect());
    let alphas = Attribute::Floats(vec![0.3, 1.5, 0.7]);
    cell("LSTM", 4, "bidirectional", 0, &[("activations", activations), ("activation_alpha", alphas)], false);
    let names = ["Affine", "LeakyRelu", "ThresholdedRelu", "Relu"];
    let activations = Attribute::Texts(names.iter().map(|n| n.as_bytes().to_vec()).collect());
    cell("GRU", 3, "bidirectional", 1, &[("activations", activations)], false);
}

#[test]
fn results_that_nobody_wants_are_not_written() {
    let inputs = [
        Some((scaled(&[3, 1, 2]), &["T", "1", "2"][..])),
        Some((scaled(&[1, 8, 2]), &[][..])),
        Some((scaled(&[1, 8, 2]), &[][..])),
    ];
    assert_eq!(check("", "LSTM", &[("hidden_size", Attribute::Int(2))], &inputs, 1)[0].dims, [3, 1, 1, 2]);
}
