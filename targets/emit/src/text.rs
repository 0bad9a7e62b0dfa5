//! Lines of MLIR: fresh names, entry-block slots, basic blocks and counted loops.
//!
//! Control flow is blocks (`cf`), so that a fault leaves a kernel from any depth. Mutable scalars are
//! stack slots in the entry block, which LLVM turns into registers.

use std::collections::HashMap;
use std::fmt::{Display, Write};

/// The body of one function as it grows.
#[derive(Default, Debug)]
pub struct Writer {
    entry: String,
    out: String,
    next: u32,
    blocks: u32,
    pub(crate) math: u32,
    constants: HashMap<String, String>,
    /// Whether the machine has a fused multiply-add.
    pub fma: bool,
    /// Only operations that every back end has inline: no remainder of floats, no minimum that knows NaN.
    pub portable: bool,
    /// The type of pointers to the memory that kernels are given.
    pub pointer: &'static str,
    /// The type of pointers to stack slots.
    pub private: &'static str,
}

/// A counted loop that is open.
#[derive(Debug)]
pub struct OpenLoop {
    /// The counter's name.
    pub counter: String,
    head: String,
    exit: String,
    step: String,
}

impl Writer {
    /// An empty body for a machine with one address space.
    pub fn new(fma: bool) -> Writer {
        Writer { fma, pointer: "!llvm.ptr", private: "!llvm.ptr", ..Writer::default() }
    }
    /// A fresh value name.
    pub fn name(&mut self) -> String {
        self.next += 1;
        format!("%v{}", self.next - 1)
    }
    /// A line without a result.
    pub fn line(&mut self, line: impl Display) {
        writeln!(self.out, "    {line}").expect("strings take text");
    }
    /// A line with one result; answers its name.
    pub fn op(&mut self, operation: impl Display) -> String {
        let name = self.name();
        self.line(format_args!("{name} = {operation}"));
        name
    }
    /// A constant as MLIR spells it with its type (`1 : i64`), defined once in the entry block.
    pub fn constant(&mut self, text: impl Display) -> String {
        let text = text.to_string();
        if let Some(name) = self.constants.get(&text) {
            return name.clone();
        }
        let name = self.name();
        writeln!(self.entry, "    {name} = arith.constant {text}").expect("strings take text");
        self.constants.insert(text, name.clone());
        name
    }
    /// A 64-bit integer.
    pub fn int(&mut self, value: i64) -> String {
        self.constant(format_args!("{value} : i64"))
    }
    /// A stack slot of the entry block for `count` elements of this type, of pointer type `private`.
    pub fn slot(&mut self, ty: &str, count: i64) -> String {
        let count = self.int(count);
        let name = self.name();
        let pointer = self.private;
        writeln!(self.entry, "    {name} = llvm.alloca {count} x {ty} {{alignment = 64 : i64}} : (i64) -> {pointer}")
            .expect("strings take text");
        name
    }
    /// Straight-line code that goes to the entry block, behind what stands there.
    pub fn in_entry<R>(&mut self, lines: impl FnOnce(&mut Writer) -> R) -> R {
        let out = std::mem::take(&mut self.out);
        let result = lines(self);
        let lines = std::mem::replace(&mut self.out, out);
        self.entry.push_str(&lines);
        result
    }
    /// A fresh block label.
    pub fn label(&mut self) -> String {
        self.blocks += 1;
        format!("^b{}", self.blocks - 1)
    }
    /// Starts a block; `arguments` as `%x: i64, %y: f32`, or empty.
    pub fn block(&mut self, label: &str, arguments: &str) {
        match arguments {
            "" => writeln!(self.out, "  {label}:"),
            _ => writeln!(self.out, "  {label}({arguments}):"),
        }
        .expect("strings take text");
    }
    /// Ends a block by a jump.
    pub fn jump(&mut self, label: &str) {
        self.line(format_args!("cf.br {label}"));
    }
    /// Ends a block by a choice.
    pub fn branch(&mut self, condition: &str, yes: &str, no: &str) {
        self.line(format_args!("cf.cond_br {condition}, {yes}, {no}"));
    }
    /// Opens `for counter = low; counter < high; counter += step`.
    pub fn open(&mut self, low: &str, high: &str, step: &str) -> OpenLoop {
        let (head, inside, exit) = (self.label(), self.label(), self.label());
        let counter = self.name();
        self.line(format_args!("cf.br {head}({low} : i64)"));
        self.block(&head, &format!("{counter}: i64"));
        let more = self.op(format_args!("arith.cmpi slt, {counter}, {high} : i64"));
        self.branch(&more, &inside, &exit);
        self.block(&inside, "");
        OpenLoop { counter, head, exit, step: step.to_string() }
    }
    /// Closes the innermost open loop.
    pub fn close(&mut self, open: OpenLoop) {
        let next = self.op(format_args!("arith.addi {}, {} overflow<nsw> : i64", open.counter, open.step));
        self.line(format_args!("cf.br {}({next} : i64)", open.head));
        self.block(&open.exit, "");
    }
    /// Two integers of type i64.
    pub fn int_op(&mut self, op: &str, x: &str, y: &str) -> String {
        self.op(format_args!("arith.{op} {x}, {y} : i64"))
    }
    /// The address of element `offset` of type `ty`.
    pub fn element(&mut self, pointer: &str, offset: &str, ty: &str) -> String {
        self.element_in(self.pointer, pointer, offset, ty)
    }
    /// The same for a pointer of type `space`.
    pub fn element_in(&mut self, space: &str, pointer: &str, offset: &str, ty: &str) -> String {
        self.op(format_args!("llvm.getelementptr inbounds {pointer}[{offset}] : ({space}, i64) -> {space}, {ty}"))
    }
    /// Appends mathematics on one value.
    pub fn math(&mut self, f: impl FnOnce(&mut crate::math::Body) -> String) -> String {
        f(&mut crate::math::Body { out: &mut self.out, next: &mut self.math, fma: self.fma })
    }
    /// The whole body: entry block first.
    pub fn finish(self) -> String {
        self.entry + &self.out
    }
}
