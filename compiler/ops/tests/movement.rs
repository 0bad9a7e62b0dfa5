//! Operators that move and index elements: both oracles agree, on symbolic sizes and on operands that only the run knows.

mod common;

use common::{check, ints, ramp, text};
use oaaxc_ir::{Attribute, DType, Tensor};

fn i64s(values: &[i64]) -> Tensor {
    Tensor::from_i64s(DType::I64, vec![values.len()], values.iter().copied())
}
fn floats(values: &[f32]) -> Tensor {
    Tensor::from_f32s(vec![values.len()], values)
}

#[test]
fn reshape_by_a_constant_and_by_a_run_time_shape() {
    for names in [&[][..], &["3"]] {
        let y = check("", "Reshape", &[], &[Some((ramp(&[2, 3, 4]), &["N", "3", "M"])), Some((i64s(&[0, -1, 2]), names))], 1);
        assert_eq!(y[0].dims, [2, 6, 2]);
    }
}

#[test]
fn a_reshape_without_elements_infers_the_size_that_any_other_has() {
    for names in [&[][..], &["2"]] {
        let y = check("", "Reshape", &[], &[Some((ramp(&[0, 3, 4]), &["N", "3", "4"])), Some((i64s(&[0, -1]), names))], 1);
        assert_eq!(y[0].dims, [0, 12]);
        let y = check("", "Reshape", &[], &[Some((ramp(&[0, 3, 4]), &["0", "3", "4"])), Some((i64s(&[0, -1]), names))], 1);
        assert_eq!(y[0].dims, [0, 12]);
    }
}

#[test]
fn squeeze_and_unsqueeze_with_run_time_axes() {
    for names in [&[][..], &["1"]] {
        let x = Some((ramp(&[2, 1, 3]), &["N", "1", "M"][..]));
        assert_eq!(check("", "Squeeze", &[], &[x.clone(), Some((i64s(&[-2]), names))], 1)[0].dims, [2, 3]);
        assert_eq!(check("", "Unsqueeze", &[], &[x, Some((i64s(&[1]), names))], 1)[0].dims, [2, 1, 1, 3]);
    }
}

