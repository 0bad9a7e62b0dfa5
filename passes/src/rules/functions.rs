//! The functions that conditions and attributes of rules may call: a visible list.
//!
//! A function that cannot answer gives `None`, and the rule does not apply.

use oaaxc_ir::text::cursor::Number;
use oaaxc_ir::{Attribute, DType, Graph, Scalar, ValueId};

use super::matching::Match;
use super::text::{Term, float};

/// What a term is worth.
#[derive(Clone, Debug)]
pub enum Worth {
    /// A value of the graph.
    Value(ValueId),
    /// An attribute, or that it is absent.
    Attribute(Option<Attribute>),
    /// A number.
    Number(Number),
    /// Whether something holds.
    Truth(bool),
}

type Function = fn(&Graph, &[Worth]) -> Option<Worth>;

#[rustfmt::skip] // One function a line.
const FUNCTIONS: &[(&str, Function)] = &[
    ("is", is),
    ("equals", equals),
    ("constant", constant),
    ("floats", floats),
    ("power_of_two", power_of_two),
    ("no_zeros", no_zeros),
    ("stays", stays),
    ("compose", compose),
    ("widens", widens),
    ("per_channel", per_channel),
    ("one_element", one_element),
    ("either", either),
];

/// Computes a term over what a pattern has bound.
pub fn worth(graph: &Graph, found: &Match, term: &Term) -> Option<Worth> {
    Some(match term {
        Term::Value(name) => Worth::Value(*found.values.get(name)?),
        Term::Attribute(name) => Worth::Attribute(found.attributes.get(name)?.clone()),
        Term::Number(number) => Worth::Number(*number),
        Term::Call(name, terms) => {
            let (_, function) = FUNCTIONS.iter().find(|(known, _)| known == name)?;
            let worths: Vec<Worth> = terms.iter().map(|term| worth(graph, found, term)).collect::<Option<_>>()?;
            function(graph, &worths)?
        }
    })
}

/// Whether a condition holds.
pub fn holds(graph: &Graph, found: &Match, term: &Term) -> bool {
    matches!(worth(graph, found, term), Some(Worth::Truth(true)))
}

/// Whether there is such a function.
#[cfg(test)]
pub fn is_known(name: &str) -> bool {
    FUNCTIONS.iter().any(|(known, _)| *known == name)
}

fn truth(holds: bool) -> Option<Worth> {
    Some(Worth::Truth(holds))
}

fn dtype(graph: &Graph, value: ValueId) -> Option<DType> {
    Some(graph.values[value].fact.ty.as_tensor()?.dtype)
}

fn rank(graph: &Graph, value: ValueId) -> Option<usize> {
    Some(graph.values[value].fact.ty.as_tensor()?.shape.as_ref()?.len())
}

/// `is(c, 1)`: a constant all of whose elements are this number in its type, the sign of zero included.
fn is(graph: &Graph, worths: &[Worth]) -> Option<Worth> {
    let [Worth::Value(value), Worth::Number(number)] = worths else { return None };
    let tensor = graph.constant(*value)?;
    if tensor.dtype == DType::String || tensor.dtype.is_complex() {
        return None;
    }
    let wanted = match number {
        Number::Int(v) => Scalar::from_i64(*v),
        Number::Float(v) => Scalar::from_f64(*v),
    };
    let wanted = wanted.cast(tensor.dtype);
    truth(tensor.as_splat().map_or_else(|| tensor.scalars().all(|s| s == wanted), |s| s == wanted))
}

/// `equals(@a, 0)`: an attribute is this integer.
fn equals(_: &Graph, worths: &[Worth]) -> Option<Worth> {
    let [Worth::Attribute(Some(Attribute::Int(found))), Worth::Number(Number::Int(wanted))] = worths else { return None };
    truth(found == wanted)
}

/// `constant(a, b, …)`: all are constants.
fn constant(graph: &Graph, worths: &[Worth]) -> Option<Worth> {
    truth(worths.iter().all(|w| matches!(w, Worth::Value(v) if graph.constant(*v).is_some())))
}

/// `floats(a, b, …)`: all are of type float.
fn floats(graph: &Graph, worths: &[Worth]) -> Option<Worth> {
    truth(worths.iter().all(|w| matches!(w, Worth::Value(v) if dtype(graph, *v) == Some(DType::F32))))
}

/// `power_of_two(c)`: a constant of floats whose reciprocals are normal and exact.
fn power_of_two(graph: &Graph, worths: &[Worth]) -> Option<Worth> {
    let [Worth::Value(value)] = worths else { return None };
    let tensor = graph.constant(*value)?;
    // The exponent of the smallest normal number.
    let least = match tensor.dtype {
        DType::F32 | DType::BF16 => -126,
        DType::F16 => -14,
        DType::F64 => -1022,
        _ => return None,
    };
    let is_power = |v: f64| v.is_normal() && v.to_bits() << 12 == 0;
    let reciprocal = |v: f64| Scalar::from_f64(1.0 / v).cast(tensor.dtype).as_f64();
    truth(tensor.scalars().all(|s| {
        let v = s.as_f64();
        is_power(v) && reciprocal(v) == 1.0 / v && 2f64.powi(least) <= (1.0 / v).abs()
    }))
}

