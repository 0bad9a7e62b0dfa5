//! Graph → Program: what an operator sees while it becomes kernels, and the walk that asks it.
//!
//! Values whose elements are known sizes are computed by the host and written out only where some
//! kernel reads them. A reshape is an alias of the same memory. Everything else is kernels.

use oaaxc_base::{Code, Diagnostic, Diagnostics, EntityId, Origin, SideTable};

use crate::attributes::ReadAttributes;
use crate::dtype::DType;
use crate::expr::{AxisId, Expr, SymId};
use crate::graph::{BlockId, Def, Graph, Node, NodeId, ValueId};
use crate::kernel::{
    BinaryOp, Body, Bounds, Buffer, BufferId, Index, Item, Kernel, Layout, Loop, LoopAxis, Role, Step, Store, UnaryOp, V,
};
use crate::op::Lower;
use crate::operands::ReadOperands;
use crate::program::{Instr, Launch, Program, Slot, SlotId, SlotKind, Space};
use crate::tensor::Tensor;
use crate::types::Type;

type Result<T> = std::result::Result<T, Diagnostic>;

/// A tensor at run time, as kernels see it.
#[derive(Clone, PartialEq, Debug)]
pub struct Arg {
    /// Its slot.
    pub slot: SlotId,
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub dims: Vec<Expr>,
}

/// A buffer of a kernel under construction.
#[derive(Clone, PartialEq, Debug)]
pub struct Buf {
    /// Its id.
    pub id: BufferId,
    /// Element type.
    pub dtype: DType,
    /// Sizes.
    pub dims: Vec<Expr>,
}

/// A kernel under construction, with the slots of its arguments.
pub struct KernelBuilder {
    kernel: Kernel,
    slots: Vec<SlotId>,
}

impl KernelBuilder {
    /// An empty kernel with a label.
    pub fn new(name: &str) -> KernelBuilder {
        let name = crate::kernel::Label(name.to_string());
        KernelBuilder {
            kernel: Kernel { name, buffers: Vec::new(), axes: 0, parallel: Vec::new(), body: Vec::new() },
            slots: Vec::new(),
        }
    }
    /// The kernel alone, for whoever runs it without a program.
    pub fn finish(self) -> Kernel {
        self.kernel
    }
    fn argument(&mut self, arg: &Arg, role: Role) -> Buf {
        self.slots.push(arg.slot);
        self.buffer(arg.dtype, arg.dims.clone(), role)
    }
    fn buffer(&mut self, dtype: DType, dims: Vec<Expr>, role: Role) -> Buf {
        let id = BufferId(self.kernel.buffers.len() as u32);
        self.kernel.buffers.push(Buffer { dtype, dims: dims.clone(), role, layout: Layout::default() });
        Buf { id, dtype, dims }
    }
    /// An argument that is read.
    pub fn read(&mut self, arg: &Arg) -> Buf {
        self.argument(arg, Role::In)
    }
    /// An argument that is written.
    pub fn write(&mut self, arg: &Arg) -> Buf {
        self.argument(arg, Role::Out)
    }
    /// An argument that is read and written.
    pub fn read_write(&mut self, arg: &Arg) -> Buf {
        self.argument(arg, Role::InOut)
    }
    /// Scratch of one outer iteration; undefined at its start.
    pub fn local(&mut self, dtype: DType, dims: Vec<Expr>) -> Buf {
        self.buffer(dtype, dims, Role::Local)
    }
    /// A new axis that is not yet a loop.
    pub fn new_axis(&mut self) -> AxisId {
        self.kernel.new_axis()
    }
    /// Adds a loop to a list of axes; returns its index.
    pub fn axis(&mut self, axes: &mut Vec<LoopAxis>, extent: impl Into<Expr>) -> Expr {
        let axis = self.kernel.new_axis();
        axes.push(LoopAxis { axis, extent: extent.into() });
        Expr::axis(axis)
    }
    /// Adds a loop per size to a list of axes; returns their indices.
    pub fn axes(&mut self, axes: &mut Vec<LoopAxis>, extents: &[Expr]) -> Vec<Expr> {
        extents.iter().map(|e| self.axis(axes, e.clone())).collect()
    }
    /// Adds an outer parallel loop; returns its index. Before any step.
    pub fn parallel(&mut self, extent: impl Into<Expr>) -> Expr {
        let axis = self.kernel.new_axis();
        self.kernel.parallel.push(LoopAxis { axis, extent: extent.into() });
        Expr::axis(axis)
    }
    /// Appends a step.
    pub fn step(&mut self, step: Step) {
        self.kernel.body.push(Item::Step(step));
    }
    /// Appends a loop step.
    pub fn push(&mut self, l: Loop) {
        self.step(Step::Loop(l));
    }
    /// Appends a sequential loop; `f` appends its items and gets its index.
    pub fn sequential<T>(&mut self, extent: impl Into<Expr>, f: impl FnOnce(&mut KernelBuilder, Expr) -> T) -> T {
        let axis = self.kernel.new_axis();
        let outer = std::mem::take(&mut self.kernel.body);
        let result = f(self, Expr::axis(axis));
        let body = std::mem::replace(&mut self.kernel.body, outer);
        self.kernel.body.push(Item::Sequential { axis: LoopAxis { axis, extent: extent.into() }, body });
        result
    }
}

