//! What Kernel IR must be able to say, each built by hand and interpreted against plain loops.

use oaaxc_ir::expr::{Expr, SymId};
use oaaxc_ir::interpret::kernel::{place, run, storage_len};
use oaaxc_ir::kernel::{
    BinaryOp, Body, Bounds, Compact, Contract, Fold, FoldKind, Index, Kernel, Layout, Loop, Operand, Role, Step, Store, Tile,
    UnaryOp, V, verify,
};
use oaaxc_ir::lower::{Arg, Buf, KernelBuilder};
use oaaxc_ir::program::SlotId;
use oaaxc_ir::{DType, Scalar, Tensor, ix};

fn arg(dtype: DType, dims: &[Expr]) -> Arg {
    Arg { slot: SlotId(0), dtype, dims: dims.to_vec() }
}

fn sizes(dims: &[i64]) -> Vec<Expr> {
    dims.iter().map(|&d| d.into()).collect()
}

fn operand(buffer: &Buf, index: Vec<Expr>) -> Operand {
    Operand { buffer: buffer.id, index, otherwise: None, zero: None, prologue: None }
}

fn empty(a: Operand, b: Operand, acc: DType) -> Contract {
    Contract { batch: vec![], m: vec![], n: vec![], k: vec![], a, b, acc, post: Body::default(), stores: vec![] }
}

fn store(buffer: &Buf, index: Vec<Expr>, value: V) -> Store {
    Store::at(buffer, index.into_iter().map(Index::Expr).collect(), value)
}

/// Runs a kernel on tensors in logical order and returns its outputs so; `symbols` are values by number.
fn interpret(kernel: &Kernel, inputs: &[Tensor], symbols: &[i64]) -> Vec<Tensor> {
    verify(kernel).expect("the kernel keeps the rules");
    let symbol = |s: SymId| symbols.get(s.0 as usize).copied();
    let mut given = inputs.iter();
    let mut memory = Vec::new();
    let mut shapes = Vec::new();
    for (_, buffer) in kernel.arguments() {
        let dims: Vec<i64> = buffer.dims.iter().map(|d| d.eval(&symbol, &|_| None).expect("sizes are known")).collect();
        let mut bytes = vec![0; storage_len(&buffer.layout, &dims, buffer.dtype)];
        if buffer.role == Role::In {
            let tensor = given.next().expect("one tensor per input");
            for (i, c) in oaaxc_ir::tensor::Coordinates::new(&tensor.dims).enumerate() {
                let index: Vec<i64> = c.iter().map(|&x| x as i64).collect();
                let at = place(&buffer.layout, &dims, &index).expect("inside") * buffer.dtype.size();
                let mut one = Vec::new();
                tensor.get(i).append_to(&mut one);
                bytes[at..at + one.len()].copy_from_slice(&one);
            }
        }
        memory.push(bytes);
        shapes.push(dims);
    }
    run(kernel, &mut memory, &symbol).expect("the kernel runs");
    let mut outputs = Vec::new();
    for (((_, buffer), bytes), dims) in kernel.arguments().zip(&memory).zip(&shapes) {
        if buffer.role == Role::In {
            continue;
        }
        let plain: Vec<usize> = dims.iter().map(|&d| d as usize).collect();
        let elements = oaaxc_ir::tensor::Coordinates::new(&plain).map(|c| {
            let index: Vec<i64> = c.iter().map(|&x| x as i64).collect();
            let at = place(&buffer.layout, dims, &index).expect("inside") * buffer.dtype.size();
            Scalar::read(buffer.dtype, &bytes[at..at + buffer.dtype.size()])
        });
        let elements: Vec<Scalar> = elements.collect();
        outputs.push(Tensor::from_scalars(buffer.dtype, plain, elements));
    }
    outputs
}

fn ramp(dims: &[usize]) -> Tensor {
    let n: usize = dims.iter().product();
    Tensor::from_f64s(DType::F32, dims.to_vec(), (0..n).map(|i| (i as f64 * 0.37).sin()))
}

