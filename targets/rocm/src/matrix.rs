//! MFMA of the Instinct chips and WMMA of the Radeons: which lane holds which element, and the intrinsics.

use oaaxc_emit::text::Writer;
use oaaxc_ir::DType;
use oaaxc_target_gpu::{Fragment, Lane, Matrix};

const ROW: Lane = Lane { divide: 1, modulo: 16, times: 1 };
const ONE: Lane = Lane { divide: 1, modulo: 1, times: 0 };
const ZERO: &[i64] = &[0; 16];
const COUNT: &[i64] = &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// Four summed elements a lane; C's columns are lanes.
const fn mfma(dtype: DType, call: Call) -> Matrix {
    let four = Lane { divide: 16, modulo: 4, times: 4 };
    let again = Lane { divide: 16, modulo: 4, times: 4 };
    let rows = Lane { divide: 16, modulo: 4, times: 4 };
    let (zero, count) = (ZERO.split_at(4).0, COUNT.split_at(4).0);
    Matrix {
        dtype,
        rows: 16,
        columns: 16,
        depth: 16,
        lanes: 64,
        a: Fragment { across: ROW, offsets: zero, along: four, steps: count },
        b: Fragment { across: ROW, offsets: zero, along: again, steps: count },
        c: Fragment { across: rows, offsets: count, along: ROW, steps: zero },
        call,
    }
}

/// Both halves of the subgroup hold all of A and B; C's rows alternate between them.
const fn wmma11(dtype: DType, call: Call) -> Matrix {
    let rows = Lane { divide: 16, modulo: 2, times: 1 };
    Matrix {
        dtype,
        rows: 16,
        columns: 16,
        depth: 16,
        lanes: 32,
        a: Fragment { across: ROW, offsets: ZERO, along: ONE, steps: COUNT },
        b: Fragment { across: ROW, offsets: ZERO, along: ONE, steps: COUNT },
        c: Fragment { across: rows, offsets: &[0, 2, 4, 6, 8, 10, 12, 14], along: ROW, steps: ZERO.split_at(8).0 },
        call,
    }
}

/// Each half of the subgroup holds eight summed elements, and eight rows of C.
const fn wmma12(dtype: DType, call: Call) -> Matrix {
    let (zero, count) = (ZERO.split_at(8).0, COUNT.split_at(8).0);
    let eight = Lane { divide: 16, modulo: 2, times: 8 };
    let again = Lane { divide: 16, modulo: 2, times: 8 };
    let rows = Lane { divide: 16, modulo: 2, times: 8 };
    Matrix {
        dtype,
        rows: 16,
        columns: 16,
        depth: 16,
        lanes: 32,
        a: Fragment { across: ROW, offsets: zero, along: eight, steps: count },
        b: Fragment { across: ROW, offsets: zero, along: again, steps: count },
        c: Fragment { across: rows, offsets: count, along: ROW, steps: zero },
        call,
    }
}

type Call = fn(&mut Writer, &[String], &[String], &[String]) -> Vec<String>;

static MFMA: &[Matrix] = &[
    mfma(DType::F16, |w, a, b, c| call(w, "mfma.f32.16x16x16f16", "f16", true, (a, b, c))),
    mfma(DType::BF16, |w, a, b, c| call(w, "mfma.f32.16x16x16bf16.1k", "i16", true, (a, b, c))),
];
static WMMA11: &[Matrix] = &[
    wmma11(DType::F16, |w, a, b, c| call(w, "wmma.f32.16x16x16.f16.v8f32.v16f16", "f16", false, (a, b, c))),
    wmma11(DType::BF16, |w, a, b, c| call(w, "wmma.f32.16x16x16.bf16.v8f32.v16i16", "i16", false, (a, b, c))),
];
static WMMA12: &[Matrix] = &[
    wmma12(DType::F16, |w, a, b, c| call(w, "wmma.f32.16x16x16.f16.v8f32.v8f16", "f16", false, (a, b, c))),
    wmma12(DType::BF16, |w, a, b, c| call(w, "wmma.f32.16x16x16.bf16.v8f32.v8i16", "i16", false, (a, b, c))),
];

/// A chip's instructions.
pub(crate) fn of(chip: &str) -> &'static [Matrix] {
    match chip {
        "gfx90a" | "gfx942" | "gfx950" => MFMA,
        "gfx1100" => WMMA11,
        "gfx1201" => WMMA12,
        _ => &[],
    }
}

/// Calls an intrinsic on vectors of the elements; MFMA has three settings behind them, all 0.
fn call(w: &mut Writer, name: &str, ty: &str, settings: bool, (a, b, c): (&[String], &[String], &[String])) -> Vec<String> {
    let halves = format!("vector<{}x{ty}>", a.len());
    let sums = format!("vector<{}xf32>", c.len());
    let [va, vb] = [a, b].map(|v| w.op(format_args!("vector.from_elements {} : {halves}", v.join(", "))));
    let vc = w.op(format_args!("vector.from_elements {} : {sums}", c.join(", ")));
    let zero = w.constant("0 : i32");
    let (more, types) = if settings { (format!(", {zero}, {zero}, {zero}"), ", i32, i32, i32") } else { (String::new(), "") };
    let out = w.op(format_args!(
        "llvm.call_intrinsic \"llvm.amdgcn.{name}\"({va}, {vb}, {vc}{more}) : ({halves}, {halves}, {sums}{types}) -> {sums}"
    ));
    (0..c.len()).map(|i| w.op(format_args!("vector.extract {out}[{i}] : f32 from {sums}"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_has_its_lanes() {
        for matrix in [MFMA, WMMA11, WMMA12].into_iter().flatten() {
            matrix.check().unwrap();
        }
    }
}