impl Store {
    /// Writes `value` at an index inside the buffer.
    pub fn at(buffer: &Buf, index: Vec<Index>, value: V) -> Store {
        Store { buffer: buffer.id, index, value, when: None, bounds: Bounds::Inside }
    }
}

/// The indices of an operand under numpy's broadcasting to `out` axes: right-aligned, a size-1 dim reads 0,
/// a dim that may be 1 is clamped.
pub fn broadcast_index(operand: &[Expr], out: &[Expr], axes: &[Expr]) -> Vec<Expr> {
    let skip = out.len() - operand.len();
    let one = |d: usize| {
        let (size, full, axis) = (&operand[d], &out[d + skip], &axes[d + skip]);
        if size.is(1) {
            Expr::constant(0)
        } else if size == full || size.as_const().is_some() {
            axis.clone()
        } else {
            axis.minimum(&(size - 1))
        }
    };
    (0..operand.len()).map(one).collect()
}

/// One node that is being lowered.
pub struct LowerCx<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// The node.
    pub node: &'a Node,
    lowering: &'a mut Lowering,
}

impl ReadAttributes for LowerCx<'_> {
    fn node(&self) -> &Node {
        self.node
    }
}

impl ReadOperands for LowerCx<'_> {
    fn graph(&self) -> &Graph {
        self.graph
    }
}

