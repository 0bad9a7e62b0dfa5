//! Host programs over the hand-written kernels of `runtime-abi/abi/demo.c`, each showing one thing
//! that the runtime must do.

use oaax_abi::{DType, Dim, EntrySpec, Expr, Instruction, KernelId, KernelSpec, Program, ProgramBuilder, Reg, Space};

/// Levels of the artefact: all architectures' baselines, so that it runs on any host.
pub const LEVELS: &[&str] =
    if cfg!(target_arch = "x86_64") { &["x86-64", "x86-64-v2", "x86-64-v4+nothing"] } else { &[std::env::consts::ARCH] };

/// A kernel of `demo.c`.
fn kernel(b: &mut ProgramBuilder, symbol: &str, buffers: u32, dims: u32, groups: Expr, scratch: i64) -> KernelId {
    let entries = (0..LEVELS.len() as u32).map(|object| EntrySpec {
        object,
        symbol: symbol.to_owned(),
        groups: groups.clone(),
        scratch: scratch.into(),
        threads: 0,
    });
    b.kernel(&KernelSpec {
        name: symbol.to_owned(),
        origin: format!("origin of {symbol}"),
        places: vec![],
        buffers,
        dims,
        space: Space::Host,
        entries: entries.collect(),
        ..KernelSpec::default()
    })
}

fn by_thousand(dim: u32) -> Expr {
    Expr::dim(dim).ceil_div(1024)
}

fn builder(name: &str) -> ProgramBuilder {
    let mut b = ProgramBuilder::new(name, "testkit");
    for level in LEVELS {
        let index = b.level(level);
        b.object(index, level);
    }
    b
}

/// `z[N] = x[N] × w + y[N]`: symbols, a weight (0.5), the arena, both kernels on several groups.
pub fn scaled_sum() -> Program {
    let mut b = builder("scaled_sum");
    let n = b.register();
    let x = b.input("x", DType::F32, &[Dim::bind(n, "N").within(1, 1 << 24, 1)]);
    let y = b.input("y", DType::F32, &[Dim::expect(n, "N")]);
    let w = b.weight(DType::F32, &[], 0, 64, 4);
    let t = b.arena(DType::F32, &[n.into()], None);
    let z = b.output("z", DType::F32, &[(n.into(), "N")]);
    let scale = kernel(&mut b, "demo_scale_f32", 3, 1, by_thousand(0), 0);
    let add = kernel(&mut b, "demo_add_f32", 3, 1, by_thousand(0), 0);
    b.node("Mul_0");
    b.launch(scale, &[x, w, t], &[n.into()]);
    b.node("Add_1");
    b.launch(add, &[t, y, z], &[n.into()]);
    b.finish().expect("a valid program")
}

/// `y[N]` = x + x + … (`times` ≥ 1 of them, a run-time scalar), by a loop over heap values; fails by
/// name where `times` is negative, and takes a branch around the loop where it is 0.
pub fn repeated_sum() -> Program {
    let mut b = builder("repeated_sum");
    let (n, times, done) = (b.register(), b.register(), b.register());
    let x = b.input("x", DType::F32, &[Dim::bind(n, "N")]);
    let count = b.input("times", DType::I64, &[]);
    let y = b.output("y", DType::F32, &[(n.into(), "N")]);
    let next = b.heap(DType::F32, Some(&[n.into()]), None);
    let state = b.alias(DType::F32, Some(&[n.into()]));
    let shape = b.output("steps", DType::I64, &[(1.into(), "")]);
    let add = kernel(&mut b, "demo_add_f32", 3, 1, by_thousand(0), 0);
    let zero = b.expr(0);
    b.node("Loop_0");
    b.push(Instruction::ReadCell { to: times, slot: count, index: zero });
    b.check(Expr::from(0).at_most(times), "the trip count is negative");
    let (again, end) = (b.label(), b.label());
    b.push(Instruction::Alias { slot: state, source: x, offset: None });
    b.eval(done, 1);
    b.place_label(again);
    b.branch_if_zero(Expr::from(done).less(times), end);
    b.push(Instruction::Alloc { slot: next, like: None });
    b.launch(add, &[state, x, next], &[n.into()]);
    b.push(Instruction::Alias { slot: state, source: next, offset: None });
    b.eval(done, Expr::from(done).plus(1));
    b.jump(again);
    b.place_label(end);
    b.push(Instruction::Copy { to: y, from: state });
    let done = b.expr(done);
    b.push(Instruction::WriteCell { slot: shape, index: zero, value: done });
    b.finish().expect("a valid program")
}

