//! Matrix products and convolutions of awkward sizes, against the interpreter: tails, padding, strides, panels, symbols.

use oaaxc_ir::expr::{AxisId, Expr, SymId};
use oaaxc_ir::kernel::{
    BinaryOp, Body, Bounds, Buffer, BufferId, Contract, Index, Item, Kernel, Label, Layout, LoopAxis, Op, Operand, Role, Step,
    Store, Tile,
};
use oaaxc_ir::{DType, Scalar};

use crate::{Check, Random, memory};

fn axis(n: u32, extent: impl Into<Expr>) -> LoopAxis {
    LoopAxis { axis: AxisId(n), extent: extent.into() }
}
fn i(n: u32) -> Expr {
    Expr::axis(AxisId(n))
}
fn s(n: u32) -> Expr {
    Expr::sym(SymId(n))
}
fn operand(id: u32, index: Vec<Expr>) -> Operand {
    Operand { buffer: BufferId(id), index, otherwise: None, zero: None, prologue: None }
}
fn buffer(dtype: DType, dims: Vec<Expr>, role: Role) -> Buffer {
    Buffer { dtype, dims, role, layout: Layout::default() }
}
fn panels(order: Vec<usize>, dim: usize) -> Layout {
    Layout { order, tiles: vec![Tile { dim, size: 16 }] }
}

/// `max(Σ a·b + bias, 0)`; buffers 0, 1, 2 are a, b, bias, 3 is the result.
fn post(acc: DType, bias: Expr) -> (Body, oaaxc_ir::kernel::V) {
    let mut post = Body::default();
    let sum = post.param(0, acc);
    let b = post.push(Op::Load {
        buffer: BufferId(2),
        dtype: acc,
        index: vec![Index::Expr(bias)],
        when: None,
        bounds: Bounds::Inside,
        otherwise: Scalar::zero(acc),
    });
    let sum = post.binary(BinaryOp::Add, sum, b);
    let zero = post.scalar(Scalar::zero(acc));
    let value = post.binary(BinaryOp::Max, sum, zero);
    (post, value)
}
fn kernel(name: String, buffers: Vec<Buffer>, axes: u32, mut c: Contract, bias: Expr, index: Vec<Expr>) -> Kernel {
    let (body, value) = post(c.acc, bias);
    c.post = body;
    let index = index.into_iter().map(Index::Expr).collect();
    c.stores = vec![Store { buffer: BufferId(3), index, value, when: None, bounds: Bounds::Inside }];
    Kernel { name: Label(name), buffers, axes, parallel: vec![], body: vec![Item::Step(Step::Contract(c))] }
}

/// Batch of products `[b, m, k] · [k, n]` or `[b, k, n]`.
fn matmul(dims: [Expr; 4], packed: bool, batched_b: bool, transposed: bool) -> Kernel {
    let [batch, m, n, k] = dims;
    let f = DType::F32;
    let mut b_dims = if transposed { vec![n.clone(), k.clone()] } else { vec![k.clone(), n.clone()] };
    let mut b_index = if transposed { vec![i(2), i(3)] } else { vec![i(3), i(2)] };
    if batched_b {
        b_dims.insert(0, batch.clone());
        b_index.insert(0, i(0));
    }
    let mut buffers = vec![
        buffer(f, vec![batch.clone(), m.clone(), k.clone()], Role::In),
        buffer(f, b_dims, Role::In),
        buffer(f, vec![n.clone()], Role::In),
        buffer(f, vec![batch.clone(), m.clone(), n.clone()], Role::Out),
    ];
    if packed {
        buffers[1].layout = if transposed { panels(vec![0, 1], 0) } else { panels(vec![1, 0], 1) };
    }
    let c = Contract {
        batch: vec![axis(0, batch)],
        m: vec![axis(1, m)],
        n: vec![axis(2, n)],
        k: vec![axis(3, k)],
        a: operand(0, vec![i(0), i(1), i(3)]),
        b: operand(1, b_index),
        acc: f,
        post: Body::default(),
        stores: vec![],
    };
    kernel(
        format!("matmul packed {packed} batched {batched_b} transposed {transposed}"),
        buffers,
        4,
        c,
        i(2),
        vec![i(0), i(1), i(2)],
    )
}

