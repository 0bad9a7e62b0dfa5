//! Keys that sort: any element as a 64-bit integer of the same order.

use oaaxc_ir::DType;

use crate::cast::{Value, cast};
use crate::text::Writer;

/// An i64 in whose signed order the key stands; NaN is the largest key, −0 equals +0.
pub fn ordered_key(w: &mut Writer, v: &Value, descending: bool) -> String {
    let mut name = if v.dtype.is_float() {
        let double = cast(w, DType::F64, v).name;
        let plus_zero = w.constant("0.0 : f64");
        let x = w.op(format_args!("arith.addf {double}, {plus_zero} : f64"));
        let bits = w.op(format_args!("arith.bitcast {x} : f64 to i64"));
        // Negative floats stand in reverse as integers.
        let (sign, low) = (w.int(63), w.int(i64::MAX));
        let mask = w.int_op("shrsi", &bits, &sign);
        let mask = w.int_op("andi", &mask, &low);
        let ordered = w.int_op("xori", &bits, &mask);
        let is_nan = w.op(format_args!("arith.cmpf uno, {x}, {x} : f64"));
        w.op(format_args!("arith.select {is_nan}, {low}, {ordered} : i64"))
    } else {
        let wide = cast(w, if v.dtype == DType::U64 { DType::U64 } else { DType::I64 }, v).name;
        if v.dtype == DType::U64 {
            let top = w.int(i64::MIN);
            w.int_op("xori", &wide, &top)
        } else {
            wide
        }
    };
    if descending {
        let ones = w.int(-1);
        name = w.int_op("xori", &name, &ones);
    }
    name
}