fn close(found: &Tensor, expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (i, e) in expected.iter().enumerate() {
        let f = found.f64_at(i);
        assert!((f - e).abs() < 1e-5 * e.abs().max(1.0), "element {i}: {f}, expected {e}");
    }
}

#[test]
fn matrix_product_bias_and_gelu_over_symbolic_sizes() {
    let (n, m) = (Expr::sym(SymId(0)), Expr::sym(SymId(1)));
    let mut k = KernelBuilder::new("proof");
    let a = k.read(&arg(DType::F32, &[n.clone(), 3.into()]));
    let b = k.read(&arg(DType::F32, &[3.into(), m.clone()]));
    let bias = k.read(&arg(DType::F32, std::slice::from_ref(&m)));
    let y = k.write(&arg(DType::F32, &[n.clone(), m.clone()]));
    let (mut rows, mut columns, mut inner) = (vec![], vec![], vec![]);
    let (i, j, l) = (k.axis(&mut rows, n), k.axis(&mut columns, m), k.axis(&mut inner, 3));
    let mut c = empty(operand(&a, vec![i.clone(), l.clone()]), operand(&b, vec![l, j.clone()]), DType::F32);
    (c.m, c.n, c.k) = (rows, columns, inner);
    let p = &mut c.post;
    let (sum, t) = (p.param(0, DType::F32), p.load(&bias, ix![&j]));
    let x = p.binary(BinaryOp::Add, sum, t);
    let (root, half, one) = (p.float(DType::F32, 0.5f64.sqrt()), p.float(DType::F32, 0.5), p.float(DType::F32, 1.0));
    let scaled = p.binary(BinaryOp::Mul, x, root);
    let e = p.unary(UnaryOp::Erf, scaled);
    let e = p.binary(BinaryOp::Add, e, one);
    let h = p.binary(BinaryOp::Mul, x, half);
    let v = p.binary(BinaryOp::Mul, h, e);
    c.stores.push(store(&y, vec![i, j], v));
    k.step(Step::Contract(c));
    let kernel = k.finish();
    for (n, m) in [(2usize, 4usize), (5, 1)] {
        let (a, b, bias) = (ramp(&[n, 3]), ramp(&[3, m]), ramp(&[m]));
        let y = interpret(&kernel, &[a.clone(), b.clone(), bias.clone()], &[n as i64, m as i64]);
        let mut expected = Vec::new();
        for i in 0..n {
            for j in 0..m {
                let x: f64 = (0..3).map(|l| a.f64_at(i * 3 + l) * b.f64_at(l * m + j)).sum::<f64>() + bias.f64_at(j);
                expected.push(x / 2.0 * (1.0 + oaaxc_ir::interpret::arithmetic::erf(x * 0.5f64.sqrt())));
            }
        }
        close(&y[0], &expected);
    }
}

/// A 3×3 convolution of stride 2 with one pixel of padding; weights `[M, C, 3, 3]`.
fn convolution(k: &mut KernelBuilder, x: &Buf, w: &Buf, out: &[Expr], acc: DType) -> (Contract, Vec<Expr>) {
    let (mut batch, mut m, mut n, mut kk) = (vec![], vec![], vec![], vec![]);
    let image = k.axis(&mut batch, out[0].clone());
    let (oh, ow) = (k.axis(&mut m, out[2].clone()), k.axis(&mut m, out[3].clone()));
    let oc = k.axis(&mut n, out[1].clone());
    let (kh, kw, ic) = (k.axis(&mut kk, 3), k.axis(&mut kk, 3), k.axis(&mut kk, w.dims[1].clone()));
    let a_index = vec![image.clone(), ic.clone(), &oh * 2 + &kh - 1, &ow * 2 + &kw - 1];
    let mut c = empty(operand(x, a_index), operand(w, vec![oc.clone(), ic, kh, kw]), acc);
    c.a.otherwise = Some(Scalar::zero(x.dtype));
    (c.batch, c.m, c.n, c.k) = (batch, m, n, kk);
    (c, vec![image, oc, oh, ow])
}