impl LowerCx<'_> {
    /// The operand as a kernel argument.
    pub fn arg(&mut self, index: usize) -> Result<Arg> {
        let value = self.input_value(index)?;
        self.shape(index)?; // the error names the operand
        let slot = self.lowering.slot(self.graph, value);
        Ok(self.lowering.as_arg(slot))
    }
    /// The operand as a kernel argument, where given.
    pub fn optional_arg(&mut self, index: usize) -> Result<Option<Arg>> {
        if self.has_input(index) { self.arg(index).map(Some) } else { Ok(None) }
    }
    /// The slot of any value (captures, block outputs).
    pub fn slot_of(&mut self, value: ValueId) -> SlotId {
        self.lowering.slot(self.graph, value)
    }
    /// The result as a kernel argument. Where nobody asked for the result: a temporary with the given type.
    pub fn result(&mut self, index: usize) -> Result<Arg> {
        let value = self.node.outputs.get(index).copied().flatten();
        let value = value.ok_or_else(|| self.fail(Code::INTERNAL, format!("result {index} is not asked for")))?;
        let slot = match self.lowering.slots[value] {
            Some(slot) => slot,
            None => self.lowering.define_slot(self.graph, value, SlotKind::Temp),
        };
        match &self.graph.values[value].fact.ty {
            Type::Tensor(t) if t.shape.is_some() => Ok(self.lowering.as_arg(slot)),
            _ => Err(self.fail(Code::RANK, format!("the rank of result {index} is not known"))),
        }
    }
    /// Result `index` is the same memory as `from`, under the result's own dims (a reshape).
    pub fn alias(&mut self, index: usize, from: &Arg) -> Result<()> {
        let Some(value) = self.node.outputs.get(index).copied().flatten() else { return Ok(()) };
        let to = self.lowering.define_slot(self.graph, value, SlotKind::View);
        self.emit(Instr::Alias { to, from: from.slot });
        Ok(())
    }
    /// The result as a view that `Instr::Alias` binds, in each branch or after a loop; `None` where nobody asked for it.
    pub fn result_view(&mut self, index: usize) -> Result<Option<Arg>> {
        let Some(value) = self.node.outputs.get(index).copied().flatten() else { return Ok(None) };
        match &self.graph.values[value].fact.ty {
            Type::Tensor(t) if t.shape.is_some() => {}
            Type::Tensor(_) => return Err(self.fail(Code::RANK, format!("the rank of result {index} is not known"))),
            _ => return Err(self.fail(Code::UNSUPPORTED, format!("result {index} is no tensor, which is not compiled yet"))),
        }
        let slot = self.lowering.define_slot(self.graph, value, SlotKind::View);
        Ok(Some(self.lowering.as_arg(slot)))
    }
    /// The elements of a sequence operand; its length must be known when the model is built.
    pub fn sequence(&self, index: usize) -> Result<Vec<Arg>> {
        let found = self.lowering.sequences.get(&self.input_value(index)?).cloned();
        let message = "sequences whose length is known only at run time are evaluated, not compiled yet";
        found.ok_or_else(|| self.fail(Code::UNSUPPORTED, message))
    }
    /// Result `index` is a sequence of these.
    pub fn set_sequence(&mut self, index: usize, elements: Vec<Arg>) {
        if let Some(value) = self.node.outputs.get(index).copied().flatten() {
            self.lowering.sequences.insert(value, elements);
        }
    }
    /// A slot as a kernel argument.
    pub fn arg_of(&self, slot: SlotId) -> Arg {
        self.lowering.as_arg(slot)
    }
    /// A temporary tensor.
    pub fn temp(&mut self, dtype: DType, dims: Vec<Expr>) -> Arg {
        self.new_slot("temp", dtype, dims, SlotKind::Temp)
    }
    /// A tensor on the heap; `Instr::Alloc` gives it memory.
    pub fn heap(&mut self, dtype: DType, dims: Vec<Expr>) -> Arg {
        self.new_slot("heap", dtype, dims, SlotKind::Heap)
    }
    /// A slot without memory of its own, to be bound by `Alias`.
    pub fn view(&mut self, dtype: DType, dims: Vec<Expr>) -> Arg {
        self.new_slot("view", dtype, dims, SlotKind::View)
    }
    /// The same memory as `from` under other dims of equal product.
    pub fn reshaped(&mut self, from: &Arg, dims: Vec<Expr>) -> Arg {
        let to = self.view(from.dtype, dims);
        self.emit(Instr::Alias { to: to.slot, from: from.slot });
        to
    }
    /// A constant.
    pub fn constant_arg(&mut self, tensor: Tensor) -> Arg {
        let dims = tensor.dims.iter().map(|&d| d.into()).collect();
        self.new_slot("constant", tensor.dtype, dims, SlotKind::Constant(tensor))
    }
    fn new_slot(&mut self, hint: &str, dtype: DType, dims: Vec<Expr>, kind: SlotKind) -> Arg {
        let number = self.lowering.program.slots.next_id().index();
        let name = format!("{hint}.{number}");
        let slot = Slot { name, ty: Type::tensor(dtype, dims.clone()), kind, layout: Layout::default(), space: Space::Host };
        Arg { slot: self.lowering.program.slots.push(slot), dtype, dims }
    }
    /// Makes a value's slot another one's (bodies of control flow bind their inputs with it).
    pub fn bind(&mut self, value: ValueId, slot: SlotId) {
        self.lowering.slots.set(value, Some(slot));
    }
    /// Appends an instruction.
    pub fn emit(&mut self, instr: Instr) {
        self.lowering.out.push(instr);
    }
    /// Collects what `f` emits.
    pub fn collect<T>(&mut self, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<(Vec<Instr>, T)> {
        let outer = std::mem::take(&mut self.lowering.out);
        let scope = self.lowering.written.clone();
        let result = f(self);
        self.lowering.written = scope;
        let inner = std::mem::replace(&mut self.lowering.out, outer);
        Ok((inner, result?))
    }
    /// Lowers the nodes of a body (its inputs bound before); returns the slots of its outputs.
    pub fn lower_block(&mut self, block: BlockId) -> Result<Vec<SlotId>> {
        let errors = self.lowering.lower_nodes(self.graph, block);
        if let Some(first) = errors.items.into_iter().next() {
            return Err(first);
        }
        let outputs = self.graph.blocks[block].outputs.clone();
        if outputs.iter().any(|v| self.lowering.sequences.contains_key(v)) {
            return Err(self.fail(Code::UNSUPPORTED, "a body that gives a sequence is not compiled yet"));
        }
        Ok(outputs.into_iter().map(|v| self.lowering.slot(self.graph, v)).collect())
    }
    /// `symbol = value` at this point of the program; `size` must be a bare symbol (a fresh one of inference).
    pub fn define(&mut self, size: &Expr, value: Expr) -> Result<()> {
        match size.as_sym() {
            Some(symbol) if !self.lowering.program.symbols.table[symbol].input => {
                self.emit(Instr::Let { symbol, value });
                Ok(())
            }
            _ if *size == value => Ok(()),
            _ => {
                let (a, b) = (self.lowering.program.symbols.show(size), self.lowering.program.symbols.show(&value));
                self.check(size.equal(&value), format!("size {a} must equal {b}"));
                Ok(())
            }
        }
    }
    /// A new size.
    pub fn fresh(&mut self, hint: &str) -> SymId {
        self.lowering.program.symbols.fresh(hint)
    }
    /// Reads an integer element during the run.
    pub fn read_cell(&mut self, arg: &Arg, index: impl Into<Expr>) -> Expr {
        let symbol = self.fresh("cell");
        self.emit(Instr::Read { symbol, slot: arg.slot, index: index.into() });
        Expr::sym(symbol)
    }
    /// The elements of a small integer operand: known, or read during the run. Its length must be known.
    pub fn sizes(&mut self, index: usize) -> Result<Vec<Expr>> {
        if let Some(known) = self.known(index) {
            return Ok(known);
        }
        let shape = self.shape(index)?;
        let count = Expr::product(&shape);
        let Some(count) = count.as_const() else {
            return Err(self.fail(Code::VALUE, format!("the number of elements of input {index} must be known")));
        };
        let arg = self.arg(index)?;
        Ok((0..count).map(|i| self.read_cell(&arg, i)).collect())
    }
    /// A condition of the run.
    pub fn check(&mut self, holds: Expr, message: String) {
        let origin = self.node.origin.clone();
        self.emit(Instr::Check { holds, message, origin });
    }
    /// A kernel labelled with the node's operator.
    pub fn kernel(&self) -> KernelBuilder {
        KernelBuilder::new(self.node.op.name)
    }
    /// Launches a finished kernel.
    pub fn launch(&mut self, builder: KernelBuilder) -> Result<()> {
        let KernelBuilder { kernel, slots } = builder;
        if let Err(rule) = crate::kernel::verify(&kernel) {
            return Err(self.fail(Code::INTERNAL, format!("the lowering broke a rule of Kernel IR: {rule}\n{kernel}")));
        }
        let origins = vec![self.node.origin.clone()];
        self.emit(Instr::Launch(Box::new(Launch { kernel, slots, origins, space: Space::Host })));
        Ok(())
    }
    /// `out[i] = f(a[i], b[i], …)` with numpy's broadcasting; `f` gets the elements.
    pub fn pointwise(&mut self, args: &[Arg], out: &Arg, f: impl FnOnce(&mut Body, &[V]) -> V) -> Result<()> {
        let mut k = self.kernel();
        let buffers: Vec<Buf> = args.iter().map(|a| k.read(a)).collect();
        let y = k.write(out);
        let mut l = Loop::default();
        let axes = k.axes(&mut l.parallel, &out.dims);
        let elements: Vec<V> = buffers
            .iter()
            .map(|b| l.post.load(b, broadcast_index(&b.dims, &out.dims, &axes).into_iter().map(Index::Expr).collect()))
            .collect();
        let value = f(&mut l.post, &elements);
        let value = l.post.cast(out.dtype, value);
        l.stores.push(Store::at(&y, axes.into_iter().map(Index::Expr).collect(), value));
        k.push(l);
        self.launch(k)
    }
    /// Element `i` of `out` is element `map(i)` of `from`: transposes, slices, expansions.
    pub fn gather_map(&mut self, from: &Arg, out: &Arg, map: impl FnOnce(&[Expr]) -> Vec<Expr>) -> Result<()> {
        let mut k = self.kernel();
        let x = k.read(from);
        let y = k.write(out);
        let mut l = Loop::default();
        let axes = k.axes(&mut l.parallel, &out.dims);
        let value = l.post.load(&x, map(&axes).into_iter().map(Index::Expr).collect());
        l.stores.push(Store::at(&y, axes.into_iter().map(Index::Expr).collect(), value));
        k.push(l);
        self.launch(k)
    }
    /// Copies a tensor into another of equal dims.
    pub fn copy(&mut self, from: &Arg, to: &Arg) -> Result<()> {
        self.gather_map(from, to, <[Expr]>::to_vec)
    }
    /// A cast of one tensor into another of equal dims.
    pub fn convert(&mut self, from: &Arg, to: &Arg) -> Result<()> {
        self.pointwise(std::slice::from_ref(from), to, |_, x| x[0])
    }
    /// A unary map of one tensor.
    pub fn map_unary(&mut self, op: UnaryOp, from: &Arg, to: &Arg) -> Result<()> {
        self.pointwise(std::slice::from_ref(from), to, |b, x| b.unary(op, x[0]))
    }
    /// A binary map of two tensors.
    pub fn map_binary(&mut self, op: BinaryOp, a: &Arg, b: &Arg, to: &Arg) -> Result<()> {
        self.pointwise(&[a.clone(), b.clone()], to, |body, x| body.binary(op, x[0], x[1]))
    }
}

