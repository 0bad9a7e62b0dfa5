//! Expressions over 64-bit registers: the postfix code, its one evaluator, and the tree that the
//! compiler writes.
//!
//! Promises: arithmetic is checked (overflow, division by zero and a float outside i64 are
//! [`Fault`]s, never wrapped values); the evaluator needs no memory beyond a fixed stack; what
//! [`check_code`] accepts can only fail by a `Fault`. Runtime and compiler use this same function.

use crate::ids::Reg;
use alloc::{boxed::Box, vec::Vec};

/// The deepest operand stack that an expression may need.
pub const MAX_STACK: usize = 32;

/// What one operator computes. Float operators work on the bits of an `f64` held in a register.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u32)]
#[rustfmt::skip] // one line per operator
pub enum Operator {
    /// a + b
    Add = 2,
    /// a - b
    Sub = 3,
    /// a × b
    Mul = 4,
    /// ⌊a / b⌋, rounding towards minus infinity
    FloorDiv = 5,
    /// ⌈a / b⌉, rounding towards plus infinity
    CeilDiv = 6,
    /// a - b × ⌊a / b⌋: has the sign of b
    FloorMod = 7,
    /// the smaller one
    Min = 8,
    /// the larger one
    Max = 9,
    /// condition, then, else: `then` if the condition is not 0 (both are evaluated)
    Select = 10,
    /// 1 if a = b, else 0
    Eq = 11,
    /// 1 if a < b, else 0
    Lt = 12,
    /// 1 if a ≤ b, else 0
    Le = 13,
    /// 1 if both are not 0
    And = 14,
    /// 1 if one is not 0
    Or = 15,
    /// 1 if a = 0
    Not = 16,
    /// the f64 nearest to an integer
    FloatFromInt = 17,
    /// f64 sum
    FloatAdd = 18,
    /// f64 difference
    FloatSub = 19,
    /// f64 product
    FloatMul = 20,
    /// f64 quotient
    FloatDiv = 21,
    /// rounds to f32 and back: after one of the four above on f32 values this is exact f32 arithmetic
    FloatRound32 = 22,
    /// 1 if a < b as f64
    FloatLt = 23,
    /// ⌊a⌋ as an integer
    FloatFloor = 24,
    /// ⌈a⌉ as an integer
    FloatCeil = 25,
    /// a without its fraction as an integer
    FloatTrunc = 26,
}

impl Operator {
    /// The operator with wire number `number`.
    pub fn from_number(number: u32) -> Option<Operator> {
        use Operator::*;
        const ALL: [Operator; 25] = [
            Add,
            Sub,
            Mul,
            FloorDiv,
            CeilDiv,
            FloorMod,
            Min,
            Max,
            Select,
            Eq,
            Lt,
            Le,
            And,
            Or,
            Not,
            FloatFromInt,
            FloatAdd,
            FloatSub,
            FloatMul,
            FloatDiv,
            FloatRound32,
            FloatLt,
            FloatFloor,
            FloatCeil,
            FloatTrunc,
        ];
        ALL.get((number as usize).checked_sub(2)?).copied()
    }

    /// How many operands it takes.
    pub fn arity(self) -> usize {
        use Operator::*;
        match self {
            Select => 3,
            Not | FloatFromInt | FloatRound32 | FloatFloor | FloatCeil | FloatTrunc => 1,
            _ => 2,
        }
    }
}

/// One word of postfix code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Code {
    /// Pushes a number.
    Const(i64),
    /// Pushes a register.
    Reg(Reg),
    /// Takes its operands from the stack (the last pushed is the last operand) and pushes a result.
    Op(Operator),
}

/// Why an expression has no value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The result does not fit 64 bits.
    Overflow,
    /// Division or remainder by zero.
    DivisionByZero,
    /// A float that is no number or lies outside i64.
    NotAnInteger,
    /// Code that [`check_code`] would have refused.
    BadCode,
}

impl core::fmt::Display for Fault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Fault::Overflow => "a size does not fit 64 bits",
            Fault::DivisionByZero => "a size is divided by zero",
            Fault::NotAnInteger => "a float that should give a size is not a 64-bit integer",
            Fault::BadCode => "an expression is malformed",
        })
    }
}