fn compare(check: Check, k: &Kernel, dims: &[i64]) {
    let mut random = Random(31);
    let memory = memory(k, dims, |_, dtype| random.tame(dtype));
    check(k, dims, &memory, 2e-5);
}

fn numbers(d: [i64; 4]) -> [Expr; 4] {
    d.map(Expr::from)
}

/// See the name.
pub fn products_with_every_tail(check: Check) {
    for d in [[1, 1, 17, 5], [1, 5, 33, 64], [2, 13, 48, 7], [1, 97, 100, 31], [1, 8, 16, 16], [3, 2, 4, 3]] {
        for (packed, batched, transposed) in
            [(true, false, false), (false, true, false), (false, true, true), (true, false, true), (false, false, false)]
        {
            compare(check, &matmul(numbers(d), packed, batched, transposed), &[]);
        }
    }
}

/// See the name.
pub fn products_of_symbolic_sizes(check: Check) {
    let k = matmul([s(0), s(1), s(2), s(3)], false, true, false);
    for d in [[2, 7, 19, 11], [1, 1, 16, 64], [3, 97, 5, 2], [1, 0, 5, 2], [1, 3, 5, 0]] {
        compare(check, &k, &d);
    }
    let k = matmul([s(0), s(1), 40.into(), 24.into()], true, false, false);
    for d in [[2, 7], [1, 1], [1, 100], [0, 4]] {
        compare(check, &k, &d);
    }
}

/// A convolution over NCHW in groups. `spatial` symbolic: H = s0, W = s1.
struct Conv {
    image: [i64; 3],
    out: i64,
    kernel: i64,
    stride: i64,
    pad: i64,
    group: i64,
    packed: bool,
    symbolic: bool,
    dtype: DType,
}

fn conv(c: &Conv) -> (Kernel, Vec<i64>) {
    let [channels, height, width] = c.image;
    let (h, w) = if c.symbolic { (s(0), s(1)) } else { (height.into(), width.into()) };
    let out_size = |x: &Expr| (x.clone() + (2 * c.pad - c.kernel)).floor_div(&c.stride.into()) + 1;
    let (oh, ow) = (out_size(&h), out_size(&w));
    let (per_in, per_out) = (channels / c.group, c.out / c.group);
    let acc = if c.dtype == DType::F32 { DType::F32 } else { DType::I32 };
    let mut buffers = vec![
        buffer(c.dtype, vec![2.into(), channels.into(), h, w], Role::In),
        buffer(
            if c.dtype == DType::U8 { DType::I8 } else { c.dtype },
            vec![c.out.into(), per_in.into(), c.kernel.into(), c.kernel.into()],
            Role::In,
        ),
        buffer(acc, vec![c.out.into()], Role::In),
        buffer(acc, vec![2.into(), c.out.into(), oh.clone(), ow.clone()], Role::Out),
    ];
    if c.packed {
        buffers[1].layout = panels(vec![0, 2, 3, 1], 0);
    }
    // 0 image, 1 group, 2 oh, 3 ow, 4 oc, 5 kh, 6 kw, 7 ic
    let channel = i(1) * per_out + i(4);
    let place = |o: Expr, k: Expr| o * c.stride + k - c.pad;
    let mut a = operand(0, vec![i(0), i(1) * per_in + i(7), place(i(2), i(5)), place(i(3), i(6))]);
    if c.pad > 0 {
        a.otherwise = Some(Scalar::zero(c.dtype));
    }
    let contract = Contract {
        batch: vec![axis(0, 2), axis(1, c.group)],
        m: vec![axis(2, oh), axis(3, ow)],
        n: vec![axis(4, per_out)],
        k: vec![axis(5, c.kernel), axis(6, c.kernel), axis(7, per_in)],
        a,
        b: operand(1, vec![channel.clone(), i(7), i(5), i(6)]),
        acc,
        post: Body::default(),
        stores: vec![],
    };
    let name = format!("conv {:?} -> {} kernel {} group {} packed {}", c.image, c.out, c.kernel, c.group, c.packed);
    (kernel(name, buffers, 8, contract, channel.clone(), vec![i(0), channel, i(2), i(3)]), vec![height, width])
}

