//! One kernel as one MLIR module for a GPU.
//!
//! `void k(ptr<1> buffers.., i64 dims.., ptr<1> scratch, ptr<1> fault, i64 launched, i32 launch)`: the groups
//! that were launched share all groups among them; a group's private memory is its part of `scratch`.

use std::fmt::Write;

use oaaxc_emit::access::Resolver;
use oaaxc_emit::body::{Emitter, Fault};
use oaaxc_emit::cast::is_emitted;
use oaaxc_emit::index::Scope;
use oaaxc_emit::nest::{Nest, has_axes};
use oaaxc_emit::text::Writer;
use oaaxc_ir::kernel::{Item, Kernel, Loop, Role, Step};
use oaaxc_ir::{DType, Expr};

use crate::device::{GLOBAL, Gpu, SHARED};
use crate::group::{Group, bind, total};
use crate::schedule::{self, Owner};
use crate::{compact, contract, loops, sort};

/// A kernel as text, and how it is launched.
#[derive(Clone, Debug)]
pub struct Emitted {
    /// The MLIR module.
    pub text: String,
    /// Work groups, over the kernel's symbols.
    pub groups: Expr,
    /// Scratch bytes for each launched group.
    pub scratch: Expr,
    /// Threads of a group.
    pub threads: u32,
    /// Whether some part of it uses one thread or one group where more could work.
    pub generic: bool,
}

pub(crate) struct Generator<'k> {
    pub em: Emitter<'k>,
    pub resolver: Resolver<'k>,
    pub group: Group<'k>,
}

/// Emits a canonical kernel under this symbol; the error is a sentence for the user.
pub fn emit(kernel: &Kernel, symbol: &str, gpu: &Gpu) -> Result<Emitted, String> {
    check(kernel, gpu)?;
    let resolver = Resolver::new(kernel);
    let mut w = Writer::new(true);
    (w.portable, w.pointer, w.private) = (true, GLOBAL, gpu.private);
    let (record, launch) = ("%fault".to_string(), "%launch".to_string());
    let em = Emitter {
        w,
        scope: Scope { ranges: resolver.ranges.clone(), ..Scope::default() },
        kernel,
        pointers: (0..kernel.buffers.len()).map(|i| format!("%p{i}")).collect(),
        spaces: vec![GLOBAL; kernel.buffers.len()],
        strict: false,
        fault: Fault::Record { record, launch, scope: gpu.scope },
    };
    let threads = i64::from(gpu.threads);
    let group = Group { gpu, threads, shared: 0, borrowed: 0, room: 0.into(), generic: false };
    let mut g = Generator { em, resolver, group };
    g.place_locals(kernel);
    let groups = g.kernel(kernel)?;
    Ok(g.finish(kernel, symbol, groups))
}

