//! Speed of 8-bit matrix products: `cargo run -p oaaxc-target-cpu --example bench_integer`. Prints GOP/s of one thread.

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::Instant;

use common::{compile, levels};
use oaaxc_ir::expr::{AxisId, Expr};
use oaaxc_ir::kernel::{
    Body, Bounds, Buffer, BufferId, Contract, Index, Item, Kernel, Label, Layout, LoopAxis, Operand, Role, Step, Store, Tile,
};
use oaaxc_ir::{DType, Scalar};
use oaaxc_kernel_cases::{Random, memory, words};

/// `[m, k] · [k, n]` of bytes with a zero point for `a`, weights in panels.
fn kernel(m: i64, k: i64, n: i64) -> Kernel {
    let buffer = |dtype, dims: &[i64], role| Buffer {
        dtype,
        dims: dims.iter().map(|&d| d.into()).collect(),
        role,
        layout: Layout::default(),
    };
    let mut buffers = vec![
        buffer(DType::U8, &[m, k], Role::In),
        buffer(DType::I8, &[k, n], Role::In),
        buffer(DType::I32, &[m, n], Role::Out),
        buffer(DType::U8, &[], Role::In),
    ];
    buffers[1].layout = Layout { order: vec![1, 0], tiles: vec![Tile { dim: 1, size: 16 }] };
    let axis = |n, extent: i64| LoopAxis { axis: AxisId(n), extent: extent.into() };
    let i = |n| Expr::axis(AxisId(n));
    let operand = |id, index, zero| Operand { buffer: BufferId(id), index, otherwise: None::<Scalar>, zero, prologue: None };
    let mut post = Body::default();
    let value = post.param(0, DType::I32);
    let index = vec![Index::Expr(i(0)), Index::Expr(i(1))];
    let contract = Contract {
        batch: vec![],
        m: vec![axis(0, m)],
        n: vec![axis(1, n)],
        k: vec![axis(2, k)],
        a: operand(0, vec![i(0), i(2)], Some((BufferId(3), vec![]))),
        b: operand(1, vec![i(2), i(1)], None),
        acc: DType::I32,
        post,
        stores: vec![Store { buffer: BufferId(2), index, value, when: None, bounds: Bounds::Inside }],
    };
    Kernel { name: Label("bytes".into()), buffers, axes: 3, parallel: vec![], body: vec![Item::Step(Step::Contract(contract))] }
}

fn main() {
    for (m, k, n) in [(128, 384, 384), (128, 384, 1536), (128, 1536, 384), (16, 384, 1536)] {
        print!("{m}x{k}x{n}");
        let kernel = kernel(m, k, n);
        for level in levels().iter() {
            let (function, groups, scratch) = compile(&kernel, level, &[]);
            let mut random = Random(3);
            let mut memory: Vec<Vec<u64>> = memory(&kernel, &[], |_, d| random.element(d)).iter().map(|m| words(m)).collect();
            let mut best = f64::INFINITY;
            let begin = Instant::now();
            while begin.elapsed().as_secs_f64() < 0.2 {
                let start = Instant::now();
                function.run(&mut memory, &[], scratch, 0..groups);
                best = best.min(start.elapsed().as_secs_f64());
            }
            print!("  {} {:.1}", level.name, 2.0 * (m * k * n) as f64 / best / 1e9);
        }
        println!();
    }
}