const PLAIN: Conv =
    Conv { image: [5, 9, 11], out: 19, kernel: 3, stride: 1, pad: 1, group: 1, packed: true, symbolic: false, dtype: DType::F32 };

/// See the name.
pub fn convolutions_with_tails_padding_and_strides(check: Check) {
    for c in [
        Conv { ..PLAIN },
        Conv { packed: false, ..PLAIN },
        Conv { symbolic: true, ..PLAIN },
        Conv { symbolic: true, stride: 2, image: [3, 23, 17], ..PLAIN },
        Conv { kernel: 1, pad: 0, image: [24, 7, 7], out: 40, ..PLAIN },
        Conv { kernel: 1, pad: 0, stride: 2, image: [24, 7, 9], out: 40, symbolic: true, ..PLAIN },
        Conv { kernel: 5, pad: 2, group: 2, image: [6, 8, 8], out: 64, ..PLAIN },
        Conv { group: 2, packed: false, image: [6, 8, 8], out: 10, ..PLAIN },
        Conv { kernel: 7, pad: 3, stride: 2, image: [3, 20, 31], out: 16, ..PLAIN },
        Conv { image: [200, 5, 6], out: 33, ..PLAIN },
    ] {
        let (k, dims) = conv(&c);
        compare(check, &k, &dims);
    }
}

/// See the name.
pub fn depthwise_convolutions(check: Check) {
    for c in [
        Conv { group: 6, image: [6, 9, 40], out: 6, packed: false, ..PLAIN },
        Conv { group: 6, image: [6, 9, 40], out: 12, packed: false, ..PLAIN },
        Conv { group: 5, image: [5, 17, 3], out: 5, packed: false, stride: 2, symbolic: true, ..PLAIN },
        Conv { group: 4, image: [4, 12, 70], out: 4, packed: false, kernel: 5, pad: 2, symbolic: true, ..PLAIN },
        Conv { group: 4, image: [4, 12, 20], out: 4, packed: false, kernel: 3, pad: 0, ..PLAIN },
        Conv { group: 3, image: [3, 2, 2], out: 3, packed: false, kernel: 5, pad: 2, ..PLAIN },
    ] {
        let (k, dims) = conv(&c);
        compare(check, &k, &dims);
    }
}

/// The same kernel with operands in these types; sums stay in f32.
fn in_types(mut k: Kernel, a: DType, b: DType) -> Kernel {
    (k.buffers[0].dtype, k.buffers[1].dtype) = (a, b);
    let [Item::Step(Step::Contract(c))] = &mut k.body[..] else { unreachable!("made by the callers") };
    c.a.otherwise = c.a.otherwise.map(|_| Scalar::zero(a));
    k.name = Label(format!("{} of {a} by {b}", k.name.0));
    k
}