impl Generator<'_> {
    /// Private buffers of small known sizes lie in shared memory.
    fn place_locals(&mut self, kernel: &Kernel) {
        let budget = self.group.gpu.shared / 2;
        for (i, buffer) in kernel.buffers.iter().enumerate().filter(|(_, b)| b.role == Role::Local) {
            let Some(elements) = buffer.layout.elements(&buffer.dims).as_const() else { continue };
            let bytes = elements.saturating_mul(buffer.dtype.size() as i64).saturating_add(15) / 16 * 16;
            if self.group.shared + bytes > budget {
                continue;
            }
            let at = self.group.shared;
            self.group.shared += bytes;
            self.em.spaces[i] = SHARED;
            self.em.w.in_entry(|w| {
                w.line(format_args!("%p{i} = llvm.getelementptr %shared[{at}] : ({SHARED}) -> {SHARED}, i8"));
            });
        }
    }
    fn kernel(&mut self, kernel: &Kernel) -> Result<Expr, String> {
        if let Some(plan) = contract::plan(kernel, &mut self.resolver, self.group.gpu) {
            self.em.scope.ranges = self.resolver.ranges.clone();
            return Ok(plan.emit(&mut self.group, &mut self.em));
        }
        if let Some(step) = schedule::single_loop(kernel)
            && let Some(groups) = self.flat(kernel, std::slice::from_ref(&step))
        {
            return Ok(groups);
        }
        if let Some(steps) = schedule::independent_loops(kernel)
            && let Some(groups) = self.flat(kernel, &steps)
        {
            return Ok(groups);
        }
        self.rows(kernel)
    }
    /// Loops whose points are all independent: a thread or a group for each.
    fn flat(&mut self, kernel: &Kernel, steps: &[Loop]) -> Option<Expr> {
        let nests: Vec<Nest> = steps.iter().map(|s| Nest::of(&mut self.resolver, &kernel.parallel, s)).collect();
        self.em.scope.ranges = self.resolver.ranges.clone();
        if nests.iter().any(|n| n.parallel.iter().any(|a| has_axes(&a.extent))) {
            return None;
        }
        let size = self.group.threads;
        let groups_of = |n: &Nest| match schedule::owner_of_points(n) {
            Owner::Thread => total(&n.parallel).ceil_div(&size.into()),
            Owner::Group => total(&n.parallel),
        };
        let groups = nests.iter().map(groups_of).reduce(|a, b| a.maximum(&b)).expect("there is a loop");
        let Generator { em, group: g, .. } = self;
        over_groups(em, &groups, &mut |em, number| {
            for nest in &nests {
                let count = em.expr(&total(&nest.parallel));
                let shared = schedule::owner_of_points(nest) == Owner::Group;
                let at = if shared {
                    number.to_string()
                } else {
                    let size = em.w.int(size);
                    let first = em.w.int_op("muli", number, &size);
                    em.w.int_op("addi", &first, "%thread")
                };
                let (inside, after) = (em.w.label(), em.w.label());
                let some = em.w.op(format_args!("arith.cmpi slt, {at}, {count} : i64"));
                em.w.branch(&some, &inside, &after);
                em.w.block(&inside, "");
                bind(em, &nest.parallel, &at);
                if shared {
                    loops::shared_point(g, em, nest)
                } else {
                    loops::point(em, nest)
                }
                em.w.jump(&after);
                em.w.block(&after, "");
            }
        });
        Some(groups)
    }
    /// A group for each outer point, and under it everything in order.
    fn rows(&mut self, kernel: &Kernel) -> Result<Expr, String> {
        let (mut axes, mut body) = (kernel.parallel.clone(), kernel.body.clone());
        // Every order is independent: the sorts themselves are the rows.
        if let [Item::Step(Step::Sort(s))] = &mut body[..] {
            axes.append(&mut s.parallel);
        }
        self.group.generic = axes.is_empty();
        let flat = axes.iter().position(|a| has_axes(&a.extent)).unwrap_or(axes.len());
        let inside = axes.split_off(flat);
        let groups = total(&axes);
        let mut result = Ok(());
        let Generator { em, resolver, group: g } = self;
        over_groups(em, &groups, &mut |em, number| {
            bind(em, &axes, number);
            let open = em.open(&inside);
            result = items(g, em, resolver, &body);
            em.close(open);
        });
        result.map(|()| groups)
    }
    fn finish(mut self, kernel: &Kernel, symbol: &str, groups: Expr) -> Emitted {
        let (gpu, room) = (self.group.gpu, self.group.room.clone());
        let mut offsets: Vec<(usize, Expr)> = Vec::new();
        let mut scratch = Expr::constant(0);
        for (i, buffer) in kernel.buffers.iter().enumerate() {
            if buffer.role == Role::Local && self.em.spaces[i] == GLOBAL {
                offsets.push((i, scratch.clone()));
                let bytes = buffer.layout.elements(&buffer.dims) * buffer.dtype.size() as i64;
                scratch = scratch + bytes.ceil_div(&64.into()) * 64;
            }
        }
        let end = scratch.clone();
        let scratch = scratch + room.ceil_div(&64.into()) * 64;
        let scope = Scope { ranges: self.resolver.ranges.clone(), ..Scope::default() };
        if !scratch.is(0) {
            self.em.w.in_entry(|w| {
                let bytes = scope.emit(w, &scratch);
                let start = w.int_op("muli", "%group", &bytes);
                for (i, offset) in &offsets {
                    let offset = scope.emit(w, offset);
                    let at = w.int_op("addi", &start, &offset);
                    w.line(format_args!("%p{i} = llvm.getelementptr inbounds %scratch[{at}] : ({GLOBAL}, i64) -> {GLOBAL}, i8"));
                }
                let end = scope.emit(w, &end);
                let at = w.int_op("addi", &start, &end);
                w.line(format_args!("%room = llvm.getelementptr inbounds %scratch[{at}] : ({GLOBAL}, i64) -> {GLOBAL}, i8"));
            });
        }
        self.em.w.line("llvm.return");
        let names = arguments(kernel);
        let bytes = self.group.shared + self.group.borrowed;
        let mut text = String::from("module {\n");
        let mut line = |l: String| writeln!(text, "{l}").expect("strings take text");
        line(gpu.declarations.to_string());
        if bytes > 0 {
            line(format!(
                "  llvm.mlir.global internal @{symbol}_shared() {{addr_space = 3 : i32, alignment = 16 : i64}} : !llvm.array<{bytes} x i8> {{\n    %0 = llvm.mlir.undef : !llvm.array<{bytes} x i8>\n    llvm.return %0 : !llvm.array<{bytes} x i8>\n  }}"
            ));
        }
        let attributes = gpu.attributes.replace("$threads", &self.group.threads.to_string());
        line(format!("  llvm.func {} @{symbol}({}) {attributes} {{", gpu.convention, names.join(", ")));
        line(gpu.ids.to_string());
        if bytes > 0 {
            line(format!("    %shared = llvm.mlir.addressof @{symbol}_shared : {SHARED}"));
        }
        let threads = self.group.threads as u32;
        let generic = self.group.generic;
        line(self.em.w.finish());
        line("  }\n}".to_string());
        Emitted { text, groups, scratch, threads, generic }
    }
}