/// Evaluates postfix code over `registers`.
pub fn eval(code: &[Code], registers: &[i64]) -> Result<i64, Fault> {
    let leaf = |word: Code| match word {
        Code::Const(value) => Some(value),
        Code::Reg(reg) => registers.get(reg.index()).copied(),
        Code::Op(_) => None,
    };
    // The two forms that nearly all expressions have need no stack.
    match *code {
        [word] => return leaf(word).ok_or(Fault::BadCode),
        [a, b, Code::Op(op)] if op.arity() == 2 => {
            let (Some(a), Some(b)) = (leaf(a), leaf(b)) else { return Err(Fault::BadCode) };
            return apply(op, &[a, b]);
        }
        _ => {}
    }
    let mut stack = [0i64; MAX_STACK];
    let mut top = 0usize;
    for word in code {
        let value = match *word {
            Code::Const(value) => value,
            Code::Reg(reg) => *registers.get(reg.index()).ok_or(Fault::BadCode)?,
            Code::Op(op) => {
                top = top.checked_sub(op.arity()).ok_or(Fault::BadCode)?;
                let operands = stack.get(top..top + op.arity()).ok_or(Fault::BadCode)?;
                apply(op, operands)?
            }
        };
        *stack.get_mut(top).ok_or(Fault::BadCode)? = value;
        top += 1;
    }
    if top == 1 { Ok(stack[0]) } else { Err(Fault::BadCode) }
}

/// One operator on its operands (as many as its arity).
fn apply(op: Operator, operands: &[i64]) -> Result<i64, Fault> {
    use Operator::*;
    let a = operands[0];
    let b = if operands.len() > 1 { operands[1] } else { 0 };
    let float = |bits: i64| f64::from_bits(bits as u64);
    let bits = |value: f64| value.to_bits() as i64;
    let overflow = Fault::Overflow;
    Ok(match op {
        Add => a.checked_add(b).ok_or(overflow)?,
        Sub => a.checked_sub(b).ok_or(overflow)?,
        Mul => a.checked_mul(b).ok_or(overflow)?,
        FloorDiv => divide(a, b)?.0,
        CeilDiv => {
            let (quotient, rest) = divide(a, b)?;
            quotient + (rest != 0) as i64
        }
        FloorMod => divide(a, b)?.1,
        Min => a.min(b),
        Max => a.max(b),
        Select => {
            if a != 0 {
                b
            } else {
                operands[2]
            }
        }
        Eq => (a == b) as i64,
        Lt => (a < b) as i64,
        Le => (a <= b) as i64,
        And => (a != 0 && b != 0) as i64,
        Or => (a != 0 || b != 0) as i64,
        Not => (a == 0) as i64,
        FloatFromInt => bits(a as f64),
        FloatAdd => bits(float(a) + float(b)),
        FloatSub => bits(float(a) - float(b)),
        FloatMul => bits(float(a) * float(b)),
        FloatDiv => bits(float(a) / float(b)),
        FloatRound32 => bits(float(a) as f32 as f64),
        FloatLt => (float(a) < float(b)) as i64,
        FloatFloor => {
            let (whole, value) = truncate(float(a))?;
            if whole as f64 > value { whole - 1 } else { whole }
        }
        FloatCeil => {
            let (whole, value) = truncate(float(a))?;
            if (whole as f64) < value { whole + 1 } else { whole }
        }
        FloatTrunc => truncate(float(a))?.0,
    })
}

/// Floor quotient and the remainder with the sign of the divisor.
fn divide(a: i64, b: i64) -> Result<(i64, i64), Fault> {
    if b == 0 {
        return Err(Fault::DivisionByZero);
    }
    let quotient = a.checked_div(b).ok_or(Fault::Overflow)?;
    let rest = a - quotient * b;
    match rest != 0 && (rest < 0) != (b < 0) {
        true => Ok((quotient - 1, rest + b)),
        false => Ok((quotient, rest)),
    }
}

/// The whole part of a float that lies inside i64, with the float.
fn truncate(value: f64) -> Result<(i64, f64), Fault> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    match (-LIMIT..LIMIT).contains(&value) {
        true => Ok((value as i64, value)),
        false => Err(Fault::NotAnInteger),
    }
}

