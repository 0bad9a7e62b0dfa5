//! What the generator must know of a device: spellings of its few intrinsics, sizes, abilities.

use oaaxc_emit::text::Writer;
use oaaxc_ir::DType;

/// A GPU as data.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// The calling convention of a kernel, as MLIR spells it: `amdgpu_kernelcc`.
    pub convention: &'static str,
    /// Attributes of a kernel; `$threads` stands for the threads of a work group.
    pub attributes: &'static str,
    /// Lines of the module beside the kernel: declarations and flags.
    pub declarations: &'static str,
    /// Lines that define `%group` and `%thread`, both i64.
    pub ids: &'static str,
    /// Lines of a barrier of the work group that orders shared and global memory.
    pub barrier: &'static str,
    /// The synchronisation scope of the whole device, for atomics.
    pub scope: &'static str,
    /// The type of pointers to stack slots.
    pub private: &'static str,
    /// Threads of an ordinary work group; a square number.
    pub threads: u32,
    /// Shared memory that a group may use, in bytes.
    pub shared: i64,
    /// Whether it computes in double precision.
    pub f64: bool,
    /// Its matrix instructions for halves, at most one for each type.
    pub matrix: &'static [Matrix],
}

/// A matrix instruction of a subgroup: C += A·B, products of halves summed in f32.
#[derive(Debug)]
pub struct Matrix {
    /// The type of A and B.
    pub dtype: DType,
    /// Rows of A and C.
    pub rows: i64,
    /// Columns of B and C.
    pub columns: i64,
    /// Columns of A, rows of B.
    pub depth: i64,
    /// Threads of the subgroup.
    pub lanes: i64,
    /// Elements of A: across is the row, along is the summed index.
    pub a: Fragment,
    /// Elements of B: across is the column, along is the summed index.
    pub b: Fragment,
    /// Elements of C: across is the row, along is the column.
    pub c: Fragment,
    /// Emits it on a lane's elements of A, B and C; answers those of C.
    pub call: Multiply,
}

/// From the names of a lane's elements of A, B and C to those of its elements of the result.
pub type Multiply = fn(&mut Writer, &[String], &[String], &[String]) -> Vec<String>;

/// Which elements of a matrix a lane holds: element e lies at (across + `offsets[e]`, along + `steps[e]`).
#[derive(Debug)]
pub struct Fragment {
    /// What the lane adds to the first index.
    pub across: Lane,
    /// What the element adds to it.
    pub offsets: &'static [i64],
    /// What the lane adds to the second index.
    pub along: Lane,
    /// What the element adds to it.
    pub steps: &'static [i64],
}

/// `lane / divide % modulo * times`.
#[derive(Debug)]
pub struct Lane {
    /// Neighbouring lanes that share a value.
    pub divide: i64,
    /// Values before it starts again.
    pub modulo: i64,
    /// The distance of values.
    pub times: i64,
}

impl Fragment {
    /// How many elements a lane holds.
    pub fn elements(&self) -> usize {
        self.offsets.len()
    }
    /// Where element `element` of lane `lane` lies.
    pub fn place(&self, lane: i64, element: usize) -> (i64, i64) {
        let of = |l: &Lane| lane / l.divide % l.modulo * l.times;
        (of(&self.across) + self.offsets[element], of(&self.along) + self.steps[element])
    }
}

impl Matrix {
    /// The first fault in its description: every element of C once; of A and B each, by as many lanes.
    pub fn check(&self) -> Result<(), String> {
        for (name, fragment, rows, columns) in [
            ("a", &self.a, self.rows, self.depth),
            ("b", &self.b, self.columns, self.depth),
            ("c", &self.c, self.rows, self.columns),
        ] {
            let mut seen = vec![0; (rows * columns) as usize];
            for lane in 0..self.lanes {
                for e in 0..fragment.elements() {
                    let (row, column) = fragment.place(lane, e);
                    if row >= rows || column >= columns {
                        return Err(format!("{name}: lane {lane} element {e} is at {row}, {column}"));
                    }
                    seen[(row * columns + column) as usize] += 1;
                }
            }
            let times = self.lanes as usize * fragment.elements() / seen.len();
            if seen.iter().any(|n| *n != times) || name == "c" && times != 1 {
                return Err(format!("{name}: not every element is held equally often"));
            }
        }
        Ok(())
    }
}

/// Memory that a kernel is given.
pub(crate) const GLOBAL: &str = "!llvm.ptr<1>";
/// Memory of a work group.
pub(crate) const SHARED: &str = "!llvm.ptr<3>";
