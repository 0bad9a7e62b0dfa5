//! The shape of ONNX's operator facts and the look-ups over them.
//!
//! The facts themselves stand in the generated `schema` and `functions`. A look-up answers what a
//! version says; it never guesses: an operator or opset that ONNX does not know is `None`.
//! The newest opset is `schema::NEWEST_OPSET`: a caller that must refuse newer ones compares first.

use crate::functions::{BY_CONTEXT, FUNCTIONS};
use crate::schema::SCHEMAS;

/// `max_inputs` or `max_outputs` of an operator that ends in a variadic parameter.
pub const UNBOUNDED: u32 = u32::MAX;

/// One operator with all its versions.
#[derive(Debug)]
pub struct OperatorSchema {
    /// `""` is `ai.onnx`.
    pub domain: &'static str,
    /// ONNX's name of the operator (`op_type`).
    pub name: &'static str,
    /// Ascending in `since_version`, never empty.
    pub versions: &'static [SchemaVersion],
}

/// What one version of an operator accepts and gives.
#[derive(Debug)]
pub struct SchemaVersion {
    /// The first opset of the domain in which this version holds.
    pub since_version: i64,
    /// From this version on, the operator may no longer be used.
    pub deprecated: bool,
    /// The result is drawn at random (ONNX's `NonDeterministic`).
    pub random: bool,
    /// Least number of inputs of a node; optional ones may be empty names.
    pub min_inputs: u32,
    /// Greatest number of inputs, or [`UNBOUNDED`].
    pub max_inputs: u32,
    /// Least number of outputs.
    pub min_outputs: u32,
    /// Greatest number of outputs, or [`UNBOUNDED`].
    pub max_outputs: u32,
    /// In order; only the last may be variadic.
    pub inputs: &'static [Parameter],
    /// In order; only the last may be variadic.
    pub outputs: &'static [Parameter],
    /// Sorted by name.
    pub attributes: &'static [Attribute],
    /// Whether ONNX gives the operator as a function of others.
    pub function: FunctionKind,
}

/// A formal input or output.
#[derive(Debug)]
pub struct Parameter {
    /// ONNX's name of the parameter.
    pub name: &'static str,
    /// The type parameter (`"T"`), or a type (`"tensor(int64)"`). Parameters of one type parameter
    /// have the same type in a node, unless they are variadic and not `homogeneous`.
    pub type_name: &'static str,
    /// Whether it may be left out or repeated.
    pub option: ParameterOption,
    /// For a variadic parameter: all its values have one type.
    pub homogeneous: bool,
    /// For a variadic parameter: how many values it has at least.
    pub min_arity: u32,
    /// The allowed types in ONNX's spelling (`"tensor(float)"`), sorted.
    pub types: &'static [&'static str],
}

/// Whether a parameter may be left out or repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterOption {
    /// Exactly one value.
    Single,
    /// One value or none.
    Optional,
    /// `min_arity` values or more.
    Variadic,
}

/// A formal attribute.
#[derive(Debug)]
pub struct Attribute {
    /// ONNX's name of the attribute.
    pub name: &'static str,
    /// The only kind that a node may give.
    pub kind: AttributeKind,
    /// A node must give it.
    pub required: bool,
    /// What an absent attribute means; `None` where the operator's text says it in words.
    pub default: Option<DefaultValue>,
}

/// The kinds of `AttributeProto`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "each is ONNX's kind of the same name; Text is STRING")]
pub enum AttributeKind {
    Int,
    Float,
    Text,
    Tensor,
    Graph,
    SparseTensor,
    TypeProto,
    Ints,
    Floats,
    Texts,
    Tensors,
    Graphs,
    SparseTensors,
    TypeProtos,
}

/// The value that an absent attribute has.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs, reason = "each holds the value of the kind that names it")]
pub enum DefaultValue {
    Int(i64),
    Float(f32),
    Text(&'static str),
    Ints(&'static [i64]),
    Floats(&'static [f32]),
    Texts(&'static [&'static str]),
}

/// Whether ONNX defines an operator through others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FunctionKind {
    /// A primitive.
    Absent,
    /// One body for all nodes: see [`function_body`].
    Fixed,
    /// ONNX builds the body from a node's types and attributes; we have no text of it.
    ByContext,
}

/// A function body that is the same for every node.
#[derive(Debug)]
pub struct FunctionBody {
    /// Domain of the operator; `""` is `ai.onnx`.
    pub domain: &'static str,
    /// The operator.
    pub name: &'static str,
    /// The version of the operator that the body defines.
    pub since_version: i64,
    /// The opset of `domain` under which the body's nodes are read. It may be newer than
    /// `since_version`, and the text's own `opset_import` says the same.
    pub body_opset: i64,
    /// ONNX text of the function: opset imports, signature, nodes.
    pub text: &'static str,
}

impl OperatorSchema {
    /// The version in force under `opset`: the newest one not newer than it.
    pub fn version_at(&self, opset: i64) -> Option<&'static SchemaVersion> {
        let n = self.versions.partition_point(|version| version.since_version <= opset);
        self.versions[..n].last()
    }
}

