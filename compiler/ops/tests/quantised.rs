//! Quantisation: both oracles agree to the last bit, for every grain and type, with zero points known or not.

mod common;

use common::{Input, check, ints, ramp, scramble};
use oaaxc_ir::{Attribute, DType, Scalar, Tensor};

fn scalar(dtype: DType, value: f64) -> Tensor {
    Tensor::scalar(Scalar::from_f64(value).cast(dtype))
}

#[test]
fn per_tensor_per_axis_and_in_blocks() {
    for dtype in [DType::U8, DType::I8, DType::I16, DType::U16, DType::U4, DType::I4, DType::I2, DType::F8E4M3FN, DType::F8E5M2] {
        let zero = |dims: &[usize]| {
            if dtype.is_integer() { scramble(dtype, dims) } else { Tensor::splat(Scalar::zero(dtype), dims.to_vec()) }
        };
        let scale = |dims: &[usize]| {
            Tensor::from_f64s(DType::F32, dims.to_vec(), (0..dims.iter().product()).map(|i| 0.25 + 0.1 * i as f64))
        };
        let cases: [(&[usize], &[&str], i64, i64); 3] =
            [(&[], &[], 1, 0), (&[3], &["3"], 1, 0), (&[2, 2, 2], &["2", "2", "2"], 1, 2)];
        for (dims, names, axis, block) in cases {
            let attributes = [("axis", Attribute::Int(axis)), ("block_size", Attribute::Int(block))];
            let x: Input = Some((ramp(&[2, 3, 2]), &["N", "3", "2"]));
            let parameters = [Some((scale(dims), names)), Some((zero(dims), names))];
            let y = check("", "QuantizeLinear", &attributes, &[x, parameters[0].clone(), parameters[1].clone()], 1);
            let y: Input = Some((y[0].clone(), &["N", "3", "2"]));
            check("", "DequantizeLinear", &attributes, &[y, parameters[0].clone(), parameters[1].clone()], 1);
        }
    }
}

#[test]
fn the_dynamic_scale_of_zeros_is_one() {
    check("", "DynamicQuantizeLinear", &[], &[Some((ramp(&[3, 4]), &["N", "4"]))], 3);
    let zeros = Tensor::splat(Scalar::from_f32(0.0), vec![2, 2]);
    let y = check("", "DynamicQuantizeLinear", &[], &[Some((zeros, &["2", "2"]))], 3);
    assert_eq!((y[1].f64_at(0), y[2].i64_at(0)), (1.0, 0));
}

#[test]
fn integer_products_take_zero_points_of_rows_and_columns() {
    let (a, b) = (scramble(DType::U8, &[2, 3, 4]), scramble(DType::I8, &[4, 5]));
    let zeros: [(Tensor, &[&str], Tensor, &[&str]); 3] = [
        (scalar(DType::U8, 7.0), &[], scalar(DType::I8, -3.0), &[]),
        (scramble(DType::U8, &[1]), &["1"], scramble(DType::I8, &[5]), &["5"]),
        (scramble(DType::U8, &[2, 3, 1]), &["2", "3", "1"], scramble(DType::I8, &[1, 5]), &["1", "5"]),
    ];
    for (az, an, bz, bn) in zeros {
        let inputs =
            [Some((a.clone(), &["2", "3", "K"][..])), Some((b.clone(), &["K", "5"][..])), Some((az, an)), Some((bz, bn))];
        check("", "MatMulInteger", &[], &inputs, 1);
    }
}

#[test]
fn quantised_products_round_half_to_even_and_saturate() {
    let s = |v: f64| Some((scalar(DType::F32, v), &[][..]));
    let inputs = [
        Some((scramble(DType::U8, &[3, 4]), &["N", "4"][..])),
        s(0.02),
        Some((scalar(DType::U8, 100.0), &[][..])),
        Some((scramble(DType::I8, &[4, 5]), &[][..])),
        Some((Tensor::from_f64s(DType::F32, vec![5], [0.01, 0.02, 0.5, 0.04, 0.05]), &["5"][..])),
        Some((scramble(DType::I8, &[5]), &[][..])),
        s(0.5),
        Some((scalar(DType::U8, 120.0), &[][..])),
    ];
    check("", "QLinearMatMul", &[], &inputs, 1);
}

#[test]
fn integer_convolutions_pad_with_the_zero_point() {
    let attributes = [("pads", ints(&[1, 0, 1, 2])), ("strides", ints(&[2, 1])), ("group", Attribute::Int(2))];
    let x: Input = Some((scramble(DType::U8, &[1, 4, 5, 4]), &["N", "4", "H", "W"]));
    let w: Input = Some((scramble(DType::I8, &[6, 2, 3, 2]), &[]));
    let per_channel: Input = Some((scramble(DType::I8, &[6]), &[]));
    let s = |v: f64| Some((scalar(DType::F32, v), &[][..]));
    // The input's zero point is an input of the model, then a constant.
    for zero in [Some((scalar(DType::U8, 77.0), &[][..])), Some((scramble(DType::U8, &[1]), &[][..]))] {
        check("", "ConvInteger", &attributes, &[x.clone(), w.clone(), zero.clone(), per_channel.clone()], 1);
        let scales: Input = Some((Tensor::from_f64s(DType::F32, vec![6], (0..6).map(|i| 0.01 + 0.003 * f64::from(i))), &[]));
        let bias: Input = Some((Tensor::from_i64s(DType::I32, vec![6], (0..6).map(|i| i * 500 - 900)), &[]));
        let out: Input = Some((scalar(DType::U8, 128.0), &[]));
        let inputs = [x.clone(), s(0.02), zero, w.clone(), scales, per_channel.clone(), s(0.03), out, bias];
        check("", "QLinearConv", &attributes, &inputs, 1);
    }
}