fn arguments(kernel: &Kernel) -> Vec<String> {
    let buffers = kernel.buffers.iter().enumerate().filter(|(_, b)| b.role != Role::Local);
    let mut names: Vec<String> = buffers.map(|(i, _)| format!("%p{i}: {GLOBAL} {{llvm.noalias}}")).collect();
    names.extend((0..symbol_count(kernel)).map(|s| format!("%s{s}: i64")));
    names.extend([
        format!("%scratch: {GLOBAL} {{llvm.noalias}}"),
        format!("%fault: {GLOBAL} {{llvm.noalias}}"),
        "%launched: i64".into(),
        "%launch: i32".into(),
    ]);
    names
}

/// Emits `inside` for each of this group's share of all groups.
pub(crate) fn over_groups(em: &mut Emitter, groups: &Expr, inside: &mut dyn FnMut(&mut Emitter, &str)) {
    let count = em.expr(groups);
    let l = em.w.open("%group", &count, "%launched");
    let number = l.counter.clone();
    inside(em, &number);
    em.w.close(l);
}

/// Items in order, a barrier behind each.
fn items(g: &mut Group, em: &mut Emitter, resolver: &mut Resolver, list: &[Item]) -> Result<(), String> {
    for item in list {
        match item {
            Item::Sequential { axis, body } => {
                let open = em.open(std::slice::from_ref(axis));
                items(g, em, resolver, body)?;
                em.close(open);
                continue;
            }
            Item::Step(Step::Loop(l)) => one_loop(g, em, resolver, l),
            Item::Step(Step::Contract(c)) => {
                g.generic = true;
                one_loop(g, em, resolver, &c.expand(&em.kernel.buffers));
            }
            Item::Step(Step::Sort(s)) => {
                if has_axes(&s.along.extent) {
                    return Err("a sorted axis has a size that changes inside the kernel".into());
                }
                sort::sort(g, em, resolver, s);
                continue;
            }
            Item::Step(Step::Compact(c)) => compact::compact(g, em, resolver, c),
        }
        g.barrier(em);
    }
    Ok(())
}

fn one_loop(g: &mut Group, em: &mut Emitter, resolver: &mut Resolver, step: &Loop) {
    let nest = Nest::of(resolver, &[], step);
    em.scope.ranges = resolver.ranges.clone();
    loops::nest(g, em, &nest);
}

/// How many symbols a canonical kernel has.
pub(crate) fn symbol_count(kernel: &Kernel) -> usize {
    let mut count = 0;
    kernel.clone().map_exprs(&mut |e| {
        count = e.symbols().iter().map(|s| s.0 as usize + 1).fold(count, usize::max);
        e.clone()
    });
    count
}

/// Whether the device can run the kernel; a sentence why not.
pub(crate) fn check(kernel: &Kernel, gpu: &Gpu) -> Result<(), String> {
    let mut bad =
        kernel.buffers.iter().map(|b| b.dtype).find(|d| !is_emitted(*d)).map(|d| format!("{d} has no arithmetic on this target"));
    let mut look = |ops: &[oaaxc_ir::kernel::Op]| {
        use oaaxc_ir::kernel::Op;
        for op in ops {
            let dtype = match op {
                Op::Const(s) => s.dtype(),
                Op::Param(_, d) | Op::Cast(d, _) => *d,
                Op::Load { dtype, .. } => *dtype,
                Op::Index(_) | Op::Unary(..) | Op::Binary(..) | Op::Select(..) => continue,
            };
            if !is_emitted(dtype) {
                bad = Some(format!("{dtype} has no arithmetic on this target"));
            } else if dtype == DType::F64 && !gpu.f64 {
                bad = Some("the device has no double precision".into());
            }
        }
    };
    kernel.visit_steps(&mut |step| match step {
        Step::Loop(l) => {
            look(&l.body.ops);
            look(&l.post.ops);
        }
        Step::Contract(c) => look(&c.post.ops),
        Step::Sort(s) => look(&s.key.ops),
        Step::Compact(c) => look(&c.body.ops),
    });
    bad.map_or(Ok(()), Err)
}