/// Whether code leaves exactly one value, stays within [`MAX_STACK`] and reads only the first
/// `registers` registers.
pub fn check_code(code: &[Code], registers: usize) -> Result<(), &'static str> {
    let mut depth = 0usize;
    for word in code {
        match *word {
            Code::Const(_) => {}
            Code::Reg(reg) if reg.index() < registers => {}
            Code::Reg(_) => return Err("reads a register that does not exist"),
            Code::Op(op) => depth = depth.checked_sub(op.arity()).ok_or("lacks an operand")?,
        }
        depth += 1;
        if depth > MAX_STACK {
            return Err("needs too deep a stack");
        }
    }
    if depth == 1 { Ok(()) } else { Err("does not leave exactly one value") }
}

/// An expression as a tree, for whoever builds a program. Constant operands are folded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Expr {
    /// A number.
    Const(i64),
    /// A register (in a kernel's group count and scratch: the kernel's dim of that index).
    Reg(Reg),
    /// An operator on as many operands as its arity.
    Op(Operator, Vec<Expr>),
}

impl Default for Expr {
    fn default() -> Expr {
        Expr::Const(0)
    }
}

impl From<i64> for Expr {
    fn from(value: i64) -> Expr {
        Expr::Const(value)
    }
}

impl From<Reg> for Expr {
    fn from(reg: Reg) -> Expr {
        Expr::Reg(reg)
    }
}

impl Expr {
    /// A kernel's dim `index`, for group counts and scratch sizes.
    pub fn dim(index: u32) -> Expr {
        Expr::Reg(Reg(index))
    }

    /// `op` on `operands`; folded when all are numbers and the result is defined.
    ///
    /// # Panics
    /// If the number of operands is not the operator's arity.
    pub fn op(op: Operator, operands: impl Into<Vec<Expr>>) -> Expr {
        let operands = operands.into();
        assert_eq!(operands.len(), op.arity(), "operand count of {op:?}");
        let mut values = Vec::new();
        for operand in &operands {
            match operand {
                Expr::Const(value) => values.push(*value),
                _ => return Expr::Op(op, operands),
            }
        }
        match apply(op, &values) {
            Ok(value) => Expr::Const(value),
            Err(_) => Expr::Op(op, operands),
        }
    }

    /// The postfix form.
    pub fn code(&self) -> Vec<Code> {
        let mut code = Vec::new();
        self.write(&mut code);
        code
    }

    fn write(&self, code: &mut Vec<Code>) {
        match self {
            Expr::Const(value) => code.push(Code::Const(*value)),
            Expr::Reg(reg) => code.push(Code::Reg(*reg)),
            Expr::Op(op, operands) => {
                operands.iter().for_each(|operand| operand.write(code));
                code.push(Code::Op(*op));
            }
        }
    }
}

macro_rules! methods {
    ($($(#[$meta:meta])* $name:ident = $op:ident;)*) => {
        impl Expr {
            $($(#[$meta])*
            pub fn $name(self, other: impl Into<Expr>) -> Expr {
                Expr::op(Operator::$op, [self, other.into()])
            })*
        }
    };
}

methods! {
    /// self + other
    plus = Add;
    /// self - other
    minus = Sub;
    /// self × other
    times = Mul;
    /// ⌊self / other⌋
    floor_div = FloorDiv;
    /// ⌈self / other⌉
    ceil_div = CeilDiv;
    /// self modulo other, with other's sign
    floor_mod = FloorMod;
    /// the smaller
    least = Min;
    /// the larger
    most = Max;
    /// self = other
    equals = Eq;
    /// self < other
    less = Lt;
    /// self ≤ other
    at_most = Le;
    /// both not 0
    and = And;
    /// one not 0
    or = Or;
}

/// `then` where `condition` is not 0, else `otherwise`; both are evaluated.
pub fn select(condition: Expr, then: impl Into<Expr>, otherwise: impl Into<Expr>) -> Expr {
    Expr::op(Operator::Select, Box::<[Expr]>::from([condition, then.into(), otherwise.into()]).into_vec())
}

/// 1 where `value` is 0, else 0.
pub fn not(value: Expr) -> Expr {
    Expr::op(Operator::Not, [value])
}
