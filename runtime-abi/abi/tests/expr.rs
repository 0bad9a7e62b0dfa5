//! The evaluator's arithmetic against plain definitions.

use oaax_abi::{Code, Expr, Fault, Operator, Reg, check_code, eval, not, select};

fn value(expr: Expr, registers: &[i64]) -> Result<i64, Fault> {
    eval(&expr.code(), registers)
}

fn binary(op: Operator, a: i64, b: i64) -> Result<i64, Fault> {
    eval(&[Code::Reg(Reg(0)), Code::Reg(Reg(1)), Code::Op(op)], &[a, b])
}

#[test]
fn division_rounds_towards_the_named_infinity_for_all_signs() {
    for a in -7i64..=7 {
        for b in (-3i64..=3).filter(|b| *b != 0) {
            let exact = a as f64 / b as f64;
            assert_eq!(binary(Operator::FloorDiv, a, b), Ok(exact.floor() as i64));
            assert_eq!(binary(Operator::CeilDiv, a, b), Ok(exact.ceil() as i64));
            assert_eq!(binary(Operator::FloorMod, a, b), Ok(a - b * exact.floor() as i64));
        }
    }
}

#[test]
fn what_has_no_64_bit_value_is_a_fault() {
    assert_eq!(binary(Operator::Add, i64::MAX, 1), Err(Fault::Overflow));
    assert_eq!(binary(Operator::Sub, i64::MIN, 1), Err(Fault::Overflow));
    assert_eq!(binary(Operator::Mul, i64::MAX, 2), Err(Fault::Overflow));
    assert_eq!(binary(Operator::FloorDiv, i64::MIN, -1), Err(Fault::Overflow));
    assert_eq!(binary(Operator::FloorDiv, 1, 0), Err(Fault::DivisionByZero));
    assert_eq!(binary(Operator::FloorMod, 1, 0), Err(Fault::DivisionByZero));
}

#[test]
fn select_and_logic_treat_any_non_zero_as_true() {
    let n = Expr::from(Reg(0));
    let expr = select(n.clone().less(4), n.clone().times(2), not(n));
    assert_eq!(value(expr.clone(), &[3]), Ok(6));
    assert_eq!(value(expr, &[5]), Ok(0));
    assert_eq!(binary(Operator::And, 7, -1), Ok(1));
    assert_eq!(binary(Operator::Or, 0, 0), Ok(0));
}

#[test]
fn float_operators_reproduce_f32_resize_arithmetic() {
    let scale = (0.7f32 as f64).to_bits() as i64;
    let product = Expr::op(Operator::FloatMul, [Expr::op(Operator::FloatFromInt, [Reg(0).into()]), Reg(1).into()]);
    let single = Expr::op(Operator::FloatRound32, [product.clone()]);
    let floor = |x: Expr| Expr::op(Operator::FloatFloor, [x]);
    assert_eq!(value(floor(single), &[10, scale]), Ok((10f32 * 0.7f32).floor() as i64));
    assert_eq!(value(floor(product), &[10, scale]), Ok((10f64 * 0.7f32 as f64).floor() as i64));
    let nan = [f64::NAN.to_bits() as i64];
    assert_eq!(value(floor(Reg(0).into()), &nan), Err(Fault::NotAnInteger));
    let half = [(-2.5f64).to_bits() as i64];
    assert_eq!(value(floor(Reg(0).into()), &half), Ok(-3));
    assert_eq!(value(Expr::op(Operator::FloatCeil, [Reg(0).into()]), &half), Ok(-2));
    assert_eq!(value(Expr::op(Operator::FloatTrunc, [Reg(0).into()]), &half), Ok(-2));
}

#[test]
fn the_checker_refuses_what_the_evaluator_could_not_run() {
    assert!(check_code(&[], 0).is_err());
    assert!(check_code(&[Code::Op(Operator::Add)], 0).is_err());
    assert!(check_code(&[Code::Reg(Reg(1))], 1).is_err());
    assert!(check_code(&[Code::Const(1), Code::Const(2)], 0).is_err());
    assert!(check_code(&[Code::Const(1); 40], 0).is_err());
    assert!(check_code(&[Code::Const(1), Code::Const(2), Code::Op(Operator::Min)], 0).is_ok());
    assert_eq!(eval(&[Code::Op(Operator::Add)], &[]), Err(Fault::BadCode));
}

#[test]
fn constants_fold_except_where_the_result_is_a_fault() {
    assert_eq!(Expr::from(6).times(7), Expr::Const(42));
    assert!(matches!(Expr::from(1).floor_div(0), Expr::Op(..)));
}

#[test]
fn operator_numbers_round_trip() {
    for number in 2..=26 {
        assert_eq!(Operator::from_number(number).map(|op| op as u32), Some(number));
    }
    assert_eq!(Operator::from_number(1), None);
    assert_eq!(Operator::from_number(27), None);
}
