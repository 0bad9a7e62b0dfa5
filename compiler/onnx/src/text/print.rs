//! Prints a graph as ONNX text. Types stand with inputs and outputs, and in comments after each node;
//! weights larger than a few elements are only hinted at, unless asked for.

use std::fmt::Write;

use oaaxc_ir::graph::{Attribute, BlockId};
use oaaxc_ir::{Graph, Node, Tensor, Type, ValueId};

/// A graph as text. Constants of more than `elements` elements are written without their elements,
/// so such a text reads well but does not parse.
pub fn print(graph: &Graph, elements: usize) -> String {
    let mut p = Printer { graph, elements, out: String::new() };
    let opset = oaaxc_ops::schema::NEWEST_OPSET;
    let mut domains: Vec<&str> = graph.listed_nodes().iter().map(|n| graph.nodes[*n].op.domain).collect();
    domains.sort_unstable();
    domains.dedup();
    let others = domains.iter().filter(|d| !d.is_empty()).map(|d| {
        let versions = graph.listed_nodes().into_iter().filter(|n| *graph.nodes[*n].op.domain == **d);
        format!(", {}: {}", quote(d.as_bytes()), versions.map(|n| graph.nodes[n].opset).max().unwrap_or(1))
    });
    let others: String = others.collect();
    let _ = writeln!(
        p.out,
        "<ir_version: 10, opset_import: [\"\": {opset}{others}], metadata_props: [\"oaaxc.form\": \"internal\"]>"
    );
    let name = if graph.name.is_empty() { "main" } else { &graph.name };
    p.block(graph.root, &identifier(name), 0);
    p.out
}

struct Printer<'a> {
    graph: &'a Graph,
    elements: usize,
    out: String,
}

