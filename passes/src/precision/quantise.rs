//! Eight bits: contractions by constant weights become exact int32 sums of integers, scaled in f32 behind the sum.
//!
//! Weights have one symmetric scale for each output channel; activations one scale and zero point for the tensor, by
//! a measured range, or by the run's own numbers where `dynamic`. Scales, bias and whatever follows are f32 work that
//! fusion moves behind the sum, the next quantisation included. Residual sums, pools and every other node between
//! contractions stay in f32: only what a contraction multiplies is eight bits. Sums of few products (depthwise
//! windows) stay in floats: they have the least to win and the most to lose.

use std::collections::BTreeMap;

use oaaxc_base::Diagnostic;
use oaaxc_ir::edit::NewNode;
use oaaxc_ir::graph::Attributes;
use oaaxc_ir::{DType, Graph, NodeId, Scalar, Tensor, ValueId};
use oaaxc_ops::precision::{Contraction, Kind, gemm, groups, kind};

use super::observe::parameters;
use super::{Range, Role, Row, add_constant, cast_to, dtype, has_rank, label, name_of, new_node, only_result, standard};

/// Sums of fewer products stay in floats.
const FEWEST_PRODUCTS: usize = 8;

/// How the integers of activations are chosen.
pub struct Request<'a> {
    /// The range of an activation, and the error that eight bits make to it.
    pub range: &'a dyn Fn(ValueId) -> Option<(Range, f64)>,
    /// Whether a contraction is to be quantised; the error is the reason why not.
    pub wanted: &'a dyn Fn(NodeId) -> Result<(), String>,
    /// Scales of activations are found by each run.
    pub dynamic: bool,
    /// The new results stand beside the old ones, which everybody goes on reading: to compare both.
    pub beside: bool,
}

/// What was done.
#[derive(Default)]
pub struct Quantised {
    /// The table.
    pub rows: Vec<Row>,
    /// The contractions, with the result before and the one that stands for it.
    pub pairs: Vec<(NodeId, ValueId, ValueId)>,
}

/// A contraction that has an integer form.
struct Candidate {
    x: ValueId,
    weights: ValueId,
    /// As the integer operator takes it, with one scale for each channel.
    quantised: Tensor,
    scales: Vec<f32>,
    error: f64,
    /// Behind the scaled sum.
    bias: Option<ValueId>,
    form: Contraction,
    rank: usize,
}

/// Quantises what may be.
pub fn quantise(graph: &mut Graph, request: &Request) -> Result<Quantised, Diagnostic> {
    let mut done = Quantised::default();
    let mut activations: BTreeMap<ValueId, Quant> = BTreeMap::new();
    for id in graph.root().nodes.clone() {
        let Kind::Contraction(form) = kind(graph.nodes[id].op) else { continue };
        let weights = graph.nodes[id].inputs.get(1).copied().flatten();
        let found = candidate(graph, id, form).and_then(|c| {
            (request.wanted)(id)?;
            match request.dynamic || (request.range)(c.x).is_some() {
                true => Ok(c),
                false => Err("its input was not measured, or is not finite".into()),
            }
        });
        match found {
            Ok(c) => one(graph, id, c, request, &mut activations, &mut done)?,
            Err(reason) => {
                let Some(value) = weights.filter(|v| dtype(graph, *v) == Some(DType::F32)) else { continue };
                let role = if graph.constant(value).is_some() { Role::Weight } else { Role::Activation };
                let (tensor, node) = (graph.values[value].name.clone(), label(graph, id));
                done.rows.push(Row { tensor, node, role, from: DType::F32, to: DType::F32, reason, error: None, values: None });
            }
        }
    }
    Ok(done)
}

/// A quantised activation: integers, scale and zero point.
#[derive(Clone, Copy)]
struct Quant {
    q: ValueId,
    scale: ValueId,
    zero: ValueId,
    /// The scale where it is known now.
    known: Option<f32>,
}

