//! `mma.sync` of 16×8×16: which lane holds which element, and the intrinsics.

use oaaxc_emit::text::Writer;
use oaaxc_ir::DType;
use oaaxc_target_gpu::{Fragment, Lane, Matrix};

const fn quad() -> Lane {
    Lane { divide: 4, modulo: 8, times: 1 }
}
const fn pair() -> Lane {
    Lane { divide: 1, modulo: 4, times: 2 }
}
type Call = fn(&mut Writer, &[String], &[String], &[String]) -> Vec<String>;

const fn mma(dtype: DType, call: Call) -> Matrix {
    Matrix {
        dtype,
        rows: 16,
        columns: 8,
        depth: 16,
        lanes: 32,
        a: Fragment { across: quad(), offsets: &[0, 0, 8, 8, 0, 0, 8, 8], along: pair(), steps: &[0, 1, 0, 1, 8, 9, 8, 9] },
        b: Fragment { across: quad(), offsets: &[0, 0, 0, 0], along: pair(), steps: &[0, 1, 8, 9] },
        c: Fragment { across: quad(), offsets: &[0, 0, 8, 8], along: pair(), steps: &[0, 1, 0, 1] },
        call,
    }
}

/// What every compute capability from 8.0 on has.
pub(crate) static MMA: &[Matrix] = &[
    mma(DType::F16, |w, a, b, c| call(w, "mma.m16n8k16.row.col.f32.f32", false, (a, b, c))),
    mma(DType::BF16, |w, a, b, c| call(w, "mma.m16n8k16.row.col.bf16", true, (a, b, c))),
];

/// Calls an intrinsic on pairs of elements; bfloat16 pairs go as 32-bit words.
fn call(w: &mut Writer, name: &str, words: bool, (a, b, c): (&[String], &[String], &[String])) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut types = Vec::new();
    for two in a.chunks(2).chain(b.chunks(2)) {
        let ty = if words { "vector<2xi16>" } else { "vector<2xf16>" };
        let mut v = w.op(format_args!("vector.from_elements {} : {ty}", two.join(", ")));
        if words {
            v = w.op(format_args!("llvm.bitcast {v} : {ty} to i32"));
        }
        arguments.push(v);
        types.push(if words { "i32" } else { ty });
    }
    arguments.extend(c.iter().cloned());
    types.extend(c.iter().map(|_| "f32"));
    let out = "!llvm.struct<(f32, f32, f32, f32)>";
    let result = w.op(format_args!(
        "llvm.call_intrinsic \"llvm.nvvm.{name}\"({}) : ({}) -> {out}",
        arguments.join(", "),
        types.join(", ")
    ));
    (0..c.len()).map(|i| w.op(format_args!("llvm.extractvalue {result}[{i}] : {out}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_has_its_lanes() {
        MMA.iter().for_each(|m| m.check().unwrap());
    }
}
