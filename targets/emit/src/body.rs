//! Prints scalar bodies: operations, guarded loads, stores, faults.

use oaaxc_ir::kernel::{Bounds, Kernel, LoopAxis, Op};
use oaaxc_ir::{DType, Expr, Scalar};

use crate::access::{Access, Check, Code, Put};
use crate::cast::{self, Value, carried, stored, value};
use crate::index::Scope;
use crate::scalar;
use crate::text::{OpenLoop, Writer};

/// A kernel's function as it grows.
#[derive(Debug)]
pub struct Emitter<'k> {
    /// Its text.
    pub w: Writer,
    /// Symbols and axes.
    pub scope: Scope,
    /// The kernel.
    pub kernel: &'k Kernel,
    /// One pointer name per buffer.
    pub pointers: Vec<String>,
    /// The pointers' types, one per buffer.
    pub spaces: Vec<&'static str>,
    /// Every operation alone, in the interpreter's order.
    pub strict: bool,
    /// What a fault does.
    pub fault: Fault,
}

/// What a fault does.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The kernel ends at once, in the block `(value: i64, limit: i64)` of this name, once one was needed.
    Leave(Option<String>),
    /// The first fault of a run is recorded, and the kernel goes on without the element.
    Record {
        /// The record in device memory: `{ i32 state, launch, code, place, i64 value, limit }`.
        record: String,
        /// The number of the launch, an i32.
        launch: String,
        /// The synchronisation scope of the whole device.
        scope: &'static str,
    },
}