fn candidate(graph: &Graph, id: NodeId, form: Contraction) -> Result<Candidate, String> {
    let node = &graph.nodes[id];
    let operand = |at: usize| node.inputs.get(at).copied().flatten();
    let (Some(x), Some(weights)) = (operand(0), operand(1)) else { return Err("an operand is missing".into()) };
    if dtype(graph, x) != Some(DType::F32) || !has_rank(graph, x) {
        return Err("its input is no tensor of floats".into());
    }
    let Some(tensor) = graph.constant(weights).cloned() else { return Err("a product of two activations".into()) };
    if graph.constant(x).is_some() || tensor.dtype != DType::F32 {
        return Err("it is no product of an activation by constant floats".into());
    }
    // `[channel, products]`, whatever the operator's own order.
    let (channels, products, turned) = match form {
        Contraction::Other => return Err("the operator has no integer form".into()),
        Contraction::Convolution => (tensor.dims[0], tensor.dims[1..].iter().product(), false),
        Contraction::Product if tensor.rank() == 2 => (tensor.dims[1], tensor.dims[0], true),
        Contraction::Product => return Err("weights of more than two dims".into()),
        Contraction::Gemm => {
            let (_, beta, turned_a, turned_b) = gemm(node);
            if turned_a {
                return Err("its input is turned".into());
            }
            if operand(2).is_some_and(|c| graph.constant(c).is_none()) && beta != 1.0 {
                return Err("its addend is scaled".into());
            }
            if turned_b { (tensor.dims[0], tensor.dims[1], false) } else { (tensor.dims[1], tensor.dims[0], true) }
        }
    };
    if products < FEWEST_PRODUCTS {
        return Err(format!("sums of {products} products, fewer than {FEWEST_PRODUCTS}"));
    }
    if form == Contraction::Convolution && operand(2).is_some_and(|b| graph.constant(b).is_none()) {
        return Err("its bias is computed".into());
    }
    if form == Contraction::Convolution && groups(node) > 1 && channels as i64 == groups(node) {
        return Err("a depthwise window".into());
    }
    let values: Vec<f32> = tensor.scalars().map(|s| s.as_f64() as f32).collect();
    if values.iter().any(|v| !v.is_finite()) {
        return Err("its weights are not finite".into());
    }
    let at = |c: usize, p: usize| values[if turned { p * channels + c } else { c * products + p }];
    let scale = |c: usize| (0..products).map(|p| at(c, p).abs()).fold(0f32, f32::max) / 127.0;
    let scales: Vec<f32> = (0..channels).map(|c| Some(scale(c)).filter(|s| *s > f32::MIN_POSITIVE).unwrap_or(1.0)).collect();
    let integer = |c: usize, p: usize| (at(c, p) / scales[c]).round_ties_even().clamp(-127.0, 127.0) as i64;
    let mut gap = 0f64;
    let mut largest = 0f64;
    for (c, scale) in scales.iter().enumerate() {
        for p in 0..products {
            gap = gap.max(f64::from((at(c, p) - integer(c, p) as f32 * scale).abs()));
            largest = largest.max(f64::from(at(c, p).abs()));
        }
    }
    let quantised = if form == Contraction::Convolution {
        let all = (0..channels).flat_map(|c| (0..products).map(move |p| (c, p)));
        Tensor::from_i64s(DType::I8, tensor.dims.clone(), all.map(|(c, p)| integer(c, p)))
    } else {
        let all = (0..products).flat_map(|p| (0..channels).map(move |c| (c, p)));
        Tensor::from_i64s(DType::I8, vec![products, channels], all.map(|(c, p)| integer(c, p)))
    };
    let error = if gap == 0.0 { 0.0 } else { gap / largest };
    let rank = tensor.rank();
    Ok(Candidate { x, weights, quantised, scales, error, bias: operand(2), form, rank })
}