/// The same by plain loops: the sum at each result element of `[N, M, OH, OW]`.
fn plain_convolution(x: &Tensor, w: &Tensor, out: &[usize], xz: f64, wz: impl Fn(usize) -> f64) -> Vec<f64> {
    let mut all = Vec::new();
    for o in oaaxc_ir::tensor::Coordinates::new(out) {
        let mut sum = 0.0;
        for t in oaaxc_ir::tensor::Coordinates::new(&w.dims[1..]) {
            let (h, v) = ((o[2] * 2 + t[1]).wrapping_sub(1), (o[3] * 2 + t[2]).wrapping_sub(1));
            if h < x.dims[2] && v < x.dims[3] {
                let at = oaaxc_ir::tensor::position(&[o[0], t[0], h, v], &x.dims);
                let wt = oaaxc_ir::tensor::position(&[o[1], t[0], t[1], t[2]], &w.dims);
                sum += (x.f64_at(at) - xz) * (w.f64_at(wt) - wz(o[1]));
            }
        }
        all.push(sum);
    }
    all
}

#[test]
fn a_padded_convolution_reads_rows_or_blocked_channels_alike() {
    let (x, w) = (ramp(&[1, 6, 5, 4]), ramp(&[5, 6, 3, 3]));
    let out = [1, 5, 3, 2];
    let expected = plain_convolution(&x, &w, &out, 0.0, |_| 0.0);
    let blocked = |dim: usize| Layout { order: vec![], tiles: vec![Tile { dim, size: 4 }] };
    let filters = Layout { order: vec![0, 2, 3, 1], tiles: vec![Tile { dim: 1, size: 4 }, Tile { dim: 0, size: 4 }] };
    for layouts in [[Layout::default(), Layout::default(), Layout::default()], [blocked(1), filters, blocked(1)]] {
        let mut k = KernelBuilder::new("proof");
        let xb = k.read(&arg(DType::F32, &sizes(&[1, 6, 5, 4])));
        let wb = k.read(&arg(DType::F32, &sizes(&[5, 6, 3, 3])));
        let yb = k.write(&arg(DType::F32, &sizes(&[1, 5, 3, 2])));
        let (mut c, output) = convolution(&mut k, &xb, &wb, &yb.dims, DType::F32);
        let v = c.post.param(0, DType::F32);
        c.stores.push(store(&yb, output, v));
        k.step(Step::Contract(c));
        let mut kernel = k.finish();
        for (buffer, layout) in kernel.buffers.iter_mut().zip(layouts) {
            buffer.layout = layout;
        }
        close(&interpret(&kernel, &[x.clone(), w.clone()], &[])[0], &expected);
    }
}

