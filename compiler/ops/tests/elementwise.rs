//! Elementwise operators and reductions: both oracles agree, on symbolic sizes, special values, and run-time axes.

mod common;

use common::{check, ints, ramp, scramble, text};
use oaaxc_ir::{Attribute, DType, Tensor};

fn special() -> Tensor {
    Tensor::from_f32s(vec![10], &[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, 1.0, -1.0, 0.5, 90.0, -90.0])
}

#[test]
fn every_unary_operator_on_special_values() {
    for op in oaaxc_ops::math::UNARY.iter().filter(|op| !matches!(op.name, "Not" | "BitwiseNot")) {
        check("", op.name, &[], &[Some((special(), &["N"]))], 1);
    }
    for op in ["Relu", "IsInf", "Clip"] {
        check("", op, &[], &[Some((special(), &["N"]))], 1);
    }
    check("", "Gelu", &[("approximate", text("tanh"))], &[Some((ramp(&[3, 4]), &["N", "M"]))], 1);
    check("", "BitwiseNot", &[], &[Some((scramble(DType::U8, &[5]), &["N"]))], 1);
}

#[test]
fn every_binary_operator_broadcasts() {
    for op in oaaxc_ops::math::BINARY {
        let dtype = match op.name {
            "And" | "Or" | "Xor" => DType::Bool,
            "BitwiseAnd" | "BitwiseOr" | "BitwiseXor" | "BitShift" => DType::U32,
            "Mod" => DType::I32,
            _ => DType::F32,
        };
        let attributes = [("direction", text("LEFT"))];
        let inputs = [Some((scramble(dtype, &[2, 3]), &["N", "M"][..])), Some((scramble(dtype, &[1, 3]), &["K", "M"]))];
        check("", op.name, &attributes, &inputs, 1);
    }
    for op in ["Min", "Max", "Sum", "Mean"] {
        let inputs = [Some((ramp(&[2, 3]), &["N", "3"][..])), Some((ramp(&[3]), &["3"])), Some((ramp(&[2, 1]), &["N", "1"]))];
        check("", op, &[], &inputs, 1);
    }
    check("", "Pow", &[], &[Some((ramp(&[3]), &["N"])), Some((Tensor::from_f32s(vec![1], &[2.0]), &[]))], 1);
    check("", "PRelu", &[], &[Some((ramp(&[2, 3]), &["N", "M"])), Some((ramp(&[3]), &["M"]))], 1);
}

#[test]
fn an_old_axis_places_the_second_operand() {
    let inputs = [Some((ramp(&[2, 3, 4]), &["N", "3", "M"][..])), Some((ramp(&[3]), &["3"]))];
    let y = check("", "Add", &[("axis", Attribute::Int(1))], &inputs, 1);
    assert_eq!(y[0].dims, [2, 3, 4]);
}

#[test]
fn every_reduction_over_known_and_run_time_axes() {
    let axes = |a: &[i64]| Tensor::from_i64s(DType::I64, vec![a.len()], a.iter().copied());
    for op in oaaxc_ops::math::REDUCE {
        for keep in [0, 1] {
            for names in [&[][..], &["2"]] {
                let inputs = [Some((ramp(&[2, 3, 4]), &["A", "B", "C"][..])), Some((axes(&[-1, 0]), names))];
                let y = check("", op.name, &[("keepdims", Attribute::Int(keep))], &inputs, 1);
                assert_eq!(y[0].dims, if keep == 1 { vec![1, 3, 1] } else { vec![3] });
            }
        }
        check("", op.name, &[], &[Some((ramp(&[2, 3]), &["A", "B"]))], 1);
        check("", op.name, &[("noop_with_empty_axes", Attribute::Int(1))], &[Some((ramp(&[2, 3]), &["A", "B"]))], 1);
        check("", op.name, &[("keepdims", Attribute::Int(0))], &[Some((ramp(&[2, 0]), &["A", "B"])), Some((axes(&[1]), &[]))], 1);
    }
}

#[test]
fn extremes_and_running_totals() {
    for op in ["ArgMax", "ArgMin"] {
        for last in [0, 1] {
            let x = Tensor::from_f32s(vec![2, 4], &[1.0, 3.0, 3.0, 1.0, f32::NAN, 0.0, f32::NAN, 9.0]);
            let attributes =
                [("axis", Attribute::Int(1)), ("select_last_index", Attribute::Int(last)), ("keepdims", Attribute::Int(last))];
            check("", op, &attributes, &[Some((x, &["N", "M"]))], 1);
        }
    }
    for op in ["CumSum", "CumProd"] {
        for (exclusive, reverse) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let attributes = [("exclusive", Attribute::Int(exclusive)), ("reverse", Attribute::Int(reverse))];
            for (axis, names) in [(0i64, &[][..]), (-1, &["1"])] {
                let axis = Tensor::from_i64s(DType::I64, vec![1], [axis]);
                check("", op, &attributes, &[Some((ramp(&[2, 3, 2]), &["A", "B", "C"])), Some((axis, names))], 1);
            }
        }
    }
    check("", "Det", &[], &[Some((ramp(&[2, 3, 3]), &["N", "3", "3"]))], 1);
    check("", "Transpose", &[("perm", ints(&[1, 0]))], &[Some((scramble(DType::I8, &[2, 3]), &["N", "M"]))], 1);
}

#[test]
fn narrow_types_are_cast() {
    let x = || Some((Tensor::from_f32s(vec![6], &[0.3, -7.6, 500.0, 1e9, f32::NAN, -2.5]), &["N"][..]));
    for to in 1..=26 {
        let dtype = DType::from_onnx(to).expect("a type");
        // What an integer makes of a float outside its range is open.
        if dtype == DType::String || dtype.is_complex() {
            continue;
        }
        for saturate in [0, 1] {
            check("", "Cast", &[("to", Attribute::Int(to.into())), ("saturate", Attribute::Int(saturate))], &[x()], 1);
        }
    }
}