#[test]
fn slices_forward_backward_beyond_and_at_run_time() {
    type Case = (&'static [i64], &'static [i64], &'static [i64], usize);
    let cases: &[Case] = &[
        (&[1], &[i64::MAX], &[1], 6),
        (&[-3], &[i64::MAX], &[1], 3),
        (&[0], &[-2], &[1], 5),
        (&[-1], &[i64::MIN], &[-1], 7),
        (&[5], &[1], &[-2], 2),
        (&[2], &[20], &[3], 2),
        (&[6], &[2], &[1], 0),
        (&[-100], &[100], &[2], 4),
    ];
    for (start, end, step, count) in cases {
        for names in [&[][..], &["1"]] {
            let inputs = [
                Some((ramp(&[2, 7]), &["N", "M"][..])),
                Some((i64s(start), names)),
                Some((i64s(end), names)),
                Some((i64s(&[1]), &[])),
                Some((i64s(step), names)),
            ];
            assert_eq!(check("", "Slice", &[], &inputs, 1)[0].dims, [2, *count], "{start:?} {end:?} {step:?}");
        }
    }
}

#[test]
fn slice_with_run_time_axes() {
    let small = |v: i64| Some((i64s(&[v]), &["1"][..]));
    let inputs = [Some((ramp(&[4, 5]), &["N", "M"][..])), small(1), small(-1), small(-1), None];
    assert_eq!(check("", "Slice", &[], &inputs, 1)[0].dims, [4, 3]);
}

#[test]
fn split_evenly_unevenly_and_at_run_time() {
    let x = Some((ramp(&[7, 2]), &["N", "2"][..]));
    let y = check("", "Split", &[("num_outputs", Attribute::Int(3))], std::slice::from_ref(&x), 3);
    assert_eq!(y.iter().map(|t| t.dims[0]).collect::<Vec<_>>(), [3, 3, 1]);
    for names in [&[][..], &["2"]] {
        let y = check("", "Split", &[], &[x.clone(), Some((i64s(&[2, 5]), names))], 2);
        assert_eq!((y[0].dims[0], y[1].dims[0]), (2, 5));
    }
}

#[test]
fn concat_of_symbolic_sizes() {
    let inputs = [Some((ramp(&[2, 3]), &["N", "A"][..])), Some((ramp(&[2, 1]), &["N", "B"])), Some((ramp(&[2, 0]), &["M", "C"]))];
    assert_eq!(check("", "Concat", &[("axis", Attribute::Int(-1))], &inputs, 1)[0].dims, [2, 4]);
}

#[test]
fn gathers_with_negative_indices() {
    let x = || Some((ramp(&[3, 4, 2]), &["N", "M", "2"][..]));
    let pick = Tensor::from_i64s(DType::I64, vec![2, 2], [0, -1, 2, 1]);
    assert_eq!(check("", "Gather", &[("axis", Attribute::Int(1))], &[x(), Some((pick, &["A", "2"]))], 1)[0].dims, [3, 2, 2, 2]);
    check("", "Gather", &[("axis", Attribute::Int(1))], &[x(), Some((i64s(&[-1]), &[]))], 1);
    let pick = Tensor::from_i64s(DType::I32, vec![3, 1, 2], [3, 0, -4, 1, 2, -1]);
    check("", "GatherElements", &[("axis", Attribute::Int(1))], &[x(), Some((pick, &["N", "A", "B"]))], 1);
    let pick = Tensor::from_i64s(DType::I64, vec![3, 2, 1], [3, 0, -4, 1, 2, -1]);
    let y = check("", "GatherND", &[("batch_dims", Attribute::Int(1))], &[x(), Some((pick, &["N", "A", "1"]))], 1);
    assert_eq!(y[0].dims, [3, 2, 2]);
}

#[test]
fn scatters_with_duplicates_and_reductions() {
    for reduction in ["none", "add", "mul", "max", "min"] {
        let attributes = [("reduction", text(reduction)), ("axis", Attribute::Int(1))];
        let pick = Tensor::from_i64s(DType::I64, vec![2, 3], [1, 1, -4, 0, 3, 0]);
        let inputs = [
            Some((ramp(&[2, 4]), &["N", "M"][..])),
            Some((pick, &["N", "K"])),
            Some((Tensor::from_f32s(vec![2, 3], &[5.0, -1.5, 2.0, 0.5, 3.0, 7.0]), &["N", "K"])),
        ];
        check("", "ScatterElements", &attributes, &inputs, 1);
        let pick = Tensor::from_i64s(DType::I64, vec![3, 1], [1, -2, 0]);
        let inputs = [Some((ramp(&[2, 4]), &["N", "M"][..])), Some((pick, &["K", "1"])), Some((ramp(&[3, 4]), &["K", "M"]))];
        check("", "ScatterND", &[("reduction", text(reduction))], &inputs, 1);
    }
}

#[test]
fn repetition_by_constants_and_at_run_time() {
    for names in [&[][..], &["2"]] {
        let y = check("", "Expand", &[], &[Some((ramp(&[3, 1]), &["N", "1"])), Some((i64s(&[1, 4]), names))], 1);
        assert_eq!(y[0].dims, [3, 4]);
        let y = check("", "Tile", &[], &[Some((ramp(&[2, 3]), &["N", "M"])), Some((i64s(&[2, 3]), names))], 1);
        assert_eq!(y[0].dims, [4, 9]);
        let y = check("", "ConstantOfShape", &[], &[Some((i64s(&[2, 3]), names))], 1);
        assert_eq!(y[0].dims, [2, 3]);
    }
}

#[test]
fn pads_of_every_mode() {
    for mode in ["constant", "reflect", "edge", "wrap"] {
        for names in [&[][..], &["4"]] {
            let x = Some((ramp(&[3, 4]), &["N", "M"][..]));
            let value = Some((Tensor::scalar(oaaxc_ir::Scalar::from_f32(1.5)), &[][..]));
            let y = check("", "Pad", &[("mode", text(mode))], &[x, Some((i64s(&[1, -1, 2, 3]), names)), value], 1);
            assert_eq!(y[0].dims, [6, 6]);
        }
    }
}

#[test]
fn ranges_up_down_and_empty() {
    let number = |v: i64| Some((Tensor::scalar(oaaxc_ir::Scalar::from_i64(v)), &[][..]));
    for (start, limit, delta, count) in [(0, 5, 1, 5), (10, 3, -3, 3), (3, 3, 1, 0), (1, 8, 3, 3), (0, 5, -1, 0)] {
        let y = check("", "Range", &[], &[number(start), number(limit), number(delta)], 1);
        assert_eq!(y[0].dims, [count]);
    }
    let number = |v: f32| Some((Tensor::scalar(oaaxc_ir::Scalar::from_f32(v)), &[][..]));
    assert_eq!(check("", "Range", &[], &[number(0.5), number(2.0), number(0.25)], 1)[0].dims, [6]);
}

#[test]
fn sizes_that_depend_on_data() {
    let x = Tensor::from_f32s(vec![2, 3], &[0.0, 1.0, 0.0, -2.0, 0.0, 3.0]);
    assert_eq!(check("", "NonZero", &[], &[Some((x, &["N", "M"]))], 1)[0].dims, [2, 3]);
    let condition = Tensor::from_i64s(DType::Bool, vec![3], [1, 0, 1]);
    let inputs = [Some((ramp(&[2, 3]), &["N", "M"][..])), Some((condition, &["M"]))];
    assert_eq!(check("", "Compress", &[("axis", Attribute::Int(1))], &inputs, 1)[0].dims, [2, 2]);
    assert_eq!(check("", "Compress", &[], &inputs, 1)[0].dims, [2]);
    let x = floats(&[2.0, 1.0, 1.0, 3.0, 4.0, 3.0]);
    for sorted in [0, 1] {
        let y = check("", "Unique", &[("sorted", Attribute::Int(sorted))], &[Some((x.clone(), &["N"]))], 4);
        assert_eq!(y[0].dims, [4]);
    }
    let x = Tensor::from_f32s(vec![3, 2], &[1.0, 0.0, 1.0, 0.0, 0.0, 2.0]);
    let y = check("", "Unique", &[("axis", Attribute::Int(0))], &[Some((x, &["N", "M"]))], 4);
    assert_eq!(y[0].dims, [2, 2]);
}

#[test]
fn top_k_with_ties_and_a_run_time_k() {
    let x = || Some((Tensor::from_f32s(vec![2, 4], &[1.0, 3.0, 3.0, 2.0, 5.0, 5.0, 5.0, 0.0]), &["N", "M"][..]));
    for names in [&[][..], &["1"]] {
        for largest in [0, 1] {
            let y = check("", "TopK", &[("largest", Attribute::Int(largest))], &[x(), Some((i64s(&[3]), names))], 2);
            assert_eq!(y[1].dims, [2, 3]);
        }
    }
}

#[test]
fn masks_blocks_and_sequences() {
    let x = || Some((ramp(&[2, 3, 4]), &["B", "N", "M"][..]));
    for upper in [0, 1] {
        for k in [-1i64, 0, 2] {
            let k = Some((Tensor::scalar(oaaxc_ir::Scalar::from_i64(k)), &[][..]));
            check("", "Trilu", &[("upper", Attribute::Int(upper))], &[x(), k], 1);
        }
    }
    check("", "EyeLike", &[("k", Attribute::Int(1))], &[Some((ramp(&[3, 4]), &["N", "M"]))], 1);
    for mode in ["DCR", "CRD"] {
        let attributes = [("blocksize", Attribute::Int(2)), ("mode", text(mode))];
        check("", "DepthToSpace", &attributes, &[Some((ramp(&[1, 8, 2, 3]), &["N", "8", "H", "W"]))], 1);
        check("", "SpaceToDepth", &attributes, &[Some((ramp(&[1, 2, 4, 6]), &["N", "C", "4", "6"]))], 1);
    }
    let lengths = Some((i64s(&[1, 3, 2]), &["N"][..]));
    check("", "ReverseSequence", &[], &[Some((ramp(&[4, 3, 2]), &["T", "N", "2"])), lengths], 1);
    let depth = Some((Tensor::scalar(oaaxc_ir::Scalar::from_i64(5)), &[][..]));
    let inputs = [Some((i64s(&[0, -1, 7]), &["N"][..])), depth, Some((floats(&[0.5, 2.0]), &["2"]))];
    assert_eq!(check("", "OneHot", &[], &inputs, 1)[0].dims, [3, 5]);
}

#[test]
fn resize_by_scales_and_sizes_known_or_not() {
    let x = || Some((ramp(&[1, 2, 4, 5]), &["N", "C", "H", "W"][..]));
    for mode in ["nearest", "linear", "cubic"] {
        for transformation in ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"] {
            let attributes = [("mode", text(mode)), ("coordinate_transformation_mode", text(transformation))];
            for (names, scales) in [(&[][..], [1.0, 1.0, 2.0, 0.6]), (&["4"], [1.0, 1.0, 1.5, 2.0])] {
                check("", "Resize", &attributes, &[x(), None, Some((floats(&scales), names))], 1);
                check("", "Resize", &attributes, &[x(), None, None, Some((i64s(&[1, 2, 3, 8]), names))], 1);
            }
        }
    }
    let attributes =
        [("mode", text("nearest")), ("nearest_mode", text("floor")), ("coordinate_transformation_mode", text("asymmetric"))];
    let y = check("", "Resize", &attributes, &[x(), None, Some((floats(&[1.0, 1.0, 2.0, 2.0]), &[]))], 1);
    assert_eq!(y[0].dims, [1, 2, 8, 10]);
    let attributes = [("mode", text("linear")), ("antialias", Attribute::Int(1)), ("axes", ints(&[2, 3]))];
    check("", "Resize", &attributes, &[x(), None, None, Some((i64s(&[2, 7]), &["2"]))], 1);
}