#[test]
fn a_quantised_convolution_requantises_per_channel() {
    let bytes = |dtype, dims: &[usize]| {
        let n = dims.iter().product::<usize>() as i64;
        Tensor::from_i64s(dtype, dims.to_vec(), (0..n).map(|i| i * 37 % 251))
    };
    let (x, w) = (bytes(DType::U8, &[1, 2, 4, 4]), bytes(DType::I8, &[3, 2, 3, 3]));
    let (xz, wz) = (Tensor::from_i64s(DType::U8, vec![], [100]), Tensor::from_i64s(DType::I8, vec![3], [1, -2, 3]));
    let scale = Tensor::from_f32s(vec![3], &[0.001, 0.002, 0.01]);
    let mut k = KernelBuilder::new("proof");
    let xb = k.read(&arg(DType::U8, &sizes(&[1, 2, 4, 4])));
    let wb = k.read(&arg(DType::I8, &sizes(&[3, 2, 3, 3])));
    let xzb = k.read(&arg(DType::U8, &[]));
    let (wzb, sb) = (k.read(&arg(DType::I8, &sizes(&[3]))), k.read(&arg(DType::F32, &sizes(&[3]))));
    let yb = k.write(&arg(DType::U8, &sizes(&[1, 3, 2, 2])));
    let (mut c, output) = convolution(&mut k, &xb, &wb, &yb.dims, DType::I32);
    c.a.otherwise = Some(Scalar::from_i64(100).cast(DType::U8));
    c.a.zero = Some((xzb.id, vec![]));
    c.b.zero = Some((wzb.id, vec![output[1].clone()]));
    let p = &mut c.post;
    let (sum, s) = (p.param(0, DType::I32), p.load(&sb, ix![&output[1]]));
    let v = p.cast(DType::F32, sum);
    let v = p.binary(BinaryOp::Mul, v, s);
    let v = p.unary(UnaryOp::Round, v);
    let (zero, low, high) = (p.float(DType::F32, 128.0), p.float(DType::F32, 0.0), p.float(DType::F32, 255.0));
    let v = p.binary(BinaryOp::Add, v, zero);
    let v = p.binary(BinaryOp::Max, v, low);
    let v = p.binary(BinaryOp::Min, v, high);
    let v = p.cast(DType::U8, v);
    c.stores.push(store(&yb, output, v));
    k.step(Step::Contract(c));
    let y = interpret(&k.finish(), &[x.clone(), w.clone(), xz, wz.clone(), scale.clone()], &[]);
    let sums = plain_convolution(&x, &w, &[1, 3, 2, 2], 100.0, |m| wz.f64_at(m));
    let expected = sums.iter().enumerate().map(|(i, s)| {
        let scaled = *s as f32 * scale.f64_at(i / 4) as f32;
        f64::from((scaled.round_ties_even() + 128.0).clamp(0.0, 255.0))
    });
    assert_eq!(y[0].to_f64s(), expected.collect::<Vec<_>>());
}

#[test]
fn a_sum_over_axes_that_only_the_run_knows() {
    // Symbols 0 and 1 are 1 where the axis is summed; they come from the axes' tensor.
    let flags = [Expr::sym(SymId(0)), Expr::sym(SymId(1))];
    let dims = sizes(&[3, 4]);
    let out: Vec<Expr> = dims.iter().zip(&flags).map(|(d, f)| f.select(&1.into(), d)).collect();
    let mut k = KernelBuilder::new("proof");
    let x = k.read(&arg(DType::F32, &dims));
    let y = k.write(&arg(DType::F32, &out));
    let mut l = Loop::default();
    let outer = k.axes(&mut l.parallel, &out);
    let folded: Vec<Expr> = dims.iter().zip(&flags).map(|(d, f)| f.select(d, &1.into())).collect();
    let inner = k.axes(&mut l.reduce, &folded);
    let index = flags.iter().zip(outer.iter().zip(&inner)).map(|(f, (o, i))| Index::Expr(f.select(i, o))).collect();
    let value = l.body.load(&x, index);
    l.folds.push(Fold { kind: FoldKind::Sum, value, dtype: DType::F32 });
    let v = l.post.param(0, DType::F32);
    l.stores.push(store(&y, outer, v));
    k.push(l);
    let kernel = k.finish();
    let x = ramp(&[3, 4]);
    let at = |i: usize, j: usize| x.f64_at(i * 4 + j);
    let rows: Vec<f64> = (0..3).map(|i| (0..4).map(|j| at(i, j)).sum()).collect();
    let columns: Vec<f64> = (0..4).map(|j| (0..3).map(|i| at(i, j)).sum()).collect();
    close(&interpret(&kernel, std::slice::from_ref(&x), &[0, 1])[0], &rows);
    close(&interpret(&kernel, std::slice::from_ref(&x), &[1, 0])[0], &columns);
    close(&interpret(&kernel, std::slice::from_ref(&x), &[1, 1])[0], &[rows.iter().sum()]);
    close(&interpret(&kernel, std::slice::from_ref(&x), &[0, 0])[0], &x.to_f64s());
}

