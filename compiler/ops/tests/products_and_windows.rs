//! Convolutions, matrix products and pools: both oracles agree, on symbolic sizes and odd windows.

mod common;

use common::{check, ints, ramp, text};
use oaaxc_ir::{Attribute, DType, Tensor};

#[test]
fn convolution_with_groups_dilation_stride_and_uneven_pads() {
    let x = (ramp(&[2, 4, 7, 6]), &["N", "4", "H", "W"][..]);
    let w = (ramp(&[6, 2, 3, 2]), &[][..]);
    let bias = (ramp(&[6]), &[][..]);
    let attributes =
        [("group", Attribute::Int(2)), ("strides", ints(&[2, 1])), ("dilations", ints(&[1, 2])), ("pads", ints(&[1, 0, 2, 1]))];
    let y = check("", "Conv", &attributes, &[Some(x), Some(w), Some(bias)], 1);
    assert_eq!(y[0].dims, [2, 6, 4, 5]);
}

#[test]
fn convolution_pads_by_itself() {
    for auto in ["SAME_UPPER", "SAME_LOWER", "VALID"] {
        let attributes = [("auto_pad", text(auto)), ("strides", ints(&[2]))];
        let y = check("", "Conv", &attributes, &[Some((ramp(&[1, 2, 9]), &["N", "2", "L"])), Some((ramp(&[3, 2, 4]), &[]))], 1);
        assert_eq!(y[0].dims, [1, 3, if auto == "VALID" { 3 } else { 5 }]);
    }
}

#[test]
fn matrix_products_of_every_rank() {
    let product = |a: (&[usize], &[&str]), b: (&[usize], &[&str]), y: &[usize]| {
        let found = check("", "MatMul", &[], &[Some((ramp(a.0), a.1)), Some((ramp(b.0), b.1))], 1);
        assert_eq!(found[0].dims, y);
    };
    product((&[2, 3], &["N", "K"]), (&[3, 4], &["K", "4"]), &[2, 4]);
    product((&[2, 2, 3], &["B", "T", "3"]), (&[3, 4], &["3", "4"]), &[2, 2, 4]);
    product((&[3], &["3"]), (&[2, 3, 2], &["B", "3", "2"]), &[2, 2]);
    product((&[2, 1, 2, 3], &["B", "1", "T", "3"]), (&[4, 3, 2], &["C", "3", "D"]), &[2, 4, 2, 2]);
}

#[test]
fn gemm_transposes_scales_and_adds() {
    let attributes = [
        ("transA", Attribute::Int(1)),
        ("transB", Attribute::Int(1)),
        ("alpha", Attribute::Float(0.5)),
        ("beta", Attribute::Float(2.0)),
    ];
    let (a, b) = (ramp(&[3, 2]), ramp(&[4, 3]));
    for c in [vec![4], vec![2, 1], vec![1], vec![]] {
        let names: Vec<String> = c.iter().map(ToString::to_string).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        check(
            "",
            "Gemm",
            &attributes,
            &[Some((a.clone(), &["3", "M"])), Some((b.clone(), &["4", "3"])), Some((ramp(&c), &names))],
            1,
        );
    }
}

#[test]
fn pools_round_up_and_count_as_asked() {
    for op in ["MaxPool", "AveragePool", "LpPool"] {
        for ceil in [0, 1] {
            for include in [0, 1] {
                let attributes = [
                    ("kernel_shape", ints(&[3, 2])),
                    ("strides", ints(&[2, 2])),
                    ("pads", ints(&[1, 0, 1, 1])),
                    ("dilations", ints(&[1, 2])),
                    ("ceil_mode", Attribute::Int(ceil)),
                    ("count_include_pad", Attribute::Int(include)),
                ];
                check("", op, &attributes, &[Some((ramp(&[1, 2, 6, 7]), &["N", "2", "H", "W"]))], 1);
            }
        }
        check("", &format!("Global{op}"), &[], &[Some((ramp(&[2, 3, 2, 3]), &["N", "3", "H", "W"]))], 1);
    }
}

#[test]
fn max_pool_says_where_in_either_order() {
    for order in [0, 1] {
        let attributes =
            [("kernel_shape", ints(&[2, 2])), ("pads", ints(&[1, 1, 0, 0])), ("storage_order", Attribute::Int(order))];
        check("", "MaxPool", &attributes, &[Some((ramp(&[1, 2, 3, 4]), &["N", "2", "H", "W"]))], 2);
        let bytes = Tensor::from_i64s(DType::I8, vec![1, 1, 2, 2], [-128, -128, -128, -128]);
        let y = check("", "MaxPool", &attributes, &[Some((bytes, &["1", "1", "H", "W"]))], 1);
        assert_eq!(y[0].to_i64s(), [-128; 4]);
    }
}

#[test]
fn a_window_that_starts_behind_the_input_is_dropped() {
    let attributes = [("kernel_shape", ints(&[1])), ("strides", ints(&[2])), ("ceil_mode", Attribute::Int(1))];
    let y = check("", "AveragePool", &attributes, &[Some((ramp(&[1, 1, 2]), &["1", "1", "L"]))], 1);
    assert_eq!(y[0].dims, [1, 1, 1]);
}

#[test]
fn transposed_convolutions_of_every_stride_and_pad() {
    let x = || Some((ramp(&[2, 4, 3, 5]), &["N", "4", "H", "W"][..]));
    let w = || Some((ramp(&[4, 3, 3, 2]), &[][..]));
    let bias = || Some((ramp(&[6]), &[][..]));
    let cases: [&[(&str, Attribute)]; 6] = [
        &[],
        &[("strides", ints(&[2, 3])), ("pads", ints(&[1, 0, 0, 1]))],
        &[("strides", ints(&[3, 2])), ("output_padding", ints(&[1, 1])), ("dilations", ints(&[2, 3]))],
        &[("strides", ints(&[2, 2])), ("dilations", ints(&[2, 1]))],
        &[("auto_pad", text("SAME_UPPER")), ("strides", ints(&[2, 2]))],
        &[("output_shape", ints(&[7, 11])), ("strides", ints(&[2, 2]))],
    ];
    for case in cases {
        let mut attributes = case.to_vec();
        attributes.push(("group", Attribute::Int(2)));
        check("", "ConvTranspose", &attributes, &[x(), w(), bias()], 1);
    }
}