/// The state of a lowering.
struct Lowering {
    program: Program,
    slots: SideTable<ValueId, Option<SlotId>>,
    /// Values with known elements that were written out on the current path.
    written: Vec<ValueId>,
    out: Vec<Instr>,
    /// The elements of sequences whose lengths are known when the model is built.
    sequences: std::collections::BTreeMap<ValueId, Vec<Arg>>,
}

/// Lowers a whole graph. Every node that cannot be lowered is reported.
pub fn lower(graph: &Graph) -> std::result::Result<Program, Diagnostics> {
    let program = Program {
        name: graph.name.clone(),
        symbols: graph.symbols.clone(),
        slots: Default::default(),
        inputs: Vec::new(),
        outputs: Vec::new(),
        body: Vec::new(),
    };
    let mut lowering =
        Lowering { program, slots: SideTable::new(None), written: Vec::new(), out: Vec::new(), sequences: Default::default() };
    let mut errors = Diagnostics::new();
    for &input in &graph.root().inputs {
        let slot = lowering.define_slot(graph, input, SlotKind::Input);
        lowering.program.inputs.push(slot);
    }
    errors.items.extend(lowering.lower_nodes(graph, graph.root).items);
    if errors.has_errors() {
        return Err(errors);
    }
    for &output in &graph.root().outputs {
        let result = lowering.finish_output(graph, output);
        errors.collect(result);
    }
    if errors.has_errors() {
        return Err(errors);
    }
    lowering.program.body = std::mem::take(&mut lowering.out);
    Ok(lowering.program)
}