#[test]
fn the_places_of_what_is_not_zero() {
    let mut k = KernelBuilder::new("proof");
    let x = k.read(&arg(DType::I32, &sizes(&[3, 3])));
    let y = k.write(&arg(DType::I64, &sizes(&[2, 9])));
    let count = k.write(&arg(DType::I64, &[]));
    let (mut axes, position) = (vec![], k.new_axis());
    let (i, j) = (k.axis(&mut axes, 3), k.axis(&mut axes, 3));
    let mut body = Body::default();
    let (v, zero) = (body.load(&x, ix![&i, &j]), body.int(DType::I32, 0));
    let keep = body.binary(BinaryOp::Ne, v, zero);
    let (row, column) = (body.index(i), body.index(j));
    let at = Expr::axis(position);
    let stores = vec![store(&y, vec![0.into(), at.clone()], row), store(&y, vec![1.into(), at], column)];
    k.step(Step::Compact(Compact { axes, body, keep, position, stores, count: Some(count.id) }));
    let x = Tensor::from_i64s(DType::I32, vec![3, 3], [0, 5, 0, 7, 0, 0, 0, 0, -1]);
    let found = interpret(&k.finish(), &[x], &[]);
    assert_eq!(found[1].to_i64s(), [3]);
    assert_eq!(found[0].to_i64s()[..3], [0, 1, 2]);
    assert_eq!(found[0].to_i64s()[9..12], [1, 0, 2]);
}

#[test]
fn a_grid_that_the_model_computes_is_sampled() {
    let mut k = KernelBuilder::new("proof");
    let x = k.read(&arg(DType::F32, &sizes(&[4, 5])));
    let grid = k.read(&arg(DType::F32, &sizes(&[6, 2])));
    let y = k.write(&arg(DType::F32, &sizes(&[6])));
    let mut l = Loop::default();
    let p = k.axis(&mut l.parallel, 6);
    let b = &mut l.post;
    let one = b.float(DType::F32, 1.0);
    let mut halves = Vec::new();
    for d in 0..2 {
        let v = b.load(&grid, ix![&p, Expr::constant(d)]);
        let low = b.unary(UnaryOp::Floor, v);
        let share = b.binary(BinaryOp::Sub, v, low);
        let rest = b.binary(BinaryOp::Sub, one, share);
        let first = b.cast(DType::I64, low);
        let step = b.int(DType::I64, 1);
        let second = b.binary(BinaryOp::Add, first, step);
        halves.push([(first, rest), (second, share)]);
    }
    let mut sum = b.float(DType::F32, 0.0);
    for (row, u) in halves[0] {
        for (column, w) in halves[1] {
            // Outside the picture there is nothing.
            let v = b.load_or(&x, ix![row, column], Scalar::from_f32(0.0));
            let weight = b.binary(BinaryOp::Mul, u, w);
            let v = b.binary(BinaryOp::Mul, v, weight);
            sum = b.binary(BinaryOp::Add, sum, v);
        }
    }
    l.stores.push(Store { bounds: Bounds::Inside, ..store(&y, vec![p], sum) });
    k.push(l);
    let (x, grid) = (
        ramp(&[4, 5]),
        Tensor::from_f64s(DType::F32, vec![6, 2], [0.0, 0.0, 1.5, 2.25, -0.5, 1.0, 3.0, 4.0, 3.5, 4.5, 9.0, 9.0]),
    );
    let expected = (0..6).map(|p| {
        let (r, c) = (grid.f64_at(p * 2), grid.f64_at(p * 2 + 1));
        let at = |i: f64, j: f64| {
            if (0.0..4.0).contains(&i) && (0.0..5.0).contains(&j) { x.f64_at(i as usize * 5 + j as usize) } else { 0.0 }
        };
        let (i, j) = (r.floor(), c.floor());
        let row = |i: f64| at(i, j) * (1.0 - (c - j)) + at(i, j + 1.0) * (c - j);
        row(i) * (1.0 - (r - i)) + row(i + 1.0) * (r - i)
    });
    close(&interpret(&k.finish(), &[x.clone(), grid.clone()], &[])[0], &expected.collect::<Vec<_>>());
}
