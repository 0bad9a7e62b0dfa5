//! Imported QDQ models: a contraction of dequantised operands becomes a sum of their integers.
//!
//! `Σ (a − za)·sa · (b − zb)·sb` is `sa·sb · Σ (a − za)·(b − zb)`, so the rewrite holds whatever the scales are, as long
//! as `sa` is one number and `sb` one for each output channel. The bias is added behind it in f32 as the model gives it:
//! no assumption ties its scale to the others. Runs before folding, which would widen the weights. What does not match
//! keeps the meaning of its own nodes.

use oaaxc_base::Diagnostic;
use oaaxc_ir::graph::{Attribute, Attributes, Def};
use oaaxc_ir::{DType, Graph, NodeId, Tensor, ValueId};
use oaaxc_ops::precision::{Contraction, Kind, dequantizes, gemm, kind};

use super::{add_constant, cast_to, dtype, has_rank, name_of, new_node, only_result};

/// Integers behind a float operand.
struct Integers {
    q: ValueId,
    scales: Tensor,
    zero: Option<ValueId>,
    /// The dim that several scales are along.
    axis: i64,
}

/// Rewrites them; returns how many contractions there were.
pub fn collect(graph: &mut Graph) -> Result<usize, Diagnostic> {
    let mut done = 0;
    for id in graph.root().nodes.clone() {
        if let Kind::Contraction(form) = kind(graph.nodes[id].op)
            && form != Contraction::Other
            && one(graph, id, form)?.is_some()
        {
            done += 1;
        }
    }
    Ok(done)
}

/// The integers that a value is dequantised from, by constants.
fn integers(graph: &Graph, value: ValueId) -> Option<Integers> {
    let Def::Node(node, 0) = graph.values[value].def else { return None };
    let node = &graph.nodes[node];
    if !dequantizes(node.op) || dtype(graph, value) != Some(DType::F32) || !has_rank(graph, value) {
        return None;
    }
    let q = node.inputs.first().copied().flatten()?;
    let scales = graph.constant(node.inputs.get(1).copied().flatten()?)?.clone();
    let zero = node.inputs.get(2).copied().flatten();
    let number = |name: &str, default: i64| match node.attributes.get(name) {
        Some(Attribute::Int(n)) => *n,
        _ => default,
    };
    let is_byte = matches!(dtype(graph, q)?, DType::I8 | DType::U8);
    let is_plain = scales.dtype == DType::F32 && scales.rank() <= 1 && number("block_size", 0) == 0;
    (is_byte && is_plain).then(|| Integers { q, scales, zero, axis: number("axis", 1) })
}

fn one(graph: &mut Graph, id: NodeId, form: Contraction) -> Result<Option<()>, Diagnostic> {
    let node = graph.nodes[id].clone();
    let operand = |at: usize| node.inputs.get(at).copied().flatten();
    let (Some(x), Some(w)) = (operand(0), operand(1)) else { return Ok(None) };
    let (Some(x), Some(w)) = (integers(graph, x), integers(graph, w)) else { return Ok(None) };
    let rank = graph.values[w.q].fact.ty.as_tensor().and_then(|t| t.shape.as_ref()).map_or(0, Vec::len);
    let (alpha, beta, turned_a, turned_b) = if form == Contraction::Gemm { gemm(&node) } else { (1.0, 1.0, false, false) };
    let along = match form {
        Contraction::Convolution => 0,
        Contraction::Gemm if turned_b => 0,
        _ => rank as i64 - 1,
    };
    let axis = if w.axis < 0 { w.axis + rank as i64 } else { w.axis };
    let fits = x.scales.len() == 1 && (w.scales.len() == 1 || axis == along && (form != Contraction::Product || rank == 2));
    // A zero point of several numbers stands for rows or columns as the integer operators read it.
    if !fits || turned_a || rank < 2 {
        return Ok(None);
    }
    let result = node.outputs[0].expect("a listed node has a result");
    let root = graph.root;
    let put = |graph: &mut Graph, op: &str, inputs: &[Option<ValueId>], attributes: Attributes, suffix: &str| {
        let name = name_of(graph, result, suffix);
        let new = new_node(graph, id, op, inputs, attributes, name);
        let node = graph.insert_before(root, id, new)?;
        Ok::<ValueId, Diagnostic>(only_result(graph, node))
    };
    let mut weights = w.q;
    if turned_b {
        let turn = Attributes::from([("perm".to_string(), Attribute::Ints(vec![1, 0]))]);
        weights = put(graph, "Transpose", &[Some(w.q)], turn, "turned")?;
    }
    let inputs = [Some(x.q), Some(weights), x.zero, w.zero];
    let sum = match form {
        Contraction::Convolution => put(graph, "ConvInteger", &inputs, node.attributes.clone(), "sum")?,
        _ => put(graph, "MatMulInteger", &inputs, Attributes::new(), "sum")?,
    };
    let sum = put(graph, "Cast", &[Some(sum)], cast_to(DType::F32), "float")?;
    let channels: Vec<usize> = match form {
        Contraction::Convolution => std::iter::once(w.scales.len()).chain(std::iter::repeat_n(1, rank - 2)).collect(),
        _ => vec![w.scales.len()],
    };
    let factor = x.scales.f64_at(0) as f32 * alpha;
    let scales: Vec<f32> = w.scales.to_f64s().into_iter().map(|s| s as f32 * factor).collect();
    let name = name_of(graph, result, "scale");
    let scales = add_constant(graph, name, Tensor::from_f32s(channels, &scales));
    let mut value = put(graph, "Mul", &[Some(sum), Some(scales)], Attributes::new(), "scaled")?;
    if let Some(mut bias) = operand(2) {
        if form == Contraction::Convolution {
            let dims: Vec<i64> = std::iter::once(-1).chain(std::iter::repeat_n(1, rank - 2)).collect();
            let name = name_of(graph, result, "dims");
            let dims = add_constant(graph, name, Tensor::from_i64s(DType::I64, vec![rank - 1], dims));
            bias = put(graph, "Reshape", &[Some(bias), Some(dims)], Attributes::new(), "bias")?;
        } else if beta != 1.0 {
            let name = name_of(graph, result, "beta");
            let beta = add_constant(graph, name, Tensor::from_f32s(vec![], &[beta]));
            bias = put(graph, "Mul", &[Some(bias), Some(beta)], Attributes::new(), "addend")?;
        }
        value = put(graph, "Add", &[Some(value), Some(bias)], Attributes::new(), "biased")?;
    }
    // Sizes that inference cannot prove equal to the ones before stay as they are.
    if graph.values[value].fact.ty != graph.values[result].fact.ty {
        return Ok(None);
    }
    let own = graph.values[result].name.clone();
    let before = name_of(graph, result, "before");
    graph.replace_uses(result, value)?;
    graph.rename(result, before);
    graph.rename(value, own);
    Ok(Some(()))
}
