//! Operators of com.microsoft: both oracles agree.

mod common;

use common::{Input, check, ramp, scramble, text};
use oaaxc_ir::{Attribute, DType, Scalar, Tensor};

const DOMAIN: &str = "com.microsoft";

fn s(v: f64) -> Input<'static> {
    Some((Tensor::scalar(Scalar::from_f64(v).cast(DType::F32)), &[]))
}

fn zero(dtype: DType, v: i64) -> Input<'static> {
    Some((Tensor::scalar(Scalar::from_i64(v).cast(dtype)), &[]))
}

#[test]
fn an_lstm_of_quantised_weights_in_both_directions() {
    let small = |n: usize| Tensor::from_f64s(DType::F32, vec![n], (0..n).map(|i| 0.01 + 0.001 * i as f64));
    let attributes = [("direction", text("bidirectional")), ("hidden_size", Attribute::Int(2))];
    let inputs = [
        Some((ramp(&[3, 2, 4]), &["T", "B", "4"][..])),
        Some((scramble(DType::I8, &[2, 4, 8]), &[][..])),
        Some((scramble(DType::I8, &[2, 2, 8]), &[][..])),
        Some((ramp(&[2, 16]), &[][..])),
        None,
        None,
        None,
        None,
        Some((small(2), &["2"][..])),
        Some((scramble(DType::I8, &[2]), &["2"][..])),
        Some((small(2), &["2"][..])),
        Some((scramble(DType::I8, &[2]), &["2"][..])),
    ];
    check(DOMAIN, "DynamicQuantizeLSTM", &attributes, &inputs, 3);
}

#[test]
fn quantised_elementwise_operators_broadcast() {
    let a: Input = Some((scramble(DType::U8, &[2, 3]), &["N", "3"]));
    let b: Input = Some((scramble(DType::U8, &[3]), &["3"]));
    for op in ["QLinearAdd", "QLinearMul"] {
        let inputs =
            [a.clone(), s(0.1), zero(DType::U8, 9), b.clone(), s(0.2), zero(DType::U8, 100), s(0.4), zero(DType::U8, 50)];
        check(DOMAIN, op, &[], &inputs, 1);
    }
    for op in ["QLinearSigmoid", "QLinearLeakyRelu"] {
        check(DOMAIN, op, &[], &[a.clone(), s(0.1), zero(DType::U8, 128), s(0.05), zero(DType::U8, 3)], 1);
    }
}

#[test]
fn forms_of_gelu() {
    let x: Input = Some((ramp(&[2, 4]), &["N", "4"]));
    let bias: Input = Some((ramp(&[4]), &["4"]));
    check(DOMAIN, "Gelu", &[], std::slice::from_ref(&x), 1);
    check(DOMAIN, "QuickGelu", &[], std::slice::from_ref(&x), 1);
    check(DOMAIN, "FastGelu", &[], &[x.clone(), bias.clone()], 1);
    check(DOMAIN, "BiasGelu", &[], &[x, bias], 1);
}

#[test]
fn fused_products() {
    let attributes = [("transA", Attribute::Int(1)), ("transB", Attribute::Int(1)), ("alpha", Attribute::Float(0.125))];
    check(
        DOMAIN,
        "FusedMatMul",
        &attributes,
        &[Some((ramp(&[2, 3, 4]), &["B", "3", "M"])), Some((ramp(&[2, 5, 3]), &["B", "5", "3"]))],
        1,
    );
    let a: Input = Some((scramble(DType::U8, &[2, 3, 4]), &["B", "M", "4"]));
    let b: Input = Some((scramble(DType::I8, &[4, 5]), &[]));
    let scales: Input = Some((Tensor::from_f64s(DType::F32, vec![5], (1..6).map(|i| f64::from(i) * 0.01)), &["5"]));
    let bias: Input = Some((ramp(&[5]), &["5"]));
    let inputs = [a, s(0.03), scales.clone(), zero(DType::U8, 120), Some((scramble(DType::I8, &[5]), &["5"])), bias.clone()];
    let [a, a_scale, b_scale, a_zero, b_zero, bias_again] = inputs;
    check(DOMAIN, "MatMulIntegerToFloat", &[], &[a, b.clone(), a_scale, b_scale, a_zero, b_zero, bias_again], 1);
    let x: Input = Some((ramp(&[3, 4]), &["M", "4"]));
    check(DOMAIN, "DynamicQuantizeMatMul", &[], &[x, b, scales, None, bias], 1);
}

#[test]
fn weights_of_a_few_bits_in_blocks() {
    for bits in [2, 4, 8] {
        let per_byte = 8 / bits as usize;
        let attributes = [
            ("K", Attribute::Int(20)),
            ("N", Attribute::Int(3)),
            ("bits", Attribute::Int(bits)),
            ("block_size", Attribute::Int(16)),
        ];
        let packed: Input = Some((scramble(DType::U8, &[3, 2, 16 / per_byte]), &[]));
        let scales: Input = Some((ramp(&[6]), &[]));
        let zeros: Input = Some((scramble(DType::U8, &[3 * 2usize.div_ceil(per_byte)]), &[]));
        for zeros in [None, zeros] {
            check(
                DOMAIN,
                "MatMulNBits",
                &attributes,
                &[Some((ramp(&[2, 2, 20]), &["B", "M", "20"])), packed.clone(), scales.clone(), zeros],
                1,
            );
        }
    }
}

#[test]
fn normalisation_of_a_skip_connection() {
    let x: Input = Some((ramp(&[2, 3, 4]), &["B", "T", "4"]));
    let v: Input = Some((ramp(&[4]), &["4"]));
    check(DOMAIN, "SkipLayerNormalization", &[], &[x.clone(), x.clone(), v.clone(), v.clone(), v.clone()], 4);
    check(DOMAIN, "SkipSimplifiedLayerNormalization", &[], &[x.clone(), x, v], 1);
}
