//! One kernel as one MLIR module: the entry that the runtime calls, and the function that works.
//!
//! The entry reads pointers and sizes and calls the working function, whose pointers are `noalias`:
//! a launch never names one memory twice where one of the two is written.

use std::fmt::Write;

use oaaxc_emit::access::Resolver;
use oaaxc_emit::body::{Emitter, Fault};
use oaaxc_emit::cast::is_emitted;
use oaaxc_emit::index::Scope;
use oaaxc_emit::nest::{Nest, has_axes};
use oaaxc_emit::text::Writer;
use oaaxc_ir::kernel::{Item, Kernel, LoopAxis, Op, Role, Step};
use oaaxc_ir::{DType, Expr};

use crate::contract::micro::Machine;
use crate::{compact, contract, integer, loops, partition, schedule, sort};

/// How to emit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// Every operation alone, in the interpreter's order.
    pub strict: bool,
    /// Whether the level has fused multiply-add.
    pub fma: bool,
    /// Lanes of f32 in a vector register: 4, 8 or 16.
    pub lanes: u32,
    /// Vector registers: 16 or 32.
    pub registers: u32,
    /// Whether x86's own instructions may be named; elsewhere their portable definitions stand.
    pub x86: bool,
}

/// A kernel as text, and how it is called.
#[derive(Clone, Debug)]
pub struct Emitted {
    /// The MLIR module.
    pub text: String,
    /// Groups, over the kernel's symbols.
    pub groups: Expr,
    /// Scratch bytes per worker.
    pub scratch: Expr,
    /// Whether no schedule of its own was used.
    pub generic: bool,
}

/// The state of one emission.
pub(crate) struct Generator<'k> {
    pub em: Emitter<'k>,
    pub resolver: Resolver<'k>,
    /// Bytes of scratch behind the locals that steps share.
    pub shared_scratch: Expr,
    /// Functions besides the kernel's own.
    pub routines: Vec<String>,
    /// What the level offers.
    pub options: Options,
    /// Whether no schedule of its own was used.
    pub generic: bool,
}

/// Emits a canonical kernel under this symbol; the error is a sentence for the user.
pub fn emit(kernel: &Kernel, symbol: &str, options: &Options) -> Result<Emitted, String> {
    check_types(kernel)?;
    let resolver = Resolver::new(kernel);
    let em = Emitter {
        w: Writer::new(options.fma),
        scope: Scope { ranges: resolver.ranges.clone(), ..Scope::default() },
        kernel,
        pointers: (0..kernel.buffers.len()).map(|i| format!("%p{i}")).collect(),
        spaces: vec!["!llvm.ptr"; kernel.buffers.len()],
        strict: options.strict,
        fault: Fault::Leave(None),
    };
    let mut g = Generator { em, resolver, shared_scratch: 0.into(), routines: Vec::new(), options: *options, generic: true };
    let groups = g.kernel(kernel)?;
    let ok = g.em.w.constant("0 : i32");
    g.em.w.line(format_args!("return {ok} : i32"));
    g.fault();
    Ok(g.finish(kernel, symbol, groups))
}