#[test]
fn grids_boxes_and_crops() {
    for padding in ["zeros", "border", "reflection"] {
        for mode in ["nearest", "linear", "cubic"] {
            let grid = Tensor::from_f32s(vec![1, 2, 2, 2], &[-0.3, 0.2, 1.6, -2.4, 0.9, 0.95, 0.0, -1.0]);
            let inputs = [Some((ramp(&[1, 2, 3, 4]), &["N", "C", "H", "W"][..])), Some((grid, &["N", "A", "B", "2"]))];
            check("", "GridSample", &[("mode", text(mode)), ("padding_mode", text(padding))], &inputs, 1);
        }
    }
    for names in [&[][..], &["4"]] {
        let theta = Some((Tensor::from_f32s(vec![1, 2, 3], &[1.0, 0.2, 0.1, -0.3, 0.8, 0.0]), &["N", "2", "3"][..]));
        let y = check("", "AffineGrid", &[], &[theta, Some((i64s(&[1, 1, 2, 3]), names))], 1);
        assert_eq!(y[0].dims, [1, 2, 3, 2]);
    }
    let boxes = [0.0, 0.0, 1.0, 1.0, 0.0, 0.1, 1.0, 1.1, 0.0, 10.0, 1.0, 11.0, 0.0, 0.0, 1.0, 1.0];
    let one = |v: f32| Some((Tensor::scalar(oaaxc_ir::Scalar::from_f32(v)), &[][..]));
    let inputs = [
        Some((Tensor::from_f32s(vec![1, 4, 4], &boxes), &["B", "N", "4"][..])),
        Some((Tensor::from_f32s(vec![1, 2, 4], &[0.9, 0.8, 0.7, 0.9, 0.1, 0.6, 0.2, 0.6]), &["B", "C", "N"])),
        Some((Tensor::scalar(oaaxc_ir::Scalar::from_i64(2)), &[])),
        one(0.5),
        one(0.15),
    ];
    assert_eq!(check("", "NonMaxSuppression", &[], &inputs, 1)[0].dims, [4, 3]);
    for names in [&[][..], &["2"]] {
        let x = Some((ramp(&[3, 6]), &["N", "M"][..]));
        assert_eq!(check("", "CenterCropPad", &[], &[x, Some((i64s(&[6, 3]), names))], 1)[0].dims, [6, 3]);
    }
}