/// Operands of 16 bits are read where they lie, both or the weights alone.
pub fn halves_are_summed_in_f32(check: Check) {
    use DType::{BF16, F16, F32};
    let types = [(F16, F16), (BF16, BF16), (F32, F16)];
    let products = [([2, 13, 48, 7], true, false), ([1, 97, 100, 31], false, true), ([1, 1, 17, 5], true, true)];
    for ((d, packed, transposed), (a, b)) in products.into_iter().zip(types) {
        compare(check, &in_types(matmul(numbers(d), packed, false, transposed), a, b), &[]);
    }
    let convolutions = [
        Conv { ..PLAIN },
        Conv { packed: false, ..PLAIN },
        Conv { kernel: 1, pad: 0, image: [24, 7, 7], out: 40, ..PLAIN },
        Conv { kernel: 7, pad: 3, stride: 2, image: [3, 20, 31], out: 16, symbolic: true, ..PLAIN },
        Conv { image: [200, 5, 6], out: 33, ..PLAIN },
        Conv { group: 6, image: [6, 9, 40], out: 6, packed: false, ..PLAIN },
        Conv { group: 5, image: [5, 17, 3], out: 5, packed: false, stride: 2, symbolic: true, ..PLAIN },
    ];
    for (c, (a, b)) in convolutions.iter().zip(types.into_iter().cycle()) {
        let (k, dims) = conv(c);
        compare(check, &in_types(k, a, b), &dims);
    }
    compare(check, &in_types(matmul([s(0), s(1), s(2), s(3)], false, true, true), F16, F16), &[3, 97, 5, 2]);
}

/// The same product in bytes, zero points read from buffers: one for `a`, one per column for `b`.
fn integer_matmul(dims: [Expr; 4], dtypes: [DType; 2], packed: bool) -> Kernel {
    let n = dims[2].clone();
    let mut k = matmul(dims, packed, false, false);
    for (buffer, dtype) in k.buffers.iter_mut().zip([dtypes[0], dtypes[1], DType::I32, DType::I32]) {
        buffer.dtype = dtype;
    }
    k.buffers.push(buffer(dtypes[0], vec![], Role::In));
    k.buffers.push(buffer(dtypes[1], vec![n], Role::In));
    let [Item::Step(Step::Contract(c))] = &mut k.body[..] else { unreachable!("made above") };
    c.acc = DType::I32;
    c.a.zero = Some((BufferId(4), vec![]));
    c.b.zero = Some((BufferId(5), vec![i(2)]));
    let (body, value) = post(DType::I32, i(2));
    c.post = body;
    c.stores[0].value = value;
    k
}

/// See the name.
pub fn integer_products_are_exact(check: Check) {
    for d in [[1, 13, 48, 8], [2, 5, 33, 65], [1, 300, 200, 31], [1, 1, 40, 16]] {
        for (dtypes, packed) in [([DType::U8, DType::I8], true), ([DType::U8, DType::U8], false), ([DType::I8, DType::I8], false)]
        {
            let k = integer_matmul(numbers(d), dtypes, packed);
            let mut random = Random(17);
            check(&k, &[], &memory(&k, &[], |_, dtype| random.element(dtype)), 0.0);
        }
    }
    let k = integer_matmul([s(0), s(1), s(2), s(3)], [DType::U8, DType::I8], false);
    for d in [[2, 7, 19, 11], [1, 0, 16, 64], [1, 9, 50, 0]] {
        let mut random = Random(18);
        check(&k, &d, &memory(&k, &d, |_, dtype| random.element(dtype)), 0.0);
    }
}

/// See the name.
pub fn integer_convolutions_are_exact(check: Check) {
    for c in [
        Conv { dtype: DType::U8, packed: false, ..PLAIN },
        Conv { dtype: DType::U8, packed: false, group: 5, out: 5, ..PLAIN },
        Conv { dtype: DType::U8, packed: true, symbolic: true, ..PLAIN },
    ] {
        let (k, dims) = conv(&c);
        compare(check, &k, &dims);
    }
}

/// Products of halves, summed in single precision: the kind that matrix instructions compute.
pub fn products_of_halves(check: Check) {
    for dtype in [DType::F16, DType::BF16] {
        for (d, transposed) in [([1, 70, 90, 40], true), ([2, 5, 65, 33], false)] {
            let mut k = matmul(numbers(d), false, false, transposed);
            k.buffers[0].dtype = dtype;
            k.buffers[1].dtype = dtype;
            compare(check, &k, &[]);
        }
    }
}