/// `positions[K]` of the elements of `x[N]` that are not 0: a size that the data decide.
pub fn nonzero() -> Program {
    let mut b = builder("nonzero");
    let (n, k) = (b.register(), b.register());
    let x = b.input("x", DType::F32, &[Dim::bind(n, "N")]);
    let positions = b.output("positions", DType::I64, &[(k.into(), "K")]);
    let (all, count) = (b.arena(DType::I64, &[n.into()], None), b.arena(DType::I64, &[1.into()], None));
    let find = kernel(&mut b, "demo_nonzero_f32", 3, 1, 1.into(), 8);
    let copy = kernel(&mut b, "demo_copy_i64", 2, 1, by_thousand(0), 0);
    let zero = b.expr(0);
    b.node("NonZero_0");
    b.launch(find, &[x, all, count], &[n.into()]);
    b.push(Instruction::ReadCell { to: k, slot: count, index: zero });
    b.launch(copy, &[all, positions], &[k.into()]);
    b.finish().expect("a valid program")
}

/// `z[M] = x[index[M]]`: a kernel that may fault; two launches in one parallel region.
pub fn gather() -> Program {
    let mut b = builder("gather");
    let (n, m) = (b.register(), b.register());
    let x = b.input("x", DType::F32, &[Dim::bind(n, "N")]);
    let index = b.input("index", DType::I64, &[Dim::bind(m, "M").within(0, 4096, 2)]);
    let z = b.output("z", DType::F32, &[(m.into(), "M")]);
    let same = b.output("same", DType::F32, &[(m.into(), "M")]);
    let gather = kernel(&mut b, "demo_gather_f32", 3, 2, by_thousand(1), 0);
    b.node("Gather_0");
    b.push(Instruction::Parallel { count: 2 });
    b.launch(gather, &[x, index, z], &[n.into(), m.into()]);
    b.node("Gather_1");
    b.launch(gather, &[x, index, same], &[n.into(), m.into()]);
    b.finish().expect("a valid program")
}

/// A sequence input is taken apart and put together in another order; an optional passes through.
pub fn cells() -> Program {
    let mut b = builder("cells");
    let (length, has, at) = (b.register(), b.register(), b.register());
    let input = b.sequence(DType::F32);
    b.cell_input("list", input);
    let maybe = b.optional(DType::F32);
    b.cell_input("maybe", maybe);
    let reversed = b.sequence(DType::F32);
    b.output_from("reversed", reversed, None);
    let first = b.alias(DType::F32, None);
    b.output_from("first", first, None);
    b.output_from("same", maybe, None);
    let item = b.alias(DType::F32, None);
    let zero = b.expr(0);
    let place = b.expr(at);
    b.node("Reverse");
    b.push(Instruction::SequenceLength { to: length, cell: input });
    b.push(Instruction::SequenceNew { cell: reversed });
    counted_loop(&mut b, at, length, |b| {
        b.push(Instruction::SequenceGet { to: item, cell: input, index: place });
        b.push(Instruction::SequenceInsert { cell: reversed, index: zero, item });
    });
    let last = b.expr(-1);
    b.push(Instruction::SequenceErase { cell: reversed, index: last });
    b.push(Instruction::OptionalHas { to: has, cell: maybe });
    let (absent, end) = (b.label(), b.label());
    b.branch_if_zero(has, absent);
    b.push(Instruction::OptionalGet { to: first, cell: maybe });
    b.jump(end);
    b.place_label(absent);
    b.push(Instruction::SequenceGet { to: first, cell: input, index: zero });
    b.place_label(end);
    b.finish().expect("a valid program")
}