impl Lowering {
    fn define_slot(&mut self, graph: &Graph, value: ValueId, kind: SlotKind) -> SlotId {
        let v = &graph.values[value];
        let slot = self.program.slots.push(Slot {
            name: v.name.clone(),
            ty: v.fact.ty.clone(),
            kind,
            layout: Layout::default(),
            space: Space::Host,
        });
        self.slots.set(value, Some(slot));
        slot
    }
    fn as_arg(&self, slot: SlotId) -> Arg {
        let (dtype, dims) = self.program.tensor(slot);
        Arg { slot, dtype, dims: dims.to_vec() }
    }
    /// The slot of a value; constants and known sizes get theirs when first read.
    fn slot(&mut self, graph: &Graph, value: ValueId) -> SlotId {
        let known = graph.values[value].fact.known.as_ref();
        match (&graph.values[value].def, self.slots[value]) {
            (Def::Constant(tensor), None) => self.define_slot(graph, value, SlotKind::Constant(tensor.clone())),
            (Def::Node(..), slot) if known.is_some() && (slot.is_none() || self.is_unwritten(value, slot)) => {
                let slot = slot.unwrap_or_else(|| self.define_slot(graph, value, SlotKind::Temp));
                let values = known.expect("just matched").clone();
                self.out.push(Instr::Write { slot, values });
                self.written.push(value);
                slot
            }
            (_, Some(slot)) => slot,
            (_, None) => unreachable!("{} is used before it is lowered", graph.values[value].name),
        }
    }
    /// A slot of a known value that some other path (a branch) wrote, but not this one.
    fn is_unwritten(&self, value: ValueId, slot: Option<SlotId>) -> bool {
        slot.is_some_and(|s| matches!(self.program.slots[s].kind, SlotKind::Temp)) && !self.written.contains(&value)
    }
    fn lower_nodes(&mut self, graph: &Graph, block: BlockId) -> Diagnostics {
        let mut errors = Diagnostics::new();
        for &id in &graph.blocks[block].nodes {
            // A node whose operands failed is not asked: its error would only repeat theirs.
            let result = if self.operands_are_lowered(graph, id) { self.lower_node(graph, id) } else { Ok(()) };
            errors.collect(result);
        }
        errors
    }
    fn operands_are_lowered(&self, graph: &Graph, id: NodeId) -> bool {
        let mut captures = Vec::new();
        graph.captures(id, &mut captures);
        graph.nodes[id].inputs.iter().flatten().chain(&captures).all(|v| {
            self.slots[*v].is_some()
                || self.sequences.contains_key(v)
                || matches!(graph.values[*v].def, Def::Constant(_))
                || graph.values[*v].fact.known.is_some()
        })
    }
    fn lower_node(&mut self, graph: &Graph, id: NodeId) -> Result<()> {
        let node = &graph.nodes[id];
        for check in &node.checks {
            let origin = node.origin.clone();
            let message = format!("{}: {}", node.op.name, check.message);
            self.out.push(Instr::Check { holds: check.holds.clone(), message, origin });
        }
        let all_known = node.outputs.iter().flatten().all(|v| graph.values[*v].fact.known.is_some());
        if all_known && node.blocks.is_empty() {
            return Ok(());
        }
        let mut cx = LowerCx { graph, node, lowering: self };
        match &node.op.lower {
            Lower::Kernels(lower) | Lower::Host(lower) => lower(&mut cx)?,
            Lower::Function => return Err(cx.fail(Code::INTERNAL, "a function operator reached lowering unexpanded")),
            Lower::Refused(why) => return Err(cx.fail(Code::UNSUPPORTED, *why)),
        }
        for value in node.outputs.iter().flatten() {
            let is_held = self.slots[*value].is_some() || self.sequences.contains_key(value);
            if !is_held && graph.values[*value].fact.known.is_none() {
                let name = &graph.values[*value].name;
                return Err(crate::attributes::fail(
                    node,
                    Code::INTERNAL,
                    format!("the lowering left \"{name}\" without a slot"),
                ));
            }
            // Whoever wrote it as a kernel's result need not write it as known sizes.
            if self.slots[*value].is_some() {
                self.written.push(*value);
            }
        }
        Ok(())
    }
    /// Every model output gets a slot of its own that the caller sees.
    fn finish_output(&mut self, graph: &Graph, value: ValueId) -> Result<()> {
        if self.sequences.contains_key(&value) {
            let message = format!("the output \"{}\" is a sequence, which is not compiled yet", graph.values[value].name);
            return Err(Diagnostic::error(Code::UNSUPPORTED, message));
        }
        let slot = self.slot(graph, value);
        if matches!(self.program.slots[slot].kind, SlotKind::Temp) {
            self.program.slots[slot].kind = SlotKind::Output;
            self.program.outputs.push(slot);
            return Ok(());
        }
        let source = self.program.slots[slot].clone();
        if source.ty.as_tensor().is_none_or(|t| t.dtype == DType::String) {
            self.program.outputs.push(slot);
            return Ok(());
        }
        let to = self.program.slots.push(Slot { kind: SlotKind::Output, layout: Layout::default(), ..source });
        let (from, to) = (self.as_arg(slot), self.as_arg(to));
        let mut k = KernelBuilder::new("Copy");
        let (x, y) = (k.read(&from), k.write(&to));
        let mut l = Loop::default();
        let index: Vec<Index> = k.axes(&mut l.parallel, &to.dims).into_iter().map(Index::Expr).collect();
        let element = l.post.load(&x, index.clone());
        l.stores.push(Store::at(&y, index, element));
        k.push(l);
        self.out.push(Instr::Launch(Box::new(Launch {
            kernel: k.kernel,
            slots: k.slots,
            origins: vec![Origin::default()],
            space: Space::Host,
        })));
        self.program.outputs.push(to.slot);
        Ok(())
    }
}