impl Generator<'_> {
    fn kernel(&mut self, kernel: &Kernel) -> Result<Expr, String> {
        if !self.em.strict
            && let Some(planned) = contract::plan(kernel, Machine::of(&self.options))
        {
            let one = self.em.w.int(1);
            let group = self.em.w.open("%begin", "%end", &one);
            planned.emit(&mut self.em, &group.counter, "%shared");
            self.em.w.close(group);
            self.shared_scratch = planned.scratch;
            self.generic = false;
            return Ok(planned.groups);
        }
        if !self.em.strict
            && let Some(plan) = integer::plan::plan(&mut self.resolver, kernel, &self.options)
        {
            self.em.scope.ranges = self.resolver.ranges.clone();
            self.generic = false;
            return Ok(integer::contract(self, &plan));
        }
        if let Some(step) = schedule::single_loop(kernel) {
            let nest = Nest::of(&mut self.resolver, &kernel.parallel, &step);
            self.em.scope.ranges = self.resolver.ranges.clone();
            let free = nest.parallel.iter().all(|a| !has_axes(&a.extent));
            if free && !nest.parallel.is_empty() {
                return Ok(self.points(&nest));
            }
        }
        self.rows(kernel)
    }
    /// All points of one nest, cut into blocks of its innermost axis.
    fn points(&mut self, nest: &Nest) -> Expr {
        let plan = schedule::points(nest);
        let (last, outer) = nest.parallel.split_last().expect("asked by the caller");
        let mut axes = outer.to_vec();
        let block = LoopAxis { axis: self.resolver.new_axis(), extent: last.extent.ceil_div(&plan.block) };
        let cut = !block.extent.is(1);
        if cut {
            axes.push(block.clone());
        }
        partition::over(&mut self.em, &axes, &plan.grain, &mut |em| {
            let (mut low, mut high) = (em.w.int(0), em.expr(&last.extent));
            if cut {
                let size = em.expr(&plan.block);
                let at = em.expr(&Expr::axis(block.axis));
                low = em.w.int_op("muli", &at, &size);
                let end = em.w.int_op("addi", &low, &size);
                high = em.w.int_op("minsi", &end, &high);
            }
            loops::inner(em, nest, &low, &high);
        });
        partition::groups(&axes, &plan.grain)
    }
    /// Rows of outer axes, and under them everything in order.
    fn rows(&mut self, kernel: &Kernel) -> Result<Expr, String> {
        let (mut axes, mut body) = (kernel.parallel.clone(), kernel.body.clone());
        // Every order is independent: the sorts themselves are the rows.
        if let [Item::Step(Step::Sort(s))] = &mut body[..] {
            axes.append(&mut s.parallel);
        }
        let flat = axes.iter().position(|a| has_axes(&a.extent)).unwrap_or(axes.len());
        let inside = axes.split_off(flat);
        let grain = schedule::rows(&body);
        let mut result = Ok(());
        let Generator { em, resolver, shared_scratch, routines, .. } = self;
        partition::over(em, &axes, &grain, &mut |em| {
            let open = em.open(&inside);
            result = items(em, resolver, shared_scratch, routines, &body);
            em.close(open);
        });
        result.map(|()| partition::groups(&axes, &grain))
    }
    fn fault(&mut self) {
        let Fault::Leave(Some(label)) = self.em.fault.clone() else { return };
        let w = &mut self.em.w;
        w.block(&label, "%fault_value: i64, %fault_limit: i64");
        let (one, place) = (w.constant("1 : i32"), w.constant("0 : i32"));
        let slot = w.op("llvm.getelementptr %env[32] : (!llvm.ptr) -> !llvm.ptr, i8");
        let fault = w.op(format_args!("llvm.load {slot} : !llvm.ptr -> !llvm.ptr"));
        for (offset, name, ty) in
            [(0, one.as_str(), "i32"), (4, place.as_str(), "i32"), (8, "%fault_value", "i64"), (16, "%fault_limit", "i64")]
        {
            let at = w.op(format_args!("llvm.getelementptr {fault}[{offset}] : (!llvm.ptr) -> !llvm.ptr, i8"));
            w.line(format_args!("llvm.store {name}, {at} : {ty}, !llvm.ptr"));
        }
        w.line(format_args!("return {one} : i32"));
    }
    fn finish(self, kernel: &Kernel, symbol: &str, groups: Expr) -> Emitted {
        let symbols = symbol_count(kernel);
        let mut entry = Writer::new(false);
        let mut arguments = vec!["%env".to_string()];
        let mut scratch = Expr::constant(0);
        let slot = entry.op("llvm.getelementptr %env[16] : (!llvm.ptr) -> !llvm.ptr, i8");
        let memory = entry.op(format_args!("llvm.load {slot} : !llvm.ptr -> !llvm.ptr"));
        let mut scope = Scope { ranges: self.resolver.ranges.clone(), ..Scope::default() };
        scope.trust = false;
        for s in 0..symbols {
            let at = entry.op(format_args!("llvm.getelementptr %dims[{s}] : (!llvm.ptr) -> !llvm.ptr, i64"));
            entry.line(format_args!("%s{s} = llvm.load {at} : !llvm.ptr -> i64"));
        }
        let mut argument = 0;
        for buffer in &kernel.buffers {
            if buffer.role == Role::Local {
                let offset = scope.emit(&mut entry, &scratch);
                arguments.push(entry.element(&memory, &offset, "i8"));
                let bytes = buffer.layout.elements(&buffer.dims) * buffer.dtype.size() as i64;
                scratch = scratch + bytes.ceil_div(&64.into()) * 64;
            } else {
                let at = entry.op(format_args!("llvm.getelementptr %buffers[{argument}] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr"));
                arguments.push(entry.op(format_args!("llvm.load {at} : !llvm.ptr -> !llvm.ptr")));
                argument += 1;
            }
        }
        let offset = scope.emit(&mut entry, &scratch);
        arguments.push(entry.element(&memory, &offset, "i8"));
        let scratch = scratch + self.shared_scratch.clone();
        let pointers = arguments.len();
        arguments.extend((0..symbols).map(|s| format!("%s{s}")));
        arguments.extend(["%begin".to_string(), "%end".to_string()]);
        let types = |i: usize| if i < pointers { "!llvm.ptr" } else { "i64" };
        let type_list: Vec<&str> = (0..arguments.len()).map(types).collect();
        let status =
            entry.op(format_args!("func.call @{symbol}_work({}) : ({}) -> i32", arguments.join(", "), type_list.join(", ")));
        entry.line(format_args!("return {status} : i32"));
        let mut names = vec!["%env: !llvm.ptr".to_string()];
        names.extend((0..kernel.buffers.len()).map(|i| format!("%p{i}: !llvm.ptr {{llvm.noalias}}")));
        names.push("%shared: !llvm.ptr {llvm.noalias}".to_string());
        names.extend((0..symbols).map(|s| format!("%s{s}: i64")));
        names.extend(["%begin: i64".to_string(), "%end: i64".to_string()]);
        let mut text = String::from("module {\n");
        write!(
            text,
            "  func.func @{symbol}(%env: !llvm.ptr, %buffers: !llvm.ptr, %dims: !llvm.ptr, %begin: i64, %end: i64) -> i32 {{\n{}  }}\n",
            entry.finish()
        )
        .expect("strings take text");
        let work = self.em.w.finish();
        write!(text, "  func.func private @{symbol}_work({}) -> i32 {{\n{work}  }}\n", names.join(", "))
            .expect("strings take text");
        for routine in self.routines {
            text.push_str(&routine);
        }
        text.push_str("}\n");
        Emitted { text, groups, scratch, generic: self.generic }
    }
}