impl SchemaVersion {
    /// The attribute called `name`.
    pub fn attribute(&self, name: &str) -> Option<&'static Attribute> {
        let found = self.attributes.binary_search_by(|attribute| attribute.name.cmp(name)).ok()?;
        Some(&self.attributes[found])
    }

    /// The formal input behind a node's input number `index`; a variadic one stands for all after it.
    pub fn input(&self, index: usize) -> Option<&'static Parameter> {
        formal(self.inputs, index)
    }

    /// The formal output behind a node's output number `index`.
    pub fn output(&self, index: usize) -> Option<&'static Parameter> {
        formal(self.outputs, index)
    }
}

fn formal(parameters: &'static [Parameter], index: usize) -> Option<&'static Parameter> {
    parameters.get(index).or_else(|| parameters.last().filter(|last| last.option == ParameterOption::Variadic))
}

fn internal_domain(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// The operator called `name`, in any version; `""` and `"ai.onnx"` are one domain.
pub fn operator(domain: &str, name: &str) -> Option<&'static OperatorSchema> {
    let wanted = (internal_domain(domain), name);
    let found = SCHEMAS.binary_search_by(|schema| (schema.domain, schema.name).cmp(&wanted)).ok()?;
    Some(&SCHEMAS[found])
}

/// What `name` means in a model that imports `opset` of `domain`. It may be `deprecated`.
pub fn lookup(domain: &str, name: &str, opset: i64) -> Option<&'static SchemaVersion> {
    operator(domain, name)?.version_at(opset)
}

/// The fixed body of the version in force under `opset`: the newest one whose `body_opset` is not
/// newer than `opset`, else the oldest (ONNX writes some bodies of old versions in newer operators).
pub fn function_body(domain: &str, name: &str, opset: i64) -> Option<&'static FunctionBody> {
    let version = lookup(domain, name, opset)?;
    let wanted = (internal_domain(domain), name, version.since_version);
    let first = FUNCTIONS.partition_point(|f| (f.domain, f.name, f.since_version) < wanted);
    let bodies = FUNCTIONS[first..].iter().take_while(|f| (f.domain, f.name, f.since_version) == wanted);
    let mut best = None;
    for body in bodies {
        if best.is_none() || body.body_opset <= opset {
            best = Some(body);
        }
    }
    best
}

/// Whether the version in force under `opset` is a function that ONNX builds for each node.
pub fn is_built_by_context(domain: &str, name: &str, opset: i64) -> bool {
    let Some(version) = lookup(domain, name, opset) else {
        return false;
    };
    BY_CONTEXT.contains(&(internal_domain(domain), name, version.since_version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_in_force_is_the_newest_not_after_the_opset() {
        let at = |opset| lookup("", "Softmax", opset).map(|version| version.since_version);
        assert_eq!(
            [at(0), at(1), at(10), at(11), at(12), at(13), at(28)],
            [None, Some(1), Some(1), Some(11), Some(11), Some(13), Some(13)]
        );
        assert!(lookup("ai.onnx", "Softmax", 13).is_some());
        assert!(lookup("", "Softmacks", 13).is_none());
    }

    #[test]
    fn tables_are_sorted_so_that_binary_search_finds_each_row() {
        for schema in SCHEMAS {
            assert!(std::ptr::eq(operator(schema.domain, schema.name).expect("own row"), schema));
            assert!(schema.versions.is_sorted_by(|a, b| a.since_version < b.since_version));
            for version in schema.versions {
                for attribute in version.attributes {
                    assert!(version.attribute(attribute.name).is_some());
                }
            }
        }
    }

    #[test]
    fn every_fixed_function_has_a_body() {
        for schema in SCHEMAS {
            for version in schema.versions {
                let body = function_body(schema.domain, schema.name, version.since_version);
                assert_eq!(body.is_some(), version.function == FunctionKind::Fixed, "{}", schema.name);
                assert_eq!(
                    is_built_by_context(schema.domain, schema.name, version.since_version),
                    version.function == FunctionKind::ByContext
                );
            }
        }
    }

    #[test]
    fn defaults_and_variadic_inputs_come_through() {
        let conv = lookup("", "Conv", 22).expect("Conv-22");
        assert_eq!(conv.attribute("group").expect("group").default, Some(DefaultValue::Int(1)));
        assert_eq!(conv.attribute("pads").expect("pads").default, None);
        let selu = lookup("", "Selu", 6).expect("Selu-6");
        assert_eq!(selu.attribute("alpha").expect("alpha").default, Some(DefaultValue::Float(1.673_263_2)));
        let concat = lookup("", "Concat", 13).expect("Concat-13");
        assert_eq!(concat.max_inputs, UNBOUNDED);
        assert_eq!(concat.input(7).expect("variadic").name, "inputs");
    }
}