/// `no_zeros(s)`: the elements are known numbers other than 0.
fn no_zeros(graph: &Graph, worths: &[Worth]) -> Option<Worth> {
    let [Worth::Value(value)] = worths else { return None };
    let known = graph.values[*value].fact.known.as_ref()?;
    truth(known.iter().all(|e| e.as_const().is_some_and(|v| v != 0)))
}

/// A permutation of the axes of `x`; absent it turns them round.
fn permutation(graph: &Graph, attribute: &Option<Attribute>, x: ValueId) -> Option<Vec<usize>> {
    let rank = rank(graph, x)?;
    match attribute {
        None => Some((0..rank).rev().collect()),
        Some(Attribute::Ints(axes)) if axes.len() == rank => {
            axes.iter().map(|&axis| usize::try_from(axis).ok().filter(|a| *a < rank)).collect()
        }
        Some(_) => None,
    }
}

/// `stays(@p, x)`: the permutation moves no axis.
fn stays(graph: &Graph, worths: &[Worth]) -> Option<Worth> {
    let [Worth::Attribute(p), Worth::Value(x)] = worths else { return None };
    truth(permutation(graph, p, *x)?.iter().enumerate().all(|(i, axis)| i == *axis))
}

/// `compose(@p, @q, x)`: the permutation that does first p, then q.
fn compose(graph: &Graph, worths: &[Worth]) -> Option<Worth> {
    let [Worth::Attribute(p), Worth::Attribute(q), Worth::Value(x)] = worths else { return None };
    let (p, q) = (permutation(graph, p, *x)?, permutation(graph, q, *x)?);
    Some(Worth::Attribute(Some(Attribute::Ints(q.iter().map(|&axis| p[axis] as i64).collect()))))
}

/// `widens(x, @u, @t)`: a cast of x to u and then to t is the cast of x to t.
///
/// True where u holds every value of x and the second cast reads that value as the first would: integers wrap and
/// floats saturate on their way to a smaller integer, so an integer that passes a float must not end as an integer.
fn widens(graph: &Graph, worths: &[Worth]) -> Option<Worth> {
    let [Worth::Value(x), Worth::Attribute(Some(Attribute::Int(u))), Worth::Attribute(Some(Attribute::Int(t)))] = worths else {
        return None;
    };
    let x = dtype(graph, *x)?;
    let (u, t) = (DType::from_onnx(i32::try_from(*u).ok()?)?, DType::from_onnx(i32::try_from(*t).ok()?)?);
    let is_plain = |d: DType| (d.is_float() && !d.is_narrow_float()) || d.is_integer() || d == DType::Bool;
    if ![x, u, t].into_iter().all(is_plain) {
        return None;
    }
    let range = |d: DType| if d == DType::Bool { Some((0, 1)) } else { d.integer_range() };
    truth(match (range(x), range(u)) {
        (Some(_), None) if x == DType::Bool => true,
        (Some((low, high)), Some((least, most))) => u != DType::Bool && least <= low && high <= most || x == u,
        // The integers up to two to the digits are floats.
        (Some((low, high)), None) => t.is_float() && -(1i128 << digits(u)) <= low && high <= 1i128 << digits(u),
        (None, Some(_)) => false,
        (None, None) => x == u || u == DType::F64 || (u == DType::F32 && x != DType::F64),
    })
}

/// Binary digits of a float's significand.
fn digits(dtype: DType) -> u32 {
    match dtype {
        DType::F64 => 53,
        DType::F32 => 24,
        DType::F16 => 11,
        _ => 8,
    }
}

/// `per_channel(c, w)`: a constant with one element for each filter of `w`, along axis 1 of the convolution's result.
fn per_channel(graph: &Graph, worths: &[Worth]) -> Option<Worth> {
    let [Worth::Value(c), Worth::Value(w)] = worths else { return None };
    let (c, w) = (graph.constant(*c)?, graph.constant(*w)?);
    let rank = w.rank();
    if rank < 2 || c.rank() > rank {
        return truth(false);
    }
    let mut dims = vec![1; rank - c.rank()];
    dims.extend(&c.dims);
    truth(dims.iter().enumerate().all(|(axis, &d)| d == if axis == 1 { w.dims[0] } else { 1 }))
}

/// `one_element(c, w)`: a constant of one element and no more dims than `w`.
fn one_element(graph: &Graph, worths: &[Worth]) -> Option<Worth> {
    let [Worth::Value(c), Worth::Value(w)] = worths else { return None };
    let c = graph.constant(*c)?;
    truth(c.len() == 1 && c.rank() <= rank(graph, *w)?)
}

/// `either(a, b)`: one of two conditions.
fn either(_: &Graph, worths: &[Worth]) -> Option<Worth> {
    truth(worths.iter().any(|w| matches!(w, Worth::Truth(true))))
}

/// An attribute or a number as an element of a constant.
pub fn element(worth: &Worth) -> Option<Scalar> {
    match worth {
        Worth::Number(Number::Int(v)) => Some(Scalar::from_i64(*v)),
        Worth::Number(number) => Some(Scalar::from_f64(float(*number))),
        Worth::Attribute(Some(Attribute::Int(v))) => Some(Scalar::from_i64(*v)),
        Worth::Attribute(Some(Attribute::Float(v))) => Some(Scalar::from_f32(*v)),
        _ => None,
    }
}