/// Items in order.
fn items(
    em: &mut Emitter,
    resolver: &mut Resolver,
    shared: &mut Expr,
    routines: &mut Vec<String>,
    list: &[Item],
) -> Result<(), String> {
    for item in list {
        match item {
            Item::Sequential { axis, body } => {
                let open = em.open(std::slice::from_ref(axis));
                items(em, resolver, shared, routines, body)?;
                em.close(open);
            }
            Item::Step(Step::Loop(l)) => one_loop(em, resolver, l),
            Item::Step(Step::Contract(c)) => one_loop(em, resolver, &c.expand(&em.kernel.buffers)),
            Item::Step(Step::Sort(s)) => {
                if has_axes(&s.along.extent) {
                    return Err("a sorted axis has a size that changes inside the kernel".into());
                }
                *shared = shared.maximum(&sort::scratch(s));
                if !routines.iter().any(|r| r == sort::ROUTINE) {
                    routines.push(sort::ROUTINE.to_string());
                }
                sort::sort(em, resolver, s, "%shared");
            }
            Item::Step(Step::Compact(c)) => compact::compact(em, resolver, c),
        }
    }
    Ok(())
}

fn one_loop(em: &mut Emitter, resolver: &mut Resolver, step: &oaaxc_ir::kernel::Loop) {
    let nest = Nest::of(resolver, &[], step);
    em.scope.ranges = resolver.ranges.clone();
    loops::nest(em, &nest);
}

/// How many symbols a canonical kernel has.
pub fn symbol_count(kernel: &Kernel) -> usize {
    let mut count = 0;
    kernel.clone().map_exprs(&mut |e| {
        count = e.symbols().iter().map(|s| s.0 as usize + 1).fold(count, usize::max);
        e.clone()
    });
    count
}

fn check_types(kernel: &Kernel) -> Result<(), String> {
    let refuse = |d: DType| Err(format!("{d} has no arithmetic on this target"));
    if let Some(b) = kernel.buffers.iter().find(|b| !is_emitted(b.dtype)) {
        return refuse(b.dtype);
    }
    let mut bad = None;
    let mut look = |ops: &[Op]| {
        for op in ops {
            let dtype = match op {
                Op::Const(s) => s.dtype(),
                Op::Param(_, d) | Op::Cast(d, _) => *d,
                Op::Load { dtype, .. } => *dtype,
                Op::Index(_) | Op::Unary(..) | Op::Binary(..) | Op::Select(..) => continue,
            };
            if !is_emitted(dtype) {
                bad = Some(dtype);
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
    bad.map_or(Ok(()), refuse)
}
