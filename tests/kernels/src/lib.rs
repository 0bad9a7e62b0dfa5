//! Kernel cases, written once and run by every target that makes code: each function hands kernels with
//! their memory to a check, which compares what the target's code writes with the interpreter.

pub mod contractions;
pub mod operations;
pub mod structures;

use std::collections::BTreeSet;
use std::sync::Mutex;

use oaaxc_ir::expr::{Expr, SymId};
use oaaxc_ir::interpret::kernel::{run, storage_len};
use oaaxc_ir::kernel::{BufferId, Kernel, Role, Step};
use oaaxc_ir::{DType, Scalar};

/// Kernel, sizes of its symbols, one memory per argument (outputs included), relative tolerance.
pub type Check<'a> = &'a mut dyn FnMut(&Kernel, &[i64], &[Vec<u8>], f64);

/// A small deterministic generator.
pub struct Random(pub u64);

impl Random {
    /// The next 64 bits.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() >> 20) as usize % n
    }
    /// An element: mostly ordinary values, now and then an edge of the type.
    pub fn element(&mut self, dtype: DType) -> Scalar {
        let edge = self.below(16);
        let ordinary = (self.below(2001) as f64 - 1000.0) / 125.0;
        if dtype == DType::Bool {
            return Scalar::from_bool(self.below(2) == 1);
        }
        if let Some((low, high)) = dtype.integer_range() {
            return match edge {
                0 => Scalar::from_integer(dtype, low),
                1 => Scalar::from_integer(dtype, high),
                2 => Scalar::from_integer(dtype, -1),
                3 => Scalar::from_integer(dtype, 0),
                _ => Scalar::from_integer(dtype, (ordinary * 3.0) as i128),
            };
        }
        let value = match edge {
            0 => f64::INFINITY,
            1 => f64::NAN,
            2 => 0.0,
            3 => -0.0,
            4 => f64::NEG_INFINITY,
            // Beyond 2^45 the circular functions of a double are not reduced exactly.
            5 if dtype == DType::F64 => 1e12,
            5 => 1e30,
            _ => ordinary,
        };
        Scalar::from_f64(value).cast(dtype)
    }
    /// An element without surprises.
    pub fn tame(&mut self, dtype: DType) -> Scalar {
        let v = (self.below(65) as f64 - 32.0) / 16.0;
        if dtype.is_integer() { Scalar::from_i64((v * 4.0) as i64).cast(dtype) } else { Scalar::from_f64(v).cast(dtype) }
    }
}

/// Bytes in words, so that they are aligned.
pub fn words(bytes: &[u8]) -> Vec<u64> {
    // A guard word behind the end shows writes beyond it.
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().next_multiple_of(8), 0xa5);
    padded.extend([0x5a; 64]);
    padded.chunks(8).map(|c| u64::from_le_bytes(c.try_into().unwrap())).collect()
}

/// The first `len` bytes; panics where the guard behind them was written.
pub fn bytes(words: &[u64], len: usize) -> Vec<u8> {
    let all: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    assert!(all[len.next_multiple_of(8)..].iter().all(|b| *b == 0x5a), "written behind the end");
    all[..len].to_vec()
}

fn close(dtype: DType, x: Scalar, y: Scalar, tolerance: f64) -> bool {
    if !dtype.is_float() {
        return x.bits() == y.bits();
    }
    let (a, b) = (x.as_f64(), y.as_f64());
    if a.is_nan() || b.is_nan() {
        return a.is_nan() && b.is_nan();
    }
    let step = match dtype {
        DType::F32 | DType::F64 => tolerance,
        DType::F16 => tolerance.max(1.0 / 512.0),
        DType::BF16 => tolerance.max(1.0 / 64.0),
        _ => tolerance.max(0.6),
    };
    a == b || (a - b).abs() <= step * a.abs().max(b.abs()).max(if dtype == DType::F64 { 1e-300 } else { 1e-38 })
}