impl Printer<'_> {
    fn block(&mut self, block: BlockId, name: &str, depth: usize) {
        let graph = self.graph;
        let contents = &graph.blocks[block];
        let typed = |v: &ValueId| format!("{} {}", self.type_text(&graph.values[*v].fact.ty), self.name(*v));
        let inputs: Vec<String> = contents.inputs.iter().map(typed).collect();
        let outputs: Vec<String> = contents.outputs.iter().map(typed).collect();
        let _ = write!(self.out, "{name} ({}) => ({})", inputs.join(", "), outputs.join(", "));
        if depth == 0 {
            let constants = self.constants();
            if !constants.is_empty() {
                let _ = write!(self.out, "\n<\n  {}\n>", constants.join(",\n  "));
            }
        }
        self.out.push_str(" {\n");
        for &node in &contents.nodes {
            self.node(&graph.nodes[node], depth + 1);
        }
        let _ = write!(self.out, "{}}}", "  ".repeat(depth));
        if depth == 0 {
            self.out.push('\n');
        }
    }

    /// The constants that some node or output uses, in order of their first use.
    fn constants(&self) -> Vec<String> {
        let graph = self.graph;
        let mut used = Vec::new();
        for node in graph.listed_nodes() {
            used.extend(graph.nodes[node].inputs.iter().flatten().copied());
            for block in &graph.nodes[node].blocks {
                used.extend(graph.blocks[*block].outputs.iter().copied());
            }
        }
        used.extend(graph.root().outputs.iter().copied());
        let mut seen = std::collections::BTreeSet::new();
        used.retain(|v| seen.insert(*v));
        used.into_iter().filter_map(|v| graph.constant(v).map(|t| self.constant(v, t))).collect()
    }

    fn constant(&self, value: ValueId, tensor: &Tensor) -> String {
        let dims: Vec<String> = tensor.dims.iter().map(ToString::to_string).collect();
        let dims = if dims.is_empty() { String::new() } else { format!("[{}]", dims.join(",")) };
        format!("{}{dims} {} = {}", tensor.dtype, self.name(value), self.data(tensor))
    }

    fn data(&self, tensor: &Tensor) -> String {
        if tensor.len() > self.elements {
            return match tensor.as_splat() {
                Some(value) => format!("{{…}} # {} times {:?}\n", tensor.len(), value.as_f64()),
                None => format!("{{…}} # {} elements\n", tensor.len()),
            };
        }
        let element = |i: usize| {
            if tensor.dtype == oaaxc_ir::DType::String {
                quote(tensor.string_at(i))
            } else if tensor.dtype == oaaxc_ir::DType::F32 {
                number(f64::from(tensor.f64_at(i) as f32), |v| format!("{:?}", v as f32))
            } else if tensor.dtype.is_float() {
                number(tensor.f64_at(i), |v| format!("{v:?}"))
            } else {
                tensor.i64_at(i).to_string()
            }
        };
        if tensor.dtype.is_complex() {
            return "{…}".to_string();
        }
        format!("{{{}}}", (0..tensor.len()).map(element).collect::<Vec<_>>().join(", "))
    }

    fn node(&mut self, node: &Node, depth: usize) {
        let graph = self.graph;
        let indent = "  ".repeat(depth);
        self.out.push_str(&indent);
        if !node.origin.node.is_empty() {
            let _ = write!(self.out, "[{}] ", quote(node.origin.node.as_bytes()));
        }
        let outputs: Vec<String> = node.outputs.iter().map(|v| v.map_or("\"\"".to_string(), |v| self.name(v))).collect();
        let _ = write!(self.out, "{} = {}", outputs.join(", "), node.op.full_name());
        if !node.attributes.is_empty() || !node.blocks.is_empty() {
            self.out.push_str(" <");
            let mut first = true;
            for (name, attribute) in &node.attributes {
                if !std::mem::take(&mut first) {
                    self.out.push_str(", ");
                }
                let text = self.attribute(attribute);
                let _ = write!(self.out, "{name}{text}");
            }
            let names = oaaxc_ops::control::bodies(node.op).map_or(&[][..], |b| b.attributes);
            for (i, &block) in node.blocks.iter().enumerate() {
                if !std::mem::take(&mut first) {
                    self.out.push_str(", ");
                }
                let _ = write!(self.out, "{}: graph = ", names.get(i).copied().unwrap_or("body"));
                self.block(block, &format!("b{}", block.0), depth);
            }
            self.out.push('>');
        }
        let inputs: Vec<String> = node.inputs.iter().map(|v| v.map_or("\"\"".to_string(), |v| self.name(v))).collect();
        let _ = write!(self.out, " ({})", inputs.join(", "));
        let facts: Vec<String> = node
            .outputs
            .iter()
            .flatten()
            .map(|v| {
                let fact = &graph.values[*v].fact;
                let known = fact.known.as_ref().map_or(String::new(), |k| {
                    format!(" = {{{}}}", k.iter().map(|e| graph.symbols.show(e)).collect::<Vec<_>>().join(", "))
                });
                graph.symbols.show_type(&fact.ty).replace('\n', " ") + &known.replace('\n', " ")
            })
            .collect();
        let _ = writeln!(self.out, " # {}", facts.join("; "));
    }

    fn attribute(&self, attribute: &Attribute) -> String {
        let list = |items: Vec<String>| format!("[{}]", items.join(", "));
        let float = |v: &f32| number(f64::from(*v), |v| format!("{:?}", v as f32));
        match attribute {
            Attribute::Int(v) => format!(": int = {v}"),
            Attribute::Float(v) => format!(": float = {}", float(v)),
            Attribute::Text(v) => format!(": string = {}", quote(v)),
            Attribute::Ints(v) => format!(": ints = {}", list(v.iter().map(ToString::to_string).collect())),
            Attribute::Floats(v) => format!(": floats = {}", list(v.iter().map(float).collect())),
            Attribute::Texts(v) => format!(": strings = {}", list(v.iter().map(|t| quote(t)).collect())),
            Attribute::Type(ty) => format!(": type_proto = {}", self.type_text(ty)),
            Attribute::Tensor(t) => {
                let dims: Vec<String> = t.dims.iter().map(ToString::to_string).collect();
                let dims = if dims.is_empty() { String::new() } else { format!("[{}]", dims.join(",")) };
                format!(": tensor = {}{dims} {}", t.dtype, self.data(t))
            }
        }
    }

    /// A type that parses: sizes that are no names or numbers stand as quoted names.
    fn type_text(&self, ty: &Type) -> String {
        match ty {
            Type::Tensor(t) => {
                let Some(shape) = &t.shape else { return format!("{}[]", t.dtype) };
                if shape.is_empty() {
                    return t.dtype.to_string();
                }
                let dim = |e: &oaaxc_ir::Expr| match e.as_const() {
                    Some(value) => value.to_string(),
                    None => identifier(&self.graph.symbols.show(e)),
                };
                format!("{}[{}]", t.dtype, shape.iter().map(dim).collect::<Vec<_>>().join(","))
            }
            Type::Sequence(inner) => format!("seq({})", self.type_text(inner)),
            Type::Optional(inner) => format!("optional({})", self.type_text(inner)),
            Type::Map(key, value) => format!("map({key}, {})", self.type_text(value)),
        }
    }

    fn name(&self, value: ValueId) -> String {
        identifier(&self.graph.values[value].name)
    }
}

fn number(value: f64, finite: impl Fn(f64) -> String) -> String {
    match value {
        v if v.is_nan() => "nan".to_string(),
        v if v.is_infinite() => if v > 0.0 { "inf" } else { "-inf" }.to_string(),
        v => finite(v),
    }
}

/// A name as it is where the language allows, quoted where not.
fn identifier(name: &str) -> String {
    let mut chars = name.chars();
    let plain =
        chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_') && chars.all(|c| c.is_ascii_alphanumeric() || c == '_');
    let reserved = oaaxc_ir::DType::from_name(name).is_some() || ["seq", "optional", "map"].contains(&name);
    if plain && !reserved { name.to_string() } else { quote(name.as_bytes()) }
}

fn quote(bytes: &[u8]) -> String {
    let mut out = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                '\r' => out.push_str("\\r"),
                c => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out.push('"');
    out
}
