//! Declared types: TypeProto → Type. Dims of inputs become symbols of the graph.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use oaaxc_base::{Code, Diagnostic};
use oaaxc_ir::{Expr, Symbols, Type};

use crate::limits;
use crate::messages::{TensorShapeProto, TypeProto};
use crate::tensor::{dtype_of, show};

type Result<T> = std::result::Result<T, Diagnostic>;

/// What the caller says of sizes.
pub(crate) struct Sizes<'a> {
    /// Numbers for symbols.
    pub dims: &'a BTreeMap<String, i64>,
    /// Ranges for symbols.
    pub ranges: &'a BTreeMap<String, (i64, i64)>,
    /// Collects the symbols that inputs name.
    pub seen: &'a RefCell<BTreeSet<String>>,
}

/// The type of an input called `name`. A named dim is a symbol; a dim without a name gets one of its own.
pub(crate) fn input_type(proto: &TypeProto, name: &str, symbols: &mut Symbols, sizes: &Sizes) -> Result<Type> {
    build(proto, name, 0, &mut |shape, tensor, inside| {
        let Some(shape) = shape else { return Ok(None) };
        if shape.dim.len() > limits::RANK {
            let message = format!("input \"{tensor}\" has {} dims, more than {}", shape.dim.len(), limits::RANK);
            return Err(Diagnostic::error(Code::LIMIT, message));
        }
        let mut dims = Vec::new();
        for (d, dim) in shape.dim.iter().enumerate() {
            let param = dim.dim_param.as_ref().map(|p| show(p)).filter(|p| !p.is_empty() && p != "?");
            dims.push(match (dim.dim_value, param) {
                (Some(value), _) if value >= 0 => Expr::constant(value),
                // Elements of sequences may differ in shape: whoever takes one out gets sizes of its own.
                _ if inside => Expr::sym(symbols.fresh("element")),
                (_, Some(param)) => symbol(&param, symbols, sizes),
                _ => unnamed(&format!("{tensor}_d{d}"), symbols, sizes),
            });
        }
        Ok(Some(dims))
    })
}

/// The type that a file declares where no symbols are wanted: dims are dropped.
pub(crate) fn claimed_type(proto: &TypeProto, name: &str) -> Result<Type> {
    build(proto, name, 0, &mut |_, _, _| Ok(None))
}

/// A dim without a name: a symbol that no other dim shares.
pub(crate) fn unnamed(name: &str, symbols: &mut Symbols, sizes: &Sizes) -> Expr {
    let mut name = name.to_string();
    while symbols.find(&name).is_some() {
        name.push('_');
    }
    symbol(&name, symbols, sizes)
}

fn symbol(name: &str, symbols: &mut Symbols, sizes: &Sizes) -> Expr {
    sizes.seen.borrow_mut().insert(name.to_string());
    if let Some(value) = sizes.dims.get(name) {
        return Expr::constant(*value);
    }
    let id = symbols.named(name);
    if let Some((min, max)) = sizes.ranges.get(name) {
        symbols.table[id].min = *min;
        symbols.table[id].max = *max;
    }
    Expr::sym(id)
}

/// The sizes of a declared shape; also told the name and whether it is inside a sequence, an optional or a map.
type ShapeOf<'a> = dyn FnMut(Option<&TensorShapeProto>, &str, bool) -> Result<Option<Vec<Expr>>> + 'a;

fn build(proto: &TypeProto, name: &str, depth: usize, shape: &mut ShapeOf) -> Result<Type> {
    if depth > 8 {
        return Err(Diagnostic::error(Code::LIMIT, format!("the type of \"{name}\" is nested deeper than 8")));
    }
    let lacking = |what: &str| Diagnostic::error(Code::TYPE, format!("the type of \"{name}\" {what}"));
    if let Some(tensor) = &proto.tensor_type {
        let dtype = dtype_of(tensor.elem_type, &format!("\"{name}\""))?;
        return Ok(Type::Tensor(oaaxc_ir::TensorType { dtype, shape: shape(tensor.shape.as_ref(), name, depth > 0)? }));
    }
    let mut inner = |element: Option<&TypeProto>| -> Result<Box<Type>> {
        let element = element.ok_or_else(|| lacking("lacks its element type"))?;
        Ok(Box::new(build(element, name, depth + 1, shape)?))
    };
    if let Some(sequence) = &proto.sequence_type {
        return Ok(Type::Sequence(inner(sequence.elem_type.as_deref())?));
    }
    if let Some(optional) = &proto.optional_type {
        return Ok(Type::Optional(inner(optional.elem_type.as_deref())?));
    }
    if let Some(map) = &proto.map_type {
        let key = dtype_of(map.key_type, &format!("the key of \"{name}\""))?;
        return Ok(Type::Map(key, inner(map.value_type.as_deref())?));
    }
    if proto.sparse_tensor_type.is_some() {
        return Err(lacking("is a sparse tensor, which is only supported as a constant"));
    }
    Err(lacking("is not given"))
}

/// The type in the spelling of ONNX's schemas: `seq(tensor(float))`.
pub(crate) fn schema_text(ty: &Type) -> String {
    match ty {
        Type::Tensor(t) => format!("tensor({})", t.dtype),
        Type::Sequence(inner) => format!("seq({})", schema_text(inner)),
        Type::Optional(inner) => format!("optional({})", schema_text(inner)),
        Type::Map(key, value) => format!("map({key},{})", schema_text(value)),
    }
}