/// for at in 0..limit { body }
fn counted_loop(b: &mut ProgramBuilder, at: Reg, limit: Reg, body: impl FnOnce(&mut ProgramBuilder)) {
    let (again, end) = (b.label(), b.label());
    b.eval(at, 0);
    b.place_label(again);
    b.branch_if_zero(Expr::from(at).less(limit), end);
    body(b);
    b.eval(at, Expr::from(at).plus(1));
    b.jump(again);
    b.place_label(end);
}

/// An input of any rank goes out as it came.
pub fn any_rank() -> Program {
    let mut b = builder("any_rank");
    let (x, rank, first) = b.unranked_input("x", DType::F32);
    b.output_from("x_again", x, None);
    let dims = b.output("padded", DType::I64, &[(9.into(), "")]);
    let write = |b: &mut ProgramBuilder, index: i64, reg: Reg| {
        let (index, value) = (b.expr(index), b.expr(reg));
        b.push(Instruction::WriteCell { slot: dims, index, value });
    };
    write(&mut b, 0, rank);
    (0..8).for_each(|dim| write(&mut b, dim as i64 + 1, Reg(first.0 + dim)));
    b.finish().expect("a valid program")
}

/// `y = x + x` over four floats: the first model of the conformance checks.
pub fn double() -> Program {
    let mut b = builder("double");
    let x = b.input("x", DType::F32, &[Dim::expect(1, ""), Dim::expect(4, "")]);
    let y = b.output("y", DType::F32, &[(1.into(), ""), (4.into(), "")]);
    let add = kernel(&mut b, "demo_add_f32", 3, 1, by_thousand(0), 0);
    b.node("Add_0");
    b.launch(add, &[x, x, y], &[4.into()]);
    b.finish().expect("a valid program")
}

/// `z = x[index]` over three floats and two indices: the model of the conformance checks that may fail.
pub fn pick() -> Program {
    let mut b = builder("pick");
    let x = b.input("x", DType::F32, &[Dim::expect(3, "")]);
    let index = b.input("index", DType::I64, &[Dim::expect(2, "")]);
    let z = b.output("z", DType::F32, &[(2.into(), "")]);
    let gather = kernel(&mut b, "demo_gather_f32", 3, 2, by_thousand(1), 0);
    b.node("Gather_0");
    b.launch(gather, &[x, index, z], &[3.into(), 2.into()]);
    b.finish().expect("a valid program")
}

/// A tensor of strings goes out as it came: for these OAAX has no layout.
pub fn strings() -> Program {
    let mut b = builder("strings");
    let n = b.register();
    let x = b.input("x", DType::String, &[Dim::bind(n, "N")]);
    b.output_from("same", x, None);
    b.finish().expect("a valid program")
}

/// A tensor with a size that a 32-bit number cannot say.
pub fn wide() -> Program {
    let mut b = builder("wide");
    let x = b.input("x", DType::U8, &[Dim::expect(1 << 31, "")]);
    b.output_from("same", x, None);
    b.finish().expect("a valid program")
}

/// A half-precision tensor goes out as it came: a type that OAAX 1.x has no number for.
pub fn half() -> Program {
    let mut b = builder("half");
    let n = b.register();
    let x = b.input("x", DType::F16, &[Dim::bind(n, "N")]);
    b.output_from("same", x, None);
    b.finish().expect("a valid program")
}

/// `count` host instructions that do nothing else, to measure the interpreter.
pub fn counting(launches: bool) -> Program {
    let mut b = builder("counting");
    let (n, times) = (b.register(), b.register());
    let limit = b.input("limit", DType::I64, &[]);
    let out = b.output("out", DType::I64, &[(1.into(), "")]);
    let (from, to) = (b.arena(DType::I64, &[1.into()], None), b.arena(DType::I64, &[1.into()], None));
    let copy = kernel(&mut b, "demo_copy_i64", 2, 1, by_thousand(0), 0);
    let (zero, value) = (b.expr(0), b.expr(n));
    b.push(Instruction::ReadCell { to: times, slot: limit, index: zero });
    b.push(Instruction::WriteCell { slot: from, index: zero, value: zero });
    counted_loop(&mut b, n, times, |b| {
        if launches {
            b.launch(copy, &[from, to], &[1.into()]);
        }
    });
    b.push(Instruction::WriteCell { slot: out, index: zero, value });
    b.finish().expect("a valid program")
}