impl Emitter<'_> {
    /// A size expression as i64.
    pub fn expr(&mut self, e: &Expr) -> String {
        self.scope.emit(&mut self.w, e)
    }
    /// Opens one loop an axis, outermost first, and binds the axes.
    pub fn open(&mut self, axes: &[LoopAxis]) -> Vec<OpenLoop> {
        let one = |axis: &LoopAxis| {
            let high = self.expr(&axis.extent);
            let (zero, one) = (self.w.int(0), self.w.int(1));
            let open = self.w.open(&zero, &high, &one);
            self.scope.bind(axis.axis, &open.counter);
            open
        };
        axes.iter().map(one).collect()
    }
    /// Closes loops in the order opposite to that in which they were opened.
    pub fn close(&mut self, open: Vec<OpenLoop>) {
        open.into_iter().rev().for_each(|l| self.w.close(l));
    }
    /// The values of a body.
    pub fn code(&mut self, code: &Code, params: &[Value]) -> Vec<Value> {
        let mut values: Vec<Value> = Vec::with_capacity(code.ops.len());
        for (at, op) in code.ops.iter().enumerate() {
            let w = &mut self.w;
            let get = |v: &oaaxc_ir::kernel::V| &values[v.0 as usize];
            let result = match op {
                Op::Const(scalar) => cast::constant(w, *scalar),
                Op::Index(e) => value(DType::I64, self.scope.emit(w, e)),
                Op::Param(i, dtype) => cast::cast(w, *dtype, &params[*i as usize]),
                Op::Load { when, otherwise, .. } => {
                    let when = when.as_ref().map(|v| get(v).name.clone());
                    let access = code.accesses[at].as_ref().expect("a load has an access");
                    self.load(access, when, *otherwise)
                }
                Op::Unary(op, x) => scalar::unary(w, *op, get(x)),
                Op::Binary(op, x, y) => scalar::binary(w, *op, get(x), get(y)),
                Op::Select(c, x, y) => scalar::select(w, get(c), get(x), get(y)),
                Op::Cast(dtype, x) => cast::cast(w, *dtype, get(x)),
            };
            for (axis, v) in &code.computed {
                if v.0 as usize == at {
                    self.scope.bind(*axis, &result.name);
                }
            }
            values.push(result);
        }
        values
    }
    /// Writes the stores of a body.
    pub fn puts(&mut self, puts: &[Put], values: &[Value]) {
        for put in puts {
            let when = put.when.map(|v| values[v.0 as usize].name.clone());
            self.store(&put.access, when, &values[put.value.0 as usize]);
        }
    }

    fn load(&mut self, access: &Access, when: Option<String>, otherwise: Scalar) -> Value {
        let dtype = self.kernel.buffer(access.buffer).dtype;
        let guard = self.guard(access, when);
        if guard.is_none() && !self.goes_on(access) {
            self.fault_checks(access, "");
            return self.load_element(access, dtype);
        }
        let otherwise = cast::constant(&mut self.w, otherwise).name;
        let (inside, after) = (self.w.label(), self.w.label());
        let ty = carried(dtype);
        let without = format!("{after}({otherwise} : {ty})");
        if let Some(guard) = guard {
            self.w.branch(&guard, &inside, &without);
            self.w.block(&inside, "");
        }
        self.fault_checks(access, &without);
        let element = self.load_element(access, dtype).name;
        self.w.line(format_args!("cf.br {after}({element} : {ty})"));
        let name = self.w.name();
        self.w.block(&after, &format!("{name}: {ty}"));
        value(dtype, name)
    }
    fn store(&mut self, access: &Access, when: Option<String>, v: &Value) {
        let guard = self.guard(access, when);
        if guard.is_none() && !self.goes_on(access) {
            self.fault_checks(access, "");
            return self.store_element(access, v);
        }
        let (inside, after) = (self.w.label(), self.w.label());
        if let Some(guard) = guard {
            self.w.branch(&guard, &inside, &after);
            self.w.block(&inside, "");
        }
        self.fault_checks(access, &after);
        self.store_element(access, v);
        self.w.jump(&after);
        self.w.block(&after, "");
    }
    /// The condition under which memory is touched, where there is one.
    fn guard(&mut self, access: &Access, when: Option<String>) -> Option<String> {
        let mut guard = when;
        if access.bounds == Bounds::Otherwise {
            for check in &access.checks {
                let holds = self.holds(check);
                guard = Some(match guard {
                    None => holds,
                    Some(g) => self.w.op(format_args!("arith.andi {g}, {holds} : i1")),
                });
            }
        }
        guard
    }
    fn holds(&mut self, check: &Check) -> String {
        let index = self.expr(&check.index);
        if !check.high {
            let zero = self.w.int(0);
            return self.w.op(format_args!("arith.cmpi sge, {index}, {zero} : i64"));
        }
        let size = self.expr(&check.size);
        // Sizes are not negative, so one unsigned comparison does both sides.
        let predicate = if check.low { "ult" } else { "slt" };
        self.w.op(format_args!("arith.cmpi {predicate}, {index}, {size} : i64"))
    }
    /// Whether the kernel goes on where a check of this access fails.
    fn goes_on(&self, access: &Access) -> bool {
        access.bounds == Bounds::Fault && !access.checks.is_empty() && matches!(self.fault, Fault::Record { .. })
    }
    /// Checks that end the run; `without` is where a kernel that goes on goes.
    fn fault_checks(&mut self, access: &Access, without: &str) {
        if access.bounds != Bounds::Fault {
            return;
        }
        for check in &access.checks {
            let holds = self.holds(check);
            let (index, size) = (self.expr(&check.index), self.expr(&check.size));
            let next = self.w.label();
            match self.fault.clone() {
                Fault::Leave(label) => {
                    let fault = label.unwrap_or_else(|| "^fault".to_string());
                    self.w.branch(&holds, &next, &format!("{fault}({index}, {size} : i64, i64)"));
                    self.fault = Fault::Leave(Some(fault));
                }
                Fault::Record { record, launch, scope } => {
                    let fault = self.w.label();
                    self.w.branch(&holds, &next, &fault);
                    self.w.block(&fault, "");
                    self.record(&record, &launch, scope, (&index, &size), without);
                }
            }
            self.w.block(&next, "");
        }
    }
    /// Fills the record, where this is the first fault of the run, and jumps.
    fn record(&mut self, record: &str, launch: &str, scope: &str, (index, size): (&str, &str), next: &str) {
        let space = self.w.pointer;
        let (zero, one) = (self.w.constant("0 : i32"), self.w.constant("1 : i32"));
        let w = &mut self.w;
        let swap =
            w.op(format_args!("llvm.cmpxchg {record}, {zero}, {one} syncscope(\"{scope}\") monotonic monotonic : {space}, i32"));
        let won = w.op(format_args!("llvm.extractvalue {swap}[1] : !llvm.struct<(i32, i1)>"));
        let fill = w.label();
        w.branch(&won, &fill, next);
        w.block(&fill, "");
        for (at, v, ty) in [(4, launch, "i32"), (8, &one, "i32"), (12, &zero, "i32"), (16, index, "i64"), (24, size, "i64")] {
            let address = w.op(format_args!("llvm.getelementptr {record}[{at}] : ({space}) -> {space}, i8"));
            w.line(format_args!("llvm.store {v}, {address} : {ty}, {space}"));
        }
        w.line(format_args!("cf.br {next}"));
    }
    /// The address of an element whose checks hold.
    pub fn address(&mut self, access: &Access) -> String {
        let ty = stored(self.kernel.buffer(access.buffer).dtype);
        self.scope.trust = true;
        let offset = self.expr(&access.offset);
        self.scope.trust = false;
        let at = access.buffer.0 as usize;
        let (pointer, space) = (self.pointers[at].clone(), self.spaces[at]);
        self.w.element_in(space, &pointer, &offset, ty)
    }
    fn load_element(&mut self, access: &Access, dtype: DType) -> Value {
        let address = self.address(access);
        self.load_in(self.spaces[access.buffer.0 as usize], &address, dtype)
    }
    fn store_element(&mut self, access: &Access, v: &Value) {
        let address = self.address(access);
        self.store_in(self.spaces[access.buffer.0 as usize], &address, v);
    }
    /// Reads an element at an address of memory that the kernel is given.
    pub fn load_from(&mut self, address: &str, dtype: DType) -> Value {
        self.load_in(self.w.pointer, address, dtype)
    }
    /// Writes an element to an address of memory that the kernel is given.
    pub fn store_to(&mut self, address: &str, v: &Value) {
        self.store_in(self.w.pointer, address, v);
    }
    /// Reads an element at an address of type `space`.
    pub fn load_in(&mut self, space: &str, address: &str, dtype: DType) -> Value {
        let ty = stored(dtype);
        let mut name = self.w.op(format_args!("llvm.load {address} : {space} -> {ty}"));
        if dtype == DType::Bool {
            let zero = self.w.constant("0 : i8");
            name = self.w.op(format_args!("arith.cmpi ne, {name}, {zero} : i8"));
        }
        value(dtype, name)
    }
    /// Writes an element to an address of type `space`.
    pub fn store_in(&mut self, space: &str, address: &str, v: &Value) {
        let ty = stored(v.dtype);
        let mut name = v.name.clone();
        if v.dtype == DType::Bool {
            name = self.w.op(format_args!("arith.extui {name} : i1 to i8"));
        }
        self.w.line(format_args!("llvm.store {name}, {address} : {ty}, {space}"));
    }
}
