//! Every scalar operation on every type, against the interpreter.

use oaaxc_ir::expr::{AxisId, Expr, SymId};
use oaaxc_ir::kernel::{
    BinaryOp, Body, Bounds, Buffer, BufferId, Index, Item, Kernel, Layout, Loop, LoopAxis, Op, Role, Step, Store, UnaryOp, V,
};
use oaaxc_ir::{DType, Scalar};

use crate::{Check, Random, memory};

const UNARY: &[UnaryOp] = &[
    UnaryOp::Neg,
    UnaryOp::Abs,
    UnaryOp::Sign,
    UnaryOp::Floor,
    UnaryOp::Ceil,
    UnaryOp::Round,
    UnaryOp::Trunc,
    UnaryOp::Sqrt,
    UnaryOp::Exp,
    UnaryOp::Log,
    UnaryOp::Sin,
    UnaryOp::Cos,
    UnaryOp::Tan,
    UnaryOp::Asin,
    UnaryOp::Acos,
    UnaryOp::Atan,
    UnaryOp::Sinh,
    UnaryOp::Cosh,
    UnaryOp::Tanh,
    UnaryOp::Asinh,
    UnaryOp::Acosh,
    UnaryOp::Atanh,
    UnaryOp::Erf,
    UnaryOp::Not,
    UnaryOp::IsNan,
    UnaryOp::IsInf,
];
const BINARY: &[BinaryOp] = &[
    BinaryOp::Add,
    BinaryOp::Sub,
    BinaryOp::Mul,
    BinaryOp::Div,
    BinaryOp::Rem,
    BinaryOp::Mod,
    BinaryOp::Min,
    BinaryOp::Max,
    BinaryOp::Pow,
    BinaryOp::And,
    BinaryOp::Or,
    BinaryOp::Xor,
    BinaryOp::Shl,
    BinaryOp::Shr,
    BinaryOp::Eq,
    BinaryOp::Ne,
    BinaryOp::Lt,
    BinaryOp::Le,
    BinaryOp::Gt,
    BinaryOp::Ge,
];
const TYPES: &[DType] = &[
    DType::F32,
    DType::F64,
    DType::F16,
    DType::BF16,
    DType::Bool,
    DType::I8,
    DType::U8,
    DType::I16,
    DType::U16,
    DType::I32,
    DType::U32,
    DType::I64,
    DType::U64,
    DType::I4,
    DType::U4,
    DType::I2,
    DType::U2,
    DType::F8E4M3FN,
    DType::F8E4M3FNUZ,
    DType::F8E5M2,
    DType::F8E5M2FNUZ,
    DType::F4E2M1,
    DType::F8E8M0,
];

/// A kernel over one axis of s0 elements with two inputs of a type; `outputs` appends one value per output.
fn kernel(name: &str, dtype: DType, outputs: impl Fn(&mut Body, V, V) -> Vec<V>) -> Kernel {
    let axis = AxisId(0);
    let n = Expr::sym(SymId(0));
    let buffer = |dtype, role| Buffer { dtype, dims: vec![n.clone()], role, layout: Layout::default() };
    let mut buffers = vec![buffer(dtype, Role::In), buffer(dtype, Role::In)];
    let mut post = Body::default();
    let load = |id| Op::Load {
        buffer: BufferId(id),
        dtype,
        index: vec![Index::Expr(Expr::axis(axis))],
        when: None,
        bounds: Bounds::Inside,
        otherwise: Scalar::zero(dtype),
    };
    let x = post.push(load(0));
    let y = post.push(load(1));
    let values = outputs(&mut post, x, y);
    let mut stores = Vec::new();
    for value in values {
        let id = BufferId(buffers.len() as u32);
        buffers.push(buffer(post.dtype(value), Role::Out));
        stores.push(Store { buffer: id, index: vec![Index::Expr(Expr::axis(axis))], value, when: None, bounds: Bounds::Inside });
    }
    let parallel = vec![LoopAxis { axis, extent: n }];
    let step = Loop { parallel, post, stores, ..Loop::default() };
    Kernel {
        name: oaaxc_ir::kernel::Label(name.into()),
        buffers,
        axes: 1,
        parallel: vec![],
        body: vec![Item::Step(Step::Loop(step))],
    }
}

fn compare(check: Check, k: &Kernel, seed: u64, tolerance: f64) {
    let mut random = Random(seed);
    let memory = memory(k, &[301], |_, dtype| random.element(dtype));
    check(k, &[301], &memory, tolerance);
}

/// All but the type without a NaN, on which nothing is computed.
fn computed() -> impl Iterator<Item = DType> {
    TYPES.iter().copied().filter(|d| *d != DType::F4E2M1)
}

/// See the name.
pub fn unary_operations_agree(check: Check) {
    for dtype in computed() {
        let k = kernel(&format!("unary {dtype}"), dtype, |b, x, _| {
            // Beyond 2^45 the circular functions are not reduced exactly.
            let circular = |op: &UnaryOp| matches!(op, UnaryOp::Sin | UnaryOp::Cos | UnaryOp::Tan);
            let large = matches!(dtype, DType::I64 | DType::U64);
            UNARY.iter().filter(|op| !large || !circular(op)).map(|&op| b.unary(op, x)).collect()
        });
        compare(check, &k, 7, 1e-5);
    }
}

/// See the name.
pub fn binary_operations_agree(check: Check) {
    for dtype in computed() {
        let bits = |op: &BinaryOp| matches!(op, BinaryOp::And | BinaryOp::Or | BinaryOp::Xor | BinaryOp::Shl | BinaryOp::Shr);
        let k = kernel(&format!("binary {dtype}"), dtype, |b, x, y| {
            BINARY.iter().filter(|op| !dtype.is_float() || !bits(op)).map(|&op| b.binary(op, x, y)).collect()
        });
        compare(check, &k, 11, 1e-5);
    }
}

/// See the name.
pub fn casts_and_choices_agree(check: Check) {
    for &dtype in TYPES {
        let k = kernel(&format!("cast {dtype}"), dtype, |b, x, y| {
            let mut all: Vec<V> = TYPES.iter().map(|&to| b.cast(to, x)).collect();
            let less = b.binary(BinaryOp::Lt, x, y);
            all.push(b.select(less, x, y));
            all
        });
        compare(check, &k, 13, 1e-6);
    }
}