/// What the interpreter makes of the arguments; its error where the data is faulty.
pub fn expected(kernel: &Kernel, dims: &[i64], arguments: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, String> {
    let mut memory = arguments.to_vec();
    run(kernel, &mut memory, &|s| dims.get(s.0 as usize).copied()).map_err(|e| format!("{e:?}"))?;
    Ok(memory)
}

/// Panics where an output differs.
pub fn compare_outputs(name: &str, kernel: &Kernel, expected: &[Vec<u8>], found: &[Vec<u8>], tolerance: f64) {
    for (i, (id, buffer)) in kernel.arguments().enumerate().filter(|(_, (_, b))| b.role != Role::In) {
        let size = buffer.dtype.size();
        for (at, (e, f)) in expected[i].chunks(size).zip(found[i].chunks(size)).enumerate() {
            let (e, f) = (Scalar::read(buffer.dtype, e), Scalar::read(buffer.dtype, f));
            assert!(
                close(buffer.dtype, e, f, tolerance),
                "{name} \"{}\" {id} element {at} of {}: interpreter {e:?} {}, kernel {f:?} {}",
                kernel.name.0,
                buffer.dtype,
                e.as_f64(),
                f.as_f64()
            );
        }
    }
}

/// The value of a size expression.
pub fn evaluate(e: &Expr, dims: &[i64]) -> i64 {
    e.eval(&|s: SymId| dims.get(s.0 as usize).copied(), &|_| None).expect("sizes are known")
}

/// Memory for every argument, filled by `f(argument, dtype)`.
pub fn memory(kernel: &Kernel, dims: &[i64], mut f: impl FnMut(usize, DType) -> Scalar) -> Vec<Vec<u8>> {
    let eval = |e: &Expr| e.eval(&|s: SymId| dims.get(s.0 as usize).copied(), &|_| None).expect("sizes are known");
    let one = |(i, (_, b)): (usize, (_, &oaaxc_ir::kernel::Buffer))| {
        let sizes: Vec<i64> = b.dims.iter().map(eval).collect();
        let mut out = Vec::new();
        while out.len() < storage_len(&b.layout, &sizes, b.dtype) {
            f(i, b.dtype).append_to(&mut out);
        }
        out
    };
    kernel.arguments().enumerate().map(one).collect()
}

/// Tests of a family, each case with a check of the target's: `tests!(operations, check)`. The lists stand here once,
/// so that a case runs on every target.
#[macro_export]
macro_rules! tests {
    (operations, $check:ident) => {
        $crate::tests!(@ $check operations: unary_operations_agree binary_operations_agree casts_and_choices_agree);
    };
    (structures, $check:ident) => {
        $crate::tests!(@ $check structures:
            folds_agree_in_every_direction rows_with_private_memory_and_a_sequence sorts_are_stable_and_put_nan_last
            compaction_counts_and_keeps_order an_index_outside_is_padding_or_a_fault
            windows_read_padding_and_guards_touch_nothing views_broadcasts_and_tiles
            elementwise_work_of_any_rank_is_cut_into_groups);
    };
    (contractions, $check:ident) => {
        $crate::tests!(@ $check contractions:
            products_with_every_tail products_of_symbolic_sizes convolutions_with_tails_padding_and_strides
            depthwise_convolutions integer_products_are_exact integer_convolutions_are_exact products_of_halves);
    };
    (@ $check:ident $family:ident: $($case:ident)*) => {
        $(
            #[test]
            fn $case() {
                $crate::$family::$case(&mut $check);
            }
        )*
    };
}

/// Whether a text was not asked about before in this process: cases repeat kernels with other data.
pub fn is_new(text: &str) -> bool {
    static KNOWN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    KNOWN.lock().unwrap_or_else(|p| p.into_inner()).insert(text.to_string())
}

/// Whether the kernel is a product of plain halves, which matrix instructions take.
pub fn multiplies_halves(kernel: &Kernel) -> bool {
    let half = |b: BufferId| matches!(kernel.buffer(b).dtype, DType::F16 | DType::BF16);
    matches!(kernel.single_step(), Some(Step::Contract(c)) if half(c.a.buffer) && half(c.b.buffer))
}
