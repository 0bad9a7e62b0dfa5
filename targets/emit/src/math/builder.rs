//! Expression nodes of vector mathematics: each method appends one operation (or a fixed handful).
//!
//! Values are small handles, so that formulas read as formulas. No method branches or traps, and none
//! makes poison: integers come from bit patterns, never from a float conversion.

use std::fmt::Write;

use super::{Body, FloatType};

/// A value of the body: a float, an integer of equal width, or a truth value, per lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct V(usize);

/// One function's emission: the body, the type, and the names so far.
pub(super) struct Cx<'a, 'b> {
    pub body: &'a mut Body<'b>,
    pub ty: FloatType,
    names: Vec<String>,
    constants: Vec<(u64, bool, V)>,
}

impl<'a, 'b> Cx<'a, 'b> {
    pub fn new(body: &'a mut Body<'b>, ty: FloatType) -> Cx<'a, 'b> {
        Cx { body, ty, names: Vec::new(), constants: Vec::new() }
    }

    /// Names a value that exists already.
    pub fn input(&mut self, name: &str) -> V {
        self.names.push(name.to_string());
        V(self.names.len() - 1)
    }

    pub fn name(&self, v: V) -> String {
        self.names[v.0].clone()
    }

    /// Whether the element is f32.
    pub fn single(&self) -> bool {
        self.ty.bits == 32
    }

    fn emit(&mut self, operation: &str, arguments: &[V], types: &str) -> V {
        let name = format!("%m{}", self.body.next);
        *self.body.next += 1;
        let arguments: Vec<&str> = arguments.iter().map(|a| self.names[a.0].as_str()).collect();
        let arguments = arguments.join(", ");
        writeln!(self.body.out, "    {name} = {operation} {arguments} : {types}").expect("strings take text");
        self.names.push(name);
        V(self.names.len() - 1)
    }

    fn float(&mut self, operation: &str, arguments: &[V]) -> V {
        let ty = self.ty.text();
        self.emit(operation, arguments, &ty)
    }

    fn integer(&mut self, operation: &str, arguments: &[V]) -> V {
        let ty = self.ty.integer();
        self.emit(operation, arguments, &ty)
    }

    fn truth(&mut self, operation: &str, arguments: &[V]) -> V {
        let ty = self.ty.truth();
        self.emit(operation, arguments, &ty)
    }

    fn constant(&mut self, bits: u64, float: bool) -> V {
        if let Some(&(.., v)) = self.constants.iter().find(|c| (c.0, c.1) == (bits, float)) {
            return v;
        }
        let ty = if float { self.ty.text() } else { self.ty.integer() };
        let digits = self.ty.bits as usize / 4;
        let value = format!("0x{bits:0digits$X}");
        let value = if self.ty.width == 1 { value } else { format!("dense<{value}>") };
        let v = self.emit(&format!("arith.constant {value}"), &[], &ty);
        self.constants.push((bits, float, v));
        v
    }

    /// A float constant, rounded to the element type.
    pub fn c(&mut self, value: f64) -> V {
        let bits = match self.single() {
            true => (value as f32).to_bits() as u64,
            false => value.to_bits(),
        };
        self.constant(bits, true)
    }

    /// An integer constant of the element's width.
    pub fn i(&mut self, value: i64) -> V {
        let bits = if self.single() { value as u32 as u64 } else { value as u64 };
        self.constant(bits, false)
    }

    pub fn add(&mut self, a: V, b: V) -> V {
        self.float("arith.addf", &[a, b])
    }

    pub fn sub(&mut self, a: V, b: V) -> V {
        self.float("arith.subf", &[a, b])
    }

    pub fn mul(&mut self, a: V, b: V) -> V {
        self.float("arith.mulf", &[a, b])
    }

    pub fn div(&mut self, a: V, b: V) -> V {
        self.float("arith.divf", &[a, b])
    }

    pub fn neg(&mut self, a: V) -> V {
        self.float("arith.negf", &[a])
    }

    pub fn scale(&mut self, a: V, factor: f64) -> V {
        let factor = self.c(factor);
        self.mul(a, factor)
    }

    pub fn plus(&mut self, a: V, value: f64) -> V {
        let value = self.c(value);
        self.add(a, value)
    }

    /// An operation of the `math` dialect on one float.
    pub fn math(&mut self, operation: &str, a: V) -> V {
        self.float(&format!("math.{operation}"), &[a])
    }

    pub fn abs(&mut self, a: V) -> V {
        self.math("absf", a)
    }

    pub fn sqrt(&mut self, a: V) -> V {
        self.math("sqrt", a)
    }

    pub fn round(&mut self, a: V) -> V {
        self.math("roundeven", a)
    }

    /// `a` with the sign of `sign`.
    pub fn copysign(&mut self, a: V, sign: V) -> V {
        self.float("math.copysign", &[a, sign])
    }

    /// a·b + c, fused where the machine can.
    pub fn fma(&mut self, a: V, b: V, c: V) -> V {
        if self.body.fma {
            return self.float("math.fma", &[a, b, c]);
        }
        let product = self.mul(a, b);
        self.add(product, c)
    }

    /// c − a·b, fused where the machine can.
    pub fn fnma(&mut self, a: V, b: V, c: V) -> V {
        if self.body.fma {
            let n = self.neg(a);
            return self.fma(n, b, c);
        }
        let product = self.mul(a, b);
        self.sub(c, product)
    }