fn one(
    graph: &mut Graph,
    id: NodeId,
    c: Candidate,
    request: &Request,
    activations: &mut BTreeMap<ValueId, Quant>,
    done: &mut Quantised,
) -> Result<(), Diagnostic> {
    let node = label(graph, id);
    let known = activations.get(&c.x).copied();
    let x = match known {
        Some(x) => x,
        None => {
            let range = (request.range)(c.x).filter(|_| !request.dynamic);
            let x = match range {
                Some((range, _)) => fixed(graph, id, c.x, range)?,
                None => dynamic(graph, id, c.x)?,
            };
            activations.insert(c.x, x);
            done.rows.push(Row {
                tensor: graph.values[c.x].name.clone(),
                node: node.clone(),
                role: Role::Activation,
                from: DType::F32,
                to: DType::U8,
                reason: match range {
                    Some((r, _)) => format!("one scale for {:.4} to {:.4}", r.low, r.high),
                    None => "a scale by each run's own range".into(),
                },
                error: range.map(|(_, error)| error),
                values: None,
            });
            x
        }
    };
    let weights = add_constant(graph, name_of(graph, c.weights, "int8"), c.quantised.clone());
    let inputs = [Some(x.q), Some(weights), Some(x.zero)];
    let (op, attributes) = match c.form {
        Contraction::Convolution => ("ConvInteger", graph.nodes[id].attributes.clone()),
        _ => ("MatMulInteger", Attributes::new()),
    };
    let result = graph.nodes[id].outputs[0].expect("a listed node has a result");
    let name = |graph: &Graph, suffix: &str| name_of(graph, result, suffix);
    let sum = put(graph, id, op, &inputs, attributes, name(graph, "sum"))?;
    let sum = put(graph, id, "Cast", &[Some(sum)], cast_to(DType::F32), name(graph, "float"))?;
    let (alpha, beta) =
        if c.form == Contraction::Gemm { (gemm(&graph.nodes[id]).0, gemm(&graph.nodes[id]).1) } else { (1.0, 1.0) };
    let dims = |n: usize| match c.form {
        Contraction::Convolution => std::iter::once(n).chain(std::iter::repeat_n(1, c.rank - 2)).collect(),
        _ => vec![n],
    };
    let factor = alpha * x.known.unwrap_or(1.0);
    let scales: Vec<f32> = c.scales.iter().map(|s| s * factor).collect();
    let scales = add_constant(graph, name(graph, "scale"), Tensor::from_f32s(dims(scales.len()), &scales));
    let mut value = put(graph, id, "Mul", &[Some(sum), Some(scales)], Attributes::new(), name(graph, "scaled"))?;
    if x.known.is_none() {
        value = put(graph, id, "Mul", &[Some(value), Some(x.scale)], Attributes::new(), name(graph, "scaled_by_run"))?;
    }
    if let Some(bias) = c.bias {
        let addend = match graph.constant(bias).cloned() {
            Some(t) if c.form == Contraction::Convolution => {
                let dims = dims(t.len());
                add_constant(graph, name(graph, "bias"), t.reshaped(dims))
            }
            Some(t) if beta != 1.0 => {
                let scaled: Vec<f64> = t.to_f64s().into_iter().map(|v| v * f64::from(beta)).collect();
                add_constant(graph, name(graph, "addend"), Tensor::from_f64s(DType::F32, t.dims.clone(), scaled))
            }
            _ => bias,
        };
        value = put(graph, id, "Add", &[Some(value), Some(addend)], Attributes::new(), name(graph, "biased"))?;
    }
    let own = graph.values[result].name.clone();
    done.rows.push(Row {
        tensor: graph.values[c.weights].name.clone(),
        node: node.clone(),
        role: Role::Weight,
        from: DType::F32,
        to: DType::I8,
        reason: format!("{} symmetric scales", c.scales.len()),
        error: Some(c.error),
        values: None,
    });
    done.rows.push(Row {
        tensor: own.clone(),
        node,
        role: Role::Activation,
        from: DType::F32,
        to: DType::F32,
        reason: "summed in int32, scaled in f32".into(),
        error: None,
        values: Some((result, value)),
    });
    done.pairs.push((id, result, value));
    if !request.beside {
        graph.replace_uses(result, value)?;
        let old = name(graph, "before");
        graph.rename(result, old);
        graph.rename(value, own);
    }
    Ok(())
}

/// Puts a node before another one; its only result.
fn put(
    graph: &mut Graph,
    before: NodeId,
    op: &str,
    inputs: &[Option<ValueId>],
    attributes: Attributes,
    name: String,
) -> Result<ValueId, Diagnostic> {
    let new = new_node(graph, before, op, inputs, attributes, name);
    let root = graph.root;
    let node = graph.insert_before(root, before, new)?;
    Ok(only_result(graph, node))
}

/// An activation in the integers of a range.
fn fixed(graph: &mut Graph, user: NodeId, x: ValueId, range: Range) -> Result<Quant, Diagnostic> {
    let (scale, zero) = parameters(range);
    let s = add_constant(graph, name_of(graph, x, "scale"), Tensor::scalar(Scalar::from_f32(scale)));
    let z = add_constant(graph, name_of(graph, x, "zero"), Tensor::scalar(Scalar::from_f32(zero).cast(DType::U8)));
    let name = name_of(graph, x, "uint8");
    let q = put(graph, user, "QuantizeLinear", &[Some(x), Some(s), Some(z)], Attributes::new(), name)?;
    Ok(Quant { q, scale: s, zero: z, known: Some(scale) })
}

/// An activation in the integers of its own range.
fn dynamic(graph: &mut Graph, user: NodeId, x: ValueId) -> Result<Quant, Diagnostic> {
    let names = ["uint8", "scale", "zero"].map(|suffix| Some(name_of(graph, x, suffix)));
    let origin = graph.nodes[user].origin.clone();
    let new = NewNode {
        op: standard("DynamicQuantizeLinear"),
        opset: 28,
        attributes: Attributes::new(),
        inputs: vec![Some(x)],
        outputs: names.to_vec(),
        blocks: vec![],
        origin,
    };
    let root = graph.root;
    let node = graph.insert_before(root, user, new)?;
    let result = |at: usize| graph.nodes[node].outputs[at].expect("all three are asked for");
    Ok(Quant { q: result(0), scale: result(1), zero: result(2), known: None })
}
