//! What a model takes and gives, for introspection: one form for the C interfaces and the program card.

use crate::{digest::hex, json::quote, model::Model};
use oaax_abi::{DType, DimBind, InputShape, Program, SlotKind};

/// One dim of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DimInfo {
    /// The size if it is a number, else -1.
    pub size: i64,
    /// Symbol or expression, empty if there is none.
    pub symbol: String,
    /// Smallest size that a run accepts.
    pub min: i64,
    /// Largest size that a run accepts.
    pub max: i64,
    /// Sizes are multiples of this.
    pub multiple: i64,
}

/// An input or output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// Name in the model.
    pub name: String,
    /// Element type.
    pub dtype: DType,
    /// 0 tensor, 1 sequence, 2 optional.
    pub kind: u32,
    /// `None` if not even the rank is known.
    pub dims: Option<Vec<DimInfo>>,
}

fn kind(program: &Program, slot: oaax_abi::SlotId) -> u32 {
    match program.slots[slot.index()].kind {
        SlotKind::Sequence => 1,
        SlotKind::Optional => 2,
        _ => 0,
    }
}

/// Inputs and outputs in the model's order.
pub fn ports(program: &Program) -> (Vec<PortInfo>, Vec<PortInfo>) {
    let rule = |rule: &oaax_abi::DimRule| DimInfo {
        size: match rule.bind {
            DimBind::Expect(expr) => program.eval(expr, &[]).unwrap_or(-1),
            DimBind::Bind(_) => -1,
        },
        symbol: program.text(rule.symbol).to_owned(),
        min: rule.min,
        max: rule.max,
        multiple: rule.multiple,
    };
    let inputs = program.inputs.iter().map(|input| PortInfo {
        name: program.text(input.name).to_owned(),
        dtype: input.dtype,
        kind: kind(program, input.slot),
        dims: match &input.shape {
            InputShape::Ranked(rules) => Some(rules.iter().map(rule).collect()),
            _ => None,
        },
    });
    let dim = |dim: &oaax_abi::OutputDim| DimInfo {
        size: dim.size,
        symbol: program.text(dim.symbol).to_owned(),
        min: dim.size.max(0),
        max: if dim.size < 0 { i64::MAX } else { dim.size },
        multiple: 1,
    };
    let outputs = program.outputs.iter().map(|output| PortInfo {
        name: program.text(output.name).to_owned(),
        dtype: output.dtype,
        kind: kind(program, output.slot),
        dims: output.dims.as_ref().map(|dims| dims.iter().map(dim).collect()),
    });
    (inputs.collect(), outputs.collect())
}

fn port_json(port: &PortInfo) -> String {
    let dims: Vec<String> = port.dims.iter().flatten().map(|dim| dim.size.to_string()).collect();
    let symbols: Vec<String> = port.dims.iter().flatten().map(|dim| quote(&dim.symbol)).collect();
    let kind = ["tensor", "sequence", "optional"][port.kind as usize];
    let shape = if port.dims.is_some() { format!("[{}]", dims.join(",")) } else { "null".to_owned() };
    format!(
        "{{\"name\":{},\"dtype\":{},\"kind\":\"{kind}\",\"shape\":{shape},\"symbols\":[{}]}}",
        quote(&port.name),
        quote(port.dtype.name()),
        symbols.join(",")
    )
}

/// A compact JSON object about an open model.
pub fn info_json(model: &Model) -> String {
    let (inputs, outputs) = ports(model.program());
    let list = |ports: &[PortInfo]| ports.iter().map(port_json).collect::<Vec<_>>().join(",");
    let messages: Vec<String> = model.messages.iter().map(|what| quote(what)).collect();
    let device = model.device_name.as_ref().map_or("null".to_owned(), |name| quote(name));
    let copied: Vec<String> = model.copied.iter().map(|what| quote(what)).collect();
    format!(
        "{{\"name\":{},\"producer\":{},\"digest\":\"sha256:{}\",\"bound\":{},\"form\":\"{}\",\"variant\":{},\"level\":{},\"threads\":{},\
         \"weight_bytes\":{},\"device\":{device},\"messages\":[{}],\"copied\":[{}],\"inputs\":[{}],\"outputs\":[{}]}}",
        quote(&model.program().name),
        quote(&model.program().producer),
        hex(&model.digest),
        model.bound,
        model.form,
        quote(&model.variant),
        quote(&model.choice),
        model.workers(),
        model.weight_bytes(),
        messages.join(","),
        copied.join(","),
        list(&inputs),
        list(&outputs)
    )
}