    /// A polynomial in x by Horner's rule, lowest power first.
    pub fn polynomial(&mut self, x: V, coefficients: &[f64]) -> V {
        let (last, rest) = coefficients.split_last().expect("a polynomial has a coefficient");
        let mut sum = self.c(*last);
        for &coefficient in rest.iter().rev() {
            let coefficient = self.c(coefficient);
            sum = self.fma(sum, x, coefficient);
        }
        sum
    }

    /// A comparison by its `arith.cmpf` predicate.
    pub fn cmp(&mut self, predicate: &str, a: V, b: V) -> V {
        self.float(&format!("arith.cmpf {predicate},"), &[a, b])
    }

    pub fn test(&mut self, predicate: &str, a: V, value: f64) -> V {
        let value = self.c(value);
        self.cmp(predicate, a, value)
    }

    pub fn and(&mut self, a: V, b: V) -> V {
        self.truth("arith.andi", &[a, b])
    }

    pub fn or(&mut self, a: V, b: V) -> V {
        self.truth("arith.ori", &[a, b])
    }

    /// Per lane: `a` where `condition` holds, else `b`.
    pub fn select(&mut self, condition: V, a: V, b: V) -> V {
        let ty = self.ty.text();
        let types = match self.ty.width {
            1 => ty,
            _ => format!("{}, {ty}", self.ty.truth()),
        };
        self.emit("arith.select", &[condition, a, b], &types)
    }

    /// `value` where `condition` holds, else `otherwise`.
    pub fn replace(&mut self, condition: V, value: f64, otherwise: V) -> V {
        let value = self.c(value);
        self.select(condition, value, otherwise)
    }

    /// −a where `condition` holds.
    pub fn negate_if(&mut self, condition: V, a: V) -> V {
        let n = self.neg(a);
        self.select(condition, n, a)
    }

    /// a limited to [low, high]; NaN stays.
    pub fn clamp(&mut self, a: V, low: f64, high: f64) -> V {
        let under = self.test("olt", a, low);
        let a = self.replace(under, low, a);
        let over = self.test("ogt", a, high);
        self.replace(over, high, a)
    }

    /// The bit pattern of a float.
    pub fn bits(&mut self, a: V) -> V {
        let types = format!("{} to {}", self.ty.text(), self.ty.integer());
        self.emit("arith.bitcast", &[a], &types)
    }

    /// The float of a bit pattern.
    pub fn float_of_bits(&mut self, a: V) -> V {
        let types = format!("{} to {}", self.ty.integer(), self.ty.text());
        self.emit("arith.bitcast", &[a], &types)
    }

    pub fn iadd(&mut self, a: V, b: V) -> V {
        self.integer("arith.addi", &[a, b])
    }

    pub fn isub(&mut self, a: V, b: V) -> V {
        self.integer("arith.subi", &[a, b])
    }

    /// a + constant.
    pub fn iplus(&mut self, a: V, value: i64) -> V {
        let value = self.i(value);
        self.iadd(a, value)
    }

    pub fn shl(&mut self, a: V, count: u32) -> V {
        let count = self.i(count as i64);
        self.integer("arith.shli", &[a, count])
    }

    /// Logical right shift (64-bit arithmetic shifts are slow before AVX-512).
    pub fn shr(&mut self, a: V, count: u32) -> V {
        let count = self.i(count as i64);
        self.integer("arith.shrui", &[a, count])
    }

    /// a·b as the sum of two floats, exactly where nothing over- or underflows.
    pub fn two_product(&mut self, a: V, b: V) -> (V, V) {
        let p = self.mul(a, b);
        if self.body.fma {
            let n = self.neg(p);
            return (p, self.fma(a, b, n));
        }
        // Veltkamp's split and Dekker's product (1971).
        let (ah, al) = self.split(a);
        let (bh, bl) = self.split(b);
        let e = self.mul(ah, bh);
        let e = self.sub(e, p);
        let t = self.mul(ah, bl);
        let e = self.add(e, t);
        let t = self.mul(al, bh);
        let e = self.add(e, t);
        let t = self.mul(al, bl);
        (p, self.add(e, t))
    }

    /// The upper half of the significand by masking, and the rest.
    fn split(&mut self, a: V) -> (V, V) {
        let mask = if self.single() { !0xfff } else { !0x7ff_ffff };
        let bits = self.bits(a);
        let mask = self.i(mask);
        let high = self.integer("arith.andi", &[bits, mask]);
        let high = self.float_of_bits(high);
        (high, self.sub(a, high))
    }

    /// a + b as the sum of two floats (Knuth).
    pub fn two_sum(&mut self, a: V, b: V) -> (V, V) {
        let s = self.add(a, b);
        let bb = self.sub(s, a);
        let aa = self.sub(s, bb);
        let db = self.sub(b, bb);
        let da = self.sub(a, aa);
        (s, self.add(da, db))
    }

    /// The same for |a| ≥ |b| (Dekker).
    pub fn quick_two_sum(&mut self, a: V, b: V) -> (V, V) {
        let s = self.add(a, b);
        let t = self.sub(s, a);
        (s, self.sub(b, t))
    }
}
